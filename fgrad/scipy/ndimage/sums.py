"""L7. `scipy.ndimage`: filters that are sums over windows, axis by axis or at once.

Sums are in double precision, and rounded to the dtype of the result after each axis, as in SciPy.
Keywords that all filters have: `output` is a dtype; `mode` says how the image goes on outside
("reflect", "mirror", "nearest", "wrap" or "constant" with `cval`), for each axis if it is a
sequence; `origin` moves the window; `axes` are those that are filtered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

import fgrad.numpy as fnp
from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.scipy.ndimage.common import (
    ascending,
    axes_of,
    each,
    known,
    misfit,
    modes_of,
    of_functions,
    of_images,
    origins_of,
    padded,
    pixels,
    wide,
    windows,
)
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Filter = Callable[[Value, int, PyTree], Value]


def _real_weights(name: str, weights: ArrayLike, rank: int) -> Value:
    found = inexact(as_operand(weights))
    if len(found.shape) != rank or not found.size:
        raise ShapeError(
            f"scipy.ndimage.{name}: weights of shape {found.shape}.",
            (*user_line(), ("write", f"weights with {rank} axes")),
        )
    return wide(found)


def _line_windows(
    name: str, x: Value, size: int, axis: int, mode: PyTree, cval: ArrayLike, origin: int
) -> Value:
    """The windows of one axis, in a last axis: (..., n, ..., size)."""
    before = size // 2 + int(origin)
    if size < 1 or not 0 <= before < size:
        raise misfit(name, f"a window of {size} with origin={origin}", "origin=0")
    if 0 in x.shape:
        return fnp.zeros((*x.shape, size), wide(x).dtype)
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = (before, size - 1 - before)
    modes = ["nearest"] * len(x.shape)
    modes[axis] = mode
    whole = padded(name, wide(x), widths, modes, cval)
    return np.lib.stride_tricks.sliding_window_view(whole, size, axis)


@of_images
def correlate1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Value:
    """The correlation of one axis with weights.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.correlate1d(np.array([0.0, 1.0, 0.0]), [1.0, 2.0, 3.0])
        array([3., 2., 1.])
    """
    x, kind = pixels("correlate1d", input, output)
    w = _real_weights("correlate1d", weights, 1)
    axis = normalize_axis(axis, len(x.shape))
    if w.dtype.kind == "c":
        kind, w = np.result_type(kind, np.complex64), np.conj(w)
    found = _line_windows("correlate1d", x, w.shape[0], axis, mode, cval, origin) @ w
    return convert(found, kind)


@of_images
def convolve1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Value:
    """The convolution of one axis with weights.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.convolve1d(np.array([0.0, 1.0, 0.0]), [1.0, 2.0, 3.0])
        array([1., 2., 3.])
    """
    w = np.conj(_real_weights("convolve1d", weights, 1)[::-1])
    origin = -origin - (1 - w.shape[0] % 2)
    return correlate1d(input, w, axis, output, mode, cval, origin)


@of_images
def correlate(
    input: ArrayLike,
    weights: ArrayLike,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The correlation of an image with weights of as many axes.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.correlate(np.eye(2), np.ones((3, 3)), mode="constant")
        array([[2., 2.],
               [2., 2.]])
    """
    x, kind = pixels("correlate", input, output)
    rank = len(x.shape)
    places = axes_of("correlate", axes, rank)
    w = _real_weights("correlate", weights, len(places))
    if w.dtype.kind == "c":
        kind, w = np.result_type(kind, np.complex64), np.conj(w)
    ascending("correlate", "weights", places)
    sizes = [1] * rank
    for axis, n in zip(places, w.shape, strict=True):
        sizes[axis] = n
    origins = origins_of("correlate", origin, places, rank)
    found = windows("correlate", wide(x), sizes, origins, mode, cval)
    return convert(np.tensordot(found, np.reshape(w, sizes), rank), kind)


