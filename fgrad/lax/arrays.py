"""L7. Shapes and parts of arrays by the names of `jax.lax`: explicit sizes and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, ShapeError
from fgrad.lax.slices import dynamic_update_slice
from fgrad.lax.whole import integer, integers
from fgrad.numpy.promote import as_array, convert, normalize_axes, normalize_axis, user_line
from fgrad.numpy.promote import broadcast_shapes as broadcast_shapes
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Ints = Sequence[int]


def move_axes(x: PyTree, source: int | Ints, target: int | Ints) -> Value:
    """Axes moved to other places."""
    return np.moveaxis(x, source, target)


def _fail(name: str, what: str) -> ShapeError:
    return ShapeError(f"lax.{name}: {what}.", user_line())


# --- making -------------------------------------------------------------------------------------


@also_takes(sharding=None)
def full(shape: Ints, fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Value:
    """An array of one value.

    Arguments:
        fill_value: the value, a scalar.

    Example:
        >>> from fgrad import lax
        >>> lax.full((2,), 3.0)
        array([3., 3.])
    """
    value = as_array(fill_value)
    made: Value = np.broadcast_to(
        value if dtype is None else convert(value, np.dtype(dtype)), shape
    )
    return made.copy()


@also_takes(sharding=None)
def full_like(
    x: Value, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Ints | None = None
) -> Value:
    """An array of one value with the shape and dtype of another.

    Arguments:
        fill_value: the value, a scalar.

    Example:
        >>> from fgrad import lax
        >>> lax.full_like(np.ones(2), 3)
        array([3., 3.])
    """
    x = as_array(x)
    return full(x.shape if shape is None else shape, fill_value, dtype or x.dtype)


@also_takes(out_sharding=None)
def empty(shape: Ints, dtype: DTypeLike | None) -> Value:
    """An array of any values: zeros.

    Example:
        >>> from fgrad import lax
        >>> lax.empty((2,), float).shape
        (2,)
    """
    return np.zeros(shape, dtype)


def iota(dtype: DTypeLike | None, size: int) -> Value:
    """0, 1, ..., size - 1.

    Example:
        >>> from fgrad import lax
        >>> lax.iota(np.float32, 3)
        array([0., 1., 2.], dtype=float32)
    """
    return np.arange(size, dtype=dtype)


@also_takes(out_sharding=None)
def broadcasted_iota(dtype: DTypeLike | None, shape: Ints, dimension: int) -> Value:
    """The place along one axis, for each element of a shape.

    Example:
        >>> from fgrad import lax
        >>> lax.broadcasted_iota(int, (2, 2), 1)
        array([[0, 1],
               [0, 1]])
    """
    axis = normalize_axis(dimension, len(shape))
    row = np.arange(shape[axis], dtype=dtype)
    lengths = [-1 if a == axis else 1 for a in range(len(shape))]
    return np.broadcast_to(row.reshape(lengths), shape).copy()


# --- shapes -------------------------------------------------------------------------------------


@also_takes(out_sharding=None)
def broadcast(operand: ArrayLike, sizes: Ints) -> Value:
    """New first axes along which the array repeats.

    Example:
        >>> from fgrad import lax
        >>> lax.broadcast(np.array([1, 2]), (2,))
        array([[1, 2],
               [1, 2]])
    """
    x = as_array(operand)
    return _owned(np.broadcast_to(x, (*integers(sizes, "broadcast"), *x.shape)))


@also_takes(out_sharding=None)
def broadcast_in_dim(operand: ArrayLike, shape: Ints, broadcast_dimensions: Ints) -> Value:
    """An array of a shape, of which the array's axes are those in `broadcast_dimensions`.

    Raises:
        ShapeError: if the axes do not fit.

    Example:
        >>> from fgrad import lax
        >>> lax.broadcast_in_dim(np.array([1, 2]), (2, 2), (0,))
        array([[1, 1],
               [2, 2]])
    """
    x, wanted = as_array(operand), integers(shape, "broadcast_in_dim")
    axes = integers(broadcast_dimensions, "broadcast_in_dim")
    fits = len(axes) == len(x.shape) and list(axes) == sorted(set(axes))
    fits = fits and all(0 <= a < len(wanted) for a in axes)
    if not fits or any(n not in (1, wanted[a]) for n, a in zip(x.shape, axes, strict=True)):
        raise _fail("broadcast_in_dim", f"shape {x.shape} at the axes {axes} of {wanted}")
    lengths = [1] * len(wanted)
    for n, a in zip(x.shape, axes, strict=True):
        lengths[a] = n
    return _owned(np.broadcast_to(np.reshape(x, lengths), wanted))


def broadcast_like(arr: ArrayLike, like_arr: Value) -> Value:
    """An array in the shape of another.

    Arguments:
        like_arr: the array that has the shape.

    Example:
        >>> from fgrad import lax
        >>> lax.broadcast_like(1.0, np.zeros(2))
        array([1., 1.])
    """
    return _owned(np.broadcast_to(as_array(arr), np.shape(like_arr)))


def broadcast_to_rank(x: ArrayLike, rank: int) -> Value:
    """New first axes of length 1, until there are `rank`.

    Example:
        >>> from fgrad import lax
        >>> lax.broadcast_to_rank(np.ones(3), 2).shape
        (1, 3)
    """
    x = as_array(x)
    return np.reshape(x, (*[1] * (integer(rank, "broadcast_to_rank") - len(x.shape)), *x.shape))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Value:
    """Neighbouring axes made one.

    Arguments:
        start_dimension, stop_dimension: the first axis, and the one behind the last.

    Example:
        >>> from fgrad import lax
        >>> lax.collapse(np.ones((2, 3, 4)), 1).shape
        (2, 12)
    """
    x = as_array(operand)
    rank = len(x.shape)
    start, stop, _ = slice_of(integer(start_dimension, "collapse"), stop_dimension).indices(rank)
    return np.reshape(x, (*x.shape[:start], math.prod(x.shape[start:stop]), *x.shape[stop:]))


slice_of = slice  # Python's own: here the name is that of `jax.lax`


def expand_dims(array: ArrayLike, dimensions: Ints) -> Value:
    """New axes of length 1.

    Example:
        >>> from fgrad import lax
        >>> lax.expand_dims(np.ones(3), (0,)).shape
        (1, 3)
    """
    return np.expand_dims(as_array(array), integers(dimensions, "expand_dims"))


def squeeze(array: ArrayLike, dimensions: Ints) -> Value:
    """The array without axes of length 1.

    Example:
        >>> from fgrad import lax
        >>> lax.squeeze(np.ones((1, 3)), (0,)).shape
        (3,)
    """
    return np.squeeze(as_array(array), integers(dimensions, "squeeze"))


@also_takes(out_sharding=None)
def reshape(operand: ArrayLike, new_sizes: Ints, dimensions: Ints | None = None) -> Value:
    """The elements in another shape, after an optional permutation of the axes.

    Example:
        >>> from fgrad import lax
        >>> lax.reshape(np.array([[1, 2], [3, 4]]), (4,), (1, 0))
        array([1, 3, 2, 4])
    """
    x = as_array(operand)
    new_sizes = (new_sizes,) if isinstance(new_sizes, int) else new_sizes
    x = x if dimensions is None else np.transpose(x, integers(dimensions, "reshape"))
    if math.prod(integers(new_sizes, "reshape")) != math.prod(x.shape):
        raise _fail("reshape", f"{x.shape} has another size than {tuple(new_sizes)}")
    return np.reshape(x, integers(new_sizes, "reshape"))


def transpose(operand: ArrayLike, permutation: Ints) -> Value:
    """The axes in another order.

    Arguments:
        permutation: the axes in their new order.

    Example:
        >>> from fgrad import lax
        >>> lax.transpose(np.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    return np.transpose(as_array(operand), integers(permutation, "transpose"))


def rev(operand: ArrayLike, dimensions: Ints) -> Value:
    """The elements in reverse along axes.

    Example:
        >>> from fgrad import lax
        >>> lax.rev(np.array([1, 2, 3]), (0,))
        array([3, 2, 1])
    """
    return np.flip(as_array(operand), integers(dimensions, "rev"))


def tile(operand: ArrayLike, reps: Ints) -> Value:
    """The array repeated along each axis.

    Arguments:
        reps: how often, for each axis.

    Example:
        >>> from fgrad import lax
        >>> lax.tile(np.array([1, 2]), (2,))
        array([1, 2, 1, 2])
    """
    x = as_array(operand)
    if len(reps) != len(x.shape):
        raise _fail("tile", f"{len(reps)} repetitions for shape {x.shape}")
    return np.tile(x, integers(reps, "tile"))


# --- parts --------------------------------------------------------------------------------------


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Value:
    """Arrays of one dtype joined along an axis.

    Example:
        >>> from fgrad import lax
        >>> lax.concatenate([np.ones(1), np.zeros(2)], 0)
        array([1., 0., 0.])
    """
    return np.concatenate([as_array(x) for x in operands], axis=dimension)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Value:
    """Arrays of one shape joined along a new axis.

    Example:
        >>> from fgrad import lax
        >>> lax.stack([np.ones(2), np.zeros(2)]).shape
        (2, 2)
    """
    return np.stack([as_array(x) for x in operands], axis=axis)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Value, ...]:
    """The items along an axis.

    Example:
        >>> from fgrad import lax
        >>> [y.shape for y in lax.unstack(np.ones((2, 3)))]
        [(3,), (3,)]
    """
    x = as_array(x)
    front = move_axes(x, normalize_axis(axis, len(x.shape)), 0)
    return tuple([front[k] for k in range(front.shape[0])])


