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
