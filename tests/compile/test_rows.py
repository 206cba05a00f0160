"""Rows at computed places: whole vectors are read and written, without gathers; ties in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad

RNG = np.random.default_rng(0)
TABLE = RNG.integers(-8, 9, (60, 40)).astype(np.float32)
PLACES = RNG.integers(-60, 60, 200)


def text_of(fun: Any, *args: Any) -> str:
    """The LLVM text of a function's kernels."""
    return fgrad.inspect(fun)(*args).llvm


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i1", "?"])
@pytest.mark.parametrize("width", [1, 3, 16, 40])
def test_rows_are_read(dtype: str, width: int) -> None:
    table = (TABLE[:, :width] if dtype != "?" else TABLE[:, :width] > 0).astype(dtype)
    for fun in (
        lambda t, p: t[p],
        lambda t, p: t[p][:, ::-1],
        lambda t, p: np.take(t, p, axis=0) * 2,
        lambda t, p: t[p.reshape(10, 20)],
        lambda t, p: t.T[:, p],
    ):
        np.testing.assert_array_equal(fgrad.jit(fun)(table, PLACES), fun(table, PLACES))


@pytest.mark.parametrize("width", [1, 5, 16, 40])
def test_rows_are_added_up(width: int) -> None:
    def f(t: Any, p: Any, ct: Any) -> Any:
        return np.sum(t[p] * ct)

    ct = RNG.integers(-4, 5, (200, width)).astype(np.float32)
    expected = np.zeros((60, width), np.float32)
    np.add.at(expected, PLACES, ct)
    found = fgrad.jit(fgrad.grad(f))(TABLE[:, :width].copy(), PLACES, ct)
    np.testing.assert_array_equal(found, expected)


def test_rows_are_contiguous() -> None:
    table, places = np.ones((50, 64), np.float32), np.arange(20)
    for fun in (lambda t, p: t[p], fgrad.grad(lambda t, p: np.sum(t[p] * t[:20]))):
        text = text_of(fun, table, places)
        assert "<16 x float>" in text
        assert "masked.gather" not in text and "masked.scatter" not in text


def test_numbers_of_rows_are_no_transposition() -> None:
    """`x * s[:, None]` runs along rows; only what runs along columns is a tile."""
    x, s = np.ones((100, 64), np.float32), np.ones(100, np.float32)

    def tiled(fun: Any) -> bool:
        """A tile of 16 rows holds 16 vectors."""
        return text_of(fun, x, s).count("load <") > 4

    assert not tiled(lambda x, s: np.maximum(x, s[:, None]) * s[:, None])
    assert tiled(lambda x, s: x.T * 2)
