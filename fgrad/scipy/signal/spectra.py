"""L7. `scipy.signal`: trends, and spectra by segments.

A spectrum cuts the signal into segments that overlap, takes their trends out, multiplies them by a
window and transforms them.  Names, arguments and values are SciPy's; the arrays of frequencies and
times are plain.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

import fgrad.numpy as fnp
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import warn_user
from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.ops.complex import real_dtype
from fgrad.scipy.signal.common import Window, chosen, in_precision, of_signals, plain, wrong
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.typing import ArrayLike

Detrend: TypeAlias = "str | bool | Callable[..., Value]"


# --- trends -------------------------------------------------------------------------------------


@of_signals
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: ArrayLike = 0,
    overwrite_data: bool = False,
) -> Value:
    """What is left of the data without their mean, or without a straight line in each piece.

    Example:
        >>> detrend(np.array([1.0, 2.0, 6.0]), type="constant")
        array([-2., -1.,  3.])
    """
    x = inexact(as_operand(data))
    if type not in ("linear", "l", "constant", "c"):
        raise wrong("detrend", f"type={type!r}", 'type="linear" or type="constant"')
    axis = normalize_axis(axis, len(x.shape))
    if type in ("constant", "c"):
        return x - np.mean(x, axis=axis, keepdims=True)
    n = x.shape[axis]
    cuts = np.unique(np.concatenate([[0], np.atleast_1d(np.asarray(bp, int)), [n]]))
    if cuts[-1] > n or cuts[0] < 0:
        raise wrong("detrend", f"bp={bp} for {n} numbers")
    moved = moveaxis(x, axis, -1)
    parts = [_without_line(moved[..., a:b]) for a, b in itertools.pairwise(cuts)]
    return moveaxis(np.concatenate(parts, axis=-1), -1, axis)


def _without_line(x: Value) -> Value:
    """The last axis less the straight line that is nearest to it."""
    n = x.shape[-1]
    q = np.linalg.qr(np.stack([np.ones(n), np.arange(1, n + 1) / n], axis=1))[0].astype(x.dtype)
    return x - (x @ q) @ q.T


# --- spectra ------------------------------------------------------------------------------------


class Segments(NamedTuple):
    """How a signal is cut: the window, and the lengths of segments, steps and transforms."""

    window: Value
    length: int
    step: int
    nfft: int


def _segments(
    name: str, window: Window, nperseg: int | None, noverlap: int | None, nfft: int | None, n: int
) -> Segments:
    """The checked settings for a signal of n numbers; no segment is longer than it."""
    if nperseg is not None and int(nperseg) < 1:
        raise wrong(name, f"nperseg={nperseg}")
    if isinstance(window, (str, tuple)):
        shape = named_window(window, nperseg, n)
        length = shape.shape[0]
    else:
        shape = inexact(as_operand(window))
        length = shape.shape[0] if len(shape.shape) == 1 else -1
        if length < 0 or length > n or nperseg not in (None, length):
            raise wrong(name, f"a window of shape {shape.shape} for nperseg={nperseg}, {n} values")
    return Segments(shape, length, *_steps(name, length, noverlap, nfft))


def named_window(window: str | tuple[object, ...], nperseg: int | None, n: int) -> np.ndarray:
    """The window of segments of a signal of n values, which are cut to n, with SciPy's warning."""
    length = 256 if nperseg is None else int(nperseg)
    if length > n:
        text = f"nperseg = {length} is greater than input length = {n}, using nperseg = {n}"
        warn_user(text, UserWarning)
    return plain.get_window(window, min(length, n))


def _steps(name: str, length: int, noverlap: int | None, nfft: int | None) -> tuple[int, int]:
    """The checked step and length of transforms."""
    nfft = length if nfft is None else int(nfft)
    overlap = length // 2 if noverlap is None else int(noverlap)
    if nfft < length:
        raise wrong(name, f"nfft={nfft} is less than the segment, {length}")
    if overlap >= length:
        raise wrong(name, f"noverlap={noverlap} for segments of {length}")
    return length - overlap, nfft


def _cut(x: Value, by: Segments) -> Value:
    """Segments of the last axis: (..., n) -> (..., segments, length)."""
    starts = np.arange(0, x.shape[-1] - by.length + 1, by.step)
    return x[..., starts[:, None] + np.arange(by.length)]


def _transformed(x: Value, by: Segments, trend: Detrend, axis: int, onesided: bool) -> Value:
    """The transforms of the segments, (..., segments, frequencies)."""
    pieces = _cut(x, by)
    if callable(trend):
        pieces = moveaxis(user_form(trend)(moveaxis(pieces, -1, axis)), axis, -1)
    elif trend:
        pieces = detrend(pieces, type="constant" if trend is True else str(trend))
    return (np.fft.rfft if onesided else np.fft.fft)(pieces * by.window, n=by.nfft)


