"""L7. `scipy.signal`: spectra that follow from those by segments, and those of uneven samples."""

from __future__ import annotations

import numpy as np

from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis
from fgrad.scipy.signal.common import Window, chosen, in_precision, of_signals, plain, wrong
from fgrad.scipy.signal.spectra import Detrend, csd, densities, named_window, stft, welch
from fgrad.trace import Value
from fgrad.typing import ArrayLike


@of_signals
def periodogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "boxcar",
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[np.ndarray, Value]:
    """Frequencies, and the power spectral density of a signal as one segment; see `welch`.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.periodogram(np.array([1.0, -1.0, 1.0, -1.0]))[1]
        array([0., 0., 4.])
    """
    (signal,) = in_precision(x)
    axis = normalize_axis(axis, len(signal.shape))
    n = signal.shape[axis]
    if not n:
        return np.zeros(signal.shape), signal
    if nfft is not None and nfft < n:
        signal = moveaxis(moveaxis(signal, axis, -1)[..., :nfft], -1, axis)
        n, nfft = nfft, None
    shape = plain.get_window(window, n) if isinstance(window, (str, tuple)) else window
    return welch(
        signal, fs, shape, n, 0, nfft, detrend, return_onesided, scaling, axis
    )  # fmt: skip


@of_signals
def coherence(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    axis: int = -1,
) -> tuple[np.ndarray, Value]:
    """Frequencies, and |Pxy|^2 / (Pxx Pyy), of the spectral densities of two signals; see `csd`.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.coherence(np.arange(8.0) ** 2, np.arange(8.0) ** 3, nperseg=4)[1].shape
        (3,)
    """
    by = window, nperseg, noverlap, nfft
    lengths = {v.shape[normalize_axis(axis, len(v.shape))] for v in (as_operand(x), as_operand(y))}
    if len(lengths) > 1:  # SciPy fills up the shorter signal for the cross spectrum alone
        own = [welch(v, fs, *by, detrend, axis=axis) for v in (x, y)]
        freqs, cross = csd(x, y, fs, *by, detrend, axis=axis)
        return freqs, np.abs(cross) ** 2 / own[0][1] / own[1][1]
    pairs = [(0, 0), (1, 1), (0, 1)]
    freqs, (xx, yy, cross) = densities(
        [x, y], pairs, fs, by, detrend, True, "density", axis, "mean"
    )
    return freqs, (np.real(cross) ** 2 + np.imag(cross) ** 2) / xx / yy


@of_signals
def spectrogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = ("tukey", 0.25),
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> tuple[np.ndarray, np.ndarray, Value]:
    """Frequencies, times, and the spectrum of each segment.

    Arguments:
        mode: "psd", "complex", "magnitude", "angle" or "phase".
        others: those of `csd`; segments overlap by an eighth if `noverlap` is None.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.spectrogram(np.arange(8.0), nperseg=4)[2].shape
        (3, 2)
    """
    chosen("spectrogram", "mode", mode, ("psd", "complex", "magnitude", "angle", "phase"))
    (signal,) = in_precision(x)
    axis = normalize_axis(axis, len(signal.shape))
    if isinstance(window, (str, tuple)):
        window, nperseg = named_window(window, nperseg, signal.shape[axis]), None
    shape = inexact(as_operand(window))
    length = shape.shape[0]
    overlap = length // 8 if noverlap is None else noverlap
    chosen("spectrogram", "scaling", scaling, ("density", "spectrum"))
    kind = "psd" if scaling == "density" else scaling
    freqs, times, found = stft(
        signal, fs, shape, nperseg, overlap, nfft, detrend, return_onesided, None, False, axis, kind
    )
    if mode == "psd":
        nfft = length if nfft is None else nfft
        power = np.abs(found) ** 2
        onesided = return_onesided and signal.dtype.kind != "c"
        doubled = np.ones(freqs.shape, power.dtype)
        doubled[1 : (None if nfft % 2 else -1) if onesided else 1] = 2
        return freqs, times, power * doubled.reshape(-1, *[1] * (len(power.shape) - 1 - axis))
    parts = {"complex": lambda v: v, "magnitude": np.abs, "angle": np.angle, "phase": np.angle}
    found = parts[mode](found)
    return freqs, times, np.unwrap(found, axis=-1) if mode == "phase" else found


@of_signals
def lombscargle(
    x: ArrayLike,
    y: ArrayLike,
    freqs: ArrayLike,
    *,
    precenter: bool = False,
    normalize: bool | str = False,
    weights: ArrayLike | None = None,
    floating_mean: bool = False,
) -> Value:
    """The power at angular frequencies of a signal whose samples are not evenly spaced.

    Arguments:
        x, y: the times and the values.
        freqs: the frequencies in radians, not zero.
        precenter: whether the mean is taken out of y.
        normalize: False or "power", True or "normalize", or "amplitude" for complex amplitudes.
        weights: of the samples.
        floating_mean: whether a constant is fitted at each frequency.

    Raises:
        ArgumentError: if an argument does not fit.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> t = np.arange(8.0)
        >>> sg.lombscargle(t, np.sin(t), np.array([1.0, 2.0])).argmax()
        np.int64(0)
    """
    known = (False, True, "power", "normalize", "amplitude")
    chosen("lombscargle", "normalize", normalize, known)
    t, v, w = [convert(inexact(as_operand(a)), np.dtype(np.float64)) for a in (x, y, freqs)]
    if len(t.shape) != 1 or t.shape != v.shape or len(w.shape) != 1 or not t.size * w.size:
        raise wrong("lombscargle", f"shapes {t.shape}, {v.shape}, {w.shape}", "arrays of one axis")
    share = np.ones(t.shape) if weights is None else inexact(as_operand(weights))
    if share.shape != t.shape:
        raise wrong("lombscargle", f"weights of shape {share.shape}", "a weight for each sample")
    share = share / np.sum(share)
    v = v - np.mean(v) if precenter is True else v
    angles = w[:, None] * t
    c, s = np.cos(angles), np.sin(angles)

    def mean(values: Value) -> Value:
        return values @ share

    yy, yc, ys = mean(v * v), mean(v * c), mean(v * s)
    cc, cs = mean(c * c), mean(c * s)
    ss = 1.0 - cc
    if floating_mean:
        y0, c0, s0 = mean(v), mean(c), mean(s)
        yy, yc, ys = yy - y0 * y0, yc - y0 * c0, ys - y0 * s0
        cc, ss, cs = cc - c0 * c0, ss - s0 * s0, cs - c0 * s0
    tau = 0.5 * np.arctan2(2.0 * cs, cc - ss)
    ct, st = np.cos(tau), np.sin(tau)
    yc, ys = yc * ct + ys * st, ys * ct - yc * st
    cc, ss = (
        cc * ct**2 + 2 * cs * ct * st + ss * st**2,
        ss * ct**2 - 2 * cs * ct * st + cc * st**2,
    )
    tiny = np.finfo(np.float64).eps
    cc, ss = [np.where(np.abs(q) < tiny, tiny, q) for q in (cc, ss)]
    a, b = yc / cc, ys / ss
    power = 2.0 * (a * yc + b * ys)
    if normalize is False or normalize == "power":
        return power * t.shape[0] / 4.0
    if normalize is True or normalize == "normalize":
        return power / (2.0 * yy)
    return (a + 1j * b) * np.exp(1j * tau)
