"""L7. Layers without state: normalisation, dropout, convolution, pooling.

Images are arrays "NCHW" (batch, channels, spatial axes) or "NHWC", with any number of spatial axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from fgrad import random
from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import aval_of
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    inexact,
    normalize_axes,
    promote,
    user_line,
)
from fgrad.ops import elementwise as ew
from fgrad.ops import window
from fgrad.ops.elementwise import lit, select
from fgrad.ops.reduce import reduce_max, reduce_sum, spread
from fgrad.ops.shape import inverse_permutation, pad, permute
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, PyTree

Ints: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = tuple[tuple[int, int], ...]
Padding: TypeAlias = Literal["SAME", "VALID"] | int | Sequence[int | tuple[int, int]]


# --- normalisation ------------------------------------------------------------------------------


def _mean(x: Value, axes: Ints) -> Value:
    count = math.prod([x.shape[a] for a in axes])
    return ew.div(reduce_sum(x, axes), lit(x, count))


def _scale_and_shift(x: Value, scale: ArrayLike | None, bias: ArrayLike | None) -> Value:
    for function, operand in ((ew.mul, scale), (ew.add, bias)):
        if operand is not None:
            x = function(*broadcast(promote([x, as_array(operand)]), x.shape))
    return x


def layer_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    axis: Axis = -1,
    eps: float = 1e-5,
) -> Value:
    """(x - mean) / sqrt(variance + eps) * scale + bias (Ba, Kiros and Hinton 2016).

    Arguments:
        x: an array.
        scale, bias: arrays that broadcast to the shape of `x`, or None.
        axis: the axes over which mean and variance (with divisor n) are taken; None for all.
        eps: keeps constant slices finite.

    Raises:
        ShapeError: if `scale` or `bias` does not broadcast to the shape of `x`.

    Example:
        >>> layer_norm(np.array([1.0, 3.0]), eps=0.0)
        array([-1.,  1.])
    """
    x = inexact(x)
    axes = normalize_axes(axis, len(x.shape))
    centred = ew.sub(x, spread(_mean(x, axes), x.shape, axes))
    return _scale_and_shift(_normalised(centred, axes, eps), scale, bias)


@also_takes("algorithm")
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: float = 1e-5,
    where: ArrayLike | None = None,
) -> Value:
    """(x - mean) / sqrt(variance + epsilon).

    Arguments:
        x: an array.
        axis: the axes over which mean and variance (with divisor n) are taken; None for all.
        mean, variance: known ones that broadcast with `x`; those of `x` if None, the variance
            about the mean that is given.
        epsilon: keeps constant slices finite.
        where: a bool array that broadcasts with `x`: what counts in mean and variance.

    Example:
        >>> standardize(np.array([1.0, 3.0]), epsilon=0.0)
        array([-1.,  1.])
    """
    x = inexact(x)
    axes = normalize_axes(axis, len(x.shape))
    counted: PyTree = True if where is None else where
    if mean is None:
        mean = np.mean(x, axis=axes, keepdims=True, where=counted)
    centred: PyTree = x - ew.convert(as_array(mean), x.dtype)
    if variance is None:
        variance = np.mean(ew.square(centred), axis=axes, keepdims=True, where=counted)
    return centred / np.sqrt(ew.convert(as_array(variance), x.dtype) + epsilon)


def rms_norm(
    x: ArrayLike, scale: ArrayLike | None = None, axis: Axis = -1, eps: float = 1e-6
) -> Value:
    """x / sqrt(mean(x^2) + eps) * scale (Zhang and Sennrich 2019).

    Arguments are those of `layer_norm`.

    Arguments:
        x, scale, axis, eps: as in `layer_norm`.

    Example:
        >>> rms_norm(np.array([3.0, 4.0]), eps=0.0) * np.sqrt(12.5)
        array([3., 4.])
    """
    x = inexact(x)
    return _scale_and_shift(_normalised(x, normalize_axes(axis, len(x.shape)), eps), scale, None)


def _normalised(x: Value, axes: Ints, eps: float) -> Value:
    power = ew.add(_mean(ew.square(x), axes), lit(x, eps))
    return ew.div(x, spread(ew.sqrt(power), x.shape, axes))


def dropout(key: Key, x: ArrayLike, rate: float) -> Value:
    """`x` with each element set to 0 with probability `rate`, and the others divided by 1 - rate.

    Arguments:
        key: a key of `fgrad.random`.
        x: an array.
        rate: a number in [0, 1]; without training, do not call dropout.

    Raises:
        ArgumentError: if `rate` is not in [0, 1], or `key` is not a key.

    Example:
        >>> from fgrad import random
        >>> np.unique(dropout(random.key(0), np.ones(100), 0.5))
        array([0., 2.])
    """
    x = inexact(x)
    if not 0.0 <= rate <= 1.0:
        raise ArgumentError(f"nn.dropout: rate must be in [0, 1], not {rate}.", user_line())
    if rate == 1.0:
        return ew.mul(ew.stop_gradient(x), lit(x, 0))
    keep = random.bernoulli(key, 1.0 - rate, x.shape)
    return select(keep, ew.div(x, lit(x, 1.0 - rate)), lit(x, 0))


# --- convolution --------------------------------------------------------------------------------


def _layout(layout: str, ndim: int, function: str) -> tuple[Ints, Ints]:
    """The order of axes that puts batch and channels first, and the spatial axes of the array."""
    c = layout.find("C")
    if len(layout) != ndim or layout[:1] != "N" or c not in (1, ndim - 1):
        raise ShapeError(f"nn.{function}: layout {layout!r} for {ndim} axes.", user_line())
    spatial = tuple([a for a in range(1, ndim) if a != c])
    return (0, c, *spatial), spatial


def _ints(value: int | Sequence[int], rank: int, name: str) -> Ints:
    values = (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    if len(values) != rank or any(not isinstance(v, (int, np.integer)) for v in values):
        raise ArgumentError(f"nn: {name}={value!r} for {rank} spatial axes.", user_line())
    if any(v < 1 for v in values):
        raise ArgumentError(f"nn: {name}={value!r} must be positive.", user_line())
    return tuple([int(v) for v in values])


def _padding(padding: Padding, sizes: Ints, windows: Ints, strides: Ints, dilation: Ints) -> Pairs:
    """(low, high) for each spatial axis; "SAME" gives ceil(size / stride) windows."""
    if padding == "VALID":
        return ((0, 0),) * len(sizes)
    if padding == "SAME":
        pairs = []
        for n, k, s, d in zip(sizes, windows, strides, dilation, strict=True):
            total = max(0, (-(-n // s) - 1) * s + window.spread_length(k, d) - n)
            pairs.append((total // 2, total - total // 2))
        return tuple(pairs)
    if isinstance(padding, (int, np.integer)):
        return ((int(padding), int(padding)),) * len(sizes)
    if (
        isinstance(padding, Sequence)
        and not isinstance(padding, str)
        and len(padding) == len(sizes)
    ):
        both = [(p, p) if isinstance(p, (int, np.integer)) else tuple(p) for p in padding]
        return tuple([(int(low), int(high)) for low, high in both])
    raise ArgumentError(
        f"nn: padding={padding!r} is not 'SAME', 'VALID', an integer, or a list with an integer or "
        f"a (low, high) for each of {len(sizes)} spatial axes.",
        user_line(),
    )


def conv(
    x: ArrayLike,
    w: ArrayLike,
    strides: int | Sequence[int] = 1,
    padding: Padding = "VALID",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Value:
    """Cross-correlation of images with filters.

    Arguments:
        x: images, of the shape that `layout` names: "NCHW", "NHWC", "NCW", "NWC", "NCDHW", ...
        w: filters, (out, in / groups, *window) for layouts with C second, and
            (*window, in / groups, out) for those with C last.
        strides: an integer, or one for each spatial axis.
        padding: "SAME", "VALID", an integer, or an integer or (low, high) for each spatial axis.
        dilation: the distance of the elements of a window: an integer, or one for each axis.
        groups: into how many groups the channels are divided.
        layout: the order of the axes of `x` and of the result.

    Returns:
        Images with `out` channels.

    Raises:
        ShapeError: if shapes, groups and layout do not fit.
        ArgumentError: if strides, padding or dilation do not fit.

    Example:
        >>> conv(np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)))
        array([[[[4., 4.],
                 [4., 4.]]]])
    """
    x, w = promote([inexact(x), inexact(w)])
    order, spatial = _layout(layout, len(x.shape), "conv")
    if len(w.shape) != len(x.shape):
        raise ShapeError(f"nn.conv: x has shape {x.shape} and w has {w.shape}.", user_line())
    if layout[1] != "C":
        w = permute(w, (len(spatial) + 1, len(spatial), *range(len(spatial))))
    x, rank = permute(x, order), len(spatial)
    strides = _ints(strides, rank, "strides")
    dilation = _ints(dilation, rank, "dilation")
    pairs = _padding(padding, x.shape[2:], w.shape[2:], strides, dilation)
    options = (strides, pairs, (1,) * rank, dilation, groups)
    _check_conv(x, w, options)
    y = window.conv(x, w, *options)
    return permute(y, inverse_permutation(order))


def _check_conv(x: Value, w: Value, options: tuple[PyTree, ...]) -> None:
    """Raise what tracing would raise: plain arrays are evaluated unchecked."""
    params = dict(zip(window.conv_p.params, (*options, 1), strict=True))
    window.conv_p.type_of(aval_of(x), aval_of(w), **params)


# --- pooling ------------------------------------------------------------------------------------


def _pooled(
    name: str,
    x: Value,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int] | None,
    padding: Padding,
    layout: str,
    fill: float,
) -> Value:
    """All windows of the spatial axes, their elements in trailing axes."""
    _, axes = _layout(layout, len(x.shape), name)
    sizes = _ints(window_shape, len(axes), "window_shape")
    steps = sizes if strides is None else _ints(strides, len(axes), "strides")
    ones = (1,) * len(axes)
    lengths = tuple([x.shape[a] for a in axes])
    pairs = dict(zip(axes, _padding(padding, lengths, sizes, steps, ones), strict=True))
    low, high = (
        tuple([pairs[a][side] if a in pairs else 0 for a in range(len(x.shape))]) for side in (0, 1)
    )
    return window.windows(pad(x, low, high, None, fill), axes, sizes, steps, ones)


def max_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID",
    layout: str = "NCHW",
) -> Value:
    """The largest element of each window; elements that tie share the derivative.

    Arguments:
        x: images, of the shape that `layout` names.
        window_shape: an integer, or one for each spatial axis.
        strides: likewise; `window_shape` if None.
        padding: as for `conv`; the padding never is the largest, unless a window has nothing else.
        layout: the order of the axes.

    Raises:
        ArgumentError: if window, strides or padding do not fit.
        ShapeError: if the layout does not fit.

    Example:
        >>> max_pool(np.arange(4.0).reshape(1, 1, 2, 2), 2)
        array([[[[3.]]]])
    """
    x = inexact(x)
    rank = len(x.shape)
    found = _pooled("max_pool", x, window_shape, strides, padding, layout, -math.inf)
    return reduce_max(found, tuple(range(rank, len(found.shape))))


def avg_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID",
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Value:
    """The mean of each window.

    Arguments are those of `max_pool`, and:
        count_include_pad: whether the zeros of the padding count as elements.

    Arguments:
        x, window_shape, strides, padding, layout: as in `max_pool`.

    Example:
        >>> avg_pool(np.arange(4.0).reshape(1, 1, 2, 2), 2)
        array([[[[1.5]]]])
    """
    x = inexact(x)
    options = (window_shape, strides, padding, layout, 0)
    found = _pooled("avg_pool", x, *options)
    axes = tuple(range(len(x.shape), len(found.shape)))
    if count_include_pad:
        return _mean(found, axes)
    counted = _pooled("avg_pool", np.ones(x.shape, x.dtype), *options)
    return ew.div(reduce_sum(found, axes), reduce_sum(counted, axes))
