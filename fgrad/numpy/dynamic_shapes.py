"""L4. Functions whose result length depends on values: values are known, or `size=` is given.

    np.nonzero(x), np.unique(x), ...        values must be known: `grad`, not `jit`
    fgrad.numpy.unique(x, size=5)           five elements, filled up or cut off: also under `jit`

The elements are picked by integers, so that they have derivatives.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import BOOL, INT64
from fgrad.numpy.arrange import concatenate, ravel, take_slice
from fgrad.numpy.compositions import to_bool
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    normalize_axis,
    promote,
    refuse_argument,
    refuse_out,
    reshape,
    shape_of,
)
from fgrad.numpy.selection import known_array, numpy_take, take
from fgrad.ops import elementwise as ew
from fgrad.ops import index as ix
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.ops import sort as so
from fgrad.trace import Value
from fgrad.typing import Array, ArrayLike

_SIZED = ("size", "fill_value")

# --- where a mask holds ---------------------------------------------------------------------------


def places(mask: Value, size: int, missing: int) -> Value:
    """The first `size` places where a mask of one axis holds, then `missing`."""
    n = shape_of(mask)[0]
    start = np.full(size, missing, INT64)
    if not n or not size:
        return start
    number = ew.sub(rd.cumsum(convert(mask, INT64), 0), np.int64(1))
    target = ew.select(mask, number, np.int64(size))  # what is beyond the end is dropped
    return ix.scatter(start, (target,), sh.iota((n,), INT64, 0), (0,), "set")


def _nonzero_places(a: ArrayLike, size: int, fill_value: Any) -> tuple[Value, ...]:
    """Indices of true elements along each axis, `size` of them."""
    mask = to_bool(as_array(a))
    shape = shape_of(mask)
    total = math.prod(shape)
    flat = places(reshape(mask, (total,)), _length(size), total)
    absent = ew.ge(flat, np.int64(total))
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value or 0,) * len(shape)
    found = []
    for n, stride, fill in zip(shape, _strides(shape), fills, strict=True):
        along = ew.remainder(ew.floor_divide(flat, np.int64(stride)), np.int64(max(n, 1)))
        found.append(ew.select(absent, np.int64(fill), along))
    return tuple(found)


def _strides(shape: Sequence[int]) -> list[int]:
    return [max(math.prod(shape[i + 1 :]), 1) for i in range(len(shape))]


def _length(size: SupportsIndex) -> int:
    length = operator.index(size)
    if length < 0:
        raise ShapeError(f"size={length} is negative.")
    return length


@implements("nonzero", extra=_SIZED)
def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Value, ...]:
    """The indices of elements that are not 0."""
    if size is not None:
        return _nonzero_places(a, size, fill_value)
    return np.nonzero(known_array(a, "nonzero"))


@implements("flatnonzero", extra=_SIZED)
def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Value:
    """The indices of elements of the flattened array that are not 0."""
    if size is not None:
        return _nonzero_places(ravel(a), size, fill_value)[0]
    return np.flatnonzero(known_array(a, "flatnonzero"))


@implements("argwhere", extra=_SIZED)
def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Value:
    """The indices of elements that are not 0, as rows."""
    if size is None:
        return np.argwhere(known_array(a, "argwhere"))
    found = _nonzero_places(a, size, fill_value)
    if not found:
        return np.zeros((_length(size), 0), INT64)
    return concatenate([reshape(x, (*shape_of(x), 1)) for x in found], 1)


@implements("compress", extra=_SIZED)
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    out: Array | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Value:
    """Elements along an axis where a condition holds."""
    refuse_out("compress", out)
    if len(as_array(condition).shape) != 1:
        raise ArgumentError("condition must be a 1-d array")
    if size is None:
        return numpy_take(a, np.flatnonzero(known_array(condition, "compress")), axis)
    x = as_array(a)
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis(axis, len(x.shape)))
    mask = to_bool(as_array(condition))
    n = x.shape[axis]
    if shape_of(mask) != (n,):
        mask = sh.pad(mask, (0,), (n - shape_of(mask)[0],))
    count = _length(size)
    if not n:
        shape = tuple([count if i == axis else m for i, m in enumerate(x.shape)])
        return np.full(shape, fill_value, x.dtype)
    which = places(mask, count, n)
    picked = take(x, ew.min_(which, np.int64(max(n - 1, 0))), axis)
    line = tuple([count if i == axis else 1 for i in range(len(x.shape))])
    absent = reshape(ew.ge(which, np.int64(n)), line)
    fill = convert(as_operand(fill_value), x.dtype)
    return ew.select(*broadcast((absent, fill, picked), picked.shape))


@implements("extract", extra=_SIZED)
def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Value:
    """Elements where a condition holds."""
    if size is None:
        return take(arr, np.flatnonzero(known_array(condition, "extract")))
    return compress(ravel(condition), ravel(arr), 0, size=size, fill_value=fill_value)


# --- distinct elements ----------------------------------------------------------------------------


class Distinct(NamedTuple):
    """The distinct elements of an array in order, and how they are made from it."""

    values: Value
    index: Value  # where each stands first
    inverse: Value  # for each element of the flattened array, the number of its value
    counts: Value


def _distinct(x: Value, equal_nan: bool, name: str) -> Distinct:
    """Of an array of known values."""
    found: Any = np.unique(known_array(x, name), True, True, True, equal_nan=equal_nan)
    _, index, inverse, counts = found
    return Distinct(take(ravel(x), index), index, inverse.reshape(-1), counts)


def _distinct_sized(a: Value, size: int, fill_value: ArrayLike | None, equal_nan: bool) -> Distinct:
    """`size` distinct elements: what there are not is `fill_value`, by default the least."""
    x, count = ravel(a), _length(size)
    n = x.shape[0]
    if not n:
        fill = np.full(count, 0 if fill_value is None else fill_value, x.dtype)
        empty = np.zeros(count, INT64)
        return Distinct(fill, empty, np.zeros(0, INT64), empty)
    ordered, order = so.sort((x, sh.iota((n,), INT64, 0)), 0)
    after, before = take_slice(ordered, 0, 1, n), take_slice(ordered, 0, 0, n - 1)
    differs = ew.ne(after, before)
    if equal_nan and x.dtype.kind == "f":
        differs = ew.and_(differs, ew.not_(ew.and_(ew.isnan(after), ew.isnan(before))))
    fresh = concatenate([np.ones(1, BOOL), differs])
    first = places(fresh, count, n)
    absent = ew.ge(first, np.int64(n))
    at = ew.select(absent, np.int64(0), first)
    values, index = take(ordered, at), take(order, at)
    if fill_value is not None:
        fill = broadcast_to(convert(as_operand(fill_value), x.dtype), (count,))
        values = ew.select(absent, fill, values)
    ends = take_slice(places(fresh, count + 1, n), 0, 1, count + 1)
    number = ew.sub(rd.cumsum(convert(fresh, INT64), 0), np.int64(1))
    inverse = ix.scatter(np.zeros(n, INT64), (order,), number, (0,), "set")
    return Distinct(values, index, inverse, ew.sub(ends, first))


def _distinct_of(
    a: ArrayLike,
    size: int | None,
    fill_value: ArrayLike | None,
    equal_nan: bool = True,
    name: str = "unique",
) -> Distinct:
    x = as_array(a)
    if size is None:
        return _distinct(x, equal_nan, name)
    return _distinct_sized(x, size, fill_value, equal_nan)


@implements("unique", extra=_SIZED)
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Value | tuple[Value, ...]:
    """The distinct elements in order, or the distinct slices along an axis."""
    x = as_array(ar)
    wanted = (return_index, return_inverse, return_counts)
    if axis is not None and size is None:
        return _unique_slices(x, wanted, axis, equal_nan)
    if axis is not None and len(x.shape) > 1:
        raise refuse_argument("unique", "axis with size", "fgrad.numpy.unique(x, size=n)")
    found = _distinct_of(x, size, fill_value, equal_nan)
    inverse = reshape(found.inverse, x.shape) if axis is None else found.inverse
    rest = [v for v, w in zip((found.index, inverse, found.counts), wanted, strict=True) if w]
    return (found.values, *rest) if rest else found.values


def _unique_slices(
    x: Value, wanted: tuple[bool, ...], axis: int, equal_nan: bool
) -> Value | tuple[Value, ...]:
    values = known_array(x, "unique")
    distinct: Any = np.unique
    found = distinct(values, True, *wanted[1:], axis, equal_nan=equal_nan)
    _, first, *more = found
    picked = take(x, first, axis)
    rest = ([first] if wanted[0] else []) + more
    return (picked, *rest) if rest else picked


def _array_api_type(name: str) -> Any:
    """NumPy's named tuple of a result such as `unique_all`."""
    function = getattr(np, name, None)
    return None if function is None else type(function(np.zeros(1)))


