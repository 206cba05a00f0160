"""L7. Continuous distributions, one formula each, as in SciPy's documentation of them."""

from __future__ import annotations

import math

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.scipy.stats.families import Continuous
from fgrad.scipy.stats.tails import log_share, log_skewed_below, truncated_mass
from fgrad.trace import Value

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_HALF_LINE = (0.0, math.inf)
_UNIT = (0.0, 1.0)


def _normal(z: Value) -> Value:
    return -0.5 * z * z - _LOG_ROOT_TWO_PI


def _student(z: Value, df: Value) -> Value:
    scale = sp.gammaln(0.5 * (df + 1)) - sp.gammaln(0.5 * df) - 0.5 * np.log(df * math.pi)
    return scale - 0.5 * (df + 1) * np.log1p(z * z / df)


def _f(z: Value, m: Value, n: Value) -> Value:
    powers = 0.5 * (m * np.log(m) + n * np.log(n)) + sp.xlogy(0.5 * m - 1, z)
    return powers - 0.5 * (m + n) * np.log(n + m * z) - sp.betaln(0.5 * m, 0.5 * n)


def _truncated_cdf(z: Value, a: Value, b: Value) -> Value:
    return np.exp(truncated_mass(a, z) - truncated_mass(a, b))


def _between(a: Value, b: Value) -> Value:
    """A finite point of an interval."""
    low, high = np.isinf(a), np.isinf(b)
    return np.where(
        low & high,
        lit(a, 0),
        np.where(low, b - 1, np.where(high, a + 1, 0.5 * (np.where(low, b, a) + b))),
    )


def _triangle(z: Value, c: Value) -> Value:
    rising = z < c
    left = np.where(rising, z / np.where(c > 0, c, lit(c, 1)), lit(z, 1))
    right = np.where(rising, lit(z, 1), (1 - z) / np.where(c < 1, 1 - c, lit(c, 1)))
    return np.log(2 * np.where(rising, left, right))


def _triangle_cdf(z: Value, c: Value) -> Value:
    left = z * z / np.where(c > 0, c, lit(c, 1))
    right = (1 - z) ** 2 / np.where(c < 1, 1 - c, lit(c, 1))
    return np.where(z < c, left, 1 - right)


def _generalised_cdf(z: Value, beta: Value) -> Value:
    power = np.abs(z) ** beta
    tail = 0.5 * sp.gammaincc(1 / beta, power)
    return np.where(z < 0, tail, 0.5 + 0.5 * sp.gammainc(1 / beta, power))


def _inverse_gauss_tail(z: Value, mu: Value | float, side: float) -> Value:
    """The logarithm of the probability below z, or above it with side = -1."""
    near = sp.log_ndtr(side * (z / mu - 1) / np.sqrt(z))
    far = 2 / mu + sp.log_ndtr(-(z / mu + 1) / np.sqrt(z))
    return near + np.log1p(side * np.exp(far - near))


def _less_sine(u: Value) -> Value:
    """u - sin(u), which is almost u**3 / 6 of small numbers."""
    t, whole = u * u, u - np.sin(u)
    return np.where(
        u < 0.3, u * t / 6 * (1 - t / 20 * (1 - t / 42 * (1 - t / 72 * (1 - t / 110)))), whole
    )


def _inverse_gauss(z: Value, mu: Value | float) -> Value:
    return -_LOG_ROOT_TWO_PI - 1.5 * np.log(z) - (z - mu) ** 2 / (2 * z * mu * mu)


def _skewed_tail(z: Value, a: Value) -> Value:
    """The probability below z; rounding of a difference must not make it negative."""
    tail = sp.ndtr(z) - 2 * sp.owens_t(z, a)
    return np.where(tail > 0, tail, lit(z, 0))


def _half_positive(q: Value) -> Value:
    return sp.ndtri(0.5 * (1 + q))


def _cauchy_quantile(q: Value, other: Value) -> Value:
    """The quantile from q or from 1 - q, whichever is less."""
    low = q < 0.5
    tail = np.where(low, q, other)
    size = np.cos(math.pi * tail) / np.sin(math.pi * tail)
    return np.where(low, -size, size)


def _any_shape(*_: Value) -> bool:
    return True


