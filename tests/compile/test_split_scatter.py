"""Long sums into few places are taken in parts, and are what NumPy's `add.at` gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.kernel.text import print_kernel
from fgrad.config import config

RNG = np.random.default_rng(0)
COUNT = 200_003


def segment_sum(start: Any, places: Any, values: Any) -> Any:
    return start.at[places].add(values)


def kernels(fun: Any, *args: Any) -> str:
    """The kernels of a function, as text."""
    return "\n".join(map(print_kernel, fgrad.inspect(fun)(*args).kernels))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "c16", "?"])
def test_sums(dtype: str) -> None:
    places = RNG.integers(-100, 100, COUNT)
    values = RNG.integers(0, 3, COUNT).astype(dtype)
    start = np.arange(100).astype(dtype)
    expected = start.copy()
    np.add.at(expected, places, values)
    found = fgrad.jit(segment_sum)(start, places, values)
    assert found.dtype == start.dtype
    np.testing.assert_array_equal(found, expected)


def test_what_is_out_of_bounds_is_dropped() -> None:
    places = RNG.integers(-300, 300, COUNT).astype(np.int32)
    inside = (places >= -100) & (places < 100)
    expected = np.bincount(places[inside] % 100, minlength=100)

    def inside_of(start: Any, places: Any, values: Any) -> Any:
        return start.at[places].add(values, mode="drop")

    found = fgrad.jit(inside_of)(np.zeros(100), places, np.ones(COUNT))
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(fgrad.errors.BoundsError):
        fgrad.jit(segment_sum)(np.zeros(100), places, np.ones(COUNT))


def test_bits_do_not_depend_on_threads() -> None:
    places, values = RNG.integers(0, 50, COUNT), RNG.normal(size=COUNT).astype(np.float32)
    jitted, found = fgrad.jit(segment_sum), []
    for n in (1, 2, 3):
        with config.override(num_threads=n):
            found.append(jitted(np.zeros(50, np.float32), places, values))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    exact = np.bincount(places, values.astype(np.float64), 50)
    np.testing.assert_allclose(found[0], exact, rtol=1e-4, atol=1e-3)


def test_threads_share_parts() -> None:
    args = np.zeros(50), RNG.integers(0, 50, COUNT), np.ones(COUNT)
    parts = re.compile(r"parallel \w+ in 6:\n +serial")
    assert parts.search(kernels(segment_sum, *args))
    few = args[0], args[1][:1000], args[2][:1000]
    assert not parts.search(kernels(segment_sum, *few))


def test_gradients_and_batches() -> None:
    places, values = RNG.integers(0, 50, COUNT), RNG.normal(size=COUNT)

    def f(values: Any) -> Any:
        return np.sum(np.zeros_like(values, shape=50).at[places].add(values) ** 2)

    sums = np.bincount(places, values, 50)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(values), 2 * sums[places])
    rows = values[:200_000].reshape(20, 10_000)
    where = places[:200_000].reshape(20, 10_000)
    start = np.zeros((20, 50))
    found = fgrad.jit(fgrad.vmap(segment_sum))(start, where, rows)
    expected = [np.bincount(p, v, 50) for p, v in zip(where, rows, strict=True)]
    np.testing.assert_allclose(found, expected)
    text = kernels(fgrad.vmap(segment_sum), start, where, rows)
    assert re.search(r"parallel \w+ in 20:\n +serial", text)
