"""L4. Array creation: from a shape, like another array, triangles and diagonals."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from fgrad.base.size_functions import integer, length_of
from fgrad.base.sizes import Num, is_symbolic
from fgrad.errors import ArgumentError, ShapeError, UnsupportedTypeError
from fgrad.ir.aval import BOOL, INT64, is_numeric
from fgrad.numpy.arrange import known_shape, moveaxis
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    dtype_of,
    fresh,
    normalize_axis,
    promote,
    refuse_argument,
    refuse_out,
    reshape,
    result_type,
    shape_of,
    stack_nested,
    stored,
    strong,
    traced_full,
    user_line,
)
from fgrad.numpy.views import copied
from fgrad.ops import complex as cx
from fgrad.ops import diagonals as dg
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.ops.checked import ensured
from fgrad.ops.families import BROADCAST
from fgrad.ops.size import number
from fgrad.trace import Tracer, Value, concrete, known_value
from fgrad.tracing.assign import copied_like, keep_memory, laid_out
from fgrad.tracing.layouts import in_c_order, is_line
from fgrad.typing import Array, ArrayLike, Casting, DTypeLike, Order, ShapeLike


@implements("array")
def array(a: ArrayLike, dtype: DTypeLike | None = None, **kwargs: Any) -> Value:
    """A traced array of nested lists, or the array itself."""
    if dtype is not None:
        x = stored(a, np.dtype(dtype))
    else:
        x = strong(a) if isinstance(a, Tracer) else stack_nested(a)
    x = copied(x, kwargs.get("order", "K")) if x is a and kwargs.get("copy", True) else x
    missing = int(kwargs.get("ndmin") or 0) - len(shape_of(x))
    return reshape(x, (1,) * missing + x.shape) if missing > 0 else x


@implements("ascontiguousarray", "asfortranarray")
def ascontiguousarray(a: ArrayLike, dtype: DTypeLike | None = None, **_: object) -> Value:
    """The array itself, with at least one axis."""
    x = asarray(a, dtype)
    return x if len(shape_of(x)) else reshape(x, (1,))


@implements("asarray", "asanyarray", "require")
def asarray(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    *_args: object,
    copy: bool | None = None,
    **_: object,
) -> Value:
    """The array itself, or a traced array of nested lists."""
    x = as_array(a) if dtype is None else stored(a, np.dtype(dtype))
    out = strong(x) if isinstance(x, Tracer) else x
    if copy is False and out is not a:
        raise ArgumentError("Unable to avoid copy while creating an array as requested.")
    return fresh(out) if copy and out is a else out


def _like(
    a: ArrayLike, dtype: DTypeLike | None, shape: ShapeLike | None
) -> tuple[Value, np.dtype, tuple[int, ...]]:
    x = as_operand(a)
    return (
        x,
        dtype_of(x) if dtype is None else np.dtype(dtype),
        shape_of(x) if shape is None else known_shape(shape),
    )


def _array_of(like: Value, out: Value, order: Order) -> Value:
    """A result that can be written into, of shape () too, in the trace of `like` if it is open."""
    if isinstance(out, np.ndarray):
        return out if out.flags.writeable else out.copy()
    if type(out) is Tracer and out.shape == shape_of(like) and not is_line(out.shape):
        if isinstance(like, Tracer) and order == "K":
            return copied_like(like, laid_out(out, in_c_order(like)))
        return laid_out(out, order == "C")
    if shape_of(out) or not isinstance(like, Tracer) or not like.builder.live:
        return out
    array = like.builder.record(BROADCAST, (out,), {"shape": (), "dims": ()})
    keep_memory(array)
    return array


@implements("zeros_like", "empty_like")
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    **_: object,
) -> Value:
    """Zeros with the shape and dtype of an array."""
    x, kind, lengths = _like(a, dtype, shape)
    return _array_of(x, traced_full(x, lengths, 0, kind), order)


@implements("ones_like")
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    **_: object,
) -> Value:
    """Ones with the shape and dtype of an array."""
    x, kind, lengths = _like(a, dtype, shape)
    return _array_of(x, traced_full(x, lengths, 1, kind), order)


@implements("full_like")
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    **_: object,
) -> Value:
    """One value, perhaps traced, with the shape and dtype of an array."""
    x, kind, lengths = _like(a, dtype, shape)
    value = stored(fill_value, kind)
    if not isinstance(x, Tracer) or isinstance(value, Tracer):
        out = broadcast_to(value, lengths)
    elif np.ndim(value):
        out = x.builder.record(ew.convert_p, (np.broadcast_to(value, lengths),), {"dtype": kind})
    else:
        out = traced_full(x, lengths, value, kind)
    return _array_of(x, fresh(out) if out is fill_value else out, order)


@implements("full")
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Order = "C",
    **_: object,
) -> Value:
    """One value, perhaps traced, in every place."""
    x = as_array(fill_value) if dtype is None else stored(fill_value, np.dtype(dtype))
    return _array_of(x, broadcast_to(x, known_shape(shape)), order)


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    **_: object,
) -> Value: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    **_: object,
) -> Value | tuple[Value, Value | float]: ...
@implements("linspace")
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    **_: object,
) -> Value | tuple[Value, Value | float]:
    """Evenly spaced numbers from start to stop, of which either may be traced."""
    num = integer(num)
    first, last = promote((as_array(start), as_array(stop)))
    kind = result_type(start, stop, 1.0)
    first, last = broadcast((convert(first, kind), convert(last, kind)))
    spread = ew.sub(last, first)
    intervals = num - 1 if endpoint else num
    step = ew.div(spread, number(intervals or math.nan, kind, shape_of(spread)))
    lead = (num,) + (1,) * len(shape_of(spread))
    where = reshape(_counted(num, kind), lead)
    shape = (num, *shape_of(spread))
    steps = (
        ew.mul(*broadcast((where, step), shape))
        if intervals > 0
        else ew.mul(*broadcast((where, spread), shape))
    )
    points = ew.add(*broadcast((steps, first), shape))
    if endpoint and num > 1:
        end = broadcast_to(reshape(last, (1, *shape_of(last))), (1, *shape[1:]))
        points = sh.concatenate(
            [sh.slice_(points, (0,) * len(shape), (num - 1, *shape[1:])), end], 0
        )
    if axis:
        points = moveaxis(points, 0, axis)
    if dtype is not None:
        kind = np.dtype(dtype)
        points = convert(ew.floor(points) if kind.kind in "iu" else points, kind)
    return (points, step if intervals > 0 else math.nan) if retstep else points


@implements("logspace")
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Value:
    """Powers of a base with evenly spaced exponents."""
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    points = np.power(base, exponents)
    return points if dtype is None else convert(points, np.dtype(dtype))


@implements("geomspace")
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Value:
    """Numbers with a constant ratio."""
    first, last = as_array(start), as_array(stop)
    work = result_type(start, stop, float(num), np.zeros((), dtype))
    first, last = [
        ensured(x, ew.ne(x, ew.lit(x, 0)), "Geometric sequence cannot include zero")
        for x in (convert(first, work), convert(last, work))
    ]
    sign, n = np.sign(first), operator.index(num)
    scaled, end = first / sign, last / sign
    points = logspace(np.log10(scaled), np.log10(end), n, endpoint, dtype=work)
    rest = points.shape[1:]
    if n:
        parts = [_as_row(scaled, rest, work), points[1:]]
        if endpoint and n > 1:
            parts = [parts[0], points[1 : n - 1], _as_row(end, rest, work)]
        points = sh.concatenate([p for p in parts if p.shape[0]], 0)
    points = moveaxis(points * sign, 0, axis)
    return convert(points, work if dtype is None else np.dtype(dtype))


def _as_row(x: Value, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    """A value as the only element along a new first axis."""
    return reshape(broadcast_to(convert(x, dtype), shape), (1, *shape))


@implements("arange")
def arange(*args: Any, dtype: DTypeLike | None = None, **_: object) -> Value:
    """`np.arange` needs a known length: traced limits must have known values."""
    limits = [known_value(a) if isinstance(a, Tracer) else a for a in args]
    if is_symbolic(args) and all([isinstance(a, int) for a in limits]):
        start, stop, step = (0, limits[0], 1) if len(limits) == 1 else (*limits, 1)[:3]
        if type(step) is int and step:
            return _line(start, length_of(start, stop, step), step, np.dtype(dtype or INT64))
    return np.arange(*limits, dtype=dtype)


def _line(start: int, count: int, step: int, kind: np.dtype) -> Value:
    """Integers a step apart, for all lengths."""
    found = _counted(count, INT64)
    if step != 1:
        found = ew.mul(found, INT64.type(step))
    if type(start) is Num or start:
        found = ew.add(found, number(start, INT64, (count,)))
    return convert(found, kind)


def _counted(count: int, kind: np.dtype) -> Value:
    """0, 1, ... of a dtype."""
    if type(count) is Num:
        return convert(sh.iota((count,), INT64, 0), kind)
    return np.arange(count, dtype=kind)


# --- triangles and diagonals ----------------------------------------------------------------------


def _on_or_below(rows: int, columns: int, k: ArrayLike) -> Value:
    """Where an element is on or below the diagonal k, which may be traced."""
    known = concrete(k)
    if known is not None and not is_symbolic((rows, columns)):
        return np.tri(rows, columns, int(known), dtype=bool)
    line = np.subtract(_counted(columns, INT64), k)
    return np.greater_equal(_counted(rows, INT64)[:, None], line)


@implements("tri")
def tri(
    N: int, M: int | None = None, k: ArrayLike = 0, dtype: DTypeLike = float, **_: object
) -> Value:
    """Ones on and below a diagonal whose number may be traced."""
    rows = integer(N)
    return convert(_on_or_below(rows, rows if M is None else integer(M), k), np.dtype(dtype))


@implements("eye")
def eye(
    N: int, M: int | None = None, k: ArrayLike = 0, dtype: DTypeLike = float, **_: object
) -> Value:
    """Ones on a diagonal whose number may be traced."""
    rows = integer(N)
    columns = rows if M is None else integer(M)
    hit = np.equal(_counted(rows, INT64)[:, None], np.subtract(_counted(columns, INT64), k))
    return convert(hit, np.dtype(dtype))


def _triangle(m: ArrayLike, k: int, lower: bool) -> Value:
    x = as_array(m)
    if not x.shape:
        raise ArgumentError("tril and triu take arrays with at least one axis")
    if len(x.shape) == 1:
        x = broadcast_to(x, (x.shape[0], x.shape[0]))
    rows, columns = x.shape[-2:]
    mask = _on_or_below(rows, columns, k if lower else k - 1)
    mask = mask if lower else ew.not_(mask)
    return ew.select(*broadcast((mask, x, ew.lit(x, 0))))


@implements("tril")
def tril(m: ArrayLike, k: int = 0) -> Value:
    """The lower triangle; zeros above the diagonal k."""
    return _triangle(m, k, True)


@implements("triu")
def triu(m: ArrayLike, k: int = 0) -> Value:
    """The upper triangle; zeros below the diagonal k."""
    return _triangle(m, k, False)


@implements("diagonal")
def diagonal(
    a: ArrayLike, offset: int = 0, axis1: int | None = None, axis2: int | None = None
) -> Value:
    """The elements with equal indices along two axes, along a new last axis."""
    return _diagonal(
        as_array(a), offset, 0 if axis1 is None else axis1, 1 if axis2 is None else axis2
    )


def _diagonal(x: Value, offset: int, axis1: int, axis2: int) -> Value:
    offset = operator.index(offset)
    i, j = normalize_axis(axis1, len(x.shape)), normalize_axis(axis2, len(x.shape))
    if i == j:
        raise ArgumentError("axis1 and axis2 cannot be the same")
    if not isinstance(x, Tracer):
        return np.diagonal(x, offset, axis1, axis2)
    others = [a for a in range(len(x.shape)) if a not in (i, j)]
    return dg.diagonal(sh.permute(x, (*others, i, j)), operator.index(offset))


@implements("trace")
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Value:
    """The sum of the diagonal."""
    refuse_out("trace", out)
    line = diagonal(a, offset, axis1, axis2)
    if dtype is not None:
        line = convert(line, np.dtype(dtype))
    elif line.dtype.kind in "biu" and line.dtype.itemsize < 8:
        line = convert(line, np.dtype(np.uint64) if line.dtype.kind == "u" else INT64)
    return rd.reduce_sum(line, (len(line.shape) - 1,))


@implements("diag")
def diag(v: ArrayLike, k: int = 0) -> Value:
    """The diagonal of a matrix, or the matrix of a diagonal."""
    x = as_array(v)
    if len(x.shape) == 2:
        return diagonal(x, k)
    if len(x.shape) != 1:
        raise ShapeError("Input must be 1- or 2-d.")
    return dg.on_diagonal(x, operator.index(k))


@implements("diagflat")
def diagflat(v: ArrayLike, k: int = 0) -> Value:
    """The matrix with the flattened array as its diagonal."""
    x = as_array(v)
    return diag(reshape(x, (math.prod(x.shape),)), k)


@implements("vander")
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Value:
    """The powers of a vector as columns."""
    x = as_array(x)
    if len(x.shape) != 1:
        raise ArgumentError("x must be a one-dimensional array or sequence.")
    n = x.shape[0] if N is None else operator.index(N)
    if n < 0:
        raise ArgumentError("negative dimensions are not allowed")
    kind = np.promote_types(x.dtype, int)
    ones = broadcast_to(kind.type(1), (x.shape[0],), x if isinstance(x, Tracer) else None)
    columns = [ones]
    for _ in range(n - 1):
        columns.append(ew.mul(columns[-1], convert(x, kind)))
    columns = columns[:n] if increasing else columns[:n][::-1]
    if not columns:
        return np.empty((x.shape[0], 0), kind)
    return sh.concatenate([reshape(c, (x.shape[0], 1)) for c in columns], 1)


@implements("meshgrid")
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> Sequence[Value]:
    """Coordinate arrays of a grid."""
    xs = [as_array(x) for x in xi]
    n = len(xs)
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    elif indexing not in ("xy", "ij"):
        raise ArgumentError("Valid values for `indexing` are 'xy' and 'ij'.")
    lengths = [0] * n
    for place, x in zip(places, xs, strict=True):
        lengths[place] = math.prod(x.shape)
    out = []
    for place, x in zip(places, xs, strict=True):
        line = reshape(x, tuple([lengths[place] if i == place else 1 for i in range(n)]))
        whole = np.broadcast_to(line, line.shape if sparse else tuple(lengths))
        out.append(fresh(whole) if copy else whole)
    return tuple(out)


@implements("shape")
def shape(a: ArrayLike) -> tuple[int, ...]:
    """The lengths of the axes."""
    return shape_of(as_operand(a))


@implements("ndim")
def ndim(a: ArrayLike) -> int:
    """The number of axes."""
    return len(shape_of(as_operand(a)))


@implements("size")
def size(a: ArrayLike, axis: int | None = None) -> int:
    """The number of elements, in all or along an axis."""
    lengths = shape_of(as_operand(a))
    return math.prod(lengths) if axis is None else lengths[normalize_axis(axis, len(lengths))]


@implements("result_type")
def result_type_(*args: ArrayLike) -> np.dtype:
    """The dtype that operands are promoted to."""
    plain = [a if isinstance(a, (Tracer, np.ndarray, np.generic)) else None for a in args]
    if all(p is not None for p in plain):
        return result_type(*args)
    return np.result_type(*[a.dtype if isinstance(a, Tracer) else a for a in args])


@implements("can_cast")
def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, casting: Casting = "safe") -> bool:
    """Whether a dtype can be cast to another."""
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


@implements("real")
def real(val: ArrayLike) -> Value:
    """The real part: real arrays themselves."""
    return cx.real(as_array(val))


@implements("imag")
def imag(val: ArrayLike) -> Value:
    """The imaginary part: zeros of real arrays."""
    x = as_array(val)
    return cx.imag(x) if cx.is_complex(x) else zeros_like(x)


@implements("iscomplex")
def iscomplex(x: ArrayLike) -> Value:
    """Whether elements have an imaginary part."""
    x = as_array(x)
    if cx.is_complex(x):
        part = cx.imag(x)
        return ew.ne(part, ew.lit(part, 0))
    return traced_full(x, x.shape, False, BOOL)


@implements("isreal")
def isreal(x: ArrayLike) -> Value:
    """Whether elements have no imaginary part."""
    return ew.not_(iscomplex(x))


@implements("real_if_close")
def real_if_close(a: ArrayLike, tol: float = 100) -> Value:
    """Real arrays themselves, and real parts where the imaginary ones are known to be small."""
    x = as_array(a)
    if not cx.is_complex(x):
        return x
    value = concrete(x)
    if value is None:
        raise refuse_argument(
            "real_if_close", "a", "x.real       the dtype must not depend on values"
        )
    return x if np.iscomplexobj(np.real_if_close(value, tol)) else cx.real(x)


@implements("astype")
def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = True, device: str | None = None
) -> Value:
    """The values with another dtype; complex numbers lose their imaginary part to a real one."""
    a, dtype = as_array(x), np.dtype(dtype)
    if not is_numeric(dtype):
        why = "only bool, integer, float and complex arrays can be traced and compiled."
        headline = f"A traced array cannot become one of dtype {dtype}."
        write = (
            f"np.asarray(y).astype({dtype.name!r})      of the result y, outside of the function"
        )
        raise UnsupportedTypeError(headline, (*user_line(), ("why", why), ("write", write)))
    out = convert(cx.real(a) if dtype.kind not in "cb" else a, dtype)
    if type(a) is Tracer and copy:
        out = copied_like(a, fresh(out) if out is a else out)
    if type(out) is Tracer and not out.shape and isinstance(a, Tracer) and a.memory is not None:
        keep_memory(out)  # of an array; that of a number is a number
    return out
