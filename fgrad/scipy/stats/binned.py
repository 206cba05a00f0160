"""L7. Statistics of values by bins of their places, as `scipy.stats` has them.

The bin of a value is constant between edges: statistics have derivatives in the values alone, and
the edges, where they are not given, those of the least and the greatest place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.numpy.selection import take
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import either, refusal
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, P, PyTree, R

plain = lazy_module("scipy.stats")

Range = Sequence[Sequence[float]] | None
_STATISTICS = ("mean", "std", "median", "count", "sum", "min", "max")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


class Binned(NamedTuple):
    """What `binned_statistic` returns inside of a transform."""

    statistic: Value
    bin_edges: Value
    binnumber: Value


class Binned2(NamedTuple):
    """What `binned_statistic_2d` returns inside of a transform."""

    statistic: Value
    x_edge: Value
    y_edge: Value
    binnumber: Value


class BinnedMany(NamedTuple):
    """What `binned_statistic_dd` returns inside of a transform."""

    statistic: Value
    bin_edges: list[Value]
    binnumber: Value


def _edges(places: Value, bins: ArrayLike, ends: Sequence[float] | None) -> Value:
    """The edges of bins along one axis of the places."""
    if np.ndim(bins):
        return inexact(as_operand(bins))
    low, high = (np.min(places), np.max(places)) if ends is None else map(as_operand, ends)
    same = low == high
    low, high = np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)
    share = np.arange(operator.index(bins) + 1) / operator.index(bins)  # type: ignore[arg-type]
    return np.where(share == 1, high, low + (high - low) * share.astype(places.dtype))


def _numbers(sample: Value, edges: Sequence[Value], expand: bool) -> Value:
    """The number of the bin of each place, by SciPy's rounding."""
    shape = (sample.shape[1], sample.shape[0]) if expand and len(edges) > 1 else sample.shape[:1]

    def call(sample: np.ndarray, *edges: np.ndarray) -> np.ndarray:
        given = [np.asarray(e, np.float64) for e in edges]
        found = plain.binned_statistic_dd(
            sample, np.zeros(len(sample)), "count", list(given), expand_binnumbers=expand
        )
        return np.asarray(found.binnumber, np.int64).reshape(shape)

    known = [stop_gradient(x) for x in (sample, *edges)]
    return pure_callback(call, Aval(shape, np.dtype(np.int64)), *known)


def _statistic(values: Value, numbers: Value, size: int, name: str) -> Value:
    """A statistic of the values (in the last axis) of each of `size` bins."""
    zeros = np.zeros(size, values.dtype)
    counts = at(zeros)[numbers].add(np.ones(values.shape[-1], values.dtype))
    lines = np.reshape(values, (-1, values.shape[-1]))
    full = counts > 0
    safe = np.where(full, counts, 1.0)
    if name == "count":
        found = [counts for _ in range(lines.shape[0])]
    elif name == "sum":
        found = [at(zeros)[numbers].add(line) for line in lines]
    elif name in ("mean", "std"):
        found = [_moment(line, numbers, zeros, safe, name == "std") for line in lines]
    else:
        found = [_ordered(line, numbers, counts, name) for line in lines]
    stacked = np.stack(found)
    return stacked if name in ("count", "sum") else np.where(full, stacked, np.nan)


def _moment(line: Value, numbers: Value, zeros: Value, safe: Value, spread: bool) -> Value:
    mean = at(zeros)[numbers].add(line) / safe
    if not spread:
        return mean
    away = line - take(mean, numbers)
    squares = at(zeros)[numbers].add(away * away) / safe
    some = squares > 0  # one value alone has no deviation, and no slope
    return np.where(some, np.sqrt(np.where(some, squares, 1.0)), 0.0)


