"""L4. Choosing elements: where, select, take, searchsorted, and what needs known values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.installed import at_least
from fgrad.errors import ArgumentError, BoundsError, ShapeError, TracedIndexError
from fgrad.ir.aval import INT64
from fgrad.numpy.arrange import concatenate, moveaxis, ravel
from fgrad.numpy.bounds import bounds_error, known_indices, traced_indices
from fgrad.numpy.compositions import absolute, to_bool
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_shapes,
    broadcast_to,
    convert,
    normalize_axis,
    only_real,
    promote,
    promote_choices,
    refuse_out,
    reshape,
    shape_of,
    user_line,
)
from fgrad.numpy.unsupported import SIZED
from fgrad.ops import elementwise as ew
from fgrad.ops import index as ix
from fgrad.ops import shape as sh
from fgrad.ops.sort import searchsorted as searching
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.layouts import in_c_order, mark
from fgrad.tracing.tables import numpy_functions
from fgrad.typing import Array, ArrayLike, Axis

MANY = 64  # values that are looked for by a search of their own
WRAPPING = not at_least(np, 2, 5)  # Python's integers in `where`


@implements("where", extra=("size", "fill_value"))
def where(
    condition: ArrayLike,
    x: Value | None = None,
    y: Value | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Value | tuple[Value, ...]:
    """x where the condition holds, else y; with one argument, the indices of true elements."""
    if x is None and y is None:
        return numpy_functions[np.nonzero](condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("either both or neither of x and y should be given")
    condition = to_bool(as_array(condition))
    if type(x) is Tracer and type(y) is float and x.shape and x.dtype.kind == "f":
        y = x.dtype.type(y)
    elif type(y) is Tracer and type(x) is float and y.shape and y.dtype.kind == "f":
        x = y.dtype.type(x)
    else:
        x, y = promote_choices((x, y)) if WRAPPING else promote((x, y))
    return ew.select(*broadcast((condition, x, y)))


@implements("select")
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Value:
    """For each element the choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ArgumentError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ArgumentError("select with an empty condition list is not possible")
    conditions = [as_array(c) for c in condlist]
    *choices, default = promote_choices([*choicelist, default])
    shape = broadcast_shapes(*[shape_of(v) for v in (*conditions, *choices, default)])
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        if condition.dtype.kind != "b":
            raise ArgumentError("invalid entry in condlist: should be boolean ndarray")
        result = ew.select(*broadcast((condition, choice, result), shape))
    return result


@implements("choose")
def choose(a: ArrayLike, choices: Value, out: Array | None = None, mode: str = "raise") -> Value:
    """For each element the choice whose number it is."""
    refuse_out("choose", out)
    if not len(choices):
        raise ArgumentError("choose needs one choice or more")
    options = promote_choices(list(choices))
    which = _moded(as_array(a), len(options), mode, 0)
    shape = broadcast_shapes(shape_of(which), *[shape_of(v) for v in options])
    result = options[-1]
    for i in range(len(options) - 2, -1, -1):
        here = ew.eq(which, ew.lit(which, i))
        result = ew.select(*broadcast((here, options[i], result), shape))
    return broadcast_to(result, shape)


@implements("piecewise")
def piecewise(x: Value, condlist: Any, funclist: Any, *args: ArrayLike, **kw: object) -> Value:
    """Functions chosen by conditions; each is applied to the whole array."""
    x = as_array(x)
    several = isinstance(condlist, (list, tuple)) or len(shape_of(as_operand(condlist))) > 1
    if not several or (not shape_of(as_operand(condlist[0])) and x.shape):
        condlist = [condlist]
    conditions = [to_bool(as_array(c)) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"with {len(conditions)} condition(s), either {len(conditions)} or "
            f"{len(conditions) + 1} functions are expected",
        )
    values = [f(x, *args, **kw) if callable(f) else f for f in functions]
    values = [convert(as_operand(v), x.dtype) for v in values]
    result = values[-1] if len(values) > len(conditions) else ew.lit(x, 0)
    for condition, value in zip(conditions, values, strict=False):
        # The last condition that holds wins, as NumPy assigns one after the other.
        result = ew.select(*broadcast((condition, value, result), x.shape))
    return result


# --- taking by integers ---------------------------------------------------------------------------


def _moded(indices: Value, length: int, mode: str, axis: int) -> Value:
    """Indices in range, by NumPy's `mode`: "raise" checks known ones."""
    if indices.dtype.kind not in "iub":
        raise ArgumentError("Cannot cast index array data to integers according to the rule 'safe'")
    value = concrete(indices)
    if mode == "clip":
        return ew.clip(convert(indices, INT64), np.int64(0), np.int64(length - 1))
    if mode == "wrap":
        return ew.remainder(convert(indices, INT64), np.int64(max(length, 1)))
    if mode != "raise":
        raise ArgumentError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if value is None:
        return traced_indices(indices, axis, length)
    if value.ndim:
        return known_indices(value.astype(INT64), axis, length)
    i = int(value)
    if not -length <= i < length:
        raise bounds_error(i, axis, length)
    return INT64.type(i % length)


