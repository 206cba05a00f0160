"""L7. Discrete distributions, one formula each, as in SciPy's documentation of them."""

from __future__ import annotations

import math

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.scipy.stats.families import Discrete
from fgrad.trace import Value


def choose(n: Value, k: Value) -> Value:
    """log(n! / (k! (n - k)!))."""
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


def _probability(p: Value) -> Value:
    return (p >= 0) & (p <= 1)


def trials(n: Value) -> Value:
    return (n >= 0) & (n == np.floor(n))


def _from_zero(*shapes: Value) -> tuple[float, float]:
    return 0.0, math.inf


def _beta_binomial(k: Value, n: Value, a: Value, b: Value) -> Value:
    return choose(n, k) + sp.betaln(k + a, n - k + b) - sp.betaln(a, b)


FAMILIES: tuple[Discrete, ...] = (
    Discrete(
        "bernoulli",
        "p",
        logpmf=lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p),
        support=lambda p: (0.0, 1.0),
        valid=_probability,
        cdf=lambda k, p: 1 - p,
        sf=lambda k, p: p,
    ),
    Discrete(
        "binom",
        "n p",
        logpmf=lambda k, n, p: choose(n, k) + sp.xlogy(k, p) + sp.xlog1py(n - k, -p),
        support=lambda n, p: (0.0, n),
        valid=lambda n, p: trials(n) & _probability(p),
        cdf=lambda k, n, p: sp.betaincc(k + 1, np.where(n > k, n - k, lit(n, 1)), p),
        sf=lambda k, n, p: sp.betainc(k + 1, np.where(n > k, n - k, lit(n, 1)), p),
    ),
    Discrete(
        "poisson",
        "mu",
        logpmf=lambda k, mu: sp.xlogy(k, mu) - sp.gammaln(k + 1) - mu,
        support=_from_zero,
        valid=lambda mu: mu >= 0,
        cdf=lambda k, mu: sp.pdtr(k, mu),
        sf=lambda k, mu: sp.pdtrc(k, mu),
    ),
    Discrete(
        "geom",
        "p",
        logpmf=lambda k, p: sp.xlog1py(k - 1, -p) + np.log(p),
        support=lambda p: (1.0, math.inf),
        valid=lambda p: (p > 0) & (p <= 1),
        cdf=lambda k, p: -np.expm1(np.log1p(-p) * k),
        sf=lambda k, p: np.exp(np.log1p(-p) * k),
    ),
    Discrete(
        "nbinom",
        "n p",
        logpmf=lambda k, n, p: (
            sp.gammaln(n + k)
            - sp.gammaln(k + 1)
            - sp.gammaln(n)
            + n * np.log(p)
            + sp.xlog1py(k, -p)
        ),
        support=_from_zero,
        valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
        cdf=lambda k, n, p: sp.betainc(n, k + 1, p),
        sf=lambda k, n, p: sp.betaincc(n, k + 1, p),
    ),
    Discrete(
        "betabinom",
        "n a b",
        logpmf=_beta_binomial,
        support=lambda n, a, b: (0.0, n),
        valid=lambda n, a, b: trials(n) & (a > 0) & (b > 0),
        cdf=None,
    ),
    Discrete(
        "betanbinom", "n a b",
        logpmf=lambda k, n, a, b: (
            sp.betaln(a + n, b + k) - sp.betaln(a, b) - np.log(n + k) - sp.betaln(n, k + 1)
        ),
        support=_from_zero, valid=lambda n, a, b: trials(n) & (a > 0) & (b > 0), cdf=None,
    ),
    Discrete(
        "boltzmann", "lambda_ N",
        logpmf=lambda k, r, n: np.log(-np.expm1(-r)) - r * k - np.log(-np.expm1(-r * n)),
        support=lambda r, n: (0.0, n - 1), valid=lambda r, n: (r > 0) & (n > 0) & trials(n),
        cdf=lambda k, r, n: np.expm1(-r * (k + 1)) / np.expm1(-r * n),
        sf=lambda k, r, n: np.exp(-r * (k + 1)) * np.expm1(r * (k + 1 - n)) / np.expm1(-r * n),
    ),
    Discrete(
        "dlaplace", "a", logpmf=lambda k, a: np.log(np.tanh(0.5 * a)) - a * np.abs(k),
        support=lambda a: (-math.inf, math.inf), valid=lambda a: a > 0,
        cdf=lambda k, a: np.where(
            k >= 0, 1 - np.exp(-a * k) / (np.exp(a) + 1), np.exp(a * (k + 1)) / (np.exp(a) + 1)
        ),
        sf=lambda k, a: np.where(
            k >= 0, np.exp(-a * k) / (np.exp(a) + 1), 1 - np.exp(a * (k + 1)) / (np.exp(a) + 1)
        ),
    ),
    Discrete(
        "hypergeom", "M n N",
        logpmf=lambda k, m, n, draws: (
            choose(n, k) + choose(m - n, draws - k) - choose(m, draws)
        ),
        support=lambda m, n, draws: (np.maximum(draws - m + n, 0.0), np.minimum(n, draws)),
        valid=lambda m, n, draws: (
            trials(m) & trials(n) & trials(draws) & (n <= m) & (draws <= m)
        ),
        cdf=None,
    ),
    Discrete(
        "logser", "p", logpmf=lambda k, p: k * np.log(p) - np.log(k) - np.log(-np.log1p(-p)),
        support=lambda p: (1.0, math.inf), valid=lambda p: (p > 0) & (p < 1), cdf=None,
    ),
    Discrete(
        "nhypergeom", "M n r",
        logpmf=lambda k, m, n, r: (
            choose(k + r - 1, k) + choose(m - r - k, n - k) - choose(m, n)
        ),
        support=lambda m, n, r: (0.0, n),
        valid=lambda m, n, r: trials(m) & trials(n) & trials(r) & (n <= m) & (r <= m - n),
        cdf=None,
    ),
    Discrete(
        "planck", "lambda_", logpmf=lambda k, r: np.log(-np.expm1(-r)) - r * k,
        support=_from_zero, valid=lambda r: r > 0, cdf=lambda k, r: -np.expm1(-r * (k + 1)),
        sf=lambda k, r: np.exp(-r * (k + 1)),
    ),
    Discrete(
        "yulesimon", "alpha", logpmf=lambda k, a: np.log(a) + sp.betaln(k, a + 1),
        support=lambda a: (1.0, math.inf), valid=lambda a: a > 0,
        cdf=lambda k, a: 1 - k * sp.beta(k, a + 1),
        sf=lambda k, a: k * sp.beta(k, a + 1),
    ),
)  # fmt: skip

DISCRETE: dict[str, Discrete] = {family.name: family for family in FAMILIES}
