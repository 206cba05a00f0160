"""L7. Relations of samples: correlation, lines through them, angles, as `scipy.stats` has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_operand, user_line
from fgrad.scipy import special as sp
from fgrad.scipy._either import either, refusal
from fgrad.scipy.stats.results import Correlation, Line
from fgrad.scipy.stats.summaries import Samples, aligned
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, P, PyTree, R

plain = lazy_module("scipy.stats")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


@_either
def pearsonr(
    x: ArrayLike,
    y: ArrayLike,
    *,
    alternative: str = "two-sided",
    method: None = None,
    axis: Axis = 0,
) -> PyTree:
    """The correlation of two samples, and the probability of a greater one by chance.

    Arguments:
        alternative: "two-sided", "less" or "greater".
        method: as in SciPy, of plain arrays alone.

    Raises:
        ShapeError: there are fewer than 2 samples, or unequally many.

    Example:
        >>> float(pearsonr(np.arange(3.0), np.arange(3.0)).statistic.round(9))
        1.0
    """
    if method is not None or alternative not in ("two-sided", "less", "greater"):
        what = f"scipy.stats.pearsonr with method={method!r}, alternative={alternative!r}"
        raise refusal(what, "it has no traced form.", "pearsonr(x, y)")
    s, t = [Samples("pearsonr", v, axis, "propagate") for v in aligned([x, y], axis)]
    if s.n != t.n or s.n < 2:
        raise ShapeError(f"scipy.stats.pearsonr: {s.n} and {t.n} samples.", user_line())
    u = s.x - np.mean(s.x, axis=-1, keepdims=True)
    v = t.x - np.mean(t.x, axis=-1, keepdims=True)
    r = np.sum(u * v, -1) / np.sqrt(np.sum(u * u, -1) * np.sum(v * v, -1))
    r = np.clip(r, -1.0, 1.0)
    half = np.full(np.shape(r), 0.5 * s.n - 1.0)
    below = sp.betainc(half, half, 0.5 * (1 + r))
    above = sp.betainc(half, half, 0.5 * (1 - r))
    chance = {"less": below, "greater": above, "two-sided": 2 * np.minimum(below, above)}
    return Correlation(r, chance[alternative], s.n, alternative)


@_either
def linregress(
    x: ArrayLike,
    y: ArrayLike,
    alternative: str = "two-sided",
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> PyTree:
    """The line through samples by least squares, with the errors of its two numbers.

    Arguments:
        alternative: "two-sided", "less" or "greater".

    Raises:
        ShapeError: there are fewer than 3 samples, or unequally many.

    Example:
        >>> float(linregress(np.arange(3.0), 2 * np.arange(3.0) + 1).slope)
        2.0
    """
    first, second = np.broadcast_arrays(*aligned([x, y], axis))
    s = Samples("linregress", first, axis, nan_policy, keepdims)
    t = Samples("linregress", second, axis, nan_policy)
    if s.n != t.n or s.n < 3:
        raise ShapeError(f"scipy.stats.linregress: {s.n} and {t.n} samples.", user_line())
    mx, my = np.mean(s.x, axis=-1), np.mean(t.x, axis=-1)
    u, v = s.x - mx[..., None], t.x - my[..., None]
    xx, yy, xy = np.mean(u * u, -1), np.mean(v * v, -1), np.mean(u * v, -1)
    r = np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)
    slope = xy / xx
    df = s.n - 2
    error = np.sqrt((1 - r * r) * yy / xx / df)
    t_value = r * np.sqrt(df / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
    wide = np.full(np.shape(r), float(df))
    above = sp.stdtr(wide, -t_value)
    below = sp.stdtr(wide, t_value)
    chance = {"less": below, "greater": above, "two-sided": 2 * np.minimum(below, above)}
    found = (slope, my - slope * mx, r, chance[alternative], error,
             error * np.sqrt(xx + mx * mx))  # fmt: skip
    return Line(*[s.placed(v) for v in found])


def _circle(s: Samples, high: float, low: float) -> tuple[Value, Value]:
    """The mean sine and cosine of samples as angles."""
    angle = (s.x - low) * (2.0 * np.pi / (high - low))
    return np.mean(np.sin(angle), axis=-1), np.mean(np.cos(angle), axis=-1)


@_either
def circmean(
    samples: ArrayLike,
    high: float = 2 * np.pi,
    low: float = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The mean of angles.

    Example:
        >>> float(circmean(np.array([0.1, 0.3])).round(12))
        0.2
    """
    s = Samples("circmean", samples, axis, nan_policy, keepdims)
    sine, cosine = _circle(s, high, low)
    found = np.arctan2(sine, cosine) * ((high - low) / (2.0 * np.pi)) + low
    return s.placed((found - low) % (high - low) + low)


@_either
def circvar(
    samples: ArrayLike,
    high: float = 2 * np.pi,
    low: float = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """One minus the length of the mean of angles as points of the circle.

    Example:
        >>> float(circvar(np.array([0.0, np.pi])).round(12))
        1.0
    """
    s = Samples("circvar", samples, axis, nan_policy, keepdims)
    return s.placed(1.0 - np.minimum(np.hypot(*_circle(s, high, low)), 1.0))


@_either
def circstd(
    samples: ArrayLike,
    high: float = 2 * np.pi,
    low: float = 0,
    axis: Axis = None,
    nan_policy: str = "propagate",
    *,
    normalize: bool = False,
    keepdims: bool = False,
) -> Value:
    """The deviation of angles, of the logarithm of that length.

    Arguments:
        normalize: whether the interval is taken for the whole circle.

    Example:
        >>> float(circstd(np.array([1.0, 1.0])).round(6))
        0.0
    """
    s = Samples("circstd", samples, axis, nan_policy, keepdims)
    length = np.minimum(np.hypot(*_circle(s, high, low)), 1.0)
    found = np.sqrt(-2 * np.log(length))
    return s.placed(found if normalize else found * ((high - low) / (2.0 * np.pi)))


@_either
def boxcox_llf(
    lmb: ArrayLike,
    data: ArrayLike,
    *,
    axis: int = 0,
    keepdims: bool = False,
    nan_policy: str = "propagate",
) -> Value:
    """The log-likelihood of the transform of Box and Cox, without constants.

    Arguments:
        lmb: the power.
        data: positive samples.

    Example:
        >>> float(boxcox_llf(1.0, np.array([1.0, 3.0])).round(9) + 0.0)
        0.0
    """
    s = Samples("boxcox_llf", data, axis, nan_policy, keepdims)
    if s.n == 0:
        return s.placed(np.full(s.x.shape[:-1], np.nan))
    moved = sp.boxcox(s.x, lmb)
    spread = np.log(np.var(moved, axis=-1))
    return s.placed((as_operand(lmb) - 1) * np.sum(np.log(s.x), axis=-1) - 0.5 * s.n * spread)
