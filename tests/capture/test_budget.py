"""Loops that are written out make programs of a bounded size, and tracing takes bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import InPlaceError, TooManyStepsError
from fgrad.ir.walk import subprograms
from fgrad.tracing import budget

X = np.ones(8)


def appends(x: Any) -> Any:
    items = []
    for i in range(300):
        items.append(x[i % 8] * 0.5 + i)
    return items[-1]


def appends_in_a_nest(x: Any) -> Any:
    items = []
    for i in range(20):
        for j in range(20):
            x[j % 8] = x[j % 8] * 0.5
            items.append(i)
    return x, len(items)


def walks_a_list(x: Any) -> Any:
    s = 0.0
    for k in list(range(300)):
        s += np.sin(x[0] * k)
    return s


def appends_in_while(x: Any) -> Any:
    items, i = [], 0
    while i < 300:
        items.append(x[0] * 2.0 + i)
        i += 1
    return items[-1]


def is_rolled_but_refused(x: Any, m: Any) -> Any:
    for i in range(100_000):
        row = m[i % 3]
        x = np.sin(x) * 0.5
    m[0] = 1.0
    return x + row  # another array of `m` each time


@pytest.mark.parametrize(
    "program",
    [appends, appends_in_a_nest, walks_a_list, appends_in_while],
    ids=lambda f: f.__name__,
)
def test_a_program_that_is_too_large_is_refused(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MOST_EQUATIONS", 500)
    with pytest.raises(TooManyStepsError, match="it is not recorded as one loop: "):
        fgrad.jit(program)(X)
    with pytest.raises(TooManyStepsError):
        fgrad.vmap(program)(np.ones((2, 8)))
    assert program(X.copy()) is not None
    fgrad.jit(lambda x: x + 1)(X)  # what was counted belongs to the trace that has ended
    monkeypatch.undo()
    fgrad.jit(program)(X)


def test_no_limit_without_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_EQUATIONS", 500)
    assert np.isclose(fgrad.jit(appends, capture=False)(X), appends(X))


def test_loops_that_are_refused_are_not_written_out_by_plain_tracing() -> None:
    begin = time.process_time()
    with pytest.raises(InPlaceError):
        fgrad.jit(is_rolled_but_refused)(X, np.ones((3, 8)))
    assert time.process_time() - begin < 5.0


def nested_branches(depth: int) -> str:
    """A function whose branches stand in each other, in a loop."""
    lines = ["def f(x):", "    s = 0.0", "    for i in range(6):"]
    for k in range(depth):
        lines.append("    " * (k + 2) + f"if x[{k % 4}] + s > 0.1 * {k}:")
        lines.append("    " * (k + 3) + "s = s + 0.1")
    return "\n".join([*lines, "    return s", ""])


def test_a_nest_of_branches_is_traced_in_linear_time(tmp_path: Any) -> None:
    path = tmp_path / "nested.py"
    path.write_text(nested_branches(12))
    exec(compile(path.read_text(), str(path), "exec"), scope := {"np": np})
    begin = time.process_time()
    assert np.isclose(fgrad.jit(scope["f"])(X), scope["f"](X))
    assert time.process_time() - begin < 20.0


def has_one_of_many_names(x: Any) -> Any:
    y = np.zeros(8)
    u = y
    items = []
    for i in range(40):
        if x[i % 8] < 0.5:
            y = 0.5 * np.sin(x)
            x = x + y + u
        items.append(i)
    return x


def test_names_of_one_array_do_not_multiply() -> None:
    begin = time.process_time()
    assert np.allclose(fgrad.jit(has_one_of_many_names)(X), has_one_of_many_names(X))
    assert time.process_time() - begin < 20.0


def test_equal_loops_of_a_loop_that_is_written_out_are_one_program() -> None:
    def f(x: Any) -> Any:
        s, found = 0.0, []
        for _ in range(12):
            for j in range(9):
                s += x[j] if x[j] > s else np.sin(x[j])
            found.append(s)
        return found

    program = fgrad.make_program(f)(np.arange(9.0))
    assert len([eqn for eqn in program.eqns if eqn.prim.name == "scan"]) == 12
    assert len(subprograms(program)) <= 1 + 2 * 3  # the first one begins with Python's 0.0
