"""L7. `scipy.ndimage`: images between their pixels.

Values between pixels are those of a spline of an order from 0 to 5, whose coefficients are a known
linear map of the pixels (Unser 1999); derivatives are taken in the pixels and in the places.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import lax
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import as_operand, convert, inexact, user_line
from fgrad.scipy._either import refusal
from fgrad.scipy.ndimage.common import of_images, plain
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

Place = Callable[[Value, int], Value]
_EDGE = 12  # pixels that are added where no recursion starts exactly


def _folded(x: Value, n: int) -> Value:
    """Mirrored in the centres of the outermost pixels."""
    if n == 1:
        return x * 0
    period = 2 * (n - 1)
    y = np.mod(x, period)
    return np.where(y >= n, period - y, y)  # beyond the last pixel its neighbours are mirrored


def _reflected(x: Value, n: int) -> Value:
    """Mirrored in the edges of the outermost pixels."""
    y = np.mod(x + 0.5, 2 * n)
    return np.where(y > n, 2 * n - y, y) - 0.5


def _wrapped(x: Value, n: int) -> Value:
    """Periodic, where the last pixel is the first one."""
    if n == 1:
        return x * 0
    y = np.mod(x, n - 1)
    return np.where((x >= 0) & (x <= n - 1), x, y)


_PLACES: dict[str, Place] = {
    "constant": lambda x, n: x,
    "grid-constant": lambda x, n: x,
    "nearest": lambda x, n: x,
    "mirror": _folded,
    "reflect": _reflected,
    "grid-mirror": _reflected,
    "wrap": _wrapped,
    "grid-wrap": lambda x, n: np.mod(x, n),
}


def _pixels(k: Value, n: int, mode: str) -> Value:
    """The pixels that stand for those of these numbers, inside of the image."""
    if mode in ("reflect", "grid-mirror"):
        y = np.mod(k, 2 * n)
        return np.where(y >= n, 2 * n - 1 - y, y)
    if mode == "grid-wrap":
        return np.mod(k, n)
    if mode in ("nearest", "grid-constant"):
        return np.clip(k, 0, n - 1)
    return _folded(k, n)


def _weights(u: Value, order: int) -> list[Value]:
    """The B-splines of an order that are not zero between two knots, at u in [0, 1).

    N(j, k) = ((u + k - j) N(j - 1, k - 1) + (1 - u + j) N(j, k - 1)) / k      (de Boor)
    """
    found = [u * 0 + 1]
    for k in range(1, order + 1):
        before = [None, *found, None]
        found = []
        for j in range(k + 1):
            left, right = before[j], before[j + 1]
            parts = [] if left is None else [left * (u + (k - j))]
            parts += [] if right is None else [right * ((1 - u) + j)]
            found.append(sum(parts[1:], parts[0]) / k)
    return found


_POLES = {  # of the filters that invert sampled B-splines (Unser 1999)
    2: (math.sqrt(8.0) - 3,),
    3: (math.sqrt(3.0) - 2,),
    4: (
        math.sqrt(664 - math.sqrt(438976.0)) + math.sqrt(304.0) - 19,
        math.sqrt(664 + math.sqrt(438976.0)) - math.sqrt(304.0) - 19,
    ),
    5: (
        math.sqrt(67.5 - math.sqrt(4436.25)) + math.sqrt(26.25) - 6.5,
        math.sqrt(67.5 + math.sqrt(4436.25)) - math.sqrt(26.25) - 6.5,
    ),
}
_SHORT = 64  # values beyond them count less than rounding in a recursion's start: |z|**64 < 1e-23


def _forth_start(x: Value, z: float, mode: str) -> Value:
    """The first value of the forward recursion, sum_k z^k x[-k], where x goes on by the mode."""
    powers = z ** np.arange(_SHORT)
    if mode == "grid-wrap":
        return np.tensordot(powers, np.concatenate([x[:1], x[:-_SHORT:-1]]), 1)
    if mode in ("nearest", "reflect", "grid-mirror"):
        return x[0] + z * np.tensordot(powers, x[:_SHORT], 1)
    return np.tensordot(powers, x[:_SHORT], 1)


def _back_start(c: Value, z: float, mode: str) -> Value:
    """The last value of the backward recursion over the results of the forward one."""
    if mode == "grid-wrap":
        powers = z ** np.arange(1, _SHORT)
        return -z * (c[-1] + np.tensordot(powers, c[: _SHORT - 1], 1))
    if mode in ("nearest", "reflect", "grid-mirror"):
        return c[-1] * (z / (z - 1))
    return (z * c[-2] + c[-1]) * (z / (z * z - 1))


def _recursions(x: Value, z: float, mode: str) -> Value:
    """The filter of one pole along the first axis, by scans over whole slices of the image.

    c[k] = (1 - z) (1 - 1 / z) x[k] + z c[k - 1]        d[k] = z (d[k + 1] - c[k])
    """
    gain = (1 - z) * (1 - 1 / z)

    def forth(before: Value, pixel: Value) -> tuple[Value, Value]:
        after = gain * pixel + z * before
        return after, after

    def back(after: Value, value: Value) -> tuple[Value, Value]:
        before = z * (after - value)
        return before, before

    first = gain * _forth_start(x, z, mode)
    c = np.concatenate([first[None], lax.scan(forth, first, x[1:])[1]])
    last = _back_start(c, z, mode)
    return np.concatenate([lax.scan(back, last, c[:-1], reverse=True)[1], last[None]])


def coefficients(image: Value, order: int, mode: str, axes: Sequence[int] | None = None) -> Value:
    """The coefficients of the spline through the pixels, by SciPy's filter of each axis."""
    for axis in range(len(image.shape)) if axes is None else axes:
        n = image.shape[axis]
        if n < _SHORT:
            matrix = plain.spline_filter1d(np.eye(n), order, axis=0, output=np.float64, mode=mode)
            image = moveaxis(np.tensordot(matrix, image, axes=(1, axis)), 0, axis)
            continue
        lines = moveaxis(image, axis, 0)
        for z in _POLES[order]:
            lines = _recursions(lines, z, mode)
        image = moveaxis(lines, 0, axis)
    return image


