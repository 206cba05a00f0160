"""L7. `scipy.signal`: what filters do to frequencies.

H(z) = (b_0 + b_1 z^-1 + ...) / (a_0 + a_1 z^-1 + ...)        at z = exp(i w)
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_array, as_operand, convert, inexact, user_line
from fgrad.ops.complex import real_dtype
from fgrad.scipy.signal.common import in_precision, of_signals, refused
from fgrad.scipy.signal.filters import sections
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

_CIRCLE = 2 * math.pi


def _places(
    worN: ArrayLike | None,
    whole: bool,
    fs: float,
    last: bool = False,
    kind: DTypeLike = np.float64,
    off: bool = False,
) -> Value:
    """Frequencies in radians for each sample: so many, or those given in units of fs, which may be
    complex if `off`, as for SciPy."""
    if worN is None:
        worN = 512
    if isinstance(worN, (int, np.integer)) or (isinstance(worN, float) and worN == int(worN)):
        most = _CIRCLE if whole else math.pi
        return np.linspace(0, most, int(worN), endpoint=last and not whole, dtype=kind)
    places = np.atleast_1d(inexact(as_operand(worN)))
    kind = np.dtype(np.complex128 if off and places.dtype.kind == "c" else kind)
    return convert(places, kind) * (_CIRCLE / fs)


def _unplotted(name: str, plot: object) -> None:
    if plot is not None:
        refused(name, "plot", "a plot needs plain numbers.", "plot what it returns")


def _polynomial(c: Value, z: Value) -> Value:
    """c_0 + c_1 z + c_2 z^2 + ..., by Horner's rule."""
    found = c[-1] + 0 * z
    for k in range(c.shape[0] - 2, -1, -1):
        found = found * z + c[k]
    return found


def _vector(name: str, c: ArrayLike) -> Value:
    found = np.atleast_1d(inexact(as_operand(c)))
    if len(found.shape) != 1:
        raise ShapeError(
            f"scipy.signal.{name}: coefficients of shape {found.shape}.",
            (*user_line(), ("write", "fgrad.vmap over the further axes")),
        )
    return found


@of_signals
def freqz(
    b: ArrayLike,
    a: ArrayLike = 1,
    worN: ArrayLike | None = 512,
    whole: bool = False,
    plot: object = None,
    fs: float = _CIRCLE,
    include_nyquist: bool = False,
) -> tuple[Value, Value]:
    """Frequencies, and the response of a digital filter to them.

    Arguments:
        b, a: numerator and denominator, of one axis each.
        worN: how many frequencies, or the frequencies, which may be traced.
        whole: whether they go around the whole circle.
        plot: None.
        fs: the rate of samples, in whose unit frequencies are.
        include_nyquist: whether the last frequency is fs / 2.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> np.abs(sg.freqz([0.5, 0.5], worN=[0.0, np.pi])[1]).round(9)
        array([1., 0.])
    """
    _unplotted("freqz", plot)
    top, bottom = _vector("freqz", b), _vector("freqz", a)
    both = np.result_type(as_array(b).dtype, bottom.dtype)  # as SciPy
    kind = real_dtype(both) if both.kind in "fc" else np.dtype(np.float64)
    w = _places(worN, whole, fs, include_nyquist, kind)
    z = np.exp(-1j * w)
    found = _polynomial(top, z) / _polynomial(bottom, z)
    given = w * (fs / _CIRCLE)
    is_complex = "c" in (top.dtype.kind, bottom.dtype.kind) and worN is not None and np.ndim(worN)
    return convert(given, np.result_type(kind, np.complex64)) if is_complex else given, found


