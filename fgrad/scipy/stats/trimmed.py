"""L7. Summaries of samples between limits, without their ends, at shares, and by their order.

Which samples count is decided by their values, and constant between ties: derivatives are those of
the samples that count.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from types import EllipsisType

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, inexact, normalize_axis, user_line
from fgrad.numpy.selection import take_along_axis
from fgrad.ops.elementwise import lit, stop_gradient
from fgrad.scipy import special as sp
from fgrad.scipy._either import either, refusal
from fgrad.scipy.stats.operands import joined
from fgrad.scipy.stats.summaries import Samples
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, Axis, P, R

plain = lazy_module("scipy.stats")

Limits = tuple[float | None, float | None]


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _within(x: Value, limits: Limits | None, inclusive: tuple[bool, bool]) -> Value:
    """Whether numbers are between limits; NaN is, so that it reaches the result."""
    low, high = limits or (None, None)
    inside = np.ones(x.shape, bool)
    if low is not None:
        inside = inside & ~((x < low) if inclusive[0] else (x <= low))
    if high is not None:
        inside = inside & ~((x > high) if inclusive[1] else (x >= high))
    return inside


def _counted(inside: Value, like: Value) -> Value:
    return np.sum(inside, axis=-1).astype(like.dtype)


def _mean_of(x: Value, inside: Value) -> Value:
    n = _counted(inside, x)
    total = np.sum(np.where(inside, x, 0.0), axis=-1)
    return np.where(n > 0, total / np.where(n > 0, n, 1.0), np.nan)


@_either
def tmean(
    a: ArrayLike,
    limits: Limits | None = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Axis = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The mean of the samples between limits.

    Arguments:
        limits: the least and the greatest number that count; None for no limit.
        inclusive: whether the limits themselves count.

    Example:
        >>> float(tmean(np.array([1.0, 3.0, 90.0]), (None, 10.0)))
        2.0
    """
    s = Samples("tmean", a, axis, nan_policy, keepdims)
    return s.placed(_mean_of(s.x, _within(s.x, limits, inclusive)))


def _variance(s: Samples, inside: Value, ddof: int) -> Value:
    n = _counted(inside, s.x) - ddof
    away = np.where(inside, s.x - _mean_of(s.x, inside)[..., None], 0.0)
    return np.where(n > 0, np.sum(away * away, axis=-1) / np.where(n > 0, n, 1.0), np.nan)


