"""L7. `scipy.signal` with derivatives: convolutions, filters, spectra, other rates, waves.

    import fgrad.scipy.signal as sg
    fgrad.grad(lambda x: np.sum(sg.welch(x, nperseg=8)[1] ** 2))(np.arange(32.0))
    fgrad.grad(lambda b: np.sum(sg.lfilter(b, [1.0, -0.5], x) ** 2))(np.ones(2))

Names, arguments and values are SciPy's; what has no traced form raises a card.
"""

from __future__ import annotations

from fgrad.scipy._either import others
from fgrad.scipy.signal.common import plain
from fgrad.scipy.signal.convolutions import (  # noqa: F401
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
    oaconvolve,
)
from fgrad.scipy.signal.filters import (  # noqa: F401
    decimate,
    deconvolve,
    filtfilt,
    lfilter,
    lfilter_zi,
    sosfilt,
    sosfilt_zi,
    sosfiltfilt,
)
from fgrad.scipy.signal.peaks import peak_prominences, peak_widths  # noqa: F401
from fgrad.scipy.signal.periodograms import (  # noqa: F401
    coherence,
    lombscargle,
    periodogram,
    spectrogram,
)
from fgrad.scipy.signal.recursions import (  # noqa: F401
    cspline2d,
    qspline2d,
    spline_filter,
    symiirorder1,
    symiirorder2,
)
from fgrad.scipy.signal.resampling import (  # noqa: F401
    czt,
    hilbert,
    hilbert2,
    resample,
    resample_poly,
    upfirdn,
    zoom_fft,
)
from fgrad.scipy.signal.responses import (  # noqa: F401
    freqs,
    freqs_zpk,
    freqz,
    freqz_sos,
    freqz_zpk,
    group_delay,
    sosfreqz,
)
from fgrad.scipy.signal.smoothing import (  # noqa: F401
    cspline1d,
    cspline1d_eval,
    medfilt,
    medfilt2d,
    order_filter,
    qspline1d,
    qspline1d_eval,
    savgol_filter,
    sepfir2d,
    wiener,
)
from fgrad.scipy.signal.spectra import csd, detrend, istft, stft, welch  # noqa: F401
from fgrad.scipy.signal.transforms import (  # noqa: F401
    CZT,
    ShortTimeFFT,
    ZoomFFT,
    envelope,
)
from fgrad.scipy.signal.waves import (  # noqa: F401
    chirp,
    gauss_spline,
    gausspulse,
    sawtooth,
    square,
    sweep_poly,
    vectorstrength,
)

__getattr__ = others(__name__, plain)
