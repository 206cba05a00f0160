"""L7. `scipy.signal`: recursions forwards and backwards over signals that are mirrored at their
ends, and smoothing splines of images by them.

The first values of a recursion are sums over the mirrored signal, which SciPy cuts off at a
precision; the weights of these sums are SciPy's own, of signals that are one at one place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, user_line
from fgrad.scipy.signal.common import in_precision, of_signals, plain, refused, wrong
from fgrad.scipy.signal.filters import lfilter
from fgrad.scipy.signal.smoothing import sepfir2d
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def _rows(name: str, signal: ArrayLike, ranks: Sequence[int] = (1, 2)) -> Value:
    (x,) = in_precision(signal)
    if len(x.shape) not in ranks:
        raise ShapeError(f"scipy.signal.{name}: a signal of shape {x.shape}.", user_line())
    return x


def _weights(
    impulses: Callable[[np.ndarray], np.ndarray], n: int, kind: np.dtype, size: int = 64
) -> np.ndarray:
    """The first values of a recursion, (places of an impulse, values), until they are zero."""
    size = min(n, size)
    found = impulses(np.eye(size, dtype=kind))
    ended = size == n or not np.any(found[-1])
    return found if ended else _weights(impulses, n, kind, 4 * size)


def _backwards(x: Value, last: Value, b: Value, a: Value, state: Value) -> Value:
    """A recursion over the reversed signal, before values that are known."""
    found = lfilter(b, a, x[..., ::-1], zi=state)[0]
    return np.concatenate([found[..., ::-1], last], axis=-1)


@of_signals
def symiirorder1(signal: ArrayLike, c0: ArrayLike, z1: ArrayLike, precision: float = -1.0) -> Value:
    """c0 / ((1 - z1 / z) (1 - z1 z)) applied to a signal that is mirrored at its ends.

    Arguments:
        signal: one signal, or rows of them.
        c0: the gain.
        z1: the pole, between -1 and 1; for a traced one no sum is cut off.
        precision: at which the sums for the first values are cut off.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.symiirorder1(np.ones(24), 0.81, 0.1)[:3].round(6)
        array([1., 1., 1.])
    """
    x = _rows("symiirorder1", signal)
    gain, pole = [convert(as_operand(v), x.dtype) for v in (c0, z1)]
    if has_tracer((z1,)):
        weights = np.power(pole, np.arange(x.shape[-1]).astype(x.dtype))
        weights = np.where(np.arange(x.shape[-1]) == 0, 1, weights)
    else:
        if np.abs(np.asarray(z1)) >= 1:
            raise wrong("symiirorder1", f"z1={z1}", "a pole inside of the unit circle")

        def impulses(eye: np.ndarray) -> np.ndarray:
            response = plain.symiirorder1(eye, 1.0, z1, precision)
            after = response[:, 1] if eye.shape[0] > 1 else 0 * response[:, 0]
            return response[:, 0] - z1 * after

        one = x.shape[-1] == 1
        weights = np.ones(1) if one else _weights(impulses, x.shape[-1], x.dtype)
        weights = weights.astype(x.dtype)
    first = (x[..., : weights.shape[0]] @ weights)[..., None]
    one = np.ones(1, x.dtype)
    a = np.stack([one[0], -pole])
    forth = lfilter(one, a, x[..., 1:], zi=first * pole)[0]
    forth = np.concatenate([first, forth], axis=-1)
    last = forth[..., -1:] * (-gain / (pole - 1))
    return _backwards(forth[..., :-1], last, gain[None], a, last * pole)


@of_signals
def symiirorder2(input: ArrayLike, r: float, omega: float, precision: float = -1.0) -> Value:
    """cs^2 / ((1 - a2 / z - a3 / z^2) (1 - a2 z - a3 z^2)) applied to a signal that is mirrored at
    its ends, with a2 = 2 r cos(omega), a3 = -r^2, cs = 1 - a2 - a3.

    Arguments:
        input: one signal, or rows of them.
        r, omega: the size and the angle of the poles, plain.
        precision: at which the sums for the first values are cut off.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.symiirorder2(np.ones(30), 0.1, 0.2, 1e-6)[:2].round(5)
        array([1., 1.])
    """
    x = _rows("symiirorder2", input)
    if has_tracer((r, omega)):
        refused("symiirorder2", "traced r or omega", "they decide the sums.", "plain numbers")
    if x.dtype.kind == "c":
        refused("symiirorder2", "a complex signal", "SciPy has none.", "real and imaginary parts")
    n = x.shape[-1]
    if n < 3 or r >= 1:
        raise wrong("symiirorder2", f"{n} values, r={r}", "three values or more, and r < 1")
    a2, a3 = 2 * r * math.cos(omega), -r * r
    scale = 1 - a2 - a3

    def forth(eye: np.ndarray) -> np.ndarray:
        found = plain.symiirorder2(eye, r, omega, precision)
        if eye.shape[0] < 4:
            raise wrong("symiirorder2", f"{n} values", "four values or more")
        return (found[:, :2] - a2 * found[:, 1:3] - a3 * found[:, 2:4]) / scale

    def back(eye: np.ndarray) -> np.ndarray:
        return plain.symiirorder2(eye[::-1], r, omega, precision)[:, -2:]

    first = _product(x, _weights(forth, n, x.dtype))
    last = _product(x[..., ::-1], _weights(back, n, x.dtype))
    b, a = np.array([scale], x.dtype), np.array([1, -a2, -a3], x.dtype)
    state = np.array([[a3, 0], [a2, a3]], x.dtype)
    rest = lfilter(b, a, x[..., 2:], zi=first @ state)[0]
    whole = np.concatenate([first, rest], axis=-1)
    return _backwards(whole[..., :-2], last, b, a, last[..., ::-1] @ state)


def _product(x: Value, weights: np.ndarray) -> Value:
    return x[..., : weights.shape[0]] @ weights.astype(x.dtype)


# --- splines of images --------------------------------------------------------------------------


def _precise(x: Value, precision: float) -> float:
    if 0 <= precision < 1:
        return precision
    return 1e-3 if x.dtype in (np.float32, np.complex64) else 1e-6


def _both(x: Value, along: Callable[[Value], Value]) -> Value:
    """A recursion along the rows, and then along the columns."""
    x = along(x)
    return x if len(x.shape) == 1 else moveaxis(along(moveaxis(x, 0, -1)), -1, 0)


def _plain_factor(name: str, factor: float) -> None:
    if has_tracer((factor,)):
        refused(name, "a traced factor of smoothing", "it decides the poles.", "a plain number")


@of_signals
def cspline2d(signal: ArrayLike, lamb: float = 0.0, precision: float = -1.0) -> Value:
    """The coefficients of the cubic spline near to an image that is mirrored at its edges.

    Arguments:
        signal: the image.
        lamb: how much it is smoothed, plain.
        precision: at which the sums for the first values are cut off.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.cspline2d(np.ones((9, 9)), precision=1e-3)[0, :2].round(2)
        array([1., 1.])
    """
    _plain_factor("cspline2d", lamb)
    x = _rows("cspline2d", signal, (2,))
    cut = _precise(x, precision)
    if lamb <= 1 / 144:
        pole = -2 + math.sqrt(3.0)
        return _both(x, lambda v: symiirorder1(v, -6 * pole, pole, cut))
    inner = math.sqrt(3 + 144 * lamb)
    size = 1 - 96 * lamb + 24 * lamb * inner
    angle = math.atan(math.sqrt((144 * lamb - 1) / size))
    grown = (48 * lamb + 24 * lamb * inner) / size
    radius = (24 * lamb - 1 - math.sqrt(size)) / (24 * lamb) * math.sqrt(grown)
    return _both(x, lambda v: symiirorder2(v, radius, angle, cut))


@of_signals
def qspline2d(signal: ArrayLike, lamb: float = 0.0, precision: float = -1.0) -> Value:
    """The coefficients of the quadratic spline through an image that is mirrored at its edges.

    Arguments:
        signal: the image.
        lamb: 0, as SciPy has no smoothing one.
        precision: at which the sums for the first values are cut off.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.qspline2d(np.ones((9, 9)), precision=1e-3)[0, :2].round(2)
        array([1., 1.])
    """
    _plain_factor("qspline2d", lamb)
    if lamb > 0:
        raise wrong("qspline2d", f"lamb={lamb}", "lamb=0")
    x = _rows("qspline2d", signal, (2,))
    pole = -3 + 2 * math.sqrt(2.0)
    cut = _precise(x, precision)
    return _both(x, lambda v: symiirorder1(v, -8 * pole, pole, cut))


@of_signals
def spline_filter(Iin: ArrayLike, lmbda: float = 5.0) -> Value:
    """An image smoothed by a cubic spline; complex ones in single precision, as in SciPy.

    Arguments:
        Iin: the image, of floating point numbers.
        lmbda: how much it is smoothed, plain.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.spline_filter(np.ones((40, 40)))[0, :2].round(3)
        array([1., 1.])
    """
    x = as_operand(Iin)
    if x.dtype not in (np.float32, np.float64, np.complex64, np.complex128):
        raise TypeError(f"scipy.signal.spline_filter: an image of {x.dtype}")
    inner = convert(x, np.dtype(np.complex64)) if x.dtype.kind == "c" else x
    weights = np.array([1.0, 4.0, 1.0], np.float32) / 6
    return convert(sepfir2d(cspline2d(inner, lmbda), weights, weights), x.dtype)
