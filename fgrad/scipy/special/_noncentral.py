"""L7. Non-central distributions: their densities as sums and integrals, their functions by SciPy.

    f = sum_j w_j f_j,  w_j = exp(-nc/2) (nc/2)^j / j!       chi^2 with v + 2 j, or F
    f = int p(w) (w / sqrt(df)) phi(t w / sqrt(df) - nc) dw   t, with p the density of chi

Terms and integrand have one peak; a sum is taken by steps of a sixth of its width, an integral by a
trapezoidal rule about it, to rounding.  They are compositions: derivatives of any order follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.numpy.promote import convert
from fgrad.ops.elementwise import lit, stop_gradient
from fgrad.ops.erf_gamma import digamma, lgamma
from fgrad.ops.special_functions import (
    Function,
    betainc_a,
    betainc_b,
    gammainc_a,
    log_ndtr,
)
from fgrad.scipy.special._inverses import Slopes, complement, distribution, inverse, stats
from fgrad.scipy.special._table import tabulated
from fgrad.trace import Value
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.typing import Array

_DOUBLE = np.dtype(np.float64)
_STEPS = np.arange(-48.0, 49.0)
_NODES = 0.05 * np.arange(-160, 51)
_STRETCH = 3.0  # widths of a peak to a unit of the rule's variable

Term = Callable[[Value], Value]


def log_sum(values: Value) -> Value:
    """log(sum(exp(values))) over the last axis."""
    top = stop_gradient(np.max(values, axis=-1, keepdims=True))
    top = np.where(np.isfinite(top), top, lit(top, 0))
    return top[..., 0] + np.log(np.sum(np.exp(values - top), axis=-1))


def _window(centre: Value, width: Value, last: Value | None) -> tuple[Value, Value, Value]:
    """Integers about a peak, in a new last axis, whether each is from 0 to `last`, their step."""
    first = stop_gradient(np.round(centre))[..., None]
    step = stop_gradient(np.maximum(np.ceil(width / 6), 1.0))[..., None]
    j = first + step * _STEPS
    known = j >= 0
    if last is not None:
        known = known & (j <= stop_gradient(last)[..., None])
    return np.where(known, j, np.clip(first, 0.0, None)), known, step[..., 0]


def log_series(log_term: Term, centre: Value, width: Value, last: Value | None = None) -> Value:
    """The logarithm of a sum over integers from 0 on, which has one peak.

    Arguments:
        log_term: of the integers, in a new last axis.
        centre, width: of the peak, as a standard deviation.
        last: the greatest integer; None if there is none.
    """
    j, known, step = _window(centre, width, last)
    return log_sum(np.where(known, log_term(j), -math.inf)) + np.log(step)


def _series(term: Term, centre: Value, width: Value) -> Value:
    """The sum itself."""
    j, known, step = _window(centre, width, None)
    return step * np.sum(np.where(known, term(j), 0.0), axis=-1)


def log_integral(log_f: Term, centre: Value, width: Value, nodes: Array = _NODES) -> Value:
    """The logarithm of the integral over all numbers u of a positive function with one peak.

    Arguments:
        log_f: of the places, in a new last axis.
        centre, width: of the peak, as a standard deviation.
        nodes: of the rule; by default they reach 1,500 widths to the left and 6 to the right.
    """
    scale = _STRETCH * stop_gradient(width)
    u = stop_gradient(centre)[..., None] + scale[..., None] * np.sinh(nodes)
    terms = log_f(u) + np.log(np.cosh(nodes))
    return log_sum(terms) + np.log(scale * (nodes[1] - nodes[0]))


def _wide(*xs: Value) -> list[Value]:
    """Operands in double precision, with an axis for the terms of a sum."""
    return [convert(x, _DOUBLE)[..., None] for x in xs]


def _log_power(x: Value, k: Value) -> Value:
    """log(x^k), also of 0^0."""
    return np.where(k == 0, lit(k, 0), k * np.log(x))


def _log_weight(j: Value, nc: Value) -> Value:
    """The logarithm of (nc/2)^j / j!."""
    some = nc > 0
    power = j * np.log(np.where(some, nc, lit(nc, 1)) / 2)
    return np.where(some, power, np.where(j == 0, 0.0, -math.inf)) - lgamma(j + 1)


# --- chi^2 ----------------------------------------------------------------------------------------


def _chi_peak(x: Value, v: Value, nc: Value) -> tuple[Value, Value]:
    """The greatest term (nc x / 4)^j / (j! gamma(v/2 + j)), and the width of the peak."""
    a = v / 2 - 1
    j = np.maximum((np.sqrt(a * a + nc * x) - a) / 2, 0.0)
    return j, 1 / np.sqrt(1 / (j + 1) + 1 / (j + v / 2))


def _chi_series(x: Value, v: Value, nc: Value) -> Value:
    wide_x, wide_v, wide_nc = _wide(x, v, nc)

    def term(j: Value) -> Value:
        a = wide_v / 2 + j
        return _log_weight(j, wide_nc) + _log_power(wide_x / 2, a - 1) - lgamma(a)

    peak = _chi_peak(*[convert(stop_gradient(y), _DOUBLE) for y in (x, v, nc)])
    return convert(log_series(term, *peak) - math.log(2) - (wide_nc + wide_x)[..., 0] / 2, x.dtype)


def slope_of(function: Callable[..., Value], place: int, *xs: Value) -> Value:
    """The derivative of an elementwise function in one of its operands."""
    one = lambda x: function(*xs[:place], x, *xs[place + 1 :])  # noqa: E731
    return jvp(one, (xs[place],), (xs[place] * 0 + 1,))[1]


# The logarithm of the density of non-central chi^2 at x > 0, by SciPy, with the slopes of the sum;
# f_nc = (f(v + 2) - f(v)) / 2 holds at nc = 0 too.
ncx2_log_density = tabulated(
    "ncx2_logpdf",
    lambda x, v, nc, out: slope_of(_chi_series, 0, x, v, nc),
    lambda x, v, nc, out: slope_of(_chi_series, 1, x, v, nc),
    lambda x, v, nc, out: 0.5 * np.expm1(ncx2_log_density(x, v + 2, nc) - out),
    evaluate=lambda x, v, nc: stats.ncx2.logpdf(x, v, nc),
)


def _inside(x: Value, slope: Callable[[Value], Value]) -> Value:
    """A slope at x > 0, zero elsewhere."""
    inner = (x > 0) & (x < math.inf)
    return np.where(inner, slope(np.where(inner, x, lit(x, 1))), lit(x, 0))


def _chi_by_df(x: Value, v: Value, nc: Value) -> Value:
    """1/2 sum_j w_j dP(v/2 + j, x/2)/da."""
    wide_x, wide_v, wide_nc = _wide(x, v, nc)

    def term(j: Value) -> Value:
        a = wide_v / 2 + j
        weight = np.exp(_log_weight(j, wide_nc) - wide_nc / 2)
        return weight * gammainc_a(*np.broadcast_arrays(a, wide_x / 2))

    peak = _chi_peak(*[convert(stop_gradient(y), _DOUBLE) for y in (x, v, nc)])
    return convert(0.5 * _series(term, *peak), x.dtype)


CHI: Slopes = (  # F(x, v, nc)
    lambda x, v, nc: _inside(x, lambda x: np.exp(ncx2_log_density(x, v, nc))),
    lambda x, v, nc: _inside(x, lambda x: _chi_by_df(x, v, nc)),
    lambda x, v, nc: _inside(x, lambda x: -np.exp(ncx2_log_density(x, v + 2, nc))),
)


# --- F --------------------------------------------------------------------------------------------


def _beta_peak(q: Value, a: Value, b: Value, nc: Value) -> tuple[Value, Value]:
    """The greatest term (nc q / 2)^j gamma(a + b + j) / (j! gamma(a + j)), and the width."""
    c = nc * q / 2
    d = c - a - 1
    j = np.maximum((d + np.sqrt(np.maximum(d * d + 4 * (c * (a + b) - a), 0.0))) / 2, 0.0)
    return j, 1 / np.sqrt(1 / (j + 1) + 1 / (a + j) - 1 / (a + b + j))


def _log_beta(a: Value, b: Value) -> Value:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _beta_series(q: Value, a: Value, b: Value, nc: Value) -> Value:
    """log sum_j (nc/2)^j / j! q^j / B(a + j, b)."""
    wide_q, wide_a, wide_b, wide_nc = _wide(q, a, b, nc)

    def term(j: Value) -> Value:
        shape = wide_a + j
        scale = _log_beta(shape, wide_b)
        return _log_weight(j, wide_nc) + _log_power(wide_q, j) - scale

    peak = _beta_peak(*[convert(stop_gradient(y), _DOUBLE) for y in (q, a, b, nc)])
    return log_series(term, *peak)


@CustomJvp
def _log_beta_mixture(q: Value, a: Value, b: Value, nc: Value) -> Value:
    return _beta_series(q, a, b, nc)


@_log_beta_mixture.defjvp
def _(primals: tuple[Value, ...], tangents: tuple[Value, ...]) -> tuple[Value, Value]:
    """The slope in nc is q/2 times the ratio of the sum of a + 1, also at nc = 0."""
    q, a, b, nc = primals
    out, along = jvp(lambda q, a, b: _beta_series(q, a, b, nc), (q, a, b), tangents[:3])
    ratio = np.exp(_log_beta_mixture(q, a + 1, b, nc) - out)
    return out, along + 0.5 * q * ratio * tangents[3]


def ncf_log_density(m: Value, n: Value, nc: Value, x: Value) -> Value:
    """The logarithm of the density of non-central F at x > 0."""
    dtype = x.dtype
    m, n, nc, x = [convert(y, _DOUBLE) for y in (m, n, nc, x)]
    below = n + m * x
    a, b, q = m / 2, n / 2, m * x / below
    scale = _log_power(q, a - 1) + (b - 1) * np.log(n / below) + np.log(m * n) - 2 * np.log(below)
    return convert(_log_beta_mixture(q, a, b, nc) + scale - nc / 2, dtype)


def _beta_slope(slope: Callable[..., Value], m: Value, n: Value, nc: Value, x: Value) -> Value:
    """sum_j w_j of a slope of I_q(a + j, b)."""
    a, b, wide_nc, q = _wide(m / 2, n / 2, nc, m * x / (n + m * x))

    def term(j: Value) -> Value:
        weight = np.exp(_log_weight(j, wide_nc) - wide_nc / 2)
        return weight * slope(*np.broadcast_arrays(a + j, b, q))

    centre, width = _beta_peak(*[stop_gradient(y)[..., 0] for y in (q, a, b, wide_nc)])
    return convert(_series(term, centre, width), x.dtype)


def _density(m: Value, n: Value, nc: Value, x: Value) -> Value:
    return np.exp(ncf_log_density(m, n, nc, x))


def _by_first(m: Value, n: Value, nc: Value, x: Value) -> Value:
    return 0.5 * _beta_slope(betainc_a, m, n, nc, x) + _density(m, n, nc, x) * x / m


def _by_second(m: Value, n: Value, nc: Value, x: Value) -> Value:
    return 0.5 * _beta_slope(betainc_b, m, n, nc, x) - _density(m, n, nc, x) * x / n


def _by_nc(m: Value, n: Value, nc: Value, x: Value) -> Value:
    """-1/2 sum_j w_j q^(a + j) (1 - q)^b / ((a + j) B(a + j, b))."""
    a, b, wide_nc, q = _wide(m / 2, n / 2, nc, m * x / (n + m * x))

    def term(j: Value) -> Value:
        shape = a + j
        scale = _log_beta(shape, b) + np.log(shape)
        return _log_weight(j, wide_nc) + shape * np.log(q) + b * np.log1p(-q) - scale

    known = [stop_gradient(y)[..., 0] for y in (q, a, b, wide_nc)]
    total = log_series(term, *_beta_peak(*known)) - wide_nc[..., 0] / 2
    return convert(-0.5 * np.exp(total), x.dtype)


SNEDECOR: Slopes = (  # F(m, n, nc, x)
    lambda m, n, nc, x: _inside(x, lambda x: _by_first(m, n, nc, x)),
    lambda m, n, nc, x: _inside(x, lambda x: _by_second(m, n, nc, x)),
    lambda m, n, nc, x: _inside(x, lambda x: _by_nc(m, n, nc, x)),
    lambda m, n, nc, x: _inside(x, lambda x: _density(m, n, nc, x)),
)


# --- t --------------------------------------------------------------------------------------------


def _chi_constant(df: Value) -> Value:
    """The logarithm of the density of chi without its power and its exponential."""
    return (1 - df / 2) * math.log(2) - lgamma(df / 2)


def _student_peak(df: Value, nc: Value, t: Value, power: float) -> tuple[Value, Value]:
    """The peak of w^(df + power) exp(-w^2 / 2 - (t w / sqrt(df) - nc)^2 / 2) in log(w)."""
    k, s, b = df + power, 1 + t * t / df, t * nc / np.sqrt(df)
    root = np.sqrt(b * b + 4 * s * k)
    w = np.where(b > 0, (b + root) / (2 * s), 2 * k / (root - np.where(b > 0, lit(b, 0), b)))
    return np.log(w), 1 / np.sqrt(s * w * w + k)


def _over_chi(
    df: Value, nc: Value, t: Value, power: float, log_g: Callable[[Value, Value], Value]
) -> Value:
    """log int p(w) w^power exp(log_g(z, log w)) dw, z = t w / sqrt(df) - nc; p is chi's density."""
    d, c, x = _wide(df, nc, t)
    known = [stop_gradient(y)[..., 0] for y in (d, c, x)]
    peak, width = _student_peak(known[0], known[1], known[2], power)
    most = np.maximum(peak, 0.0)[..., None] + 5.0  # beyond, the integrand is 0

    def integrand(u: Value) -> Value:
        w = np.exp(np.minimum(u, most))
        return (d + power) * u - w * w / 2 + log_g(x * w / np.sqrt(d) - c, u)

    return log_integral(integrand, peak, width) + _chi_constant(d[..., 0])


