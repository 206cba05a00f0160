"""One argument of calls of scipy.optimize altered: SciPy's values, or an error that is meant;
options that are traced, starts in half and single precision, complex unknowns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optimize_calls
import pytest
import scipy.optimize
from scipy_tables import ALTERED, MEANT, SLICES, arrays_of, differs, names_in, program, traced

import fgrad
import fgrad.scipy.optimize as so

ARRAYS = optimize_calls.ARRAYS
MORE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{k: f for k, f in ALTERED.items() if k != "uint8"},
    "float32": lambda x: x.astype(np.float32),
    "other signs": lambda x: -x,
}
# Where SciPy takes differences, and fgrad derivatives: methods that SciPy has by derivatives alone,
# starts outside of bounds.
BY_DIFFERENCES = ("Newton-CG", "dogleg", "trust-", "'TNC', bounds", "so.fmin_ncg")
JUDGED = {
    "no columns": ("rosen",), "no rows": ("rosen",),
    "infinite": ("CG'", "BFGS'", "fmin_bfgs", "fmin_cg", "constraints=", "shgo", "rosen",
                 "lsq_linear"),  # of which some LAPACKs never return
    "NaN": ("shgo", "lsq_linear"),
    "float16": ("minimize(", "fmin", "newton", "so.root_scalar", "lsq"),  # rounded to it by SciPy
    "float32": ("'CG'", "'BFGS'", "fmin_bfgs", "fmin_cg", "'TNC'", "'SLSQP'", "fmin_tnc", "fmin_s"),
    "bool": ("least_squares", "leastsq", "curve_fit"),  # singular; fits without any rest
    "other signs": ("so.linprog",),  # without a solution: nothing in SciPy, NaN here
    # what SciPy gives for one number in a list is a list, or an error from inside of it
    "another axis": ("brent", "bisect", "ridder", "toms748", "newton", "so.root_scalar",
                     "minimize_scalar", "golden", "fminbound", "fmin_cobyla"),
}  # fmt: skip
SLOW = ("trust-constr", "annealing", "COBYQA", "differential", "COBYLA", "fmin_cobyla")


def _cases(kind: str) -> list[tuple[str, str]]:
    """Of every fourth call with one array altered, of which others each kind has."""
    every = [
        (line, name)
        for line in optimize_calls.CALLS
        for name in names_in(line, ARRAYS)
        if not any([s in line for s in (*SLOW, *BY_DIFFERENCES, *JUDGED.get(kind, ()))])
        and (ARRAYS[name].ndim or kind not in SLICES)
    ]
    return every[[*MORE].index(kind) % 4 :: 4]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("kind", MORE)
def test_values_or_errors(kind: str) -> None:
    wrong = []
    for line, name in _cases(kind):
        given = [
            MORE[kind](ARRAYS[n]) if n == name else np.copy(ARRAYS[n])
            for n in names_in(line, ARRAYS)
        ]
        wanted: Any
        try:
            wanted = arrays_of(program(line, ARRAYS, {}, False)(*map(np.copy, given)))
        except Exception as error:  # SciPy's, of many classes
            wanted = error
        try:
            found = traced(program(line, ARRAYS, {}, True), given)
        except MEANT:
            continue
        if isinstance(wanted, Exception):
            wrong.append(f"{line} of {name}: {found}, but SciPy raises {wanted!r}")
        elif text := differs(found, wanted, 2e-3, 2e-3):
            wrong.append(f"{line} of {name}: {text}")
    assert not wrong


V, S, ONES = np.array([0.3, -0.4, 0.8]), np.zeros(3), np.ones(3)


def _bowl(q: Any) -> Any:
    return np.sum((q - V) ** 2)


TRACED_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "minimize": lambda t: so.minimize(_bowl, S, tol=t).x,
    "options": lambda t: so.minimize(_bowl, S, method="BFGS", options={"gtol": t}).x,
    "constraints": lambda t: (
        so.minimize(_bowl, S, tol=t, constraints=so.LinearConstraint(ONES, -1, 0.5)).x
    ),
    "root": lambda t: so.root(lambda q: q**3 + q - V, S, tol=t).x,
    "root_scalar": lambda t: so.root_scalar(lambda q: q**3 - 2, bracket=(0.0, 3.0), xtol=t).root,
    "brentq": lambda t: so.brentq(lambda q: q**3 - 2, 0.0, 3.0, xtol=t),
    "ridder": lambda t: so.ridder(lambda q: q**3 - 2, 0.0, 3.0, xtol=t),
    "newton": lambda t: so.newton(lambda q: q**3 - 2, 1.0, tol=t),
    "fsolve": lambda t: so.fsolve(lambda q: q**3 + q - V, S, xtol=t),
    "broyden1": lambda t: so.broyden1(lambda q: q**3 + q - V, S, f_tol=t),
    "fixed_point": lambda t: so.fixed_point(np.cos, S, xtol=t),
    "minimize_scalar": lambda t: so.minimize_scalar(lambda q: (q - 1) ** 2, tol=t).x,
    "brent": lambda t: so.brent(lambda q: (q - 1) ** 2, tol=t),
    "fminbound": lambda t: so.fminbound(lambda q: (q - 1) ** 2, 0.0, 3.0, xtol=t),
    "least_squares": lambda t: so.least_squares(lambda q: q - V, S, ftol=t).x,
    "leastsq": lambda t: so.leastsq(lambda q: q - V, S, ftol=t)[0],
    "curve_fit": lambda t: so.curve_fit(lambda x, a, b: a * x + b, np.arange(3.0), V, ftol=t)[0],
    "fmin": lambda t: so.fmin(_bowl, S, xtol=t, disp=0),
    "fmin_slsqp": lambda t: so.fmin_slsqp(_bowl, S, acc=t, disp=0),
    "differential_evolution": lambda t: (
        so.differential_evolution(_bowl, [(-1, 1)] * 3, tol=t, rng=1).x
    ),
}


@pytest.mark.parametrize("name", TRACED_OPTIONS)
def test_options_may_be_traced(name: str) -> None:
    """They have no derivative; the solution is that of a plain number."""
    f, t = TRACED_OPTIONS[name], np.float64(1e-8)
    wanted = np.asarray(f(t))
    np.testing.assert_allclose(fgrad.jit(f)(t), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fgrad.vmap(f)(t[None])[0], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fgrad.jacrev(f)(t), 0 * wanted)


def test_the_scale_of_a_loss_has_a_derivative() -> None:
    matrix = np.array([[3.0, 1, 0.2], [0.5, 4, 0.3], [0.1, 0.2, 5], [1, 1, 1]])
    side = np.array([1.0, 2, 3, -1])

    def place(size: Any) -> Any:
        return so.least_squares(lambda q: matrix @ q - side, S, loss="huber", f_scale=size).x

    step = 1e-5
    wanted = (place(0.3 + step) - place(0.3 - step)) / (2 * step)
    for slope in (fgrad.jacfwd(place), fgrad.jit(fgrad.jacrev(place))):
        np.testing.assert_allclose(slope(0.3), wanted, rtol=1e-3)


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "fixed_point": lambda p: so.fixed_point(lambda x: 0.5 * np.conj(x) + p, 0.1j),
    "newton": lambda p: so.newton(lambda x: x**3 - p, 1.0 + 0.5j, tol=1e-12),
    "root": lambda p: so.root(
        lambda x: x + 0.1 * np.conj(x) ** 2 - p, np.array([0.5 + 0j, 0.5j]), method="krylov",
        options={"fatol": 1e-12},
    ).x,
    "broyden1": lambda p: so.broyden1(
        lambda x: x + 0.1 * x**2 - p, np.array([0.5 + 0j, 0.5j]), f_tol=1e-12
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_unknowns(name: str) -> None:
    """Functions may take conjugates: derivatives are those by both parts."""
    f, p, step = COMPLEX[name], 1.0 + 0.7j, 1e-5
    for direction in (1.0, 1j):
        wanted = (f(p + direction * step) - f(p - direction * step)) / (2 * step)
        for push in (fgrad.jvp, fgrad.jit(fgrad.jvp, static_argnums=0)):
            found = push(f, (p,), (complex(direction),))[1]
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
        _, pull = fgrad.vjp(f, p)
        cotangent = np.ones_like(f(p)) * (2 - 1j)
        pulled = pull(cotangent)[0]
        there = np.real(np.sum(cotangent * wanted))
        np.testing.assert_allclose(np.real(pulled * direction), there, rtol=1e-4, atol=1e-7)


PRECISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "newton": lambda s, v: so.newton(lambda q: q**3 + q - v, s),
    "hybr": lambda s, v: so.root(lambda q: q**3 + q - v, s).x,
    "krylov": lambda s, v: so.root(lambda q: q**3 + q - v, s, method="krylov").x,
    "broyden2": lambda s, v: so.broyden2(lambda q: 2 * q + 0.1 * np.sin(q) - v, s),
    "fixed_point": lambda s, v: so.fixed_point(lambda q: v + 0.1 * np.cos(q), s),
    "least_squares": lambda s, v: so.least_squares(lambda q: q**3 + q - v, s).x,
    **{
        method: lambda s, v, m=method: so.minimize(lambda q: np.sum((q - v) ** 2), s, method=m).x
        for method in ("Nelder-Mead", "Powell", "BFGS", "L-BFGS-B", "TNC", "SLSQP", "COBYLA",
                       "trust-constr", "trust-exact", "Newton-CG")
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("name", PRECISIONS)
def test_starts_in_coarse_precision(name: str, kind: type[np.generic]) -> None:
    """The search has the precision of the function's values, single at least."""
    f, coarse = PRECISIONS[name], np.array([0.5, 0.25, 0.125], kind)
    wanted = f(coarse.astype(np.float64), V)
    found = fgrad.jit(f)(coarse, V)
    assert found.dtype == np.float64
    tolerance = 1e-4 if name in ("COBYLA", "trust-constr", "Nelder-Mead") else 1e-6
    np.testing.assert_allclose(found, wanted, atol=tolerance)
    single = fgrad.jit(f)(coarse, V.astype(np.float32))
    assert single.dtype in (np.float32, np.float64)
    np.testing.assert_allclose(single, wanted, atol=5e-3)


