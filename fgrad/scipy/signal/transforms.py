"""L7. `scipy.signal`: transforms as objects, and envelopes."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.scipy.signal.common import chosen, in_precision, of_signals, plain, refused, wrong
from fgrad.scipy.signal.resampling import czt, resample
from fgrad.scipy.signal.spectra import detrend, overlapped
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.typing import ArrayLike, PyTree


class CZT:
    """The z-transform at m places on a spiral, of signals of length n.

    Arguments:
        n, m: how many values, and how many places; as many as values if None.
        w, a: the plain ratio between places, and the first one.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.CZT(2)(np.array([1.0, 2.0])).real.round(9)
        array([ 3., -1.])
    """

    def __init__(
        self, n: int, m: int | None = None, w: complex | None = None, a: complex = 1 + 0j
    ) -> None:
        if has_tracer((w, a)):
            refused("CZT", "traced w or a", "they decide the places.", "plain numbers")
        self._plain = plain.CZT(n, m, w, a)
        self.n, self.m, self.w, self.a = n, self._plain.m, w, a

    def __call__(self, x: ArrayLike, *, axis: int = -1) -> Value:
        """The transform of a signal along an axis."""
        if not has_tracer((x,)):
            return self._plain(x, axis=axis)
        shape = as_operand(x).shape
        size = shape[normalize_axis(axis, len(shape))]
        if size != self.n:
            raise wrong("CZT", f"defined for length {self.n}, not {size}", f"CZT({size})")
        return czt(x, self.m, self.w, self.a, axis=axis)

    def points(self) -> np.ndarray:
        """The places."""
        return self._plain.points()


class ZoomFFT(CZT):
    """The Fourier transform at m frequencies between the two of `fn`, of signals of length n.

    Arguments:
        n, m: how many values, and how many frequencies; as many as values if None.
        fn: the first and the last frequency, or the last one alone.
        fs: the rate of samples.
        endpoint: whether the last frequency is among them.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.ZoomFFT(2, [0, 2])(np.array([1.0, 2.0])).real.round(9)
        array([ 3., -1.])
    """

    def __init__(
        self,
        n: int,
        fn: float | Sequence[float],
        m: int | None = None,
        *,
        fs: float = 2,
        endpoint: bool = False,
    ) -> None:
        if has_tracer((fn, fs)):
            refused("ZoomFFT", "traced fn or fs", "they decide the places.", "plain numbers")
        self._plain = plain.ZoomFFT(n, fn, m, fs=fs, endpoint=endpoint)
        self.n, self.m, self.fs = n, self._plain.m, fs
        self.f1, self.f2 = (0.0, float(fn)) if np.size(fn) == 1 else [float(f) for f in fn]  # type: ignore[union-attr]
        steps = (self.m - 1 if endpoint and self.m > 1 else self.m) * fs
        self.w = cmath.exp(-2j * cmath.pi * (self.f2 - self.f1) / steps)
        self.a = cmath.exp(2j * cmath.pi * self.f1 / fs)


# --- envelopes ----------------------------------------------------------------------------------


def _band(z: Value, bp_in: tuple[int | None, int | None], n_out: int | None) -> slice:
    """The checked band of an envelope."""
    n = z.shape[-1]
    pair = len(bp_in) == 2 and all([b is None or isinstance(b, int) for b in bp_in])
    if not pair or not (n_out is None or (isinstance(n_out, int) and n_out > 0)):
        raise wrong("envelope", f"bp_in={bp_in}, n_out={n_out}", "bp_in=(1, None), n_out=None")
    if not n:
        raise ShapeError(f"scipy.signal.envelope: a signal of shape {z.shape}.", user_line())
    band = slice(
        -(n // 2) if bp_in[0] is None else bp_in[0],
        (n + 1) // 2 if bp_in[1] is None else bp_in[1],
    )
    if not -n // 2 <= band.start < band.stop <= (n + 1) // 2:
        raise wrong("envelope", f"bp_in={bp_in} for {n} values", "-n//2 <= low < high <= (n+1)//2")
    return band


def _rest(n: int, band: slice, residual: str) -> np.ndarray:
    """Which frequencies the band leaves: all, or those below it."""
    kept = np.ones(n)
    if not band.start <= 0 < band.stop:
        kept[band] = 0
    else:
        kept[: band.stop], kept[band.start :] = 0, 0
    if residual == "lowpass":
        if band.stop > 0:
            kept[band.stop : (n + 1) // 2] = 0
        else:
            kept[band.start :], kept[: (n + 1) // 2] = 0, 0
    return kept


@of_signals
def envelope(
    z: ArrayLike,
    bp_in: tuple[int | None, int | None] = (1, None),
    *,
    n_out: int | None = None,
    squared: bool = False,
    residual: str | None = "lowpass",
    axis: int = -1,
) -> Value:
    """The envelope of a signal in a band of frequencies, and what is left of it outside.

    Arguments:
        z, axis: the signal, and the axis of its values.
        bp_in: the numbers of the first frequency of the band and of that after the last.
        n_out: how many values come out; as many as there are if None.
        squared: whether it is squared.
        residual: "lowpass", below the band; "all", outside of it; None: the envelope alone.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.envelope(np.cos(np.arange(8) * np.pi / 2), residual=None).round(9)
        array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    chosen("envelope", "residual", residual, ("lowpass", "all", None))
    x = in_precision(z)[0]
    place = normalize_axis(axis, len(x.shape))
    x = moveaxis(x, place, -1)
    band, n = _band(x, bp_in, n_out), x.shape[-1]
    count = n if n_out is None else n_out
    real = x.dtype.kind != "c"
    if real:
        doubled = np.ones(n)
        doubled[band if band.start > 0 else slice(1, max(band.stop, 1))] = 2
        half = np.fft.rfft(x) * doubled[: n // 2 + 1].astype(x.dtype)
        whole = np.pad(half, [(0, 0)] * (len(x.shape) - 1) + [(0, n - n // 2 - 1)])
    else:
        whole = np.fft.fft(x)
    inside = whole[..., band]
    if band.start <= 0 < band.stop:
        shift = n // 2
        inside = np.fft.fftshift(whole, axes=-1)[..., band.start + shift : band.stop + shift]
    base = np.fft.ifft(inside, count) * (count / n)
    found = np.real(base) ** 2 + np.imag(base) ** 2 if squared else np.abs(base)
    if residual is None:
        return moveaxis(found, -1, place)
    kept = _rest(n, band, residual)
    if real and count != n and min(n, count) % 2 == 0:
        kept[min(n, count) // 2] *= 2 if count < n else 0.5
    left = whole * kept.astype(np.real(whole).dtype)
    rest = np.fft.irfft(left, count) * (count / n) if real else resample(
        left, count, axis=-1, domain="freq"
    )  # fmt: skip
    return np.stack([moveaxis(found, -1, place), moveaxis(rest, -1, place)])


# --- short-time transforms ----------------------------------------------------------------------

_SETTINGS = ("T", "fs", "fft_mode", "mfft", "phase_shift")
_PADS = {"zeros": "constant", "edge": "edge", "even": "reflect", "odd": "reflect"}


class ShortTimeFFT:
    """Fourier transforms of the windows of a signal, and back; SciPy's object for its settings.

    Arguments:
        win, hop, fs, fft_mode, mfft, dual_win, scale_to, phase_shift: as in SciPy, plain.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> made = sg.ShortTimeFFT(np.ones(4), 2, 1.0)
        >>> made.istft(made.stft(np.arange(8.0)), k1=8).round(9)
        array([0., 1., 2., 3., 4., 5., 6., 7.])
    """

    def __init__(self, win: ArrayLike, hop: int, fs: float, **settings: PyTree) -> None:
        if has_tracer((win, *settings.values())):
            refused("ShortTimeFFT", "a traced window", "SciPy checks it.", "sg.stft(x, window=win)")
        self._plain = plain.ShortTimeFFT(win, hop, fs, **settings)

    @classmethod
    def _of(cls, made: PyTree) -> ShortTimeFFT:
        found = cls.__new__(cls)
        object.__setattr__(found, "_plain", made)
        return found

    @classmethod
    def from_dual(cls, *args: PyTree, **settings: PyTree) -> ShortTimeFFT:
        """That of a dual window."""
        return cls._of(plain.ShortTimeFFT.from_dual(*args, **settings))

    @classmethod
    def from_window(cls, *args: PyTree, **settings: PyTree) -> ShortTimeFFT:
        """That of a window by its name."""
        return cls._of(plain.ShortTimeFFT.from_window(*args, **settings))

    @classmethod
    def from_win_equals_dual(cls, *args: PyTree, **settings: PyTree) -> ShortTimeFFT:
        """That whose window is its own dual one."""
        return cls._of(plain.ShortTimeFFT.from_win_equals_dual(*args, **settings))

    def __getattr__(self, name: str) -> PyTree:
        """SciPy's own settings and tables."""
        if name.startswith("_"):
            raise AttributeError(f"'ShortTimeFFT' object has no attribute {name!r}")
        return getattr(self._plain, name)

    def __setattr__(self, name: str, value: PyTree) -> None:
        if name in _SETTINGS:
            setattr(self._plain, name, value)
        else:
            object.__setattr__(self, name, value)

    def stft(
        self, x: ArrayLike, p0: int | None = None, p1: int | None = None, *, k_offset: int = 0,
        padding: str = "zeros", axis: int = -1,
    ) -> Value:  # fmt: skip
        """The transforms of the windows p0 to p1 of a signal, whose times are the last axis.

        Arguments:
            x, axis: the signal, and the axis of its values.
            p0, p1: the first window, and that after the last.
            k_offset: the place of time zero.
            padding: "zeros", "edge", "even" or "odd": how the signal goes on at its ends.
        """
        return self.stft_detrend(x, None, p0, p1, k_offset=k_offset, padding=padding, axis=axis)

    def stft_detrend(
        self, x: ArrayLike, detr: str | Callable[..., Value] | None, p0: int | None = None,
        p1: int | None = None, *, k_offset: int = 0, padding: str = "zeros", axis: int = -1,
    ) -> Value:  # fmt: skip
        """`stft` of windows without their trends: "linear", "constant", or a function of each."""
        if not has_tracer((x,)):
            return self._plain.stft_detrend(
                x, detr, p0, p1, k_offset=k_offset, padding=padding, axis=axis
            )
        chosen("ShortTimeFFT.stft", "padding", padding, tuple(_PADS))
        signal = inexact(as_operand(x))
        if self.onesided_fft and signal.dtype.kind == "c":
            raise wrong("ShortTimeFFT.stft", "complex values", 'fft_mode="twosided"')
        wide = np.complex128 if signal.dtype.kind == "c" else np.float64
        place = normalize_axis(axis, len(signal.shape))
        signal = moveaxis(convert(signal, np.dtype(wide)), place, -1)
        pieces = self._pieces(signal, p0, p1, k_offset, padding)
        if detr is not None:
            if isinstance(detr, str):
                pieces = detrend(pieces, type=detr)
            else:
                form = user_form(detr)
                pieces = np.stack([form(pieces[..., k, :]) for k in range(pieces.shape[-2])], -2)
        found = self._forth(pieces * np.conj(self.win))
        return moveaxis(moveaxis(found, -2, -1), -2, place)

    def _pieces(
        self, x: Value, p0: int | None, p1: int | None, k_offset: int, padding: str
    ) -> Value:
        """The windows of a signal, (..., windows, values)."""
        n, size = x.shape[-1], self.m_num
        if n < size - self.m_num_mid:
            raise wrong("ShortTimeFFT.stft", f"{n} values", "half a window or more")
        first, end = self.p_range(n, p0, p1)
        starts = k_offset + np.arange(first, end) * self.hop - self.m_num_mid
        before, after = max(0, -int(starts[0])), max(0, int(starts[-1]) + size - n)
        odd = {"reflect_type": "odd"} if padding == "odd" else {}
        width = [(0, 0)] * (len(x.shape) - 1) + [(before, after)]
        x = np.pad(x, width, mode=_PADS[padding], **odd)  # type: ignore[call-overload]
        return x[..., starts[:, None] + (before + np.arange(size))]

    def _paired(self) -> np.ndarray:
        """The factors of one-sided transforms."""
        found = np.ones(self.mfft // 2 + 1)
        if self.fft_mode == "onesided2X":
            last = -1 if self.mfft % 2 == 0 else None
            found[1:last] = math.sqrt(2) if self.scaling == "psd" else 2
        return found

    def _turn(self) -> int:
        return (self.phase_shift + self.m_num_mid) % self.m_num

    def _forth(self, x: Value) -> Value:
        """The transform of the last axis, as the settings want it."""
        n = self.mfft
        if self.phase_shift is not None:
            lead = [(0, 0)] * (len(x.shape) - 1)
            x = np.roll(np.pad(x, [*lead, (0, max(0, n - x.shape[-1]))]), -self._turn(), axis=-1)
        if self.onesided_fft:
            return np.fft.rfft(x, n) * self._paired()
        found = np.fft.fft(x, n)
        return np.fft.fftshift(found, axes=-1) if self.fft_mode == "centered" else found

    def _back(self, x: Value) -> Value:
        """The inverse of `_forth`, of the length of the window."""
        if self.onesided_fft:
            found = np.fft.irfft(x / self._paired(), self.mfft)
        else:
            x = np.fft.ifftshift(x, axes=-1) if self.fft_mode == "centered" else x
            found = np.fft.ifft(x, self.mfft)
        if self.phase_shift is not None:
            found = np.roll(found, self._turn(), axis=-1)
        return found[..., : self.m_num]

    def spectrogram(
        self, x: ArrayLike, y: ArrayLike | None = None, detr: PyTree = None, **settings: PyTree
    ) -> Value:
        """The squares of the transforms, or the products with those of a second signal."""
        if not has_tracer((x, y)):
            return self._plain.spectrogram(x, y, detr, **settings)
        first = self.stft_detrend(x, detr, **settings)
        if y is None or y is x:
            return np.real(first) ** 2 + np.imag(first) ** 2
        return first * np.conj(self.stft_detrend(y, detr, **settings))

    def istft(
        self, S: ArrayLike, k0: int = 0, k1: int | None = None, *, f_axis: int = -2,
        t_axis: int = -1,
    ) -> Value:  # fmt: skip
        """The signal from k0 to k1 of which `stft` makes the transforms.

        Arguments:
            S: the transforms.
            k0, k1: the first place, and that after the last.
            f_axis, t_axis: the axes of frequencies and of times.
        """
        if not has_tracer((S,)):
            return self._plain.istft(S, k0, k1, f_axis=f_axis, t_axis=t_axis)
        spectra = as_operand(S)
        shape = tuple(spectra.shape)
        # SciPy's checks, and the shape of the result, of zeros
        like = self._plain.istft(np.zeros(shape, complex), k0, k1, f_axis=f_axis, t_axis=t_axis)
        rank = len(shape)
        f_axis, t_axis = normalize_axis(f_axis, rank), normalize_axis(t_axis, rank)
        spectra = moveaxis(spectra, (t_axis, f_axis), (-2, -1))
        count = k1 - k0 if k1 is not None else int(like.size // max(np.prod(spectra.shape[:-2]), 1))
        first = k0 // self.hop + (self.p_min if k0 >= 0 else 0)
        last = min(self.p_max(k0 + count), spectra.shape[-2] + self.p_min)
        if first < self.p_min:
            why = "SciPy's takes the last windows for those before the first."
            refused("ShortTimeFFT.istft", f"k0={k0}", why, "k0=0")
        pieces = self._back(spectra[..., first - self.p_min : last - self.p_min, :]) * self.dual_win
        whole = overlapped(pieces, self.hop)
        start = first * self.hop - self.m_num_mid - k0
        lead = [(0, 0)] * (rank - 2)
        missing = max(0, count - (whole.shape[-1] + start))
        whole = np.pad(whole, [*lead, (max(start, 0), missing)])
        whole = whole[..., max(-start, 0) :][..., :count]
        if rank == 2:
            return whole
        return moveaxis(whole, -1, f_axis if f_axis < rank - 1 else t_axis)
