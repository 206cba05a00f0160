"""`v += x` where `v` is a plain array and `x` is traced: right if one variable alone refers to the
array, and refused if anything else might see that it was not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import FgradError

V, M, X = np.array([1.0, 2.0, 3.0]), np.arange(9.0).reshape(3, 3), np.array([0.5, 1.5, -0.3])
RIGHT: dict[str, Callable[[Any], Any]] = {}
REFUSED: dict[str, Callable[[Any], Any]] = {}


def right(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    RIGHT[program.__name__] = program
    return program


def refused(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    REFUSED[program.__name__] = program
    return program


@right
def a_copy(x: Any) -> Any:
    v = V.copy()
    v += x
    return np.sum(v * v)


@right
def a_formula(x: Any) -> Any:
    v = np.cos(V) * 2.0
    v -= x
    v *= x
    return np.sum(v * v)


@right
def a_row_for_all_rows(x: Any) -> Any:
    m = M.copy()
    m /= 2.0 + x
    return np.sum(m * m)


@right
def a_view_of_nothing_else(x: Any) -> Any:
    v = M.copy().reshape(9)[::-1][:3]
    v += x
    return np.sum(v * V)


@right
def integers_then_floats(x: Any) -> Any:
    v = V.astype(int).astype(float)
    v **= 2
    v += x
    return np.sum(v * v)


@right
def of_a_library(x: Any) -> Any:
    v = np.random.default_rng(0).standard_normal(3)
    v += x
    return np.sum(v * v)


@right
def in_a_loop(x: Any) -> Any:
    q, v = V.copy(), V.copy() * 0.1
    for _ in range(20):
        v += -0.1 * x * q
        q += 0.1 * v
    return np.sum(q * q)


@right
def in_a_nest(x: Any) -> Any:
    q = M.copy()
    for i in range(5):
        for j in range(6):
            q += 0.01 * x * (i + j)
    return np.sum(q * q)


@right
def in_a_while(x: Any) -> Any:
    q, k = V.copy(), 0
    while k < 12:
        q *= 1.0 + 0.1 * x
        k += 1
    return np.sum(q)


@right
def in_a_branch(x: Any) -> Any:
    v = V.copy()
    if x[0] > 0.0:
        v += x
    return np.sum(v * v)


@right
def given_to_a_function(x: Any) -> Any:
    def force(q: Any, x: Any) -> Any:
        return -x * q

    q = V.copy()
    for _ in range(10):
        q += 0.1 * force(q, x)
    return np.sum(q * q)


@right
def of_a_cell(x: Any) -> Any:
    v = V.copy()

    def norm() -> Any:
        return np.sum(v * v)

    v += x
    return norm()


@right
def a_parameter_bound_anew(x: Any, v: Any = V) -> Any:
    v = v.copy()
    v += x
    return np.sum(v * v)


@right
def plain_first(x: Any) -> Any:
    w = np.linspace(0.0, 1.0, 3)
    w /= w.sum()
    total = 0.0
    for k in range(int(w[2] * 3)):
        total = total + x[k]
    w += x
    return np.sum(w * w) + total


@refused
def another_name(x: Any) -> Any:
    v = V.copy()
    w = v
    v += x
    return np.sum(w * v)


@refused
def a_view(x: Any) -> Any:
    m = M.copy()
    row = m[0]
    row += x
    return np.sum(m * m)


@refused
def an_array_with_a_view(x: Any) -> Any:
    m = M.copy()
    row = m[0]
    m += x
    return np.sum(row * x)


@refused
def in_a_list(x: Any) -> Any:
    v = V.copy()
    kept = [v]
    v += x
    return np.sum(kept[0] * x)


@refused
def in_a_list_in_a_loop(x: Any) -> Any:
    v = V.copy()
    kept = [v]
    for _ in range(10):
        v += x
    return np.sum(kept[0] * x)


@refused
def from_outside(x: Any) -> Any:
    v = V
    v += x
    return np.sum(v * v)


@refused
def a_default(x: Any, v: Any = V.copy()) -> Any:  # noqa: B008
    v += x
    return np.sum(v * v)


@refused
def out_of_a_ufunc(x: Any) -> Any:
    v = V.copy()
    np.add(v, x, out=v)
    return np.sum(v * v)


WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "value": lambda f: fgrad.jit(f)(X),
    "grad": lambda f: fgrad.grad(f)(X),
    "compiled grad": lambda f: fgrad.jit(fgrad.grad(f))(X),
    "batch": lambda f: fgrad.vmap(fgrad.grad(f))(np.stack([2.0 * X, X]))[1],
    "jvp": lambda f: fgrad.jvp(f, (X,), (np.ones(3),))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, way: str) -> None:
    program = RIGHT[name]
    slopes = [(program(X + s) - program(X - s)) / 2e-6 for s in 1e-6 * np.eye(3)]
    want = {"value": program(X), "jvp": np.sum(slopes)}.get(way, slopes)
    for _ in range(2):  # the arrays outside are as they were
        np.testing.assert_allclose(WAYS[way](program), want, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, way: str) -> None:
    before = V.copy()
    with pytest.raises(FgradError, match=r"plain NumPy array|changes a ndarray"):
        WAYS[way](REFUSED[name])
    np.testing.assert_array_equal(V, before)


def test_a_variable_of_a_module_is_refused() -> None:
    scope: dict[str, Any] = {"np": np, "v": V.copy()}
    exec("def program(x):\n    global v\n    v += x\n    return np.sum(v * v)", scope)
    with pytest.raises(FgradError):
        fgrad.grad(scope["program"])(X)
    np.testing.assert_array_equal(scope["v"], V)


def test_shapes_that_do_not_fit_are_numpys_error() -> None:
    def program(x: Any) -> Any:
        v = V.copy()
        v += np.stack([x, x])
        return np.sum(v)

    with pytest.raises(ValueError, match="broadcast"):
        fgrad.grad(program)(X)


def test_integers_are_not_cast() -> None:
    def program(x: Any) -> Any:
        v = np.array([1, 2, 3]) + 0
        v += x
        return np.sum(v)

    with pytest.raises(TypeError, match="cannot hold"):
        fgrad.grad(program)(X)
