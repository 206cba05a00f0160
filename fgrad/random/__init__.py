"""L7. Random numbers as functions of explicit keys.

    key = fgrad.random.key(0)
    key, sub = fgrad.random.split(key)
    x = fgrad.random.normal(sub, (3, 4))

A key gives the same numbers wherever it is used: eagerly, under `jit`, in every lane of `vmap`.
Use a key once, and `split` it for more.
"""

from __future__ import annotations

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

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "randint",
    "shuffle",
    "split",
    "truncated_normal",
    "uniform",
]
