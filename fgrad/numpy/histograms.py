"""L4. Counting numbers and filling bins: counts, or sums of weights, which have derivatives."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import FLOAT64, INT64
from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import ravel
from fgrad.numpy.calculus import diff
from fgrad.numpy.creation import linspace
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    only_real,
    promote,
    reshape,
    shape_of,
)
from fgrad.numpy.selection import known_array, searchsorted, take
from fgrad.ops import elementwise as ew
from fgrad.ops import index as ix
from fgrad.ops.checked import checked, located
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.assign import memory_of
from fgrad.typing import ArrayLike


@implements("bincount", extra=("length",))
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None
) -> Value:
    """How often each number occurs, or the sums of its weights.

    The largest number decides the length of the result, so the numbers must be known; `length=n`
    counts 0 ... n - 1 and leaves out the rest.
    """
    numbers = as_array(x)
    if length is None:
        numbers = known_array(numbers, "bincount")
        if weights is None:
            return np.bincount(numbers, None, minlength)
        if operator.index(minlength) < 0:
            raise ArgumentError("'minlength' must not be negative")
        length = max(int(numbers.max(initial=-1)) + 1, operator.index(minlength))
    if len(shape_of(numbers)) != 1:
        raise ShapeError("bincount counts an array of one axis.")
    if numbers.dtype.kind not in "biu":
        raise ArgumentError("Cannot cast array data to integers according to the rule 'safe'")
    value = concrete(numbers)
    if value is not None and value.dtype.kind == "i" and value.size and value.min() < 0:
        raise ArgumentError("'list' argument must have no negative elements")
    n = operator.index(length)
    place = convert(numbers, INT64)
    place = ew.select(ew.lt(place, np.int64(0)), np.int64(n), place)  # beyond the end: dropped
    w: Value
    if weights is None:
        w = np.ones(shape_of(numbers), INT64)
    else:
        w = convert(only_real("bincount", as_array(weights)), FLOAT64)
        if w.shape != numbers.shape:
            raise ArgumentError("The weights and list don't have the same length.")
    return ix.scatter(np.zeros(n, w.dtype), (place,), w, (0,), "add")


# --- bins -----------------------------------------------------------------------------------------


def _edges(x: Value, bins: ArrayLike | str, range: tuple[float, float] | None, name: str) -> Value:
    """The edges of bins: given, or evenly spaced over a range or over the values."""
    only_real(name, x)
    if shape_of(as_array(bins)):
        return _increasing(only_real(name, as_array(bins)))
    if as_array(bins).dtype.kind not in "iu":
        raise ArgumentError("`bins` must be an integer, a string, or an array")
    count = known_array(bins, name).item()
    if count < 1:
        raise ArgumentError("`bins` must be positive, when an integer")
    low, high = _limits(x, range)
    kind = x.dtype if x.dtype.kind == "f" else FLOAT64
    return linspace(low, high, count + 1, dtype=kind)


def _increasing(edges: Value) -> Value:
    if len(edges.shape) != 1:
        raise ArgumentError("`bins` must be 1d, when an array")
    value = concrete(edges)
    if value is not None and np.any(value[:-1] > value[1:]):
        raise ArgumentError("`bins` must increase monotonically, when an array")
    return edges


def _limits(x: Value, range: tuple[float, float] | None) -> tuple[Value, Value]:
    """The ends of a range, half a unit further out where they are equal."""
    if range is not None:
        low, high = as_array(range[0]), as_array(range[1])
        ends = concrete(low), concrete(high)
        if None not in ends and ends[0] > ends[1]:
            raise ArgumentError("max must be larger than min in range parameter.")
    elif not math.prod(x.shape):
        low, high = np.float64(0), np.float64(1)
    else:
        low, high = rs.min_(x), rs.max_(x)
    ends = concrete(low), concrete(high)
    if None not in ends and not np.all(np.isfinite(ends)):
        raise ArgumentError(f"range of [{ends[0]}, {ends[1]}] is not finite")
    low, high = promote((low, high))
    if None in ends and low.dtype.kind == "f":
        finite = ew.and_(ew.isfinite(low), ew.isfinite(high))
        low = checked(low, finite, located(ValueError("a range that is not finite")))
    if None not in ends and ends[0] != ends[1]:
        return low, high
    half = ew.mul(convert(ew.eq(low, high), FLOAT64), np.float64(0.5))
    return ew.sub(convert(low, FLOAT64), half), ew.add(convert(high, FLOAT64), half)


def _bin_of(x: Value, edges: Value) -> tuple[Value, Value]:
    """The number of the bin of each value, and whether there is one; the last one is closed."""
    n = edges.shape[0] - 1
    place = ew.sub(*broadcast((searchsorted(edges, x, side="right"), np.int64(1))))
    first, last = (take(edges, np.int64(i)) for i in (0, n))
    points, low, high = promote((x, first, last))
    at_end = ew.eq(*broadcast((points, high)))
    place = ew.select(*broadcast((at_end, np.int64(n - 1), place)))
    inside = ew.and_(ew.ge(*broadcast((points, low))), ew.le(*broadcast((points, high))))
    return broadcast_to(place, shape_of(x)), inside


def _fill(place: Value, inside: Value, weights: ArrayLike | None, count: int) -> Value:
    """Counts, or sums of weights, of numbered bins."""
    place = ew.select(inside, place, np.int64(count))
    w: Value = np.ones(shape_of(place), INT64) if weights is None else ravel(weights)
    if w.shape != place.shape:
        raise ArgumentError("weights should have the same shape as a.")
    return ix.scatter(np.zeros(count, w.dtype), (place,), w, (0,), "add")


@implements("histogram_bin_edges")
def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike | str = 10,
    range: tuple[float, float] | None = None,
    weights: ArrayLike | None = None,
) -> Value:
    """The edges that `histogram` would use."""
    x = ravel(a)
    if isinstance(bins, str):
        return np.histogram_bin_edges(known_array(x, "histogram_bin_edges"), bins, range)
    return _edges(x, bins, range, "histogram_bin_edges")


@implements("histogram")
def histogram(
    a: ArrayLike,
    bins: ArrayLike | str = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Value, Value]:
    """Counts, or sums of weights, of values in bins; the number of bins is known."""
    x = ravel(a)
    x = convert(x, np.dtype(np.uint8)) if x.dtype.kind == "b" else x
    edges = histogram_bin_edges(x, bins, range)
    place, inside = _bin_of(x, edges)
    counts = _fill(place, inside, weights, edges.shape[0] - 1)
    if density:
        widths = convert(as_array(diff(edges)), FLOAT64)
        counts = np.divide(np.divide(counts, widths), rs.sum_(counts))
    return counts, edges


@implements("histogramdd")
def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike | str = 10,
    range: Sequence[tuple[float, float] | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Value, tuple[Value, ...]]:
    """Counts of points in boxes; `sample` has points as rows, or is a list of coordinates."""
    columns = _columns(sample)
    dim = len(columns)
    if not dim:
        raise ArgumentError("histogramdd takes points with one coordinate or more")
    each = _for_each(bins, dim)
    ranges = [None] * dim if range is None else list(range)
    if len(ranges) != dim:
        raise ArgumentError("range argument must have one entry per dimension")
    edges = [
        _edges_of(x, b, r, i) for i, (x, b, r) in enumerate(zip(columns, each, ranges, strict=True))
    ]
    shape = tuple([e.shape[0] - 1 for e in edges])
    flat: Value = np.zeros(shape_of(columns[0]), INT64)
    inside: Value = np.ones(shape_of(columns[0]), bool)
    for x, e, n in zip(columns, edges, shape, strict=True):
        place, fits = _bin_of(x, e)
        flat = ew.add(ew.mul(flat, np.int64(n)), place)
        inside = ew.and_(inside, fits)
    total = reshape(_fill(flat, inside, weights, math.prod(shape)), shape)
    total = convert(total, FLOAT64) if total.dtype.kind in "biuf" else total
    if density:
        whole = rs.sum_(total)
        for i, e in enumerate(edges):
            line = tuple([n if k == i else 1 for k, n in enumerate(shape)])
            total = np.divide(total, reshape(as_array(diff(e)), line))
        total = np.divide(total, whole)
    elif isinstance(total, Tracer):  # NumPy's is a part of an array that counts outliers too
        memory_of(total).layout = np.empty([n + 2 for n in shape])[(slice(1, -1),) * dim]
    return total, tuple(edges)


def _columns(sample: ArrayLike) -> list[Value]:
    if isinstance(sample, (list, tuple)):
        numbers = not any([shape_of(as_array(x)) for x in sample])
        return [np.stack(sample)] if numbers else [ravel(x) for x in sample]
    x = as_array(sample)
    if len(x.shape) == 1:
        return [x]
    if len(x.shape) != 2:
        raise ShapeError("histogramdd takes points as the rows of a matrix.")
    return [x[:, i] for i in np.arange(x.shape[1]).tolist()]


def _for_each(bins: Any, dim: int) -> Sequence[ArrayLike]:
    """The bins of each dimension."""
    if isinstance(bins, (list, tuple)) or shape_of(as_array(bins)):
        if len(bins) != dim:
            raise ArgumentError(
                "The dimension of bins must be equal to the dimension of the sample x."
            )
        return list(bins)
    return [bins] * dim


def _edges_of(x: Value, bins: ArrayLike | str, range: tuple[float, float] | None, i: int) -> Value:
    only_real("histogramdd", x)
    if shape_of(as_array(bins)):
        edges = as_array(bins)
        value = concrete(edges)
        if value is not None and np.any(value[:-1] > value[1:]):
            raise ArgumentError(f"`bins[{i}]` must be monotonically increasing, when an array")
        return edges
    low, high = _limits(x, range)
    kind = x.dtype if range is None and x.dtype.kind == "f" else None
    return linspace(low, high, known_array(bins, "histogramdd").item() + 1, dtype=kind)


@implements("histogram2d")
def histogram2d(
    x: Value,
    y: Value,
    bins: Any = 10,
    range: Sequence[tuple[float, float] | None] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Value, Value, Value]:
    """Counts of points in rectangles, and the edges along x and y."""
    if shape_of(as_operand(x)) != shape_of(as_operand(y)):
        raise ArgumentError("x and y must have the same length.")
    if isinstance(bins, (list, tuple)) or shape_of(as_operand(bins)):
        count = len(bins)
        bins = [bins, bins] if count not in (1, 2) else bins
    total, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return total, first, second