@implements("unique_all", extra=_SIZED)
def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Value, ...]:
    """Distinct values, where each stands first, the inverse, and counts; NaN differ."""
    a = as_array(x)
    found = _distinct_of(a, size, fill_value, equal_nan=False, name="unique_all")
    kind = _array_api_type("unique_all")
    return kind(found.values, found.index, reshape(found.inverse, a.shape), found.counts)


@implements("unique_counts", extra=_SIZED)
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Value, Value]:
    """Distinct values and how often each occurs; NaN differ."""
    found = _distinct_of(x, size, fill_value, equal_nan=False, name="unique_counts")
    return _array_api_type("unique_counts")(found.values, found.counts)


@implements("unique_inverse", extra=_SIZED)
def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> tuple[Value, Value]:
    """Distinct values, and for each element the number of its value; NaN differ."""
    a = as_array(x)
    found = _distinct_of(a, size, fill_value, equal_nan=False, name="unique_inverse")
    return _array_api_type("unique_inverse")(found.values, reshape(found.inverse, a.shape))


@implements("unique_values", extra=_SIZED)
def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Value:
    """Distinct values in order; NaN differ."""
    return _distinct_of(x, size, fill_value, equal_nan=False, name="unique_values").values


# --- sets -----------------------------------------------------------------------------------------