def split(operand: ArrayLike, sizes: Ints, axis: int = 0) -> list[Value]:
    """Parts of known sizes along an axis.

    Example:
        >>> from fgrad import lax
        >>> lax.split(np.arange(3), [1, 2])
        [array([0]), array([1, 2])]
    """
    x = as_array(operand)
    axis = normalize_axis(axis, len(x.shape))
    lengths = integers(sizes, "split")
    if sum(lengths) != x.shape[axis] or min(lengths, default=0) < 0:
        raise _fail("split", f"sizes {list(lengths)} of the length {x.shape[axis]}")
    return list(np.split(x, np.cumsum(lengths)[:-1], axis=axis))


def slice(
    operand: ArrayLike, start_indices: Ints, limit_indices: Ints, strides: Ints | None = None
) -> Value:
    """The part between known bounds, which must lie inside.

    Raises:
        ShapeError: if they do not.

    Example:
        >>> from fgrad import lax
        >>> lax.slice(np.arange(9), [1], [8], [3])
        array([1, 4, 7])
    """
    x = as_array(operand)
    start, stop = integers(start_indices, "slice"), integers(limit_indices, "slice")
    step = (1,) * len(start) if strides is None else integers(strides, "slice")
    inside = len(start) == len(stop) == len(step) == len(x.shape) and all(
        0 <= a <= b <= n and s > 0 for a, b, s, n in zip(start, stop, step, x.shape, strict=True)
    )
    if not inside:
        raise _fail("slice", f"from {start} to {stop} by {step} in shape {x.shape}")
    return _owned(sh.slice_(x, start, stop, step))


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Value:
    """The part between known bounds along one axis; negative ones count from the end.

    Raises:
        ShapeError: if it does not lie inside.

    Example:
        >>> from fgrad import lax
        >>> lax.slice_in_dim(np.arange(5), 1, -1)
        array([1, 2, 3])
    """
    x = as_array(operand)
    axis = normalize_axis(axis, len(x.shape))
    length, step = x.shape[axis], integer(stride, "slice_in_dim")
    start = 0 if start_index is None else _from_start(start_index, length)
    stop = length if limit_index is None else _from_start(limit_index, length)
    if not 0 <= start <= stop <= length or step < 1:
        bounds = f"from {start_index} to {limit_index} by {step}"
        raise _fail("slice_in_dim", f"{bounds} of the length {length}")
    index = [slice_of(None)] * len(x.shape)
    index[axis] = slice_of(start, stop, step)
    return _owned(x[tuple(index)])


