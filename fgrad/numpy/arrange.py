"""L4. Rearranging arrays: reshape, transpose, join, split, repeat."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, SupportsIndex, overload

import numpy as np

from fgrad.base.size_functions import integer, slice_of
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import INT64
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    broadcast_shapes,
    broadcast_to,
    convert,
    fresh,
    normalize_axes,
    normalize_axis,
    promote,
    promote_choices,
    refuse_out,
    reshape,
)
from fgrad.numpy.views import copied, lies_in_columns, memory_axes
from fgrad.ops import shape as sh
from fgrad.ops.roll import roll as rolled
from fgrad.trace import Tracer, Value, concrete, known_value, numpy_functions
from fgrad.tracing.assign import keep_memory
from fgrad.typing import Array, ArrayLike, Axis, Casting, DTypeLike, Order, ShapeLike

# --- one array ------------------------------------------------------------------------------------


def known_ints(shape: Any) -> tuple[int, ...]:
    """A shape or axes argument as integers."""
    if isinstance(shape, Tracer):
        shape = known_value(shape)
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    if isinstance(shape, (tuple, list)):
        return tuple([integer(n) for n in shape])
    return (integer(shape),)


def _complete(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The shape with its -1 filled in."""
    if -1 in shape:
        known = -math.prod(shape)
        if shape.count(-1) > 1:
            raise ArgumentError("can only specify one unknown dimension")
        if known and size % known == 0:
            shape = tuple([size // known if n == -1 else n for n in shape])
    if math.prod(shape) != size or -1 in shape:
        raise ShapeError(f"cannot reshape array of size {size} into shape {shape}")
    return shape


def _row_major(x: Value, order: Order) -> bool:
    """Whether an order means C for an array; "A" asks how it lies in memory."""
    if order in ("C", None):
        return True
    if order == "A":
        return not lies_in_columns(x)
    if order == "F":
        return False
    raise ArgumentError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")


@implements("reshape")
def reshape_(
    a: ArrayLike,
    /,
    shape: Sequence[int] | None = None,
    order: Order = "C",
    *,
    newshape: ShapeLike | None = None,
    copy: bool | None = None,
) -> Value:
    """The elements in order, in another shape."""
    x = as_array(a)
    new = _complete(known_ints(shape if shape is not None else newshape), math.prod(x.shape))
    if _row_major(x, order):
        return reshape(x, new)
    reversed_shape = reshape(transpose(x), new[::-1])
    return transpose(reversed_shape)


@implements("ravel")
def ravel(a: ArrayLike, order: Order = "C") -> Value:
    """One axis with all elements."""
    x = as_array(a)
    if order == "K":
        x = transpose(x, memory_axes(x))
    elif not _row_major(x, order):
        x = transpose(x)
    return reshape(x, (math.prod(x.shape),))


@implements("transpose", "permute_dims")
def transpose(a: ArrayLike, axes: Axis = None) -> Value:
    """The axes in another order; reversed by default."""
    x = as_array(a)
    ndim = len(x.shape)
    if axes is None:
        axes = tuple(range(ndim - 1, -1, -1))
    else:
        given = axes if isinstance(axes, (tuple, list)) else (axes,)
        axes = tuple([normalize_axis(i, ndim) for i in given])
        if sorted(axes) != list(range(ndim)):
            raise ArgumentError("axes don't match array")
    return x if axes == tuple(range(ndim)) else sh.permute(x, axes)


@implements("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: ArrayLike, /) -> Value:
    """The last two axes swapped."""
    return swapaxes(x, -1, -2)


@implements("swapaxes")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Value:
    """Two axes interchanged."""
    x = as_array(a)
    order = list(range(len(x.shape)))
    i, j = normalize_axis(axis1, len(order)), normalize_axis(axis2, len(order))
    order[i], order[j] = j, i
    return transpose(x, order)


@implements("moveaxis")
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """Some axes moved to new positions, the others in their old order."""
    x = as_array(a)
    ndim = len(x.shape)
    moved = [normalize_axis(i, ndim) for i in known_ints(source)]
    places = [normalize_axis(i, ndim) for i in known_ints(destination)]
    if len(moved) != len(places):
        raise ArgumentError(
            "`source` and `destination` arguments must have the same number of elements",
        )
    order = [i for i in range(ndim) if i not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        order.insert(place, axis)
    return transpose(x, order)


@implements("rollaxis")
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Value:
    """One axis moved before another."""
    x = as_array(a)
    ndim = len(x.shape)
    axis = normalize_axis(axis, ndim)
    start = start + ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


@implements("squeeze")
def squeeze(a: ArrayLike, axis: Axis = None) -> Value:
    """Without axes of length 1."""
    x = as_array(a)
    if not x.shape and axis in (0, -1):
        return x
    axes = normalize_axes(axis, len(x.shape))
    if axis is None:
        axes = tuple([i for i in axes if x.shape[i] == 1])
    elif any(x.shape[i] != 1 for i in axes):
        raise ArgumentError("cannot select an axis to squeeze out which has size not equal to one")
    return reshape(x, tuple([n for i, n in enumerate(x.shape) if i not in axes]))


@implements("expand_dims")
def expand_dims(a: ArrayLike, axis: ShapeLike) -> Value:
    """With new axes of length 1 at the given places of the result."""
    x = as_array(a)
    new = known_ints(axis)
    axes = normalize_axes(new, len(x.shape) + len(new))
    lengths = iter(x.shape)
    return reshape(
        x, tuple([1 if i in axes else next(lengths) for i in range(len(x.shape) + len(new))])
    )


@implements("flip")
def flip(m: ArrayLike, axis: Axis = None) -> Value:
    """The elements along axes in reverse order."""
    x = as_array(m)
    if type(x) is Tracer and not x.shape:
        return x.twin()  # a number: NumPy's `m[()]`
    axes = normalize_axes(axis, len(x.shape))
    return sh.reverse(x, axes) if axes else x


@implements("fliplr")
def fliplr(m: ArrayLike) -> Value:
    """The columns in reverse order."""
    return flip(m, 1)


@implements("flipud")
def flipud(m: ArrayLike) -> Value:
    """The rows in reverse order."""
    return flip(m, 0)


@implements("rot90")
def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Value:
    """Quarter turns in the plane of two axes."""
    x = as_array(m)
    i, j = [normalize_axis(a, len(x.shape)) for a in axes]
    if i == j:
        raise ArgumentError("Axes must be different.")
    k = operator.index(k) % 4
    if k == 0:
        return x
    if k == 2:
        return flip(x, (i, j))
    return swapaxes(flip(x, j), i, j) if k == 1 else flip(swapaxes(x, i, j), j)


@implements("roll")
def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Value:
    """Elements shifted cyclically along axes, possibly by traced amounts; those beyond an end
    enter at the other."""
    x = as_array(a)
    if axis is None:
        out = reshape(roll(reshape(x, (math.prod(x.shape),)), shift, 0), x.shape)
        if type(out) is Tracer:
            keep_memory(out)
        return out
    shifts = list(shift) if np.ndim(shift) else [shift]
    axes = list(axis) if np.ndim(axis) else [axis]
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    short = any([len(given) not in (1, count) for given in (shifts, axes)])
    if short or np.ndim(shift) > 1 or np.ndim(axis) > 1:
        raise ArgumentError("'shift' and 'axis' should be scalars or 1D sequences")
    for k in range(count):
        by, i = shifts[k % len(shifts)], axes[k % len(axes)]
        known = concrete(by)
        x = _roll_axis(x, by if known is None else int(known), normalize_axis(i, len(x.shape)))
    return x


def _roll_axis(x: Value, by: Any, axis: int) -> Value:
    n = x.shape[axis]
    if not isinstance(by, int):
        places = np.remainder(np.subtract(np.arange(n), by.astype(INT64)), max(n, 1))
        return numpy_functions[np.take](x, places, axis=axis)
    out = rolled(x, by, axis)
    return fresh(x) if out is x else out


def take_slice(x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """x[..., start:stop:step, ...] along one axis, for bounds inside it."""
    shape = x.shape
    if start == 0 and stop == shape[axis] and step == 1:
        return x
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return sh.slice_(x, tuple(starts), tuple(stops), tuple(steps))


@implements("copy")
def copy(a: ArrayLike, order: Order = "K", subok: bool = False) -> Value:
    """A copy, independent of later assignments."""
    return copied(as_array(a), order)


def flatten(a: Value, order: Order = "C") -> Value:
    """A copy with one axis."""
    x = ravel(a, order)
    return fresh(x) if x is a else x


@implements("broadcast_to")
def broadcast_to_(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> Value:
    """The array repeated to a shape."""
    return broadcast_to(as_array(array), known_shape(shape))


def known_shape(shape: ShapeLike) -> tuple[int, ...]:
    """A shape as a tuple of known, non-negative integers."""
    lengths = known_ints(shape)
    if any([n < 0 for n in lengths]):
        raise ShapeError("negative dimensions are not allowed")
    return lengths


@implements("broadcast_arrays")
def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Value, ...]:
    """The arrays repeated to their common shape."""
    xs = [as_array(a) for a in args]
    shape = broadcast_shapes(*[x.shape for x in xs])
    if all([x.shape == shape for x in xs]):
        return tuple(xs)
    return tuple([numpy_functions[np.broadcast_to](x, shape) for x in xs])


@overload
def atleast_1d(ary: ArrayLike, /) -> Value: ...
@overload
def atleast_1d(*arys: ArrayLike) -> Value | tuple[Value, ...]: ...
@implements("atleast_1d")
def atleast_1d(*arys: ArrayLike) -> Value | tuple[Value, ...]:
    """With at least one axis."""
    out = tuple([x if len(x.shape) else reshape(x, (1,)) for x in map(as_array, arys)])
    return out[0] if len(out) == 1 else out


@overload
def atleast_2d(ary: ArrayLike, /) -> Value: ...
@overload
def atleast_2d(*arys: ArrayLike) -> Value | tuple[Value, ...]: ...
@implements("atleast_2d")
def atleast_2d(*arys: ArrayLike) -> Value | tuple[Value, ...]:
    """With at least two axes; new ones in front."""
    out = tuple([reshape(x, (1,) * (2 - len(x.shape)) + x.shape) for x in map(as_array, arys)])
    return out[0] if len(out) == 1 else out


@overload
def atleast_3d(ary: ArrayLike, /) -> Value: ...
@overload
def atleast_3d(*arys: ArrayLike) -> Value | tuple[Value, ...]: ...
@implements("atleast_3d")
def atleast_3d(*arys: ArrayLike) -> Value | tuple[Value, ...]:
    """With at least three axes."""
    out = tuple([_three_axes(as_array(a)) for a in arys])
    return out[0] if len(out) == 1 else out


def _three_axes(x: Value) -> Value:
    ndim = len(x.shape)
    if ndim == 1:
        return reshape(x, (1, *x.shape, 1))
    return reshape(x, x.shape + (1,) * (3 - ndim)) if ndim < 3 else x


# --- joining --------------------------------------------------------------------------------------


@implements("concatenate", "concat")
def concatenate(
    arrays: Array | Sequence[ArrayLike],
    axis: SupportsIndex | None = 0,
    out: Array | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: Casting | None = None,
) -> Value:
    """Arrays joined along an axis; None flattens them first."""
    refuse_out("concatenate", out)
    if isinstance(arrays, Tracer):
        arrays = list(arrays)
    if not len(arrays):
        raise ArgumentError("need at least one array to concatenate")
    if dtype is not None:
        xs = [_cast(as_array(a), np.dtype(dtype), casting or "same_kind") for a in arrays]
    elif axis is None:  # where Python's numbers adapt to the dtype of the others
        xs = promote_choices(list(arrays))
    else:
        xs = promote([as_array(a) for a in arrays])
    if axis is None:
        xs, axis = [reshape(x, (math.prod(x.shape),)) for x in xs], 0
    shapes = [x.shape for x in xs]
    if () in shapes:
        raise ArgumentError("zero-dimensional arrays cannot be concatenated")
    axis = normalize_axis(axis, len(shapes[0]))
    rests = {(len(s), s[:axis] + s[axis + 1 :]) for s in shapes}
    if len(rests) > 1:
        raise ShapeError(
            "all the input array dimensions except for the concatenation axis must match exactly: "
            + ", ".join(str(x.shape) for x in xs),
        )
    return sh.concatenate(xs, axis) if len(xs) > 1 else fresh(xs[0])


def _cast(x: Value, dtype: np.dtype, casting: Casting) -> Value:
    if not np.can_cast(x.dtype, dtype, casting):
        raise ArgumentError(
            f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule "
            f"{casting!r}"
        )
    return convert(x, dtype)


@implements("stack")
def stack(
    arrays: Array | Sequence[ArrayLike],
    axis: int = 0,
    out: Array | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: Casting | None = None,
) -> Value:
    """Arrays of one shape joined along a new axis."""
    xs = [as_array(a) for a in arrays]
    if len({x.shape for x in xs}) != 1:
        raise ArgumentError(
            "all input arrays must have the same shape"
            if xs
            else "need at least one array to stack",
        )
    axis = normalize_axis(axis, len(xs[0].shape) + 1)
    shape = xs[0].shape
    shape = (*shape[:axis], 1, *shape[axis:])
    return concatenate([reshape(x, shape) for x in xs], axis, out, dtype=dtype, casting=casting)


@implements("unstack")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Value, ...]:
    """The arrays that `stack` would join."""
    x = as_array(x)
    axis = normalize_axis(axis, len(x.shape))
    return tuple([squeeze(take_slice(x, axis, i, i + 1), axis) for i in range(x.shape[axis])])


@implements("vstack", "row_stack")
def vstack(
    tup: Array | Sequence[ArrayLike],
    *,
    dtype: DTypeLike | None = None,
    casting: Casting | None = None,
) -> Value:
    """Rows on top of each other."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


@implements("hstack")
def hstack(
    tup: Array | Sequence[ArrayLike],
    *,
    dtype: DTypeLike | None = None,
    casting: Casting | None = None,
) -> Value:
    """Columns side by side."""
    xs = [atleast_1d(a) for a in tup]
    return concatenate(xs, 0 if len(xs[0].shape) == 1 else 1, dtype=dtype, casting=casting)


@implements("dstack")
def dstack(tup: Sequence[ArrayLike]) -> Value:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2)


@implements("column_stack")
def column_stack(tup: Sequence[ArrayLike]) -> Value:
    """Vectors as the columns of a matrix."""
    xs = [as_array(a) for a in tup]
    return concatenate(
        [x if len(x.shape) > 1 else reshape(x, (math.prod(x.shape), 1)) for x in xs], 1
    )


@implements("block")
def block(arrays: ArrayLike) -> Value:
    """Nested lists of blocks -> one array."""
    depth = _depth(arrays)
    ndim = max(depth, _most_axes(arrays))
    return _block(arrays, depth, ndim)


def _depth(arrays: ArrayLike) -> int:
    return 1 + max(_depth(a) for a in arrays) if isinstance(arrays, list) else 0


def _most_axes(arrays: ArrayLike) -> int:
    if isinstance(arrays, list):
        return max(_most_axes(a) for a in arrays)
    return len(as_array(arrays).shape)


def _block(arrays: ArrayLike, depth: int, ndim: int) -> Value:
    if not isinstance(arrays, list):
        x = as_array(arrays)
        return reshape(x, (1,) * (ndim - len(x.shape)) + x.shape)
    return concatenate([_block(a, depth - 1, ndim) for a in arrays], -depth)


@implements("append")
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Value:
    """Values joined at the end."""
    return concatenate([as_array(arr), as_array(values)], axis)


# --- splitting ------------------------------------------------------------------------------------


@implements("array_split")
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    """Pieces along an axis, at places or of nearly equal length."""
    x = as_array(ary)
    axis = normalize_axis(axis, len(x.shape))
    n = x.shape[axis]
    if np.ndim(indices_or_sections) == 0:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ArgumentError("number sections must be larger than 0.")
        each, extra = divmod(n, sections)
        cuts = np.cumsum([0] + extra * [each + 1] + (sections - extra) * [each]).tolist()
    else:
        cuts = [0, *known_ints(indices_or_sections), n]
    pieces = []
    for start, stop in pairwise(cuts):
        low, high, _ = slice_of(slice(start, stop), n)
        pieces.append(take_slice(x, axis, low, max(low, high)))
    return pieces


@implements("split")
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    """Pieces along an axis, at places or of equal length."""
    x = as_array(ary)
    if np.ndim(indices_or_sections) == 0 and x.shape[axis] % int(indices_or_sections):
        raise ArgumentError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


@implements("vsplit")
def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Value]:
    """Pieces along the first axis."""
    _check_axes(ary, 2, "vsplit")
    return split(ary, indices_or_sections, 0)


@implements("hsplit")
def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Value]:
    """Pieces along the second axis, or the only one."""
    _check_axes(ary, 1, "hsplit")
    return split(ary, indices_or_sections, 1 if len(as_array(ary).shape) > 1 else 0)


@implements("dsplit")
def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Value]:
    """Pieces along the third axis."""
    _check_axes(ary, 3, "dsplit")
    return split(ary, indices_or_sections, 2)


def _check_axes(x: ArrayLike, least: int, name: str) -> None:
    if len(as_array(x).shape) < least:
        raise ArgumentError(f"{name} only works on arrays of {least} or more dimensions")


# --- repeating ------------------------------------------------------------------------------------


@implements("tile")
def tile(A: ArrayLike, reps: ShapeLike) -> Value:
    """The array repeated as a whole along each axis."""
    x = as_array(A)
    reps = known_ints(reps)
    ndim = max(len(x.shape), len(reps))
    shape = (1,) * (ndim - len(x.shape)) + x.shape
    reps = (1,) * (ndim - len(reps)) + reps
    pairs = [(r, n) for r, n in zip(reps, shape, strict=True)]
    wide = tuple([k for pair in pairs for k in pair])
    x = reshape(x, tuple([k for n in shape for k in (1, n)]))
    return reshape(broadcast_to(x, wide), tuple([r * n for r, n in pairs]))


@implements("repeat")
def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Value:
    """Each element repeated, a known number of times."""
    x = as_array(a)
    if axis is None or not x.shape:
        x, axis = reshape(x, (math.prod(x.shape),)), 0 if axis is None else axis
    axis = normalize_axis(axis, len(x.shape))
    if isinstance(repeats, Tracer):
        repeats = known_value(repeats)
    counts = np.asarray(repeats)
    if counts.size != 1:
        where = np.repeat(np.arange(x.shape[axis]), counts)
        return np.take(x, where, axis)
    times = int(counts.reshape(()))
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    dims = tuple([d for d in range(len(x.shape) + 1) if d != axis + 1])
    return reshape(sh.broadcast(x, (*before, n, times, *after), dims), (*before, n * times, *after))


@implements("resize")
def resize(a: ArrayLike, new_shape: ShapeLike) -> Value:
    """The elements repeated as often as a new shape needs."""
    x = ravel(a)
    shape = known_ints(new_shape)
    size = math.prod(shape)
    if any(n < 0 for n in shape):
        raise ArgumentError("all elements of `new_shape` must be non-negative")
    if x.shape[0] == 0:
        return np.zeros(shape, x.dtype)
    times = -(-size // x.shape[0])
    x = concatenate((x,) * times) if times > 1 else x
    return reshape(take_slice(x, 0, 0, size), shape)
