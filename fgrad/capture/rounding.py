"""L5. `round` of traced values.

`round(x, 2)` of a Python float is the float that is nearest to the decimal number.  NumPy
multiplies and divides, and is off by one digit at times; its own numbers are rounded in that way.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from fgrad.capture.values import is_unknown, is_weak
from fgrad.numpy.promote import weakened
from fgrad.numpy.python_numbers import whole
from fgrad.tracing.capturing import not_recorded

MOST_DIGITS = 22  # powers of ten that are exact


def round_(x: Any, ndigits: Any = None) -> Any:
    """`round`: an integer, or a number with some digits."""
    if not is_unknown(x):
        return builtins.round(x, ndigits) if ndigits is not None else builtins.round(x)
    if ndigits is None:
        if x.dtype.kind == "f":
            x = whole(x)
        return weakened(np.round(x).astype(np.int64).twin())
    if is_unknown(ndigits):
        raise not_recorded("round() to a traced number of digits")
    if not is_weak(x) or x.dtype != np.float64:
        return np.round(x, operator.index(ndigits))
    return weakened(_rounded(x, operator.index(ndigits)))


def _rounded(x: Any, digits: int) -> Any:
    """The float that is nearest to the decimal number."""
    if abs(digits) > MOST_DIGITS:
        raise not_recorded(f"round() of a traced float to {digits} digits")
    scale = 10.0 ** abs(digits)
    if digits < 0:
        whole = np.rint(x / scale)
        rest, half = x - whole * scale, scale / 2
        low = 0.0
    else:
        high, low = _product(x, scale)
        whole = np.rint(high)
        rest, half = high - whole, 0.5
    odd = np.fmod(whole, 2.0) != 0
    up = (rest - half + low > 0) | ((rest - half + low == 0) & odd)
    down = (rest + half + low < 0) | ((rest + half + low == 0) & odd)
    at_half = np.abs(rest) == half
    whole = np.where(
        at_half & (low == 0), whole, np.where(up, whole + 1, np.where(down, whole - 1, whole))
    )
    near = whole * scale if digits < 0 else whole / scale
    large = np.abs(x) >= 2.0**52 / (1.0 if digits < 0 else scale)
    if digits < 0:
        large = np.logical_not(np.isfinite(x))
    return np.where(large | np.logical_not(np.isfinite(x)), x, np.copysign(near, x))[()]


def _product(x: Any, scale: float) -> tuple[Any, Any]:
    """x * scale as the sum of two floats, exactly (Dekker)."""

    def halves(y: Any) -> tuple[Any, Any]:
        big = 134217729.0 * y
        high = big - (big - y)
        return high, y - high

    high = x * scale
    (a, b), (c, d) = halves(x), halves(scale)
    return high, ((a * c - high) + a * d + b * c) + b * d
