"""What solvers did not find has no derivative; results inside of transforms read as SciPy's do;
constraints that a method stops before; robust losses; unknowns that are trees; complex values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import fgrad
import fgrad.scipy.integrate as si
import fgrad.scipy.optimize as so
from fgrad.errors import MissingRuleError, UnsupportedNumpyError
from fgrad.scipy._losses import RHO

TWO, TIMES = np.ones(2), np.linspace(0, 1, 20)
GROWTH = 2 * np.exp(TIMES) + 0.1 * np.sin(40 * TIMES)
NODES = np.linspace(0, 1, 11)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _valley(p: Any, a: Any) -> Any:
    return (a - p[0]) ** 2 + 10 * (p[1] - p[0] ** 2) ** 2 + p[0] ** 2


def _bratu(a: Any) -> Any:
    """It has no solution beyond a = 3.51."""
    field = lambda x, y: np.stack([y[1], -a * np.exp(y[0])])  # noqa: E731
    ends = lambda ya, yb: np.stack([ya[0], yb[0]])  # noqa: E731
    return si.solve_bvp(field, ends, NODES, np.zeros((2, 11))).sol(0.5)[0]


UNSOLVED: dict[str, Callable[[Any], Any]] = {
    "root without one": lambda a: so.root(lambda x: x**2 + a, np.array([0.3])).x[0],
    "fsolve without one": lambda a: so.fsolve(lambda x: x**2 + a, np.array([0.3]))[0],
    "root by linearmixing": lambda a: so.root(
        lambda x: 3 * x + x**3 / 9 - a, np.array([0.3, 0.2]), method="linearmixing"
    ).x[0],
    "dogleg at a saddle": lambda a: so.minimize(
        lambda p: _valley(p, a), np.array([0.5, 0.4]), method="dogleg"
    ).x[0],
    "too few steps": lambda a: so.minimize(
        lambda p: np.sum((p - 5 * a) ** 4), TWO, options={"maxiter": 2}
    ).x[0],
    "boundary value problem": lambda a: _bratu(5.0 * a),
}


@pytest.mark.parametrize("name", UNSOLVED)
def test_no_derivative_of_what_is_no_solution(name: str) -> None:
    f = UNSOLVED[name]
    fgrad.jit(f)(1.0)  # values are SciPy's
    for slope in (fgrad.grad(f), fgrad.jit(fgrad.grad(f)), fgrad.jacfwd(f)):
        with pytest.raises(MissingRuleError, match="did not find one"):
            slope(1.0)


METHODS = ("SLSQP", "trust-constr", "COBYLA", "COBYQA")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("inner", [True, False])
def test_constraints_that_a_method_stops_before(method: str, inner: bool) -> None:
    """The point of a disc next to (a, a): trust-constr leaves 2e-3 to the edge."""

    def place(a: Any) -> Any:
        disc = so.NonlinearConstraint(lambda p: p @ p, -np.inf, 1.0)
        return so.minimize(lambda p: np.sum((p - a) ** 2), 0 * TWO, method=method, constraints=disc)

    a, force = (0.5, 0.0) if inner else (2.0, 1 - 2 * np.sqrt(2.0))
    np.testing.assert_allclose(fgrad.jacfwd(lambda a: place(a).x)(a), TWO * inner, atol=1e-4)
    held = fgrad.jit(lambda a: place(a).multipliers)(a)
    np.testing.assert_allclose(held, [force], rtol=5e-3, atol=1e-9)


def test_multipliers_are_shadow_prices() -> None:
    """d(least value)/d(end) of each constraint, and their own slopes."""

    def solved(ends: Any) -> Any:
        return so.minimize(
            lambda p: np.sum((p - 2.0) ** 2), 0 * TWO,
            constraints=[so.LinearConstraint(np.eye(2) + 0.1, -np.inf, ends)],
        )  # fmt: skip

    ends = np.array([1.0, 0.5])
    price = fgrad.grad(lambda e: solved(e).fun)(ends)
    np.testing.assert_allclose(fgrad.jit(lambda e: solved(e).multipliers)(ends), price, rtol=1e-6)
    hess = fgrad.jacrev(lambda e: solved(e)["multipliers"])(ends)
    inverse = np.linalg.inv(np.eye(2) + 0.1)
    np.testing.assert_allclose(hess, 2 * inverse.T @ inverse, rtol=1e-6)


RESULTS: dict[str, Callable[[Any], Any]] = {
    "minimize": lambda a: so.minimize(lambda p: np.sum((p - a) ** 2), TWO),
    "minimize_scalar": lambda a: so.minimize_scalar(lambda x: (x - a) ** 2),
    "root": lambda a: so.root(lambda x: x - a, TWO),
    "root_scalar": lambda a: so.root_scalar(lambda x: x - a, bracket=(-9.0, 9.0)),
    "least_squares": lambda a: so.least_squares(lambda x: x - a, TWO),
    "linprog": lambda a: so.linprog([1.0], bounds=(a, None)),
    "solve_ivp": lambda a: si.solve_ivp(lambda t, y: -a * y, (0, 1), TWO, t_eval=[1.0]),
    "tanhsinh": lambda a: si.tanhsinh(lambda x: np.exp(a * x), 0.0, 1.0),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_read_as_scipys(name: str) -> None:
    def by_name(a: Any) -> Any:
        found = RESULTS[name](a)
        first = next(iter(found.keys()))
        assert found[first] is found[0] is getattr(found, first)
        with pytest.raises(AttributeError, match=r"nfev.*is not part of the result inside"):
            _ = found.nfev
        assert dict(found) == dict(found.items())
        return found[first]

    fgrad.jit(by_name)(1.5)


def _fit(module: Any, s: Any, loss: str) -> Any:
    return module.least_squares(
        lambda p: p[0] * np.exp(p[1] * TIMES) - GROWTH * (1 + s * TIMES), TWO,
        loss=loss, f_scale=0.07, xtol=1e-13, ftol=1e-13, gtol=1e-13,
    ).x  # fmt: skip


@pytest.mark.parametrize("loss", ["linear", *RHO])
def test_robust_losses(loss: str) -> None:
    found = fgrad.jacfwd(lambda s: _fit(so, s, loss))(0.1)
    ends = [_fit(scipy.optimize, 0.1 + h, loss) for h in (1e-4, -1e-4)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-4, rtol=1e-3, atol=1e-5)


def test_losses_that_are_none() -> None:
    with pytest.raises(ValueError, match="none of"):
        fgrad.grad(lambda s: _fit(so, s, "nonsense")[0])(0.1)
    loss: Any = np.log1p
    with pytest.raises(UnsupportedNumpyError, match="a function as loss"):
        fgrad.grad(lambda s: _fit(so, s, loss)[0])(0.1)


TREE = {"w": np.zeros(2), "b": 0.0}
OF_TREES: dict[str, Callable[[Any], Any]] = {
    "root": lambda a: so.root(lambda p: {"w": p["w"] - a, "b": p["b"] - a * a}, TREE).x,
    "root lm": lambda a: so.root(
        lambda p: {"w": p["w"] - a, "b": p["b"] - a * a}, TREE, method="lm"
    ).x,
    "least_squares": lambda a: so.least_squares(lambda p: [p["w"] - a, p["b"] - a * a], TREE).x,
    "args": lambda a: so.least_squares(
        lambda p, a, power: [p["w"] - a, p["b"] - a**power], TREE, args=(a,), kwargs={"power": 2}
    ).x,
}  # fmt: skip


@pytest.mark.parametrize("name", OF_TREES)
def test_unknowns_that_are_trees(name: str) -> None:
    f = OF_TREES[name]
    for found in (f(3.0), fgrad.jit(f)(3.0)):
        np.testing.assert_allclose(found["w"], [3, 3])
        np.testing.assert_allclose(found["b"], 9)
    assert fgrad.grad(lambda a: f(a)["b"] + f(a)["w"][1])(3.0) == pytest.approx(7.0)


def test_bounds_of_trees_hold() -> None:
    def place(a: Any) -> Any:
        high = {"w": np.stack([a, 9.0]), "b": 0.5}
        return so.least_squares(lambda p: [p["w"] - 3, p["b"] - 9], TREE, bounds=(-1.0, high)).x

    np.testing.assert_allclose(place(1.0)["w"], [1, 3])
    assert fgrad.grad(lambda a: place(a)["w"][0])(1.0) == pytest.approx(1.0)


def _spin(t: Any, z: Any, a: Any) -> Any:
    return a * z * abs(z) ** 2 * 1j - 0.1 * np.conj(z)


FIRST = np.array([1 + 0.5j, -0.3j])


@pytest.mark.parametrize("method", ["RK45", "DOP853", "BDF"])
def test_complex_slopes_that_are_not_holomorphic(method: str) -> None:
    """By the start, by arguments, and by what is closed over."""
    exact = {"method": method, "rtol": 1e-9, "atol": 1e-10}

    def last(module: Any, *given: Any) -> Any:
        z, a, c = given
        field = lambda t, y, a: _spin(t, y, a) + c * 1j  # noqa: E731
        found = module.solve_ivp(field, (0, 1), z, args=(a,), t_eval=[0.5, 1.0], **exact)
        return np.sum(np.real(found.y[:, -1]) + 2 * np.imag(found.y[:, 0]))

    by_z, by_a, by_c = fgrad.grad(lambda *p: last(si, *p), argnums=(0, 1, 2))(FIRST, 1.3, 0.2)

    def difference(*way: Any) -> Any:
        ends = [
            last(scipy.integrate, *[x + h * w for x, w in zip((FIRST, 1.3, 0.2), way, strict=True)])
            for h in (1e-4, -1e-4)
        ]
        return (ends[0] - ends[1]) / 2e-4

    unit = np.array([1.0, 0.0])
    assert by_a == pytest.approx(difference(0, 1, 0), rel=1e-4)
    assert by_c == pytest.approx(difference(0, 0, 1), rel=1e-4)
    wanted = difference(unit, 0, 0) + 1j * difference(1j * unit, 0, 0)
    assert by_z[0] == pytest.approx(wanted, rel=1e-4)


def test_complex_events_and_dense_output() -> None:
    def event(t: Any, z: Any) -> Any:
        return np.real(z[0])

    def solved(w: Any) -> Any:
        return si.solve_ivp(
            lambda t, z: 1j * w * z, (0, 2), np.array([1 + 0j]), events=event, dense_output=True,
            rtol=1e-9, atol=1e-10,
        )  # fmt: skip

    assert fgrad.grad(lambda w: solved(w).t_events[0][0])(1.0) == pytest.approx(-np.pi / 2)
    assert fgrad.grad(lambda w: np.imag(solved(w).sol(0.5)[0]))(1.0) == pytest.approx(
        0.5 * np.cos(0.5), rel=1e-5
    )
    there = fgrad.jacfwd(lambda w: np.imag(solved(w).y_events[0][0, 0]))(1.0)
    assert there == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_slopes_of_nan_end(method: str) -> None:
    """SciPy's solvers that choose their first step would not return."""

    def last(a: Any) -> Any:
        return si.solve_ivp(lambda t, y: -a * y, (0.0, 1.0), TWO, method=method).y[0, -1]

    assert np.isnan(fgrad.grad(last)(np.nan))


def test_odeint_is_real() -> None:
    with pytest.raises(UnsupportedNumpyError, match="complex"):
        fgrad.grad(lambda a: np.real(si.odeint(lambda y, t: 1j * a * y, [1j], TIMES)[-1, 0]))(1.0)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_matrices_that_are_not_finite(value: float) -> None:
    """SciPy's least squares may not return for these."""
    matrix = np.array([[value, 2.0], [3.0, 4.0], [5.0, 6.5]])
    with pytest.raises(ValueError, match="A has infinities or NaN"):
        so.lsq_linear(matrix, np.ones(3))
    with pytest.raises(ValueError, match="A has infinities or NaN"):
        fgrad.jit(lambda a: so.lsq_linear(a, np.ones(3), (0.0, 1.0)).x)(matrix)
