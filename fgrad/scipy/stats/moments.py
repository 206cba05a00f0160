"""L7. Means and variances of distributions by formulas, as `scipy.stats` has them.

A row gives both of the standard form, as functions of the parameters, and the conditions for which
they are finite: beyond these they are inf, or NaN where they do not exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.trace import Value

Formula = Callable[..., Value]
_EULER = 0.5772156649015329
_NORMAL = math.sqrt(2 / math.pi)


def finite(condition: Value, parameter: Value, formula: Formula, other: float) -> Value:
    """A formula of a parameter where a condition holds, else inf or NaN."""
    safe = np.where(condition, parameter, lit(parameter, 9))
    return np.where(condition, formula(safe), lit(parameter, other))


def _constants(mean: float, variance: float) -> tuple[Formula, Formula]:
    return lambda z: lit(z, mean), lambda z: lit(z, variance)


def _gammas(c: Value) -> tuple[Value, Value]:
    return sp.gamma(1 + 1 / c), sp.gamma(1 + 2 / c)


def _weibull(z: Value, c: Value) -> Value:
    first, second = _gammas(c)
    return second - first * first


def _lognormal(z: Value, s: Value) -> Value:
    return np.expm1(s * s) * np.exp(s * s)


def _delta(a: Value) -> Value:
    """The mean of a skew normal number."""
    return _NORMAL * a / np.sqrt(1 + a * a)


def _chi_mean(z: Value, df: Value) -> Value:
    return math.sqrt(2) * np.exp(sp.gammaln(0.5 * (df + 1)) - sp.gammaln(0.5 * df))


def _f_variance(z: Value, m: Value, n: Value) -> Value:
    return finite(
        n > 4, n, lambda n: 2 * n * n * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4)), math.inf
    )


def _pareto_variance(b: Value) -> Value:
    return finite(b > 2, b, lambda b: b / ((b - 1) ** 2 * (b - 2)), math.inf)


def _log_uniform(z: Value, a: Value, b: Value) -> Value:
    return (b - a) / np.log(b / a)


# Functions of a value with the shape of the result, and of the parameters.
MOMENTS: dict[str, tuple[Formula, Formula]] = {
    "norm": _constants(0, 1), "uniform": _constants(0.5, 1 / 12), "expon": _constants(1, 1),
    "laplace": _constants(0, 2), "logistic": _constants(0, math.pi**2 / 3),
    "gumbel_r": _constants(_EULER, math.pi**2 / 6), "gumbel_l": _constants(-_EULER, math.pi**2 / 6),
    "halfnorm": _constants(_NORMAL, 1 - 2 / math.pi),
    "rayleigh": _constants(math.sqrt(math.pi / 2), 2 - math.pi / 2),
    "maxwell": _constants(2 * _NORMAL, 3 - 8 / math.pi), "wald": _constants(1, 1),
    "semicircular": _constants(0, 0.25), "arcsine": _constants(0.5, 0.125),
    "hypsecant": _constants(0, math.pi**2 / 4), "anglit": _constants(0, math.pi**2 / 16 - 0.5),
    "cosine": _constants(0, math.pi**2 / 3 - 2), "cauchy": _constants(math.nan, math.nan),
    "halfcauchy": _constants(math.inf, math.inf), "levy": _constants(math.inf, math.inf),
    "halflogistic": _constants(2 * math.log(2), math.pi**2 / 3 - 4 * math.log(2) ** 2),
    "moyal": _constants(_EULER + math.log(2), math.pi**2 / 2),
    "gibrat": _constants(math.exp(0.5), math.expm1(1) * math.e),
    "lognorm": (lambda z, s: np.exp(0.5 * s * s), _lognormal),
    "gamma": (lambda z, a: a, lambda z, a: a), "erlang": (lambda z, a: a, lambda z, a: a),
    "invgamma": (
        lambda z, a: finite(a > 1, a, lambda a: 1 / (a - 1), math.inf),
        lambda z, a: finite(a > 2, a, lambda a: 1 / ((a - 1) ** 2 * (a - 2)), math.inf),
    ),
    "beta": (
        lambda z, a, b: a / (a + b), lambda z, a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    ),
    "t": (
        lambda z, df: np.where(df > 1, lit(df, 0), lit(df, math.inf)),
        lambda z, df: np.where(
            df > 1, finite(df > 2, df, lambda df: df / (df - 2), math.inf), lit(df, math.nan)
        ),
    ),
    "chi2": (lambda z, df: df, lambda z, df: 2 * df),
    "chi": (_chi_mean, lambda z, df: df - _chi_mean(z, df) ** 2),
    "f": (
        lambda z, m, n: finite(n > 2, n, lambda n: n / (n - 2), math.inf), _f_variance,
    ),
    "pareto": (
        lambda z, b: finite(b > 1, b, lambda b: b / (b - 1), math.inf),
        lambda z, b: _pareto_variance(b),
    ),
    "lomax": (
        lambda z, c: finite(c > 1, c, lambda c: 1 / (c - 1), math.inf),
        lambda z, c: _pareto_variance(c),
    ),
    "weibull_min": (lambda z, c: _gammas(c)[0], _weibull),
    "weibull_max": (lambda z, c: -_gammas(c)[0], _weibull),
    "powerlaw": (lambda z, a: a / (a + 1), lambda z, a: a / ((a + 2) * (a + 1) ** 2)),
    "invgauss": (lambda z, mu: mu, lambda z, mu: mu**3),
    "triang": (lambda z, c: (c + 1) / 3, lambda z, c: (1 - c + c * c) / 18),
    "gennorm": (
        lambda z, b: lit(b, 0), lambda z, b: np.exp(sp.gammaln(3 / b) - sp.gammaln(1 / b)),
    ),
    "exponnorm": (lambda z, k: k, lambda z, k: 1 + k * k),
    "skewnorm": (lambda z, a: _delta(a), lambda z, a: 1 - _delta(a) ** 2),
    "loguniform": (
        _log_uniform,
        lambda z, a, b: (b * b - a * a) / (2 * np.log(b / a)) - _log_uniform(z, a, b) ** 2,
    ),
    "nakagami": (
        lambda z, nu: sp.poch(nu, lit(nu, 0.5)) / np.sqrt(nu),
        lambda z, nu: 1 - sp.poch(nu, lit(nu, 0.5)) ** 2 / nu,
    ),
    "laplace_asymmetric": (lambda z, k: 1 / k - k, lambda z, k: 1 / (k * k) + k * k),
    "rdist": (lambda z, c: lit(c, 0), lambda z, c: 1 / (c + 1)),
    "ncx2": (lambda z, df, nc: df + nc, lambda z, df, nc: 2 * (df + 2 * nc)),
    "irwinhall": (lambda z, n: n / 2, lambda z, n: n / 12),
    # integers
    "bernoulli": (lambda z, p: p, lambda z, p: p * (1 - p)),
    "binom": (lambda z, n, p: n * p, lambda z, n, p: n * p * (1 - p)),
    "poisson": (lambda z, mu: mu, lambda z, mu: mu),
    "geom": (lambda z, p: 1 / p, lambda z, p: (1 - p) / (p * p)),
    "nbinom": (lambda z, n, p: n * (1 - p) / p, lambda z, n, p: n * (1 - p) / (p * p)),
    "betabinom": (
        lambda z, n, a, b: n * a / (a + b),
        lambda z, n, a, b: n * (a + b + n) * a * b / ((a + b + 1) * (a + b) ** 2),
    ),
    "hypergeom": (
        lambda z, m, n, k: k * n / m,
        lambda z, m, n, k: k * (n / m) * (1 - n / m) * (m - k) / (m - 1),
    ),
    "planck": (
        lambda z, r: 1 / np.expm1(r), lambda z, r: np.exp(-r) / np.expm1(-r) ** 2,
    ),
    "dlaplace": (
        lambda z, a: lit(a, 0), lambda z, a: 2 * np.exp(-a) / np.expm1(-a) ** 2,
    ),
    "logser": (
        lambda z, p: p / (p - 1) / np.log1p(-p),
        lambda z, p: -p * (1 + p / np.log1p(-p)) / ((p - 1) ** 2 * np.log1p(-p)),
    ),
    "skellam": (lambda z, a, b: a - b, lambda z, a, b: a + b),
    "randint": (lambda z, a, b: (a + b - 1) / 2, lambda z, a, b: ((b - a) ** 2 - 1) / 12),
}  # fmt: skip