FAMILIES: tuple[Continuous, ...] = (
    Continuous(
        "norm",
        logpdf=_normal,
        cdf=sp.ndtr,
        sf=lambda z: sp.ndtr(-z),
        logcdf=sp.log_ndtr,
        logsf=lambda z: sp.log_ndtr(-z),
        ppf=sp.ndtri,
        isf=lambda q: -sp.ndtri(q),
    ),
    Continuous(
        "lognorm",
        "s",
        logpdf=lambda z, s: _normal(np.log(z) / s) - np.log(s * z),
        support=_HALF_LINE,
        inside=1.0,
        open_below=True,
        cdf=lambda z, s: sp.ndtr(np.log(z) / s),
        sf=lambda z, s: sp.ndtr(-np.log(z) / s),
        logcdf=lambda z, s: sp.log_ndtr(np.log(z) / s),
        logsf=lambda z, s: sp.log_ndtr(-np.log(z) / s),
        ppf=lambda q, s: np.exp(s * sp.ndtri(q)),
        isf=lambda q, s: np.exp(-s * sp.ndtri(q)),
    ),
    Continuous(
        "uniform",
        logpdf=lambda z: 0 * z,
        support=_UNIT,
        cdf=lambda z: z,
        ppf=lambda q: q,
        isf=lambda q: 1 - q,
    ),
    Continuous(
        "expon",
        logpdf=lambda z: -z,
        support=_HALF_LINE,
        cdf=lambda z: -np.expm1(-z),
        sf=lambda z: np.exp(-z),
        logsf=lambda z: -z,
        ppf=lambda q: -np.log1p(-q),
        isf=lambda q: -np.log(q),
    ),
    Continuous(
        "gamma",
        "a",
        logpdf=lambda z, a: sp.xlogy(a - 1, z) - z - sp.gammaln(a),
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z, a: sp.gammainc(a, z),
        sf=lambda z, a: sp.gammaincc(a, z),
        ppf=lambda q, a: sp.gammaincinv(a, q),
        isf=lambda q, a: sp.gammainccinv(a, q),
    ),
    Continuous(
        "invgamma",
        "a",
        logpdf=lambda z, a: -(a + 1) * np.log(z) - sp.gammaln(a) - 1 / z,
        support=_HALF_LINE,
        inside=1.0,
        open_below=True,
        cdf=lambda z, a: sp.gammaincc(a, 1 / z),
        sf=lambda z, a: sp.gammainc(a, 1 / z),
    ),
    Continuous(
        "beta",
        "a b",
        logpdf=lambda z, a, b: sp.xlog1py(b - 1, -z) + sp.xlogy(a - 1, z) - sp.betaln(a, b),
        support=_UNIT,
        inside=0.5,
        cdf=lambda z, a, b: sp.betainc(a, b, z),
        sf=lambda z, a, b: sp.betaincc(a, b, z),
        ppf=lambda q, a, b: sp.betaincinv(a, b, q),
    ),
    Continuous(
        "t",
        "df",
        logpdf=_student,
        cdf=lambda z, df: sp.stdtr(df, z),
        sf=lambda z, df: sp.stdtr(df, -z),
        ppf=lambda q, df: sp.stdtrit(df, q),
        isf=lambda q, df: -sp.stdtrit(df, q),
    ),
    Continuous(
        "cauchy",
        logpdf=lambda z: -math.log(math.pi) - np.log1p(z * z),
        cdf=lambda z: np.arctan2(lit(z, 1), -z) / math.pi,
        sf=lambda z: np.arctan2(lit(z, 1), z) / math.pi,
        ppf=lambda q: _cauchy_quantile(q, 1 - q),
        isf=lambda q: -_cauchy_quantile(q, 1 - q),
    ),
    Continuous(
        "laplace",
        logpdf=lambda z: -math.log(2) - np.abs(z),
        cdf=lambda z: np.where(z > 0, 1 - 0.5 * np.exp(-np.abs(z)), 0.5 * np.exp(-np.abs(z))),
        sf=lambda z: np.where(z > 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z))),
        ppf=lambda q: np.where(q > 0.5, -np.log(2 * (1 - q)), np.log(2 * q)),
        isf=lambda q: np.where(q > 0.5, np.log(2 * (1 - q)), -np.log(2 * q)),
    ),
    Continuous(
        "logistic",
        logpdf=lambda z: -np.abs(z) - 2 * np.log1p(np.exp(-np.abs(z))),
        cdf=sp.expit,
        sf=lambda z: sp.expit(-z),
        logcdf=sp.log_expit,
        logsf=lambda z: sp.log_expit(-z),
        ppf=sp.logit,
        isf=lambda q: -sp.logit(q),
    ),
    Continuous(
        "chi2",
        "df",
        logpdf=lambda z, df: (
            sp.xlogy(0.5 * df - 1, z) - 0.5 * z - sp.gammaln(0.5 * df) - 0.5 * math.log(2) * df
        ),
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z, df: sp.chdtr(df, z),
        sf=lambda z, df: sp.chdtrc(df, z),
        ppf=lambda q, df: 2 * sp.gammaincinv(0.5 * df, q),
        isf=lambda q, df: 2 * sp.gammainccinv(0.5 * df, q),
    ),
    Continuous(
        "chi",
        "df",
        logpdf=lambda z, df: (
            math.log(2)
            - 0.5 * math.log(2) * df
            - sp.gammaln(0.5 * df)
            + sp.xlogy(df - 1, z)
            - 0.5 * z * z
        ),
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z, df: sp.gammainc(0.5 * df, 0.5 * z * z),
        sf=lambda z, df: sp.gammaincc(0.5 * df, 0.5 * z * z),
    ),
    Continuous(
        "f",
        "dfn dfd",
        logpdf=_f,
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z, m, n: sp.fdtr(m, n, z),
        sf=lambda z, m, n: sp.fdtrc(m, n, z),
    ),
    Continuous(
        "pareto",
        "b",
        logpdf=lambda z, b: np.log(b) - (b + 1) * np.log(z),
        support=(1.0, math.inf),
        inside=2.0,
        cdf=lambda z, b: -np.expm1(-b * np.log(z)),
        sf=lambda z, b: np.exp(-b * np.log(z)),
        logsf=lambda z, b: -b * np.log(z),
        ppf=lambda q, b: np.exp(-np.log1p(-q) / b),
        isf=lambda q, b: np.exp(-np.log(q) / b),
    ),
    Continuous(
        "gumbel_r",
        logpdf=lambda z: -z - np.exp(-z),
        cdf=lambda z: np.exp(-np.exp(-z)),
        sf=lambda z: -np.expm1(-np.exp(-z)),
        logcdf=lambda z: -np.exp(-z),
        ppf=lambda q: -np.log(-np.log(q)),
    ),
    Continuous(
        "gumbel_l",
        logpdf=lambda z: z - np.exp(z),
        cdf=lambda z: -np.expm1(-np.exp(z)),
        sf=lambda z: np.exp(-np.exp(z)),
        logsf=lambda z: -np.exp(z),
        ppf=lambda q: np.log(-np.log1p(-q)),
    ),
    Continuous(
        "weibull_min",
        "c",
        logpdf=lambda z, c: np.log(c) + sp.xlogy(c - 1, z) - z**c,
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z, c: -np.expm1(-(z**c)),
        sf=lambda z, c: np.exp(-(z**c)),
        logsf=lambda z, c: -(z**c),
        ppf=lambda q, c: (-np.log1p(-q)) ** (1 / c),
        isf=lambda q, c: (-np.log(q)) ** (1 / c),
    ),
    Continuous(
        "halfnorm",
        logpdf=lambda z: _normal(z) + math.log(2),
        support=_HALF_LINE,
        cdf=lambda z: sp.erf(z * math.sqrt(0.5)),
        sf=lambda z: sp.erfc(z * math.sqrt(0.5)),
        ppf=_half_positive,
    ),
    Continuous(
        "halfcauchy",
        logpdf=lambda z: math.log(2 / math.pi) - np.log1p(z * z),
        support=_HALF_LINE,
        cdf=lambda z: 2 / math.pi * np.arctan(z),
        sf=lambda z: 2 / math.pi * np.arctan2(lit(z, 1), z),
        ppf=lambda q: np.tan(0.5 * math.pi * q),
    ),
    Continuous(
        "rayleigh",
        logpdf=lambda z: np.log(z) - 0.5 * z * z,
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z: -np.expm1(-0.5 * z * z),
        sf=lambda z: np.exp(-0.5 * z * z),
        logsf=lambda z: -0.5 * z * z,
        ppf=lambda q: np.sqrt(-2 * np.log1p(-q)),
    ),
    Continuous(
        "maxwell",
        logpdf=lambda z: 0.5 * math.log(2 / math.pi) + 2 * np.log(z) - 0.5 * z * z,
        support=_HALF_LINE,
        inside=1.0,
        cdf=lambda z: sp.gammainc(lit(z, 1.5), 0.5 * z * z),
        sf=lambda z: sp.gammaincc(lit(z, 1.5), 0.5 * z * z),
    ),
    Continuous(
        "levy",
        logpdf=lambda z: -_LOG_ROOT_TWO_PI - 1.5 * np.log(z) - 0.5 / z,
        support=_HALF_LINE,
        inside=1.0,
        open_below=True,
        cdf=lambda z: sp.erfc(np.sqrt(0.5 / z)),
        sf=lambda z: sp.erf(np.sqrt(0.5 / z)),
    ),
    Continuous(
        "truncnorm",
        "a b",
        logpdf=lambda z, a, b: _normal(z) - truncated_mass(a, b),
        support=lambda a, b: (a, b),
        inside=_between,
        valid=lambda a, b: a < b,
        cdf=_truncated_cdf,
        sf=lambda z, a, b: np.exp(truncated_mass(z, b) - truncated_mass(a, b)),
    ),
    Continuous(
        "gennorm",
        "beta",
        logpdf=lambda z, beta: np.log(0.5 * beta) - sp.gammaln(1 / beta) - np.abs(z) ** beta,
        inside=1.0,
        cdf=_generalised_cdf,
        sf=lambda z, beta: _generalised_cdf(-z, beta),
    ),
    Continuous(
        "powerlaw",
        "a",
        logpdf=lambda z, a: np.log(a) + sp.xlogy(a - 1, z),
        support=_UNIT,
        inside=0.5,
        cdf=lambda z, a: z**a,
        ppf=lambda q, a: q ** (1 / a),
    ),
    Continuous(
        "skewnorm",
        "a",
        logpdf=lambda z, a: math.log(2) + _normal(z) + sp.log_ndtr(a * z),
        valid=_any_shape,
        cdf=lambda z, a: _skewed_tail(z, a),
        sf=lambda z, a: _skewed_tail(-z, -a),
        logcdf=log_skewed_below,
        logsf=lambda z, a: log_skewed_below(-z, -a),
    ),
    Continuous(
        "invgauss",
        "mu",
        logpdf=_inverse_gauss,
        support=_HALF_LINE,
        inside=1.0,
        open_below=True,
        cdf=lambda z, mu: np.exp(_inverse_gauss_tail(z, mu, 1)),
        sf=lambda z, mu: np.exp(_inverse_gauss_tail(z, mu, -1)),
        logcdf=lambda z, mu: _inverse_gauss_tail(z, mu, 1),
        logsf=lambda z, mu: _inverse_gauss_tail(z, mu, -1),
    ),
    Continuous(
        "wald",
        logpdf=lambda z: _inverse_gauss(z, 1.0),
        support=_HALF_LINE,
        inside=1.0,
        open_below=True,
        cdf=lambda z: np.exp(_inverse_gauss_tail(z, 1.0, 1)),
        sf=lambda z: np.exp(_inverse_gauss_tail(z, 1.0, -1)),
        logcdf=lambda z: _inverse_gauss_tail(z, 1.0, 1),
        logsf=lambda z: _inverse_gauss_tail(z, 1.0, -1),
    ),
    Continuous(
        "cosine",
        logpdf=lambda z: np.log1p(np.cos(z)) - math.log(2 * math.pi),
        support=(-math.pi, math.pi),
        cdf=lambda z: _less_sine(math.pi + z) / (2 * math.pi),
        sf=lambda z: _less_sine(math.pi - z) / (2 * math.pi),
    ),
    Continuous(
        "triang",
        "c",
        logpdf=_triangle,
        support=_UNIT,
        inside=0.5,
        valid=lambda c: (c >= 0) & (c <= 1),
        cdf=_triangle_cdf,
        sf=lambda z, c: _triangle_cdf(1 - z, 1 - c),
    ),
    Continuous(
        "loguniform",
        "a b",
        logpdf=lambda z, a, b: -np.log(z) - np.log(np.log(b) - np.log(a)),
        support=lambda a, b: (a, b),
        inside=lambda a, b: 0.5 * (a + b),
        valid=lambda a, b: (a > 0) & (b > a),
        cdf=log_share,
        sf=lambda z, a, b: log_share(z, b, a),
        ppf=lambda q, a, b: np.exp(np.log(a) + q * (np.log(b) - np.log(a))),
    ),
    Continuous(
        "vonmises",
        "kappa",
        logpdf=lambda z, kappa: (
            kappa * (np.cos(z) - 1) - math.log(2 * math.pi) - np.log(sp.i0e(kappa))
        ),
        valid=lambda kappa: kappa >= 0,
    ),
)

CONTINUOUS: dict[str, Continuous] = {family.name: family for family in FAMILIES}
