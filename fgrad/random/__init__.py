"""L7. Random numbers as functions of explicit keys.

    key = fgrad.random.key(0)
    key, sub = fgrad.random.split(key)
    x = fgrad.random.normal(sub, (3, 4))

A key gives the same numbers wherever it is used: eagerly, under `jit`, in every lane of `vmap`.
Use a key once, and `split` it for more.

Arguments:
    key: a key, as made by `key`, `split` or `fold_in`.
    shape: the shape of the result; by default that of the parameters, broadcast.
    dtype: its dtype; float64 and int64 by default.
    axis: an axis by number.
    a, b, c, p, q, n, df, dfnum, dfden, alpha, beta, scale, loc, lam, mean, cov, mode, left, right,
        minval, maxval, sigma, concentration, logits: parameters of the distribution: numbers or
        arrays, which broadcast; the result can be differentiated by those that are continuous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_names
from fgrad.random.discrete import categorical, choice, permutation, shuffle
from fgrad.random.distributions import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    truncated_normal,
)
from fgrad.random.keys import fold_in, key, split
from fgrad.random.uniform import bernoulli, bits, randint, uniform

if TYPE_CHECKING:  # else loaded when first used
    from fgrad.random.counts import binomial, geometric, multinomial, poisson, rademacher
    from fgrad.random.families import (
        double_sided_maxwell,
        generalized_normal,
        lognormal,
        maxwell,
        pareto,
        rayleigh,
        triangular,
        wald,
        weibull_min,
    )
    from fgrad.random.gamma_family import beta, chisquare, dirichlet, f, gamma, loggamma, t
    from fgrad.random.vectors import ball, multivariate_normal, orthogonal

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "fgrad.random.counts": ("binomial", "geometric", "multinomial", "poisson", "rademacher"),
        "fgrad.random.families": (
            "double_sided_maxwell",
            "generalized_normal",
            "lognormal",
            "maxwell",
            "pareto",
            "rayleigh",
            "triangular",
            "wald",
            "weibull_min",
        ),
        "fgrad.random.gamma_family": (
            "beta",
            "chisquare",
            "dirichlet",
            "f",
            "gamma",
            "loggamma",
            "t",
        ),
        "fgrad.random.vectors": ("ball", "multivariate_normal", "orthogonal"),
    },
)

__all__ = [
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "shuffle",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
]