@of_images
def convolve(
    input: ArrayLike,
    weights: ArrayLike,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The convolution of an image with weights of as many axes.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.convolve(np.eye(2), np.ones((3, 3)), mode="constant")
        array([[2., 2.],
               [2., 2.]])
    """
    w = inexact(as_operand(weights))
    places = axes_of("convolve", axes, len(as_operand(input).shape))
    w = np.conj(np.flip(_real_weights("convolve", w, len(places))))
    given = each("convolve", "origin", origin, len(places))
    origins = [-int(o) - (1 - n % 2) for o, n in zip(given, w.shape, strict=True)]
    return correlate(input, w, output, mode, cval, origins, axes=axes)


# --- Gaussians and means ------------------------------------------------------------------------


def _gaussian(sigma: Value, order: int, radius: int) -> Value:
    """The weights of a Gaussian of sum 1, or of its derivative: p(t) g(t), p <- p' - t p / s^2."""
    t = np.arange(-radius, radius + 1, dtype=np.float64)
    bell = np.exp(-0.5 / (sigma * sigma) * t**2)
    bell = bell / np.sum(bell)
    powers: list[Value | float] = [1.0]
    for _ in range(order):
        slopes = [k * c for k, c in enumerate(powers)][1:]
        raised = [0.0, *[-c / (sigma * sigma) for c in powers]]
        powers = [c + (slopes[k] if k < len(slopes) else 0.0) for k, c in enumerate(raised)]
    return bell * sum([c * t**k for k, c in enumerate(powers)])


def _radius(name: str, sigma: ArrayLike, truncate: float, radius: int | None) -> int:
    if radius is None:
        why = "it decides how long the filter is."
        value = known(name, "sigma", sigma, why, f"{name}(x, sigma, radius=8)")
        return int(truncate * float(value) + 0.5)
    if radius < 0 or radius != int(radius):
        raise misfit(name, f"radius={radius}", "an integer that is not negative")
    return int(radius)


@of_images
def gaussian_filter1d(
    input: ArrayLike,
    sigma: ArrayLike,
    axis: int = -1,
    order: int = 0,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Value:
    """One axis smoothed by a Gaussian, or its derivative of an order.

    Arguments:
        sigma: the width; may be traced if `radius` is given.
        truncate: where the filter ends, in units of sigma.
        radius: where it ends, in pixels.
        others: as in `correlate1d`.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.gaussian_filter1d(np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 1.0).round(3)
        array([0.058, 0.242, 0.399, 0.242, 0.058])
    """
    if order < 0:
        raise misfit("gaussian_filter1d", f"order={order}", "order=0")
    size = _radius("gaussian_filter1d", sigma, truncate, radius)
    w = _gaussian(wide(inexact(as_operand(sigma))), int(order), size)
    return correlate1d(input, w[::-1], axis, output, mode, cval, 0)


@of_images
def gaussian_filter(
    input: ArrayLike,
    sigma: PyTree,
    order: int | Sequence[int] = 0,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """An image smoothed by a Gaussian; `sigma`, `order`, `radius` and `mode` for each axis, or all.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.gaussian_filter(np.eye(3), 0.5).round(3)[0]
        array([0.809, 0.179, 0.012])
    """
    x, kind = pixels("gaussian_filter", input, output)
    places = axes_of("gaussian_filter", axes, len(x.shape))
    count = len(places)
    many = [
        each("gaussian_filter", what, value, count)
        for what, value in (("sigma", sigma), ("order", order), ("mode", mode), ("radius", radius))
    ]
    for axis, s, n, m, r in zip(places, *many, strict=True):
        plain_sigma = s if isinstance(s, (int, float)) else None
        if plain_sigma is not None and plain_sigma <= 1e-15:
            continue
        x = gaussian_filter1d(x, s, axis, n, kind, m, cval, truncate, radius=r)
    return convert(x, kind)


@of_images
def uniform_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Value:
    """The mean of a window of one axis.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.uniform_filter1d(np.array([0.0, 3.0, 0.0]), 3)
        array([1., 1., 1.])
    """
    if size < 1:
        raise misfit("uniform_filter1d", f"size={size}", "size=3")
    x, kind = pixels("uniform_filter1d", input, output)
    axis = normalize_axis(axis, len(x.shape))
    found = _line_windows("uniform_filter1d", x, int(size), axis, mode, cval, origin)
    return convert(np.sum(found, axis=-1) / int(size), kind)  # sums of integers are exact


@of_images
def uniform_filter(
    input: ArrayLike,
    size: int | Sequence[int] = 3,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The mean of a window; `size`, `mode` and `origin` for each axis, or all.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.uniform_filter(np.eye(3)).round(3)[0]
        array([0.556, 0.333, 0.111])
    """
    x, kind = pixels("uniform_filter", input, output)
    places = axes_of("uniform_filter", axes, len(x.shape))
    many = [
        each("uniform_filter", what, value, len(places))
        for what, value in (("size", size), ("mode", mode), ("origin", origin))
    ]
    for axis, n, m, o in zip(places, *many, strict=True):
        if n > 1:
            x = uniform_filter1d(x, n, axis, kind, m, cval, o)
    return convert(x, kind)


# --- derivatives --------------------------------------------------------------------------------


def _edges(
    name: str, weights: Sequence[float], input: ArrayLike, axis: int, output: DTypeLike | None,
    mode: PyTree, cval: ArrayLike,
) -> Value:  # fmt: skip
    """Differences along an axis, smoothed along the others."""
    x, kind = pixels(name, input, output)
    rank = len(x.shape)
    axis = normalize_axis(axis, rank)
    modes = each(name, "mode", mode, rank)
    x = correlate1d(x, np.array([-1.0, 0.0, 1.0]), axis, kind, modes[axis], cval, 0)
    for other in range(rank):
        if other != axis:
            x = correlate1d(x, np.asarray(weights), other, kind, modes[other], cval, 0)
    return x


@of_images
def sobel(
    input: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
) -> Value:
    """Sobel's filter: differences along an axis, smoothed by (1, 2, 1) along the others.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.sobel(np.array([0.0, 1.0, 4.0]))
        array([1., 4., 3.])
    """
    return _edges("sobel", (1.0, 2.0, 1.0), input, axis, output, mode, cval)


@of_images
def prewitt(
    input: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
) -> Value:
    """Prewitt's filter: differences along an axis, summed over three pixels along the others.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.prewitt(np.array([0.0, 1.0, 4.0]))
        array([1., 4., 3.])
    """
    return _edges("prewitt", (1.0, 1.0, 1.0), input, axis, output, mode, cval)


def _over_axes(
    name: str, input: ArrayLike, of_axis: Filter, output: DTypeLike | None, mode: PyTree,
    axes: PyTree,
) -> list[Value]:  # fmt: skip
    x, kind = pixels(name, input, output)
    places = axes_of(name, axes, len(x.shape))
    if not places:
        raise misfit(name, "axes=()", "one axis, or several")
    modes = modes_of(name, mode, places, len(x.shape))
    return [convert(of_axis(x, axis, modes[axis]), kind) for axis in places]


def _total(parts: Sequence[Value]) -> Value:
    return functools.reduce(np.add, parts)


def _magnitude(parts: Sequence[Value], kind: np.dtype) -> Value:
    return convert(np.sqrt(_total([wide(p) * wide(p) for p in parts])), kind)


def _called(
    function: Callable[..., Value], x: Value, axis: int, rest: tuple[PyTree, PyTree, PyTree],
    args: Sequence[PyTree], settings: PyTree,
) -> Value:  # fmt: skip
    output, mode, cval = rest
    return user_form(function)(x, axis, output, mode, cval, *args, **(settings or {}))


@of_functions
def generic_laplace(
    input: ArrayLike,
    derivative2: Callable[..., Value],
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    extra_arguments: Sequence[PyTree] = (),
    extra_keywords: PyTree = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The sum over axes of what derivative2(input, axis, output, mode, cval, ...) returns.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.generic_laplace(np.array([0.0, 1.0, 4.0]), nd.sobel)
        array([1., 4., 3.])
    """
    _, kind = pixels("generic_laplace", input, output)

    def of_axis(x: Value, axis: int, m: PyTree) -> Value:
        rest = kind, m, cval
        return _called(derivative2, x, axis, rest, extra_arguments, extra_keywords)

    return _total(_over_axes("generic_laplace", input, of_axis, output, mode, axes))


@of_functions
def generic_gradient_magnitude(
    input: ArrayLike,
    derivative: Callable[..., Value],
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    extra_arguments: Sequence[PyTree] = (),
    extra_keywords: PyTree = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The root of the sum of squares over axes of derivative(input, axis, output, mode, cval, ...).

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.generic_gradient_magnitude(np.eye(2), nd.sobel).shape
        (2, 2)
    """
    _, kind = pixels("generic_gradient_magnitude", input, output)

    def of_axis(x: Value, axis: int, m: PyTree) -> Value:
        rest = kind, m, cval
        return _called(derivative, x, axis, rest, extra_arguments, extra_keywords)

    name = "generic_gradient_magnitude"
    return _magnitude(_over_axes(name, input, of_axis, output, mode, axes), kind)


@of_images
def laplace(
    input: ArrayLike,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Value:
    """The sum of second differences.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.laplace(np.array([0.0, 1.0, 4.0]))
        array([ 1.,  2., -3.])
    """
    _, kind = pixels("laplace", input, output)

    def of_axis(x: Value, axis: int, m: PyTree) -> Value:
        return correlate1d(x, np.array([1.0, -2.0, 1.0]), axis, kind, m, cval, 0)

    return _total(_over_axes("laplace", input, of_axis, output, mode, axes))


def _orders(axis: int, order: int, places: Sequence[int]) -> list[int]:
    return [order if a == axis else 0 for a in places]


@of_images
def gaussian_laplace(
    input: ArrayLike,
    sigma: PyTree,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
    **kwargs: PyTree,
) -> Value:
    """The sum of second derivatives of an image smoothed by a Gaussian.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.gaussian_laplace(np.arange(3.0), 1.0).round(3)
        array([ 0.634, -0.   , -0.634])
    """
    x, kind = pixels("gaussian_laplace", input, output)
    rank = len(x.shape)
    places = axes_of("gaussian_laplace", axes, rank)
    widths: list[PyTree] = [0.0] * rank
    for axis, width in zip(
        places, each("gaussian_laplace", "sigma", sigma, len(places)), strict=True
    ):
        widths[axis] = width

    def of_axis(x: Value, axis: int, m: PyTree) -> Value:
        return gaussian_filter(x, widths, _orders(axis, 2, range(rank)), kind, m, cval, **kwargs)

    return _total(_over_axes("gaussian_laplace", x, of_axis, output, mode, axes))


@of_images
def gaussian_gradient_magnitude(
    input: ArrayLike,
    sigma: PyTree,
    output: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
    **kwargs: PyTree,
) -> Value:
    """The length of the gradient of an image smoothed by a Gaussian.

    Example:
        >>> import fgrad.scipy.ndimage as nd
        >>> nd.gaussian_gradient_magnitude(np.ones(3), 1.0).round(9)
        array([0., 0., 0.])
    """
    _, kind = pixels("gaussian_gradient_magnitude", input, output)

    def of_axis(x: Value, axis: int, m: PyTree) -> Value:
        orders = _orders(axis, 1, range(len(x.shape)))
        return gaussian_filter(x, sigma, orders, kind, m, cval, **kwargs)

    name = "gaussian_gradient_magnitude"
    return _magnitude(_over_axes(name, input, of_axis, output, mode, axes), kind)
