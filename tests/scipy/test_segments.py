"""Spectra by segments, and splines, of signals shorter or longer than what the settings ask for."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import fgrad
import fgrad.scipy.ndimage as nd
import fgrad.scipy.signal as sg

LONG = np.random.default_rng(5).normal(size=300)
CALLS: dict[str, Callable[..., Any]] = {
    "welch": lambda m, x, **k: m.welch(x, **k),
    "csd": lambda m, x, **k: m.csd(x, x[:-3] ** 2, **k),
    "coherence": lambda m, x, **k: m.coherence(x, x**2 - x, **k),
    "coherence of two lengths": lambda m, x, **k: m.coherence(x, x[:-2] ** 2, **k),
    "spectrogram": lambda m, x, **k: m.spectrogram(x, **k),
    "spectrogram of complex": lambda m, x, **k: m.spectrogram(x, mode="complex", **k),
    "stft": lambda m, x, **k: m.stft(x, **k),
}
WINDOWS = (None, "boxcar", ("tukey", 0.5), np.arange(1.0, 5), np.arange(1.0, 17))
SETTINGS = {
    "nperseg": (None, 1, 4, 16, 256, 0, -1), "noverlap": (None, 0, 2, 16, -1),
    "nfft": (None, 3, 16, 300), "window": WINDOWS,
}  # fmt: skip


def _settings(n: int) -> Iterator[dict[str, Any]]:
    """A part of all settings, another one for each length."""
    for k, chosen in enumerate(itertools.product(*SETTINGS.values())):
        if (k + n) % 7 == 0:
            named = zip(SETTINGS, chosen, strict=True)
            yield {"detrend": False, **{name: v for name, v in named if v is not None}}


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (ValueError, TypeError) as error:
        return error


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("n", [4, 5, 16, 40, 200])
def test_segments_of_any_length(name: str, n: int) -> None:
    f, x = CALLS[name], LONG[:n]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for settings in _settings(n):
            wanted = _outcome(lambda s=settings: f(scipy.signal, x, **s))
            found = _outcome(lambda s=settings: fgrad.vjp(lambda x: f(sg, x, **s), x)[0])
            if isinstance(wanted, ValueError):
                assert isinstance(found, (ValueError, TypeError)), settings
                continue
            assert not isinstance(found, Exception), (settings, found)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=str(settings))


@pytest.mark.parametrize("f", [sg.welch, sg.spectrogram, sg.stft])
def test_segments_longer_than_the_signal_are_told(f: Callable[..., Any]) -> None:
    for run in (f, fgrad.jit(f, static_argnames="nperseg")):
        with pytest.warns(UserWarning, match="using nperseg = 200"):
            run(LONG[:200], nperseg=256)


MODES = ("nearest", "wrap", "reflect", "mirror", "constant", "grid-wrap", "grid-constant")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_splines_of_short_and_long_lines(mode: str, order: int, rng: np.random.Generator) -> None:
    """Long ones are recursions, short ones a matrix."""
    for n in (1, 2, 5, 63, 64, 65, 130):
        x, way = rng.normal(size=(2, 3, n)) * (1 + 2j)
        wanted = scipy.ndimage.spline_filter1d(x, order, output=complex, mode=mode)
        f = fgrad.jit(lambda x: nd.spline_filter1d(x, order, output=complex, mode=mode))
        np.testing.assert_allclose(f(x), wanted, rtol=1e-9, atol=1e-11)
        back = fgrad.vjp(f, x)[1](np.conj(way))[0]
        np.testing.assert_allclose(np.sum(back * x), np.sum(np.conj(way) * wanted), rtol=1e-9)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("kind", [float, complex])
def test_convolutions_by_blocks(mode: str, kind: type, rng: np.random.Generator) -> None:
    for n, m in ((5, 3), (7, 300), (1000, 100), (100, 1000), (2001, 70), (64, 64)):
        x, y = [rng.normal(size=(2, k)).astype(kind) * (1 + 1j * (kind is complex)) for k in (n, m)]
        for a, b, settings in ((x[0], y[0], {}), (x.T, y.T[:, :1], {"axes": 0})):
            if kind is float:
                a, b = a.real, b.real
            wanted = scipy.signal.oaconvolve(a, b, mode, **settings)
            found = fgrad.jit(lambda a, b, s=settings: sg.oaconvolve(a, b, mode, **s))(a, b)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
