"""Pullbacks and pushforwards are containers of their residuals: they leave and enter traces; what
solvers and rules close over."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

X, CT = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
A = np.eye(3) * 2 + np.ones((3, 3))


def f(x: Any) -> Any:
    return np.tanh(x) * x


SLOPE = fgrad.vjp(f, X)[1](CT)[0]
pulled = fgrad.jit(lambda x: fgrad.vjp(f, x))
pushed = fgrad.jit(lambda x: fgrad.linearize(f, x))


def wide(x: Any) -> tuple[Any, dict[str, Any]]:
    return np.sum(x), {"k": np.argmax(x), "y": x * x}


# What gives SLOPE.
USES: dict[str, Callable[[], Any]] = {
    "out of jit": lambda: pulled(X)[1](CT)[0],
    "out of jit again": lambda: (pulled(X * 2), pulled(X)[1](CT)[0])[1],
    "pushforward": lambda: pushed(X)[1](CT),
    "into jit": lambda: fgrad.jit(lambda p, ct: p(ct)[0])(fgrad.vjp(f, X)[1], CT),
    "out of and into jit": lambda: fgrad.jit(lambda p, ct: p(ct)[0])(pulled(X)[1], CT),
    "in a container": lambda: fgrad.jit(lambda x: {"p": [fgrad.vjp(f, x)[1]]})(X)["p"][0](CT)[0],
    "in a loop": lambda: lax.scan(
        lambda p, _: (p, p(CT)[0]), pulled(X)[1], None, length=2)[1][1],
    "of a branch": lambda: fgrad.jit(
        lambda b, x: lax.cond(b, lambda p: p(CT)[0], lambda p: CT, fgrad.vjp(f, x)[1]))(True, X),
    "mapped over cotangents": lambda: sum(fgrad.vmap(pulled(X)[1])(np.diag(CT))[0]),
    "made in a batch": lambda: fgrad.vmap(lambda p, ct: p(ct)[0])(
        fgrad.vmap(lambda x: fgrad.vjp(f, x)[1])(X), CT),
    "traced by grad": lambda: fgrad.grad(lambda ct: np.sum(pulled(X)[1](ct)[0]))(CT) * CT,
    "of trees": lambda: fgrad.jit(lambda d: fgrad.vjp(lambda d: {"y": f(d["x"])}, d))({"x": X})[1](
        {"y": CT})[0]["x"],
    "mapped leaves": lambda: fgrad.tree.map(lambda r: r, pulled(X)[1])(CT)[0],
    "pickled": lambda: pickle.loads(pickle.dumps(pulled(X)[1]))(CT)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_a_derivative_goes_where_its_residuals_go(name: str) -> None:
    np.testing.assert_allclose(USES[name](), SLOPE, rtol=1e-12)


def test_the_same_program_serves_all_points() -> None:
    apply = fgrad.jit(lambda p, ct: p(ct))
    for x in (X, X + 1, X + 2):
        apply(pulled(x)[1], CT)
    assert apply.traces == 1


def test_residuals_have_derivatives() -> None:
    def through(x: Any) -> Any:
        return np.sum(pulled(x)[1](CT)[0])

    def plain(x: Any) -> Any:
        return np.sum(fgrad.vjp(f, x)[1](CT)[0])

    np.testing.assert_allclose(fgrad.grad(through)(X), fgrad.grad(plain)(X))


def test_results_without_derivatives_are_taken_as_zero() -> None:
    p = fgrad.jit(lambda x: fgrad.vjp(wide, x)[1])(X)
    (found,) = p((2.0, {"k": np.int64(0), "y": CT}))
    np.testing.assert_allclose(found, 2.0 + 2 * X * CT)
    with pytest.raises(fgrad.errors.ArgumentError, match="structure"):
        p(CT)
    with pytest.raises(fgrad.errors.ArgumentError, match="shape"):
        p((2.0, {"k": np.int64(0), "y": CT[:2]}))


# --- what custom functions close over -------------------------------------------------------------


def linear_root(a: Any, x: Any) -> Any:
    """a y = x, where all functions close over what is differentiated."""
    return lax.custom_root(
        lambda y: a @ y - x,
        np.zeros(3),
        lambda _f, _y: np.linalg.solve(a, x),
        lambda _g, b: np.linalg.solve(a, b),
    )


def linear_solution(a: Any, x: Any) -> Any:
    return lax.custom_linear_solve(
        lambda y: a @ y, x, lambda _mv, b: np.linalg.solve(a, b), symmetric=True
    )


TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "grad": lambda s: fgrad.grad(s, (0, 1))(A, X),
    "jit of grad": lambda s: fgrad.jit(fgrad.grad(s, (0, 1)))(A, X),
    "vmap of grad": lambda s: fgrad.vmap(fgrad.grad(s, (0, 1)), (None, 0))(A, np.stack([X, CT])),
    "jvp": lambda s: fgrad.jvp(s, (A, X), (A, CT)),
    "second": lambda s: fgrad.hessian(lambda x: s(A, x))(X),
    "second by the matrix": lambda s: fgrad.grad(
        lambda a: np.sum(fgrad.grad(s)(a, X) ** 2))(A),
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("solve", [linear_root, linear_solution])
def test_solvers_close_over_what_is_differentiated(solve: Any, transform: str) -> None:
    def loss(solve: Any, a: Any, x: Any) -> Any:
        a = (a + a.T) / 2
        return np.sum(np.sin(solve(a, x)))

    found = TRANSFORMS[transform](functools.partial(loss, solve))
    expected = TRANSFORMS[transform](functools.partial(loss, np.linalg.solve))
    for got, want in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_a_rule_may_call_its_function_on_tangents() -> None:
    @fgrad.custom_jvp
    def double(x: Any) -> Any:
        return 2 * x

    double.defjvp(lambda primals, tangents: (double(*primals), double(*tangents)))
    assert fgrad.jvp(double, (1.0,), (3.0,)) == (2.0, 6.0)
    assert fgrad.grad(double)(1.0) == fgrad.jit(fgrad.grad(double))(1.0) == 2.0
    assert fgrad.hessian(double)(1.0) == 0.0
    np.testing.assert_array_equal(fgrad.vmap(fgrad.grad(double))(X), np.full(3, 2.0))
