"""L7. Lines through samples by medians of the slopes of pairs, as `scipy.stats` has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ShapeError
from fgrad.numpy.promote import user_line
from fgrad.numpy.selection import take_along_axis
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import check_choice, either
from fgrad.scipy.stats.summaries import Samples
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, P, PyTree, R

plain = lazy_module("scipy.stats")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


class TheilLine(NamedTuple):
    """What `theilslopes` returns inside of a transform."""

    slope: Value
    intercept: Value
    low_slope: Value
    high_slope: Value


class SiegelLine(NamedTuple):
    """What `siegelslopes` returns inside of a transform."""

    slope: Value
    intercept: Value


def _points(
    name: str, y: ArrayLike, x: ArrayLike | None, axis: Axis, policy: str, keepdims: bool
) -> tuple[Samples, Value, Value]:
    """The samples, y and x along the last axis."""
    s = Samples(name, y, axis, policy, keepdims)
    places = np.arange(float(s.n)) if x is None else Samples(name, x, axis, policy).x
    if places.shape[-1] != s.n or s.n < 2:
        raise ShapeError(f"scipy.stats.{name}: {places.shape[-1]} and {s.n} numbers.", user_line())
    shape = np.broadcast_shapes(s.x.shape, places.shape)
    return s, np.broadcast_to(s.x, shape), np.broadcast_to(places, shape).astype(s.x.dtype)


def _place(ordered: Value, k: Value) -> Value:
    """The k-th number of the last axis, NaN if there is none."""
    n = ordered.shape[-1]
    found = take_along_axis(ordered, np.clip(k, 0, n - 1)[..., None], axis=-1)[..., 0]
    return np.where(np.isinf(found), np.nan, found)


def _first(values: Value, counts: Value) -> tuple[Value, Value]:
    """Values in ascending order, those that count first, and how many do."""
    ordered = np.sort(np.where(counts, values, np.inf), axis=-1)
    return ordered, np.sum(counts, axis=-1)


def _median(values: Value, counts: Value) -> Value:
    """The median of the values that count."""
    ordered, n = _first(values, counts)
    middle = (_place(ordered, (n - 1) // 2) + _place(ordered, n // 2)) / 2
    missing = np.any(np.isnan(values) & counts, axis=-1)
    return np.where(missing | (n == 0), np.nan, middle)


def _repeats(x: Value) -> Value:
    """The sum of k (k - 1) (2 k + 5) over groups of k equal numbers."""
    equal = stop_gradient(x)[..., :, None] == stop_gradient(x)[..., None, :]
    k = np.sum(equal, axis=-1)
    return np.sum((k - 1) * (2 * k + 5), axis=-1)


@_either
def theilslopes(
    y: ArrayLike,
    x: ArrayLike | None = None,
    alpha: float = 0.95,
    method: str = "separate",
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> PyTree:
    """The line whose slope is the median of the slopes of all pairs of points.

    Arguments:
        alpha: the confidence of the interval of slopes.
        method: "separate": the intercept is median(y) - slope median(x), or "joint": it is
            median(y - slope x).

    Raises:
        ShapeError: there are fewer than 2 points, or unequally many x and y.

    Example:
        >>> float(theilslopes(np.array([0.0, 2.0, 4.0, 90.0])).slope)
        16.0
    """
    check_choice("scipy.stats.theilslopes", "method", method, ("joint", "separate"))
    s, v, u = _points("theilslopes", y, x, axis, nan_policy, keepdims)
    dx = u[..., :, None] - u[..., None, :]
    dy = v[..., :, None] - v[..., None, :]
    shape = (*v.shape[:-1], s.n * s.n)
    rising = np.reshape(dx > 0, shape)
    slopes = np.reshape(dy / np.where(dx > 0, dx, 1.0), shape)
    slope = _median(slopes, rising)
    if method == "joint":
        intercept = np.median(v - slope[..., None] * u, axis=-1)
    else:
        intercept = np.median(v, axis=-1) - slope * np.median(u, axis=-1)
    ordered, nt = _first(slopes, rising)
    z = float(plain.norm.ppf(min(alpha, 1 - alpha) / 2.0))
    sigma = np.sqrt((s.n * (s.n - 1) * (2 * s.n + 5) - _repeats(u) - _repeats(v)) / 18.0)
    high = np.round((nt - z * sigma) / 2.0).astype(np.int64)
    low = np.round((nt + z * sigma) / 2.0).astype(np.int64) - 1
    ends = _place(ordered, np.maximum(low, 0)), _place(ordered, np.minimum(high, nt - 1))
    missing = np.any(np.isnan(u) | np.isnan(v), axis=-1)
    found = [np.where(missing, np.nan, value) for value in (slope, intercept, *ends)]
    return TheilLine(*[s.placed(value) for value in found])


@_either
def siegelslopes(
    y: ArrayLike,
    x: ArrayLike | None = None,
    method: str = "hierarchical",
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> PyTree:
    """The line whose slope is the median of medians of slopes, of each point to all others.

    Arguments:
        method: "hierarchical": the intercept is median(y - slope x), or "separate": it is the
            median of medians of intercepts.

    Raises:
        ShapeError: there are fewer than 2 points, or unequally many x and y.

    Example:
        >>> float(siegelslopes(np.array([0.0, 2.0, 4.0, 90.0])).slope)
        2.0
    """
    check_choice("scipy.stats.siegelslopes", "method", method, ("hierarchical", "separate"))
    s, v, u = _points("siegelslopes", y, x, axis, nan_policy, keepdims)
    dx = u[..., :, None] - u[..., None, :]
    dy = v[..., :, None] - v[..., None, :]
    apart = dx != 0
    run = np.where(apart, dx, 1.0)
    slope = np.median(_median(dy / run, apart), axis=-1)
    if method == "separate":
        crossed = v[..., None, :] * u[..., :, None] - v[..., :, None] * u[..., None, :]
        intercept = np.median(_median(crossed / run, apart), axis=-1)
    else:
        intercept = np.median(v - slope[..., None] * u, axis=-1)
    return SiegelLine(s.placed(slope), s.placed(intercept))
