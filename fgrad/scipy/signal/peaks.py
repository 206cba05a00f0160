"""L7. `scipy.signal`: heights and widths of peaks at given places.

Which values are the bases of a peak, and between which values a level is crossed, is found by
SciPy and has no derivative; heights and widths have those of the values there.
"""

from __future__ import annotations

import numpy as np

from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.at_indexing import at
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy.signal.common import of_signals, plain, refused, wrong
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, PyTree


def _signal(name: str, x: ArrayLike, peaks: ArrayLike) -> tuple[Value, np.ndarray]:
    values = as_operand(x)
    if len(values.shape) != 1 or values.dtype.kind == "c":
        what = f"{values.dtype} values of shape {values.shape}"
        raise ShapeError(f"scipy.signal.{name}: {what}.", user_line())
    if has_tracer((peaks,)):
        refused(name, "traced peaks", "they are places.", "peaks, _ = find_peaks(plain values)")
    places = np.asarray(peaks)
    if places.size == 0:
        places = places.astype(np.intp)
    if places.ndim != 1 or not np.can_cast(places.dtype, np.intp, "safe"):
        raise wrong(name, f"peaks of {places.dtype}, {places.shape}", "a vector of places")
    if places.size and not (places.min() >= 0 and places.max() < values.shape[0]):
        raise wrong(name, "peaks outside of the values", "find_peaks(x)[0]")
    return convert(values, np.dtype(np.float64)), places.astype(np.intp)


@of_signals
def peak_prominences(
    x: ArrayLike, peaks: ArrayLike, wlen: int | None = None
) -> tuple[Value, Value, Value]:
    """How far peaks stand out from the higher of their bases, and the places of the bases.

    Arguments:
        x: the signal.
        peaks: places of peaks, plain.
        wlen: how many values around a peak count.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.peak_prominences(np.array([0.0, 3.0, 1.0, 2.0, 0.0]), [1, 3])[0]
        array([3., 1.])
    """
    values, places = _signal("peak_prominences", x, peaks)
    like = Aval(places.shape, np.dtype(np.intp))

    def call(v: np.ndarray) -> tuple[np.ndarray, ...]:
        return plain.peak_prominences(v, places, wlen)[1:]

    left, right = pure_callback(call, (like, like), stop_gradient(values))
    return _stands_out(values, places, left, right), left, right


def _stands_out(values: Value, places: np.ndarray, left: Value, right: Value) -> Value:
    """How far peaks are above the higher of their bases."""
    return values[places] - np.maximum(at(values)[left].get(), at(values)[right].get())


def _beside(values: Value, near: Value, heights: Value, base: Value, side: int) -> Value:
    """The last place on a side of a peak that is not higher than a level, or the base, from where
    SciPy's line crosses it."""
    place: Value = (np.floor(near) if side < 0 else np.ceil(near)).astype(np.intp)
    # A sum that was rounded up ends one place too early.
    higher = (at(values)[place].get() > heights) & (side * (base - place) > 0)
    return place + side * higher


def _crossed(values: Value, k: Value, side: int, heights: Value) -> Value:
    """Where a line from the value at k to its neighbour crosses a level."""
    low, high = at(values)[k].get(), at(values)[np.clip(k - side, 0, values.shape[0] - 1)].get()
    below = low < heights
    rise = np.where(below, high - low, 1.0)
    return k - side * np.where(below, (heights - low) / rise, 0.0)


@of_signals
def peak_widths(
    x: ArrayLike,
    peaks: ArrayLike,
    rel_height: float = 0.5,
    prominence_data: tuple[PyTree, PyTree, PyTree] | None = None,
    wlen: int | None = None,
) -> tuple[Value, Value, Value, Value]:
    """Widths of peaks, the levels at which they are taken, and where the level is crossed.

    Arguments:
        x: the signal.
        peaks: places of peaks, plain.
        rel_height: how far below the peak the level is, in its prominence.
        prominence_data: what `peak_prominences` returned.
        wlen: how many values around a peak count, if that is not given.

    Example:
        >>> import fgrad.scipy.signal as sg
        >>> sg.peak_widths(np.array([0.0, 2.0, 0.0]), [1])[0]
        array([1.])
    """
    values, places = _signal("peak_widths", x, peaks)
    if not has_tracer((rel_height,)) and rel_height < 0:
        raise wrong("peak_widths", f"rel_height={rel_height}", "rel_height=0.5")
    place, number = [Aval(places.shape, np.dtype(t)) for t in (np.intp, np.float64)]
    sources = [stop_gradient(as_operand(v)) for v in (values, rel_height)]
    if prominence_data is None:

        def bases(v: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, ...]:
            given = plain.peak_prominences(v, places, wlen)
            return *given[1:], *plain.peak_widths(v, places, float(share), given)[1:]

        like = (place, place, number, number, number)
        left, right, *found = pure_callback(bases, like, *sources)
        height = _stands_out(values, places, left, right)
    else:

        def call(v: np.ndarray, share: np.ndarray, *data: np.ndarray) -> tuple[np.ndarray, ...]:
            return plain.peak_widths(v, places, float(share), data)[1:]

        height, left, right = [as_operand(v) for v in prominence_data]
        given = stop_gradient(height), left, right
        found = pure_callback(call, (number,) * 3, *sources, *given)
    level, before, after = found
    first = _beside(values, before, level, left, -1)
    last = _beside(values, after, level, right, 1)
    heights = values[places] - height * rel_height
    starts, ends = _crossed(values, first, -1, heights), _crossed(values, last, 1, heights)
    return ends - starts, heights, starts, ends
