"""L4. Bessel's function I0 and the Kaiser window; windows that slide over an array."""

from __future__ import annotations

import math

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.ir.aval import FLOAT64
from fgrad.numpy.arrange import known_ints
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    convert,
    inexact,
    normalize_axis,
)
from fgrad.ops import elementwise as ew
from fgrad.ops import window as wd
from fgrad.trace import Value
from fgrad.typing import ArrayLike, ShapeLike

# I0(x) = sum (x^2 / 4)^k / k!^2: all terms are positive, so that nothing cancels (DLMF 10.25.2).
_NEAR = 20.0
_SERIES = [1 / math.factorial(k) ** 2 for k in range(48)]


def _asymptotic() -> list[float]:
    """I0(x) ~ e^x / sqrt(2 pi x) sum c_k / x^k, c_k = prod (2j - 1)^2 / (8^k k!); DLMF 10.40.1."""
    terms, term = [1.0], 1.0
    for k in range(1, 36):
        term *= (2 * k - 1) ** 2 / (8 * k)
        terms.append(term)
    return terms


_FAR_SERIES = _asymptotic()


def _polynomial(x: Value, coefficients: list[float]) -> Value:
    total = ew.lit(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = ew.add(ew.mul(total, x), ew.lit(x, c))
    return total


def bessel_i0(x: Value) -> Value:
    """I0 of floats, by its power series near 0 and the asymptotic one far away."""
    size = ew.abs_(x)
    near = ew.le(size, ew.lit(x, _NEAR))
    small = ew.select(near, x, ew.lit(x, 0))
    inner = _polynomial(ew.mul(ew.mul(small, small), ew.lit(x, 0.25)), _SERIES)
    large = ew.select(near, ew.lit(x, _NEAR), size)
    tail = _polynomial(ew.reciprocal(large), _FAR_SERIES)
    scale = ew.div(ew.exp(large), ew.sqrt(ew.mul(large, ew.lit(x, 2 * math.pi))))
    return ew.select(near, inner, ew.mul(scale, tail))


@implements("i0")
def i0(x: ArrayLike) -> Value:
    """The modified Bessel function of the first kind, of order 0."""
    a = as_array(x)
    if a.dtype.kind == "c":
        raise ArgumentError("i0 not supported for complex values")
    return bessel_i0(inexact(a))


@implements("kaiser")
def kaiser(M: int, beta: ArrayLike) -> Value:
    """The Kaiser window of a known length; its shape may be traced."""
    (count,) = known_ints(M)
    if count < 1:
        return np.zeros(0)
    shape = convert(as_array(beta), FLOAT64)
    if count == 1:
        return np.ones(1)
    half = (count - 1) / 2
    line = np.sqrt(np.maximum(1 - ((np.arange(count) - half) / half) ** 2, 0))
    inside = bessel_i0(ew.mul(*broadcast((line, shape))))
    return ew.div(*broadcast((inside, bessel_i0(shape))))


@implements("lib.stride_tricks.sliding_window_view")
def sliding_window_view(
    x: ArrayLike,
    window_shape: ShapeLike,
    axis: int | None = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Value:
    """All windows of a shape: the axes of the windows come last.  Not a view: a value."""
    a = as_array(x)
    sizes = known_ints(window_shape)
    ndim = len(a.shape)
    axes = tuple(range(ndim)) if axis is None else known_ints(axis)
    axes = tuple([normalize_axis(i, ndim) for i in axes])
    if len(axes) != len(sizes):
        raise ArgumentError(
            f"Must provide matching length window_shape and axis; got {len(sizes)} window_shape "
            f"elements and {len(axes)} axes elements.",
        )
    if any(n < 0 for n in sizes):
        raise ArgumentError("`window_shape` cannot contain negative values")
    if any(n > a.shape[i] for n, i in zip(sizes, axes, strict=True)):
        raise ArgumentError("window shape cannot be larger than input array shape")
    if len(set(axes)) != len(axes):
        raise ArgumentError("an axis has one window at most in a traced array")
    ones = (1,) * len(axes)
    return wd.windows(a, axes, sizes, ones, ones)
