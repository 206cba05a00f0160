"""Arrays that stay NumPy's at the prompt until traced values are written: each program has the
derivative of finite differences, whatever its arrays are called, viewed or handed on."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import captured_programs
import numpy as np
import pytest

import fgrad
from fgrad.capture import light
from fgrad.capture.convert import converted
from fgrad.capture.names import MADE
from fgrad.capture.source import codes_in

X = np.linspace(0.3, 1.2, 4)


def filled(x: Any) -> Any:
    y = np.zeros(4)
    for i in range(4):
        y[i] = x[i] * x[i - 1]
    return np.sum(y * y)


def plain_first(x: Any) -> Any:
    y = np.zeros(4)
    for i in range(4):
        y[i] = 0.5 * i
    y[1] += x[2]
    y *= x
    return np.sum(y**2)


def viewed(x: Any) -> Any:
    y = np.zeros((2, 4))
    row = y[1]
    y[1, 2] = x[0] ** 2
    return np.sum(row * x)


def view_written(x: Any) -> Any:
    y = np.ones((2, 4))
    row = y[1]
    row[2] = x[0] ** 2
    return np.sum(y * x)


def renamed(x: Any) -> Any:
    y = np.ones(4)
    z = y
    z[0] = x[0] ** 3
    return np.sum(y * x)


def in_a_list(x: Any) -> Any:
    y = np.ones(4)
    kept = [y]
    y[0] = x[0] ** 3
    return np.sum(kept[0] * x)


def rows_in_a_list(x: Any) -> Any:
    y, rows = np.ones((2, 4)), [None] * 2
    for k in range(2):
        rows[k] = y[k]
    y[0, 1] = x[0] ** 3
    return np.sum(rows[0] * x)


def rows_listed_of_one(x: Any) -> Any:
    y = np.ones((2, 4))
    rows = [None]
    rows[0] = y[0]
    y[0, 1] = x[0] ** 3
    return np.sum(rows[0] * x)


def walked(x: Any) -> Any:
    y = np.ones((2, 4))
    s = 0.0
    for row in y:
        y[1, 1] = x[1] ** 2
        s = s + np.sum(row * x)
    return s


def of_a_closure(x: Any) -> Any:
    y = np.ones(4)

    def put() -> None:
        y[1] = x[0] * 2.0

    put()
    y[2] = x[1] ** 2
    return np.sum(y * x)


def as_a_default(x: Any) -> Any:
    y = np.ones(4)

    def total(z: Any = y) -> Any:
        return np.sum(z * x)

    y[2] = x[1] ** 2
    return total()


def handed_on(x: Any) -> Any:
    y = np.ones(4)
    _write(y, x)
    return np.sum(y * x)


def _write(y: Any, x: Any) -> None:
    y[0] = x[0] ** 2


def chosen(x: Any) -> Any:
    y, z = np.ones(4), np.zeros(4)
    w = y if x[0] > 0 else z
    w[0] = x[0] ** 2
    return np.sum((y + z) * x)


def masked(x: Any) -> Any:
    y = np.ones(4)
    y[x > 0.7] = 2.0
    y[np.argmax(x)] = x[0]
    return np.sum(y * x)


def several_targets(x: Any) -> Any:
    y = np.zeros(4)
    y[0], y[1] = x[1], x[0] ** 2
    z = y[2] = x[3]
    return np.sum(y * x) + z


def an_output(x: Any) -> Any:
    y = np.zeros(4)
    np.multiply(x, x, out=y)
    return np.sum(y * x)


def written_at(x: Any) -> Any:
    y = np.zeros(4)
    np.add.at(y, [0, 0, 1], x[:3])
    return np.sum(y * x)


def elements_of_elements(x: Any) -> Any:
    y = np.zeros((4, 4))
    y[1][2] = x[1] ** 2
    return np.sum(y @ x)


def a_list(x: Any) -> Any:
    y = np.zeros(4)
    y[1:3] = [x[0], x[1] * x[2]]
    return np.sum(y * x)


def bound_anew(x: Any) -> Any:
    y = np.ones(4)
    for _ in range(3):
        z = y[1:] * 1.0
        y = y * 0.5
        y[0] = x[0] * z[0]
    return np.sum(y * x)


def constants(x: Any) -> Any:
    y = np.array([1.0, 2.0, 3.0, 4.0])
    z = np.full(4, 2.0)
    y[1:3] = x[1:3] ** 2
    z[0] += x[0]
    return np.sum(y * x * z)


def comprehension(x: Any) -> Any:
    y = np.zeros(4)
    for i in range(4):
        y[i] = sum([y[k] * x[k] for k in range(i)]) + x[i]
    return np.sum(y)


def left_by_finally(x: Any) -> Any:
    def inner() -> Any:
        y = np.zeros(4)
        try:
            return y
        finally:
            y[1] = x[1] ** 2

    return np.sum(inner() * x)


def an_identity(x: Any) -> Any:
    y = np.zeros(4)
    held = {"y": y}
    y[0] = x[0] ** 2
    return np.sum(y * x) if held["y"] is y else x[0]


def unfinished_names(x: Any) -> Any:
    capture_ = written = value_ = item_ = result_ = 2.0
    y = np.zeros(4)
    y[0] = x[0] * capture_
    y[1], z = x[1] * written, value_
    for v in x:
        if v > 2.0:
            return v
        y[2] = y[2] + sum(item_ * w for w in x) * z
    return np.sum(y) * result_


PROGRAMS: list[Callable[[Any], Any]] = [
    filled, plain_first, viewed, view_written, renamed, in_a_list, rows_in_a_list, walked,
    rows_listed_of_one, of_a_closure, as_a_default, handed_on, chosen, masked, several_targets,
    an_output, written_at, elements_of_elements, a_list, bound_anew, constants, comprehension,
    left_by_finally, an_identity, unfinished_names,
]  # fmt: skip


def slope(f: Callable[[Any], Any], x: Any, step: float = 1e-6) -> Any:
    moves = step * np.eye(len(x))
    return np.array([(f(x + d) - f(x - d)) / (2 * step) for d in moves])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("ways", ["grad", "jacfwd", "of a gradient"])
def test_derivatives_are_those_of_differences(program: Callable[[Any], Any], ways: str) -> None:
    f = program
    if ways == "of a gradient":
        f = lambda x: np.sum(fgrad.grad(program)(x) * x)  # noqa: E731
    found = (fgrad.jacfwd if ways == "jacfwd" else fgrad.grad)(f)(X)
    np.testing.assert_allclose(found, slope(f, X), rtol=1e-6, atol=1e-6)


def test_names_that_end_with_a_line_are_the_users() -> None:
    np.testing.assert_allclose(fgrad.jit(unfinished_names)(X), unfinished_names(X))


def stays(x: Any) -> Any:
    y = np.zeros(4)
    for i in range(1, 4):
        y[i] = 0.5 * i
    return np.sum(y * x + np.zeros(4)) + len(y) + y.shape[0]


def test_what_no_traced_value_is_written_into_stays_as_it_is() -> None:
    assert light.light_code(stays) is None  # type: ignore[arg-type]


def names_of(code: CodeType) -> set[str]:
    return {n for c in codes_in(code) for n in (*c.co_varnames, *c.co_cellvars, *c.co_freevars)}


CAPTURED = [
    f
    for f in [*vars(captured_programs).values(), *PROGRAMS]
    if type(f) is FunctionType and f.__module__ in (captured_programs.__name__, __name__)
]


@pytest.mark.parametrize("calls_alone", [False, True])
def test_no_name_of_the_users_is_one_that_rewriting_makes(calls_alone: bool) -> None:
    """`item_` and `value_` are names that users have: what is made begins with a point."""
    for f in CAPTURED:
        new = names_of(converted(f, calls_alone).__code__) - names_of(f.__code__)
        assert [name for name in new if not name.startswith((MADE, "__"))] == [], f
