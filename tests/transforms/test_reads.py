"""Gradients of many reads of one array: right for any mixture of reads, and one scatter for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.trace import trace

Index = tuple[Any, ...]


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> Index:
    """Integers, slices with steps of both signs, arrays, parts left out, and `...`."""
    index: list[Any] = []
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        kind = rng.integers(5)
        if kind < 2:
            index.append(int(rng.integers(-n, n)))
        elif kind == 2:
            start, length = int(rng.integers(n)), int(rng.integers(0, 3))
            index.append(slice(start, start + length))
        elif kind == 3:
            index.append(rng.integers(-n, n, 3))
        else:
            index.append(slice(None, None, int(rng.choice([-2, -1, 1, 2, 3]))))
    return (*index, ...) if rng.integers(3) == 0 else tuple(index)


def reads(rng: np.random.Generator) -> tuple[np.ndarray, list[tuple[Index, float]]]:
    """An array, and places in it with weights."""
    shape = tuple(rng.integers(1, 7, rng.integers(1, 4)).tolist())
    count = int(rng.integers(1, 30))
    return rng.normal(size=shape), [
        (random_index(rng, shape), float(rng.normal())) for _ in range(count)
    ]


def loss(places: list[tuple[Index, float]]) -> Callable[[Any], Any]:
    """A sum over the reads, beside a use of the whole array before and after them."""

    def f(x: Any) -> Any:
        y = x * 1.5
        total = np.sum(np.sin(y))
        for index, weight in places:
            total = total + weight * np.sum(np.sin(y[index]))
        return total + np.sum(y * y)

    return f


def expected(x: np.ndarray, places: list[tuple[Index, float]]) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second derivatives, which are those of each element alone."""
    weights = np.ones_like(x)
    for index, weight in places:
        np.add.at(weights, index, weight)
    y = 1.5 * x
    return 1.5 * (weights * np.cos(y) + 2 * y), 2.25 * (2 - weights * np.sin(y))


@pytest.mark.parametrize("seed", range(25))
def test_any_mixture_of_reads(seed: int) -> None:
    x, places = reads(np.random.default_rng(seed))
    f = loss(places)
    first, second = expected(x, places)
    g = fgrad.grad(f)
    h = fgrad.grad(lambda x: np.sum(g(x)))
    for found in (g(x), fgrad.vmap(g)(np.stack([x, x]))[1]):
        np.testing.assert_allclose(found, first, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(h(x), second, rtol=1e-12, atol=1e-12)
    if seed % 5 == 0:
        np.testing.assert_allclose(fgrad.jit(g)(x), first, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fgrad.jit(h)(x), second, rtol=1e-12, atol=1e-12)


def program_of(f: Callable[[Any], Any], shape: tuple[int, ...]) -> Program:
    """The program of a gradient, whose sums of known numbers of terms are written out."""
    g = fgrad.grad(f)
    with fgrad.config.override(capture=False):
        return trace(lambda x: [g(x)], [Aval(shape, np.dtype(float))]).program


def diagonal(a: Any) -> Any:
    return sum([np.sin(a[i, i]) for i in range(a.shape[0])])


def neighbours(x: Any) -> Any:
    return sum([x[i] * x[i + 1] for i in range(x.shape[0] - 1)])


def windows(x: Any) -> Any:
    return sum([np.dot(x[i : i + 4], x[i : i + 4]) for i in range(x.shape[0] - 3)])


def rows(a: Any) -> Any:
    return sum([np.dot(a[i], a[-i]) for i in range(a.shape[0])])


def lookups(x: Any) -> Any:
    return sum([np.sum(np.sin(x[np.array([[i, 3], [-i, i]])])) for i in range(x.shape[0])])


def pairs(x: Any) -> Any:
    line = np.arange(3)
    return sum([np.sum(np.sin(x[line + i, i - line])) for i in range(x.shape[0] - 3)])


def columns(x: Any) -> Any:
    return sum([np.sum(np.sin(x[:, np.array([i, 0, i])])) for i in range(x.shape[1])])


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lookups, (20,)),
        (pairs, (20, 20)),
        (columns, (3, 20)),
        (diagonal, (60, 60)),
        (neighbours, (60,)),
        (windows, (60,)),
        (rows, (60, 3)),
    ],
    ids=["lookups", "pairs", "columns", "diagonal", "neighbours", "windows", "rows"],
)
def test_one_scatter_for_all_reads(f: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    counts = Counter([eqn.prim.name for eqn in program_of(f, shape).eqns])
    assert counts["scatter"] == 1
    assert counts["pad"] == 0


def test_reads_that_cover_an_array_in_order_are_joined() -> None:
    program = program_of(lambda x: sum([np.sin(x[i]) for i in range(40)]), (40,))
    counts = Counter([eqn.prim.name for eqn in program.eqns])
    assert counts["concatenate"] == 1
    assert not counts["scatter"] + counts["pad"]


def test_few_reads_of_large_parts_stay_pads() -> None:
    program = program_of(lambda x: np.sum(x[1:] * x[:-1]), (1000,))
    counts = Counter([eqn.prim.name for eqn in program.eqns])
    assert counts["pad"] == 2
    assert counts["scatter"] == 0