def _scale(name: str, scaling: str, fs: float, window: Value) -> Value:
    if scaling in ("density", "psd"):
        return 1.0 / (fs * np.sum(window * window))
    if scaling == "spectrum":
        return 1.0 / np.sum(window) ** 2
    raise wrong(name, f"scaling={scaling!r}", 'scaling="density" or "spectrum"')


def _frequencies(by: Segments, fs: float, onesided: bool) -> np.ndarray:
    return (np.fft.rfftfreq if onesided else np.fft.fftfreq)(by.nfft, 1 / fs)


@of_signals
def csd(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[np.ndarray, Value]:
    """Frequencies, and the cross spectral density by Welch's method (1967).

    Arguments:
        x, y: signals, the shorter one of which is filled with zeros.
        fs, window, nperseg, noverlap, nfft, detrend, scaling, axis: as in SciPy; the window may be
            traced.
        average: "mean" or "median", over the segments.

    Example:
        >>> csd(np.ones(8), np.ones(8), nperseg=4, detrend=False)[1].real.round(3)
        array([2.667, 1.333, 0.   ])
    """
    signals = [x] if y is x else [x, y]
    by = window, nperseg, noverlap, nfft
    freqs, (power,) = densities(
        signals, [(0, len(signals) - 1)], fs, by, detrend, return_onesided, scaling, axis, average
    )
    return freqs, power


def densities(
    given: Sequence[ArrayLike],
    pairs: Sequence[tuple[int, int]],
    fs: float,
    by: tuple[Window, int | None, int | None, int | None],
    detrend: Detrend,
    return_onesided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> tuple[np.ndarray, list[Value]]:
    """Frequencies, and the cross spectral densities of pairs of signals, each transformed once.

    Arguments:
        given: the signals, of which shorter ones are filled with zeros.
        pairs: the numbers of the signals of each density.
        by: window, nperseg, noverlap and nfft; the other arguments are those of `csd`.
    """
    signals = [moveaxis(v, normalize_axis(axis, len(v.shape)), -1) for v in in_precision(*given)]
    lengths = [v.shape[-1] for v in signals]
    if not min(lengths):
        raise ShapeError("scipy.signal: a signal without values has no spectrum.", user_line())
    n = max(lengths)
    segments = _segments("csd", *by, n)
    onesided = return_onesided and signals[0].dtype.kind != "c"
    segments = segments._replace(window=convert(as_operand(segments.window), signals[0].dtype))
    spectra = [
        _transformed(_padded(v, 0, n - v.shape[-1], "zeros"), segments, detrend, axis, onesided)
        for v in signals
    ]
    powers = []
    chosen("csd", "scaling", scaling, ("density", "spectrum"))
    scale = _scale("csd", scaling, fs, segments.window)
    for i, j in pairs:
        a, b = spectra[i], spectra[j]
        power = np.conj(a) * b if i != j else np.real(a) ** 2 + np.imag(a) ** 2
        power = power * convert(scale, power.dtype)
        if onesided:
            doubled = np.ones(power.shape[-1], real_dtype(power.dtype))
            doubled[1 : None if segments.nfft % 2 else -1] = 2
            power = power * doubled
        powers.append(moveaxis(_averaged(power, average), -1, axis))
    return _frequencies(segments, fs, onesided), powers


def _averaged(power: Value, average: str) -> Value:
    """The mean or the median over segments; a median is biased, by a harmonic sum."""
    if average == "mean":
        return np.mean(power, axis=-2)
    if average != "median":
        raise wrong("csd", f"average={average!r}", 'average="mean" or average="median"')
    even = np.arange(2, power.shape[-2], 2)
    bias = real_dtype(power.dtype).type(1 + np.sum(1.0 / (even + 1) - 1.0 / even))
    if power.dtype.kind == "c":
        return (np.median(np.real(power), axis=-2) + 1j * np.median(np.imag(power), axis=-2)) / bias
    return np.median(power, axis=-2) / bias


@of_signals
def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[np.ndarray, Value]:
    """Frequencies, and the power spectral density of a signal; arguments are those of `csd`.

    Example:
        >>> welch(np.ones(8), nperseg=4, detrend=False)[1].round(3)
        array([2.667, 1.333, 0.   ])
    """
    return csd(
        x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )


def _padded(x: Value, before: int, after: int, boundary: str) -> Value:
    """The last axis continued at its ends."""
    if boundary == "zeros":
        return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(before, after)])
    if boundary == "constant":
        return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(before, after)], mode="edge")
    left, right = x[..., 1 : before + 1][..., ::-1], x[..., -after - 1 : -1][..., ::-1]
    if boundary == "odd":
        left, right = 2 * x[..., :1] - left, 2 * x[..., -1:] - right
    return np.concatenate([left, x, right], axis=-1)


