"""All that takes a user's function and traces it traces its form, in which plain writes work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp

X = np.array([1.0, 2.0, 3.0])
ROWS = np.stack([X, 2 * X])
DIAGONAL = np.array([3.0, 1.0, 1.0])  # of the function below, which is linear
Function = Callable[..., Any]


def plain(x: Any) -> Any:
    y = np.zeros(3)
    y[0] = 2 * x[0]
    return y + x


def written(x: Any) -> Any:
    y = fnp.zeros(3)
    y[0] = 2 * x[0]
    return y + x


def _root(f: Function) -> Any:
    def solve_linear(g: Function, y: Any) -> Any:
        return y / DIAGONAL

    def loss(a: Any) -> Any:
        solved = fgrad.custom_root(lambda x: f(x) - a, X, lambda g, x: a / DIAGONAL, solve_linear)
        return np.sum(solved)

    return fgrad.grad(loss)(X)


def _linear_solve(f: Function) -> Any:
    def solve(g: Function, b: Any) -> Any:
        return b / DIAGONAL

    return fgrad.jit(lambda b: fgrad.custom_linear_solve(f, b, solve, symmetric=True))(X)


def _custom_jvp(f: Function) -> Any:
    g = fgrad.custom_jvp(lambda x: np.sum(x))
    g.defjvps(lambda t, out, x: np.sum(f(t)))
    return fgrad.jit(fgrad.grad(g))(X)


def _custom_vjp(f: Function) -> Any:
    g = fgrad.custom_vjp(lambda x: np.sum(x))
    g.defvjp(lambda x: (np.sum(x), x), lambda x, ct: (ct * f(x),))
    return fgrad.jit(fgrad.grad(g))(X)


def _while(f: Function) -> Any:
    return fgrad.jit(lambda x: fgrad.lax.while_loop(lambda x: f(x)[0] < 50, f, x))(X)


CALLERS: dict[str, Callable[[Function], Any]] = {
    "jvp": lambda f: fgrad.jvp(f, (X,), (X,)),
    "vjp": lambda f: fgrad.vjp(f, X)[1](X),
    "linearize": lambda f: fgrad.linearize(f, X)[1](X),
    "jacfwd": lambda f: fgrad.jacfwd(f)(X),
    "jacrev": lambda f: fgrad.jacrev(f)(X),
    "vmap": lambda f: fgrad.vmap(f)(ROWS),
    "jit": lambda f: fgrad.jit(f)(X),
    "checkpoint": lambda f: fgrad.jacrev(fgrad.checkpoint(f))(X),
    "functionalize": lambda f: fgrad.functionalize(f)(X)[0],
    "linear_transpose": lambda f: fgrad.linear_transpose(f, X)(X),
    "closure_convert": lambda f: fgrad.closure_convert(f, X)[0](X),
    "custom_root": _root,
    "custom_linear_solve": _linear_solve,
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "sequential_vmap": lambda f: fgrad.vmap(fgrad.sequential_vmap(f))(ROWS),
    "explain_zero": lambda f: str(fgrad.explain_zero(f, X)),
    "scan": lambda f: fgrad.lax.scan(lambda c, x: (f(c), f(x)), X, ROWS),
    "map": lambda f: fgrad.lax.map(f, ROWS),
    "map in blocks": lambda f: fgrad.lax.map(f, ROWS, batch_size=2),
    "associative_scan": lambda f: fgrad.jit(
        lambda x: fgrad.lax.associative_scan(lambda a, b: a + b, fgrad.lax.map(f, x))
    )(ROWS),
    "while_loop": _while,
    "fori_loop": lambda f: fgrad.lax.fori_loop(0, 3, lambda i, x: f(x), X),
    "cond": lambda f: fgrad.jit(lambda x: fgrad.lax.cond(x[0] > 0, f, f, x))(X),
    "sparse.jacobian": lambda f: fgrad.sparse.jacobian(f)(X).toarray(),
    "numpy.vectorize": lambda f: fgrad.jit(fnp.vectorize(f, signature="(n)->(n)"))(ROWS),
    "numpy.apply_along_axis": lambda f: fgrad.jit(lambda x: fnp.apply_along_axis(f, 1, x))(ROWS),
    "testing.check_grads": lambda f: fgrad.testing.check_grads(f, (X,)),
    "scipy.optimize.minimize": lambda f: (
        fgrad.scipy.optimize.minimize(lambda x: np.sum(f(x - X) ** 2), np.zeros(3)).x
    ),
    "scipy.integrate.odeint": lambda f: fgrad.jit(
        lambda x: fgrad.scipy.integrate.odeint(lambda y, t: -f(y), x, np.linspace(0, 1, 3))
    )(X),
}


@pytest.mark.parametrize("name", CALLERS)
def test_plain_writes_work_under_all_that_trace(name: str) -> None:
    found, expected = CALLERS[name](plain), CALLERS[name](written)
    for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(expected), strict=True):
        if isinstance(b, str):
            assert a == b.replace("written", "plain")
        else:
            np.testing.assert_array_equal(a, b)
