"""L7. Moments and other summaries of samples, as `scipy.stats` has them: compositions of NumPy's.

What omits NaN (`nan_policy`) depends on values, and is refused for traced numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.scipy import special as sp
from fgrad.scipy._either import either, refusal
from fgrad.scipy.stats.operands import joined, kept, places_of
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, P, PyTree, R

plain = lazy_module("scipy.stats")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


class Samples:
    """Samples with their axes as one, which is last, and the shape that a summary of them has."""

    def __init__(
        self, name: str, a: ArrayLike, axis: Axis, nan_policy: str, keepdims: bool = False
    ) -> None:
        if nan_policy != "propagate":
            what = f"scipy.stats.{name} with nan_policy={nan_policy!r}"
            raise refusal(what, "which numbers are NaN depends on values.", f"{name}(a)")
        x = inexact(as_operand(a))
        if x.dtype.kind == "c":
            raise DtypeError(f"scipy.stats.{name} takes real numbers, not {x.dtype}.", user_line())
        self.keepdims = keepdims
        self.axes = places_of(axis, len(x.shape))
        self.kept = kept(x.shape, self.axes)
        self.x = joined(x, self.axes)
        self.n = self.x.shape[-1]

    def placed(self, x: Value) -> Value:
        """A summary, with axes of length 1 if they are kept."""
        return np.reshape(x, self.kept) if self.keepdims else x

    def moment(self, order: int, center: Value | None = None) -> Value:
        middle = np.mean(self.x, axis=-1) if center is None else center
        return np.mean((self.x - middle[..., None]) ** order, axis=-1)


def aligned(arrays: Sequence[ArrayLike], axis: Axis) -> list[Value]:
    """Arrays with as many axes each, unless all axes are one: in front, as they broadcast."""
    values = [as_operand(a) for a in arrays]
    most = max([len(v.shape) for v in values])
    if axis is None:
        return values
    return [np.reshape(v, (1,) * (most - len(v.shape)) + v.shape) for v in values]


@_either
def moment(
    a: ArrayLike,
    order: int = 1,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    *,
    center: ArrayLike | None = None,
    keepdims: bool = False,
) -> Value:
    """The mean of a power of the distances to the mean, or to `center`.

    Arguments:
        order: the power, an integer.
        center: what the distances are to; the mean if None.

    Raises:
        ArgumentError: the order is no natural number.

    Example:
        >>> float(moment(np.array([1.0, 3.0]), 2))
        1.0
    """
    s = Samples("moment", a, axis, nan_policy, keepdims)
    if np.ndim(order) or int(order) != order or order < 0:
        raise ArgumentError(f"scipy.stats.moment: order={order!r}.", user_line())
    given = None if center is None else np.broadcast_to(as_operand(center), s.x.shape[:-1])
    return s.placed(s.moment(int(order), given))


def _divided(a: Value, b: Value, small: Value) -> Value:
    """a / b, and NaN where the samples are equal."""
    return np.where(small, np.nan, a / np.where(small, 1.0, b))


def _equal(s: Samples) -> Value:
    eps = float(np.finfo(s.x.dtype).eps)
    return s.moment(2) <= (eps * np.mean(s.x, axis=-1)) ** 2


@_either
def skew(
    a: ArrayLike,
    axis: Axis = 0,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The skewness of samples: the third moment in units of the deviation.

    Example:
        >>> float(skew(np.array([1.0, 2.0, 3.0])))
        0.0
    """
    s = Samples("skew", a, axis, nan_policy, keepdims)
    found = _divided(s.moment(3), s.moment(2) ** 1.5, _equal(s))
    if not bias and s.n > 2:
        found = np.sqrt((s.n - 1.0) * s.n) / (s.n - 2.0) * found
    return s.placed(found)


