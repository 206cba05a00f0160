"""L7. Unbiased and linear moments, entropies of samples, directions, O'Brien's transform."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, inexact, normalize_axis, promote, user_line
from fgrad.scipy._either import either, refusal
from fgrad.scipy.stats.relations import Correlation, pearsonr
from fgrad.scipy.stats.summaries import Samples
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, P, PyTree, R

plain = lazy_module("scipy.stats")
scipy = lazy_module("scipy")
special = lazy_module("scipy.special")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _k_statistic(s: Samples, order: int) -> Value:
    n = s.n
    m = np.mean(s.x, axis=-1)
    if order == 1:
        return m
    m2 = s.moment(2)
    if order == 2:
        return m2 * n / (n - 1.0)
    if order == 3:
        return s.moment(3) * n * n / ((n - 1.0) * (n - 2.0))
    scale = n * n / ((n - 1.0) * (n - 2.0) * (n - 3.0))
    return scale * ((n + 1) * s.moment(4) - 3 * (n - 1) * m2 * m2)


@_either
def kstat(
    data: ArrayLike,
    n: int = 2,
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The unbiased estimate of a cumulant.

    Arguments:
        data: the samples.
        n: the order of the cumulant, 1 to 4.

    Raises:
        ValueError: the order is another one.

    Example:
        >>> float(kstat(np.array([1.0, 3.0])))
        2.0
    """
    if n not in (1, 2, 3, 4):
        raise ValueError("k-statistics only supported for 1<=n<=4")
    s = Samples("kstat", data, axis, nan_policy, keepdims)
    with np.errstate(all="ignore"):
        return s.placed(_k_statistic(s, int(n)) if s.n >= n else np.full(s.x.shape[:-1], np.nan))


