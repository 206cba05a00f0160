"""Arguments that NumPy refuses are refused in a trace as well, and what it takes has its value.

Sizes, counts, axes and orders out of range, arrays of the wrong rank, without elements, with NaN
and infinities, of other dtypes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

X = np.array([0.3, 0.9, 0.1, 0.6, 0.7, 0.2])
WITH_NAN = np.array([0.1, np.nan, 0.5])
INFINITE = np.array([0.1, np.inf, 0.5])

SIZES = """
np.linspace(a[0], a[1], -1)
np.logspace(a[0], a[1], -1)
np.geomspace(a[0], a[1], -2)
np.tile(a, -1)
np.tile(a, (2, -1))
np.vander(a, -1)
np.vander(a, 0)
np.pad(a, -1)
np.fft.fft(a, -1)
np.fft.fft(a, 0)
np.fft.irfft(a, 0)
np.split(a, 0)
np.split(a, -1)
np.array_split(a, -1)
np.resize(a, (-2, 3))
np.broadcast_to(a, (-1, 6))
np.full_like(a, 1, shape=(-2,))
np.zeros_like(a, shape=(-3, 2))
np.bincount(np.arange(3), weights=a[:3], minlength=-1)
np.histogram(a, -2)
np.repeat(a, -1)
np.repeat(a, [1, -1, 1, 1, 1, 1])
np.repeat(a, [1, 2])
a.repeat(-3)
np.lib.stride_tricks.sliding_window_view(a, -1)
np.lib.stride_tricks.sliding_window_view(a, 9)
np.diff(a, -1)
np.diff(a, 9)
np.polyfit(a, a, -1)
np.polyder(a, -1)
np.polyint(a, -1)
np.partition(a, 9)
np.partition(a, 0.5)
np.argpartition(a, 0.5)
np.insert(a, 9, 1.0)
np.delete(a, 9)
np.take(a, [9])
"""
RANKS = """
np.correlate(a[0], a)
np.correlate(a, a[0])
np.convolve(a[0], a)
np.polyval(a[0], a)
np.ix_(a[0])
np.ix_(a, a[None])
np.quantile(a, a[None])
np.quantile(a, a[None, None])
np.percentile(a, a[None, None, :2])
np.nanquantile(a, a[None, None])
np.roll(a, a[None] > 0, 0)
np.take_along_axis(a, a > 0, 0)
np.take_along_axis(a, a, 0)
np.tril(a[0])
np.cross(a[:4], a[:4])
np.tensordot(a, a, 2)
np.einsum("ij", a)
np.linalg.det(a)
np.linalg.inv(a.reshape(2, 3))
np.linalg.solve(a[:4].reshape(2, 2), a[:3])
np.moveaxis(a, 0, 3)
np.swapaxes(a, 0, 2)
np.rollaxis(a, 0, 5)
np.flip(a, 2)
np.roll(a, 1, 2)
np.unwrap(a, axis=3)
np.squeeze(a, 0)
np.block([[a, a], [a]])
np.gradient(a[:1])
np.gradient(a, edge_order=3)
np.average(a, weights=np.ones(3))
"""
EMPTY = """
np.choose(np.arange(3), a[:0])
np.lexsort(a[:0])
np.histogramdd(a[:0].reshape(3, 0))
np.max(a[:0])
np.argmax(a[:0])
np.ptp(a[:0])
np.nanmax(a[:0])
np.interp(a, [], [])
np.interp(a, [1, 2], [1])
np.stack([])
np.concatenate([])
np.convolve(a, a[:0])
np.correlate(a[:0], a)
np.linalg.multi_dot([a])
"""
VALUES = """
np.quantile(a, a * 5)
np.quantile(a, -a)
np.quantile(a, a / 0)
np.percentile(a, a * 500)
np.nanquantile(a, a + 1)
np.nanpercentile(a, -a[0])
np.unravel_index((a * 90).astype(int), (2, 3))
np.unravel_index((a * -90).astype(int), (2, 3))
np.unravel_index((a * 6).astype(int), (2, 3))
np.ravel_multi_index(((a * 9).astype(int), (a * 3).astype(int)), (4, 5))
np.ravel_multi_index(((a * 3).astype(int), (a * 3).astype(int)), (4, 5))
np.ravel_multi_index(((a * 9).astype(int), (a * 3).astype(int)), (4, 5), mode="wrap")
np.quantile(a, a)
np.percentile(a, a[0])
np.histogram(a * WITH_NAN[1])
np.histogram(a / 0)
np.histogram(a)
np.histogram_bin_edges(a * WITH_NAN[1])
np.histogram_bin_edges(a, 3)
np.histogram2d(a, a / 0)
np.histogramdd(a / 0)
np.geomspace(a - a, 3.0, 4)
np.geomspace(a, 0 * a, 4)
np.geomspace([1.0, 2.0], a[:2], 4)
np.linspace([1.0, 2.0], a[:2], 4)
np.linspace(a[:2], [1.0, 2.0], 4)
np.logspace([1.0, 2.0], a[:2], 4)
"""


def _calls(lines: str) -> list[str]:
    return lines.strip().splitlines()


def _outcome(function: Callable[[Any], Any]) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(X.copy()), None
        except Exception as error:
            return None, error


@pytest.mark.parametrize("call", [c for t in (SIZES, RANKS, EMPTY, VALUES) for c in _calls(t)])
def test_traces_take_and_refuse_what_numpy_does(call: str) -> None:
    function = eval(f"lambda a: {call}", {"np": np, "WITH_NAN": WITH_NAN})
    expected, refused = _outcome(function)
    found, error = _outcome(fgrad.jit(function))
    assert (error is None) == (refused is None), (error, refused)
    if error is not None:
        assert not isinstance(error, (AttributeError, KeyError, AssertionError))
        assert not isinstance(error, fgrad.errors.CheckError)
        return
    for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_edges_of_bins_have_the_dtype_of_numpy(dtype: type) -> None:
    x = (np.random.default_rng(0).random((6, 2)) * 9).astype(dtype)
    for function in (
        lambda x: np.histogram(x, 3)[1],
        lambda x: np.histogramdd(x, 3)[1][0],
        lambda x: np.histogram2d(x[:, 0], x[:, 1], 3)[1],
    ):
        found, expected = fgrad.jit(function)(x), function(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(expected.dtype).eps)


def test_complex_points_have_no_bins() -> None:
    for function in (np.histogramdd, np.histogram):
        with pytest.raises(fgrad.errors.DtypeError, match="complex"):
            fgrad.jit(function)(X + 0.5j)


def test_a_mask_has_no_indices_before_it_is_known() -> None:
    with pytest.raises(fgrad.errors.TracedIndexError, match="ix_"):
        fgrad.jit(np.ix_)(X > 0.5)
