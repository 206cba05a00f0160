"""L7. Tails of distributions where the difference of two numbers would lose them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.trace import Value

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_LEAST = -700.0  # of an exponent
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _integral(f: Callable[[Value], Value], size: Value) -> Value:
    """Of f from 0 to `size`, by 16 points."""
    half = 0.5 * size
    parts = [float(w) * f(half * float(1 + t)) for t, w in zip(_NODES, _WEIGHTS, strict=True)]
    return half * sum(parts[1:], parts[0])


def alpha_above(z: Value, a: Value) -> Value:
    """(Phi(a) - Phi(a - 1/z)) / Phi(a)."""
    far = z > 2
    h = 1 / np.where(far, z, lit(z, 2))
    tail = _integral(lambda u: np.exp(-0.5 * (a - u) ** 2), h) / _ROOT_TWO_PI
    near = np.where(far, lit(z, 1), z)
    return np.where(far, tail, sp.ndtr(a) - sp.ndtr(a - 1 / near)) / sp.ndtr(a)


def argus(chi: Value) -> Value:
    """The incomplete gamma function of which Argus's distribution is made."""
    return sp.gammainc(lit(chi, 1.5), 0.5 * chi * chi)


def argus_below(z: Value, chi: Value) -> Value:
    """1 - argus(chi sqrt(1 - z z)) / argus(chi), near 0 the integral of the density."""

    def density(u: Value) -> Value:
        rest = 1 - u * u
        return u * np.sqrt(rest) * np.exp(-0.5 * chi * chi * rest)

    near = z < 0.5
    inner = _integral(density, np.where(near, z, lit(z, 0.25)))
    scale = chi**3 / (0.5 * _ROOT_TWO_PI * argus(chi))
    return np.where(near, scale * inner, 1 - argus(chi * np.sqrt(1 - z * z)) / argus(chi))


def jf_sum(z: Value, c: Value) -> Value:
    """1 + z / s with s = sqrt(c + z z)."""
    s = np.sqrt(c + z * z)
    down = z < 0
    return np.where(down, c / (s * (s + np.where(down, -z, lit(z, 0)))), 1 + z / s)


def jf_below(z: Value, a: Value, b: Value) -> Value:
    """I((1 + z / s) / 2; a, b) with s = sqrt(a + b + z z)."""
    return sp.betainc(a, b, 0.5 * jf_sum(z, a + b))


def log_share(z: Value, low: Value, high: Value) -> Value:
    """log(z / low) / log(high / low), from 0 on."""
    return np.log1p((z - low) / low) / np.log(high / low)


def folded_cauchy_below(z: Value, c: Value) -> Value:
    """(atan(z - c) + atan(z + c)) / pi."""
    return np.arctan2(2 * z, 1 + (c - z) * (c + z)) / math.pi


def folded_normal_below(z: Value, c: Value) -> Value:
    """Phi(z - c) - Phi(-z - c), near 0 the integral of the density."""

    def density(u: Value) -> Value:
        return np.exp(-0.5 * (u - c) ** 2) + np.exp(-0.5 * (u + c) ** 2)

    near = z < 0.5
    inner = _integral(density, np.where(near, z, lit(z, 0.25))) / _ROOT_TWO_PI
    return np.where(near, inner, sp.ndtr(z - c) - sp.ndtr(-z - c))


def mielke_above(z: Value, k: Value, s: Value) -> Value:
    """1 - (1 + z^-s)^(-k/s)."""
    far = z > 1
    above, below = np.where(far, z, lit(z, 1)), np.where(far, lit(z, 1), z)
    tail = -np.expm1(-k / s * np.log1p(above**-s))
    return np.where(far, tail, 1 - below**k / (1 + below**s) ** (k / s))


def skew_cauchy_below(z: Value, a: Value) -> Value:
    """The probability below z, from that of the side on which z lies."""
    left = z < 0
    down, up = np.where(left, -z, lit(z, 1)), np.where(left, lit(z, 1), z)
    lower = (1 - a) / math.pi * np.arctan2(1 - a, down)
    return np.where(left, lower, 1 - (1 + a) / math.pi * np.arctan2(1 + a, up))


