"""L7. `scipy.signal`: other rates of samples, analytic signals, transforms along spirals."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence

import numpy as np

import fgrad.numpy as fnp
from fgrad.errors import ShapeError
from fgrad.lax.convolutions import conv_general_dilated
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.ops.complex import real_dtype
from fgrad.scipy.signal.common import (
    Window,
    chosen,
    in_precision,
    lines,
    of_signals,
    plain,
    refused,
    wrong,
)
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, PyTree

_PADS = ("symmetric", "reflect", "edge", "wrap")  # of `np.pad`
_MODES = ("constant", "line", *_PADS)
_TRENDS = ("mean", "median", "minimum", "maximum")


# --- rates by factors ---------------------------------------------------------------------------


def _stretched(h: Value, x: Value, up: int, down: int) -> Value:
    """The full convolution of the last axis, with up - 1 zeros between its values, at each
    down-th place."""
    if x.dtype.kind == "c" or h.dtype.kind == "c":
        parts = [_stretched(f(h), f(x), up, down) for f in (np.real, np.imag)]
        mixed = [_stretched(np.real(h), np.imag(x), up, down)]
        mixed.append(_stretched(np.imag(h), np.real(x), up, down))
        return (parts[0] - parts[1]) + 1j * (mixed[0] + mixed[1])
    m, rows = h.shape[0], np.reshape(x, (-1, 1, x.shape[-1]))
    kernel = np.reshape(h[::-1], (1, 1, m))
    found = conv_general_dilated(rows, kernel, (down,), [(m - 1, m - 1)], lhs_dilation=(up,))
    return np.reshape(found, (*x.shape[:-1], found.shape[-1]))


def _continued(x: Value, n: int, mode: str, cval: ArrayLike) -> Value:
    """The last axis with n more values at both ends."""
    if mode in _PADS:
        return fnp.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(n, n)], mode=mode)
    shape = (*x.shape[:-1], n)
    if mode == "constant":
        ends = np.broadcast_to(convert(as_operand(cval), x.dtype), shape)
        return np.concatenate([ends, x, ends], axis=-1)
    slope = (x[..., -1:] - x[..., :1]) / x.dtype.type(max(x.shape[-1] - 1, 1))
    steps = np.arange(1, n + 1).astype(x.dtype)
    left, right = x[..., :1] - slope * steps[::-1], x[..., -1:] + slope * steps
    return np.concatenate([left, x, right], axis=-1)


def _filtered(
    h: Value, x: Value, up: int, down: int, mode: str = "constant", cval: ArrayLike = 0
) -> Value:
    """`upfirdn` along the last axis."""
    if mode == "constant" and not isinstance(cval, Tracer) and cval == 0:
        return _stretched(h, x, up, down)
    count = -(-((x.shape[-1] - 1) * up + h.shape[0]) // down)
    n = -(-h.shape[0] // (up * down)) * down  # values whose places are a multiple of `down`
    skipped = n * up // down
    return _stretched(h, _continued(x, n, mode, cval), up, down)[..., skipped : skipped + count]


def _mode(name: str, what: str, mode: str, known: Sequence[str]) -> None:
    if mode in ("smooth", "antisymmetric", "antireflect"):
        refused(name, f"{what}={mode!r}", "it has no traced form.", f'{what}="line"')
    chosen(name, what, mode, known)


@of_signals
def upfirdn(
    h: ArrayLike,
    x: ArrayLike,
    up: int = 1,
    down: int = 1,
    axis: int = -1,
    mode: str | None = "constant",
    cval: ArrayLike = 0,
) -> Value:
    """A signal with `up` - 1 zeros between its values, filtered by h; each `down`-th value stays.

    Arguments:
        h: the filter, of one axis.
        x, axis: the signal, and the axis of its values.
        up, down: the factors.
        mode, cval: how the signal goes on: "constant" with cval, "symmetric", "reflect", "edge",
            "wrap" or "line".

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.upfirdn([1.0, 1.0], np.array([1.0, 2.0]), 2)
        array([1., 1., 2., 2.])
    """
    mode = "constant" if mode is None else mode
    _mode("upfirdn", "mode", mode, _MODES)
    taps, signal = in_precision(h, x)
    if len(taps.shape) != 1 or not taps.size:
        raise ShapeError(f"scipy.signal.upfirdn: h of shape {taps.shape}.", user_line())
    if up < 1 or down < 1:
        raise wrong("upfirdn", f"up={up}, down={down}", "factors of at least 1")
    signal, place = lines(signal, axis)
    return moveaxis(_filtered(taps, signal, up, down, mode, cval), -1, place)


def _taps(window: Window, up: int, down: int) -> Value:
    """The filter of `resample_poly`: given, or by a window."""
    if not isinstance(window, (str, tuple)):
        return inexact(as_operand(window))
    most = max(up, down)
    return plain.firwin(20 * most + 1, 1.0 / most, window=window)


@of_signals
def resample_poly(
    x: ArrayLike,
    up: int,
    down: int,
    axis: int = 0,
    window: Window = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: ArrayLike | None = None,
) -> Value:
    """A signal at up / down times its rate, by one filter.

    Arguments:
        x, axis: the signal, and the axis of its values.
        up, down: the factors.
        window: of the filter, or its coefficients.
        padtype: a mode of `upfirdn`, or "mean", "median", "minimum", "maximum": what is taken out
            before, and added again.
        cval: the constant outside; 0 if None.

    Raises:
        ShapeError: if the window has more than one axis.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.resample_poly(np.ones(8), 1, 2).shape
        (4,)
    """
    if up != int(up) or down != int(down) or up < 1 or down < 1:
        raise wrong("resample_poly", f"up={up}, down={down}", "integers of at least 1")
    _mode("resample_poly", "padtype", padtype, (*_MODES, *_TRENDS))
    if cval is not None and padtype != "constant":
        raise wrong("resample_poly", f"cval with padtype={padtype!r}", 'padtype="constant"')
    (signal,) = in_precision(x)
    divisor = math.gcd(int(up), int(down))
    up, down = int(up) // divisor, int(down) // divisor
    if up == down == 1:
        return signal * 1
    taps = convert(_taps(window, up, down), signal.dtype)
    if len(taps.shape) != 1:
        raise ShapeError(f"scipy.signal.resample_poly: window of shape {taps.shape}.", user_line())
    signal, place = lines(signal, axis)
    level: Value | float = 0.0
    if padtype in _TRENDS:
        of = {"mean": np.mean, "median": np.median, "minimum": np.min, "maximum": np.max}[padtype]
        level = of(signal, axis=-1, keepdims=True)
    n = signal.shape[-1]
    count, half = -(-n * up // down), (taps.shape[0] - 1) // 2
    before = down - half % down  # zeros, so that the middle of the filter falls on a place
    skipped = (half + before) // down
    taps = np.pad(taps * up, (before, 0))
    short = skipped + count - (-(-((n - 1) * up + taps.shape[0]) // down))
    if short > 0:
        taps = np.pad(taps, (0, short * down))
    mode = "constant" if padtype in _TRENDS else padtype
    found = _filtered(taps, signal - level, up, down, mode, 0 if cval is None else cval)
    return moveaxis(found[..., skipped : skipped + count] + level, -1, place)


# --- rates by transforms ------------------------------------------------------------------------


def _window_of(window: Window | Callable[..., Value], n: int, freqs: np.ndarray) -> Value:
    if callable(window):
        return window(freqs)
    if isinstance(window, (str, tuple)):
        return np.fft.ifftshift(plain.get_window(window, n))
    given = inexact(as_operand(window))
    if given.shape != (n,):
        raise ShapeError(f"scipy.signal.resample: a window of shape {given.shape}.", user_line())
    return given


@of_signals
def resample(
    x: ArrayLike,
    num: int,
    t: ArrayLike | None = None,
    axis: int = 0,
    window: Window | Callable[..., Value] | None = None,
    domain: str = "time",
) -> Value | tuple[Value, Value]:
    """A periodic signal at `num` places, by Fourier transforms.

    Arguments:
        x, axis: the signal, and the axis of its values.
        num: how many values there will be.
        t: the places of the values; then the new places are returned too.
        window: weights of the spectrum: a function of frequencies, an array or a name.
        domain: "time"; "freq" if x is a spectrum.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.resample(np.array([1.0, 0.0, -1.0, 0.0]), 8).round(3)
        array([ 1.   ,  0.707,  0.   , -0.707, -1.   , -0.707,  0.   ,  0.707])
    """
    chosen("resample", "domain", domain, ("time", "freq"))
    if int(num) != num or num < 1:
        raise wrong("resample", f"num={num}", "an integer of at least 1")
    signal, place = lines(in_precision(x)[0], axis)
    n, num = signal.shape[-1], int(num)
    real = domain == "time" and signal.dtype.kind != "c"
    spectrum = signal if domain == "freq" else (np.fft.rfft if real else np.fft.fft)(signal)
    if window is not None:
        weight = _window_of(window, n, np.fft.fftfreq(n))
        if real:  # of both halves, the mean
            weight = (weight + weight[-np.arange(n)])[: n // 2 + 1] / 2
        spectrum = spectrum * convert(as_operand(weight), spectrum.dtype)
    found = _other_length(spectrum, n, num, real)
    y = np.fft.irfft(found, num) if real else np.fft.ifft(found)
    y = moveaxis(y * y.dtype.type(num / n), -1, place)
    if t is None:
        return y
    t = as_operand(t)
    return y, t[0] + np.arange(num) * (t[1] - t[0]) * n / num


def _other_length(spectrum: Value, n: int, num: int, half: bool) -> Value:
    """A spectrum of n values as one of num; the value at the highest frequency of the shorter one,
    if that is even, belongs to both signs."""
    common = min(n, num)
    middle, even = common // 2, common % 2 == 0 and n != num
    low = spectrum[..., : (common + 1) // 2]
    zeros = fnp.zeros((*spectrum.shape[:-1], max(num - common, 0)), spectrum.dtype)
    edge = spectrum[..., middle : middle + 1]
    if half:
        if not even:
            kept = spectrum[..., : middle + 1]
        else:
            kept = np.concatenate([low, edge * (2 if num < n else 0.5)], axis=-1)
        missing = num // 2 + 1 - kept.shape[-1]
        return np.concatenate([kept, zeros[..., :missing]], axis=-1) if missing > 0 else kept
    if n == num:
        return spectrum
    high = spectrum[..., n - (common - 1) // 2 :]
    if not even:
        return np.concatenate([low, zeros, high], axis=-1)
    if num < n:
        both = edge + spectrum[..., n - middle : n - middle + 1]
        return np.concatenate([low, both, high], axis=-1)
    return np.concatenate([low, edge / 2, zeros[..., 1:], edge / 2, high], axis=-1)


# --- analytic signals ---------------------------------------------------------------------------


def _one_sided(n: int, both: float) -> np.ndarray:
    """2 for positive frequencies, 0 for negative ones; `both` for the one that is both."""
    weight = np.zeros(n)
    weight[0] = 1
    weight[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weight[n // 2] = both
    return weight


def _real_signal(name: str, x: ArrayLike) -> Value:
    (signal,) = in_precision(x)
    if signal.dtype.kind == "c":
        raise wrong(name, "a complex signal", f"{name}(x.real)")
    return signal


def _analytic(x: Value, n: int | None, axis: int, both: float = 1) -> Value:
    n = x.shape[axis] if n is None else int(n)
    if not x.size or n < 1:
        raise wrong("hilbert", f"a signal of shape {x.shape}")
    weight = _one_sided(n, both).astype(real_dtype(x.dtype) if x.dtype.kind == "c" else x.dtype)
    shape = [n if a == axis else 1 for a in range(len(x.shape))]
    return np.fft.ifft(np.fft.fft(x, n, axis) * weight.reshape(shape), axis=axis)


@of_signals
def hilbert(x: ArrayLike, N: int | None = None, axis: int = -1) -> Value:
    """The analytic signal, whose imaginary part is the Hilbert transform.

    Arguments:
        x, axis: a real signal, and the axis of its values.
        N: the length of the transform; that of the signal if None.

    Raises:
        ArgumentError: if the signal is complex, or N is not positive.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> np.abs(sg.hilbert(np.array([1.0, 0.0, -1.0, 0.0]))).round(9)
        array([1., 1., 1., 1.])
    """
    signal = _real_signal("hilbert", x)
    if N is not None and N <= 0:
        raise wrong("hilbert", f"N={N}", "a positive number")
    return _analytic(signal, N, normalize_axis(axis, len(signal.shape)))


@of_signals
def hilbert2(
    x: ArrayLike, N: int | tuple[int, int] | None = None, axes: tuple[int, int] = (-2, -1)
) -> Value:
    """The analytic signal along two axes.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.hilbert2(np.ones((2, 2))).real
        array([[1., 1.],
               [1., 1.]])
    """
    signal = _real_signal("hilbert2", x)
    rank = len(signal.shape)
    if rank < 2:
        raise wrong("hilbert2", f"an array of {rank} axes", "hilbert(x)")
    if N is not None and np.min(N) <= 0:
        raise wrong("hilbert2", f"N={N}", "positive numbers")
    lengths: Sequence[int | None] = (N, N) if N is None or isinstance(N, int) else N
    if len({normalize_axis(a, rank) for a in axes}) != 2:
        raise wrong("hilbert2", f"axes={axes}", "axes=(0, 1)")
    for a, n in zip(axes, lengths, strict=True):
        signal = _analytic(signal, n, normalize_axis(a, rank), 0)
    return signal


# --- transforms along spirals -------------------------------------------------------------------


@of_signals
def czt(
    x: ArrayLike, m: int | None = None, w: complex | None = None, a: complex = 1 + 0j, *,
    axis: int = -1,
) -> Value:  # fmt: skip
    """The z-transform at places on a spiral, a w^-k, by Bluestein's convolution.

    Arguments:
        x, axis: the signal, and the axis of its values.
        m: how many places; as many as values if None.
        w, a: the plain ratio between places, and the first one.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.czt(np.array([1.0, 2.0]), 2).real.round(9)
        array([ 3., -1.])
    """
    signal, place = lines(in_precision(x)[0], axis)
    n = signal.shape[-1]
    m = n if m is None else int(m)
    if m < 1 or n < 1:
        raise wrong("czt", f"m={m} for {n} values", "a positive number")
    if has_tracer((w, a)):
        refused("czt", "traced w or a", "they decide the places.", "plain numbers")
    k = np.arange(max(m, n), dtype=np.float64)
    turn = cmath.log(np.exp(-2j * np.pi / m) if w is None else complex(w))
    chirp = np.exp(turn * ((k**2 % (2 * m) if w is None else k**2) / 2))
    length = n + m - 1
    back = np.concatenate([1 / chirp[:m], (1 / chirp[1:n])[::-1]])
    weights = chirp[:n] * complex(a) ** -k[:n]
    product = np.fft.fft(signal * weights, length) * np.fft.fft(back)
    found = np.fft.ifft(product)[..., :m] * chirp[:m]
    return moveaxis(found, -1, place)


@of_signals
def zoom_fft(
    x: ArrayLike, fn: float | Sequence[float], m: int | None = None, *, fs: float = 2,
    endpoint: bool = False, axis: int = -1,
) -> Value:  # fmt: skip
    """The Fourier transform at m frequencies between the two of `fn`.

    Arguments:
        x, axis: the signal, and the axis of its values.
        fn: the first and the last frequency, or the last one alone.
        m, endpoint: how many, and whether the last one is among them.
        fs: the rate of samples.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.zoom_fft(np.array([1.0, 2.0]), [0, 2]).real.round(9)
        array([ 3., -1.])
    """
    low, high = (0.0, float(fn)) if isinstance(fn, (int, float)) else [float(f) for f in fn]
    shape = as_operand(x).shape
    count = shape[normalize_axis(axis, len(shape))] if m is None else int(m)
    steps = (count - 1 if endpoint and count > 1 else count) * fs
    w = cmath.exp(-2j * cmath.pi * (high - low) / steps)
    settings: PyTree = {"w": w, "a": cmath.exp(2j * cmath.pi * low / fs), "axis": axis}
    return czt(x, count, **settings)
