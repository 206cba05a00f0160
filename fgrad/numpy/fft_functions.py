"""L4. `np.fft` of traced arrays: every transform, length, axis and norm."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.ir.aval import FLOAT32, FLOAT64
from fgrad.numpy.arrange import known_ints, roll
from fgrad.numpy.dispatch import add, implements
from fgrad.numpy.promote import as_array, convert, fresh, normalize_axis, refuse_out
from fgrad.ops import fft as ft
from fgrad.ops.complex import conj, is_complex, to_complex
from fgrad.ops.shape import concatenate, pad, reverse, slice_
from fgrad.trace import Value
from fgrad.typing import Array, ArrayLike

_NORMS = ("backward", "ortho", "forward")


def _factor(norm: str | None, size: int, inverse: bool) -> float:
    """What the unnormalised forward, or 1/n normalised inverse, transform is multiplied with."""
    norm = norm or "backward"
    if norm not in _NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    powers = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
    exponent = powers[norm]
    if norm == "backward" or not size:
        return 1.0
    return size**exponent if inverse else size**-exponent


def _operand(a: ArrayLike, real_input: bool = False) -> Value:
    """A complex operand in its precision; a real one if asked for."""
    x = as_array(a)
    if x.dtype.kind in "biu":
        x = convert(x, FLOAT64)
    elif x.dtype == np.float16:
        x = convert(x, FLOAT32)
    if real_input:
        if is_complex(x):
            raise TypeError(f"rfft of a complex array ({x.dtype}): it takes real numbers")
        return x
    return to_complex(x)


def resized(x: Value, axis: int, n: int) -> Value:
    """`x` cut, or padded with zeros, to length n along an axis."""
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    have = x.shape[axis]
    if n == have:
        return x
    if n < have:
        stop = tuple([n if i == axis else m for i, m in enumerate(x.shape)])
        return slice_(x, (0,) * len(stop), stop)
    high = tuple([n - have if i == axis else 0 for i in range(len(x.shape))])
    return pad(x, (0,) * len(high), high)


def _lengths(
    x: Value, s: Sequence[int] | None, axes: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """Lengths and axes of a transform over several; -1 keeps a length."""
    ndim = len(x.shape)
    if axes is None:
        count = ndim if s is None else len(s)
        axes = range(-count, 0)
    where = [normalize_axis(a, ndim) for a in axes]
    sizes = [None] * len(where) if s is None else list(s)
    if len(sizes) != len(where):
        raise ValueError("Shape and axes have different lengths.")
    return [
        x.shape[a] if n is None or n == -1 else operator.index(n)
        for n, a in zip(sizes, where, strict=True)
    ], where


# --- several axes


def _of_real(x: Value, axes: Sequence[int], inverse: bool) -> Value:
    """A transform of real numbers: half over the last axis is enough, as Y[-k] = conj Y[k]."""
    *others, last = axes
    half = ft.fft(ft.rfft(x, last), tuple(others))
    n = x.shape[last]
    if inverse:
        half = ft.scale(conj(half), 1 / math.prod([x.shape[a] for a in axes]))
    if n < 3:
        return half
    rest = conj(reverse(_between(half, last, 1, (n + 1) // 2), (last,)))
    for axis in others:  # k -> -k, and 0 stays
        first, following = _between(rest, axis, 0, 1), _between(rest, axis, 1, x.shape[axis])
        rest = concatenate([first, reverse(following, (axis,))], axis)
    return concatenate([half, rest], last)


def _between(x: Value, axis: int, start: int, stop: int) -> Value:
    starts = [start if a == axis else 0 for a in range(len(x.shape))]
    stops = [stop if a == axis else n for a, n in enumerate(x.shape)]
    return slice_(x, tuple(starts), tuple(stops))


def _complex_transform(
    name: str, transform: Callable[[Value, tuple[int, ...]], Value], inverse: bool
) -> Callable[..., Value]:
    def function(
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = None,
        out: Array | None = None,
    ) -> Value:
        refuse_out(f"fft.{name}", out)
        x = as_array(a)
        sizes, where = _lengths(x, s, axes)
        if not where:
            return fresh(x)
        if len(set(where)) < len(where):
            return _one_by_one(function, x, sizes, where, norm)
        x = _operand(x, not is_complex(x))
        for n, axis in zip(sizes, where, strict=True):
            x = resized(x, axis, n)
        x = transform(x, tuple(where)) if is_complex(x) else _of_real(x, where, inverse)
        return ft.scale(x, _factor(norm, math.prod(sizes), inverse))

    function.__name__ = name
    function.__doc__ = f"`np.fft.{name}` over several axes, the last ones if none are given."
    add(f"fft.{name}", function)
    return function


def _one_by_one(
    transform: Callable[..., Value],
    x: Value,
    sizes: Sequence[int],
    axes: Sequence[int],
    norm: str | None,
) -> Value:
    """One transform after the other, from the last axis on: an axis may be listed twice."""
    for n, axis in reversed(list(zip(sizes, axes, strict=True))):
        x = transform(x, (n,), (axis,), norm)
    return x


fftn = _complex_transform("fftn", ft.fft, False)
ifftn = _complex_transform("ifftn", ft.ifft, True)


@implements("fft.rfftn")
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Array | None = None,
) -> Value:
    """The transform of real numbers over several axes; of the last one, the first half."""
    refuse_out("fft.rfftn", out)
    x = _operand(a, real_input=True)
    sizes, where = _lengths(x, s, axes)
    if len(set(where)) < len(where):
        first = rfftn(x, sizes[-1:], where[-1:], norm)
        return _one_by_one(fftn, first, sizes[:-1], where[:-1], norm)
    for n, axis in zip(sizes, where, strict=True):
        x = resized(x, axis, n)
    y = ft.fft(ft.rfft(x, where[-1]), tuple(where[:-1]))
    return ft.scale(y, _factor(norm, math.prod(sizes), False))


@implements("fft.irfftn")
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Array | None = None,
) -> Value:
    """The inverse of `rfftn`; the last length is even unless given."""
    refuse_out("fft.irfftn", out)
    x = _operand(a)
    sizes, where = _lengths(x, s, axes)
    if s is None or s[-1] in (None, -1):
        sizes[-1] = 2 * (x.shape[where[-1]] - 1)
    if sizes[-1] < 1:
        raise ValueError(f"Invalid number of FFT data points ({sizes[-1]}) specified.")
    if len(set(where)) < len(where):
        for n, axis in zip(sizes[:-1], where[:-1], strict=True):
            x = ifftn(x, (n,), (axis,), norm)
        return irfftn(x, sizes[-1:], where[-1:], norm)
    for n, axis in zip(sizes[:-1], where[:-1], strict=True):
        x = resized(x, axis, n)
    x = resized(x, where[-1], sizes[-1] // 2 + 1)
    y = ft.irfft(ft.ifft(x, tuple(where[:-1])), sizes[-1], where[-1])
    y = ft.scale(y, _factor(norm, math.prod(sizes), True))
    return _half_again(y, a) if len(where) == 1 else y  # else NumPy's `ifft` has widened it


def _half_again(y: Value, a: ArrayLike) -> Value:
    """Real results have the precision of what was given."""
    return convert(y, as_array(a).dtype) if as_array(a).dtype == np.float16 else y


def _plane(name: str, whole: Callable[..., Value]) -> None:
    def function(
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] = (-2, -1),
        norm: str | None = None,
        out: Array | None = None,
    ) -> Value:
        return whole(a, s, axes, norm, out)

    function.__name__ = name
    function.__doc__ = f"`np.fft.{name}`: over the last two axes unless others are given."
    add(f"fft.{name}", function)


_plane("fft2", fftn)
_plane("ifft2", ifftn)
_plane("rfft2", rfftn)
_plane("irfft2", irfftn)


# --- one axis


def _one_length(n: int | None) -> tuple[int] | None:
    """The length of a transform along one axis."""
    if n is None:
        return None
    if n < 1:
        raise ArgumentError(f"Invalid number of FFT data points ({n}) specified.")
    return (operator.index(n),)


def _line(name: str, whole: Callable[..., Value], what: str) -> Callable[..., Value]:
    def function(
        a: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        out: Array | None = None,
    ) -> Value:
        return whole(a, _one_length(n), (axis,), norm, out)

    function.__name__, function.__doc__ = name, what
    add(f"fft.{name}", function)
    return function


_line("fft", fftn, "The transform along an axis, cut or padded to length n.")
_line("ifft", ifftn, "The inverse transform along an axis, cut or padded to length n.")
rfft = _line("rfft", rfftn, "The first half of the transform of real numbers.")
irfft = _line(
    "irfft",
    irfftn,
    "The n real numbers with the given half of a transform; n is even unless given.",
)


@implements("fft.hfft")
def hfft(
    a: ArrayLike,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    out: Array | None = None,
) -> Value:
    """The real transform of a signal of which half is given, the rest being its conjugate."""
    return _half_again(irfft(conj(_operand(a)), n, axis, _opposite(norm), out), a)


@implements("fft.ihfft")
def ihfft(
    a: ArrayLike,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    out: Array | None = None,
) -> Value:
    """The inverse of `hfft`."""
    return conj(rfft(a, n, axis, _opposite(norm), out))


def _opposite(norm: str | None) -> str:
    names = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
    if norm not in names:
        _factor(norm, 1, False)
    return names[norm]


# --- order of the frequencies


def _shift(x: ArrayLike, axes: Sequence[int] | None, amount: Callable[[int], int]) -> Value:
    x = as_array(x)
    where = range(len(x.shape)) if axes is None else known_ints(axes)
    if not x.shape and axes is None:
        raise ArgumentError("a number has no axis to shift")
    return roll(x, tuple([amount(x.shape[a]) for a in where]), tuple(where))


@implements("fft.fftshift")
def fftshift(x: ArrayLike, axes: Sequence[int] | None = None) -> Value:
    """Zero frequency moved to the middle."""
    return _shift(x, axes, lambda n: n // 2)


@implements("fft.ifftshift")
def ifftshift(x: ArrayLike, axes: Sequence[int] | None = None) -> Value:
    """The inverse of `fftshift`."""
    return _shift(x, axes, lambda n: -(n // 2))