@_either
def tvar(
    a: ArrayLike,
    limits: Limits | None = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Axis = 0,
    ddof: int = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The variance of the samples between limits; the arguments are those of `tmean`.

    Example:
        >>> float(tvar(np.array([1.0, 3.0, 90.0]), (None, 10.0)))
        2.0
    """
    s = Samples("tvar", a, axis, nan_policy, keepdims)
    return s.placed(_variance(s, _within(s.x, limits, inclusive), ddof))


@_either
def tstd(
    a: ArrayLike,
    limits: Limits | None = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Axis = 0,
    ddof: int = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The deviation of the samples between limits; the arguments are those of `tmean`.

    Example:
        >>> float(tstd(np.array([1.0, 5.0, 90.0]), (None, 10.0), ddof=0))
        2.0
    """
    s = Samples("tstd", a, axis, nan_policy, keepdims)
    return s.placed(np.sqrt(_variance(s, _within(s.x, limits, inclusive), ddof)))


@_either
def tsem(
    a: ArrayLike,
    limits: Limits | None = None,
    inclusive: tuple[bool, bool] = (True, True),
    axis: Axis = 0,
    ddof: int = 1,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The standard error of the mean of the samples between limits; as `tmean`.

    Example:
        >>> float(tsem(np.array([1.0, 3.0, 90.0]), (None, 10.0)))
        1.0
    """
    s = Samples("tsem", a, axis, nan_policy, keepdims)
    inside = _within(s.x, limits, inclusive)
    return s.placed(np.sqrt(_variance(s, inside, ddof) / _counted(inside, s.x)))


def _extreme(s: Samples, limits: Limits, inclusive: bool, sign: int) -> Value:
    """The greatest sample between limits, or the least with sign = -1; NaN if there is none."""
    inside = _within(s.x, limits, (inclusive, inclusive))
    kept = np.where(inside, s.x, -sign * math.inf)
    found = np.max(kept, axis=-1) if sign > 0 else np.min(kept, axis=-1)
    return s.placed(np.where(np.any(inside, axis=-1), found, np.nan))


@_either
def tmin(
    a: ArrayLike,
    lowerlimit: float | None = None,
    axis: Axis = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The least sample that is not below a limit.

    Arguments:
        lowerlimit: the limit; None for none.
        inclusive: whether the limit itself counts.

    Example:
        >>> float(tmin(np.array([-9.0, 1.0, 3.0]), 0.0))
        1.0
    """
    s = Samples("tmin", a, axis, nan_policy, keepdims)
    return _extreme(s, (lowerlimit, None), inclusive, -1)


@_either
def tmax(
    a: ArrayLike,
    upperlimit: float | None = None,
    axis: Axis = 0,
    inclusive: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The greatest sample that is not above a limit.

    Arguments:
        upperlimit: the limit; None for none.
        inclusive: whether the limit itself counts.

    Example:
        >>> float(tmax(np.array([9.0, 1.0, 3.0]), 5.0))
        3.0
    """
    s = Samples("tmax", a, axis, nan_policy, keepdims)
    return _extreme(s, (None, upperlimit), inclusive, 1)


def _sorted_part(a: ArrayLike, axis: int | None, low: float, high: float) -> Value:
    """Numbers in ascending order along an axis, without shares of them at both ends."""
    x = as_operand(a)
    place = 0 if axis is None else normalize_axis(axis, len(x.shape))
    ordered = moveaxis(np.sort(np.ravel(x) if axis is None else x, axis=place), place, -1)
    n = ordered.shape[-1]
    first, last = int(low * n), n - int(high * n)
    if first >= last and n:
        raise ShapeError("Proportion too big: nothing is left.", user_line())
    return moveaxis(ordered[..., first:last], -1, place)


@_either
def trim1(a: ArrayLike, proportiontocut: float, tail: str = "right", axis: int | None = 0) -> Value:
    """The samples without a share of the greatest, or of the least, in ascending order.

    Arguments:
        proportiontocut: the share.
        tail: "right" for the greatest, "left" for the least.

    Raises:
        ShapeError: nothing is left.

    Example:
        >>> trim1(np.array([3.0, 1.0]), 0.5)
        array([1.])
    """
    if tail.lower() not in ("left", "right"):
        raise ArgumentError(f"scipy.stats.trim1: tail={tail!r}.", user_line())
    cut = (0, proportiontocut) if tail.lower() == "right" else (proportiontocut, 0)
    return _sorted_part(a, axis, *cut)


@_either
def trimboth(a: ArrayLike, proportiontocut: float, axis: int | None = 0) -> Value:
    """The samples without a share of the least and of the greatest, in ascending order.

    Arguments:
        proportiontocut: the share at each end.

    Raises:
        ShapeError: nothing is left.

    Example:
        >>> trimboth(np.array([9.0, 2.0, 1.0]), 0.34)
        array([2.])
    """
    return _sorted_part(a, axis, proportiontocut, proportiontocut)


class Clipped(NamedTuple):
    """What `sigmaclip` returns inside of a transform."""

    clipped: Value
    lower: Value
    upper: Value


@_either
def sigmaclip(a: ArrayLike, low: float = 4.0, high: float = 4.0) -> Clipped:
    """The samples that are left when those far from the mean are removed until none is.

    Arguments:
        low, high: how far, in units of the deviation.

    Raises:
        UnsupportedNumpyError: the samples have no values, as under `jit`.

    Example:
        >>> float(sigmaclip(np.array([1.0, 2.0, 3.0, 90.0]), 1.5, 1.5).clipped.max())
        3.0
    """
    x = np.ravel(inexact(as_operand(a)))
    values = concrete(stop_gradient(x))
    if values is None:
        why = "how many samples are left depends on values."
        raise refusal("scipy.stats.sigmaclip", why, "scipy.stats.tmean(a, limits)")
    kept, past = np.arange(values.size), -1
    lower: Value = x
    upper: Value = x
    while len(kept) != past:
        past, rest = len(kept), x[kept]
        middle, spread = as_operand(np.mean(rest)), as_operand(np.std(rest))
        lower, upper = middle - low * spread, middle + high * spread
        ends = [concrete(stop_gradient(end)) for end in (lower, upper)]
        kept = kept[(values[kept] >= ends[0]) & (values[kept] <= ends[1])]
    return Clipped(x[kept], lower, upper)


# --- quantiles ------------------------------------------------------------------------------------


@_either
def scoreatpercentile(
    a: ArrayLike,
    per: float | Sequence[float],
    limit: tuple[float, float] | tuple[()] = (),
    interpolation_method: str = "fraction",
    axis: int | None = None,
) -> Value:
    """The samples at percentiles.

    Arguments:
        per: known numbers from 0 to 100.
        limit: as in SciPy, of plain arrays alone.
        interpolation_method: "fraction", "lower" or "higher".

    Raises:
        ValueError: a percentile is not from 0 to 100.

    Example:
        >>> float(scoreatpercentile(np.array([0.0, 1.0, 2.0]), 75))
        1.5
    """
    if limit:
        why = "which samples are between limits depends on values."
        raise refusal("scipy.stats.scoreatpercentile with limit", why, "np.nanpercentile(a, per)")
    ways = {"fraction": "linear", "lower": "lower", "higher": "higher"}
    if interpolation_method not in ways:
        raise ValueError(f"interpolation_method can only be {', '.join(map(repr, ways))}")
    if np.any((np.asarray(per) < 0) | (np.asarray(per) > 100)):
        raise ValueError("percentile must be in the range [0, 100]")
    x = inexact(as_operand(a))
    if 0 in x.shape:
        return np.full(np.shape(per), np.nan)
    return np.percentile(x, np.asarray(per), axis=axis, method=ways[interpolation_method])  # type: ignore[call-overload]


_OFFSETS: dict[str, Callable[[Value], Value | float]] = {
    "inverted_cdf": lambda p: 0.0, "averaged_inverted_cdf": lambda p: 0.0,
    "closest_observation": lambda p: -0.5, "interpolated_inverted_cdf": lambda p: 0.0,
    "hazen": lambda p: 0.5, "weibull": lambda p: p, "linear": lambda p: 1 - p,
    "median_unbiased": lambda p: p / 3 + 1 / 3, "normal_unbiased": lambda p: p / 4 + 3 / 8,
}  # fmt: skip
_ROUNDED: dict[str, tuple[Callable[[Value], Value], Callable[[Value], Value]]] = {
    "round_outward": (np.floor, np.ceil), "round_inward": (np.ceil, np.floor),
    "round_nearest": (np.round, np.round),
}  # fmt: skip


def _at_places(ordered: Value, places: Value) -> Value:
    last = ordered.shape[-1] - 1
    found = np.clip(stop_gradient(places), 0, last).astype(np.int64)
    return take_along_axis(ordered, found, axis=-1)


def _between_ranks(y: Value, p: Value, method: str) -> Value:
    """The families of Hyndman and Fan: (1 - g) y_j + g y_(j + 1) at p n + m = j + g."""
    place = p * y.shape[-1] + _OFFSETS[method](p)
    j = np.floor(place) - 1
    g = place - np.floor(place)
    if method == "inverted_cdf":
        g = np.where(g > 0, lit(g, 1), lit(g, 0))
    elif method == "averaged_inverted_cdf":
        g = np.where(g > 0, lit(g, 1), lit(g, 0.5))
    elif method == "closest_observation":
        g = np.where((g == 0) & (j % 2 == 1), lit(g, 0), lit(g, 1))
    g = np.where(j < 0, lit(g, 0), g)
    return (1 - g) * _at_places(y, j) + g * _at_places(y, j + 1)


def _harrell_davis(y: Value, p: Value) -> Value:
    """The expected order statistic: samples weighted by the mass of a beta distribution."""
    n = y.shape[-1]
    edges = np.arange(n + 1) / n
    q = p[..., None]
    mass = sp.betainc(q * (n + 1), (1 - q) * (n + 1), edges)
    weights = mass[..., 1:] - mass[..., :-1]
    return np.sum(np.where(np.isnan(weights), 0.0, weights) * y[..., None, :], axis=-1)


@_either
def quantile(
    x: ArrayLike,
    p: ArrayLike,
    *,
    method: str = "linear",
    axis: int | None = 0,
    nan_policy: str = "propagate",
    keepdims: bool | None = None,
    weights: None = None,
) -> Value:
    """The quantiles of samples at probabilities.

    Arguments:
        x: the samples.
        p: probabilities along the axis of the samples; other axes broadcast.
        method: SciPy's names, such as "linear", "hazen", "harrell-davis", "round_nearest".
        keepdims: whether the axis stays; by default if there are several probabilities along it.
        weights: as in SciPy, of plain arrays alone.

    Raises:
        ArgumentError: the method has no such name.
        ShapeError: the axis would go, but there are several probabilities.

    Example:
        >>> float(quantile(np.array([0.0, 1.0, 2.0]), 0.75))
        1.5
    """
    if weights is not None or nan_policy != "propagate":
        what = "scipy.stats.quantile with weights or nan_policy"
        raise refusal(what, "it has no traced form.", "quantile(x, p)")
    known = (*_OFFSETS, *_ROUNDED, "harrell-davis")
    if method not in known:
        rows = (*user_line(), ("write", " or ".join(map(repr, known))))
        raise ArgumentError(f"scipy.stats.quantile: method={method!r}.", rows)
    y, q = inexact(as_operand(x)), inexact(as_operand(p))
    ndim = max(len(y.shape), len(q.shape))
    if axis is None:
        y, q = np.ravel(y), np.ravel(q)
    wide = max(len(y.shape), len(q.shape), 1)
    y, q = [np.reshape(v, (1,) * (wide - len(v.shape)) + v.shape) for v in (y, q)]
    place = 0 if axis is None else normalize_axis(axis, wide)
    y, q = moveaxis(np.sort(y, axis=place), place, -1), moveaxis(q, place, -1)
    if keepdims is False and q.shape[-1] != 1:
        raise ShapeError("`keepdims` may be False only for one `p` along `axis`.", user_line())
    shape = np.broadcast_shapes(y.shape[:-1], q.shape[:-1])
    y, q = np.broadcast_to(y, (*shape, y.shape[-1])), np.broadcast_to(q, (*shape, q.shape[-1]))
    found = _quantiles(y, q, method)
    if not (q.shape[-1] != 1 if keepdims is None else keepdims):
        return found[..., 0]
    if axis is None:
        return np.reshape(found, (1,) * (ndim - 1) + found.shape)
    return moveaxis(found, -1, place)


def _quantiles(y: Value, q: Value, method: str) -> Value:
    """Quantiles along the last axis of samples in ascending order."""
    if not y.shape[-1]:
        return np.full(q.shape, np.nan)
    possible = (q >= 0) & (q <= 1)
    p = np.where(possible, q, lit(q, 0.5))
    if method in _OFFSETS:
        found = _between_ranks(y, p, method)
    elif method == "harrell-davis":
        found = _harrell_davis(y, p)
    else:
        left, right = _ROUNDED[method]
        n = y.shape[-1]
        found = _at_places(y, np.where(p < 0.5, left(p * n), right(n * p - 1)))
    missing = np.any(np.isnan(y), axis=-1, keepdims=True)
    return np.where(possible & ~missing, found, np.nan)


@functools.cache
def _usual_axis() -> int | None:
    """The axis of `expectile` without one: 0 in SciPy 1.18, whatever its signature says."""
    return 0 if np.ndim(plain.expectile(np.zeros((1, 2)))) else None


@_either
def expectile(
    a: ArrayLike,
    alpha: ArrayLike = 0.5,
    *,
    weights: ArrayLike | None = None,
    axis: Axis | EllipsisType = ...,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The number t with sum w |(a <= t) - alpha| (t - a) = 0: of alpha = 1/2 the mean.

    Arguments:
        a: real numbers.
        alpha: from 0 to 1.
        axis: that of the samples; without one as in the SciPy that is installed: 0 since 1.18, all
            axes before.

    Raises:
        ShapeError: there is no sample.

    Example:
        >>> float(expectile(np.array([1.0, 3.0])))
        2.0
    """
    a = as_operand(a)
    place = axis if axis is not ... else _usual_axis() if a.shape else None
    s = Samples("expectile", a, place, nan_policy, keepdims)
    x = s.x
    if not s.n:
        raise ShapeError("scipy.stats.expectile: there is no sample.", user_line())
    w = np.ones_like(x) if weights is None else joined(np.broadcast_to(weights, a.shape), s.axes)
    order = np.argsort(stop_gradient(x), axis=-1)
    y, v = [take_along_axis(stop_gradient(z), order, axis=-1) for z in (x, w)]
    level = as_operand(alpha)
    share = stop_gradient(level)
    below, first = np.cumsum(v, axis=-1), np.cumsum(v * y, axis=-1)
    above, second = below[..., -1:] - below, first[..., -1:] - first
    slope = (1 - share) * (below * y - first) + share * (above * y - second)
    reached = slope > 0  # where the root is below the sample
    count = np.sum(np.where(reached, 0, 1), axis=-1, keepdims=True)
    last = take_along_axis(y, np.clip(count - 1, 0, s.n - 1), axis=-1)
    weight = w * np.where(stop_gradient(x) <= last, 1 - level, level)
    return s.placed(np.sum(weight * x, axis=-1) / np.sum(weight, axis=-1))
