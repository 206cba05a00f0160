"""scipy.special: functions of known orders, sequences, complex results; some against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as plain
from scipy_special_cases import ORDERS as CASES

import fgrad
import fgrad.scipy.special as traced
from fgrad.errors import ArgumentError, MissingRuleError, UnsupportedNumpyError

X = np.array([0.3, 0.8, 1.4])
COMPLEX = X + 1j * np.array([0.5, -0.2, 0.7])


def _parts(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    f = CASES[name]
    expected = _parts(f(plain, X))
    for got, want in zip(_parts(fgrad.jit(lambda x: f(traced, x))(X)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)
        assert np.shape(got) == np.shape(want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    f, h = CASES[name], 1e-5
    _, found = fgrad.jvp(lambda x: f(traced, x), (X,), (np.ones(3),))
    above, below = _parts(f(plain, X + h)), _parts(f(plain, X - h))
    tolerance = 1e-4 if name == "itairy" else 1e-6  # SciPy's values have ten digits
    for got, y, z in zip(_parts(found), above, below, strict=True):
        np.testing.assert_allclose(got, (y - z) / (2 * h), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["hankel1", "hankel1e", "hankel2", "hankel2e"])
def test_hankel_functions_of_complex_numbers(name: str) -> None:
    f = lambda z: getattr(traced, name)(1.5, z)  # noqa: E731
    value, slope = fgrad.jvp(f, (COMPLEX,), (np.ones(3) + 0j,))
    np.testing.assert_allclose(value, f(COMPLEX), rtol=1e-12)
    h = 1e-5
    np.testing.assert_allclose(slope, (f(COMPLEX + h) - f(COMPLEX - h)) / (2 * h), rtol=1e-7)


def test_scaled_functions_of_complex_numbers_have_no_derivative() -> None:
    with pytest.raises(MissingRuleError, match="jve at complex"):
        fgrad.jvp(lambda z: traced.jve(1.5, z), (COMPLEX,), (COMPLEX,))


def test_fresnel_integral_of_negative_numbers() -> None:
    """F(x) + F(-x) is the integral over all numbers; SciPy 1.17 has another value."""
    x = np.array([0.5, 2.0])
    f = fgrad.jit(lambda x: traced.modfresnelp(x)[0])
    np.testing.assert_allclose(f(x) + f(-x), np.sqrt(np.pi) * np.exp(0.25j * np.pi), rtol=1e-12)


def test_refused() -> None:
    with pytest.raises(ArgumentError, match="known integer"):
        fgrad.jit(lambda n: traced.jvp(1, 2.0, n))(2)
    with pytest.raises(UnsupportedNumpyError, match="tol"):
        fgrad.jit(lambda z: traced.lambertw(z, tol=1e-3))(2.0)
    with pytest.raises(ValueError, match="diff_n"):
        fgrad.jit(lambda z: traced.legendre_p(2, z, diff_n=3))(0.5)
    with pytest.raises(TypeError, match="complex"):
        fgrad.jit(traced.kelvin)(1j)


# Slopes in hard regions: near poles and coincident operands, in tails, for large operands.
HARD = {
    "elliprd": (lambda x: traced.elliprd(x, 2.0, 2.0 + 1e-9), 2.0),
    "elliprj": (lambda x: traced.elliprj(x, 1.0, 1.0, 1.0 + 1e-12), 1.0),
    "elliprf": (lambda x: traced.elliprf(x, 1e-12, 1e12), 1e-10),
    "voigt": (lambda x: traced.voigt_profile(x, 1.0, 1.0), 1e6),
    "zetac": (traced.zetac, 1.0 + 1e-6),
    "zetac below": (traced.zetac, -20.5),
    "zeta": (lambda x: traced.zeta(x, 0.3), 1.0 + 1e-6),
    "zeta far": (lambda x: traced.zeta(x, 40.0), 30.0),
    "zeta below": (traced.zeta, -3.5),
    "ellipkinc": (lambda m: traced.ellipkinc(0.5, m), 1e-12),
    "kolmogorov": (traced.kolmogorov, 6.0),
}


EXACT = {
    "elliprd": lambda x: mpmath.diff(lambda y: mpmath.elliprd(y, 2, 2 + mpmath.mpf(1e-9)), x),
    "elliprj": lambda x: mpmath.diff(lambda y: mpmath.elliprj(y, 1, 1, 1 + mpmath.mpf(1e-12)), x),
    "elliprf": lambda x: -mpmath.elliprd(mpmath.mpf(1e-12), 1e12, x) / 6,
    "voigt": lambda x: -2 / (mpmath.pi * x**3) * (1 + 4 / mpmath.mpf(x) ** 2),
    "zetac": lambda x: mpmath.zeta(x, derivative=1),
    "zetac below": lambda x: mpmath.diff(mpmath.zeta, x),
    "zeta": lambda x: mpmath.zeta(x, mpmath.mpf(0.3), derivative=1),
    "zeta far": lambda x: mpmath.zeta(x, 40, derivative=1),
    "zeta below": lambda x: mpmath.diff(mpmath.zeta, x),
    "ellipkinc": lambda m: mpmath.diff(lambda k: mpmath.ellipf(0.5, k), m),
    "kolmogorov": lambda y: -8 * y * mpmath.exp(-2 * y * y),
}


@pytest.mark.parametrize("name", HARD)
def test_slopes_in_hard_regions(name: str) -> None:
    f, x = HARD[name]
    with mpmath.workdps(60):
        want = float(EXACT[name](mpmath.mpf(x)))
    np.testing.assert_allclose(fgrad.grad(f)(x), want, rtol=1e-9)


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "kv", "kve", "jn"])
def test_orders_of_complex_operands(name: str) -> None:
    f, h = getattr(traced, name), 1e-6
    wanted, ends = getattr(plain, name)(1.5, COMPLEX), []
    for step in (h, -h):
        ends.append(getattr(plain, name)(1.5, COMPLEX + step))
    value, slope = fgrad.jvp(lambda z: f(1.5, z), (COMPLEX,), (np.ones(3) + 0j,))
    np.testing.assert_allclose(value, wanted, rtol=1e-14)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-7)
    single = fgrad.jit(lambda z: f(1.5, z))(COMPLEX.astype(np.complex64))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, wanted, rtol=2e-6)
    several = fgrad.vmap(lambda z: f(1.5, z))(COMPLEX)
    np.testing.assert_allclose(several, wanted, rtol=1e-14)
