"""L7. Elliptic integrals: Carlson's, Legendre's incomplete ones, Jacobi's functions, the AGM.

    I(b; x, y, ...) = int_0^inf t^b0 (t + x)^-b1 (t + y)^-b2 ... dt

All derivatives of Carlson's integrals are such: d/dx of I is -b1 I with b1 + 1.  They have no
cancellation anywhere, other than the formulas of DLMF 19.18, which divide by differences of
operands.  I is a sum over a grid in log t, which converges geometrically.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Cost, Host
from fgrad.ops.elementwise import abs_, cos, lit, rint, sin, sqrt
from fgrad.ops.families import DerivativeMap, finish_elementwise, same_dtype, same_shape
from fgrad.ops.special_functions import Function
from fgrad.scipy.special._table import Slope, is_zero, outputs, tabulated, where
from fgrad.trace import Value, bind
from fgrad.typing import Array

integral_p = Primitive(
    "carlson_integral", traits.elementwise(Cost.FUNCTION, host=Host.NUMPY), params=("powers",)
)
STEP = 0.4  # of log t: the error is exp(-2 pi^2 / STEP) = 4e-22 of the integral
DIGITS = 40  # log(1 / what is left out at the ends)
MOST = 4  # operands


@integral_p.type_rule
def _(*avals: Aval, powers: tuple[float, ...]) -> Aval:
    return Aval(same_shape(integral_p, avals), same_dtype(integral_p, avals, "f"))


@integral_p.evaluate
def _(*xs: Array, powers: tuple[float, ...]) -> Value:
    """The sum over nodes t = exp(u), by the logarithm of the integrand."""
    given = [np.asarray(x, np.float64) for x in np.broadcast_arrays(*xs)]
    first, *rest = powers
    with np.errstate(all="ignore"):
        logs = [np.log(x) for x in given]
        at_zero = 1 + first - sum([b * (x == 0) for b, x in zip(rest, given, strict=True)])
        at_infinity = sum(rest) - 1 - first
        finite = [np.where(np.isfinite(y), y, np.nan) for y in logs]
        low = np.fmin.reduce(finite) - DIGITS / at_zero
        high = np.fmax.reduce(finite) + DIGITS / at_infinity
        total = np.zeros(given[0].shape)
        reached = low < high
        count = int(np.max((high - low)[reached] / STEP, initial=0)) + 1
        for k in range(count):
            u = low + k * STEP
            power = (1 + first) * u
            for b, y in zip(rest, logs, strict=True):
                power = power - b * np.logaddexp(u, y)
            total += np.exp(power)
        total = np.where(at_zero > 0, total * STEP, np.inf)
        bad = np.logical_or.reduce([np.isnan(y) for y in logs])
        infinite = np.logical_or.reduce([np.isinf(x) for x in given])
    return np.where(bad, np.nan, np.where(infinite, 0, total)).astype(xs[0].dtype)[()]


def _slope_in(k: int) -> DerivativeMap:
    """-b_k I with b_k + 1."""

    def rule(t: Value, *operands: Value, powers: tuple[float, ...]) -> Value:
        more = tuple([b + (i == k + 1) for i, b in enumerate(powers)])
        with np.errstate(all="ignore"):
            return t * (-powers[k + 1] * bind(integral_p, *operands[:-1], powers=more))

    return rule


finish_elementwise(integral_p, tuple([_slope_in(k) for k in range(MOST)]))


def integral(xs: tuple[Value, ...], *powers: float) -> Value:
    """I(powers; xs)."""
    return bind(integral_p, *xs, powers=powers)


# --- Carlson's integrals, each a factor times I ---------------------------------------------------


def _carlson(name: str, factor: float, *powers: float) -> Function:
    def slope(k: int) -> Slope:
        more = (0.0, *[b + (i == k) for i, b in enumerate(powers)])
        return lambda *xs: -factor * powers[k] * integral(xs[:-1], *more)

    return tabulated(name, *[slope(k) for k in range(len(powers))])


def _general_slope(k: int) -> Slope:
    """int t (t + x)^-3/2 (t + y)^-1/2 (t + z)^-1/2 dt / 8."""
    powers = (1.0, *[0.5 + (i == k) for i in range(3)])
    return lambda *xs: integral(xs[:-1], *powers) / 8


elliprf = _carlson("elliprf", 0.5, 0.5, 0.5, 0.5)
elliprd = _carlson("elliprd", 1.5, 0.5, 0.5, 1.5)
elliprj = _carlson("elliprj", 1.5, 0.5, 0.5, 0.5, 1.0)
elliprg = tabulated("elliprg", *[_general_slope(k) for k in range(3)])


def _rc_x(x: Value, y: Value, out: Value) -> Value:
    """-I(0; 3/2, 1) / 4, and (RC - 1 / sqrt(x)) / 2 (y - x) for the principal value, y < 0."""
    principal = (out - 1 / sqrt(x)) / (2 * (y - x))
    return where(y < 0, principal, integral((x, y), 0.0, 1.5, 1.0) / -4)


def _rc_y(x: Value, y: Value, out: Value) -> Value:
    """-I(0; 1/2, 2) / 2, and by x RC_x + y RC_y = -RC / 2 for the principal value."""
    principal = (out / -2 - x * (out - 1 / sqrt(x)) / (2 * (y - x))) / y
    return where(y < 0, where(is_zero(x), out / y / -2, principal), _rc_second(x, y))


def _rc_second(x: Value, y: Value) -> Value:
    return integral((x, y), 0.0, 0.5, 2.0) / -2


elliprc = tabulated("elliprc", _rc_x, _rc_y)


# --- incomplete integrals; their slopes in m are sin^3 RD -----------------------------------------


def _by_periods(phi: Value, at: Function) -> Value:
    """f(phi) = f(r) + 2 k f(pi / 2) for phi = r + k pi; `at` takes sin and cos of the angle."""
    k = rint(phi / math.pi)
    r = phi - k * math.pi
    whole = where(is_zero(k), 0, 2 * k * at(lit(r, 1), lit(r, 0)))
    return at(sin(r), cos(r)) + whole


def first_kind_slope(phi: Value, m: Value) -> Value:
    """dF/dm = int sin^2 / (1 - m sin^2)^(3/2) / 2 = sin^3 RD(cos^2, 1, 1 - m sin^2) / 6."""

    def at(s: Value, c: Value) -> Value:
        return s**3 * elliprd(c * c, lit(m, 1), 1 - m * s * s) / 6

    return _by_periods(phi, at)


def _second_kind_slope(phi: Value, m: Value) -> Value:
    """dE/dm = -int sin^2 / (1 - m sin^2)^(1/2) / 2 = -sin^3 RD(cos^2, 1 - m sin^2, 1) / 6."""

    def at(s: Value, c: Value) -> Value:
        return s**3 * elliprd(c * c, 1 - m * s * s, lit(m, 1)) / -6

    return _by_periods(phi, at)


def _delta(phi: Value, m: Value) -> Value:
    return sqrt(1 - m * sin(phi) ** 2)


ellipkinc = tabulated(
    "ellipkinc",
    lambda phi, m, out: 1 / _delta(phi, m),
    lambda phi, m, out: first_kind_slope(phi, m),
)
ellipeinc = tabulated(
    "ellipeinc",
    lambda phi, m, out: _delta(phi, m),
    lambda phi, m, out: _second_kind_slope(phi, m),
)


# --- Jacobi's functions: phi with F(phi, m) = u, so d phi/dm = -dn dF/dm --------------------------


def _phi_m(u: Value, m: Value) -> Value:
    return -dn(u, m) * first_kind_slope(amplitude(u, m), m)


def _dn_m(u: Value, m: Value, out: Value) -> Value:
    s, c = sn(u, m), cn(u, m)
    return -(s * s + 2 * m * s * c * _phi_m(u, m)) / (2 * out)


sn, cn, dn, amplitude = outputs(
    "ellipj",
    ("sn", "cn", "dn", "ph"),
    [
        [lambda u, m, out: cn(u, m) * dn(u, m), lambda u, m, out: cn(u, m) * _phi_m(u, m)],
        [lambda u, m, out: -sn(u, m) * dn(u, m), lambda u, m, out: -sn(u, m) * _phi_m(u, m)],
        [lambda u, m, out: -m * sn(u, m) * cn(u, m), _dn_m],
        [lambda u, m, out: dn(u, m), lambda u, m, out: _phi_m(u, m)],
    ],
)


# --- the arithmetic-geometric mean: pi / 2 RF(0, a^2, b^2) M = 1 ----------------------------------


def _agm_slope(a: Value, b: Value, out: Value) -> Value:
    """In a: 2 |a| M^2 RD(0, b^2, a^2) / 3 pi."""
    return abs_(a) * out * out * elliprd(lit(a, 0), b * b, a * a) * (2 / (3 * math.pi))


agm = tabulated("agm", _agm_slope, lambda a, b, out: _agm_slope(b, a, out))
