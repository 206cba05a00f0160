"""Roots, minima and integrals by SciPy's code: each way to differentiate them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import fgrad
import fgrad.scipy.integrate as si
import fgrad.scipy.optimize as so
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import (
    ArgumentError,
    FgradError,
    LostDerivativeError,
    MissingRuleError,
    TracedBoolError,
    UnsupportedNumpyError,
)

Q = np.array([1.0, 2.0])


def _cubic(x: Any, p: Any) -> Any:
    return x**3 - p * x - p


def _pair(x: Any, p: Any) -> Any:
    return np.stack([_cubic(x[0], p), x[1] - p * x[0]])


def _quartic(x: Any, p: Any) -> Any:
    return x**4 / 4 - p * x * x / 2 - p * x


# A number that depends on p, through what is closed over, or through arguments.
SOLUTIONS: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda p, name=name: getattr(so, name)(lambda x: _cubic(x, p), 1.0, 9.0 + p)
        for name in ("brentq", "brenth", "ridder", "bisect", "toms748")
    },
    "root_scalar": lambda p: so.root_scalar(lambda x: _cubic(x, p), bracket=(1.0, 9.0)).root,
    "root_scalar args": lambda p: so.root_scalar(_cubic, (p,), x0=2.0, x1=3.0).root,
    "root_scalar newton": lambda p: so.root_scalar(_cubic, p, "newton", x0=2.0 * p).root,
    "root_scalar halley": lambda p: so.root_scalar(_cubic, (p,), "halley", x0=2.0).root,
    "newton": lambda p: so.newton(lambda x: _cubic(x, p), 2.0),
    "newton of an array": lambda p: np.sum(so.newton(_cubic, np.array([2.0, 3.0]), args=(p,))),
    "newton fprime": lambda p: so.newton(_cubic, 2.0, lambda x, p: 3 * x * x - p, (p,)),
    "root": lambda p: np.sum(so.root(lambda x: _pair(x, p), np.ones(2) * 2).x),
    "root args": lambda p: so.root(_pair, [2.0, 2.0], (p,), "lm").x[1],
    "root krylov": lambda p: so.root(_pair, [2.0, 2.0], p, "krylov", tol=1e-12).x[1],
    "fsolve": lambda p: so.fsolve(lambda x: _pair(x, p), [2.0, 2.0])[1],
    "fsolve of a number": lambda p: so.fsolve(_cubic, 2.0, (p,))[0],
    "minimize_scalar": lambda p: so.minimize_scalar(lambda x: _quartic(x, p), (1.0, 3.0)).x,
    "minimize_scalar bounded": lambda p: so.minimize_scalar(
        _quartic, bounds=(0.5, 9.0), args=(p,), options={"xatol": 1e-10}
    ).x,
    "minimize_scalar value": lambda p: so.minimize_scalar(_quartic, args=p).fun,
    "minimize_scalar on a bound": lambda p: so.minimize_scalar(
        lambda x: x + p, bounds=(p**2, 9.0), options={"xatol": 1e-12}
    ).x,
    "minimize": lambda p: so.minimize(
        lambda x: np.sum((x - p**2 * Q) ** 4 + (x - p**2 * Q) ** 2), Q, tol=1e-12
    ).x[1],
    "minimize value": lambda p: so.minimize(lambda x: np.sum((x - p**2) ** 2) + p**3, Q).fun,
    "minimize bounds": lambda p: np.sum(
        so.minimize(
            lambda x: np.sum((x - p**2 * Q) ** 2), Q, bounds=[(None, None), (0.0, p)], tol=1e-12
        ).x
    ),
    "minimize Hessian": lambda p: so.minimize(
        lambda x, p: np.sum((x - p**2 * Q) ** 2), Q, (p,), "trust-exact", tol=1e-12
    ).x[1],
    "least_squares": lambda p: so.least_squares(
        lambda x: np.stack([x[0] - p * p, x[1] * x[0] - p, x[1] - 0.5]), np.ones(2),
        xtol=1e-13, ftol=1e-13, gtol=1e-13,
    ).x[1],
    "curve_fit": lambda p: np.sum(so.curve_fit(lambda x, a: a * x * p, Q, Q**2)[0]),
    "curve_fit covariance": lambda p: so.curve_fit(lambda x, a: a * x * p, Q, Q**2)[1][0, 0],
    "quad": lambda p: si.quad(lambda t: np.exp(-p * t), 0.0, 1.0)[0],
    "quad args": lambda p: si.quad(lambda t, c: np.sin(c * t), 0.0, 1.0, args=(p,))[0],
    "quad limits": lambda p: si.quad(lambda t: np.sin(p * t) * p, np.sin(p), p**2)[0],
    "quad infinite": lambda p: si.quad(lambda t: np.exp(-p * t * t), -np.inf, np.inf)[0],
    "quad half infinite": lambda p: si.quad(lambda t: np.exp(-p * t), p, np.inf)[0],
    "quad points": lambda p: si.quad(lambda t: np.abs(t - 0.3) * p**2, 0.0, 1.0, points=[0.3])[0],
    "quad of a quad": lambda p: si.quad(
        lambda t: si.quad(lambda s: np.exp(-p * s * t), 0.0, t)[0], 0.0, p
    )[0],
    "dblquad": lambda p: si.dblquad(
        lambda y, x: x * y * p, 0.0, p, 0.0, lambda x: p * x
    )[0],
    "nquad": lambda p: si.nquad(
        lambda x, y, c: np.sin(c * x) * y, [lambda y, c: (0.0, c * y), (0.0, p)], args=(p,)
    )[0],
    "root of an integral": lambda p: so.brentq(
        lambda x: si.quad(lambda t: np.exp(-t * p), 0.0, x)[0] - 0.3, 0.0, 5.0
    ),
}  # fmt: skip

WAYS: dict[str, Callable[[Callable[[Any], Any], float], Any]] = {
    "grad": lambda f, p: grad(f)(p),
    "jvp": lambda f, p: jvp(f, (p,), (1.0,))[1],
    "jit of grad": lambda f, p: jit(grad(f))(p),
    "grad of jit": lambda f, p: grad(jit(f))(p),
    "vmap of grad": lambda f, p: vmap(grad(f))(np.array([p, p]))[1],
}

COMPILED = ("brentq", "root_scalar newton", "newton of an array", "fsolve", "minimize bounds",
            "minimize_scalar on a bound", "quad limits", "quad of a quad")  # fmt: skip


def _difference(f: Callable[[Any], Any], p: float, h: float) -> Any:
    return (f(p + h) - f(p - h)) / (2 * h)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_derivatives(name: str) -> None:
    f = SOLUTIONS[name]
    expected = _difference(f, 2.0, 1e-4)
    rtol = 1e-3 if name == "minimize_scalar bounded" else 2e-5  # SciPy knows no more digits
    for way, derivative in WAYS.items():
        if name in COMPILED or way in ("grad", "jvp"):
            found = derivative(f, 2.0)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-6, err_msg=way)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_second_derivatives(name: str) -> None:
    f = SOLUTIONS[name]
    expected = _difference(grad(f), 2.0, 1e-3)
    for second in (grad(grad(f)), lambda p: jvp(grad(f), (p,), (1.0,))[1]):
        np.testing.assert_allclose(second(2.0), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", COMPILED)
def test_values_are_the_same_in_all_modes(name: str) -> None:
    f = SOLUTIONS[name]
    expected = f(2.0)
    for found in (fgrad.value_and_grad(f)(2.0)[0], jit(f)(2.0), vmap(f)(np.array([2.0]))[0]):
        np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_results_outside_of_transforms_are_those_of_scipy() -> None:
    assert si.quad(np.exp, 0.0, 1.0) == scipy.integrate.quad(np.exp, 0.0, 1.0)
    given = (lambda x: x * x - 2.0, 0.0, 2.0)
    assert so.brentq(*given, full_output=True)[0] == scipy.optimize.brentq(*given)
    assert isinstance(so.root_scalar(given[0], bracket=(0, 2)), scipy.optimize.RootResults)
    theirs: Any = scipy.optimize.minimize_scalar(np.cosh)
    assert so.minimize_scalar(np.cosh).x == theirs.x
    assert so.fsolve(given[0], 1.0) == scipy.optimize.fsolve(given[0], 1.0)


def test_gradients_with_many_parameters() -> None:
    def f(w: Any) -> Any:
        return si.quad(lambda t: np.sum(np.sin(w * t)), 0.0, 1.0)[0]

    w = np.linspace(0.5, 2.0, 7)
    np.testing.assert_allclose(grad(f)(w), np.sin(w) / w + (np.cos(w) - 1) / w**2)
    np.testing.assert_allclose(fgrad.jacfwd(f)(w), grad(f)(w))
    hessian = np.diag(fgrad.grad(lambda w: np.sum(grad(f)(w)))(w))
    np.testing.assert_allclose(fgrad.hessian(f)(w), hessian, atol=1e-12)


def test_what_has_no_meaning_in_a_trace_is_refused() -> None:
    refused: list[Callable[[Any], Any]] = [
        lambda p: si.quad(lambda t: p * t, 0.0, 1.0, weight="cos", wvar=2.0)[0],
        lambda p: si.quad(lambda t: p * t, 0.0, 1.0, full_output=1)[0],
        lambda p: so.brentq(lambda x: x - p, 0.0, 5.0, full_output=True)[0],
        lambda p: so.fsolve(lambda x: x - p, 1.0, full_output=True)[0],
        lambda p: np.abs(si.quad(lambda t: np.exp(1j * p * t), 0.0, 1.0)[0]),
        lambda p: (lambda z: si.quad(lambda t: np.abs(t * z), 0.0, 1.0)[0])(np.exp(1j * p) * p),
        lambda p: np.abs(so.fsolve(lambda x: x - 1j * p, 1.0)[0]),
    ]
    for f in refused:
        with pytest.raises(UnsupportedNumpyError):
            grad(f)(2.0)
    with pytest.raises(TracedBoolError):
        grad(lambda p: si.quad(lambda t: t if t > 0.5 else p, 0.0, 1.0)[0])(2.0)
    with pytest.raises(ValueError, match="different signs"):
        grad(lambda p: so.brentq(lambda x: x**2 + p, 0.0, 1.0))(2.0)


# --- SciPy's own, called with traced parameters ---------------------------------------------------

PLAIN: dict[str, Callable[[Any], Any]] = {
    "integrate.quad": lambda p: scipy.integrate.quad(lambda t: np.exp(-p * t), 0.0, 1.0)[0],
    "integrate.dblquad": lambda p: scipy.integrate.dblquad(lambda y, x: p * y, 0, 1, 0, 1)[0],
    "integrate.nquad": lambda p: scipy.integrate.nquad(lambda x, y: p * x, [(0, 1), (0, 1)])[0],
    "optimize.brentq": lambda p: scipy.optimize.brentq(lambda x: x - p, 0.0, 5.0),
    "optimize.fsolve": lambda p: scipy.optimize.fsolve(lambda x: x - p, 1.0)[0],
    "optimize.root": lambda p: scipy.optimize.root(lambda x: x - p, 1.0).x[0],
    "optimize.minimize_scalar": lambda p: scipy.optimize.minimize_scalar(lambda x: (x - p) ** 2),
    "integrate.quad ": lambda p: scipy.stats.norm.expect(lambda t: p * t),
}


@pytest.mark.parametrize("name", PLAIN)
def test_scipys_own_raise_and_the_card_names_a_function_that_exists(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as found:
            grad(PLAIN[name])(2.0)
    # SciPy's C code prints the error that it met, or puts its own on top.
    chain, error = [], found.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    said = "".join(chain) + capfd.readouterr().err
    part, leaf = name.strip().split(".")
    assert f"fgrad.scipy.{part}.{leaf} " in said
    assert getattr(getattr(fgrad.scipy, part), leaf).__module__.startswith("fgrad.")


def test_the_errors_of_python_code_are_cards() -> None:
    for name in ("integrate.quad", "integrate.quad ", "optimize.minimize_scalar"):
        with pytest.raises(FgradError):
            grad(PLAIN[name])(2.0)


# --- solve_ivp ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rtol", [1e-3, 1e-7])
def test_solve_ivp_has_scipys_time_points_under_derivatives(rtol: float) -> None:
    def solve(k: Any) -> Any:
        return si.solve_ivp(
            lambda t, y: np.stack([-k * y[0], y[0] - y[1] ** 2 * t]), (0.0, 5.0), [1.0, 0.5],
            rtol=rtol, atol=1e-9,
        )  # fmt: skip

    expected = solve(0.7)
    kept: list[Any] = []
    grad(lambda k: (kept.append(solve(k)), np.mean(kept[-1].y))[1])(0.7)
    np.testing.assert_array_equal(np.asarray(kept[-1].t), expected.t)
    np.testing.assert_allclose(np.asarray(kept[-1].y), expected.y, rtol=1e-9, atol=1e-12)
    with pytest.raises(ArgumentError, match="t_eval"):
        jit(lambda k: solve(k).y)(0.7)


def test_lost_derivatives_are_not_type_errors() -> None:
    """NumPy replaces a TypeError that it meets while it stores a number."""
    assert not issubclass(LostDerivativeError, TypeError)


BOWL: Any = lambda p: lambda x: (np.sum((x - p) ** 2), 2 * (x - p))  # noqa: E731
CUBE: Any = lambda p: lambda x: (x**3 - p, 3 * x**2, 6 * x)  # noqa: E731
WITH_DERIVATIVES: dict[str, Any] = {
    "minimize": lambda p: so.minimize(BOWL(p), np.zeros(2), jac=True).x[0],
    "minimize bounds": lambda p: so.minimize(
        BOWL(p), np.zeros(2), jac=True, bounds=[(0, 1), (0, 20)]
    ).x[1],
    "minimize trust-constr": lambda p: so.minimize(
        BOWL(p), np.zeros(2), jac=True, method="trust-constr"
    ).x[0],
    "fmin_l_bfgs_b": lambda p: so.fmin_l_bfgs_b(BOWL(p), np.zeros(2))[0][0],
    "fmin_tnc": lambda p: so.fmin_tnc(BOWL(p), np.zeros(2), disp=0)[0][0],
    "root": lambda p: so.root(lambda x: (x - p, np.eye(2)), np.ones(2), jac=True).x[0],
    "root_scalar": lambda p: so.root_scalar(CUBE(p**3), x0=7.0, fprime=True, method="newton").root,
    "root_scalar halley": lambda p: (
        so.root_scalar(CUBE(p**3), x0=7.0, fprime=True, fprime2=True, method="halley").root
    ),
}


@pytest.mark.parametrize("name", WITH_DERIVATIVES)
def test_functions_that_return_their_derivatives(name: str) -> None:
    f = WITH_DERIVATIVES[name]
    np.testing.assert_allclose(f(8.0), 8.0, rtol=1e-5)
    np.testing.assert_allclose(fgrad.grad(f)(8.0), 1.0, rtol=1e-4)
    np.testing.assert_allclose(fgrad.jit(f)(8.0), 8.0, rtol=1e-5)


def _twice(p: Any) -> Any:
    """A constraint that is there twice."""
    same = [
        {"type": "eq", "fun": lambda x: x[0] - 1},
        {"type": "eq", "fun": lambda x: 2 * x[0] - 2},
    ]
    return so.minimize(lambda x: (x[0] - p) ** 2, np.zeros(2), constraints=same).x[0]


@pytest.mark.parametrize(
    "program",
    [
        _twice,
        lambda p: so.minimize(lambda x: (x[0] - p) ** 2, np.zeros(2)).x[0],
        lambda p: so.root(lambda x: np.stack([x[0] - p, x[0] - p]), np.zeros(2)).x[0],
    ],
)
def test_singular_systems_have_a_card(program: Any) -> None:
    for transform in (fgrad.grad(program), fgrad.jit(fgrad.grad(program))):
        with pytest.raises(MissingRuleError, match="not determined"):
            transform(1.0)


OLDER: dict[str, Any] = {
    "slsqp": lambda p, s: s.fmin_slsqp(
        lambda x: np.sum((x - p) ** 2), np.zeros(2), [lambda x: x[0] + x[1] - p],
        f_ieqcons=lambda x: np.stack([x[0] - 0.7 * p]), acc=1e-13, iprint=0,
    ),
    "slsqp bounds": lambda p, s: s.fmin_slsqp(
        lambda x, q: np.sum((x - q) ** 2), np.zeros(2), bounds=[(0, 1), (0, 20)], args=(p,),
        acc=1e-13, iprint=0,
    ),
    "cobyla": lambda p, s: s.fmin_cobyla(
        lambda x: x @ x, np.ones(2), lambda x: x[0] + 2 * x[1] - p, rhoend=1e-10, catol=0.0
    ),
    "cobyla args": lambda p, s: s.fmin_cobyla(
        lambda x, q: np.sum((x - q) ** 2), np.ones(2), [lambda x, q: q / 2 - x[0]], args=(p,),
        rhoend=1e-10, catol=0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OLDER)
def test_minimisers_under_constraints_by_older_names(name: str) -> None:
    f, h = OLDER[name], 1e-3
    wanted = f(2.0, scipy.optimize)
    np.testing.assert_allclose(f(2.0, so), wanted, atol=1e-12)
    np.testing.assert_allclose(jit(lambda p: f(p, so))(2.0), wanted, atol=1e-6)
    slope = (f(2.0 + h, scipy.optimize) - f(2.0 - h, scipy.optimize)) / (2 * h)
    np.testing.assert_allclose(fgrad.jacrev(lambda p: f(p, so))(2.0), slope, atol=1e-4)
    forward = jvp(lambda p: f(p, so), (2.0,), (1.0,))[1]
    np.testing.assert_allclose(forward, slope, atol=1e-4)
    with pytest.raises((TypeError, UnsupportedNumpyError)):
        grad(lambda p: so.fmin_slsqp(lambda x: x @ x * p, np.zeros(2), full_output=1)[0])(1.0)


ROOTS: list[tuple[Any, tuple[float, float]]] = [
    (lambda x, p: x**3 - p, (0.0, 9.0)),
    (lambda x, p: np.cos(x) - p * x, (0.0, 2.0)),
    (lambda x, p: np.exp(x) - 2 - p, (-40.0, 40.0)),
    (lambda x, p: (x - p) ** 3 + (x - p) * 1e-3, (-2.0, 9.0)),
    (lambda x, p: np.arctan(1e6 * (x - p)), (-7.0, 11.0)),
    (lambda x, p: x - p, (0.7, 5.0)),
    (lambda x, p: x - p, (-5.0, 0.7)),
    (lambda x, p: np.where(x < p, -1.0, 1.0), (-1.0, 2.0)),
]


@pytest.mark.parametrize("k", range(len(ROOTS)))
def test_brents_search_in_compiled_code_is_scipys(k: int) -> None:
    f, ends = ROOTS[k]
    ps = np.array([0.7, 0.61, 0.3]) if k not in (5, 6) else np.array([0.7])

    def root(p: Any, find: Any = so.brentq, **options: Any) -> Any:
        return find(lambda x: f(x, p), *ends, **options)

    wanted = [root(float(p), scipy.optimize.brentq) for p in ps]
    np.testing.assert_allclose([fgrad.jit(root)(p) for p in ps], wanted, rtol=1e-14)
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(root))(ps), wanted, rtol=1e-14)
    few = {"maxiter": 3, "disp": False, "xtol": 1e-3}
    wanted = [root(float(p), scipy.optimize.brentq, **few) for p in ps]
    np.testing.assert_allclose([fgrad.jit(lambda p: root(p, **few))(p) for p in ps], wanted)


def test_brents_search_refuses_as_scipys() -> None:
    def root(p: Any, **options: Any) -> Any:
        return so.brentq(lambda x: np.sqrt(x) - p, 0.0, 9.0, **options)

    with pytest.raises(ValueError, match="different signs"):
        fgrad.jit(root)(4.0)
    with pytest.raises(RuntimeError, match="converge after 2 iterations"):
        fgrad.jit(lambda p: root(p, maxiter=2))(1.0)
    with pytest.raises(ValueError, match="NaN"):
        fgrad.jit(root)(np.nan)
    with pytest.raises(ValueError, match="xtol too small"):
        fgrad.jit(lambda p: root(p, xtol=-1.0))(1.0)
