"""L7. `scipy.signal`: waves of given forms, and how regular events are."""

from __future__ import annotations

import math

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.lazy_import import lazy_module
from fgrad.numpy.promote import as_operand, broadcast, convert, inexact, promote
from fgrad.ops.elementwise import lit
from fgrad.scipy.signal.common import chosen, of_signals, refused, wrong
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike

scipy = lazy_module("scipy")

_CIRCLE = 2 * math.pi


def _floats(x: ArrayLike) -> Value:
    return inexact(as_operand(x))


def _in_periods(t: ArrayLike, share: ArrayLike) -> tuple[Value, Value]:
    """Times and shares of a period, of the dtype of the wave: float64 in SciPy before 1.18."""
    if at_least(scipy, 1, 18):
        t, share = [inexact(x) for x in promote((t, share))]
    else:
        t, share = [convert(as_operand(x), np.dtype(np.float64)) for x in (t, share)]
    t, share = broadcast((t, share))
    return t, share


def _swept(t: Value, f0: Value, t1: Value, f1: Value, method: str, vertex_zero: bool) -> Value:
    """The phase of a wave whose frequency goes from f0 to f1 in the time t1."""
    if method in ("linear", "lin", "li"):
        return _CIRCLE * (f0 * t + 0.5 * (f1 - f0) / t1 * t * t)
    if method in ("quadratic", "quad", "q"):
        rise = (f1 - f0) / t1**2
        if vertex_zero:
            return _CIRCLE * (f0 * t + rise * t**3 / 3)
        return _CIRCLE * (f1 * t + rise * ((t1 - t) ** 3 - t1**3) / 3)
    if method in ("logarithmic", "log", "lo"):
        same = f0 == f1
        rate = t1 / np.log(np.where(same, 2.0, f1 / f0))
        return _CIRCLE * f0 * np.where(same, t, rate * ((f1 / f0) ** (t / t1) - 1.0))
    same = f0 == f1
    pole = -f1 * t1 / np.where(same, 1.0, f0 - f1)
    safe = np.where(same, 1.0, pole)
    return _CIRCLE * f0 * np.where(same, t, -safe * np.log(np.abs(1 - t / safe)))


@of_signals
def chirp(
    t: ArrayLike,
    f0: ArrayLike,
    t1: ArrayLike,
    f1: ArrayLike,
    method: str = "linear",
    phi: ArrayLike = 0,
    vertex_zero: bool = True,
    *,
    complex: bool = False,
) -> Value:
    """A cosine whose frequency goes from f0, at time 0, to f1 at t1.

    Arguments:
        t: times.
        f0, t1, f1: frequencies and the time of the second one.
        method: "linear", "quadratic", "logarithmic" or "hyperbolic".
        phi: a phase in degrees.
        vertex_zero: whether a parabola has its vertex at time 0.
        complex: whether the analytic signal is wanted.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.chirp(np.array([0.0, 1.0]), 1.0, 1.0, 1.0)
        array([1., 1.])
    """
    known = ("linear", "lin", "li", "quadratic", "quad", "q", "logarithmic", "log", "lo",
             "hyperbolic", "hyp")  # fmt: skip
    chosen("chirp", "method", method, known)
    a, b = concrete(f0), concrete(f1)
    if a is not None and b is not None:
        product = np.asarray(a) * np.asarray(b)
        if (method.startswith("lo") and product <= 0) or (method.startswith("h") and product == 0):
            raise wrong("chirp", f"f0={a} and f1={b}", "frequencies of one sign that are not 0")
    times = _floats(t)
    phase = _swept(times, _floats(f0), _floats(t1), _floats(f1), method, vertex_zero)
    phase = phase + np.deg2rad(_floats(phi))
    return np.exp(1j * phase) if complex else np.cos(phase)


@of_signals
def sweep_poly(t: ArrayLike, poly: ArrayLike, phi: ArrayLike = 0) -> Value:
    """A cosine whose frequency at time t is a polynomial, of coefficients from the highest power.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.sweep_poly(np.array([0.0, 1.0]), [1.0])
        array([1., 1.])
    """
    c = getattr(poly, "coeffs", poly)
    phase = np.polyval(np.polyint(_floats(c)), _floats(t)) * _CIRCLE
    return np.cos(phase + np.deg2rad(_floats(phi)))


@of_signals
def sawtooth(t: ArrayLike, width: ArrayLike = 1) -> Value:
    """A wave that rises from -1 to 1 in a share `width` of each period 2 pi, and falls again.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.sawtooth(np.array([0.0, np.pi]), 0.5)
        array([-1.,  1.])
    """
    t, w = _in_periods(t, width)
    place = np.mod(t, _CIRCLE)
    rises = place < w * _CIRCLE
    up = place / (math.pi * np.where(w == 0, 1.0, w)) - 1
    down = (math.pi * (w + 1) - place) / (math.pi * np.where(w == 1, 1.0, 1 - w))
    return np.where((w > 1) | (w < 0), math.nan, np.where(rises, up, down))


@of_signals
def square(t: ArrayLike, duty: ArrayLike = 0.5) -> Value:
    """1 in a share `duty` of each period 2 pi, else -1.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.square(np.array([1.0, 4.0]))
        array([ 1., -1.])
    """
    t, w = _in_periods(t, duty)
    found = np.where(np.mod(t, _CIRCLE) < w * _CIRCLE, lit(t, 1.0), lit(t, -1.0))
    return np.where((w > 1) | (w < 0), math.nan, found)


@of_signals
def gausspulse(
    t: ArrayLike,
    fc: ArrayLike = 1000,
    bw: ArrayLike = 0.5,
    bwr: float = -6,
    tpr: float = -60,
    retquad: bool = False,
    retenv: bool = False,
) -> Value | tuple[Value, ...]:
    """A cosine of frequency fc under a Gaussian; with its quadrature and envelope if wanted.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.gausspulse(np.array([0.0]), fc=5.0)
        array([1.])
    """
    if isinstance(t, str):
        refused("gausspulse", f"t={t!r}", f"tpr={tpr} is for plain numbers.", "t=times")
    t, fc, bw = _floats(t), _floats(fc), _floats(bw)
    width = -((math.pi * fc * bw) ** 2) / (4.0 * math.log(10.0 ** (bwr / 20.0)))
    envelope = np.exp(-width * t * t)
    wave = envelope * np.cos(_CIRCLE * fc * t)
    other = [envelope * np.sin(_CIRCLE * fc * t)] if retquad else []
    found = (wave, *other, *([envelope] if retenv else []))
    return found if len(found) > 1 else wave


@of_signals
def vectorstrength(events: ArrayLike, period: ArrayLike) -> tuple[Value, Value]:
    """How regular events are, from 0 to 1, and their phase, for each period.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.vectorstrength(np.array([1.0, 2.0, 3.0]), 1.0)[0].round(9)
        np.float64(1.0)
    """
    times, periods = _floats(events), _floats(period)
    if len(times.shape) > 1 or len(periods.shape) > 1:
        raise wrong("vectorstrength", f"arrays of shapes {times.shape} and {periods.shape}")
    turns = np.exp(2j * math.pi * times / periods[..., None])
    mean = np.mean(turns, axis=-1)
    return np.abs(mean), np.angle(mean)


@of_signals
def gauss_spline(x: ArrayLike, n: int) -> Value:
    """A Gaussian that is near to the B-spline of order n.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.gauss_spline(np.array([0.0]), 2).round(3)
        array([0.798])
    """
    variance = (n + 1) / 12.0
    x = _floats(x)
    return np.exp(-(x**2) / 2 / variance) / math.sqrt(2 * math.pi * variance)