@implements("union1d", extra=_SIZED)
def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Value:
    """The distinct elements of two arrays."""
    both = concatenate([ravel(ar1), ravel(ar2)])
    return _distinct_of(both, size, fill_value, name="union1d").values


def _chosen(
    x: Value, mask: Value, size: int | None, fill_value: ArrayLike | None, name: str
) -> Value:
    """The elements of `x` where a mask holds: all of them, or `size`."""
    if size is None:
        return take(x, np.flatnonzero(known_array(mask, name)))
    return extract(mask, x, size=size, fill_value=0 if fill_value is None else fill_value)


@implements("setdiff1d", extra=_SIZED)
def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Value:
    """The elements of the first array that are not in the second."""
    x = ravel(ar1)
    if not assume_unique:
        x = (
            _distinct_of(x, None, None, name="setdiff1d").values
            if size is None
            else so.sort((x,), 0)[0]
        )
    keep: Any = np.isin(x, ravel(ar2), invert=True)
    if size is not None and not assume_unique:
        keep = ew.and_(keep, _differs_from_previous(x))
    return _chosen(x, keep, size, fill_value, "setdiff1d")


def _differs_from_previous(x: Value) -> Value:
    n = x.shape[0]
    differs = ew.ne(take_slice(x, 0, min(n, 1), n), take_slice(x, 0, 0, max(n - 1, 0)))
    return concatenate([np.ones(min(n, 1), BOOL), differs])


@implements("setxor1d", extra=_SIZED)
def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Value:
    """The elements that are in one of two arrays only, in order."""
    if size is not None:
        return _sized_xor(ar1, ar2, size, fill_value)
    parts = [ravel(a) for a in (ar1, ar2)]
    if not assume_unique:
        parts = [_distinct_of(x, None, None, name="setxor1d").values for x in parts]
    (both,) = so.sort((concatenate(parts),), 0)
    edge = np.ones(min(both.shape[0], 1), BOOL)
    differs = _differs_from_previous(both)
    alone = ew.and_(differs, concatenate([take_slice(differs, 0, 1, both.shape[0]), edge]))
    return _chosen(both, alone, size, fill_value, "setxor1d")


def _sized_xor(
    ar1: ArrayLike, ar2: ArrayLike, size: int | None, fill_value: ArrayLike | None
) -> Value:
    """The distinct elements of both arrays that are not in both."""
    x, y = promote((ravel(ar1), ravel(ar2)))
    (both,) = so.sort((concatenate([x, y]),), 0)
    alone = np.not_equal(np.isin(both, x), np.isin(both, y))
    keep = ew.and_(alone, _differs_from_previous(both))
    return _chosen(both, keep, size, fill_value, "setxor1d")


@implements("intersect1d", extra=_SIZED)
def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Value | tuple[Value, Value, Value]:
    """The distinct elements that are in both arrays, and where they stand first in each."""
    x, y = promote((ravel(ar1), ravel(ar2)))
    if size is None:
        plain: Any = np.intersect1d(
            known_array(x, "intersect1d"),
            known_array(y, "intersect1d"),
            assume_unique,
            return_indices=True,
        )
        _, first, second = plain
        picked = take(x, first)
        return (picked, first, second) if return_indices else picked
    if return_indices:
        raise refuse_argument(
            "intersect1d", "return_indices with size", "np.searchsorted(np.sort(x), common)"
        )
    (ordered,) = so.sort((x,), 0)
    keep = ew.and_(np.isin(ordered, y), _differs_from_previous(ordered))
    return _chosen(ordered, keep, size, fill_value, "intersect1d")
