"""L4. Reductions of NumPy: sums, extrema, moments, and those that skip NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.ir.aval import BOOL, FLOAT32, FLOAT64, INT64
from fgrad.ir.primitive import Primitive
from fgrad.numpy.compositions import to_bool
from fgrad.numpy.dispatch import NO_VALUE, add, implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    dtype_of,
    fresh,
    normalize_axes,
    normalize_axis,
    promote,
    refuse_out,
    reshape,
    strong,
    subtractable,
)
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.ops.shape import REDUCE_SUM
from fgrad.ops.size import number
from fgrad.ops.squares import sum_squares
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import Array, ArrayLike, Axis, DTypeLike, PyTree

Reducer = Callable[[Value, "tuple[int, ...]"], Value]
_EVERY_AXIS = [tuple(range(n)) for n in range(65)]


# --- the common form ------------------------------------------------------------------------------


def is_set(flag: object) -> bool:
    """Whether a flag such as `keepdims` is given and true, as 1 and `np.True_` are too."""
    return flag is not NO_VALUE and bool(flag)


def keep_axes(y: Value, shape: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    """A reduced value with the reduced axes back, of length 1."""
    return reshape(y, tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def reduced_axes(axis: Axis, x: Value) -> tuple[int, ...]:
    """The axes of a reduction; a scalar has none, and lets 0 and -1 pass, as in NumPy."""
    if not x.shape and type(axis) is int and axis in (0, -1):
        return ()
    return normalize_axes(axis, len(x.shape))


def reduce_with(reducer: Reducer, x: Value, axis: Axis, keepdims: bool) -> Value:
    """Reduce over `axis` (an integer, a tuple, or None for all axes)."""
    axes = reduced_axes(axis, x)
    y = reducer(x, axes) if axes else fresh(x)
    return keep_axes(y, x.shape, axes) if is_set(keepdims) and axes else y


def reduce_fast(prim: Primitive, x: Tracer, axis: int, keepdims: bool) -> Value:
    """Record a reduction of a tracer that has axes."""
    shape = x.shape
    axes = _EVERY_AXIS[len(shape)] if axis is None else normalize_axes(axis, len(shape))
    if not axes:
        return fresh(x)
    y = bind_one(prim, x, {"axes": axes})
    return keep_axes(y, shape, axes) if is_set(keepdims) else y


def masked(x: Value, where: ArrayLike, identity: complex) -> Value:
    """`x` where the mask is true, else the identity of the reduction."""
    if where is True or where is NO_VALUE:
        return x
    mask = convert(as_array(where), BOOL)
    return ew.select(*broadcast((mask, x, dtype_of(x).type(identity)), x.shape))


def count_of(x: Value, axis: Axis, where: ArrayLike = True, keepdims: bool = False) -> Value | int:
    """How many elements a reduction takes: a known integer unless there is a mask.

    NumPy counts along no axis of a number, while it sums along 0 and -1.
    """
    if where is True or where is NO_VALUE:
        return math.prod([x.shape[a] for a in normalize_axes(axis, len(x.shape))])
    axes = reduced_axes(axis, x)
    mask = convert(as_array(where), BOOL)
    mask = broadcast_to(mask, x.shape, x if isinstance(x, Tracer) else None)
    return reduce_with(rd.reduce_sum, convert(mask, INT64), axes, keepdims)


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """Sums and products of small integers and bools are made in 64 bits."""
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return INT64
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def _with_initial(y: Value, initial: ArrayLike, combine: Callable[[Value, Value], Value]) -> Value:
    if initial is NO_VALUE or initial is None:
        return y
    return combine(*broadcast((y, convert(as_operand(initial), dtype_of(y)))))


# --- sums and products ----------------------------------------------------------------------------


@implements("sum")
def sum_(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    initial: ArrayLike = NO_VALUE,
    where: ArrayLike = True,
) -> Value:
    """Sum over axes; small integers are summed as 64-bit ones."""
    plain = dtype is None and out is None and initial is NO_VALUE and where is True
    if type(a) is Tracer and plain:
        known: Any = a.known_aval if a.value is None else a.value
        shape = known.shape
        if known.dtype.kind == "f" and shape:
            if axis is None and not is_set(keepdims):
                return bind_one(REDUCE_SUM, a, {"axes": _EVERY_AXIS[len(shape)]})
            return reduce_fast(REDUCE_SUM, a, axis, keepdims)
    refuse_out("sum", out)
    x = as_array(a)
    x = masked(convert(x, np.dtype(dtype) if dtype else sum_dtype(x.dtype)), where, 0)
    return _with_initial(reduce_with(rd.reduce_sum, x, axis, keepdims), initial, ew.add)


@implements("prod")
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    initial: ArrayLike = NO_VALUE,
    where: ArrayLike = True,
) -> Value:
    """Product over axes."""
    refuse_out("prod", out)
    x = as_array(a)
    x = masked(convert(x, np.dtype(dtype) if dtype else sum_dtype(x.dtype)), where, 1)
    return _with_initial(reduce_with(rd.reduce_prod, x, axis, keepdims), initial, ew.mul)


# --- extrema --------------------------------------------------------------------------------------


def _extremum(
    name: str, prim: Primitive, reducer: Reducer, combine: Callable[[Value, Value], Value]
) -> Callable[..., Value]:
    def function(
        a: ArrayLike,
        axis: Axis = None,
        out: Array | None = None,
        keepdims: bool = False,
        initial: Value = NO_VALUE,
        where: ArrayLike = True,
    ) -> Value:
        refuse_out(name, out)
        if type(a) is Tracer and initial is NO_VALUE and where is True and 0 not in a.shape:
            if a.shape:
                return reduce_fast(prim, a, axis, keepdims)
            reduced_axes(axis, a)
            return strong(a)
        x = as_array(a)
        if where is not True and initial is NO_VALUE:
            raise ArgumentError(
                f"reduction operation '{name}' does not have an identity, so to use a where mask "
                "one has to specify 'initial'",
            )
        axes = reduced_axes(axis, x)
        if any(x.shape[i] == 0 for i in axes):
            return _empty_extremum(name, x, axes, keepdims, initial)
        if where is not True:
            x = masked(x, where, concrete(initial))
        return _with_initial(reduce_with(reducer, x, axes, keepdims), initial, combine)

    function.__name__ = name
    function.__doc__ = f"The {name} over axes; NaN if there is one, ties share the derivative."
    return function


def _empty_extremum(
    name: str, x: Value, axes: tuple[int, ...], keepdims: bool, initial: ArrayLike
) -> Value:
    if initial is NO_VALUE:
        raise ArgumentError(
            f"zero-size array to reduction operation {name}imum which has no identity"
        )
    shape = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    y = broadcast_to(convert(as_operand(initial), x.dtype), shape)
    return keep_axes(y, x.shape, axes) if is_set(keepdims) else y


max_ = _extremum("max", rd.reduce_max_p, rd.reduce_max, ew.max_)
min_ = _extremum("min", rd.reduce_min_p, rd.reduce_min, ew.min_)
for _name, _function in (("max", max_), ("amax", max_), ("min", min_), ("amin", min_)):
    add(_name, _function)


@implements("ptp")
def ptp(a: ArrayLike, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Value:
    """max - min."""
    refuse_out("ptp", out)
    return ew.sub(max_(a, axis, keepdims=keepdims), min_(a, axis, keepdims=keepdims))


def _arg_extremum(name: str, function: Callable[[Value, int], Value]) -> Callable[..., Value]:
    def arg(
        a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
    ) -> Value:
        refuse_out(name, out)
        x = as_array(a)
        shape = x.shape
        if axis is None or not shape:
            x = reshape(x, (math.prod(shape),))
        position = normalize_axis(0 if axis is None else axis, len(x.shape))
        if x.shape[position] == 0:
            raise ArgumentError(f"attempt to get {name} of an empty sequence")
        y = function(x, position)
        if not is_set(keepdims):
            return y
        axes = tuple(range(len(shape))) if axis is None or not shape else (position,)
        return keep_axes(y, shape, axes)

    arg.__name__ = name
    arg.__doc__ = f"The index of the first {name[3:]}imum; NaN counts as it."
    return arg


argmax = _arg_extremum("argmax", rd.argmax)
argmin = _arg_extremum("argmin", rd.argmin)
add("argmax", argmax)
add("argmin", argmin)


# --- truth ----------------------------------------------------------------------------------------


def _truth(name: str, reducer: Reducer, identity: bool) -> Callable[..., Value]:
    def function(
        a: Value,
        axis: Axis = None,
        out: Array | None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike = True,
    ) -> Value:
        refuse_out(name, out)
        return reduce_with(reducer, masked(to_bool(as_array(a)), where, identity), axis, keepdims)

    function.__name__ = name
    function.__doc__ = f"Whether {name} of the elements along axes are true."
    return function


any_ = _truth("any", rd.reduce_any, False)
all_ = _truth("all", rd.reduce_all, True)
add("any", any_)
add("all", all_)


@implements("count_nonzero")
def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Value:
    """The number of elements that are not 0."""
    return reduce_with(rd.reduce_sum, convert(to_bool(as_array(a)), INT64), axis, keepdims)


# --- moments --------------------------------------------------------------------------------------


def _work_dtype(x: Value, dtype: DTypeLike | None) -> tuple[np.dtype, np.dtype]:
    """The dtype that moments are computed in, and that of the result."""
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if x.dtype.kind not in "fcV":
        return FLOAT64, FLOAT64
    return (FLOAT32 if x.dtype.itemsize == 2 else x.dtype), x.dtype


def divide_count(total: Value, count: Value | float) -> Value:
    """total / count in the dtype of the total, for a known or a traced count; integers are cut."""
    if total.dtype.kind in "biu":
        return convert(divide_count(convert(total, FLOAT64), count), total.dtype)
    return ew.div(*broadcast((total, convert(count, total.dtype))))


@implements("mean")
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Value:
    """The arithmetic mean."""
    if out is not None:
        refuse_out("mean", out)
    if type(a) is Tracer and dtype is None and where is True:
        known: PyTree = a.known_aval if a.value is None else a.value
        shape = known.shape
        if known.dtype.char in "df" and shape:
            if axis is None and not is_set(keepdims):
                total = bind_one(REDUCE_SUM, a, {"axes": _EVERY_AXIS[len(shape)]})
                return ew.div(total, number(math.prod(shape), known.dtype))
            total = reduce_fast(REDUCE_SUM, a, axis, keepdims)
            return ew.div(total, number(count_of(a, axis), known.dtype, total.shape))
    x = as_array(a)
    work, result = _work_dtype(x, dtype)
    x = masked(convert(x, work), where, 0)
    total = reduce_with(rd.reduce_sum, x, axis, keepdims)
    return convert(divide_count(total, count_of(x, axis, where, is_set(keepdims))), result)


def degrees_lost(ddof: float, correction: float) -> float:
    """What is taken from the count of elements: `correction` is the other name of `ddof`."""
    if correction is NO_VALUE:
        return ddof
    if ddof != 0:
        raise ArgumentError("ddof and correction can't be provided simultaneously.")
    return correction


@implements("var")
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: Value = NO_VALUE,
    correction: float = NO_VALUE,
) -> Value:
    """The variance, by the mean first and the squared distances from it second."""
    refuse_out("var", out)
    ddof = degrees_lost(ddof, correction)
    plain = dtype is None and where is True and mean is NO_VALUE
    if type(a) is Tracer and plain and a.dtype.char in "df" and a.shape:
        return _plain_var(a, normalize_axes(axis, len(a.shape)), ddof, keepdims)
    x = as_array(a)
    work, result = _work_dtype(x, dtype)
    x = convert(x, work) if dtype is None else x
    axes = reduced_axes(axis, x)
    if mean is NO_VALUE:
        total = sum_(x, axes, work, where=where)
        center = divide_count(total, count_of(x, axis, where))
        center = rd.spread(center, x.shape, axes) if axes else center
    else:
        center = as_array(mean)
    distance = subtract(x, center)
    squares = ew.mul(distance, distance) if x.dtype.kind in "iuf" else squared(distance)
    work = cx.real_dtype(work) if dtype is None else work
    total = sum_(squares, axes, work, keepdims=keepdims, where=where)
    freedom = _freedom(count_of(x, axis, where, is_set(keepdims)), ddof)
    result = cx.real_dtype(result) if dtype is None else result
    return convert(divide_count(total, freedom), result)


def subtract(x: Value, y: Value) -> Value:
    """x - y in their common dtype."""
    x, y = promote((x, y))
    return ew.sub(*broadcast((subtractable(x), y)))


def _plain_var(x: Tracer, axes: tuple[int, ...], ddof: float, keepdims: bool) -> Value:
    """The variance of a floating point tracer over known axes."""
    if not axes:
        return var(as_array(x), axes, x.dtype, None, ddof)
    total = sum_squares(x, axes, centered=True)
    total = keep_axes(total, x.shape, axes) if is_set(keepdims) else total
    return ew.div(total, number(max(count_of(x, axes) - ddof, 0), x.dtype, total.shape))


def squared(x: Value) -> Value:
    """|x|^2."""
    if not cx.is_complex(x):
        return ew.mul(x, x)
    a, b = cx.real(x), cx.imag(x)
    return ew.add(ew.mul(a, a), ew.mul(b, b))


def _freedom(count: Value | int, ddof: float) -> Value | float:
    """max(count - ddof, 0)."""
    if isinstance(count, int):
        return max(count - ddof, 0)
    return ew.max_(ew.sub(convert(count, FLOAT64), FLOAT64.type(ddof)), FLOAT64.type(0))


def safe_sqrt(x: Value) -> Value:
    """sqrt(x), with derivative 0 at 0: the root of a sum of squares."""
    value = concrete(x)
    if value is not None and value.all():
        return ew.sqrt(x)
    zero = ew.eq(x, ew.lit(x, 0))
    return ew.select(zero, ew.lit(x, 0), ew.sqrt(ew.select(zero, ew.lit(x, 1), x)))


@implements("std")
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    *args: Any,
    **kwargs: object,
) -> Value:
    """The standard deviation; its derivative is 0 where all elements are equal."""
    refuse_out("std", out)
    x = as_array(a)
    half = dtype is None and x.dtype.kind in "fV" and x.dtype.itemsize == 2
    variance = var(convert(x, FLOAT32) if half else x, axis, dtype, None, *args, **kwargs)
    return convert(deviation_of(variance), x.dtype) if half else deviation_of(variance)


def deviation_of(variance: Value) -> Value:
    """A standard deviation; NumPy has none for arrays of integers."""
    if variance.dtype.kind in "biu":
        if variance.shape:
            raise DtypeError(f"sqrt: its result does not fit the dtype {variance.dtype}.")
        return convert(ew.sqrt(convert(variance, FLOAT64)), variance.dtype)
    return np.sqrt(variance) if cx.is_complex(variance) else safe_sqrt(variance)


@implements("average")
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Value | tuple[Value, Value]:
    """The weighted mean; with `returned`, also the sum of the weights."""
    x = as_array(a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        if not math.prod(result.shape):
            raise ZeroDivisionError("division by zero")  # NumPy divides the sizes
        count = count_of(x, axis)
        return (
            (result, np.broadcast_to(result.dtype.type(count), result.shape)[()])
            if returned
            else result
        )
    w = as_array(weights)
    axes = normalize_axes(axis, len(x.shape))
    if w.shape != x.shape:
        w = _weights_along(x, w, axis)
    dtype = np.result_type(x.dtype, w.dtype, *([FLOAT64] if x.dtype.kind in "biu" else []))
    x, w = convert(x, dtype), convert(w, dtype)
    x, w = broadcast((x, w), x.shape)
    total_weight = reduce_with(rd.reduce_sum, w, axes, keepdims)
    known = concrete(total_weight)
    if known is not None and (known == 0).any():
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    result = ew.div(reduce_with(rd.reduce_sum, ew.mul(x, w), axes, keepdims), total_weight)
    return (result, total_weight) if returned else result


def _weights_along(x: Value, w: Value, axis: Axis) -> Value:
    """Weights whose axes are the given ones, in their order, with axes as `x` has them."""
    if axis is None:
        raise DtypeError("Axis must be specified when shapes of a and weights differ.")
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    order = [normalize_axis(i, len(x.shape)) for i in given]
    if w.shape != tuple([x.shape[i] for i in order]):
        raise ShapeError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    w = np.transpose(w, sorted(range(len(order)), key=lambda k: order[k]))
    return reshape(w, tuple([n if i in order else 1 for i, n in enumerate(x.shape)]))


# --- cumulative -----------------------------------------------------------------------------------


def _cumulative(name: str, function: Callable[[Value, int], Value]) -> Callable[..., Value]:
    def cumulate(
        a: ArrayLike,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
    ) -> Value:
        refuse_out(name, out)
        x = as_array(a)
        x = convert(x, np.dtype(dtype) if dtype else sum_dtype(x.dtype))
        if axis is None or not x.shape:
            x = reshape(x, (math.prod(x.shape),))
        return function(x, normalize_axis(0 if axis is None else axis, len(x.shape)))

    cumulate.__name__ = name
    cumulate.__doc__ = f"{name} along an axis, or of the flattened array."
    return cumulate


cumsum = _cumulative("cumsum", rd.cumsum)
cumprod = _cumulative("cumprod", rd.cumprod)
add("cumsum", cumsum)
add("cumprod", cumprod)


def cummax(x: Value, axis: int) -> Value:
    """The largest element so far."""
    return rd.cummax(x, axis)


def cummin(x: Value, axis: int) -> Value:
    """The smallest element so far."""
    return rd.cummin(x, axis)


def _cumulative_array_api(name: str, function: Callable[..., Value], identity: int) -> None:
    def cumulate(
        x: ArrayLike,
        /,
        *,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        out: Array | None = None,
        include_initial: bool = False,
    ) -> Value:
        x = as_array(x)
        if axis is None:
            if len(x.shape) > 1:
                raise ArgumentError(
                    "For arrays which have more than one dimension ``axis`` argument is required.",
                )
            axis = 0
        result = function(x, axis, dtype, out)
        if not include_initial:
            return result
        axis = normalize_axis(axis, len(result.shape))
        first = tuple([1 if i == axis else n for i, n in enumerate(result.shape)])
        start = np.broadcast_to(result.dtype.type(identity), first)
        return sh.concatenate([start, result], axis)

    cumulate.__name__ = name
    cumulate.__doc__ = f"{name} along an axis, after the identity if `include_initial`."
    add(name, cumulate)


_cumulative_array_api("cumulative_sum", cumsum, 0)
_cumulative_array_api("cumulative_prod", cumprod, 1)