def test_numbers_of_root_scalar_are_doubles() -> None:
    """Parameters in single precision do not make the search coarse."""
    a, f = np.float32(1.7), lambda q: q**3 - np.float32(1.7) * q - 2
    wanted = scipy.optimize.root_scalar(f, x0=5.0, x1=0.0).root
    for start in (5.0, np.float16(5), np.float32(5)):
        for g in (f, lambda q: q**3 - a * q - 2):
            assert abs(so.root_scalar(g, x0=start, x1=0.0).root - wanted) < 1e-6
    assert abs(so.root_scalar(f, x0=5 + 0.5j, method="newton").root - wanted) < 1e-6


CARDS: dict[str, Callable[[Any], Any]] = {
    "complex start": lambda z: so.minimize(_bowl, z).x,
    "complex bracket": lambda z: so.minimize_scalar(lambda x: x * x, bracket=(z[0], 1.0)).x,
    "complex ends": lambda z: so.brentq(lambda x: x - 0.5, z[0], 1.0),
    "complex bounds": lambda z: so.minimize(_bowl, S, bounds=so.Bounds(z, ONES)).x,
    "complex matrix": lambda z: so.lsq_linear(z[:, None] * np.eye(3), V).x,
    "complex values": lambda z: so.minimize(lambda q: np.sum((q - z) ** 2), S).x,
    "many axes": lambda z: so.minimize(_bowl, z[None].real).x,
    "other shape": lambda z: so.root(lambda q: q[None] - V + z[0].real, S).x,
    "shape of a fixed point": lambda z: so.fixed_point(lambda q: q[None] * z[0].real, S),
}


@pytest.mark.parametrize("name", CARDS)
def test_refused(name: str) -> None:
    with pytest.raises(fgrad.errors.FgradError):
        fgrad.jit(CARDS[name])(V + 0.5j)