@implements("take")
def numpy_take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: Array | None = None,
    mode: str = "raise",
) -> Value:
    """`take`, whose results lie in C order whatever it takes from; those made of them need not."""
    result = take(a, indices, axis, out, mode)
    if isinstance(result, Tracer):
        mark(result, True)
    return result


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: Array | None = None,
    mode: str = "raise",
) -> Value:
    """Elements by number along an axis, or of the flattened array."""
    refuse_out("take", out)
    x = as_array(a)
    if axis is None or not x.shape:
        x, axis = ravel(x), 0 if axis is None else axis
    axis = normalize_axis(axis, len(x.shape))
    which = _moded(as_array(indices), x.shape[axis], mode, axis)
    if not isinstance(x, Tracer) and not isinstance(which, Tracer):
        return np.take(x, which, axis)
    result = ix.gather(x, (which,), (axis,))
    rank = len(which.shape)
    if axis and rank:
        order = (*range(rank, rank + axis), *range(rank), *range(rank + axis, len(result.shape)))
        result = sh.permute(result, order)
    return result


@implements("take_along_axis")
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int = -1) -> Value:
    """Elements by number along an axis, with other numbers in each lane."""
    x, which = as_array(arr), as_array(indices)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape))
    if len(which.shape) != len(x.shape):
        raise ArgumentError("`indices` and `arr` must have the same number of dimensions")
    if which.dtype.kind not in "iu":
        raise BoundsError("`indices` must be an integer array")
    which = _moded(which, x.shape[axis], "raise", axis)
    return ix.gather(x, _along(x, which, axis), tuple(range(len(x.shape))))


def _along(x: Value, which: Value, axis: int) -> list[Value]:
    """The integer arrays that select `which` along `axis` and every place along the others."""
    lengths = [n if i != axis else 1 for i, n in enumerate(x.shape)]
    shape = broadcast_shapes(which.shape, tuple(lengths))
    return [
        broadcast_to(which, shape) if i == axis else _place(shape, i, x.shape[i])
        for i in range(len(shape))
    ]


def _place(shape: tuple[int, ...], axis: int, length: int) -> Value:
    """The number of each element along an axis."""
    if length == 1:
        return np.broadcast_to(np.int64(0), shape)
    return sh.iota(shape, INT64, axis)


@implements("delete")
def delete(arr: ArrayLike, obj: slice | ArrayLike, axis: Axis = None) -> Value:
    """Without the elements at known places along an axis."""
    x = as_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape))
    obj = obj if isinstance(obj, slice) else known_array(obj, "delete")
    out = take(x, np.delete(np.arange(x.shape[axis]), obj), axis)
    return laid_out_as(x, out) if isinstance(obj, slice) or obj.size == 1 else out


@implements("insert")
def insert(arr: ArrayLike, obj: slice | ArrayLike, values: ArrayLike, axis: Axis = None) -> Value:
    """With values inserted before known places along an axis."""
    x = as_array(arr)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape))
    n = x.shape[axis]
    obj = np.arange(n)[obj] if isinstance(obj, slice) else known_array(obj, "insert")
    new = convert(as_operand(values), x.dtype)
    obj = np.flatnonzero(obj) if obj.dtype == bool and obj.ndim == 1 else obj
    if obj.size == 1:
        # One place takes as many elements as the values have.
        if not -n <= obj.item() <= n:
            raise bounds_error(obj.item(), axis, n)
        new = reshape(new, (1,) * (len(x.shape) - len(shape_of(new))) + shape_of(new))
        new = moveaxis(new, 0, axis) if obj.ndim == 0 else new
        obj = np.full(new.shape[axis], obj.item())
    while len(shape_of(new)) > len(x.shape) and shape_of(new)[0] == 1:
        new = reshape(new, shape_of(new)[1:])
    marks = np.insert(np.full(n, -1), obj, np.arange(obj.size))
    new_places, old_places = np.flatnonzero(marks >= 0), np.flatnonzero(marks < 0)
    block = broadcast_to(new, (*x.shape[:axis], len(new_places), *x.shape[axis + 1 :]))
    sources = np.empty(len(marks), np.int64)
    sources[old_places] = np.arange(n)
    sources[new_places] = n + marks[new_places]
    return laid_out_as(x, take(concatenate([x, block], axis), sources, axis))


def laid_out_as(x: Value, out: Value) -> Value:
    """A new array that NumPy makes in C order if `x` lies so."""
    if type(out) is Tracer and in_c_order(x):
        mark(out, True)
    return out


# --- searching ------------------------------------------------------------------------------------


@implements("searchsorted")
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
) -> Value:
    """Where values would be inserted to keep order, by bisection of all of them at once."""
    if side not in ("left", "right"):
        raise ArgumentError(f"side must be 'left' or 'right' (got {side!r})")
    x, values = promote((as_array(a), as_array(v)))
    if len(shape_of(x)) != 1:
        raise ArgumentError("object too deep for desired array")
    if sorter is not None:
        x = take(x, sorter)
    pair = concrete(x), concrete(values)
    if pair[0] is not None and pair[1] is not None:
        return np.searchsorted(*pair, side=side)
    if not isinstance(x, Tracer):
        x = np.ascontiguousarray(x)
    return bisect(x, values, side)


