"""L4. Sorting, and the order statistics made of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.ir.aval import INT64
from fgrad.numpy.arrange import moveaxis, take_slice
from fgrad.numpy.promote import (
    as_array,
    as_value,
    broadcast,
    broadcast_to,
    convert,
    inexact,
    normalize_axes,
    normalize_axis,
    refuse_argument,
    refuse_out,
    reshape,
    result_type,
    shape_of,
    traced_full,
)
from fgrad.numpy.reductions import keep_axes
from fgrad.numpy.register import implements
from fgrad.numpy.selection import take, take_along_axis
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.ops import sort as so
from fgrad.trace import Tracer, Value


def _on_axis(a: Any, axis: Any) -> tuple[Value, int]:
    x = as_array(a)
    if axis is None:
        return reshape(x, (math.prod(x.shape),)), 0
    return x, normalize_axis(axis, len(x.shape))


@implements("sort")
def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Value:
    """Ascending order along an axis, NaN last."""
    x, axis = _on_axis(a, axis)
    return so.sort((x,), axis)[0]


@implements("argsort")
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Value:
    """The indices that sort, equal elements in their old order."""
    x, axis = _on_axis(a, axis if shape_of(as_value(a)) else None)
    return so.sort((x, sh.iota(x.shape, INT64, axis)), axis)[1]


@implements("partition")
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Value:
    """A full sort, which is a partition at every place."""
    return sort(a, axis)


@implements("argpartition")
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Value:
    """The indices of a full sort."""
    return argsort(a, axis)


@implements("sort_complex")
def sort_complex(a: Any) -> Value:
    """Complex numbers have no traced order."""
    raise refuse_argument("sort_complex", "a", "np.sort(x) of real numbers")


@implements("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Value:
    """The indices that sort by several keys, the last one first."""
    xs = [as_array(k) for k in keys]
    axis = normalize_axis(axis, len(xs[0].shape))
    number = sh.iota(xs[0].shape, INT64, axis)
    return so.sort((*reversed(xs), number), axis, num_keys=len(xs))[-1]


# --- medians and quantiles ------------------------------------------------------------------------


def _lanes(x: Value, axis: Any) -> tuple[Value, tuple[int, ...]]:
    """The axes to be reduced, joined as the last one."""
    axes = normalize_axes(axis, len(x.shape))
    kept = tuple([i for i in range(len(x.shape)) if i not in axes])
    x = sh.permute(x, (*kept, *axes)) if (*kept, *axes) != tuple(range(len(x.shape))) else x
    lead = x.shape[: len(kept)]
    return reshape(x, (*lead, math.prod(x.shape[len(kept) :]))), axes


def _spoil_nan(result: Value, ordered: Value) -> Value:
    """NaN where a lane holds one: after sorting it is the last element."""
    last = take_slice(ordered, len(ordered.shape) - 1, ordered.shape[-1] - 1, ordered.shape[-1])
    bad = ew.isnan(reshape(last, ordered.shape[:-1]))
    return ew.select(*broadcast((bad, ew.lit(result, math.nan), result)))


@implements("median")
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Value:
    """The middle element, or the mean of the two middle ones."""
    refuse_out("median", out)
    x = inexact(a)
    lanes, axes = _lanes(x, axis)
    n, last = lanes.shape[-1], len(lanes.shape) - 1
    if n == 0:
        empty = traced_full(lanes, lanes.shape[:-1], math.nan, lanes.dtype)
        return keep_axes(empty, x.shape, axes) if keepdims else empty
    (ordered,) = so.sort((lanes,), last)
    low = take_slice(ordered, last, (n - 1) // 2, (n - 1) // 2 + 1)
    if n % 2 == 0:
        low = ew.mul(ew.add(low, take_slice(ordered, last, n // 2, n // 2 + 1)), ew.lit(x, 0.5))
    result = _spoil_nan(reshape(low, lanes.shape[:-1]), ordered)
    return keep_axes(result, x.shape, axes) if keepdims else result


# The place of a quantile q among n sorted elements, (alpha, beta) of Hyndman and Fan.
_CONTINUOUS = {
    "linear": (1.0, 1.0), "weibull": (0.0, 0.0), "hazen": (0.5, 0.5),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip
_NEAREST = {"lower", "higher", "midpoint", "nearest"}


def _place(q: Value, n: Value, method: str) -> Value:
    """The fractional place of a quantile, from 0 to n - 1; q and n are floats of one dtype."""
    if method in _NEAREST or method == "linear":
        return ew.mul(q, ew.sub(n, ew.lit(q, 1)))
    if method not in _CONTINUOUS:
        raise refuse_argument(
            "quantile", f"method={method!r}", "np.quantile(x, q, method='linear')"
        )
    alpha, beta = _CONTINUOUS[method]
    wide = ew.sub(n, ew.lit(q, alpha + beta - 1))
    place = ew.add(ew.mul(q, wide), ew.lit(q, alpha - 1))
    return ew.max_(ew.min_(place, ew.sub(n, ew.lit(q, 1))), ew.lit(q, 0))


def _bounds(place: Value, method: str) -> tuple[Value, Value, Value]:
    """The two neighbours of a fractional place, and the weight of the upper one."""
    low, high = ew.floor(place), ew.ceil(place)
    if method == "lower":
        return low, low, ew.lit(place, 0)
    if method == "higher":
        return high, high, ew.lit(place, 0)
    if method == "nearest":
        near = ew.rint(place)
        return near, near, ew.lit(place, 0)
    if method == "midpoint":
        apart = ew.ne(low, high)
        return low, high, ew.select(apart, ew.lit(place, 0.5), ew.lit(place, 0))
    return low, high, ew.sub(place, low)


def _mix(low: Value, high: Value, weight: Value) -> Value:
    """(1 - w) low + w high, from the nearer end; equal infinities stay."""
    low, high, weight = broadcast((low, high, weight))
    same = ew.eq(low, high)
    step = ew.sub(ew.select(same, ew.lit(low, 0), high), ew.select(same, ew.lit(low, 0), low))
    up = ew.add(low, ew.mul(step, weight))
    down = ew.sub(high, ew.mul(step, ew.sub(ew.lit(low, 1), weight)))
    return ew.select(*broadcast((ew.lt(weight, ew.lit(low, 0.5)), up, down)))


@implements("quantile")
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    interpolation: Any = None,
) -> Value:
    """Quantiles along axes; the axes of q come first in the result."""
    refuse_out("quantile", out)
    if weights is not None:
        raise refuse_argument("quantile", "weights", "np.quantile(x, q)")
    x = as_array(a)
    kind = (
        result_type(x, q, 1.0)
        if isinstance(as_value(q), (int, float))
        else result_type(x, as_array(q))
    )
    kind = kind if kind.kind == "f" else np.dtype(np.float64)
    x, q = convert(x, kind), convert(as_array(q), kind)
    lanes, axes = _lanes(x, axis)
    (ordered,) = so.sort((lanes,), len(lanes.shape) - 1)
    result = _spoil_nan(_at(ordered, q, method), ordered)
    if not keepdims:
        return result
    kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    return reshape(result, (*shape_of(q), *kept))


def _at(ordered: Value, q: Value, method: str) -> Value:
    """The quantiles q of sorted lanes, with the axes of q first."""
    n = ordered.shape[-1]
    low, high, weight = _bounds(_place(q, ew.lit(q, n), method), method)
    rank, lead = len(shape_of(q)), len(ordered.shape) - 1
    first, second = (
        _first(take(ordered, convert(i, INT64), lead), rank, lead) for i in (low, high)
    )
    weight = reshape(broadcast_to(weight, shape_of(q)), shape_of(q) + (1,) * lead)
    return _mix(first, second, weight)


def _first(x: Value, rank: int, lead: int) -> Value:
    return moveaxis(x, tuple(range(lead, lead + rank)), tuple(range(rank))) if rank else x


@implements("percentile")
def percentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Value:
    """Quantiles in percent."""
    return quantile(a, _percent(q), *args, **kwargs)


def _percent(q: Any) -> Value:
    q = as_value(q)
    if not isinstance(q, Tracer):
        return q / 100
    return ew.div(inexact(q), ew.lit(inexact(q), 100))


# --- skipping NaN ---------------------------------------------------------------------------------


@implements("nanquantile")
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    **kwargs: Any,
) -> Value:
    """Quantiles of the elements that are not NaN."""
    refuse_out("nanquantile", out)
    for name, value in kwargs.items():
        if value is not None:
            raise refuse_argument("nanquantile", name, "np.nanquantile(x, q)")
    x = inexact(a)
    q = convert(as_array(q), x.dtype)
    lanes, axes = _lanes(x, axis)
    last = len(lanes.shape) - 1
    (ordered,) = so.sort((lanes,), last)
    present = ew.not_(ew.isnan(lanes))
    count = rd.reduce_sum(convert(present, x.dtype), (last,))
    rank = len(shape_of(q))
    q_wide, n_wide = broadcast(
        (reshape(q, shape_of(q) + (1,) * last), reshape(count, (1,) * rank + count.shape)),
        shape_of(q) + count.shape,
    )
    result = _at_counts(ordered, q_wide, n_wide, method, rank)
    empty = ew.eq(n_wide, ew.lit(n_wide, 0))
    result = ew.select(*broadcast((empty, ew.lit(result, math.nan), result)))
    if not keepdims:
        return result
    kept = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
    return reshape(result, (*shape_of(q), *kept))


def _at_counts(ordered: Value, q: Value, n: Value, method: str, rank: int) -> Value:
    """Quantiles of lanes of which only the first n elements count."""
    place = ew.max_(_place(q, n, method), ew.lit(n, 0))
    low, high, weight = _bounds(place, method)
    wide = broadcast_to(ordered, place.shape[:rank] + ordered.shape)
    return _mix(_lane_take(wide, low), _lane_take(wide, high), weight)


def _lane_take(x: Value, place: Value) -> Value:
    where = reshape(convert(place, INT64), (*place.shape, 1))
    return reshape(take_along_axis(x, where, -1), place.shape)


@implements("nanpercentile")
def nanpercentile(a: Any, q: Any, *args: Any, **kwargs: Any) -> Value:
    """Quantiles in percent of the elements that are not NaN."""
    return nanquantile(a, _percent(q), *args, **kwargs)


@implements("nanmedian")
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Value:
    """The median of the elements that are not NaN."""
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims)