def _from_start(place: int, length: int) -> int:
    place = integer(place, "slice_in_dim")
    return place + length if place < 0 else place


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Value:
    """The item at a known place of one axis.

    Example:
        >>> from fgrad import lax
        >>> lax.index_in_dim(np.arange(5), -1, keepdims=False)
        np.int64(4)
    """
    x = as_array(operand)
    axis, index = normalize_axis(axis, len(x.shape)), integer(index, "index_in_dim")
    if not -x.shape[axis] <= index < x.shape[axis]:
        raise _fail("index_in_dim", f"place {index} of the length {x.shape[axis]}")
    found = np.take(x, index, axis=axis)
    return np.expand_dims(found, axis) if keepdims else found


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Ints) -> Value:
    """The parts at places along axes, which come first: `x[i, j]` for the axes 0 and 1.

    Arguments:
        src: an array.
        idxs: for each of the axes an array of places.

    Example:
        >>> from fgrad import lax
        >>> lax.index_take(np.array([[1, 2], [3, 4]]), [np.array([1, 0])], [1])
        array([[2, 4],
               [1, 3]])
    """
    x = as_array(src)
    taken = normalize_axes(integers(axes, "index_take"), len(x.shape))
    front = move_axes(x, taken, tuple(range(len(taken))))
    return front[tuple(as_array(i) for i in idxs)]