def bisect(x: Value, values: Value, side: str) -> Value:
    """Bisection: `low` and `high` close in on the first element that is not before the value.

    Many values are looked for by a primitive of its own, few ones by operations that fuse.
    """
    n = x.shape[0]
    shape = shape_of(values)
    count = math.prod(shape)
    if n and count >= MANY and x.dtype.kind in "fiu" and x.dtype.itemsize >= 4:
        rows = sh.reshape(x, (1, n)), sh.reshape(values, (1, count))
        return sh.reshape(searching(*rows, side == "right"), shape)
    low = broadcast_to(np.int64(0), shape)
    high = broadcast_to(np.int64(n), shape)
    one = np.int64(1)
    for _ in range(n.bit_length()):
        active = ew.lt(low, high)
        middle = ew.shift_right(ew.add(low, high), one)
        at = ix.gather(x, (_full(ew.min_(middle, np.int64(max(n - 1, 0))), shape),), (0,))
        before = _sorts_before(at, values, side)
        low = ew.select(ew.and_(active, before), ew.add(middle, one), low)
        high = ew.select(ew.and_(active, ew.not_(before)), middle, high)
    return low


def _full(x: Value, shape: tuple[int, ...]) -> Value:
    return broadcast_to(x, shape) if shape_of(x) != shape else x


def _sorts_before(at: Value, values: Value, side: str) -> Value:
    """at < value (or <=), where NaN sorts last."""
    first = ew.lt(at, values) if side == "left" else ew.le(at, values)
    if at.dtype.kind not in "fcV":
        return first
    last = ew.isnan(values)
    return ew.or_(first, last if side == "right" else ew.and_(last, ew.not_(ew.isnan(at))))


@implements("digitize")
def digitize(x: ArrayLike, bins: ArrayLike | str, right: bool = False) -> Value:
    """The number of the bin of each value; bins may increase or decrease."""
    edges, x = only_real("digitize", as_array(bins)), only_real("digitize", as_array(x))
    if len(edges.shape) != 1:
        raise ShapeError(f"digitize: bins have shape {edges.shape}; they must have one axis.")
    value = concrete(edges)
    steps = np.zeros(0) if value is None else np.diff(value)
    if (steps < 0).any() and (steps > 0).any():
        raise ArgumentError("bins must be monotonically increasing or decreasing")
    n, side = edges.shape[0], "left" if right else "right"
    if n < 2:
        return searchsorted(edges, x, side=side)
    falling = edges[0] > edges[n - 1]
    known_array = concrete(falling)
    if known_array is None:
        found = searchsorted(np.where(falling, edges[::-1], edges), x, side=side)
        return np.where(falling, n - found, found)
    found = searchsorted(edges[::-1] if known_array else edges, x, side=side)
    return ew.sub(np.int64(n), found) if known_array else found


# --- what needs known values ----------------------------------------------------------------------


def known_array(x: ArrayLike, function: str, *advice: str) -> np.ndarray:
    """The concrete value of an argument that decides about shapes."""
    value = concrete(as_operand(x) if not isinstance(x, Tracer) else x)
    if value is None:
        given = advice or (SIZED.get(function) or "np.where(mask, x, 0)       keeps the shape",)
        raise TracedIndexError(
            f"np.{function} has a result whose shape depends on values that are not known.",
            (
                *user_line(),
                *[("write", text) for text in given],
                ("write", "fgrad.jit(f, static_argnums=...)    the argument is really a constant"),
            ),
        )
    return np.asarray(value)


@implements("isclose")
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """|a - b| <= atol + rtol |b|; equal infinities are close."""
    x, y = promote((as_array(a), as_array(b)))
    if x.dtype.kind not in "fcV":
        x, y = convert(x, np.dtype(np.float64)), convert(y, np.dtype(np.float64))
    x, y = broadcast((x, y))
    size, distance = absolute(y), absolute(ew.sub(x, y))
    relative, fixed = convert(as_operand(rtol), size.dtype), convert(as_operand(atol), size.dtype)
    limit = ew.add(*broadcast((fixed, ew.mul(*broadcast((relative, size))))))
    near = ew.and_(ew.le(*broadcast((distance, limit))), ew.isfinite(y))
    close = ew.or_(near, ew.eq(x, y))
    return ew.or_(close, ew.and_(ew.isnan(x), ew.isnan(y))) if equal_nan else close


@implements("diag_indices_from")
def diag_indices_from(arr: ArrayLike) -> tuple[np.ndarray, ...]:
    """The indices of the main diagonal."""
    x = as_array(arr)
    if len(x.shape) < 2 or len(set(x.shape)) > 1:
        raise ArgumentError("All dimensions of input must be of equal length")
    return np.diag_indices(x.shape[0], len(x.shape))
