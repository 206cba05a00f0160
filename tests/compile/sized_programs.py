"""Random functions of arrays whose sizes are free: the same function for any m and n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Function = Callable[..., Any]

# What is done to arrays of shapes (m, n), (m, 1), (n,) or (), and gives another of these.
UNARY: list[Function] = [
    np.sin,
    np.tanh,
    lambda x: np.exp(-x * x),
    lambda x: x * 0.3 + 0.7,
    lambda x: np.maximum(x, 0),
    np.abs,
    lambda x: np.sqrt(x * x + 1),
    lambda x: x - np.mean(x),
    lambda x: x / (np.sum(np.abs(x)) + 1),
    lambda x: np.where(x > 0, x, 0.1 * x),
    lambda x: x[::-1],
    lambda x: np.roll(x, 1, axis=0),
    lambda x: np.cumsum(x, axis=-1),
    lambda x: np.concatenate([x[1:], x[:1]]),
    lambda x: x * np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1)),
    lambda x: np.where(np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1)) % 3 == 1, x, -x),
]
OF_MATRICES: list[Function] = [
    lambda x: np.mean(x, axis=1, keepdims=True),
    lambda x: np.max(x, axis=1, keepdims=True),
    lambda x: np.sum(x, axis=0),
    lambda x: np.var(x, axis=0),
    lambda x: x - np.max(x, axis=1, keepdims=True),
    lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True),
    lambda x: (x @ x.T) @ x / len(x),
    lambda x: x.T.reshape(-1)[: x.size].reshape(x.shape),
    lambda x: (x.T * 2).T + x,
    lambda x: np.diff(np.concatenate([x[:, :1], x], axis=1), axis=1),
    lambda x: x @ x[0],
    lambda x: x[:, ::2].sum(axis=1, keepdims=True),
    lambda x: np.pad(x, ((1, 1), (0, 2)))[1:-1, 2:],
]
BINARY: list[Function] = [
    lambda x, y: x + y,
    lambda x, y: x * y - 0.5,
    lambda x, y: np.maximum(x, y),
    lambda x, y: x / (1 + y * y),
]


class Step(NamedTuple):
    """One function and the numbers of its operands."""

    function: Function
    operands: tuple[int, ...]


def random_function(seed: int) -> Function:
    """A function of a matrix and a vector of the length of its rows: its result, and sums."""
    rng = np.random.default_rng(seed)
    chosen = UNARY + OF_MATRICES + BINARY
    steps = [
        Step(chosen[rng.integers(len(chosen))], tuple(rng.integers(0, 2 + k, 2).tolist()))
        for k in range(int(rng.integers(2, 7)))
    ]

    def function(x: Any, y: Any) -> Any:
        pool = [x, y]
        for step in steps:
            pool.append(_applied(step, pool))
        return pool[2:], sum([np.sum(v) for v in pool])

    return function


def _applied(step: Step, pool: list[Any]) -> Any:
    """The step's result; another function where the operands have not the shape for it."""
    first, second = pool[step.operands[0]], pool[step.operands[1]]
    width = pool[0].shape[1]
    if step.function in BINARY:
        fits = {first.ndim, second.ndim} <= {0, 2} or first.shape == second.shape
        return step.function(first, second if fits else np.sum(second))
    if first.ndim == 0:
        return np.tanh(first)
    if step.function in OF_MATRICES and first.ndim != 2:
        return first * 0.3
    if step.function in OF_MATRICES and first.shape[1] != width:
        return first + pool[1]
    return step.function(first)


def arguments(m: int, n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """A matrix and a vector."""
    return rng.normal(size=(m, n)).astype(dtype), rng.normal(size=n).astype(dtype)