@of_signals
def stft(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[np.ndarray, np.ndarray, Value]:
    """Frequencies, times, and the transforms of segments, whose times are the last axis.

    Arguments:
        boundary: "zeros", "constant", "even", "odd" or None: how the signal goes on at its ends.
        padded: whether zeros make the last segment whole.
        others: as in SciPy; those of `csd` beside.

    Example:
        >>> stft(np.ones(8), nperseg=4)[2].shape
        (3, 5)
    """
    (signal,) = in_precision(x)
    place = normalize_axis(axis, len(signal.shape))
    signal = moveaxis(signal, place, -1)
    if not signal.shape[-1]:
        raise ShapeError("scipy.signal: a signal without values has no spectrum.", user_line())
    by = _segments("stft", window, nperseg, noverlap, nfft, signal.shape[-1])
    if boundary not in ("zeros", "constant", "even", "odd", None):
        raise wrong("stft", f"boundary={boundary!r}", '"zeros", "constant", "even", "odd" or None')
    if scaling not in ("spectrum", "psd"):
        raise wrong("stft", f"scaling={scaling!r}", 'scaling="spectrum" or scaling="psd"')
    if boundary is not None:
        signal = _padded(signal, by.length // 2, by.length // 2, boundary)
    if padded:
        missing = (-(signal.shape[-1] - by.length) % by.step) % by.length
        signal = _padded(signal, 0, missing, "zeros")
    onesided = return_onesided and signal.dtype.kind != "c"
    by = by._replace(window=convert(as_operand(by.window), signal.dtype))
    found = _transformed(signal, by, detrend, axis, onesided)
    found = found * convert(np.sqrt(_scale("stft", scaling, fs, by.window)), found.dtype)
    count = found.shape[-2]
    times = (np.arange(count) * by.step + by.length / 2) / float(fs)
    if boundary is not None:
        times = times - (by.length / 2) / fs
    moved = moveaxis(moveaxis(found, -2, -1), -2, place)
    return _frequencies(by, fs, onesided), times, moved


@of_signals
def istft(
    Zxx: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[np.ndarray, Value]:
    """Times, and the signal of which `stft` makes the transforms; arguments as in SciPy.

    Example:
        >>> istft(stft(np.arange(8.0), nperseg=4)[2])[1].round(9)
        array([0., 1., 2., 3., 4., 5., 6., 7.])
    """
    chosen("istft", "scaling", scaling, ("spectrum", "psd"))
    (spectra,) = in_precision(Zxx)
    rank = len(spectra.shape)
    if rank < 2:
        raise ShapeError(f"scipy.signal.istft: transforms of shape {spectra.shape}.", user_line())
    time_axis, freq_axis = normalize_axis(time_axis, rank), normalize_axis(freq_axis, rank)
    if time_axis == freq_axis:
        raise wrong("istft", f"time_axis and freq_axis are both {time_axis}")
    spectra = moveaxis(spectra, (time_axis, freq_axis), (-2, -1))
    bins = spectra.shape[-1]
    usual = 2 * (bins - 1) if input_onesided else bins
    length = usual if nperseg is None else int(nperseg)
    if nfft is None:
        nfft = length if input_onesided and length == usual + 1 else usual
    step, nfft = _steps("istft", length, noverlap, nfft)
    shape = plain.get_window(window, length) if isinstance(window, (str, tuple)) else window
    shape = inexact(as_operand(shape))
    if shape.shape != (length,):
        raise wrong("istft", f"a window of shape {shape.shape} for segments of {length}")
    back = np.fft.irfft if input_onesided else np.fft.ifft
    pieces = back(spectra, n=nfft)[..., :length]
    shape = convert(shape, pieces.dtype)
    factor = 1.0 / np.sqrt(_scale("istft", scaling, fs, shape))
    whole = overlapped(pieces * (shape * convert(factor, pieces.dtype)), step)
    count = pieces.shape[-2]
    weight = overlapped(np.broadcast_to(shape * shape, (count, length)), step)
    if boundary:
        ends = slice(length // 2, -(length // 2))
        whole, weight = whole[..., ends], weight[ends]
    covered = np.abs(weight) > 1e-10
    signal = whole / np.where(covered, weight, 1)
    signal = moveaxis(signal, -1, time_axis - (freq_axis < time_axis))
    return np.arange(signal.shape[0]) / float(fs), signal


def overlapped(pieces: Value, step: int) -> Value:
    """The sum of segments that begin `step` after one another: (..., k, n) -> (...)."""
    count, length = pieces.shape[-2:]
    places = np.arange(count)[:, None] * step + np.arange(length)
    total = fnp.zeros((*pieces.shape[:-2], length + (count - 1) * step), pieces.dtype)
    return at(total)[..., places].add(pieces)
