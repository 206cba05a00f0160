"""L7. Convolutions and correlations of SciPy's signals, by sums over windows or by transforms.

    full     n + m - 1 values: all shifts at which two arrays overlap
    same     as many as the first array has, in the middle of those
    valid    those at which the smaller array lies inside of the larger one

A correlation with y is the convolution with the conjugate of y, reversed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import fgrad.numpy as fnp
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError
from fgrad.lax.convolutions import conv_general_dilated
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import (
    as_operand,
    broadcast_shapes,
    convert,
    inexact,
    normalize_axis,
    promote,
    user_line,
)
from fgrad.ops.complex import conj
from fgrad.scipy.signal.common import of_signals
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

plain_fft = lazy_module("scipy.fft")

Ints = tuple[int, ...]
_FEW = 64  # elements of the smaller array that are summed rather than transformed
_BOUNDARIES = {"fill": "constant", "pad": "constant", "wrap": "wrap", "symm": "symmetric"}


def _pair(name: str, x: ArrayLike, y: ArrayLike, rank: int | None = None) -> list[Value]:
    """Two arrays of one dtype and as many axes."""
    values = promote([as_operand(x), as_operand(y)])
    ranks = [len(v.shape) for v in values]
    if ranks[0] != ranks[1] or rank not in (None, ranks[0]):
        shapes = " and ".join([str(v.shape) for v in values])
        raise ShapeError(f"scipy.signal.{name}: arrays of shapes {shapes}.", user_line())
    if any([0 in v.shape for v in values]):
        raise ShapeError(f"scipy.signal.{name}: an empty array.", user_line())
    if values[0].dtype == np.bool_:
        raise ArgumentError(f"scipy.signal.{name} takes numbers, not bools.", user_line())
    return values


def _chosen(name: str, what: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        rows = (*user_line(), ("write", " or ".join([f'{what}="{k}"' for k in known])))
        raise ArgumentError(f"scipy.signal.{name}: {what}={given!r}.", rows)


def _swapped(name: str, mode: str, x: Value, y: Value) -> bool:
    """Whether the second array is the larger one, of which it matters where mode is "valid"."""
    if mode != "valid":
        return False
    pairs = list(zip(x.shape, y.shape, strict=True))
    if all([m <= n for n, m in pairs]):
        return False
    if all([m >= n for n, m in pairs]):
        return True
    raise ShapeError(
        f"scipy.signal.{name}: neither of {x.shape} and {y.shape} lies inside of the other.",
        user_line(),
    )


def _reversed(x: Value) -> Value:
    return np.flip(x, tuple(range(len(x.shape))))


def _middle(x: Value, shape: Sequence[int]) -> Value:
    """The part of this shape in the middle of an array."""
    starts = [(n - k) // 2 for n, k in zip(x.shape, shape, strict=True)]
    return x[tuple([slice(a, a + k) for a, k in zip(starts, shape, strict=True)])]


def full_sums(x: Value, y: Value) -> Value:
    """The full convolution, as sums over windows."""
    if not x.shape:
        return x * y
    wide = [(m - 1, m - 1) for m in y.shape]
    if x.dtype.kind == "c":
        (a, b), (c, d) = [(np.real(v), np.imag(v)) for v in (x, y)]
        return (full_sums(a, c) - full_sums(b, d)) + 1j * (full_sums(a, d) + full_sums(b, c))
    if len(x.shape) == 1:
        return np.convolve(x, y)
    if x.dtype.kind in "iu":
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, wide), y.shape)
        return np.tensordot(windows, _reversed(y), len(wide))
    ones = (1,) * len(wide)
    return conv_general_dilated(x[None, None], _reversed(y)[None, None], ones, wide)[0, 0]


def _by_transforms(x: Value, y: Value, axes: Ints) -> Value:
    """The full convolution along some axes, as a product of Fourier transforms."""
    lengths = [x.shape[a] + y.shape[a] - 1 for a in axes]
    fast = [plain_fft.next_fast_len(n, x.dtype.kind != "c") for n in lengths]
    forward, back = (np.fft.fftn, np.fft.ifftn) if x.dtype.kind == "c" else (
        np.fft.rfftn, np.fft.irfftn
    )  # fmt: skip
    product = forward(x, fast, axes) * forward(y, fast, axes)
    places = [slice(None)] * len(x.shape)
    for a, n in zip(axes, lengths, strict=True):
        places[a] = slice(0, n)
    return back(product, fast, axes)[tuple(places)]


def _by_blocks(x: Value, y: Value, axis: int) -> Value:
    """The full convolution along an axis by transforms of blocks of the longer array, of about
    three times the length of the shorter one, whose ends are added to the blocks that follow."""
    long, short = [moveaxis(v, axis, -1) for v in sorted([x, y], key=lambda v: -v.shape[axis])]
    n, m = long.shape[-1], short.shape[-1]
    points = plain_fft.next_fast_len(4 * m, x.dtype.kind != "c")
    if points >= n + m - 1:
        return _by_transforms(x, y, (axis,))
    step = points - m + 1
    count = -(-n // step)
    keep = [(0, 0)] * (len(long.shape) - 1)
    filled = np.pad(long, [*keep, (0, count * step - n)])
    rows = np.reshape(filled, (*long.shape[:-1], count, step))
    product = _by_transforms(rows, short[..., None, :], (len(rows.shape) - 1,))
    ends = np.pad(product[..., step:], [*keep, (1, 0), (0, step - m + 1)])
    whole = np.pad(product[..., :step], [*keep, (0, 1), (0, 0)]) + ends
    flat = np.reshape(whole, (*whole.shape[:-2], (count + 1) * step))
    return moveaxis(flat[..., : n + m - 1], -1, axis)


def _of_mode(full: Value, x: Value, y: Value, mode: str, axes: Ints) -> Value:
    """The part of a full convolution that the mode wants."""
    shape = list(full.shape)
    for a in axes:
        n, m = x.shape[a], y.shape[a]
        shape[a] = {"full": n + m - 1, "same": n, "valid": abs(n - m) + 1}[mode]
    return _middle(full, shape)


def _convolved(name: str, x: Value, y: Value, mode: str, method: str) -> Value:
    _chosen(name, "mode", mode, ("full", "same", "valid"))
    _chosen(name, "method", method, ("auto", "direct", "fft"))
    _swapped(name, mode, x, y)
    axes = tuple(range(len(x.shape)))
    exact = x.dtype.kind in "iu"
    small = min(math.prod(x.shape), math.prod(y.shape)) <= _FEW
    if method == "direct" or (method == "auto" and (exact or small)):
        return _of_mode(full_sums(x, y), x, y, mode, axes)
    full = _by_transforms(inexact(x), inexact(y), axes)
    full = convert(np.rint(full), x.dtype) if exact else full
    return _of_mode(full, x, y, mode, axes)


@also_takes("precision")
@of_signals
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Value:
    """The convolution of two arrays with as many axes; "auto" sums where one of them is small.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
        array([1., 3., 2.])
    """
    x, y = _pair("convolve", in1, in2)
    return _convolved("convolve", x, y, mode, method)


@also_takes("precision")
@of_signals
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Value:
    """The correlation of two arrays with as many axes, the second one conjugated.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.correlate(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
        array([1., 2., 0.])
    """
    x, y = _pair("correlate", in1, in2)
    return _convolved("correlate", x, _reversed(conj(y)), mode, method)


def _transformed(
    name: str, in1: ArrayLike, in2: ArrayLike, mode: str, axes: int | Sequence[int] | None
) -> tuple[Value, Value, Ints]:
    """The checked arrays, and the axes along which they are convolved."""
    x, y = [inexact(v) for v in _pair(name, in1, in2)]
    _chosen(name, "mode", mode, ("full", "same", "valid"))
    rank = len(x.shape)
    given = range(rank) if axes is None else [axes] if isinstance(axes, (int, np.integer)) else axes
    places = tuple([normalize_axis(a, rank) for a in given])
    if len({*places}) != len(places) or not places:
        raise ArgumentError(f"scipy.signal.{name}: axes={axes}.", user_line())
    rest = [a for a in range(rank) if a not in places]
    broadcast_shapes(*[tuple([v.shape[a] for a in rest]) for v in (x, y)])
    if mode == "valid":
        pairs = [(x.shape[a], y.shape[a]) for a in places]
        if not (all([n >= m for n, m in pairs]) or all([n <= m for n, m in pairs])):
            raise ShapeError(f"scipy.signal.{name}: neither array lies inside of the other.")
    return x, y, places


@of_signals
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Value:
    """The convolution by Fourier transforms; the arrays broadcast in axes besides `axes`.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.fftconvolve(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(9)
        array([1., 3., 2.])
    """
    x, y, places = _transformed("fftconvolve", in1, in2, mode, axes)
    return _of_mode(_by_transforms(x, y, places), x, y, mode, places)


@of_signals
def oaconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Value:
    """The same as `fftconvolve`; along one axis in blocks, or by sums where one array is small.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.oaconvolve(np.array([1.0, 2.0]), np.array([1.0, 1.0])).round(9)
        array([1., 3., 2.])
    """
    x, y, places = _transformed("oaconvolve", in1, in2, mode, axes)
    whole = len(places) == len(x.shape)
    if whole and min(math.prod(x.shape), math.prod(y.shape)) <= _FEW:
        full = full_sums(x, y)
    elif len(places) == 1:
        full = _by_blocks(x, y, places[0])
    else:
        full = _by_transforms(x, y, places)
    return _of_mode(full, x, y, mode, places)


@also_takes("precision")
@of_signals
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Value:
    """The convolution of two matrices; outside the first one is "fill", "wrap" or "symm".

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.convolve2d(np.ones((2, 2)), np.ones((2, 2)), mode="valid")
        array([[4.]])
    """
    x, y = _pair("convolve2d", in1, in2, 2)
    _chosen("convolve2d", "mode", mode, ("full", "same", "valid"))
    _chosen("convolve2d", "boundary", boundary, tuple(_BOUNDARIES))
    if _swapped("convolve2d", mode, x, y):
        x, y = y, x
    if mode == "valid":
        return _of_mode(full_sums(x, y), x, y, mode, (0, 1))
    return _of_mode(_continued(x, y, boundary, fillvalue), x, y, mode, (0, 1))


def _continued(x: Value, y: Value, boundary: str, fillvalue: ArrayLike) -> Value:
    """The full convolution of a matrix that goes on outside of its edges."""
    settings: PyTree = {"mode": _BOUNDARIES[boundary]}
    if settings["mode"] == "constant":
        settings["constant_values"] = fillvalue
    widths = [(m - 1, m - 1) for m in y.shape]
    wide = fnp.pad(x, widths, **settings)
    return _middle(full_sums(wide, y), [n + m - 1 for n, m in zip(x.shape, y.shape, strict=True)])


@also_takes("precision")
@of_signals
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Value:
    """The correlation of two matrices, the second one conjugated; see `convolve2d`.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.correlate2d(np.ones((2, 2)), np.ones((2, 2)), mode="valid")
        array([[4.]])
    """
    x, y = _pair("correlate2d", in1, in2, 2)
    if _swapped("correlate2d", mode, x, y):  # as SciPy, (y, x) reversed
        return _reversed(correlate2d(y, x, mode, boundary, fillvalue))
    full = convolve2d(
        x, _reversed(conj(y)), "full" if mode == "same" else mode, boundary, fillvalue
    )
    if mode != "same":
        return full
    (a, b), (n, m) = [k // 2 for k in y.shape], x.shape  # of even filters, the later middle
    return full[a : a + n, b : b + m]
