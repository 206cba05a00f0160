"""Gradients at the prompt that compile themselves are those of the interpreter, whatever happens
between the calls."""

from __future__ import annotations

import contextlib
import gc
import io
import math
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE
from prompt_effects import KEPT
from prompt_programs import COMPILED, Case

import fgrad
from fgrad import tree
from fgrad.base.pickling import INTERPRETED
from fgrad.compile.prompt import calls
from fgrad.config import config

pytestmark = NEEDS_NATIVE

RTOL = 1e-9


@pytest.fixture(autouse=True)
def histories(monkeypatch: pytest.MonkeyPatch) -> dict[int, calls.History]:
    """Each test begins as a new process."""
    found: dict[int, calls.History] = {}
    monkeypatch.setattr(calls, "_HISTORIES", found)
    INTERPRETED.clear()
    return found


def outcomes(case: Case, setting: int) -> list[Any]:
    """Results, errors, and in the end what was printed and the warnings."""
    found: list[Any] = []
    shown = io.StringIO()
    with (
        config.override(eager_compile=setting),
        contextlib.redirect_stdout(shown),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        for outcome in case():
            found.append(_called(outcome) if callable(outcome) else outcome)
    said = sorted([(w.category.__name__, str(w.message)) for w in caught])
    return [*found, shown.getvalue(), said]


def _called(outcome: Any) -> Any:
    try:
        return outcome()
    except Exception as error:
        return type(error).__name__, str(error)


def assert_same(a: Any, b: Any, where: str) -> None:
    x: Any
    y: Any
    xs, tree_a = tree.flatten(a)
    ys, tree_b = tree.flatten(b)
    assert tree_a == tree_b, where
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y), where
        if hasattr(x, "dtype"):
            assert (x.dtype, x.shape) == (y.dtype, y.shape), where
            np.testing.assert_allclose(x, y, RTOL if x.dtype.itemsize >= 8 else 1e-4, err_msg=where)
        else:
            assert x == y, where


def compiled_kinds(histories: dict[int, calls.History]) -> int:
    return sum([k.compiled is not None for h in histories.values() for k in h.kinds.values()])


@pytest.mark.parametrize("case", [*COMPILED, *KEPT], ids=lambda case: case.__name__)
def test_calls_are_those_of_the_interpreter(
    case: Case, histories: dict[int, calls.History]
) -> None:
    wanted = outcomes(case, 0)
    assert not histories
    found = outcomes(case, 2)
    assert len(wanted) == len(found)
    for k, (x, y) in enumerate(zip(wanted, found, strict=True)):
        assert_same(x, y, f"call {k}")
    assert bool(compiled_kinds(histories)) == (case in COMPILED)


def quadratic(x: Any) -> Any:
    return np.sum(x**2) * 0.5


X = np.linspace(0.5, 1.5, 5)


def called(times: int, setting: int = 2) -> None:
    with config.override(eager_compile=setting):
        for _ in range(times):
            fgrad.grad(quadratic)(X)


def test_it_is_off_unless_it_is_asked_for(histories: dict[int, calls.History]) -> None:
    called(3, setting=0)
    assert not histories


def test_it_begins_when_interpreting_has_cost_as_much(
    histories: dict[int, calls.History],
) -> None:
    cost = calls.Cost(3)
    looked = math.ceil(calls.LOOK / cost.seconds)
    called(looked, setting=1)
    (history,) = histories.values()
    assert not history.kinds and calls.LOOK <= history.seconds < calls.LOOK + cost.seconds
    paid = math.ceil(cost.compiling / cost.seconds)
    called(paid - 5, setting=1)
    assert compiled_kinds(histories) == 0
    called(8, setting=1)
    assert compiled_kinds(histories) == 1


SETTINGS: list[dict[str, Any]] = [
    {"disable_jit": True},
    {"nans": True},
    {"infs": True},
    {"check_index": True},
    {"capture": False},
    {"checks": False},
    {"native_calls": False},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: next(iter(s)))
def test_settings_for_debugging_keep_the_interpreter(
    settings: dict[str, Any], histories: dict[int, calls.History]
) -> None:
    with config.override(**settings):
        called(3)
    assert compiled_kinds(histories) == 0


def test_debuggers_and_error_states_keep_the_interpreter(
    histories: dict[int, calls.History],
) -> None:
    seen: list[str] = []
    called(3)
    assert compiled_kinds(histories) == 1

    def trace(frame: FrameType, event: str, argument: object) -> None:
        seen.append(frame.f_code.co_name)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        called(1)
    finally:
        sys.settrace(before)
    assert "quadratic" in seen
    with (
        np.errstate(over="raise"),
        config.override(eager_compile=2),
        pytest.raises(FloatingPointError),
    ):
        fgrad.grad(quadratic)(X * 1e200)


def test_other_settings_leave_jitted_functions_compiled() -> None:
    jitted = fgrad.jit(quadratic)
    jitted(X)
    with config.override(eager_compile=1):
        jitted(X)
    assert jitted.traces == 1  # type: ignore[attr-defined]


def test_threads(histories: dict[int, calls.History]) -> None:
    wanted = fgrad.grad(quadratic)(X)

    def work(k: int) -> bool:
        results = [fgrad.grad(lambda x: k * quadratic(x))(X) for _ in range(50)]
        return all([np.allclose(found, k * wanted) for found in results])

    with config.override(eager_compile=2), ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, [1.0, 2.0, 3.0, 4] * 8))


def test_pickles_are_as_before(histories: dict[int, calls.History]) -> None:
    with config.override(eager_compile=2):
        gradient = fgrad.grad(quadratic)
        for _ in range(3):
            wanted = gradient(X)
        again = pickle.loads(pickle.dumps(gradient))
        np.testing.assert_array_equal(again(X), wanted)


def test_only_the_outermost_call_is_compiled(histories: dict[int, calls.History]) -> None:
    with config.override(eager_compile=2):
        for _ in range(3):
            found = fgrad.vmap(fgrad.grad(quadratic))(np.ones((3, 5)))
    np.testing.assert_allclose(found, np.ones((3, 5)))
    assert compiled_kinds(histories) == 0


def prints(x: Any) -> Any:
    print("called")
    return np.sum(x)


REASONS = [
    (prints, "at the prompt: interpreted, as it reads print"),
    (np.random.default_rng(0).normal, "at the prompt: interpreted, as it is an object"),
    (quadratic, "at the prompt: compiled once"),
]


@pytest.mark.parametrize(("function", "said"), REASONS, ids=[said for _, said in REASONS])
def test_explain_capture_says_what_happens(function: Any, said: str) -> None:
    with config.override(eager_compile=1), contextlib.redirect_stdout(io.StringIO()):
        args = (X,) if function in (prints, quadratic) else ()
        assert fgrad.explain_capture(function)(*args).splitlines()[-1].startswith(said)


def test_keys_that_are_gone_are_not_mistaken(histories: dict[int, calls.History]) -> None:
    """Code objects whose identity is that of one that is gone."""
    with config.override(eager_compile=2):
        for k in range(60):
            scope: dict[str, Any] = {"np": np}
            exec(f"def f(x):\n    return np.sum(x ** {k % 7 + 1})", scope)
            for _ in range(3):
                found = fgrad.grad(scope["f"])(X)
            np.testing.assert_allclose(found, (k % 7 + 1) * X ** (k % 7))
            del scope
            gc.collect()