def _refuse(mode: str, order: int, output: object) -> None:
    if mode not in _PLACES:
        rows = (*user_line(), ("write", " or ".join(map(repr, _PLACES))))
        raise ArgumentError(f"scipy.ndimage.map_coordinates: mode={mode!r}.", rows)
    if order not in range(6):
        rows = (*user_line(), ("write", "order=0, 1, 2, 3, 4 or 5"))
        raise ArgumentError(f"scipy.ndimage.map_coordinates: order={order!r}.", rows)
    if output is not None and not isinstance(output, (type, str, np.dtype)):
        raise refusal(
            "scipy.ndimage.map_coordinates with an array as output",
            "a traced value cannot be written into plain memory.",
            "map_coordinates(image, places, output=np.float64)    a dtype",
        )


def _prepared(image: Value, order: int, mode: str, cval: ArrayLike) -> tuple[Value, int]:
    """The coefficients, and how many pixels were added at each end before they were made."""
    if order < 2:
        return image, 0
    if mode == "nearest":
        return coefficients(np.pad(image, _EDGE, mode="edge"), order, mode), _EDGE
    if mode == "grid-constant":
        wide = np.pad(image, _EDGE, constant_values=cval)
        return coefficients(wide, order, mode), _EDGE
    return coefficients(image, order, mode), 0


def _summed(
    image: Value, taps: list[Value], weights: list[list[Value]], mode: str, cval: ArrayLike
) -> Value:
    """The sum of coefficients times weights over the splines that are not zero at a place."""
    lines = []
    for first, ws, n in zip(taps, weights, image.shape, strict=True):
        line = []
        for j, w in enumerate(ws):
            k = first + j
            pixel = np.clip(_pixels(k, n, mode), 0, n - 1).astype(np.int64)
            line.append((pixel, w, (k >= 0) & (k <= n - 1)))
        lines.append(line)
    parts = []
    for corner in itertools.product(*lines):
        value = at(image)[tuple([pixel for pixel, _, _ in corner])].get()
        if mode == "grid-constant":
            known = functools.reduce(np.logical_and, [seen for _, _, seen in corner])
            value = np.where(known, value, convert(as_operand(cval), image.dtype))
        parts.append(value * math.prod([w for _, w, _ in corner]))
    return sum(parts[1:], parts[0])


def _of_kind(found: Value, kind: np.dtype) -> Value:
    """Results in a dtype; integers are the nearest ones, halves away from zero."""
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        found = np.clip(np.trunc(found + np.copysign(0.5, found)), limits.min, limits.max)
    return convert(found, kind)


@of_images
def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Value:
    """An image at places between its pixels.

    Arguments:
        input: an array of n axes.
        coordinates: places, of shape (n, ...), counted in pixels.
        output: the dtype of the result; that of the image if None.
        order: the order of the spline, from 0 (the nearest pixel) to 5.
        mode: what is outside: "constant", "nearest", "mirror", "reflect", "wrap", "grid-wrap",
            "grid-mirror" or "grid-constant".
        cval: the value outside, for "constant".
        prefilter: whether the pixels are values of the spline, and not its coefficients.

    Raises:
        ShapeError: if there are not n coordinates.

    Example:
        >>> map_coordinates(np.array([0.0, 1.0, 4.0]), [[0.5, 1.5]], order=1)
        array([0.5, 2.5])
    """
    _refuse(mode, order, output)
    image, places = as_operand(input), inexact(as_operand(coordinates))
    kind = image.dtype if output is None else np.dtype(output)
    rank = len(image.shape)
    if not places.shape or places.shape[0] != rank or not rank:
        raise ShapeError(
            f"scipy.ndimage.map_coordinates: coordinates of shape {places.shape} for an image of "
            f"shape {image.shape}.",
            user_line(),
        )
    if places.dtype.kind == "c":
        raise ArgumentError("scipy.ndimage.map_coordinates: complex places.", user_line())
    wide = np.dtype(np.complex128 if "c" in (image.dtype.kind, kind.kind) else np.float64)
    image = convert(image, wide)
    places = convert(places, np.dtype(np.float64))
    filtered, added = _prepared(image, order, mode, cval) if prefilter else (image, 0)
    taps, weights, inside = [], [], np.ones(places.shape[1:], bool)
    for x, n in zip(places + added, filtered.shape, strict=True):
        place = _PLACES[mode](x, n)
        inside = inside & (x >= 0) & (x <= n - 1)
        shift = 0.0 if order % 2 else 0.5
        first = np.floor(place + shift)
        weights.append(_weights(place + shift - first, order))
        taps.append(first - order // 2)
    found = _summed(filtered, taps, weights, mode, cval)
    if mode == "constant":
        found = np.where(inside, found, convert(as_operand(cval), wide))
    return _of_kind(found, kind)
