"""Integrals over boxes, by the double exponential rule, sums, and boundary value problems: values
against SciPy, derivatives against differences, in all modes, jit and vmap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import fgrad.scipy.integrate as si
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import ArgumentError, FgradError, UnsupportedNumpyError

INF = np.inf
Program = Callable[[Any, Any], Any]  # of a parameter, and SciPy's module or fgrad's


def halton(dimensions: int) -> Any:
    return scipy.stats.qmc.Halton(dimensions, seed=2)


def integral(f: Callable[..., Any], a: Any, b: Any, **given: Any) -> Program:
    return lambda p, s: s.tanhsinh(lambda x, *r: f(x, p, *r), a, b, **given).integral.sum()


def bratu(c: Any, s: Any, end: Any = 1.0, **given: Any) -> Any:
    found = s.solve_bvp(
        lambda x, y: np.stack([y[1], -c * np.exp(y[0])]),
        lambda ya, yb: np.stack([ya[0], yb[0] - 0.1 * c]),
        np.linspace(0.0, 1.0, 7) * end, np.zeros((2, 7)), tol=1e-7, **given,
    )  # fmt: skip
    return found.sol(np.array([0.2, 0.43]))[0].sum()


def eigenvalue(q: Any, s: Any) -> Any:
    y = np.zeros((2, 5))
    y[0, 1], y[0, 3] = 1, -1
    return s.solve_bvp(
        lambda x, y, p: np.stack([y[1], -(p[0] ** 2) * y[0] * (1 + q * x)]),
        lambda ya, yb, p: np.stack([ya[0], yb[0], ya[1] - p[0]]),
        np.linspace(0, 1, 5), y, p=[6.0], tol=1e-7,
    ).p[0]  # fmt: skip


def emden(e: Any, s: Any) -> Any:
    guess = np.ones((2, 5)) * np.array([[1.0], [0.0]])
    return s.solve_bvp(
        lambda x, y: np.stack([y[1], -(y[0] ** (4 * e))]),
        lambda ya, yb: np.stack([ya[1], yb[0] - 0.75**0.5]),
        np.linspace(0, 1, 5), guess, S=np.array([[0, 0], [0, -2.0]]), tol=1e-6,
    ).sol(0.3)[0]  # fmt: skip


PROGRAMS: dict[str, Program] = {
    "cubature": lambda p, s: s.cubature(
        lambda x: np.exp(-p * x[:, 0]) * x[:, 1], [0, 0], [p, 2.0]
    ).estimate,
    "cubature turned": lambda p, s: s.cubature(
        lambda x: x[:, 0] ** p, [2.0], [0.5], rule="gk15"
    ).estimate,
    "cubature infinite": lambda p, s: s.cubature(
        lambda x: np.exp(-p * x[:, 0] ** 2 - x[:, 1]), [-INF, p], [INF, INF]
    ).estimate,
    "cubature vectors": lambda p, s: s.cubature(
        lambda x, q: np.stack([np.exp(-q * x[:, 0]), x[:, 0] ** q], -1), [0], [2.0], args=(p,)
    ).estimate.sum(),
    "cubature points": lambda p, s: s.cubature(
        lambda x: np.abs(x[:, 0] - 0.5) ** p, [0.0], [2.0], points=[[0.5]], rtol=1e-10
    ).estimate,
    "qmc_quad": lambda p, s: s.qmc_quad(
        lambda x: np.exp(-p * x[0]) * x[1], [0, 0], [p, -2.0], qrng=halton(2)
    ).integral,
    "qmc_quad error": lambda p, s: s.qmc_quad(
        lambda x: x[0] ** p, 0, 1, qrng=halton(1), n_estimates=4, n_points=16
    ).standard_error,
    "tanhsinh exp": integral(lambda x, p: np.exp(-p * x), 0, INF),
    "tanhsinh gauss": integral(lambda x, p: np.exp(-p * x * x), -INF, INF),
    "tanhsinh singular": integral(lambda x, p: x ** (p - 1.5), 0, 1.0),
    "tanhsinh log": integral(lambda x, p: np.log(x) * p, 0, 2.0),
    "tanhsinh downwards": integral(lambda x, p: np.exp(p * x), 1.0, -INF),
    "tanhsinh below": integral(lambda x, p: np.exp(p * x), -INF, 1.0),
    "tanhsinh turned": integral(lambda x, p: np.sin(p * x), 2.0, 0.5),
    "tanhsinh narrow": integral(lambda x, p: 1 / (1e-4 + (x - 0.3 * p) ** 2), 0, 1.0),
    "tanhsinh arrays": integral(
        lambda x, p, q: np.exp(-p * q * x), np.zeros(2), np.array([1.0, INF]),
        args=(np.array([[1.0], [2.0]]),),
    ),
    "tanhsinh limits": lambda p, s: s.tanhsinh(np.sin, p, 2 * p).integral,
    "tanhsinh limit": lambda p, s: s.tanhsinh(lambda x: np.exp(-x), p, INF).integral,
    "nsum": lambda p, s: s.nsum(lambda k: k ** (-p - 1), 1, INF).sum,
    "nsum finite": lambda p, s: s.nsum(lambda k: k**-p, 1, 50).sum,
    "nsum step": lambda p, s: s.nsum(lambda k: np.exp(-p * k), 0.5, INF, step=0.5).sum,
    "nsum start": lambda p, s: s.nsum(lambda k: 1 / k**3, p, INF).sum,
    "nsum many": lambda p, s: s.nsum(lambda k: k**-p, 1, 3000, maxterms=1000).sum,
    "nsum mixed": lambda p, s: s.nsum(
        lambda k, q: k ** (-p * q), np.array([1, 2, 3]), np.array([10, INF, 2]), args=([2, 3, 1],)
    ).sum.sum(),
    "solve_bvp": bratu,
    "solve_bvp end": lambda p, s: bratu(1.0, s, p),
    "solve_bvp parameter": eigenvalue,
    "solve_bvp singular": emden,
}  # fmt: skip
ROUGH = {"nsum many": 1e-7, "nsum": 1e-9}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_slopes(name: str) -> None:
    program, p, h = PROGRAMS[name], 1.3, 1e-4

    def ours(p: Any) -> Any:
        return program(p, si)

    wanted = program(p, scipy.integrate)
    compiled = jit(ours)
    np.testing.assert_allclose(compiled(p), wanted, rtol=ROUGH.get(name, 1e-10))
    np.testing.assert_allclose(ours(p), wanted, rtol=1e-14)
    value, forward = jvp(ours, (p,), (1.0,))
    np.testing.assert_allclose(value, wanted, rtol=ROUGH.get(name, 1e-10))
    reverse = grad(ours)(p)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)
    np.testing.assert_allclose(jit(grad(ours))(p), reverse, rtol=1e-8)
    several = vmap(ours)(np.array([p, 1.1]))
    np.testing.assert_allclose(several, [wanted, program(1.1, scipy.integrate)], rtol=1e-7)
    ends = [program(p + s * h, scipy.integrate) for s in (-2, -1, 1, 2)]
    slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
    np.testing.assert_allclose(reverse, slope, rtol=2e-6)


@pytest.mark.parametrize("name", ["cubature", "tanhsinh exp", "nsum", "solve_bvp"])
def test_second_derivatives(name: str) -> None:
    slope, h = grad(lambda p: PROGRAMS[name](p, si)), 1e-4
    difference = (slope(1.3 + h) - slope(1.3 - h)) / (2 * h)
    np.testing.assert_allclose(grad(slope)(1.3), difference, rtol=1e-5)


def test_types_of_double_exponential_integrals() -> None:
    single = jit(lambda a: si.tanhsinh(lambda x: np.exp(-x), a, np.float32(1)))(np.float32(0))
    assert single.integral.dtype == np.float32
    np.testing.assert_allclose(single.integral, 1 - np.exp(-1), rtol=1e-6)
    wanted = scipy.integrate.tanhsinh(lambda x: np.exp(-1j * x), 0.0, 1.0).integral
    found = jit(lambda a: si.tanhsinh(lambda x: np.exp(-1j * x), a, 1.0).integral)(0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    empty = jit(lambda a: si.tanhsinh(np.exp, a, 1.0).integral)(np.zeros((0, 2)))
    assert empty.shape == (0, 2)


@pytest.mark.parametrize(
    ("f", "status"),
    [
        (lambda x: np.exp(-x) + np.nan, -3),
        (lambda x: np.sin(1e4 * x), -2),
        (np.exp, 0),
    ],
)
def test_status_is_scipys(f: Any, status: int) -> None:
    found = jit(lambda a: si.tanhsinh(f, a, 1.0, maxlevel=4))(0.0)
    assert found.status == status == scipy.integrate.tanhsinh(f, 0.0, 1.0, maxlevel=4).status
    assert bool(found.success) == (status == 0)
    np.testing.assert_allclose(jit(lambda a: si.tanhsinh(f, a, 1.0).integral)(1.0), 0.0)


def test_an_unmet_tolerance_is_told() -> None:
    f = jit(lambda p: si.cubature(lambda x: np.abs(x[:, 0] - p), [0], [1], max_subdivisions=1))
    assert not f(0.3).success


def test_nodes_of_boundary_value_problems() -> None:
    def found(c: Any, s: Any) -> Any:
        return s.solve_bvp(
            lambda x, y: np.stack([y[1], -c * y[0]]), lambda a, b: np.stack([a[0], b[0] - 1.0]),
            np.linspace(0, 1, 5), np.ones((2, 5)),
        )  # fmt: skip

    theirs = found(1.0, scipy.integrate)
    for name in ("x", "y", "yp"):
        value, slope = jvp(lambda c, n=name: getattr(found(c, si), n), (1.0,), (1.0,))
        np.testing.assert_allclose(value, getattr(theirs, name), atol=1e-12)
        assert np.isfinite(slope).all()
    places = np.array([-0.1, 0.0, 0.5, 1.0, 1.2])
    for nu in (0, 1, 2):
        sol = jit(lambda c, nu=nu: found(c, si).sol(places, nu))(1.0)
        np.testing.assert_allclose(sol, theirs.sol(places, nu), atol=1e-10)
    with pytest.raises(UnsupportedNumpyError, match="solve_bvp"):
        jit(lambda c: found(c, si).y)(1.0)


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (lambda p: si.qmc_quad(lambda x: p * x[0], 0, 1), UnsupportedNumpyError),
        (lambda p: si.qmc_quad(lambda x: p * x[0], 0, 1, qrng=halton(1), log=True), FgradError),
        (lambda p: si.qmc_quad(lambda x: p, 0, 1, qrng=halton(1)), ArgumentError),
        (lambda p: si.cubature(lambda x: p * x[:, 0], [], []), ArgumentError),
        (lambda p: si.cubature(lambda x: p * x[:, 0] * 1j, [0], [1]), UnsupportedNumpyError),
        (lambda p: si.cubature(lambda x: p * x[:, 0], [0], [1], workers=2), UnsupportedNumpyError),
        (lambda p: si.tanhsinh(lambda x: p * x, 0, 1, log=True), UnsupportedNumpyError),
        (lambda p: si.tanhsinh(lambda x: p * x, 0, 1, callback=print), UnsupportedNumpyError),
        (lambda p: si.tanhsinh(lambda x: x, p * 1j, 1), ArgumentError),
        (lambda p: si.nsum(lambda x: x, 0, p), ArgumentError),
        (lambda p: si.nsum(lambda x: p * x, -INF, 0), UnsupportedNumpyError),
        (lambda p: bratu(p, si, S=np.zeros(3) * 1j), FgradError),
        (lambda p: si.solve_bvp(lambda x, y: p * y[0], lambda a, b: a, [0, 1], np.ones((2, 2))),
         ArgumentError),
        (lambda p: si.solve_bvp(lambda x, y: p * y, lambda a, b: a[:1], [0, 1], np.ones((2, 2))),
         ArgumentError),
        (lambda p: si.solve_bvp(lambda x, y: p * y, lambda a, b: a, [0, 1], np.ones(2)),
         FgradError),
        (lambda p: si.solve_bvp(lambda x, y: p * y, lambda a, b: a, [0, 1], 1j * np.ones((1, 2))),
         UnsupportedNumpyError),
    ],
)  # fmt: skip
def test_what_has_no_traced_form_is_refused(program: Any, error: type[Exception]) -> None:
    with warnings.catch_warnings(), pytest.raises(error):
        warnings.simplefilter("ignore")
        jit(program)(1.0)
