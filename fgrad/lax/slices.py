"""L7. Slices of static size at traced start indices, clamped to stay within the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import INT64
from fgrad.lax.whole import integers, places
from fgrad.numpy.promote import as_array, convert, normalize_axis
from fgrad.ops import index as _ops
from fgrad.trace import Tracer, Value
from fgrad.tracing.device_tracing import lowered
from fgrad.typing import ArrayLike


@lowered
@also_takes(allow_negative_indices=True)
def dynamic_slice(
    operand: ArrayLike, start_indices: Sequence[ArrayLike], slice_sizes: Sequence[int]
) -> Value:
    """`operand[start : start + size]` along each axis, clamped to lie inside.

    Arguments:
        operand: an array.
        start_indices: an integer for each axis; a negative one counts from the end.
        slice_sizes: the static shape of the result.

    Raises:
        ShapeError: if the lengths do not fit the array.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.dynamic_slice(np.arange(5), [3], [4])
        array([1, 2, 3, 4])
    """
    operand = as_array(operand)
    sizes = integers(slice_sizes, "dynamic_slice")
    starts = _starts(operand, start_indices, "dynamic_slice")
    if len(sizes) != len(operand.shape):
        raise ShapeError(f"lax.dynamic_slice: {len(sizes)} sizes for shape {operand.shape}.")
    if not _inside(sizes, operand.shape):
        raise ShapeError(f"lax.dynamic_slice: sizes {sizes} of shape {operand.shape}.")
    return _owned(_ops.dynamic_slice(operand, starts, sizes))


@lowered
@also_takes(allow_negative_indices=True)
def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Sequence[ArrayLike]
) -> Value:
    """The array with a block replaced by `update`, clamped to lie inside.

    Arguments:
        operand: an array.
        update: an array of as many axes, none longer than the operand's.
        start_indices: an integer for each axis; a negative one counts from the end.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.dynamic_update_slice(np.zeros(4), np.ones(2), [1])
        array([0., 1., 1., 0.])
    """
    operand = as_array(operand)
    update = convert(as_array(update), operand.dtype)
    starts = _starts(operand, start_indices, "dynamic_update_slice")
    if len(update.shape) != len(operand.shape) or not _inside(update.shape, operand.shape):
        raise ShapeError(
            f"lax.dynamic_update_slice: an update of shape {update.shape} in {operand.shape}."
        )
    return _ops.dynamic_update(operand, update, starts)


@also_takes(allow_negative_indices=True)
def dynamic_slice_in_dim(
    operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0
) -> Value:
    """`dynamic_slice` along one axis.

    Example:
        >>> import fgrad, numpy as np
        >>> fgrad.lax.dynamic_slice_in_dim(np.arange(5.0), 1, 2)
        array([1., 2.])
    """
    operand = as_array(operand)
    axis = normalize_axis(axis, len(operand.shape))
    starts: list[ArrayLike] = [0] * len(operand.shape)
    starts[axis] = start_index
    sizes = [slice_size if k == axis else n for k, n in enumerate(operand.shape)]
    return dynamic_slice(operand, starts, sizes)


@also_takes(allow_negative_indices=True)
def dynamic_index_in_dim(
    operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True
) -> Value:
    """The item at a traced position of one axis.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.lax.dynamic_index_in_dim(np.arange(5), 3, keepdims=False)
        np.int64(3)
    """
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    return found if keepdims else np.squeeze(found, axis)[()]


@also_takes(allow_negative_indices=True)
def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int
) -> Value:
    """The array with the item at a traced position of one axis replaced by `update`.

    Example:
        >>> import fgrad, numpy as np
        >>> fgrad.lax.dynamic_update_index_in_dim(np.zeros(3), 7.0, 1, axis=0)
        array([0., 7., 0.])
    """
    operand, update = as_array(operand), as_array(update)
    axis = normalize_axis(axis, len(operand.shape))
    if len(update.shape) != len(operand.shape):
        update = np.expand_dims(update, axis)
    starts: list[ArrayLike] = [0] * len(operand.shape)
    starts[axis] = index
    return dynamic_update_slice(operand, update, starts)


def _starts(operand: Value, indices: Sequence[ArrayLike], what: str) -> list[Value]:
    """Start indices as non-negative int64 scalars."""
    if not hasattr(indices, "__len__"):
        raise ArgumentError(
            f"lax.{what} takes a start for each axis, not {indices!r}.",
            (("write", f"({indices!r},)"),),
        )
    if len(indices) != len(operand.shape):
        raise ShapeError(f"lax.{what}: {len(indices)} positions for shape {operand.shape}.")
    starts = []
    for x, length in zip(indices, operand.shape, strict=True):
        start: Any = convert(places(x, what), INT64)
        traced = isinstance(start, Tracer)
        if traced:
            start = np.where(start < 0, start + length, start)
        elif start < 0:
            start = INT64.type(start + length)
        starts.append(start)
    return starts


def _inside(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    return all([0 <= n <= length for n, length in zip(sizes, shape, strict=True)])


def _owned(x: Value) -> Value:
    return x.copy() if type(x) is np.ndarray and x.base is not None else x