@_either
def kurtosis(
    a: ArrayLike,
    axis: Axis = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The fourth moment in units of the deviation, less 3 with `fisher`.

    Arguments:
        fisher: whether that of the normal distribution is 0.

    Example:
        >>> float(kurtosis(np.array([1.0, 3.0])))
        -2.0
    """
    s = Samples("kurtosis", a, axis, nan_policy, keepdims)
    found = _divided(s.moment(4), s.moment(2) ** 2.0, _equal(s))
    if not bias and s.n > 3:
        n = float(s.n)
        found = ((n * n - 1.0) * found - 3.0 * (n - 1.0) ** 2.0) / (n - 2.0) / (n - 3.0) + 3.0
    return s.placed(found - 3.0 if fisher else found)


@_either
def variation(
    a: ArrayLike,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    ddof: int = 0,
    *,
    keepdims: bool = False,
) -> Value:
    """The deviation in units of the mean.

    Example:
        >>> float(variation(np.array([1.0, 3.0])))
        0.5
    """
    s = Samples("variation", a, axis, nan_policy, keepdims)
    return s.placed(np.std(s.x, axis=-1, ddof=ddof) / np.mean(s.x, axis=-1))


@_either
def zmap(
    scores: ArrayLike,
    compare: ArrayLike,
    axis: Axis = 0,
    ddof: int = 0,
    nan_policy: str = "propagate",
) -> Value:
    """The distances of scores to the mean of other samples, in units of their deviation.

    Arguments:
        scores: the numbers.
        compare: the other samples.

    Example:
        >>> zmap(np.array([4.0]), np.array([1.0, 3.0]))
        array([2.])
    """
    s = Samples("zmap", compare, axis, nan_policy, True)
    middle = s.placed(np.mean(s.x, axis=-1))
    spread = s.placed(np.std(s.x, axis=-1, ddof=ddof))
    return (inexact(as_operand(scores)) - middle) / np.where(spread == 0, np.nan, spread)


@_either
def zscore(a: ArrayLike, axis: Axis = 0, ddof: int = 0, nan_policy: str = "propagate") -> Value:
    """The distances of samples to their mean, in units of their deviation.

    Example:
        >>> zscore(np.array([1.0, 3.0]))
        array([-1.,  1.])
    """
    return zmap(a, a, axis, ddof, nan_policy)


@_either
def gzscore(a: ArrayLike, *, axis: Axis = 0, ddof: int = 0, nan_policy: str = "propagate") -> Value:
    """`zscore` of the logarithms.

    Example:
        >>> gzscore(np.array([1.0, 3.0]))
        array([-1.,  1.])
    """
    return zscore(np.log(inexact(as_operand(a))), axis, ddof, nan_policy)


@_either
def gstd(
    a: ArrayLike,
    axis: Axis = 0,
    ddof: int = 1,
    *,
    keepdims: bool = False,
    nan_policy: str = "propagate",
) -> Value:
    """The geometric standard deviation: exp of the deviation of the logarithms.

    Example:
        >>> float(gstd(np.array([1.0, 1.0])))
        1.0
    """
    s = Samples("gstd", a, axis, nan_policy, keepdims)
    return s.placed(np.exp(np.std(np.log(s.x), axis=-1, ddof=ddof)))


@_either
def pmean(
    a: ArrayLike,
    p: ArrayLike,
    *,
    axis: Axis = 0,
    dtype: None = None,
    weights: ArrayLike | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The power mean of positive samples; of power 0 the geometric one.

    Arguments:
        p: the power.

    Example:
        >>> float(pmean(np.array([3.0, 3.0]), 2.0))
        3.0
    """
    if dtype is not None:
        raise refusal("scipy.stats.pmean with dtype", "it has no traced form.", "a.astype(dtype)")
    s = Samples("pmean", a, axis, nan_policy, keepdims)
    geometric = not hasattr(p, "builder") and p == 0
    powers = np.log(s.x) if geometric else s.x**p
    if weights is None:
        mean = np.mean(powers, axis=-1)
    else:
        given = inexact(as_operand(weights))
        if len(given.shape) > 1:
            given = joined(given, s.axes)
        mean = np.sum(powers * given, axis=-1) / np.sum(np.broadcast_to(given, powers.shape), -1)
    found = np.exp(mean) if geometric else mean ** (1.0 / as_operand(p))
    below = np.any(s.x < 0, axis=-1)  # where SciPy has no mean either
    return s.placed(np.where(below, np.asarray(np.nan, found.dtype), found)[()])


@_either
def gmean(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: None = None,
    weights: ArrayLike | None = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The geometric mean.

    Example:
        >>> float(gmean(np.array([1.0, 4.0])))
        2.0
    """
    return pmean(
        a, 0, axis=axis, dtype=dtype, weights=weights, nan_policy=nan_policy, keepdims=keepdims
    )


@_either
def hmean(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: None = None,
    *,
    weights: ArrayLike | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The harmonic mean.

    Example:
        >>> float(hmean(np.array([2.0, 2.0])))
        2.0
    """
    return pmean(
        a, -1.0, axis=axis, dtype=dtype, weights=weights, nan_policy=nan_policy, keepdims=keepdims
    )


@_either
def iqr(
    x: ArrayLike,
    axis: Axis = None,
    rng: tuple[float, float] = (25, 75),
    scale: float = 1.0,
    nan_policy: str = "propagate",
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Value:
    """The distance between two percentiles.

    Arguments:
        rng: the percentiles.
        scale: a number by which it is divided.
        interpolation: as `method` of `np.percentile`.

    Example:
        >>> float(iqr(np.array([0.0, 1.0, 2.0, 3.0, 4.0])))
        2.0
    """
    if isinstance(scale, str):
        raise refusal(f"scipy.stats.iqr with scale={scale!r}", "it is a number.", "scale=1.349")
    s = Samples("iqr", x, axis, nan_policy, keepdims)
    low, high = np.percentile(s.x, np.array(rng), axis=-1, method=interpolation)  # type: ignore[call-overload]
    return s.placed(((high - low) / scale).astype(s.x.dtype))


@_either
def trim_mean(
    a: ArrayLike,
    proportiontocut: float,
    axis: Axis = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The mean without a share of the least and of the greatest.

    Arguments:
        proportiontocut: the share at each end.

    Raises:
        ValueError: nothing is left.

    Example:
        >>> float(trim_mean(np.array([0.0, 1.0, 2.0, 90.0]), 0.25))
        1.5
    """
    s = Samples("trim_mean", a, axis, nan_policy, keepdims)
    cut = int(proportiontocut * s.n)
    if s.n and 2 * cut >= s.n:
        raise ValueError("Proportion too big.")
    middle = np.mean(np.sort(s.x, axis=-1)[..., cut : s.n - cut], axis=-1)
    missing = np.any(np.isnan(s.x), axis=-1)  # which are among the greatest
    return s.placed(np.where(missing, np.nan, middle))


@_either
def median_abs_deviation(
    x: ArrayLike,
    axis: Axis = 0,
    center: None = None,
    scale: float | str = 1.0,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The median of the distances to the median.

    Arguments:
        center: as in SciPy, of plain arrays alone.
        scale: by what it is divided; "normal" for the deviation of normal samples.

    Example:
        >>> float(median_abs_deviation(np.array([0.0, 1.0, 2.0])))
        1.0
    """
    if center is not None:
        what = "scipy.stats.median_abs_deviation with center"
        raise refusal(what, "it has no traced form.", "np.median(np.abs(x - center))")
    s = Samples("median_abs_deviation", x, axis, nan_policy, keepdims)
    unit = 0.6744897501960817 if scale == "normal" else scale
    middle = np.median(s.x, axis=-1)[..., None]
    return s.placed(np.median(np.abs(s.x - middle), axis=-1) / unit)


@_either
def entropy(
    pk: ArrayLike,
    qk: ArrayLike | None = None,
    base: ArrayLike | None = None,
    axis: Axis = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Value:
    """The entropy of probabilities, or with `qk` their relative entropy; both are normalised.

    Arguments:
        pk, qk: probabilities.
        base: of the logarithm; e if None.

    Example:
        >>> float(entropy(np.array([1.0, 1.0]), base=2.0))
        1.0
    """
    s = Samples("entropy", pk, axis, nan_policy, keepdims)
    p = s.x / np.sum(s.x, axis=-1, keepdims=True)
    if qk is None:
        terms = sp.entr(p)
    else:
        q = Samples("entropy", qk, axis, nan_policy).x
        terms = sp.rel_entr(p, q / np.sum(q, axis=-1, keepdims=True))
    total = np.sum(terms, axis=-1)
    return s.placed(total if base is None else total / np.log(base))


class Description(NamedTuple):
    """What `describe` returns inside of a transform."""

    nobs: int
    minmax: tuple[Value, Value]
    mean: Value
    variance: Value
    skewness: Value
    kurtosis: Value


@_either
def describe(
    a: ArrayLike,
    axis: Axis = 0,
    ddof: int = 1,
    bias: bool = True,
    nan_policy: str = "propagate",
) -> PyTree:
    """The number, the range, the mean, the variance, the skewness and the kurtosis of samples.

    Raises:
        ShapeError: there are no samples.

    Example:
        >>> float(describe(np.array([1.0, 3.0])).mean)
        2.0
    """
    s = Samples("describe", a, axis, nan_policy)
    if 0 in s.x.shape:
        raise ShapeError("scipy.stats.describe: there are no samples.", user_line())
    ends = np.min(s.x, axis=-1), np.max(s.x, axis=-1)
    mean, spread = np.mean(s.x, axis=-1), np.var(s.x, axis=-1, ddof=ddof)
    third, fourth = skew(s.x, -1, bias), kurtosis(s.x, -1, True, bias)
    return Description(int(s.n), ends, mean, spread, third, fourth)
