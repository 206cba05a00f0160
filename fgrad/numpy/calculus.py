"""L4. Differences, integrals, interpolation, convolution, covariance, rounding."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.source import warn_user
from fgrad.errors import ArgumentError, DtypeError
from fgrad.ir.aval import FLOAT64
from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import concatenate, ravel, take_slice
from fgrad.numpy.dispatch import NO_VALUE, implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    dtype_of,
    fresh,
    inexact,
    normalize_axis,
    only_real,
    promote,
    refuse_out,
    reshape,
    result_type,
    shape_of,
    subtractable,
)
from fgrad.numpy.selection import known_array, searchsorted, take
from fgrad.numpy.sorting import argsort
from fgrad.ops import complex as cx
from fgrad.ops import dot as dt
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.ops import window as wd
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.writing import write_all
from fgrad.typing import Array, ArrayLike, DTypeLike

# --- differences and integrals --------------------------------------------------------------------


@implements("diff")
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike = NO_VALUE,
    append: ArrayLike = NO_VALUE,
) -> Value:
    """The n-th discrete difference along an axis."""
    if n < 0:
        raise ArgumentError(f"order must be non-negative but got {n!r}")
    x = as_array(a)
    if n == 0:
        return fresh(x)
    axis = normalize_axis(axis, len(x.shape))
    ends = [None if e is NO_VALUE else _as_end(e, x, axis) for e in (prepend, append)]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = concatenate(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        m = x.shape[axis]
        later, sooner = take_slice(x, axis, min(1, m), m), take_slice(x, axis, 0, max(m - 1, 0))
        x = ew.ne(later, sooner) if x.dtype.kind == "b" else ew.sub(later, sooner)
    return x


def _as_end(end: ArrayLike, x: Value, axis: int) -> Value:
    """A value to be joined to `x`; a scalar is one more element."""
    y = as_array(end)
    if len(y.shape):
        return y
    return broadcast_to(y, tuple([1 if i == axis else n for i, n in enumerate(x.shape)]))


@implements("ediff1d")
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Value:
    """Differences of the flattened array, between given ends."""
    x = subtractable(ravel(ary))
    for end in (to_begin, to_end):
        if end is not None and not np.can_cast(dtype_of(as_operand(end)), x.dtype, "same_kind"):
            raise DtypeError("dtype of an end of ediff1d must be compatible with the input")
    parts = [p for p in (to_begin, diff(x), to_end) if p is not None]
    return concatenate([convert(ravel(p), x.dtype) for p in parts])


@implements("trapezoid", "trapz")
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Value:
    """The integral by the trapezoidal rule; points with fewer axes than `y` broadcast."""
    y = as_array(y)
    place = normalize_axis(axis, len(y.shape))
    n = y.shape[place]
    width: ArrayLike = dx
    if x is not None:
        points = as_array(x)
        width = diff(points, axis=axis if len(points.shape) > 1 else 0)
        if len(points.shape) == 1:
            line = [1] * len(y.shape)
            line[place] = width.shape[0]
            width = reshape(width, tuple(line))
    pairs = np.add(take_slice(y, place, 1, n), take_slice(y, place, 0, n - 1))
    return rs.sum_(np.multiply(np.multiply(width, pairs), 0.5), axis)


@implements("gradient")
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: int | None = None, edge_order: int = 1
) -> Value | list[Value] | tuple[Value, ...]:
    """Central differences inside, one-sided ones at the ends."""
    x = as_array(f)
    axes = tuple(range(len(x.shape))) if axis is None else axis
    if axes == ():
        return ()
    x = inexact(subtractable(x))
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    axes = [normalize_axis(i, len(x.shape)) for i in axes]
    if len(set(axes)) < len(axes):
        raise ArgumentError("repeated axis")
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise ArgumentError("invalid number of arguments")
    if edge_order > 2:
        raise ArgumentError("'edge_order' greater than 2 not supported")
    out = [
        convert(_gradient_axis(x, h, i, edge_order), x.dtype)
        for h, i in zip(spacings, axes, strict=True)
    ]
    if len(out) == 1:
        return out[0]
    return tuple(out)


def _gradient_axis(x: Value, spacing: ArrayLike, axis: int, edge_order: int) -> Value:
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ArgumentError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) "
            "elements are required.",
        )

    def at(start: int, stop: int) -> Value:
        return take_slice(x, axis, start, stop)

    h = _steps(spacing, n, axis, len(x.shape))
    if len(shape_of(h)):
        first, second = take_slice(h, axis, 0, n - 2), take_slice(h, axis, 1, n - 1)
        inner = _three_point(at(0, n - 2), at(1, n - 1), at(2, n), first, second)
    else:
        inner = (at(2, n) - at(0, n - 2)) / (2.0 * h)
    h_left, h_right = (
        (take_slice(h, axis, 0, 1), take_slice(h, axis, n - 2, n - 1))
        if len(shape_of(h))
        else (h, h)
    )
    if edge_order == 1 and n > 2 and not shape_of(h):
        ends = take_slice(x, axis, 1, n, n - 2) - take_slice(x, axis, 0, n - 1, n - 2)
        if type(h) is not float or h != 1.0:
            ends = ends / h
        left, right = take_slice(ends, axis, 0, 1), take_slice(ends, axis, 1, 2)
    elif edge_order == 1:
        left = (at(1, 2) - at(0, 1)) / h_left
        right = (at(n - 1, n) - at(n - 2, n - 1)) / h_right
    else:
        h_left2, h_right2 = (
            (take_slice(h, axis, 1, 2), take_slice(h, axis, n - 3, n - 2))
            if len(shape_of(h))
            else (h, h)
        )
        left = _one_sided(at(0, 1), at(1, 2), at(2, 3), h_left, h_left2)
        right = -_one_sided(at(n - 1, n), at(n - 2, n - 1), at(n - 3, n - 2), h_right, h_right2)
    return concatenate([left, inner, right], axis)


def _steps(spacing: ArrayLike, n: int, axis: int, ndim: int) -> Value:
    """The distance of neighbours: a scalar, or an array along the axis."""
    h = as_operand(spacing)
    if not shape_of(h):
        return h
    if shape_of(h) != (n,):
        raise ArgumentError(
            "when 1d, distances must match the length of the corresponding dimension"
        )
    steps = diff(inexact(h))
    return reshape(steps, tuple([n - 1 if i == axis else 1 for i in range(ndim)]))


def _three_point(left: Value, mid: Value, right: Value, h: Value, k: ArrayLike) -> Value:
    """The slope at `mid` of the parabola through three points, h before and k after it."""
    total = h + k
    return -(k / (h * total)) * left + (k - h) / (h * k) * mid + h / (k * total) * right


def _one_sided(first: Value, second: Value, third: Value, h: Value, k: ArrayLike) -> Value:
    """The slope at the first of three points, h and then k apart."""
    total = h + k
    return -(h + h + k) / (h * total) * first + total / (h * k) * second - h / (k * total) * third


# --- interpolation --------------------------------------------------------------------------------


@implements("interp")
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: float | None = None,
) -> Value:
    """Piecewise linear interpolation; slope 0 outside of the points."""
    for line in (xp, fp):
        if len(shape_of(as_operand(line))) != 1:
            raise ArgumentError("object too deep for desired array")
    if not shape_of(as_operand(xp))[0]:
        raise ArgumentError("array of sample points is empty")
    if shape_of(as_operand(xp)) != shape_of(as_operand(fp)):
        raise ArgumentError("fp and xp are not of the same length.")
    if as_array(fp).dtype.kind == "c":
        parts = []
        for part in (np.real, np.imag):
            low, high = [None if end is None else part(as_array(end)) for end in (left, right)]
            parts.append(interp(x, xp, part(as_array(fp)), low, high, period))
        return cx.complex_(*parts)
    given = promote((as_array(x), as_array(xp), as_array(fp)))
    points, xs, ys = [convert(only_real("interp", v), FLOAT64) for v in given]
    if period is not None:
        return _interp_periodic(points, xs, ys, _end(period))
    n = xs.shape[0]
    if n == 1:
        inside = broadcast_to(take(ys, np.int64(0)), shape_of(points))
    else:
        inside = _along_line(points, xs, ys, n)
    first, last = take(xs, np.int64(0)), take(xs, np.int64(n - 1))
    low = take(ys, np.int64(0)) if left is None else _end(left)
    high = take(ys, np.int64(n - 1)) if right is None else _end(right)
    shape = shape_of(points)
    below = ew.lt(*broadcast((points, first), shape))
    above = ew.gt(*broadcast((points, last), shape))
    inside = ew.select(*broadcast((below, low, inside), shape))
    return ew.select(*broadcast((above, high, inside), shape))


def _end(x: ArrayLike) -> Value:
    """A number to the left, to the right, or of the period."""
    x = only_real("interp", as_array(x))
    if x.shape:
        raise DtypeError("interp: left, right and period are numbers, not arrays.")
    return convert(x, FLOAT64)


def _along_line(points: Value, xs: Value, ys: Value, n: int) -> Value:
    """y + slope (x - x') from the last place x' that is not beyond x, where the value is y."""
    at = ew.sub(*broadcast((searchsorted(xs, points, side="right"), np.int64(1))))
    at = broadcast_to(ew.clip(at, np.int64(0), np.int64(n - 1)), shape_of(points))
    first = ew.clip(at, np.int64(0), np.int64(n - 2))
    x0, x1, y0, y1 = (take(v, i) for v in (xs, ys) for i in (first, ew.add(first, np.int64(1))))
    width = ew.sub(x1, x0)
    flat = ew.eq(width, ew.lit(width, 0))
    slope = ew.div(ew.sub(y1, y0), ew.select(flat, ew.lit(width, 1), width))
    slope = ew.select(flat, ew.lit(slope, 0), slope)
    rise = ew.mul(slope, ew.sub(*broadcast((points, take(xs, at)))))
    return ew.add(*broadcast((rise, take(ys, at))))


def _interp_periodic(x: Value, xp: Value, fp: Value, period: Value) -> Value:
    length = concrete(period)
    if length is not None and length == 0:
        raise ArgumentError("period must be a non-zero value")
    period = np.abs(period)
    x, xp = np.remainder(x, period), np.remainder(xp, period)
    order = argsort(xp)
    xp, fp = take(xp, order), take(fp, order)
    n = xp.shape[0]
    xp = concatenate([np.subtract(xp[n - 1 :], period), xp, np.add(xp[:1], period)])
    fp = concatenate([fp[n - 1 :], fp, fp[:1]])
    return interp(x, xp, fp)


@implements("unwrap")
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi
) -> Value:
    """Angles without jumps of more than half a period."""
    x = as_array(p)
    axis = normalize_axis(axis, len(x.shape))
    kind = result_type(x, period)
    exact = diff(x, axis=axis)
    steps, x = convert(exact, kind), convert(x, kind)
    half, odd = divmod(period, 2) if kind.kind in "iu" else (period / 2, 0)
    low = ew.lit(x, -half)
    wrapped = ew.add(ew.remainder(ew.sub(steps, low), ew.lit(x, period)), low)
    if not odd:
        edge = ew.and_(ew.eq(wrapped, low), ew.gt(steps, ew.lit(x, 0)))
        wrapped = ew.select(edge, ew.lit(x, half), wrapped)
    limit = period / 2 if discont is None else discont
    # The least integer of a dtype is its own |x|, which is how NumPy compares.
    small = np.less(np.abs(exact), limit)
    jump = ew.select(small, ew.lit(x, 0), ew.sub(wrapped, steps))
    if x.shape[axis] < 2:
        return x
    rest = ew.add(take_slice(x, axis, 1, x.shape[axis]), rd.cumsum(jump, axis))
    return sh.concatenate([take_slice(x, axis, 0, 1), rest], axis)


# --- convolution ---------------------------------------------------------------------


def _lines(a: ArrayLike, v: ArrayLike) -> tuple[Value, Value]:
    x, y = promote((as_array(a), as_array(v)))
    x, y = (reshape(z, (1,)) if not len(z.shape) else z for z in (x, y))
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ArgumentError("object too deep for desired array")
    if not x.shape[0] or not y.shape[0]:
        raise ArgumentError("a cannot be empty")
    return x, y


@implements("convolve")
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Value:
    """sum_k a[k] v[n - k]."""
    x, y = _lines(a, v)
    if x.shape[0] < y.shape[0]:
        x, y = y, x
    return _slide(x, sh.reverse(y, (0,)), mode)


@implements("correlate")
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Value:
    """sum_k a[n + k] v[k]."""
    if not shape_of(as_operand(a)) or not shape_of(as_operand(v)):
        raise ArgumentError("object of too small depth for desired array")
    x, y = _lines(a, v)
    y = cx.conj(y)
    if x.shape[0] >= y.shape[0]:
        return _slide(x, y, mode)
    return sh.reverse(_slide(y, x, mode), (0,))


_MODES = {"v": "valid", "s": "same", "f": "full", 0: "valid", 1: "same", 2: "full"}


def _slide(x: Value, y: Value, mode: str) -> Value:
    """Inner products of `y` with windows of the longer `x`."""
    mode = _MODES.get(mode if isinstance(mode, int) else mode[:1].lower(), mode)
    m = y.shape[0]
    if mode == "valid":
        low = high = 0
    elif mode == "same":
        low, high = m // 2, m - 1 - m // 2
    elif mode == "full":
        low = high = m - 1
    else:
        raise ArgumentError(f"mode must be one of 'full', 'same', or 'valid' (got {mode!r})")
    n = x.shape[0]
    inner = dt.dot_general(_windows(x, m), y, ((1,), (0,)))
    if m == 1 and inner.dtype.kind in "fc":
        inner = ew.add(inner, ew.lit(inner, 0.0))  # a sum begins at 0.0: never -0.0
    before = sh.pad(take_slice(x, 0, 0, m - 1), (low,), (0,))
    after = sh.pad(take_slice(x, 0, n - m + 1, n), (0,), (high,))
    place = np.add.outer(np.arange(max(low, high)), np.arange(m))
    parts = [
        _edge(_windows(before, m), y, place[:low] >= low) if low else None,
        inner,
        _edge(_windows(after, m), y, place[:high] < m - 1) if high else None,
    ]
    return concatenate([part for part in parts if part is not None])


def _windows(x: Value, m: int) -> Value:
    """The windows of length m that slide over a line."""
    return wd.windows(x, (0,), (m,), (1,), (1,))


def _edge(windows: Value, y: Value, inside: np.ndarray) -> Value:
    """Inner products with windows that stick out: what is outside is nothing, also beside NaN."""
    products = ew.mul(windows, broadcast_to(y, inside.shape))
    return rd.reduce_sum(ew.select(*broadcast((inside, products, ew.lit(products, 0)))), (1,))


# --- covariance -------------------------------------------------------------------------


@implements("cov")
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Value:
    """The covariance matrix of variables in rows."""
    x = _variables(m, rowvar, _row_turns())
    if y is not None:
        x = concatenate([x, _variables(y, rowvar, False)], 0)
    work = np.result_type(x.dtype, FLOAT64) if dtype is None else np.dtype(dtype)
    if not x.shape[0]:
        work = FLOAT64
    elif work.kind not in "fcV":
        raise DtypeError(f"A covariance of dtype {work} cannot hold distances from the mean.")
    x = convert(x, work)
    ddof = (0 if bias else 1) if ddof is None else ddof
    if fweights is None and aweights is None:
        centered = ew.sub(*broadcast((x, rs.mean(x, 1, keepdims=True))))
        product = dt.dot_general(centered, cx.conj(centered), ((1,), (1,)))
        result = ew.div(product, ew.lit(product, max(x.shape[1] - ddof, 0)))
    else:
        result = _weighted_cov(x, fweights, aweights, ddof)
    return reshape(
        result, tuple([k for k in result.shape if k != 1]) if 1 in result.shape else result.shape
    )


def _weighted_cov(
    x: Value, fweights: ArrayLike | None, aweights: ArrayLike | None, ddof: int
) -> Value:
    """Counts `fweights` and relative weights `aweights` of the observations."""
    counts = None if fweights is None else as_array(fweights)
    relative = None if aweights is None else only_real("cov", as_array(aweights))
    weights: Any = counts if relative is None else relative
    if counts is not None and relative is not None:
        weights = np.multiply(counts, relative)
    total = rs.sum_(weights)
    factor = total
    if ddof and relative is not None:
        squares = rs.sum_(np.multiply(weights, relative))
        factor = np.subtract(total, squares * ddof / total)
    elif ddof:
        factor = np.subtract(total, ddof)
    centered = convert(np.subtract(x, rs.average(x, 1, weights, keepdims=True)), x.dtype)
    scaled = cx.conj(np.multiply(centered, weights))
    centered, scaled = promote((centered, scaled))
    return np.divide(dt.dot_general(centered, scaled, ((1,), (1,))), factor)


@functools.cache
def _row_turns() -> bool:
    """Whether NumPy takes a single row for one observation if `rowvar` is false: from 2.2 on."""
    return np.cov(np.zeros((1, 2)), rowvar=False, bias=True).ndim == 2


def _variables(m: ArrayLike, rowvar: bool, row_turns: bool) -> Value:
    x = inexact(m)
    if len(x.shape) > 2:
        raise ArgumentError("m has more than 2 dimensions")
    if len(x.shape) < 2:
        return reshape(x, (1, math.prod(x.shape)))
    keeps = rowvar or (x.shape[0] == 1 and not row_turns)
    return x if keeps else sh.permute(x, (1, 0))


@implements("corrcoef")
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Value:
    """The matrix of correlation coefficients."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not len(c.shape):
        return ew.div(c, c)
    scale = convert(ew.sqrt(np.real(np.diagonal(c))), c.dtype)
    n = scale.shape[0]
    rows, columns = reshape(scale, (n, 1)), reshape(scale, (1, n))
    c = ew.div(*broadcast((c, rows)))
    c = ew.div(*broadcast((c, columns)))
    if cx.is_complex(c):
        return cx.complex_(*[np.clip(part, -1, 1) for part in (cx.real(c), cx.imag(c))])
    return ew.clip(c, ew.lit(c, -1), ew.lit(c, 1))


# --- rounding -------------------------------------------------------------------------------------


@implements("round", "around", "round_")
def round_(a: ArrayLike, decimals: int = 0, out: Array | None = None) -> Value:
    """Rounded to decimals, halves to even."""
    refuse_out("round", out)
    x = as_array(a)
    if x.dtype.kind in "iu":
        return fresh(x) if decimals >= 0 else _round_integer(x, 10**-decimals)
    if x.dtype.kind == "b" and decimals != 0:
        raise ArgumentError("truth values are not rounded to decimals")
    if x.dtype.kind == "b":
        return ew.rint(convert(x, np.dtype(np.float16)))
    if decimals == 0:
        return ew.rint(x)
    if x.dtype.kind == "c":
        return cx.complex_(*[round_(part, decimals) for part in (cx.real(x), cx.imag(x))])
    scale = ew.lit(x, 10.0 ** abs(decimals))
    if decimals > 0:
        return ew.div(ew.rint(ew.mul(x, scale)), scale)
    return ew.mul(ew.rint(ew.div(x, scale)), scale)


def _round_integer(x: Value, unit: int) -> Value:
    scaled = ew.rint(ew.div(convert(x, FLOAT64), np.float64(unit)))
    return convert(ew.mul(scaled, np.float64(unit)), x.dtype)


@implements("fix")
def fix(x: ArrayLike, out: Array | None = None) -> Value:
    """Rounded towards zero."""
    refuse_out("fix", out)
    if at_least(np, 2, 5):
        text = "numpy.fix is deprecated. Use numpy.trunc instead, which is faster and follows the "
        warn_user(text + "Array API standard.", DeprecationWarning)
    return np.trunc(as_array(x))


@implements("nan_to_num")
def nan_to_num(
    x: Value,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Value:
    """NaN and infinities replaced by numbers; written into the array itself if `copy` is false."""
    if not copy and isinstance(x, Tracer):
        write_all(x, nan_to_num(x, True, nan, posinf, neginf))
        return x
    x = as_array(x)
    if x.dtype.kind == "c":
        parts = [nan_to_num(part, True, nan, posinf, neginf) for part in (cx.real(x), cx.imag(x))]
        return cx.complex_(*parts)
    if x.dtype.kind != "f":
        return fresh(x)
    limits = np.finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    fills: Sequence[tuple[Value, ArrayLike]] = (
        (ew.isnan(x), nan),
        (ew.eq(x, ew.lit(x, math.inf)), high),
        (ew.eq(x, ew.lit(x, -math.inf)), low),
    )
    for mask, fill in fills:
        value = convert(as_operand(fill), x.dtype)
        x = ew.select(*broadcast((mask, value, x), x.shape))
    return x


@implements("isposinf")
def isposinf(x: ArrayLike, out: Array | None = None) -> Value:
    """x == inf."""
    refuse_out("isposinf", out)
    return np.equal(_ordered(x, "isposinf"), math.inf)


@implements("isneginf")
def isneginf(x: ArrayLike, out: Array | None = None) -> Value:
    """x == -inf."""
    refuse_out("isneginf", out)
    return np.equal(_ordered(x, "isneginf"), -math.inf)


def _ordered(x: ArrayLike, name: str) -> Value:
    """Numbers with a sign; complex ones have none."""
    x = as_array(x)
    if cx.is_complex(x):
        raise DtypeError(f"{name} is not defined for complex numbers.")
    return x


@implements("ix_")
def ix_(*args: ArrayLike) -> tuple[Value, ...]:
    """Index arrays for the product of lists of integers."""
    n = len(args)
    xs = [as_array(a) for a in args]
    if any([len(x.shape) != 1 for x in xs]):
        raise ArgumentError("Cross index must be 1 dimensional")
    xs = [known_array(x, "ix_").nonzero()[0] if x.dtype.kind == "b" else x for x in xs]
    return tuple(
        [
            reshape(x, tuple([x.shape[0] if i == k else 1 for k in range(n)]))
            for i, x in enumerate(xs)
        ]
    )