def truncated_mass(a: Value, b: Value) -> Value:
    """The logarithm of the normal probability between a and b, from the tail that is exact; between
    points next to each other the integral of the density."""
    right = a > 0
    low, high = np.where(right, -b, a), np.where(right, -a, b)
    size = high - low
    near = size * (1 + np.abs(high)) < 1
    start, h = np.where(near, high, lit(a, 0)), np.where(near, size, lit(a, 1))
    inner = _integral(lambda u: np.exp(u * (start - 0.5 * u)), h)
    whole = np.log(inner) - 0.5 * start * start - math.log(_ROOT_TWO_PI)
    first, last = np.where(near, lit(a, -1), low), np.where(near, lit(a, 1), high)
    top = sp.log_ndtr(last)
    return np.where(near, whole, top + np.log1p(-np.exp(sp.log_ndtr(first) - top)))


def pearson_below(z: Value, skew: Value) -> Value:
    """The incomplete gamma function from the end of the support on; normal without skewness."""
    none = np.abs(skew) < 1.6e-5
    beta = 2 / np.where(none, lit(skew, 1), skew)
    y = beta * (z + beta)
    y = np.where(none | (y < 0), lit(y, 1), y)
    shape = beta * beta
    tail = np.where(skew > 0, sp.gammainc(shape, y), sp.gammaincc(shape, y))
    return np.where(none, sp.ndtr(z), tail)


def power_of_normal(q: Value, c: Value) -> Value:
    """The z with 1 - Phi(-z)^c = q."""
    low, t = q < 0.5, np.log1p(-q) / c
    small = np.where(low, -np.expm1(t), lit(q, 0.5))
    return np.where(low, sp.ndtri(small), -sp.ndtri(np.where(low, lit(q, 0.5), np.exp(t))))


_SPLIT, _PARTS = np.polynomial.laguerre.laggauss(24)


def _log_skewed(z: Value, a: Value) -> Value:
    return -0.5 * z * z + sp.log_ndtr(a * z)


def log_skewed_below(z: Value, a: Value) -> Value:
    """log of the integral of 2 phi(t) Phi(a t) up to z; far out by Laguerre's rule, as Phi(z) - 2 T
    has no digits there."""
    far = z < -2
    at = np.where(far, z, lit(z, -3))
    first, rate = _log_skewed(at, a), -at * (1 + np.where(a > 0, a * a, lit(a, 0)))
    parts = [
        float(w) * np.exp(float(v) + _log_skewed(at - float(v) / rate, a) - first)
        for v, w in zip(_SPLIT, _PARTS, strict=True)
    ]
    tail = math.log(2 / _ROOT_TWO_PI) + first + np.log(sum(parts[1:], parts[0]) / rate)
    near = np.where(far, lit(z, 0), z)
    return np.where(far, tail, np.log(sp.ndtr(near) - 2 * sp.owens_t(near, a)))


def weibull_gap(c: Value, a: Value, b: Value) -> Value:
    """exp(-a^c) - exp(-b^c), as a logarithm."""
    start = np.where(a > 0, a, lit(a, 1))
    near = np.where(a > 0, start**c * np.expm1(c * np.log1p((b - start) / start)), b**c - a**c)
    return -(a**c) + np.log(-np.expm1(-near))


def pearson_ends(skew: Value) -> tuple[Value, Value]:
    """The support, infinite on the side of the long tail."""
    none = np.abs(skew) < 1.6e-5
    end = -2 / np.where(none, lit(skew, 1), skew)
    low = np.where((skew > 0) & ~none, end, lit(skew, -math.inf))
    return low, np.where((skew < 0) & ~none, end, lit(skew, math.inf))


def log_gamma_below(z: Value, c: Value) -> Value:
    """P(c, exp(z)), which is exp(c z) / Gamma(c + 1) where exp(z) is no float any more."""
    far = z < _LEAST
    near = np.where(far, lit(z, 0), z)
    start = np.exp(c * np.where(far, z, lit(z, _LEAST)) - sp.gammaln(c + 1))
    return np.where(far, start, sp.gammainc(c, np.exp(near)))


def log_gamma_quantile(q: Value, c: Value) -> Value:
    """The logarithm of the x with P(c, x) = q, by the series where x is no float."""
    start = (np.log(q) + sp.gammaln(c + 1)) / c
    far = start < _LEAST
    inside = sp.gammaincinv(c, np.where(far, lit(q, 0.5), q))
    return np.where(far, start, np.log(inside))
