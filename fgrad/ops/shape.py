"""L3. Primitives that move elements: all linear, each transpose another of them.

broadcast <-> reduce_sum    reshape <-> reshape    permute <-> permute    slice <-> pad
reverse <-> reverse         concatenate <-> slices index <-> pad
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import DISCRETE, Primitive
from fgrad.ir.traits import Along, Rounding
from fgrad.ops.families import ADD, BROADCAST, PERMUTE, batch_first, linear, moves
from fgrad.ops.places import Places, places
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import ArrayLike, EqnParams

Ints = tuple[int, ...]


# --- broadcast ----------------------------------------------------------------------------------


FEW = 1024  # elements that are copied in less time than anything else takes
_READ_ONLY = frozenset({np.float64, np.float32})  # numbers whose memory is a buffer


@BROADCAST.type_rule
def _(x: Aval, *, shape: Ints, dims: Ints) -> Aval:
    if tuple(shape[d] for d in dims) != x.shape or list(dims) != sorted(set(dims)):
        raise ShapeError(f"broadcast: shape {x.shape} does not fit axes {dims} of {shape}.")
    if any([type(n) is int and n < 0 for n in shape]):
        raise ShapeError("negative dimensions are not allowed")
    return Aval(shape, x.dtype)


@BROADCAST.evaluate
def _(x: np.ndarray, *, shape: Ints, dims: Ints) -> np.ndarray:
    """A read-only view; `np.broadcast_to` makes the same one at several times the cost."""
    strides = [0] * len(shape)
    if type(x) in _READ_ONLY:
        return np.ndarray(shape, x.dtype, x, 0, strides)
    x = np.asarray(x)
    if not dims:
        view = np.ndarray(shape, x.dtype, x, 0, strides)
        view.flags.writeable = False
        return view
    loose = not x.flags.c_contiguous
    if loose and x.size <= FEW:
        x, loose = x.copy(), False
    for d, stride in zip(dims, x.strides, strict=True):
        strides[d] = stride
    if loose:
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    view = np.ndarray(shape, x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view


@BROADCAST.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, shape: Ints, dims: Ints) -> tuple[Value]:
    axes = tuple(a for a in range(len(shape)) if a not in dims)
    return (bind_one(REDUCE_SUM, ct, {"axes": axes}) if axes else ct,)


@BROADCAST.batch
def _(
    size: int, operands: Sequence[Value], at: Value, *, shape: Ints, dims: Ints
) -> tuple[Value, int]:
    x = batch_first(size, operands[0], at[0])
    return bind_one(BROADCAST, x, {"shape": (size, *shape), "dims": (0, *[d + 1 for d in dims])}), 0


linear(BROADCAST)
moves(BROADCAST, sums="transpose")


def broadcast(x: Value, shape: Ints, dims: Ints) -> Value:
    """Repeat `x` along new axes; `dims[i]` is the axis of the result that holds axis i of `x`."""
    return bind_one(BROADCAST, x, {"shape": shape, "dims": dims})


def full(shape: Ints, value: ArrayLike, dtype: np.dtype) -> Value:
    """An array filled with one number."""
    scalar = dtype.type(value)
    return bind_one(BROADCAST, scalar, {"shape": shape, "dims": ()}) if shape else scalar


REDUCE_SUM = Primitive(
    "reduce_sum", traits.folding(Along.AXES, "add"), params=("axes",), linear_in="all"
)  # its rules: ops/reduce.py


# --- permute ------------------------------------------------------------------------------------


@PERMUTE.type_rule
def _(x: Aval, *, axes: Ints) -> Aval:
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(f"permute: axes {axes} are not those of shape {x.shape}.")
    return Aval(tuple(x.shape[a] for a in axes), x.dtype)


PERMUTE.evaluate(lambda x, *, axes: x.transpose(axes))


@PERMUTE.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axes: Ints) -> tuple[Value]:
    return (permute(ct, inverse_permutation(axes)),)


@PERMUTE.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, axes: Ints
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    return permute(x, (d, *[a + (a >= d) for a in axes])), 0


linear(PERMUTE)
moves(PERMUTE)


def permute(x: Value, axes: Sequence[int]) -> Value:
    """Reorder axes: axis i of the result is axis `axes[i]` of `x`."""
    axes = tuple(axes)
    return x if axes == tuple(range(len(axes))) else bind_one(PERMUTE, x, {"axes": axes})


def inverse_permutation(axes: Sequence[int]) -> Ints:
    """The permutation that undoes `axes`."""
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return tuple(inverse)


def move_axes(x: Value, count: int, to: int) -> Value:
    """Move the first axes behind `to` others."""
    first, others = range(count), range(count, len(x.shape))
    return permute(x, (*others[:to], *first, *others[to:]))


def move_axis(x: Value, source: int, to: int) -> Value:
    """Move one axis, keeping the order of the others."""
    axes = [a for a in range(len(x.shape)) if a != source]
    axes.insert(to, source)
    return permute(x, axes)


# --- reshape ------------------------------------------------------------------------------------

reshape_p = Primitive("reshape", traits.moving(view=True), params=("shape",), linear_in="all")


@reshape_p.type_rule
def _(x: Aval, *, shape: Ints) -> Aval:
    if math.prod(shape) != x.size:
        raise ShapeError(f"reshape: {x.shape} has another number of elements than {shape}.")
    return Aval(shape, x.dtype)


@reshape_p.evaluate
def _(x: Value, *, shape: Ints) -> Value:
    return x.reshape(shape) if shape else x.reshape(())[()]


@reshape_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, shape: Ints) -> tuple[Value]:
    return (reshape(ct, x.shape),)


@reshape_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, shape: Ints
) -> tuple[Value, int]:
    return reshape(batch_first(size, operands[0], dims[0]), (size, *shape)), 0


linear(reshape_p)
moves(reshape_p)


def reshape(x: Value, shape: Ints) -> Value:
    """The elements of `x` in row-major order under another shape."""
    return x if x.shape == shape else bind_one(reshape_p, x, {"shape": shape})


# --- slice and pad ------------------------------------------------------------------------------

slice_p = Primitive(
    "slice", traits.moving(view=True, drops=True), params=("start", "stop", "step"), linear_in="all"
)
pad_p = Primitive(
    "pad",
    traits.moving(drops=True, fills=True, rounding=Rounding.EXACT),
    params=("low", "high", "interior", "value"),
    linear_in="all",
)


def _length(start: int, stop: int, step: int) -> int:
    return max(0, -(-(stop - start) // step))


@slice_p.type_rule
def _(x: Aval, *, start: Ints, stop: Ints, step: Ints) -> Aval:
    if not len(start) == len(stop) == len(step) == x.ndim:
        raise ShapeError(f"slice: bounds {start}, {stop}, {step} do not fit shape {x.shape}.")
    if any(a < 0 or b > n or s < 1 for a, b, s, n in zip(start, stop, step, x.shape, strict=True)):
        raise ShapeError(f"slice: bounds {start}, {stop}, {step} leave shape {x.shape}.")
    return Aval(tuple(map(_length, start, stop, step)), x.dtype)


@slice_p.evaluate
def _(x: Value, *, start: Ints, stop: Ints, step: Ints) -> np.ndarray:
    return x[tuple(map(slice, start, stop, step))]


@slice_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], x: Value, *, start: Ints, stop: Ints, step: Ints
) -> tuple[Value]:
    """Zeros, with ct at the places that were read."""
    low, high = [], []
    for n, k, a, s in zip(x.shape, ct.shape, start, step, strict=True):
        low.append(a if k else n)
        high.append(n - a - (k - 1) * s - 1 if k else 0)
    return (pad(ct, tuple(low), tuple(high), tuple(s - 1 for s in step)),)


@slice_p.batch
def _(
    size: int,
    operands: Sequence[Value],
    dims: Sequence[int | None],
    *,
    start: Ints,
    stop: Ints,
    step: Ints,
) -> tuple[Value, int]:
    x = batch_first(size, operands[0], dims[0])
    return bind(slice_p, x, start=(0, *start), stop=(size, *stop), step=(1, *step)), 0


linear(slice_p)
moves(slice_p, gaps="transpose")


def slice_(x: Value, start: Ints, stop: Ints, step: Ints | None = None) -> Value:
    """x[start:stop:step] along every axis; bounds within the shape, steps positive."""
    ones = (1,) * len(start)
    step = step or ones
    if stop == x.shape and not any(start) and step == ones:
        return x
    return bind_one(slice_p, x, {"start": start, "stop": stop, "step": step})


@pad_p.type_rule
def _(x: Aval, *, low: Ints, high: Ints, interior: Ints, value: Value) -> Aval:
    if not len(low) == len(high) == len(interior) == x.ndim:
        raise ShapeError(f"pad: widths {low}, {high} do not fit shape {x.shape}.")
    shape = tuple(
        lo + hi + n + max(0, n - 1) * gap
        for n, lo, hi, gap in zip(x.shape, low, high, interior, strict=True)
    )
    if any(n < 0 for n in shape):
        raise ShapeError(f"pad: widths {low}, {high} remove more than there is of {x.shape}.")
    return Aval(shape, x.dtype)


@pad_p.evaluate
def _(x: Value, *, low: Ints, high: Ints, interior: Ints, value: Value) -> np.ndarray:
    kept = [n + min(lo, 0) + min(hi, 0) for n, lo, hi in zip(x.shape, low, high, strict=True)]
    if any(interior) or any([n < 0 for n in kept]):
        return _padded_and_cropped(x, low, high, interior, value)
    inner = x[tuple([slice(max(-lo, 0), max(-lo, 0) + n) for n, lo in zip(kept, low, strict=True)])]
    out_shape = [n + max(lo, 0) + max(hi, 0) for n, lo, hi in zip(kept, low, high, strict=True)]
    if out_shape == kept:
        return inner
    if inner.size * 2 < math.prod(out_shape):
        out = np.full(out_shape, value, x.dtype)
    else:
        out = np.empty(out_shape, x.dtype)
        _fill_border(out, low, high, value)
    out[tuple([slice(max(lo, 0), max(lo, 0) + n) for n, lo in zip(kept, low, strict=True)])] = inner
    return out


def _fill_border(out: np.ndarray, low: Ints, high: Ints, value: Value) -> None:
    """Write what is before and after the inner part, axis by axis."""
    for a, (lo, hi) in enumerate(zip(low, high, strict=True)):
        before = (slice(None),) * a
        if lo > 0:
            out[(*before, slice(0, lo))] = value
        if hi > 0:
            out[(*before, slice(out.shape[a] - hi, None))] = value


def _padded_and_cropped(
    x: Value, low: Ints, high: Ints, interior: Ints, value: Value
) -> np.ndarray:
    spread = tuple(n + max(0, n - 1) * gap for n, gap in zip(x.shape, interior, strict=True))
    whole = np.full(
        tuple(n + max(lo, 0) + max(hi, 0) for n, lo, hi in zip(spread, low, high, strict=True)),
        value,
        x.dtype,
    )
    inner = tuple(
        slice(max(lo, 0), max(lo, 0) + n, gap + 1)
        for n, lo, gap in zip(spread, low, interior, strict=True)
    )
    whole[inner] = x
    crop = tuple(
        slice(max(-lo, 0), n - max(-hi, 0))
        for n, lo, hi in zip(whole.shape, low, high, strict=True)
    )
    return whole[crop]


@pad_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value | None], _out: object, **params: object
) -> Value:
    return bind(pad_p, tangents[0], **{**params, "value": 0})


@pad_p.transpose
def _(
    ct: Value,
    wanted: Sequence[bool],
    x: Value,
    *,
    low: Ints,
    high: Ints,
    interior: Ints,
    value: Value,
) -> tuple[Value]:
    """Undo the outer widths, then read every (interior + 1)th element."""
    inner = pad(ct, tuple(-w for w in low), tuple(-w for w in high))
    step = tuple(gap + 1 for gap in interior)
    return (slice_(inner, (0,) * len(step), inner.shape, step),)


@pad_p.batch
def _(
    size: int,
    operands: Sequence[Value],
    dims: Sequence[int | None],
    *,
    low: Ints,
    high: Ints,
    interior: Ints,
    value: Value,
) -> tuple[Value, int]:
    x = batch_first(size, operands[0], dims[0])
    return pad(x, (0, *low), (0, *high), (0, *interior), value), 0


moves(pad_p, gaps="jvp")


def pad(
    x: Value, low: Ints, high: Ints, interior: Ints | None = None, value: ArrayLike = 0
) -> Value:
    """Put `value` around `x` and `interior` times between its elements; negative widths crop."""
    interior = interior or (0,) * len(low)
    if not any(low) and not any(high) and not any(interior):
        return x
    return bind_one(pad_p, x, {"low": low, "high": high, "interior": interior, "value": value})


# --- index --------------------------------------------------------------------------------------

index_p = Primitive(
    "index", traits.moving(view=True, drops=True), params=("ints",), linear_in="all"
)


@index_p.type_rule
def _(x: Aval, *, ints: Ints) -> Aval:
    if len(ints) > x.ndim or any(not 0 <= i < n for i, n in zip(ints, x.shape, strict=False)):
        raise ShapeError(f"index: {ints} is out of bounds for shape {x.shape}.")
    return Aval(x.shape[len(ints) :], x.dtype)


index_p.evaluate(lambda x, *, ints: x[ints])


def _accumulate_index(
    buffer: np.ndarray, ct: Value, values: Sequence[Value], params: EqnParams
) -> None:
    buffer[params["ints"]] += ct


def _accumulate_slice(
    buffer: np.ndarray, ct: Value, values: Sequence[Value], params: EqnParams
) -> None:
    buffer[tuple(map(slice, params["start"], params["stop"], params["step"]))] += ct


def _places_of_index(values: Sequence[Value], params: EqnParams) -> tuple[Places, ...]:
    ints, shape = params["ints"], values[0].shape
    return (*[places(i, i + 1) for i in ints], *[places(0, n) for n in shape[len(ints) :]])


def _places_of_slice(values: Sequence[Value], params: EqnParams) -> tuple[Places, ...]:
    return tuple(map(places, params["start"], params["stop"], params["step"]))


index_p.places = _places_of_index
slice_p.places = _places_of_slice
index_p.accumulate = _accumulate_index
slice_p.accumulate = _accumulate_slice


@index_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, ints: Ints) -> tuple[Value]:
    """Zeros, with ct at the place that was read."""
    rest = (0,) * (len(x.shape) - len(ints))
    low = (*ints, *rest)
    high = (*[n - 1 - i for i, n in zip(ints, x.shape, strict=False)], *rest)
    return (pad(reshape(ct, (1,) * len(ints) + tuple(ct.shape)), low, high),)


@index_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, ints: Ints
) -> tuple[Value, int]:
    x = batch_first(size, operands[0], dims[0])
    start = (0, *ints, *[0] * (len(x.shape) - 1 - len(ints)))
    stop = (size, *[i + 1 for i in ints], *x.shape[1 + len(ints) :])
    return reshape(slice_(x, start, stop), (size, *x.shape[1 + len(ints) :])), 0


linear(index_p)
moves(index_p, gaps="transpose")


def index(x: Value, ints: Ints) -> Value:
    """x[i, j, ...] for known, non-negative integers: drops the leading axes."""
    return bind_one(index_p, x, {"ints": ints})


# --- reverse, concatenate -----------------------------------------------------------------------

reverse_p = Primitive("reverse", traits.moving(view=True), params=("axes",), linear_in="all")


@reverse_p.type_rule
def _(x: Aval, *, axes: Ints) -> Aval:
    if any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(f"reverse: axes {axes} are not those of shape {x.shape}.")
    return Aval(x.shape, x.dtype)


_FORWARD, _BACKWARD = slice(None), slice(None, None, -1)


@reverse_p.evaluate
def _(x: Value, *, axes: Ints) -> np.ndarray:
    return x[tuple([_BACKWARD if a in axes else _FORWARD for a in range(x.ndim)])]


reverse_p.transpose(lambda ct, wanted, x, *, axes: (reverse(ct, axes),))


@reverse_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, axes: Ints
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    return reverse(x, tuple(a + (a >= d) for a in axes)), d


linear(reverse_p)
moves(reverse_p)


def reverse(x: Value, axes: Ints) -> Value:
    """Reverse the order of the elements along `axes`."""
    return bind_one(reverse_p, x, {"axes": axes}) if axes else x


concatenate_p = Primitive(
    "concatenate", traits.moving(joins=True), params=("axis",), linear_in="all"
)


@concatenate_p.type_rule
def _(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    rest = [x.shape[:axis] + x.shape[axis + 1 :] for x in xs]
    if any(r != rest[0] for r in rest):
        raise ShapeError(f"concatenate: shapes {[x.shape for x in xs]} differ off axis {axis}.")
    if any(x.dtype != first.dtype for x in xs):
        raise DtypeError(f"concatenate: dtypes {[str(x.dtype) for x in xs]} differ.")
    total = sum(x.shape[axis] for x in xs)
    return Aval((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


concatenate_p.evaluate(lambda *xs, axis: np.concatenate(xs, axis))


@concatenate_p.transpose
def _(ct: Value, wanted: Sequence[bool], *xs: Value, axis: int) -> tuple[Value | None, ...]:
    """The piece of ct that each operand filled."""
    pieces: list[Value | None] = []
    at, shape = 0, ct.shape
    before, after = shape[:axis], shape[axis + 1 :]
    lows, highs = (0,) * len(before), (0,) * len(after)
    for want, x in zip(wanted, xs, strict=True):
        end = at + x.shape[axis]
        start, stop = (*lows, at, *highs), (*before, end, *after)
        pieces.append(slice_(ct, start, stop) if want else None)
        at = end
    return tuple(pieces)


@concatenate_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, axis: int
) -> tuple[Value, int]:
    xs = [batch_first(size, x, d) for x, d in zip(operands, dims, strict=True)]
    return bind(concatenate_p, *xs, axis=axis + 1), 0


linear(concatenate_p)
moves(concatenate_p, gaps="jvp")


def concatenate(xs: Sequence[Value], axis: int) -> Value:
    """Join arrays of one dtype along an axis."""
    return xs[0] if len(xs) == 1 else bind(concatenate_p, *xs, axis=axis)


# --- iota ---------------------------------------------------------------------------------------

iota_p = Primitive(
    "iota", traits.moving(fills=True, rounding=Rounding.ROUNDS), params=("shape", "dtype", "axis")
)


@iota_p.type_rule
def _(*, shape: Ints, dtype: np.dtype, axis: int) -> Aval:
    return Aval(shape, dtype)


@iota_p.evaluate
def _(*, shape: Ints, dtype: np.dtype, axis: int) -> np.ndarray:
    line = np.arange(shape[axis], dtype=dtype)
    return np.broadcast_to(line.reshape([-1] + [1] * (len(shape) - axis - 1)), shape)


iota_p.refuse("jvp", DISCRETE)
iota_p.refuse("transpose", "takes no operand")
iota_p.refuse("batch", "takes no operand")


def iota(shape: Ints, dtype: np.dtype, axis: int = 0) -> Value:
    """The index along `axis` at every element."""
    return bind(iota_p, shape=shape, dtype=dtype, axis=axis)


# --- unset --------------------------------------------------------------------------------------

unset_p = Primitive("unset", traits.moving(fills=True), params=("shape", "dtype"))


@unset_p.type_rule
def _(*, shape: Ints, dtype: np.dtype) -> Aval:
    return Aval(shape, dtype)


@unset_p.evaluate
def _(*, shape: Ints, dtype: np.dtype) -> np.ndarray:
    return np.broadcast_to(dtype.type(0), shape)


unset_p.refuse("jvp", DISCRETE)
unset_p.refuse("transpose", "takes no operand")
unset_p.refuse("batch", "takes no operand")


def add_n(terms: Sequence[Value]) -> Value:
    """The sum of values of one shape."""
    total = terms[0]
    for term in terms[1:]:
        total = bind(ADD, total, term)
    return total
