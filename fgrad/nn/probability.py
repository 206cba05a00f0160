"""L7. Probabilities and losses: softmax, logsumexp, one_hot, cross-entropies.

The largest element is subtracted as a constant: the functions do not depend on it, so derivatives
are exact.  An element -inf is masked: it has probability 0, and its derivative is 0, not NaN.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import INT64
from fgrad.numpy.promote import (
    Shape,
    as_array,
    broadcast,
    broadcast_shapes,
    broadcast_to,
    convert,
    inexact,
    normalize_axes,
    normalize_axis,
    promote,
    reshape,
    user_line,
    whole_count,
)
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops.elementwise import lit, select
from fgrad.ops.index import gather
from fgrad.ops.reduce import reduce_max, reduce_sum, spread
from fgrad.ops.shape import iota, move_axis
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, Axis, DTypeLike


def _masked(x: ArrayLike, where: ArrayLike | None) -> Value:
    """`x` with -inf where the mask is false."""
    x = inexact(x)
    if where is None:
        return x
    where = ew.convert(as_array(where), np.dtype(bool))
    shape = broadcast_shapes(x.shape, where.shape)
    return select(broadcast_to(where, shape), broadcast_to(x, shape), lit(x, -math.inf))


def _center(x: Value, axes: tuple[int, ...], at_inf: bool = True) -> Value:
    """The largest element along axes, as a constant; 0 where that is -inf, and `at_inf` inf.

    inf - inf is NaN, which is the softmax of a slice with inf; its logsumexp is inf.
    """
    if any(x.shape[a] == 0 for a in axes):
        kept = tuple([n for a, n in enumerate(x.shape) if a not in axes])
        return np.zeros(kept, x.dtype)[()]
    largest = reduce_max(ew.stop_gradient(x), axes)
    infinite = ew.isinf(largest) if at_inf else ew.eq(largest, lit(x, -np.inf))
    return select(infinite, lit(x, 0), largest)


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Value:
    """exp(x) / sum(exp(x)) along an axis.

    Arguments:
        x: an array; -inf has probability 0.
        axis: an axis, a tuple of axes, or None for all.
        where: a bool array that broadcasts with `x`: false elements have probability 0, and a slice
            that is false everywhere is 0 everywhere.

    Returns:
        Probabilities with the shape and dtype of `x`.  A slice of -inf alone (without `where`), or
        one with inf, is NaN.

    Example:
        >>> softmax(np.array([0.0, 0.0, -np.inf]))
        array([0.5, 0.5, 0. ])
    """
    x = _masked(x, where)
    axes = normalize_axes(axis, len(x.shape))
    powers = ew.exp(ew.sub(x, spread(_center(x, axes, False), x.shape, axes)))
    total = reduce_sum(powers, axes)
    if where is not None:
        total = select(ew.eq(total, lit(total, 0)), lit(total, 1), total)
    return ew.div(powers, spread(total, x.shape, axes))


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Value:
    """log(softmax(x)) = x - logsumexp(x) along an axis.

    Arguments:
        x: an array; -inf stays -inf; a slice with inf is NaN.
        axis: an axis, a tuple of axes, or None for all.
        where: a bool array that broadcasts with `x`; false elements become -inf.

    Example:
        >>> log_softmax(np.array([1000.0, 0.0]))
        array([    0., -1000.])
    """
    x = _masked(x, where)
    axes = normalize_axes(axis, len(x.shape))
    shifted = ew.sub(x, spread(_center(x, axes, False), x.shape, axes))
    total = reduce_sum(ew.exp(shifted), axes)
    if where is not None:
        total = select(ew.eq(total, lit(total, 0)), lit(total, 1), total)
    return ew.sub(shifted, spread(ew.log(total), x.shape, axes))


@overload
def logsumexp(
    x: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: ArrayLike | None = None,
) -> Value: ...
@overload
def logsumexp(
    x: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Value | tuple[Value, Value]: ...
@also_takes(aliases={"a": "x"})
def logsumexp(
    x: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Value | tuple[Value, Value]:
    """log(sum(b exp(x))) without overflow.

    Arguments:
        x: an array.
        axis: an axis, a tuple of axes, or None for all.
        b: weights that broadcast with `x`; where a weight is 0, `x` does not count, be it inf.
        keepdims: whether the axes stay, with length 1.
        return_sign: whether to return `(log(|s|), sign(s))` for the sum s; else the result is NaN
            where the sum is negative.
        where: a bool array that broadcasts with `x`: what counts.

    Returns:
        The logarithm, -inf for an empty sum, with derivative 0 there.

    Example:
        >>> logsumexp(np.array([1000.0, 1000.0]))
        np.float64(1000.6931471805599)
        >>> logsumexp(np.array([-np.inf, -np.inf]))
        np.float64(-inf)
    """
    x = _masked(x, where)
    if b is not None:
        x, b = promote([x, as_array(b)])
        shape = broadcast_shapes(x.shape, b.shape)
        x, b = broadcast_to(x, shape), broadcast_to(b, shape)
    axes = normalize_axes(axis, len(x.shape))
    counted = x if b is None else select(ew.eq(b, lit(b, 0)), lit(x, -math.inf), x)
    if cx.is_complex(x):
        return _log_complex_sum(x, counted, b, axes, keepdims, return_sign)
    center = _center(counted, axes)
    shifted = ew.sub(x, spread(center, x.shape, axes))
    total = reduce_sum(ew.exp(shifted) if b is None else _weighted(shifted, b), axes)
    log, sign = _log_abs(total), ew.sign(total)
    if b is not None and not return_sign:
        log = select(ew.lt(total, lit(total, 0)), lit(log, math.nan), log)
    result = ew.add(log, center)
    return _log_and_sign(result, sign, x.shape, axes, keepdims, return_sign)


def _log_complex_sum(
    x: Value, counted: Value, b: Value | None, axes: tuple[int, ...], keepdims: bool, signed: bool
) -> Value | tuple[Value, Value]:
    """log(sum(b exp(x))) of complex numbers, by their real parts; its sign is a unit."""
    center = _center(cx.real(counted), axes)
    powers = ew.exp(ew.sub(counted, convert(spread(center, x.shape, axes), x.dtype)))
    total = reduce_sum(powers if b is None else _masked_mul(b, powers), axes)
    zero = ew.eq(total, lit(total, 0))
    log = ew.log(select(zero, lit(total, 1), total))
    log = select(zero, lit(log, -math.inf), ew.add(log, convert(center, x.dtype)))
    sign = np.sign(total) if signed else log
    return _log_and_sign(cx.real(log) if signed else log, sign, x.shape, axes, keepdims, signed)


def _log_and_sign(
    log: Value, sign: Value, shape: Shape, axes: tuple[int, ...], keepdims: bool, signed: bool
) -> Value | tuple[Value, Value]:
    """The results of `logsumexp`."""
    if keepdims:
        kept = tuple([1 if a in axes else n for a, n in enumerate(shape)])
        log, sign = reshape(log, kept), reshape(sign, kept)
    return (log, sign) if signed else log


def _weighted(x: Value, b: Value) -> Value:
    """b exp(x), and 0 where b is 0, with the derivative exp(x) in b there."""
    overflow = ew.and_(ew.eq(b, lit(b, 0)), ew.gt(x, lit(x, math.log(np.finfo(x.dtype).max) - 1)))
    power = ew.exp(select(overflow, lit(x, 0), x))
    return _masked_mul(b, select(overflow, lit(x, math.inf), power))


def _masked_mul(t: Value, d: Value) -> Value:
    """t d, and 0 where t is 0, be d infinite."""
    with np.errstate(invalid="ignore"):
        return ew.masked_mul(t, d)


def _log_abs(x: Value) -> Value:
    """log |x|; -inf with derivative 0 at 0."""
    zero = ew.eq(x, lit(x, 0))
    return select(zero, lit(x, -math.inf), ew.log(ew.abs_(select(zero, lit(x, 1), x))))


# --- losses -------------------------------------------------------------------------------------


def one_hot(
    x: ArrayLike, num_classes: int, dtype: DTypeLike | None = np.float64, axis: int = -1
) -> Value:
    """1 at the place that an integer names, 0 elsewhere; all 0 for integers that name none.

    Arguments:
        x: an integer array.
        num_classes: the length of the new axis.
        dtype: the dtype of the result.
        axis: where the new axis stands in the result.

    Raises:
        DtypeError: if `x` is not an integer array.
        ArgumentError: if `num_classes` is no integer, or negative.

    Example:
        >>> one_hot(np.array([0, 2]), 3)
        array([[1., 0., 0.],
               [0., 0., 1.]])
    """
    x, num_classes = _labels(x, "one_hot"), whole_count("nn.one_hot", "num_classes", num_classes)
    rank = len(x.shape) + 1
    shape = (*x.shape, num_classes)
    classes = iota(shape, INT64, rank - 1)
    labels = broadcast_to(reshape(ew.convert(x, INT64), (*x.shape, 1)), shape)
    hot = ew.convert(ew.eq(labels, classes), np.dtype(dtype))
    return move_axis(hot, rank - 1, normalize_axis(axis, rank))


def _labels(x: ArrayLike, function: str) -> Value:
    x = as_array(x)
    if x.dtype.kind not in "iu":
        raise DtypeError(
            f"nn.{function} takes integer labels, not {x.dtype}.",
            (
                *user_line(),
                ("write", "labels.astype(np.int64)"),
                ("write", "nn.softmax_cross_entropy_with_probabilities(logits, p)"),
            ),
        )
    return x


def softmax_cross_entropy(logits: ArrayLike, labels: ArrayLike, axis: int = -1) -> Value:
    """-log(softmax(logits)[label]) for each example.

    Arguments:
        logits: an array whose `axis` counts classes; a class with -inf is masked.
        labels: integers of the shape of `logits` without `axis`.
        axis: the axis of the classes.

    Returns:
        The losses, with the shape of `labels`; NaN for a traced label that names no class.

    Raises:
        DtypeError: if the labels are not integers.
        ShapeError: if shapes do not fit, or a known label names no class.

    Example:
        >>> softmax_cross_entropy(np.zeros((2, 4)), np.array([1, 3]))
        array([1.38629436, 1.38629436])
    """
    logits, labels = inexact(logits), _labels(labels, "softmax_cross_entropy")
    axis = normalize_axis(axis, len(logits.shape))
    rest = logits.shape[:axis] + logits.shape[axis + 1 :]
    if tuple(labels.shape) != rest:
        raise ShapeError(
            f"nn.softmax_cross_entropy: labels have shape {labels.shape}, but logits without "
            f"axis {axis} have shape {rest}.",
            user_line(),
        )
    count = logits.shape[axis]
    _check_labels(labels, count)
    labels = ew.convert(labels, INT64)
    valid = ew.and_(ew.ge(labels, np.int64(0)), ew.lt(labels, np.int64(count)))
    places = [iota(rest, INT64, a) for a in range(len(rest))]
    places.insert(axis, select(valid, labels, np.int64(0)))
    # log(total) - (x - center) keeps the digits that logsumexp(x) - x would lose
    shifted = ew.sub(logits, spread(_center(logits, (axis,), False), logits.shape, (axis,)))
    chosen = gather(shifted, tuple(places), tuple(range(len(logits.shape))))
    loss = ew.sub(_log_abs(reduce_sum(ew.exp(shifted), (axis,))), chosen)
    return select(valid, loss, lit(loss, math.nan))


def _check_labels(labels: Value, count: int) -> None:
    if isinstance(labels, Tracer) or not labels.size:
        return
    low, high = labels.min(), labels.max()
    if low < 0 or high >= count:
        raise ShapeError(
            f"nn.softmax_cross_entropy: labels run from {low} to {high}, but there are {count} "
            "classes.",
            user_line(),
        )


def softmax_cross_entropy_with_probabilities(
    logits: ArrayLike, probabilities: ArrayLike, axis: int = -1
) -> Value:
    """-sum(p * log(softmax(logits))) along an axis; a class with p = 0 adds nothing.

    Arguments:
        logits: an array whose `axis` counts classes.
        probabilities: the target p, which broadcasts with `logits`.
        axis: the axis of the classes.

    Returns:
        The losses; `axis` disappears.

    Example:
        >>> softmax_cross_entropy_with_probabilities(np.zeros(2), np.array([0.5, 0.5]))
        np.float64(0.6931471805599453)
    """
    logits, p = promote([inexact(logits), inexact(probabilities)])
    logits, p = broadcast((logits, p), broadcast_shapes(logits.shape, p.shape))
    axis = normalize_axis(axis, len(logits.shape))
    logs = log_softmax(logits, axis)
    masked = ew.and_(ew.eq(p, lit(p, 0)), ew.isinf(logs))
    terms = ew.mul(p, select(masked, lit(logs, 0), logs))
    return ew.neg(reduce_sum(terms, (axis,)))


def sigmoid_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Value:
    """-y log(sigmoid(x)) - (1 - y) log(sigmoid(-x)), elementwise.

    Arguments:
        logits: the log-odds x.
        labels: the probabilities y in [0, 1], bools or integers 0 and 1; broadcast with `logits`.

    Example:
        >>> sigmoid_cross_entropy(np.array([1000.0, -1000.0]), np.array([1, 1]))
        array([   0., 1000.])
    """
    logits, labels = inexact(logits), as_array(labels)
    labels = ew.convert(labels, logits.dtype) if labels.dtype.kind != "f" else labels
    x, y = broadcast(promote([logits, labels]))
    positive = ew.gt(x, lit(x, 0))
    distance = select(positive, ew.neg(x), x)
    other = select(positive, ew.sub(lit(y, 1), y), y)
    certain = ew.and_(ew.eq(other, lit(y, 0)), ew.isinf(distance))
    linear = ew.mul(other, select(certain, lit(x, 0), distance))
    return ew.sub(ew.log1p(ew.exp(distance)), linear)


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Value:
    """log(mean(exp(x))) without overflow.

    Arguments:
        x: an array.
        axis: an axis, a tuple of axes, or None for all.
        where: a bool array that broadcasts with `x`: what counts.
        keepdims: whether the axes stay, with length 1.

    Returns:
        The logarithm; NaN for a mean of nothing.

    Example:
        >>> logmeanexp(np.array([1000.0, 1000.0]))
        np.float64(1000.0)
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    counted = (
        np.ones((), total.dtype) if where is None else ew.convert(as_array(where), total.dtype)
    )
    shape = broadcast_shapes(inexact(x).shape, counted.shape)
    axes = normalize_axes(axis, len(shape))
    count = np.sum(broadcast_to(counted, shape), axis=axes, keepdims=keepdims)
    nothing = ew.eq(count, lit(count, 0))
    return ew.sub(
        total, select(nothing, lit(count, math.nan), ew.log(select(nothing, lit(count, 1), count)))
    )
