"""scipy.optimize: every method finds what SciPy finds, with derivatives by fgrad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize as plain

import fgrad.scipy.integrate as integrate
import fgrad.scipy.optimize as so
from fgrad.errors import ArgumentError


def rosenbrock(x: Any, scale: float = 100.0) -> Any:
    return np.sum(scale * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


METHODS = [None, "BFGS", "L-BFGS-B", "CG", "TNC", "SLSQP", "Newton-CG", "trust-ncg",
           "trust-krylov", "trust-exact", "dogleg", "trust-constr", "Nelder-Mead"]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_minimize(method: str | None) -> None:
    x0 = np.array([1.02, 1.01, 1.03]) if method == "dogleg" else np.array([-0.5, 1.2, 0.8])
    result = so.minimize(rosenbrock, x0, args=(10.0,), method=method)
    np.testing.assert_allclose(result.x, 1.0, atol=2e-3)


def test_fewer_evaluations_than_differences() -> None:
    x0 = np.zeros(8)
    assert so.minimize(rosenbrock, x0).nfev < plain.minimize(rosenbrock, x0).nfev / 4


def test_constraints() -> None:
    circle = {"type": "eq", "fun": lambda x: np.sum(x**2) - 1.0}
    result = so.minimize(lambda x: -x[0] - x[1], [0.6, 0.3], method="SLSQP", constraints=[circle])
    np.testing.assert_allclose(result.x, np.sqrt(0.5), atol=1e-6)


def test_root_and_least_squares() -> None:
    def f(x: Any) -> Any:
        return np.stack([x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1, 0.5 * (x[1] - x[0]) ** 3 + x[1]])

    expected = plain.root(f, [0.0, 0.0]).x
    for method in ("hybr", "lm", "broyden1"):
        np.testing.assert_allclose(so.root(f, [0.0, 0.0], method=method).x, expected, atol=1e-5)
    np.testing.assert_allclose(so.least_squares(f, [0.0, 0.0]).x, expected, atol=1e-6)
    wide = so.least_squares(lambda x: np.sum(np.exp(x), keepdims=True) - 6.0, [1.0, 0.5, 0.2])
    np.testing.assert_allclose(np.sum(np.exp(wide.x)), 6.0, atol=1e-6)


def test_curve_fit() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(0, 4, 50)
    y = 2.5 * np.exp(-1.3 * x) + 0.5 + 0.05 * rng.standard_normal(50)
    mine, covariance = so.curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, x, y)
    theirs, other = plain.curve_fit(lambda x, a, b, c: a * np.exp(-b * x) + c, x, y)
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    np.testing.assert_allclose(covariance, other, rtol=1e-3)


@pytest.mark.parametrize("method", ["newton", "halley", None])
def test_root_scalar(method: str | None) -> None:
    options = {"bracket": (0.0, 3.0)} if method is None else {"x0": 1.0}
    result = so.root_scalar(lambda x, a: x**3 - a, args=(2.0,), method=method, **options)
    np.testing.assert_allclose(result.root, 2.0 ** (1 / 3), rtol=1e-10)


def test_other_names_are_those_of_scipy() -> None:
    assert so.milp is plain.milp


@pytest.mark.parametrize(
    "start",
    [{"a": 1, "b": [2, 0]}, {"a": np.ones(1, np.int8)[0], "b": [True, 0]}, {"a": 1.0, "b": [0, 1]}],
    ids=["integers", "a boolean", "some integers"],
)
def test_a_tree_of_integers_begins_a_search_among_floats(start: Any) -> None:
    def bowl(t: Any) -> Any:
        return (t["a"] - 0.5) ** 2 + (t["b"][0] + 1.25) ** 2 + (t["b"][1] - 2.5) ** 2

    found = so.minimize(bowl, start).x
    np.testing.assert_allclose([found["a"], *found["b"]], [0.5, -1.25, 2.5], rtol=1e-5)


def aim(t: Any) -> Any:
    return (t["a"] - 5.0) ** 2 + np.sum((t["b"] - np.array([1.0, -2.0])) ** 2)


BOUNDS: dict[str, Any] = {
    "pairs": {"a": (None, 4.0), "b": (-1.0, 0.5)},
    "pairs of arrays": {"a": [1.0, 4.0], "b": (np.full(2, -1.0), 0.5)},
    "trees": so.Bounds({"a": 1.0, "b": -1.0}, {"a": 4.0, "b": 0.5}),
    "SciPy's, of trees": plain.Bounds({"a": 1.0, "b": -1.0}, {"a": 4.0, "b": 0.5}),
    "SciPy's, of a number and a tree": plain.Bounds(-1, {"a": 4.0, "b": 0.5}),
}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_bounds_of_a_tree(bounds: Any) -> None:
    found = so.minimize(aim, {"a": 2.0, "b": np.zeros(2)}, bounds=bounds).x
    np.testing.assert_allclose([found["a"], *found["b"]], [4.0, 0.5, -1.0])


@pytest.mark.parametrize(
    "bounds", [[(0, 1), (0, 1)], {"a": (0, 1)}, {"a": 1, "b": 2}, {"a": (0, 1, 2), "b": (0, 1)}]
)
def test_bounds_unlike_the_tree_are_told(bounds: Any) -> None:
    with pytest.raises(ArgumentError, match="a pair in place of each leaf of x0"):
        so.minimize(aim, {"a": 2.0, "b": np.zeros(2)}, bounds=bounds)


T = np.linspace(0.0, 2.0, 9)


def decay(rate: Any) -> Any:
    return integrate.odeint(lambda y, t: -rate * y, np.ones(1), T)[:, 0]


FITS: dict[str, Any] = {
    "least_squares": lambda y: so.least_squares(lambda p: decay(p[0]) - y, [1.0]).x[0],
    "least_squares of a tree": lambda y: so.least_squares(
        lambda p: decay(p["k"]) - y, {"k": 1.0}
    ).x["k"],
    "curve_fit": lambda y: so.curve_fit(lambda t, k: decay(k), T, y, [1.0])[0][0],
    "leastsq": lambda y: so.leastsq(lambda p: decay(p[0]) - y, [1.0])[0][0],
    "minimize": lambda y: so.minimize(lambda p: np.sum((decay(p[0]) - y) ** 2), [1.0]).x[0],
    "root": lambda y: so.root(lambda p: decay(p[0])[-1:] - y[-1:], [1.0]).x[0],
    "fsolve": lambda y: so.fsolve(lambda p: decay(p[0])[-1:] - y[-1:], [1.0])[0],
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_functions_with_reverse_derivatives_alone(fit: Any) -> None:
    """The adjoint equation of a differential equation has no forward mode."""
    np.testing.assert_allclose(fit(np.exp(-0.7 * T)), 0.7, rtol=1e-5)
