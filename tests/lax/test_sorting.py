"""`lax.top_k` against NumPy's stable sort, under every transform."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.errors import ShapeError

RNG = np.random.default_rng(0)


def highest(x: np.ndarray, k: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """By a stable sort of the reversed array."""
    order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    order = np.take(order, range(k), axis)
    return np.take_along_axis(x, order, axis), order


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?", "f2"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), 0), ((4, 300), -1), ((30, 3), 0), ((2, 9, 2), 1)]
)
def test_elements_and_places(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    x = RNG.integers(0, 2 if dtype == "?" else 20, shape).astype(dtype)
    if dtype[0] == "f":
        x.flat[::7] = np.nan
        x.flat[3] = -0.0
    for k in (0, 1, 3):
        expected = highest(x, k, axis)
        take = functools.partial(lax.top_k, k=k, axis=axis)
        for f in (take, fgrad.jit(take)):
            values, places = f(x)
            np.testing.assert_array_equal(places, expected[1])
            np.testing.assert_array_equal(values, expected[0])
            assert values.dtype == x.dtype and places.dtype == np.int64


def test_transforms() -> None:
    x = RNG.normal(size=(5, 40))

    def f(row: Any) -> Any:
        return np.sum(lax.top_k(row, 3)[0] ** 2)

    expected = np.zeros_like(x)
    values, places = highest(x, 3, 1)
    np.put_along_axis(expected, places, 2 * values, 1)
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fgrad.grad(f)))(x), expected)
    np.testing.assert_allclose(fgrad.vmap(lambda r: lax.top_k(r, 3)[1])(x), places)


@pytest.mark.parametrize(("k", "axis"), [(9, 0), (-1, 0), (2, 1), (2, -2)])
def test_what_does_not_fit(k: int, axis: int) -> None:
    with pytest.raises(ShapeError, match="top_k"):
        lax.top_k(np.arange(5.0), k, axis=axis)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u4", "u8"])
@pytest.mark.parametrize("n", [64, 70, 129, 3000])
def test_long_rows(dtype: str, n: int) -> None:
    """Random, ascending, descending and equal rows; the least number; NaN and infinities."""
    rows = np.stack([RNG.integers(0, 50, n), np.arange(n), -np.arange(n) + n, np.full(n, 7)])
    x = rows.astype(dtype)
    if dtype[0] == "f":
        same = [np.full((1, n), number, dtype) for number in (-np.inf, np.inf, np.nan, -0.0)]
        zeros = np.where(np.arange(n) % 3, 0.0, -0.0)[None].astype(dtype)
        holes = np.where(np.arange(n) % 2, np.nan, np.arange(n))[None].astype(dtype)
        x = np.concatenate([x, *same, zeros, holes, RNG.normal(size=(3, n)).astype(dtype)])
        x[0, 3::50] = np.nan
        x[-1, 5], x[-1, 9], x[-1, 11] = np.inf, np.nan, -np.nan
    else:
        ends = [np.full((1, n), end, dtype) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max)]
        x = np.concatenate([x, *ends])
        x[0, 40] = np.iinfo(dtype).max
    for k in (1, 2, 7, 20, 64, min(n, 65)):
        values, places = fgrad.jit(functools.partial(lax.top_k, k=k))(x)
        expected = highest(x, k, 1)
        np.testing.assert_array_equal(places, expected[1])
        np.testing.assert_array_equal(values, expected[0])


def test_rows_are_shared() -> None:
    x = RNG.normal(size=(500, 700)).astype(np.float32)
    expected, found = highest(x, 5, 1), []
    for n in (1, 2, 3):
        with fgrad.config.override(num_threads=n):
            found.append(fgrad.jit(lambda x: lax.top_k(x, 5))(x))
    for values, places in found:
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(places, expected[1])
