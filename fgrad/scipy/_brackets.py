"""L7. Brent's search for a root between two ends, as a loop of the program.

    x0, x1 = a, b     f0 f1 < 0: the root lies between the best place and the one opposite
    x <- x + step    that of a line or a parabola of x by f where it is short, else half of the way

The places are those of `scipy.optimize.brentq`, so that both end at the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fgrad import lax
from fgrad.base.named_tuple import NamedTuple
from fgrad.ops import checked
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._host import constant, floats
from fgrad.trace import Value
from fgrad.transforms.custom.implicit import closure_convert
from fgrad.typing import ArrayLike, PyTree

_LEAST_RTOL = float(4 * np.finfo(float).eps)


class Settings(NamedTuple):
    """The options of SciPy's function."""

    xtol: float = 2e-12
    rtol: float = _LEAST_RTOL
    maxiter: int = 100
    disp: bool = True


class _Bracket(NamedTuple):
    """Three places with their values, the last two steps, and the number of steps.

    `before` is the place of the last step, `x` the best; a root lies between `x` and `opposite`;
    `new` is the last place, at which a search ends that takes too many steps.
    """

    before: Value
    x: Value
    opposite: Value
    f_before: Value
    f: Value
    f_opposite: Value
    last: Value
    step: Value
    new: Value
    count: Value


def settings_of(options: Mapping[str, object]) -> Settings | None:
    """The options of a search that can be a loop; None where SciPy is to look at them."""
    if not set(options) <= set(Settings._fields):
        return None
    found = Settings(**options)  # type: ignore[arg-type]
    numbers = [type(v) in (int, float) for v in found[:2]] + [type(found.maxiter) is int]
    if not all(numbers) or type(found.disp) is not bool:
        return None
    fits = found.xtol > 0 and found.rtol >= _LEAST_RTOL and found.maxiter >= 0
    return found if fits else None


def _arranged(s: _Bracket) -> _Bracket:
    """The same places, with the best of them as `x` and the root between `x` and `opposite`."""
    turned = (s.f_before != 0) & (s.f != 0) & (np.signbit(s.f_before) != np.signbit(s.f))
    opposite = np.where(turned, s.before, s.opposite)
    f_opposite = np.where(turned, s.f_before, s.f_opposite)
    width = s.x - s.before
    last, step = np.where(turned, width, s.last), np.where(turned, width, s.step)
    swapped = np.abs(f_opposite) < np.abs(s.f)
    return _Bracket(
        np.where(swapped, s.x, s.before),
        np.where(swapped, opposite, s.x),
        np.where(swapped, s.x, opposite),
        np.where(swapped, s.f, s.f_before),
        np.where(swapped, f_opposite, s.f),
        np.where(swapped, s.f, f_opposite),
        last, step, s.new, s.count,
    )  # fmt: skip


def _tolerance(s: _Bracket, settings: Settings) -> tuple[Value, Value]:
    """How near is near enough, and half of the way to the opposite end."""
    return (settings.xtol + settings.rtol * np.abs(s.x)) / 2, (s.opposite - s.x) / 2


def _ended(s: _Bracket, settings: Settings) -> Value:
    delta, half = _tolerance(s, settings)
    near: PyTree = (s.f == 0) | (np.abs(half) < delta)
    return near


def _interpolated(s: _Bracket) -> Value:
    """The step to where a line, or a parabola of x by f, is zero."""
    line = -s.f * (s.x - s.before) / (s.f - s.f_before)
    near = (s.f_before - s.f) / (s.before - s.x)
    far = (s.f_opposite - s.f) / (s.opposite - s.x)
    top, bottom = s.f_opposite * far - s.f_before * near, far * near * (s.f_opposite - s.f_before)
    return np.where(s.before == s.opposite, line, -s.f * top / bottom)


def _stepped(f: Callable[[Value], Value], s: _Bracket, settings: Settings) -> _Bracket:
    delta, half = _tolerance(s, settings)
    tried = _interpolated(s)
    short = 2 * np.abs(tried) < np.minimum(np.abs(s.last), 3 * np.abs(half) - delta)
    taken = (np.abs(s.last) > delta) & (np.abs(s.f) < np.abs(s.f_before)) & short
    last, step = np.where(taken, s.step, half), np.where(taken, tried, half)
    least = np.where(half > 0, delta, -delta)
    x = s.x + np.where(np.abs(step) > delta, step, least)
    return _Bracket(s.x, x, s.opposite, s.f, f(x), s.f_opposite, last, step, x, s.count + 1)


def brent(
    f: Callable[[Value], Value], low: ArrayLike, high: ArrayLike, settings: Settings
) -> Value:
    """A root of f between two ends, which has no derivative yet."""
    converted, consts = closure_convert(f, np.float64(0.5))
    held = constant(consts)  # no step has a derivative

    def search(x: Value) -> Value:
        return converted(x, *held)

    ends = stop_gradient(np.stack([floats(low), floats(high)]).astype(np.float64))
    values = lax.map(search, ends)
    zero: PyTree = np.float64(0.0)
    count: PyTree = np.int64(0)
    opposed = np.signbit(values[0]) != np.signbit(values[1])
    fits = opposed | (values[0] == 0) | (values[1] == 0) | np.isnan(values).any()
    checked.require(fits, checked.text_of(ValueError("f(a) and f(b) must have different signs")))
    given = ends[0], ends[1], zero, values[0], values[1], zero, zero, zero, ends[1]
    start = _arranged(_Bracket(*given, count))

    def going(s: _Bracket) -> Value:
        more = np.logical_not(_ended(s, settings)) & ~np.isnan(s.f)
        return more & (s.count < settings.maxiter) & (values[0] != 0)

    found = lax.while_loop(going, lambda s: _arranged(_stepped(search, s, settings)), start)
    nan = np.isnan(values).any() | np.isnan(found.f)
    checked.require(
        ~nan, checked.text_of(ValueError("The function value is NaN; brentq cannot continue."))
    )
    near = _ended(found, settings) | (values[0] == 0)
    if settings.disp:
        late = RuntimeError(f"Failed to converge after {settings.maxiter} iterations.")
        checked.require(near | nan, checked.text_of(late))
    place = np.where(near, found.x, found.new)
    return stop_gradient(np.where(values[0] == 0, ends[0], place))
