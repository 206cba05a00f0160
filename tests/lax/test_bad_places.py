"""Sizes, axes and places that are no integers, or lie outside: refused at the prompt and compiled,
as JAX refuses them; they are never cut off, wrapped around or clamped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax, nn
from fgrad.errors import ArgumentError, DtypeError, FgradError, ShapeError

A = np.arange(12.0).reshape(3, 4)
V = np.array([0.3, 0.9, 0.1])
IMAGES, FILTERS = np.ones((1, 2, 5, 5)), np.ones((3, 2, 2, 2))
HEADS = np.ones((2, 4, 2, 3))

REFUSED: dict[str, tuple[Callable[..., Any], type[Exception]]] = {
    "slice start": (lambda a: lax.slice(a, 0, (2, 2)), ArgumentError),
    "slice stop": (lambda a: lax.slice(a, (0, 0), 2), ArgumentError),
    "slice of a float": (lambda a: lax.slice(a, (0, 0.5), (2, 2)), ArgumentError),
    "slice_in_dim beyond": (lambda a: lax.slice_in_dim(a, 0, 9), ShapeError),
    "slice_in_dim from beyond": (lambda a: lax.slice_in_dim(a, 9, 9), ShapeError),
    "slice_in_dim far before": (lambda a: lax.slice_in_dim(a, -9, 2), ShapeError),
    "slice_in_dim backwards": (lambda a: lax.slice_in_dim(a, 2, 1), ShapeError),
    "slice_in_dim stride 0": (lambda a: lax.slice_in_dim(a, 0, 2, 0), ShapeError),
    "slice_in_dim float": (lambda a: lax.slice_in_dim(a, 0.5, 2), ArgumentError),
    "dynamic size": (lambda a: lax.dynamic_slice(a, (0, 0), (9, 1)), ShapeError),
    "dynamic size -1": (lambda a: lax.dynamic_slice(a, (0, 0), (-1, 1)), ShapeError),
    "dynamic size float": (lambda a: lax.dynamic_slice(a, (0, 0), (1.5, 1)), ArgumentError),
    "dynamic sizes": (lambda a: lax.dynamic_slice(a, (0, 0), 2), ArgumentError),
    "dynamic starts": (lambda a: lax.dynamic_slice(a, 0, (1, 1)), ArgumentError),
    "dynamic start float": (lambda a: lax.dynamic_slice(a, (a[0, 1], 0), (1, 1)), DtypeError),
    "in_dim size": (lambda a: lax.dynamic_slice_in_dim(a, 0, 9), ShapeError),
    "in_dim size -1": (lambda a: lax.dynamic_slice_in_dim(a, 0, -1), ShapeError),
    "in_dim float": (lambda a: lax.dynamic_slice_in_dim(a, 0.5, 1), DtypeError),
    "in_dim axis": (lambda a: lax.dynamic_slice_in_dim(a, 0, 1, axis=9), ValueError),
    "in_dim 0-d": (lambda a: lax.dynamic_slice_in_dim(a[0, 0], 0, 1), ValueError),
    "index of nothing": (lambda a: lax.dynamic_index_in_dim(a[:0], 0), ShapeError),
    "index 0-d": (lambda a: lax.dynamic_index_in_dim(a[0, 0], 0), ValueError),
    "index float": (lambda a: lax.index_in_dim(a, 0.5), ArgumentError),
    "index axis": (lambda a: lax.dynamic_update_index_in_dim(a, a[0], 0, 9), ValueError),
    "update larger": (lambda a: lax.dynamic_update_slice(a[:1], a, (0, 0)), ShapeError),
    "update wider": (lambda a: lax.dynamic_update_slice(a[:, :2], a, (0, 0)), ShapeError),
    "update of other rank": (lambda a: lax.dynamic_update_slice(a, a[0], (0, 0)), ShapeError),
    "update of more axes": (lambda a: lax.dynamic_update_slice(a, a[None], (0, 0)), ShapeError),
    "update float": (lambda a: lax.dynamic_update_slice(a, a, (0.5, 0)), DtypeError),
    "update in_dim": (lambda a: lax.dynamic_update_slice_in_dim(a[:1], a, 0, 0), ShapeError),
    "unstack 0-d": (lambda a: lax.unstack(a[0, 0]), ValueError),
    "unstack axis": (lambda a: lax.unstack(a, 2), ValueError),
    "split": (lambda a: lax.split(a, 3), ArgumentError),
    "split below 0": (lambda a: lax.split(a, (-1, 4)), ShapeError),
    "rev": (lambda a: lax.rev(a, 0), ArgumentError),
    "expand_dims": (lambda a: lax.expand_dims(a, 0), ArgumentError),
    "squeeze": (lambda a: lax.squeeze(a[None], 0), ArgumentError),
    "transpose": (lambda a: lax.transpose(a, 1), ArgumentError),
    "collapse": (lambda a: lax.collapse(a, 0.5), ArgumentError),
    "broadcast": (lambda a: lax.broadcast(a, 2), ArgumentError),
    "broadcast_to_rank": (lambda a: lax.broadcast_to_rank(a, 3.5), ArgumentError),
    "broadcast_in_dim": (lambda a: lax.broadcast_in_dim(a, (2, 3, 4), 1), ArgumentError),
    "reduce_sum": (lambda a: lax.reduce_sum(a, 0), ArgumentError),
    "reduce_max": (lambda a: lax.reduce_max(a, (0.5,)), ArgumentError),
    "reduce": (lambda a: lax.reduce(a, 0.0, lax.add, 1), ArgumentError),
    "window": (lambda a: lax.reduce_window(a, 0.0, lax.add, 2, (1, 1)), ArgumentError),
    "window stride": (lambda a: lax.reduce_window(a, 0.0, lax.add, (2, 2), (0, 1)), ArgumentError),
    "window -1": (lambda a: lax.reduce_window(a, 0.0, lax.add, (-1, 2), (1, 1)), ArgumentError),
    "window of complex": (lambda a: lax.reduce_window(a, 1j, lax.add, (2, 2)), DtypeError),
    "reduce from complex": (lambda a: lax.reduce(a, 1j, lax.add, (0,)), DtypeError),
    "conv strides": (lambda a: lax.conv(a[0, 0] * IMAGES, FILTERS, 1, "SAME"), ArgumentError),
    "sort of two": (lambda a: lax.sort((a, a[:, :2])), ShapeError),
    "sort_key_val": (lambda a: lax.sort_key_val(a, a[:, :0]), ShapeError),
    "ragged_dot": (lambda a: lax.ragged_dot(a, np.ones((2, 4, 2)), a[0, :2]), DtypeError),
    "select_n": (lambda a: lax.select_n(a, a, a), DtypeError),
    "fori_loop": (lambda a: lax.fori_loop(0, 2.5, lambda i, x: x + 1, a), DtypeError),
    "fori_loop traced": (lambda a: lax.fori_loop(0, a[0, 1], lambda i, x: x + 1, a), DtypeError),
    "associative_scan": (lambda a: lax.associative_scan(lax.add, a[0, 0]), ValueError),
    "lu of float16": (lambda a: lax.linalg.lu(a[:, :3].astype(np.float16)), DtypeError),
    "batches of heads": (
        lambda a: nn.dot_product_attention(HEADS[:0] * a[0, 0], HEADS, HEADS), ShapeError),
    "batches of values": (
        lambda a: nn.dot_product_attention(HEADS * a[0, 0], HEADS, HEADS[:0]), ShapeError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, error = REFUSED[name]
    for g in (f, fgrad.jit(f)):
        with pytest.raises(error) as found:
            g(A)
        assert isinstance(found.value, FgradError) or type(found.value) is np.exceptions.AxisError


def test_integers_of_any_kind_are_taken() -> None:
    at = np.int32(1)
    np.testing.assert_array_equal(lax.slice_in_dim(A, at, np.int64(3)), A[1:3])
    np.testing.assert_array_equal(lax.slice_in_dim(A, -2, None), A[-2:])
    np.testing.assert_array_equal(lax.slice_in_dim(A, -2, -1), A[-2:-1])
    np.testing.assert_array_equal(lax.dynamic_slice_in_dim(A, at, 2, axis=-1), A[:, 1:3])
    np.testing.assert_array_equal(lax.reduce_sum(A, np.array([0])), A.sum(0))
    assert lax.fori_loop(np.int8(0), np.array(3), lambda i, x: x + i, 0) == 3


INFINITE = [np.array([np.inf, 1.0, 2.0]), np.array([1.0, -np.inf]), np.array([np.inf, -np.inf])]


@pytest.mark.parametrize("x", INFINITE, ids=str)
def test_a_slice_with_inf_has_no_softmax(x: np.ndarray) -> None:
    for f in (nn.softmax, nn.log_softmax):
        for g in (f, fgrad.jit(f)):
            with np.errstate(all="ignore"):
                assert np.isnan(g(x)).all() == np.isposinf(x).any()
