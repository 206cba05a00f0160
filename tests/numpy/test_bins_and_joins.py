"""Bins whose direction is not known, joins that cast, covariances of rows, bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad import grad, jit, vmap


@pytest.mark.parametrize("right", [False, True])
def test_digitize_with_bins_of_unknown_direction(right: bool) -> None:
    x = np.array([-2.0, 0.0, 0.5, 1.0, 3.0])
    rising = np.array([0.0, 0.5, 1.0])
    many = np.stack([rising, rising[::-1]])
    found = vmap(lambda bins: np.digitize(x, bins, right=right))(many)
    for row, bins in zip(found, many, strict=True):
        assert np.array_equal(row, np.digitize(x, bins, right=right))
        assert np.array_equal(jit(np.digitize)(x, bins), np.digitize(x, bins))


def test_bins_in_no_order_raise() -> None:
    with pytest.raises(ValueError, match="monotonically"):
        grad(lambda x: np.sum(np.digitize(x, np.array([0.0, 2.0, 1.0])) * x))(np.ones(3))


def test_joins_cast_each_array_alone() -> None:
    """By way of the common dtype, float64, the last digits would go."""
    a, b = np.array([2**60 + 1]), np.array([2**60 + 3], np.uint64)
    found = jit(lambda a, b: np.concatenate([a, b], dtype=np.int64))(a, b)
    assert np.array_equal(found, [2**60 + 1, 2**60 + 3])
    small = jit(lambda a: np.vstack([0, a], dtype=np.int8))(np.uint64(3))
    assert small.dtype == np.int8 and np.array_equal(small, [[0], [3]])


def test_covariances_of_one_row() -> None:
    x = np.array([[1.0, 2.0, 4.0]])
    for rowvar in (False, True):
        expected = np.cov(x, rowvar=rowvar, bias=True)
        found = jit(lambda x, r=rowvar: np.cov(x, rowvar=r, bias=True))(x)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected)


def test_weights_whose_sum_is_zero_raise_where_they_are_known() -> None:
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: np.average(x, weights=np.array([1.0, -1.0])))(np.ones(2))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_bits_of_numbers_of_rank_0(axis: int | None) -> None:
    for f, x in ((np.packbits, np.array(True)), (np.unpackbits, np.array(5, np.uint8))):
        assert np.array_equal(jit(lambda x, f=f: f(x, axis=axis))(x), f(x, axis=axis))


# Joins of a scalar and an array: in the first three Python's numbers adapt to the array.
SCALAR_JOINS: list[Callable[[Any, Any], Any]] = [
    lambda s, a: np.concatenate([s, a], axis=None), lambda s, a: np.concat((a, s, a), axis=None),
    lambda s, a: np.concatenate([s, s, a[0]], axis=None), lambda s, a: np.append(a, s),
    lambda s, a: np.concatenate([[s], a]), lambda s, a: np.append(a, [s], axis=0),
    lambda s, a: np.hstack([s, a]), lambda s, a: np.vstack([s, a[:1]]),
    lambda s, a: np.dstack([s, a[:1]]), lambda s, a: np.column_stack([s, a[:1]]),
    lambda s, a: np.stack([s, a[0]]), lambda s, a: np.block([s, a]),
    lambda s, a: np.concatenate([s, a], axis=None, dtype="D"),
    lambda s, a: np.diff(a, prepend=s) if a.dtype != bool else a,
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(SCALAR_JOINS)))
@pytest.mark.parametrize("dtype", "?bBilefdFD")
def test_joins_of_pythons_numbers(k: int, dtype: str) -> None:
    join, a = SCALAR_JOINS[k], np.ones(2, dtype)
    for number in (True, 2, 300, -1, 0.5, 1j, np.float32(0.5), np.int8(3)):
        expected = join(number, a)
        closed, given = jit(lambda a, s=number: join(s, a))(a), jit(join)(number, a)
        for found in (closed, given):
            assert found.dtype == expected.dtype, number
            assert np.array_equal(found, expected), number
