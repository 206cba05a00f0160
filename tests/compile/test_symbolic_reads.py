"""Gradients of many reads of one array whose length is a symbol: the bits of a trace for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from resized import compared

import fgrad

LENGTHS = (31, 37, 45, 64, 52, 100)


def _read(rng: np.random.Generator) -> Callable[[Any, Any], Any]:
    """A read of a part of x, a weighted sum of it."""
    kind, a, b = int(rng.integers(7)), int(rng.integers(0, 5)), int(rng.integers(1, 5))
    weight = float(rng.normal())
    reads: list[Callable[[Any, Any], Any]] = [
        lambda x, i: x[a],
        lambda x, i: x[-b],
        lambda x, i: x[a : a + 3],
        lambda x, i: x[a:-b],
        lambda x, i: x[a::b],
        lambda x, i: x[::-b],
        lambda x, i: x[i],
    ]
    return lambda x, i: weight * np.sum(np.sin(reads[kind](x, i)))


@pytest.mark.parametrize("seed", range(30))
def test_sums_are_in_the_order_of_a_trace_for_the_length(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reads = [_read(rng) for _ in range(int(rng.integers(1, 9)))]
    whole = [lambda x: np.sum(np.cumsum(x) ** 2), lambda x: np.sum(x * x), lambda x: 0.0]
    other = whole[int(rng.integers(3))]

    def total(x: Any, i: Any) -> Any:
        y = x * 1.5
        return sum([read(y, i) for read in reads]) + other(y)

    def given(n: int) -> list[Any]:
        return [rng.normal(size=n), rng.integers(-n, n, 7)]

    assert not compared(fgrad.grad(total), map(given, LENGTHS)).wrong


@pytest.mark.parametrize("rows", [False, True])
def test_reads_of_a_table_with_columns(rows: bool) -> None:
    def total(x: Any) -> Any:
        y = np.tanh(x)
        parts = (y[1:] * y[:-1], y[0], y[-1], y[:, 1:] ** 2, y[:, 0] * 3.0, y[2, 1])
        return sum([np.sum(np.exp(part)) for part in parts])

    rng = np.random.default_rng(0)
    shapes = [(n, 4) if rows else (4, n) for n in LENGTHS]
    outcome = compared(fgrad.grad(total), ([rng.normal(size=shape)] for shape in shapes))
    assert not outcome.wrong
    assert outcome.templates > 0, outcome.reasons