def _log_normal(z: Value, _: Value) -> Value:
    return -z * z / 2 - 0.5 * math.log(2 * math.pi)


def nct_log_density(df: Value, nc: Value, t: Value) -> Value:
    """The logarithm of the density of non-central t."""
    found = _over_chi(df, nc, t, 1.0, _log_normal) - 0.5 * np.log(convert(df, _DOUBLE))
    return convert(found, t.dtype)


def _student_by_nc(df: Value, nc: Value, t: Value) -> Value:
    """-int p(w) phi(t w / sqrt(df) - nc) dw."""
    return convert(-np.exp(_over_chi(df, nc, t, 0.0, _log_normal)), t.dtype)


def _student_by_df(df: Value, nc: Value, t: Value) -> Value:
    """int p (log(w) - log(2)/2 - psi(df/2)/2) Phi(z) dw - t/(2 df) f; p times the bracket has
    integral 0, so that Phi(z) may be Phi(z) - 1 where that is less."""
    wide = convert(df, _DOUBLE)
    middle = ((math.log(2) + digamma(wide / 2)) / 2)[..., None]
    upper = (t > nc)[..., None]
    sign = np.where(upper, -1.0, 1.0)

    def part(side: float) -> Value:
        def log_g(z: Value, u: Value) -> Value:
            away = side * (u - middle)
            counts = away > 0
            size = np.log(np.where(counts, away, 1.0)) + log_ndtr(sign * z)
            return np.where(counts, size, -math.inf)

        return side * np.exp(_over_chi(df, nc, t, 0.0, log_g))

    mixed = sign[..., 0] * (part(1.0) + part(-1.0))
    density = np.exp(nct_log_density(df, nc, t))
    return convert(mixed, t.dtype) - t / (2 * df) * density


