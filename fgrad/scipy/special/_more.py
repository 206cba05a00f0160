"""L7. Special functions of no family: Lambert, Wright, Faddeeva, Voigt, functions of degrees."""

from __future__ import annotations

import math
from collections.abc import Callable

from fgrad.ops.complex import complex_, imag, real
from fgrad.ops.elementwise import exp, lit, log, select, square
from fgrad.ops.special_functions import zeta_s
from fgrad.scipy.special._table import is_zero, special, tabulated, where, whole
from fgrad.trace import Value

# --- w exp(w) = z (DLMF 4.13.4), w + log(w) = z ---------------------------------------------------

lambertw = tabulated(
    "lambertw_at",
    lambda z, k, out: exp(-out) / (1 + out),
    None,
    evaluate=lambda z, k: special.lambertw(z, whole(k)),
    accepts="c",
)
wrightomega = tabulated("wrightomega", lambda z, out: out / (1 + out), accepts="fc")


# --- Wright's Bessel function: sum x^k / k! gamma(a k + b) ----------------------------------------

wright_bessel = tabulated(
    "wright_bessel", "a", "b", lambda a, b, x, out: wright_bessel(a, a + b, x)
)
log_wright_bessel = tabulated(
    "log_wright_bessel", "a", "b", lambda a, b, x, out: exp(log_wright_bessel(a, a + b, x) - out)
)


# --- Faddeeva's function: w' = 2 i / sqrt(pi) - 2 z w (DLMF 7.10.2, 7.12) -------------------------

_FAR = 1000.0  # of |z|^2: 2 z w loses a thousandth of its digits
_TERMS = 10
_ROOT = 1 / math.sqrt(math.pi)


def _series(z: Value, weight: Callable[[int], int]) -> tuple[Value, Value]:
    """Whether z is far above the real axis, and sum (2k + 1)!! / 2^k weight(k) z^-(2k + 2)."""
    far = (square(real(z)) + square(imag(z)) > _FAR) & (imag(z) >= 0)
    u = 1 / square(select(far, z, lit(z, 1)))
    total = lit(z, 0)
    for k in reversed(range(_TERMS)):
        odd = math.prod(range(1, 2 * k + 2, 2)) / 2**k
        total = total * u + odd * weight(k)
    return far, total * u


def _slope(z: Value, w: Value) -> Value:
    """w' by its equation, and by -i / sqrt(pi) sum (2k + 1)!! / 2^k z^-(2k + 2)."""
    far, total = _series(z, lambda _: 1)
    return select(far, total * (-1j * _ROOT), 2j * _ROOT - 2 * z * w)


def _bend(z: Value, w: Value, slope: Value) -> Value:
    """w'' = -2 w - 2 z w', and the derivative of the series of w'."""
    far, total = _series(z, lambda k: 2 * k + 2)
    safe = select(far, z, lit(z, 1))
    return select(far, total / safe * (1j * _ROOT), -2 * (w + z * slope))


wofz = tabulated("wofz", lambda z, out: faddeeva_slope(z), accepts="c")
faddeeva_slope = tabulated(
    "faddeeva_slope",
    lambda z, out: _bend(z, wofz(z), out),
    evaluate=lambda z: _slope(z, special.wofz(z)),
    accepts="c",
)


# --- Voigt's profile V = Re w(z) / (s sqrt(2 pi)), z = (x + i g) / (s sqrt(2)); dV/ds = s V_xx ----


def _voigt_place(x: Value, s: Value, g: Value) -> tuple[Value, Value]:
    """z, and s, without division by zero; s is 1 where it is 0."""
    safe = where(is_zero(s), 1, s)
    scale = safe * math.sqrt(2)
    return complex_(x / scale + g * 0, g / scale + x * 0), safe


def _lorentz(x: Value, g: Value, of_x: bool) -> Value:
    """The slopes of g / pi (x^2 + g^2), which is V for s = 0."""
    below = math.pi * square(x * x + g * g)
    return (-2 * x * g if of_x else x * x - g * g) / below


def _voigt_x(x: Value, s: Value, g: Value, out: Value) -> Value:
    z, safe = _voigt_place(x, s, g)
    inside = real(faddeeva_slope(z)) / (safe * safe * (2 * math.sqrt(math.pi)))
    return where(is_zero(s), _lorentz(x, g, True), inside)


def _voigt_g(x: Value, s: Value, g: Value, out: Value) -> Value:
    z, safe = _voigt_place(x, s, g)
    inside = imag(faddeeva_slope(z)) / (safe * safe * (-2 * math.sqrt(math.pi)))
    return where(is_zero(s), _lorentz(x, g, False), inside)


def _voigt_s(x: Value, s: Value, g: Value, out: Value) -> Value:
    z, safe = _voigt_place(x, s, g)
    bend = real(_bend(z, wofz(z), faddeeva_slope(z)))
    return where(is_zero(s), 0, bend / (safe * safe * (2 * math.sqrt(2 * math.pi))))


voigt_profile = tabulated("voigt_profile", _voigt_x, _voigt_s, _voigt_g)


# --- powers, zeta, degrees ------------------------------------------------------------------------


def _powm1_base(x: Value, y: Value, out: Value) -> Value:
    """y x^(y - 1), and 0 for y = 0."""
    return where(is_zero(y), 0, y * x ** (y - 1))


def _powm1_power(x: Value, y: Value, out: Value) -> Value:
    """x^y log(x), and 0 for x = 0 and y > 0."""
    zero = is_zero(x) & (y > 0)
    return where(zero, 0, (1 + out) * log(where(zero, 1, x)))


powm1 = tabulated("powm1", _powm1_base, _powm1_power)
zetac = tabulated("zetac", lambda x, out: zeta_s(x, lit(x, 1)))

_DEGREE = math.pi / 180
cosdg = tabulated("cosdg", lambda x, out: -_DEGREE * sindg(x))
sindg = tabulated("sindg", lambda x, out: _DEGREE * cosdg(x))
tandg = tabulated("tandg", lambda x, out: _DEGREE * (1 + out * out))
cotdg = tabulated("cotdg", lambda x, out: -_DEGREE * (1 + out * out))


def _unit(k: int) -> Callable[..., Value]:
    return lambda *xs: lit(xs[k], _DEGREE / 60**k)


radian = tabulated("radian", _unit(0), _unit(1), _unit(2))
rounded = tabulated("round", None)