@_either
def kstatvar(
    data: ArrayLike,
    n: int = 2,
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The unbiased estimate of the variance of `kstat`.

    Arguments:
        data: the samples.
        n: the order of the cumulant, 1 or 2.

    Raises:
        ValueError: the order is another one.

    Example:
        >>> float(kstatvar(np.array([1.0, 3.0]), 1))
        1.0
    """
    if n not in (1, 2):
        raise ValueError("Only n=1 or n=2 supported.")
    s = Samples("kstatvar", data, axis, nan_policy, keepdims)
    if s.n < (2 if n == 1 else 4):
        return s.placed(np.full(s.x.shape[:-1], np.nan))
    second = _k_statistic(s, 2)
    if n == 1:
        return s.placed(second / s.n)
    fourth = _k_statistic(s, 4)
    return s.placed((2 * s.n * second**2 + (s.n - 1) * fourth) / (s.n * (s.n + 1)))


@_either
def lmoment(
    sample: ArrayLike,
    order: int | Sequence[int] | None = None,
    *,
    axis: int = 0,
    sorted: bool = False,
    standardize: bool = True,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The linear moments of samples: sums of the ordered samples with known weights.

    Arguments:
        sample: the samples.
        order: one order from 1 on, or several; 1 to 4 if None.
        sorted: whether the samples are in ascending order.
        standardize: whether the third and the following are in units of the second.

    Raises:
        ValueError: an order is no positive integer.

    Example:
        >>> lmoment(np.array([1.0, 2.0, 3.0]), [1, 2])
        array([2.        , 0.66666667])
    """
    wanted = np.arange(1, 5) if order is None else np.asarray(order)
    if wanted.dtype.kind not in "iu" or wanted.ndim > 1 or not wanted.size or np.any(wanted < 1):
        raise ValueError("`order` must be a scalar or a non-empty array of positive integers.")
    s = Samples("lmoment", sample, axis, nan_policy, keepdims)
    ordered = s.x if sorted else np.sort(s.x, axis=-1)
    n, count = s.n, int(np.max(wanted))
    j, k = np.arange(n), np.arange(count)[:, None]
    binomials = special.binom(j, k) / special.binom(n - 1, k) / n  # samples to their averages
    binomials = np.where(k < n, binomials, 0.0)
    signs = (-1.0) ** (k - k.T) * special.binom(k, k.T) * special.binom(k + k.T, k.T)
    weights = (signs @ binomials).astype(s.x.dtype)
    moments = [np.sum(ordered * row, axis=-1) for row in weights]
    if standardize:
        moments = moments[:2] + [m / moments[1] for m in moments[2:]]
    moments = [m if i < n else np.full_like(m, np.nan) for i, m in enumerate(moments)]
    found = [s.placed(moments[i - 1]) for i in wanted.reshape(-1)]
    return np.stack(found) if wanted.ndim else found[0]


# --- entropy of samples ---------------------------------------------------------------------------


def _padded(x: Value, m: int) -> Value:
    ends = [np.broadcast_to(x[..., end], (*x.shape[:-1], m)) for end in (slice(1), slice(-1, None))]
    return np.concatenate([ends[0], x, ends[1]], axis=-1)


def _gaps(x: Value, m: int) -> Value:
    wide = _padded(x, m)
    return wide[..., 2 * m :] - wide[..., : -2 * m]


def _vasicek(x: Value, m: int) -> Value:
    return np.mean(np.log(x.shape[-1] / (2 * m) * _gaps(x, m)), axis=-1)


def _van_es(x: Value, m: int) -> Value:
    n = x.shape[-1]
    logs = np.sum(np.log((n + 1) / m * (x[..., m:] - x[..., :-m])), axis=-1) / (n - m)
    rest = float(np.sum(1 / np.arange(m, n + 1))) + math.log(m) - math.log(n + 1)
    return logs + rest


def _ebrahimi(x: Value, m: int) -> Value:
    n = x.shape[-1]
    i = np.arange(1, n + 1)
    c = np.where(i <= m, 1 + (i - 1) / m, np.where(i >= n - m + 1, 1 + (n - i) / m, 2.0))
    return np.mean(np.log(_gaps(x, m) * (n / (c * m)).astype(x.dtype)), axis=-1)


def _correa(x: Value, m: int) -> Value:
    n = x.shape[-1]
    step = np.arange(-m, m + 1)[:, None]
    near = _padded(x, m)[..., np.arange(1, n + 1) + step + m - 1]
    away = near - np.mean(near, axis=-2, keepdims=True)
    slope = np.sum(away * step.astype(x.dtype), axis=-2) / (n * np.sum(away * away, axis=-2))
    return -np.mean(np.log(slope), axis=-1)


_ENTROPIES = {"vasicek": _vasicek, "van es": _van_es, "ebrahimi": _ebrahimi, "correa": _correa}


@_either
def differential_entropy(
    values: ArrayLike,
    *,
    window_length: int | None = None,
    base: float | None = None,
    axis: int = 0,
    method: str = "auto",
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The entropy of the density that samples come from, estimated from their gaps.

    Arguments:
        values: the samples.
        window_length: over how many samples a gap goes; the root of their number if None.
        base: of the logarithm; e if None.
        method: "vasicek", "van es", "ebrahimi", "correa", or "auto": by their number.

    Raises:
        ValueError: the method, the base or the window length is none of those.

    Example:
        >>> float(differential_entropy(np.arange(8.0), method="vasicek").round(6))
        1.759208
    """
    s = Samples("differential_entropy", values, axis, nan_policy, keepdims)
    m = math.floor(math.sqrt(s.n) + 0.5) if window_length is None else window_length
    if not 2 <= 2 * m < s.n:
        raise ValueError(f"Window length ({m}) must be below half the sample size ({s.n}).")
    if base is not None and base <= 0:
        raise ValueError("`base` must be a positive number or `None`.")
    usual = "van es" if s.n <= 10 else "ebrahimi" if s.n <= 1000 else "vasicek"
    name = usual if method.lower() == "auto" else method.lower()
    if name not in _ENTROPIES:
        raise ValueError(f"`method` must be one of {sorted(_ENTROPIES)}")
    found = _ENTROPIES[name](np.sort(s.x, axis=-1), int(m))
    return s.placed(found if base is None else found / math.log(base))


# --- directions, groups ---------------------------------------------------------------------------


class DirectionalStats(NamedTuple):
    """What `directional_stats` returns inside of a transform."""

    mean_direction: Value
    mean_resultant_length: Value


@_either
def directional_stats(
    samples: ArrayLike, *, axis: int = 0, normalize: bool = True
) -> DirectionalStats:
    """The direction and the length of the mean of unit vectors.

    Arguments:
        samples: vectors in the last axis.
        normalize: whether the vectors are divided by their lengths first.

    Raises:
        ShapeError: the samples have fewer than two axes.

    Example:
        >>> directional_stats(np.array([[3.0, 0.0], [1.0, 0.0]])).mean_direction
        array([1., 0.])
    """
    x = inexact(as_operand(samples))
    if len(x.shape) < 2:
        raise ShapeError(f"samples must at least be two-dimensional, not {x.shape}.", user_line())
    x = moveaxis(x, normalize_axis(axis, len(x.shape)), 0)
    if normalize:
        x = x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    mean = np.mean(x, axis=0)
    length = np.sqrt(np.sum(mean * mean, axis=-1, keepdims=True))
    return DirectionalStats(mean / length, length[..., 0])


@_either
def obrientransform(*samples: ArrayLike, nan_policy: str = "propagate") -> PyTree:
    """Samples of several groups as numbers whose means are the variances of the groups: one array
    of them all, since SciPy 1.18 a tuple.

    Arguments:
        samples: the groups, before SciPy 1.18 of equal lengths.
        nan_policy: "propagate".

    Raises:
        UnsupportedNumpyError: the lengths are unequal, where one array is the result.

    Example:
        >>> obrientransform(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0]))[0]
        array([ 1.75, -0.5 ,  1.75])
    """
    if nan_policy != "propagate":
        why = "which numbers are NaN depends on values."
        raise refusal("scipy.stats.obrientransform", why, "obrientransform(a, b)")
    arrays, separate = promote([inexact(a) for a in samples]), at_least(scipy, 1, 18)
    if any([not a.shape for a in arrays]):
        raise ShapeError("scipy.stats.obrientransform: a number is no group.", user_line())
    if not separate and any([a.shape != arrays[0].shape for a in arrays]):
        why = "groups of unequal lengths make an array of objects."
        raise refusal("scipy.stats.obrientransform", why, "[obrientransform(a)[0] for a in groups]")
    found: list[Value] = []
    for a in arrays:
        n = math.prod(a.shape)
        squares = (a - np.mean(a)) ** 2
        total = np.sum(squares)
        found += [((n - 1.5) * n * squares - 0.5 * total) / ((n - 1) * (n - 2))]
    return tuple(found) if separate else np.stack(found)


@_either
def pointbiserialr(
    x: ArrayLike,
    y: ArrayLike,
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> PyTree:
    """The correlation of a condition and samples, as `pearsonr`.

    Arguments:
        x: Booleans, or numbers.

    Example:
        >>> float(pointbiserialr(np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 2.0]))[0].round(9))
        1.0
    """
    if nan_policy != "propagate":
        what = f"scipy.stats.pointbiserialr with nan_policy={nan_policy!r}"
        raise refusal(what, "which numbers are NaN depends on values.", "pointbiserialr(x, y)")
    found = pearsonr(x, y, axis=axis)
    if not keepdims:
        return found
    s = Samples("pointbiserialr", y, axis, nan_policy, True)
    return Correlation(s.placed(found.statistic), s.placed(found.pvalue))
