"""Minima under constraints, programs, fixed points and further minimisers: their derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import fgrad
import fgrad.scipy.optimize as so
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import ArgumentError, UnsupportedNumpyError

Q = np.array([1.0, 2.0])
A = np.array([[2.0, 1.0, 0.3], [0.5, 3.0, 0.2], [1.0, -1.0, 0.7], [0.1, 0.4, -0.9]])
B = np.array([1.0, -2.0, 0.5, 1.5])


def _square(x: Any, p: Any) -> Any:
    return np.sum((x - p * Q) ** 2)


# A number that depends on p.
SOLUTIONS: dict[str, Callable[[Any], Any]] = {
    "eq": lambda p: so.minimize(
        lambda x: x[0] ** 2 + 2 * x[1] ** 2, Q, tol=1e-12,
        constraints={"type": "eq", "fun": lambda x: x[0] + x[1] - p * p},
    ).x[1],
    "eq args": lambda p: so.minimize(
        lambda x: x[0] ** 2 + 2 * x[1] ** 2, Q, tol=1e-12,
        constraints={"type": "eq", "fun": lambda x, p: x[0] + x[1] - p * p, "args": (p,)},
    ).x[1],
    "ineq that holds": lambda p: so.minimize(
        lambda x: _square(x, p), Q, tol=1e-12,
        constraints=[{"type": "ineq", "fun": lambda x: p - x @ x}],
    ).x[0],
    "ineq that does not": lambda p: so.minimize(
        lambda x: _square(x, p), Q, tol=1e-12,
        constraints=[{"type": "ineq", "fun": lambda x: 100 * p - x @ x}],
    ).x[0],
    "constraint and bounds": lambda p: so.minimize(
        lambda x: _square(x, p), Q, tol=1e-12, bounds=[(None, None), (0.0, 0.3 * p)],
        constraints=[{"type": "ineq", "fun": lambda x: 0.5 * p - x[0]}],
    ).x @ Q,
    "nonlinear object": lambda p: so.minimize(
        lambda x: _square(x, p), Q, tol=1e-12,
        constraints=so.NonlinearConstraint(lambda x: x @ x, -1.0, p),
    ).fun,
    "linear object": lambda p: so.minimize(
        lambda x: _square(x, 1.0), Q, tol=1e-12,
        constraints=[so.LinearConstraint(np.stack([Q, Q[::-1] * p]), -np.inf, p * Q)],
    ).x[1],
    "trust-constr": lambda p: so.minimize(
        lambda x: _square(x, p), Q, method="trust-constr", tol=1e-10,
        constraints=scipy.optimize.NonlinearConstraint(lambda x: x[0] * x[1], 1.0, 1.0),
    ).x[0],
    "cobyqa": lambda p: so.minimize(
        lambda x: _square(x, p), Q, method="COBYQA",
        constraints={"type": "ineq", "fun": lambda x: p - x[0] - x[1]},
    ).x[0],
    "bounds object": lambda p: so.minimize(
        lambda x: _square(x, p), Q, tol=1e-12, bounds=so.Bounds(0.0, p * p * np.array([0.1, 9.0]))
    ).x @ Q,
    "tree": lambda p: so.minimize(
        lambda t: np.sum((t["a"] - p) ** 2) + (t["b"][0] - p * p) ** 2 + t["a"][0, 1] * t["b"][0],
        {"a": np.zeros((2, 2)), "b": [0.0]}, tol=1e-12,
    ).x["b"][0],
    "tree, bounds and constraint": lambda p: so.minimize(
        lambda t: (t["a"] - p) ** 2 + np.sum((t["b"] - p * p) ** 2),
        {"a": 0.0, "b": np.zeros(2)}, tol=1e-12,
        bounds=so.Bounds({"a": -1.0, "b": np.zeros(2)}, {"a": 9.0, "b": np.array([p, 90.0])}),
        constraints={"type": "eq", "fun": lambda t: t["a"] - t["b"][1]},
    ).x["a"],
    "linprog": lambda p: so.linprog(
        [-3.0, -2.0], [[1.0, 1.0], [p, 0.3]], np.stack([4.0, 3.0 * p * p])
    ).x @ Q,
    "linprog eq": lambda p: so.linprog(
        np.stack([p, 1.0, 3.0]), A_eq=[[1.0, 1.0, p]], b_eq=[2.5], bounds=[(0, 0.5 * p)] * 3
    ).fun,
    "linprog slack": lambda p: np.sum(so.linprog(
        [-1.0, -2.0], [[1.0, 1.0], [1.0, 0.0]], np.stack([p, 5.0])
    ).slack),
    "lsq_linear": lambda p: so.lsq_linear(A * p, B, (-0.1 * p, 1.0)).x @ A[0],
    "nnls": lambda p: so.nnls(A, B + p * A[:, 0])[0] @ A[1],
    "nnls norm": lambda p: so.nnls(A, B * p)[1],
    "isotonic_regression": lambda p: so.isotonic_regression(
        np.stack([3.0, 2.0 * p, 1.0, 7.0]), weights=np.stack([p, 1.0, 2.0, 1.0])
    ).x[1],
    "fixed_point": lambda p: so.fixed_point(lambda x: np.cos(p * x), np.array([0.3, 0.5]))[1],
    "curve_fit bounds": lambda p: so.curve_fit(
        lambda x, a, b: a * x * p + b, B, B**2, bounds=([-9.0, 0.1 * p], [9.0, 50.0])
    )[0] @ Q,
    "curve_fit sigma": lambda p: np.sum(so.curve_fit(
        lambda x, a, b: a * x * p + b, B, B**2, sigma=np.exp(p * B), absolute_sigma=True
    )[1]),
    "curve_fit covariance": lambda p: np.sum(so.curve_fit(
        lambda x, a, b: a * x * p + b, B, B**2, sigma=np.eye(4) + 0.1 * p
    )[0]),
    **{
        name: lambda p, name=name, more=more: so.root(
            lambda x: 3 * x + x**3 / 9 - p, np.full(2, 0.3), method=name, tol=1e-12
        ).x[0] + 0 * more
        for name, more in (("broyden1", 0), ("krylov", 0))
    },
    "newton_krylov": lambda p: so.newton_krylov(
        lambda x: 3 * x + x**3 / 9 - p, np.full(2, 0.3), f_tol=1e-11
    )[0],
    "fmin_bfgs": lambda p: so.fmin_bfgs(
        lambda x: _square(x, p) ** 2 + _square(x, p * p), Q, gtol=1e-12, disp=0
    )[0],
    "leastsq": lambda p: so.leastsq(
        lambda x: A @ x - B * p - x[0] ** 2, np.zeros(3), ftol=1e-15, xtol=1e-15
    )[0][0],
    "fminbound": lambda p: so.fminbound(lambda x: x**4 / 4 - p * x, 0.0, 3.0, xtol=1e-12),
    "differential_evolution": lambda p: so.differential_evolution(
        lambda x: _square(x, p) ** 2 + _square(x, p * p), [(-9.0, 9.0)] * 2, rng=1, tol=1e-12,
        maxiter=40,
    ).x[0],
    "brute": lambda p: so.brute(lambda x: _square(x, p), [(-9.0, 9.0)] * 2)[1],
}  # fmt: skip
LOOSE = ("leastsq", "cobyqa", "trust-constr", "fminbound", "brute", "differential_evolution",
         "fmin_bfgs")  # fmt: skip
COMPILED = ("eq", "constraint and bounds", "linprog", "nnls", "tree", "isotonic_regression")


@pytest.mark.parametrize("name", SOLUTIONS)
def test_derivatives(name: str) -> None:
    f = SOLUTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        h, rtol = (1e-2, 2e-2) if name in LOOSE else (1e-4, 1e-5)
        expected = (f(2.0 + h) - f(2.0 - h)) / (2 * h)
        np.testing.assert_allclose(grad(f)(2.0), expected, rtol=rtol, atol=1e-6)
        np.testing.assert_allclose(jvp(f, (2.0,), (1.0,))[1], expected, rtol=rtol, atol=1e-6)
        np.testing.assert_allclose(jit(f)(2.0), f(2.0), rtol=1e-5, atol=1e-7)
        if name in COMPILED:
            found = vmap(grad(f))(np.array([2.0, 2.0]))[1]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            second = (grad(f)(2.0 + h) - grad(f)(2.0 - h)) / (2 * h)
            np.testing.assert_allclose(grad(grad(f))(2.0), second, rtol=1e-4, atol=1e-5)


def test_plain_arguments_are_scipys() -> None:
    found = so.linprog([-1.0], [[1.0]], [2.0])
    assert isinstance(found, scipy.optimize.OptimizeResult) and found.x == 2.0
    found = so.minimize(
        lambda t: t["a"] ** 2,
        {"a": 1.0},
        constraints=so.NonlinearConstraint(lambda t: t["a"], 1, 2),
    )
    assert found.x["a"] == pytest.approx(1.0)
    found = so.minimize(lambda x: x @ x, Q, bounds=so.Bounds(0.5, 2.0))
    np.testing.assert_allclose(found.x, 0.5)
    for name in ("rosen", "rosen_der", "rosen_hess"):
        np.testing.assert_allclose(getattr(so, name)(B), getattr(scipy.optimize, name)(B))


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (lambda p: so.linprog([p], integrality=[1]).fun, UnsupportedNumpyError),
        (lambda p: so.fmin(lambda x: _square(x, p), Q, full_output=1)[0], UnsupportedNumpyError),
        (lambda p: so.fmin(lambda x: _square(x, p), Q, fultol=1), TypeError),
        (lambda p: so.minimize(sum, Q * p, constraints={"type": "<", "fun": abs}).fun,
         ArgumentError),
        (lambda p: so.minimize(lambda t: t["a"] * p, {"a": 1.0}, bounds=[(0, 1)]).fun,
         ArgumentError),  # pairs are in a tree like x0
        (lambda p: so.minimize(lambda t: t["a"], {"a": p}, jac=abs).fun, UnsupportedNumpyError),
        (lambda p: so.curve_fit(lambda x, a: a * p * x, Q, Q, nan_policy="omit")[0][0],
         UnsupportedNumpyError),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(program: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        grad(program)(2.0)


def test_a_generator_of_quadratic_programs() -> None:
    """min 1/2 x'Hx - x'(g + p d) with random inequalities: KKT against differences."""
    rng = np.random.default_rng(3)
    for _ in range(4):
        root, g, d = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
        rows, top = rng.normal(size=(3, 3)), rng.uniform(0.1, 0.5, size=3)

        def solution(p: Any, root=root, g=g, d=d, rows=rows, top=top) -> Any:
            def f(x: Any) -> Any:
                return 0.5 * np.sum((root @ x) ** 2) + 0.5 * x @ x - x @ (g + p * d)

            within = so.LinearConstraint(rows, -np.inf, top * (1 + 0.1 * p))
            return so.minimize(f, np.zeros(3), constraints=within, tol=1e-14).x @ d

        h = 1e-4
        expected = (solution(1.0 + h) - solution(1.0 - h)) / (2 * h)
        np.testing.assert_allclose(fgrad.grad(solution)(1.0), expected, rtol=2e-3, atol=1e-5)
