"""L4. Order statistics: medians, quantiles and percentiles, with weights, with and without NaN.

A lane is sorted; a quantile is at a fractional place of it, between two neighbours.  Where NaN are
skipped they are sorted to the end, and each lane has as many places as it has numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, BoundsError
from fgrad.ir.aval import FLOAT64, INT64
from fgrad.numpy.arrange import take_slice
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    inexact,
    normalize_axes,
    only_real,
    refuse_out,
    reshape,
    result_type,
    shape_of,
    subtractable,
    traced_full,
)
from fgrad.numpy.reductions import keep_axes, mean
from fgrad.numpy.selection import laid_out_as, take_along_axis
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.ops import sort as so
from fgrad.ops.checked import ensured
from fgrad.trace import Tracer, Value, concrete
from fgrad.typing import Array, ArrayLike, Axis


class Lanes(NamedTuple):
    """An array with the axes to be reduced joined as its last one."""

    x: Value
    shape: tuple[int, ...]  # of the array as it was
    axes: tuple[int, ...]

    @property
    def lead(self) -> tuple[int, ...]:
        """The lengths of the other axes."""
        return self.x.shape[:-1]

    def ordered(self) -> Value:
        """Each lane in ascending order, NaN last."""
        return so.sort((self.x,), len(self.x.shape) - 1)[0]

    def finish(self, y: Value, q_shape: tuple[int, ...], keepdims: bool) -> Value:
        """A result of shape (*q, *lead), with the reduced axes back if they are wanted."""
        if not keepdims:
            return y
        kept = tuple([1 if i in self.axes else n for i, n in enumerate(self.shape)])
        return reshape(y, (*q_shape, *kept))


def lanes_of(x: Value, axis: Axis) -> Lanes:
    """The axes to be reduced, joined as the last one."""
    axes = normalize_axes(axis, len(x.shape))
    kept = tuple([i for i in range(len(x.shape)) if i not in axes])
    order = (*kept, *axes)
    moved = sh.permute(x, order) if order != tuple(range(len(x.shape))) else x
    count = math.prod(moved.shape[len(kept) :])
    return Lanes(reshape(moved, (*moved.shape[: len(kept)], count)), x.shape, axes)


def _spoil_nan(result: Value, ordered: Value) -> Value:
    """NaN where a lane holds one: after sorting it is the last element."""
    if ordered.dtype.kind not in "fcV":
        return result
    n = ordered.shape[-1]
    last = take_slice(ordered, len(ordered.shape) - 1, n - 1, n)
    bad = ew.isnan(reshape(last, ordered.shape[:-1]))
    return ew.select(*broadcast((bad, ew.lit(result, math.nan), result)))


# --- medians --------------------------------------------------------------------------------------


@implements("median")
def median(
    a: Value,
    axis: Axis = None,
    out: Array | None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Value:
    """The middle element, or the mean of the two middle ones."""
    refuse_out("median", out)
    x = inexact(a)
    lanes = lanes_of(x, axis)
    n, last = lanes.x.shape[-1], len(lanes.x.shape) - 1
    if n == 0:
        nan = complex(math.nan, math.nan) if x.dtype.kind == "c" else math.nan
        empty = traced_full(x, lanes.lead, nan, x.dtype)
        return lanes.finish(empty, (), keepdims)
    ordered = lanes.ordered()
    low = take_slice(ordered, last, (n - 1) // 2, (n - 1) // 2 + 1)
    if n % 2 == 0:
        low = ew.mul(ew.add(low, take_slice(ordered, last, n // 2, n // 2 + 1)), ew.lit(x, 0.5))
    result = _spoil_nan(reshape(low, lanes.lead), ordered)
    return laid_out_as(x, keep_axes(result, x.shape, lanes.axes) if keepdims else result)


@implements("nanmedian")
def nanmedian(
    a: Value,
    axis: Axis = None,
    out: Array | None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Value:
    """The median of the elements that are not NaN."""
    refuse_out("nanmedian", out)
    x = inexact(a)
    if x.dtype.kind == "f" and math.prod(x.shape):
        return nanquantile(x, 0.5, axis, keepdims=keepdims)
    return median(x, axis, keepdims=keepdims)


# --- places ---------------------------------------------------------------------------------------

# The place of a quantile q among n sorted elements, (alpha, beta) of Hyndman and Fan.
_CONTINUOUS = {
    "linear": (1.0, 1.0), "weibull": (0.0, 0.0), "hazen": (0.5, 0.5),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0), "averaged_inverted_cdf": (0.0, 1.0),
}  # fmt: skip
_DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
METHODS = (*_CONTINUOUS, *_DISCRETE, "midpoint")


class Neighbours(NamedTuple):
    """The elements on both sides of a quantile, and the weight of the upper one."""

    low: Value
    high: Value
    weight: Value | None  # None: they are one


def _neighbours(q: Value, n: Value, method: str) -> Neighbours:
    """Where a quantile is among the n numbers of a lane; q and n are floats of one dtype."""
    top = ew.sub(n, ew.lit(q, 1))
    if method in _DISCRETE:
        at = ew.max_(ew.min_(_discrete_place(q, n, top, method), top), ew.lit(q, 0))
        return Neighbours(at, at, None)
    if method == "midpoint":
        place = ew.mul(q, top)
        low, high = ew.floor(place), ew.ceil(place)
        half = ew.select(ew.ne(low, high), ew.lit(q, 0.5), ew.lit(q, 0))
        return Neighbours(low, high, half)
    alpha, beta = _CONTINUOUS[method]
    if method == "linear":
        place = ew.mul(q, top)
    else:
        wide = ew.sub(n, ew.lit(q, alpha + beta - 1))
        place = ew.add(ew.mul(q, wide), ew.lit(q, alpha - 1))
    clipped = ew.max_(ew.min_(place, top), ew.lit(q, 0))
    low = ew.floor(clipped)
    high = ew.min_(ew.add(low, ew.lit(q, 1)), top)
    weight = ew.sub(clipped, low)
    if method == "averaged_inverted_cdf":
        even = ew.eq(weight, ew.lit(q, 0))
        weight = ew.select(even, ew.lit(q, 0.5), ew.lit(q, 1))
        outside = ew.or_(ew.lt(place, ew.lit(q, 0)), ew.ge(place, top))
        weight = ew.select(outside, ew.lit(q, 0), weight)
    return Neighbours(low, high, weight)


def _discrete_place(q: Value, n: Value, top: Value, method: str) -> Value:
    """The place of the one element that a discrete method takes."""
    if method == "lower":
        return ew.floor(ew.mul(q, top))
    if method == "higher":
        return ew.ceil(ew.mul(q, top))
    if method == "nearest":
        return ew.rint(ew.mul(q, top))
    if method == "inverted_cdf":
        return ew.ceil(ew.sub(ew.mul(n, q), ew.lit(q, 1)))
    place = ew.sub(ew.mul(n, q), ew.lit(q, 1.5))  # closest_observation
    low = ew.floor(place)
    odd = ew.eq(ew.remainder(low, ew.lit(q, 2)), ew.lit(q, 1))
    stay = ew.and_(ew.eq(place, low), odd)
    return ew.select(stay, low, ew.add(low, ew.lit(q, 1)))


def _mix(low: Value, high: Value, weight: Value) -> Value:
    """(1 - w) low + w high, from the nearer end; equal infinities, and w = 0, stay as they are."""
    low, high, weight = broadcast((low, high, weight))
    same = ew.and_(ew.eq(low, high), ew.isinf(low))
    step = ew.sub(ew.select(same, ew.lit(low, 0), high), ew.select(same, ew.lit(low, 0), low))
    up = ew.add(low, ew.mul(step, weight))
    down = ew.sub(high, ew.mul(step, ew.sub(ew.lit(low, 1), weight)))
    mixed = ew.select(*broadcast((ew.lt(weight, ew.lit(low, 0.5)), up, down)))
    return ew.select(*broadcast((ew.eq(weight, ew.lit(low, 0)), low, mixed)))


def _lane_take(ordered: Value, place: Value, rank: int) -> Value:
    """Elements of lanes at places of shape (*q, *lead)."""
    wide = broadcast_to(ordered, place.shape[:rank] + ordered.shape)
    where = reshape(convert(place, INT64), (*place.shape, 1))
    return reshape(take_along_axis(wide, where, -1), place.shape)


# --- quantiles ------------------------------------------------------------------------------------


def _check_method(method: str, interpolation: str | None, weights: ArrayLike | None) -> str:
    method = method if interpolation is None else interpolation
    if method not in METHODS:
        raise ArgumentError(f"{method!r} is not a valid method. Use one of: {sorted(METHODS)}")
    if weights is not None and method != "inverted_cdf":
        raise ArgumentError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    return method


def _checked_q(q: Value, percent: float, x: Value) -> Value:
    """The quantiles as an array, in the precision that NumPy gives them."""
    single = isinstance(q, (int, float)) and x.dtype.kind == "f"
    value = np.asarray(q, x.dtype)[()] if single else only_real("quantile", as_array(q))
    if percent != 1:
        value = np.divide(value, x.dtype.type(100) if x.dtype.kind == "f" else 100)
    if len(shape_of(value)) > 2:
        raise ArgumentError("q must be a scalar or 1d")
    what = "Percentiles must be in the range [0, 100]"
    what = what if percent != 1 else "Quantiles must be in the range [0, 1]"
    return ensured(value, np.logical_and(value >= 0, value <= 1), what)


def _quantiles(
    x: Value,
    q: Value,
    axis: Axis,
    method: str,
    keepdims: bool,
    weights: ArrayLike | None,
    skip_nan: bool,
) -> Value:
    """The quantiles `q` along axes; the axes of q come first in the result."""
    kind = result_type(x, q)
    kind = kind if kind.kind == "f" else FLOAT64
    if method in _DISCRETE:
        values, places = x, convert(q, FLOAT64 if q.dtype.kind != "f" else q.dtype)
    else:
        values, places = convert(subtractable(x), kind), convert(q, kind)
    lanes = lanes_of(values, axis)
    if not lanes.x.shape[-1]:
        raise BoundsError("index -1 is out of bounds for axis 0 with size 0")
    rank = len(shape_of(q))
    if weights is not None:
        w = lanes_of(_broadcast_weights(weights, values, axis), axis).x
        result = _weighted(lanes.x, w, places, skip_nan)
        return lanes.finish(result, shape_of(q), keepdims)
    ordered = lanes.ordered()
    count = _counts(lanes.x, places, skip_nan)
    q_wide = reshape(places, shape_of(q) + (1,) * len(lanes.lead))
    q_wide, n_wide = broadcast((q_wide, count), shape_of(q) + lanes.lead)
    low, high, weight = _neighbours(q_wide, n_wide, method)
    at_low = broadcast_to(ew.max_(low, ew.lit(low, 0)), shape_of(q) + lanes.lead)
    result = _lane_take(ordered, at_low, rank)
    if weight is not None:
        at_high = broadcast_to(ew.max_(high, ew.lit(high, 0)), shape_of(q) + lanes.lead)
        result = _mix(result, _lane_take(ordered, at_high, rank), weight)
    if not skip_nan:
        result = _spoil_nan(result, ordered)
    return lanes.finish(result, shape_of(q), keepdims)


def _counts(lanes: Value, q: Value, skip_nan: bool) -> Value:
    """How many numbers each lane has, as a float that goes with q."""
    if not skip_nan or lanes.dtype.kind != "f":
        return q.dtype.type(lanes.shape[-1])
    present = ew.not_(ew.isnan(lanes))
    return rd.reduce_sum(convert(present, q.dtype), (len(lanes.shape) - 1,))


def _broadcast_weights(weights: ArrayLike, x: Value, axis: Axis) -> Value:
    w = only_real("quantile", as_array(weights))
    if w.shape != x.shape:
        if axis is None:
            raise ArgumentError("Axis must be specified when shapes of a and weights differ.")
        axes = normalize_axes(axis, len(x.shape))
        if w.shape != tuple([x.shape[i] for i in axes]):
            raise ArgumentError(
                "Shape of weights must be consistent with shape of a along specified axis.",
            )
        w = reshape(w, tuple([n if i in axes else 1 for i, n in enumerate(x.shape)]))
        w = broadcast_to(w, x.shape)
    known = concrete(w)
    if known is not None and np.any(known < 0):
        raise ArgumentError("Weights must be non-negative.")
    return w


def _weighted(lanes: Value, weights: Value, q: Value, skip_nan: bool) -> Value:
    """The first element at which the cumulated weights reach q."""
    last, n = len(lanes.shape) - 1, lanes.shape[-1]
    w = convert(weights, FLOAT64)
    if skip_nan and lanes.dtype.kind == "f":
        w = ew.select(ew.isnan(lanes), ew.lit(w, 0), w)
    ordered, w = so.sort((lanes, w), last)
    sums = rd.cumsum(w, last)
    total = broadcast_to(take_slice(sums, last, n - 1, n), sums.shape)
    reached = ew.div(sums, total)
    reached = ew.select(ew.eq(reached, ew.lit(w, 0)), ew.lit(w, -1), reached)
    rank, lead = len(shape_of(q)), lanes.shape[:-1]
    q_wide = reshape(convert(q, FLOAT64), shape_of(q) + (1,) * len(lanes.shape))
    before = ew.lt(*broadcast((reached, q_wide), shape_of(q) + lanes.shape))
    place = rd.reduce_sum(convert(before, INT64), (rank + last,))
    place = broadcast_to(ew.min_(place, np.int64(n - 1)), shape_of(q) + lead)
    result = _lane_take(ordered, place, rank)
    return result if skip_nan else _spoil_nan(result, ordered)


def _quantile(name: str, percent: float, skip_nan: bool) -> None:
    """Register one of quantile, percentile, nanquantile, nanpercentile."""

    def function(
        a: ArrayLike,
        q: Value,
        axis: Axis = None,
        out: Array | None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: ArrayLike | None = None,
        interpolation: str | None = None,
    ) -> Value:
        refuse_out(name, out)
        method = _check_method(method, interpolation, weights)
        x = as_array(a)
        if x.dtype.kind == "c":
            raise ArgumentError("a must be an array of real numbers")
        if skip_nan and not math.prod(x.shape):
            return mean(x, axis, keepdims=keepdims)
        places = _checked_q(as_operand(q) if isinstance(q, Tracer) else q, percent, x)
        if method == "linear" and places.dtype.kind in "iu":
            method = "lower"  # 0 and 1: the ends themselves, as they are
        result = _quantiles(x, places, axis, method, bool(keepdims), weights, skip_nan)
        several = skip_nan and len(shape_of(places)) > 0
        return result if several or weights is not None else laid_out_as(x, result)

    function.__name__ = name
    kind = "Percentiles" if percent != 1 else "Quantiles"
    function.__doc__ = f"{kind} along axes" + (
        " of the numbers that are not NaN." if skip_nan else "."
    )
    FUNCTIONS[name] = implements(name)(function)


FUNCTIONS: dict[str, Callable[..., Value]] = {}
for _name, _percent, _skip in (
    ("quantile", 1, False), ("percentile", 100, False),
    ("nanquantile", 1, True), ("nanpercentile", 100, True),
):  # fmt: skip
    _quantile(_name, _percent, _skip)
nanquantile = FUNCTIONS["nanquantile"]