def _finite(t: Value, slope: Callable[[Value], Value]) -> Value:
    inner = np.isfinite(t)
    return np.where(inner, slope(np.where(inner, t, lit(t, 0))), lit(t, 0))


STUDENT: Slopes = (  # F(df, nc, t)
    lambda df, nc, t: _finite(t, lambda t: _student_by_df(df, nc, t)),
    lambda df, nc, t: _finite(t, lambda t: _student_by_nc(df, nc, t)),
    lambda df, nc, t: _finite(t, lambda t: np.exp(nct_log_density(df, nc, t))),
)


# --- functions ------------------------------------------------------------------------------------

chndtr = distribution("chndtr", CHI)
chndtrix = inverse("chndtrix", (None, 1, 2), CHI, solves=chndtr)
chndtridf = inverse("chndtridf", (0, None, 2), CHI, solves=chndtr)
chndtrinc = inverse("chndtrinc", (0, 1, None), CHI, solves=chndtr)
ncfdtr = distribution("ncfdtr", SNEDECOR)
ncfdtri = inverse("ncfdtri", (0, 1, 2, None), SNEDECOR, solves=ncfdtr)
ncfdtridfn = inverse("ncfdtridfn", (None, 1, 2, 3), SNEDECOR, solves=ncfdtr)
ncfdtridfd = inverse("ncfdtridfd", (0, None, 2, 3), SNEDECOR, solves=ncfdtr)
ncfdtrinc = inverse("ncfdtrinc", (0, 1, None, 3), SNEDECOR, solves=ncfdtr)
nctdtr = distribution("nctdtr", STUDENT)
nctdtrit = inverse("nctdtrit", (0, 1, None), STUDENT, solves=nctdtr)
nctdtridf = inverse("nctdtridf", (None, 1, 2), STUDENT, solves=nctdtr)
nctdtrinc = inverse("nctdtrinc", (0, None, 2), STUDENT, solves=nctdtr)


def upper_tail(name: str, slopes: Slopes, evaluate: Callable[..., Array]) -> Function:
    """1 - F, which SciPy has in `scipy.stats` alone."""
    return distribution(name, complement(slopes), evaluate)