@of_signals
def freqz_sos(
    sos: ArrayLike, worN: ArrayLike | None = 512, whole: bool = False, fs: float = _CIRCLE
) -> tuple[Value, Value]:
    """Frequencies, and the response of second-order sections; arguments are those of `freqz`.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> np.abs(sg.freqz_sos([[0.5, 0.5, 0, 1, 0, 0]], worN=[0.0, np.pi])[1]).round(9)
        array([1., 0.])
    """
    table = sections("freqz_sos", in_precision(sos)[0])
    w = _places(worN, whole, fs)
    z, found = np.exp(-1j * w), np.ones(1, np.complex128)
    for k in range(table.shape[0]):
        found = found * _polynomial(table[k, :3], z) / _polynomial(table[k, 3:], z)
    return w * (fs / _CIRCLE), found


sosfreqz = freqz_sos


def _by_roots(z: Value, p: Value, k: ArrayLike, at: Value) -> Value:
    return k * np.prod(at[:, None] - z, axis=-1) / np.prod(at[:, None] - p, axis=-1)


@of_signals
def freqz_zpk(
    z: ArrayLike,
    p: ArrayLike,
    k: ArrayLike,
    worN: ArrayLike | None = 512,
    whole: bool = False,
    fs: float = _CIRCLE,
) -> tuple[Value, Value]:
    """Frequencies, and the response of a digital filter of zeros z, poles p and gain k.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> np.abs(sg.freqz_zpk([-1.0], [0.0], 0.5, worN=[0.0, np.pi])[1]).round(9)
        array([1., 0.])
    """
    w = _places(worN, whole, fs, off=True)
    zeros, poles = _vector("freqz_zpk", z), _vector("freqz_zpk", p)
    return w * (fs / _CIRCLE), _by_roots(zeros, poles, as_operand(k), np.exp(1j * w))


def _given(name: str, worN: ArrayLike) -> Value:
    if np.ndim(worN) == 0:
        refused(name, "a number as worN", "the frequencies depend on values.", "worN=frequencies")
    return inexact(as_operand(worN))


@of_signals
def freqs(
    b: ArrayLike, a: ArrayLike, worN: ArrayLike = 200, plot: object = None
) -> tuple[Value, Value]:
    """Frequencies, and the response of an analogue filter, whose worN are the frequencies.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.freqs([1.0], [1.0, 1.0], worN=[0.0, 1.0])[1]
        array([1. +0.j , 0.5-0.5j])
    """
    _unplotted("freqs", plot)
    w = _given("freqs", worN)
    top, bottom = _vector("freqs", b), _vector("freqs", a)
    return w, _polynomial(top[::-1], 1j * w) / _polynomial(bottom[::-1], 1j * w)


@of_signals
def freqs_zpk(
    z: ArrayLike, p: ArrayLike, k: ArrayLike, worN: ArrayLike = 200
) -> tuple[Value, Value]:
    """Frequencies, and the response of an analogue filter of zeros z, poles p and gain k.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.freqs_zpk([], [-1.0], 1.0, worN=[0.0, 1.0])[1]
        array([1. +0.j , 0.5-0.5j])
    """
    w = _given("freqs_zpk", worN)
    zeros, poles = _vector("freqs_zpk", z), _vector("freqs_zpk", p)
    return w, _by_roots(zeros, poles, as_operand(k), 1j * w)


@of_signals
def group_delay(
    system: tuple[ArrayLike, ArrayLike],
    w: ArrayLike | None = 512,
    whole: bool = False,
    fs: float = _CIRCLE,
) -> tuple[Value, Value]:
    """Frequencies, and by how many samples a filter (b, a) delays them; 0 where it has a zero.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.group_delay(([0.0, 1.0], [1.0]), [0.5])[1].round(9)
        array([1.])
    """
    b, a = [_vector("group_delay", c) for c in system]
    places = _places(w, whole, fs, off=True)
    z = np.exp(-1j * places)
    product = np.convolve(b, np.conj(a)[::-1])
    slope = _polynomial(product * np.arange(product.shape[0]), z)
    value = _polynomial(product, z)
    singular = np.abs(value) < 10 * np.finfo(np.float64).eps
    delay = np.real(slope / np.where(singular, 1, value)) - (a.shape[0] - 1)
    return places * (fs / _CIRCLE), np.where(singular, 0.0, delay)
