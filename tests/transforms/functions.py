"""The functions that the composition tests put through every pair of transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fgrad

_RNG = np.random.default_rng(7)
A = _RNG.normal(size=(3, 3))
B = _RNG.normal(size=(3,))


class Smooth(NamedTuple):
    """A smooth function of one vector of length 3, and the name under which tests report it."""

    name: str
    fun: Callable[[Any], Any]


def mlp(x: Any) -> Any:
    """Two layers and a log-sum-exp."""
    h = np.tanh(A @ x + B)
    return np.log(np.sum(np.exp(h @ A)))


def loop(x: Any) -> Any:
    """A Python loop with indexing."""
    total = x[0]
    for i in range(2):
        total = total + (x[i + 1] - x[i] ** 2) ** 2 * np.cos(total)
    return total


def closure(x: Any) -> Any:
    """An inner derivative that closes over the outer variable."""
    return np.sum(x * fgrad.grad(lambda y: np.sum(np.sin(x * y)))(x + 1.0))


def nested_jit(x: Any) -> Any:
    """A jitted function inside."""
    inner = fgrad.jit(lambda y, z: (np.sin(y) * z, y / (2.0 + z**2)))
    u, v = inner(x, np.roll(x, 1))
    return np.sum(u * v)


def nested_vmap(x: Any) -> Any:
    """A mapped function that shares a value."""
    return np.sum(fgrad.vmap(lambda y: np.exp(-y * x[0]) * y)(x))


def reductions(x: Any) -> Any:
    """Products, maxima, variances."""
    return np.prod(x) + np.max(x) * np.var(x) + np.linalg.norm(x)


def gathers(x: Any) -> Any:
    """Indexing of every basic kind."""
    m = np.outer(x, x)
    return np.sum(m[[0, 2], [1, 1]]) + np.sum(m[::-1, 1] * x[1:].sum()) + m[2, 2]


def scalars(x: Any) -> Any:
    """Scalar results of a vector argument, with `where`."""
    s = np.sum(x)
    return np.where(s > 0, s**3, np.expm1(s)) * np.arctan(x[0])


CASES = [
    Smooth(f.__name__, f)
    for f in (mlp, loop, closure, nested_jit, nested_vmap, reductions, gathers, scalars)
]
