"""L7. Discrete distributions, one formula each, as in SciPy's documentation of them."""

from __future__ import annotations

import math

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.scipy.stats.families import Discrete
from fgrad.trace import Value


def _choose(n: Value, k: Value) -> Value:
    """log(n! / (k! (n - k)!))."""
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


def _probability(p: Value) -> Value:
    return (p >= 0) & (p <= 1)


def _trials(n: Value) -> Value:
    return (n >= 0) & (n == np.floor(n))


def _from_zero(*shapes: Value) -> tuple[float, float]:
    return 0.0, math.inf


def _beta_binomial(k: Value, n: Value, a: Value, b: Value) -> Value:
    return _choose(n, k) + sp.betaln(k + a, n - k + b) - sp.betaln(a, b)


FAMILIES: tuple[Discrete, ...] = (
    Discrete(
        "bernoulli",
        "p",
        logpmf=lambda k, p: sp.xlogy(k, p) + sp.xlog1py(1 - k, -p),
        support=lambda p: (0.0, 1.0),
        valid=_probability,
        cdf=lambda k, p: 1 - p,
    ),
    Discrete(
        "binom",
        "n p",
        logpmf=lambda k, n, p: _choose(n, k) + sp.xlogy(k, p) + sp.xlog1py(n - k, -p),
        support=lambda n, p: (0.0, n),
        valid=lambda n, p: _trials(n) & _probability(p),
        cdf=lambda k, n, p: sp.betaincc(k + 1, np.where(n > k, n - k, lit(n, 1)), p),
    ),
    Discrete(
        "poisson",
        "mu",
        logpmf=lambda k, mu: sp.xlogy(k, mu) - sp.gammaln(k + 1) - mu,
        support=_from_zero,
        valid=lambda mu: mu >= 0,
        cdf=lambda k, mu: sp.pdtr(k, mu),
    ),
    Discrete(
        "geom",
        "p",
        logpmf=lambda k, p: sp.xlog1py(k - 1, -p) + np.log(p),
        support=lambda p: (1.0, math.inf),
        valid=lambda p: (p > 0) & (p <= 1),
        cdf=lambda k, p: -np.expm1(np.log1p(-p) * k),
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
    ),
    Discrete(
        "betabinom",
        "n a b",
        logpmf=_beta_binomial,
        support=lambda n, a, b: (0.0, n),
        valid=lambda n, a, b: _trials(n) & (a > 0) & (b > 0),
        cdf=None,
    ),
)

DISCRETE: dict[str, Discrete] = {family.name: family for family in FAMILIES}
