"""The rows of `op_cases`, and their arguments: functions of shapes that give functions of a rng."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
Args = Callable[[np.random.Generator], "tuple[Any, ...]"]


class OpCase(NamedTuple):
    """One function and its arguments."""

    name: str
    fun: Callable[..., Any]
    args: Args
    differentiable: bool = True
    order: int = 2
    known: bool = False
    dtypes: str = "d"  # NumPy characters of further dtypes that the float arguments are tried in


def _each(draw: Callable[[np.random.Generator, Shape], Any], shapes: tuple[Shape, ...]) -> Args:
    return lambda rng: tuple([draw(rng, s) for s in shapes])


def normal(*shapes: Shape) -> Args:
    """Standard normal numbers."""
    return _each(lambda rng, s: rng.normal(size=s), shapes)


def positive(*shapes: Shape) -> Args:
    """Numbers from 0.5 to 2."""
    return _each(lambda rng, s: rng.uniform(0.5, 2.0, s), shapes)


def unit(*shapes: Shape) -> Args:
    """Numbers inside (-0.9, 0.9)."""
    return _each(lambda rng, s: rng.uniform(-0.9, 0.9, s), shapes)


def above_one(*shapes: Shape) -> Args:
    """Numbers from 1.2 to 3."""
    return _each(lambda rng, s: rng.uniform(1.2, 3.0, s), shapes)


def spread(*shapes: Shape) -> Args:
    """Numbers of both signs, away from 0 and from the integers."""
    return _each(lambda rng, s: rng.uniform(0.2, 0.8, s) * rng.choice([-1.0, 1.0], s), shapes)


def distinct(*shapes: Shape) -> Args:
    """Numbers of which no two are close, in any order."""

    def draw(rng: np.random.Generator) -> tuple[Any, ...]:
        sizes = [int(np.prod(s, dtype=int)) for s in shapes]
        numbers = rng.permutation(sum(sizes)) * 0.37 - 0.05 * sum(sizes)
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        return tuple([p.reshape(s) for p, s in zip(parts, shapes, strict=True)])

    return draw


def matrix(n: int) -> Args:
    """A square matrix."""
    return normal((n, n))


def ints(*shapes: Shape, low: int = -5, high: int = 6) -> Args:
    """Integers."""
    return _each(lambda rng, s: rng.integers(low, high, s), shapes)


def truth(*shapes: Shape) -> Args:
    """Truth values."""
    return _each(lambda rng, s: rng.integers(0, 2, s).astype(bool), shapes)
