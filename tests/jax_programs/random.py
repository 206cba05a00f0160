"""Keys and draws: the numbers differ from JAX's; shapes, types, laws and moments are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import KEY, M

MANY = 20_000


def drawn(name: str, *args: Any, round_to: float = 0.25) -> Callable[[Any], Any]:
    """Mean and spread of many draws, in units that hide the noise."""

    def program(J: Any) -> Any:
        x = np.asarray(getattr(J.random, name)(J.random.key(KEY), *args, shape=(MANY,)))
        return [np.round(np.mean(x) / round_to) + 0.0, np.round(np.std(x) / round_to)]

    return program


def shape_of(draw: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """The shape of a draw, and what kind of numbers it has."""

    def program(J: Any) -> Any:
        x = np.asarray(draw(J, J.random.key(KEY)))
        return [float(n) for n in x.shape] + [float(ord(x.dtype.kind)), float(x.dtype.itemsize)]

    return program


def monte_carlo(J: Any) -> Any:
    a, b = J.random.split(J.random.key(KEY))
    x, y = J.random.uniform(a, (MANY,)), J.random.uniform(b, (MANY,))
    return np.round(4 * np.mean(np.asarray(x * x + y * y < 1)), 1)


def dropout(J: Any) -> Any:
    keep = J.random.bernoulli(J.random.key(KEY), 0.8, (MANY,))
    return np.round(np.mean(np.asarray(J.np.where(keep, 1 / 0.8, 0.0))), 1)


def walk(J: Any) -> Any:
    def step(c: Any, key: Any) -> Any:
        c = c + J.random.normal(key)
        return c, c

    keys = J.random.split(J.random.key(KEY), 100)
    _, path = J.lax.scan(step, 0.0, keys)
    return float(np.asarray(path).shape[0])


def reparametrized(J: Any) -> Any:
    eps = J.random.normal(J.random.key(KEY), (MANY,))
    g = J.grad(lambda m: ((m + 2.0 * eps) ** 2).mean())(1.5)
    return np.round(np.asarray(g), 0)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "normal": drawn("normal"),
    "uniform": drawn("uniform"),
    "exponential": drawn("exponential"),
    "laplace": drawn("laplace"),
    "logistic": drawn("logistic"),
    "gumbel": drawn("gumbel"),
    "gamma": drawn("gamma", 3.0),
    "beta": drawn("beta", 2.0, 5.0),
    "poisson": drawn("poisson", 4.0),
    "bernoulli": drawn("bernoulli", 0.3),
    "chisquare": drawn("chisquare", 3.0),
    "geometric": drawn("geometric", 0.4),
    "rayleigh": drawn("rayleigh", 2.0),
    "maxwell": drawn("maxwell"),
    "rademacher": shape_of(lambda J, k: J.random.rademacher(k, (5,))),
    "weibull": drawn("weibull_min", 1.5, 2.0),
    "truncated normal": drawn("truncated_normal", -1.0, 2.0),
    "student": shape_of(lambda J, k: J.random.t(k, 5.0, (3,))),
    "dirichlet": shape_of(lambda J, k: J.random.dirichlet(k, np.ones(4), (3,))),
    "dirichlet sums": lambda J: J.random.dirichlet(J.random.key(KEY), np.ones(4), (3,)).sum(-1),
    "categorical": shape_of(lambda J, k: J.random.categorical(k, M)),
    "categorical sure": lambda J: J.random.categorical(
        J.random.key(KEY), np.array([-1e9, 0.0, -1e9]), shape=(4,)),
    "choice": shape_of(lambda J, k: J.random.choice(k, 10, (4,), replace=False)),
    "choice of all": lambda J: J.np.sort(J.random.choice(
        J.random.key(KEY), 6, (6,), replace=False)),
    "permutation": lambda J: J.np.sort(J.random.permutation(J.random.key(KEY), 8)),
    "permutation of rows": lambda J: J.random.permutation(J.random.key(KEY), M).sum(0),
    "randint": shape_of(lambda J, k: J.random.randint(k, (3, 2), 0, 10)),
    "randint range": lambda J: (lambda x: [x.min(), x.max()])(
        J.random.randint(J.random.key(KEY), (MANY,), -3, 4)),
    "float32": shape_of(lambda J, k: J.random.normal(k, (3,), np.float32)),
    "multivariate": shape_of(lambda J, k: J.random.multivariate_normal(
        k, np.zeros(3), np.eye(3), (5,))),
    "orthogonal": lambda J: (lambda q: J.np.round(q @ q.T, 6) + 0.0)(
        J.random.orthogonal(J.random.key(KEY), 4)),
    "split": lambda J: float(len(J.random.split(J.random.key(KEY), 5))),
    "fold_in differs": lambda J: float(np.all(
        np.asarray(J.random.normal(J.random.fold_in(J.random.key(KEY), 1), (4,)))
        != np.asarray(J.random.normal(J.random.key(KEY), (4,))))),
    "same key": lambda J: (lambda a, b: a - b)(
        J.random.normal(J.random.key(KEY), (4,)), J.random.normal(J.random.key(KEY), (4,))),
    "under jit": lambda J: (lambda k: J.random.normal(k, (4,)) - J.jit(
        lambda k: J.random.normal(k, (4,)))(k))(J.random.key(KEY)),
    "under vmap": shape_of(lambda J, k: J.vmap(lambda k: J.random.normal(k, (3,)))(
        J.random.split(k, 4))),
    "vmap differs": lambda J: float(len(np.unique(np.asarray(J.vmap(
        lambda k: J.random.normal(k))(J.random.split(J.random.key(KEY), 8)))))),
    "monte carlo": monte_carlo,
    "dropout": dropout,
    "walk": walk,
    "reparametrized": reparametrized,
    "bits": shape_of(lambda J, k: J.random.bits(k, (3,), np.uint32)),
}  # fmt: skip
