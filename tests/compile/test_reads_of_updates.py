"""Reads of arrays that were written at known places: the newest write counts, in any order of
overlapping, touching and separate regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import numpy as fnp

SHAPES = ((7,), (5, 6), (3, 4, 5))


def _region(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A random place: numbers and slices, some empty, some with steps, for some leading axes."""
    place: list[Any] = []
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        kind = rng.integers(4)
        first = int(rng.integers(n))
        last = int(rng.integers(first, n + 1))
        step = int(rng.integers(1, 4)) if kind == 3 else 1
        place.append(int(rng.integers(-n, n)) if kind == 0 else slice(first, last, step))
    return tuple(place)


def _steps(seed: int) -> tuple[tuple[int, ...], list[tuple[Any, Any, float]]]:
    """What a program writes: to where, what it has read from where, times a number."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    steps = []
    while len(steps) < 12:
        to, at = _region(rng, shape), _region(rng, shape)
        probe = np.zeros(shape)
        try:
            probe[to] = probe[at]
        except ValueError:
            at = to
        steps.append((to, at, float(rng.normal())))
    return shape, steps


def _program(steps: list[tuple[Any, Any, float]]) -> Any:
    def program(x: Any, y: Any) -> Any:
        y = fnp.array(y)
        for to, at, factor in steps:
            y[to] = np.sin(y[at]) * factor + np.sum(x[to])
        return y

    return program


@pytest.mark.parametrize("seed", range(30))
def test_values_and_gradients_are_those_of_the_prompt(seed: int) -> None:
    shape, steps = _steps(seed)
    rng = np.random.default_rng(seed)
    x, y, weights = rng.normal(size=(3, *shape))
    program = _program(steps)
    np.testing.assert_allclose(fgrad.jit(program)(x, y), program(x, y), rtol=1e-12, atol=1e-12)

    def loss(x: Any, y: Any) -> Any:
        return np.sum(weights * program(x, y))

    compiled = fgrad.jit(fgrad.grad(loss, argnums=(0, 1)))(x, y)
    for found, expected in zip(compiled, fgrad.grad(loss, argnums=(0, 1))(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