def _ordered(line: Value, numbers: Value, counts: Value, name: str) -> Value:
    """The least, the greatest or the middle value of each bin."""
    order = np.argsort(stop_gradient(line), kind="stable")
    order = take(order, np.argsort(take(numbers, order), kind="stable"))
    n = counts.astype(np.int64)
    start = np.cumsum(n) - n
    last = line.shape[0] - 1
    middles = {"min": (0 * n, 0 * n), "max": (n - 1, n - 1), "median": ((n - 1) // 2, n // 2)}
    first, second = [take(line, take(order, np.clip(start + k, 0, last))) for k in middles[name]]
    return (first + second) / 2


def _by_bins(
    sample: Value, values: ArrayLike, statistic: object, bins: ArrayLike, ends: Range, expand: bool
) -> BinnedMany:
    named = {np.mean: "mean", np.std: "std", np.median: "median", np.sum: "sum", np.min: "min",
             np.max: "max"}  # fmt: skip
    name = named.get(statistic, statistic) if callable(statistic) else statistic
    if callable(name):
        why = "how many values a bin has depends on values."
        raise refusal("scipy.stats.binned_statistic of a function", why, " or ".join(_STATISTICS))
    if name not in _STATISTICS:
        raise ValueError(f"invalid statistic {statistic!r}")
    x = inexact(as_operand(values))
    dim = sample.shape[1]
    each = list(bins) if np.ndim(bins) or isinstance(bins, (list, tuple)) else [bins] * dim  # type: ignore[arg-type]
    if len(each) != dim or (ends is not None and len(ends) != dim):
        raise ShapeError(f"{len(each)} bins for {dim} axes.", user_line())
    if name != "count" and x.shape[-1:] != sample.shape[:1]:
        raise ShapeError(f"values of shape {x.shape} at {sample.shape[0]} places.", user_line())
    limits = [None] * dim if ends is None else ends
    edges = [_edges(sample[:, k], each[k], limits[k]) for k in range(dim)]
    shape = tuple([len(e) + 1 for e in edges])
    numbers = _numbers(sample, edges, False)
    if name == "count" and x.shape[-1] != sample.shape[0]:
        x = np.zeros(sample.shape[0])
    found = _statistic(x, numbers, int(np.prod(shape)), str(name))
    core = np.reshape(found, (-1, *shape))[(slice(None), *[slice(1, -1)] * dim)]
    shown = _numbers(sample, edges, True) if expand else numbers
    return BinnedMany(np.reshape(core, (*x.shape[:-1], *[n - 2 for n in shape])), edges, shown)


@_either
def binned_statistic(
    x: ArrayLike,
    values: ArrayLike,
    statistic: str = "mean",
    bins: ArrayLike = 10,
    range: tuple[float, float] | Range = None,
) -> PyTree:
    """A statistic of the values whose places are in the same interval.

    Arguments:
        x: the places.
        values: a value for each place, in the last axis.
        statistic: "mean", "std", "median", "count", "sum", "min" or "max".
        bins: how many intervals of equal length, or their edges.
        range: the ends of the first and the last interval; those of the places if None.

    Raises:
        ShapeError: there is no value for each place.
        ValueError: the statistic is none of those.

    Example:
        >>> places, values = np.array([0.0, 0.1, 1.0]), np.array([1.0, 3.0, 5.0])
        >>> binned_statistic(places, values, bins=2).statistic
        array([2., 5.])
    """
    given = [bins] if np.ndim(bins) else bins
    ends = [range] if range is not None and len(range) == 2 else range
    sample = inexact(as_operand(x))[:, None]
    found = _by_bins(sample, values, statistic, given, ends, False)  # type: ignore[arg-type]
    return Binned(found.statistic, found.bin_edges[0], found.binnumber)


@_either
def binned_statistic_2d(
    x: ArrayLike,
    y: ArrayLike,
    values: ArrayLike,
    statistic: str = "mean",
    bins: ArrayLike = 10,
    range: Range = None,
    expand_binnumbers: bool = False,
) -> PyTree:
    """`binned_statistic` of places in a plane.

    Arguments:
        x, y: the places.
        values, statistic: as of `binned_statistic`.
        bins: a number of intervals, edges of both axes, or a pair of those.
        range: a pair of ends for each axis.
        expand_binnumbers: whether numbers of bins are told for each axis.

    Raises:
        ShapeError: there is no value for each place.

    Example:
        >>> places = np.array([0.0, 1.0])
        >>> binned_statistic_2d(places, places, np.array([1.0, 3.0]), "sum", bins=2).statistic
        array([[1., 0.],
               [0., 3.]])
    """
    given: list[ArrayLike] = [bins, bins]
    if isinstance(bins, (list, tuple)) and len(bins) <= 2:
        given = list(bins) * (2 // len(bins))  # type: ignore[arg-type]
    elif np.ndim(bins) and len(bins) == 2:  # type: ignore[arg-type]
        given = list(bins)  # type: ignore[call-overload]
    sample = np.stack([inexact(as_operand(x)), inexact(as_operand(y))], axis=1)
    found = _by_bins(sample, values, statistic, given, range, expand_binnumbers)  # type: ignore[arg-type]
    along_x, along_y = found.bin_edges
    return Binned2(found.statistic, along_x, along_y, found.binnumber)


@_either
def binned_statistic_dd(
    sample: ArrayLike,
    values: ArrayLike,
    statistic: str = "mean",
    bins: ArrayLike = 10,
    range: Range = None,
    expand_binnumbers: bool = False,
    binned_statistic_result: None = None,
) -> PyTree:
    """`binned_statistic` of places in any space.

    Arguments:
        sample: the places in rows, or a list of their coordinates.
        values, statistic: as of `binned_statistic`.
        bins: a number of intervals, or for each axis a number or edges.
        range: a pair of ends for each axis.
        expand_binnumbers: whether numbers of bins are told for each axis.
        binned_statistic_result: as in SciPy, of plain arrays alone.

    Raises:
        ShapeError: there is no value for each place.

    Example:
        >>> places = np.array([[0.0], [1.0]])
        >>> binned_statistic_dd(places, np.array([1.0, 3.0]), "max", bins=2).statistic
        array([1., 3.])
    """
    if binned_statistic_result is not None:
        what = "scipy.stats.binned_statistic_dd with binned_statistic_result"
        raise refusal(what, "it has no traced form.", "bins=result.bin_edges")
    if isinstance(sample, (list, tuple)):
        places = np.stack([inexact(as_operand(x)) for x in sample], axis=1)
    else:
        places = inexact(as_operand(sample))
        places = places if len(places.shape) == 2 else places[:, None]
    return _by_bins(places, values, statistic, bins, range, expand_binnumbers)
