"""L7. `scipy.signal` with derivatives: convolutions, filters, spectra, other rates, waves.

    import fgrad.scipy.signal as sg
    fgrad.grad(lambda x: np.sum(sg.welch(x, nperseg=8)[1] ** 2))(np.arange(32.0))
    fgrad.grad(lambda b: np.sum(sg.lfilter(b, [1.0, -0.5], x) ** 2))(np.ones(2))

Names, arguments and values are SciPy's; what has no traced form raises a card.
"""

from __future__ import annotations

from fgrad.base.lazy_import import names_shown

from fgrad.scipy._either import others
from fgrad.scipy.signal.common import plain
from fgrad.scipy.signal.convolutions import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
    oaconvolve as oaconvolve,
)
from fgrad.scipy.signal.filters import (
    decimate as decimate,
    deconvolve as deconvolve,
    filtfilt as filtfilt,
    lfilter as lfilter,
    lfilter_zi as lfilter_zi,
    sosfilt as sosfilt,
    sosfilt_zi as sosfilt_zi,
    sosfiltfilt as sosfiltfilt,
)
from fgrad.scipy.signal.peaks import (
    peak_prominences as peak_prominences,
    peak_widths as peak_widths,
)
from fgrad.scipy.signal.periodograms import (
    coherence as coherence,
    lombscargle as lombscargle,
    periodogram as periodogram,
    spectrogram as spectrogram,
)
from fgrad.scipy.signal.recursions import (
    cspline2d as cspline2d,
    qspline2d as qspline2d,
    spline_filter as spline_filter,
    symiirorder1 as symiirorder1,
    symiirorder2 as symiirorder2,
)
from fgrad.scipy.signal.resampling import (
    czt as czt,
    hilbert as hilbert,
    hilbert2 as hilbert2,
    resample as resample,
    resample_poly as resample_poly,
    upfirdn as upfirdn,
    zoom_fft as zoom_fft,
)
from fgrad.scipy.signal.responses import (
    freqs as freqs,
    freqs_zpk as freqs_zpk,
    freqz as freqz,
    freqz_sos as freqz_sos,
    freqz_zpk as freqz_zpk,
    group_delay as group_delay,
    sosfreqz as sosfreqz,
)
from fgrad.scipy.signal.smoothing import (
    cspline1d as cspline1d,
    cspline1d_eval as cspline1d_eval,
    medfilt as medfilt,
    medfilt2d as medfilt2d,
    order_filter as order_filter,
    qspline1d as qspline1d,
    qspline1d_eval as qspline1d_eval,
    savgol_filter as savgol_filter,
    sepfir2d as sepfir2d,
    wiener as wiener,
)
from fgrad.scipy.signal.spectra import (
    csd as csd,
    detrend as detrend,
    istft as istft,
    stft as stft,
    welch as welch,
)
from fgrad.scipy.signal.transforms import (
    CZT as CZT,
    ShortTimeFFT as ShortTimeFFT,
    ZoomFFT as ZoomFFT,
    envelope as envelope,
)
from fgrad.scipy.signal.waves import (
    chirp as chirp,
    gauss_spline as gauss_spline,
    gausspulse as gausspulse,
    sawtooth as sawtooth,
    square as square,
    sweep_poly as sweep_poly,
    vectorstrength as vectorstrength,
)

__getattr__ = others(__name__, plain)


__dir__ = names_shown(__name__)