@also_takes(allow_negative_indices=True)
def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int
) -> Value:
    """`dynamic_update_slice` along one axis.

    Arguments:
        update: what is put there.

    Example:
        >>> from fgrad import lax
        >>> lax.dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 1, 0)
        array([0., 1., 1., 0.])
    """
    x = as_array(operand)
    starts: list[ArrayLike] = [0] * len(x.shape)
    starts[normalize_axis(axis, len(x.shape))] = start_index
    return dynamic_update_slice(x, update, starts)


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Value:
    """An array with a value around and between its elements; negative widths crop.

    Arguments:
        operand: an array.
        padding_value: a scalar, which has a derivative.
        padding_config: (low, high, interior) for each axis.

    Raises:
        ShapeError: if there are not as many widths as axes.
        ArgumentError: if the padding value is no scalar.

    Example:
        >>> from fgrad import lax
        >>> lax.pad(np.array([1, 2]), 0, [(1, 0, 1)])
        array([0, 1, 0, 2])
    """
    x = as_array(operand)
    if len(padding_config) != len(x.shape) or any(i < 0 for _, _, i in padding_config):
        raise _fail("pad", f"widths {list(padding_config)} for shape {x.shape}")
    low, high, interior = [integers([row[k] for row in padding_config], "pad") for k in range(3)]
    value = convert(as_array(padding_value), x.dtype)
    if value.shape:
        raise ArgumentError("lax.pad: the padding value is no scalar.", user_line())
    return filled(x, low, high, interior, value)


def filled(
    x: Value, low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...], value: Value
) -> Value:
    """`x` with a scalar, known or not, around and between its elements."""
    padded = sh.pad(x, low, high, interior)
    if padded is x or (isinstance(value, np.generic) and value == 0):
        return padded
    there = sh.pad(np.ones(x.shape, bool), low, high, interior)
    return ew.select(there, padded, np.broadcast_to(value, padded.shape))


def _owned(x: Value) -> Value:
    """What plain NumPy gives as a view, as an array of its own."""
    return x.copy() if type(x) is np.ndarray and x.base is not None else x
