"""L7. `scipy.interpolate`: values on a grid, between its lines, which are plain."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.at_indexing import at
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact, user_line
from fgrad.ops import checked
from fgrad.scipy._either import either, refusal
from fgrad.scipy.interpolate.common import not_complex, plain
from fgrad.trace import Value
from fgrad.typing import ArrayLike

_METHODS = ("linear", "nearest")


def _line(points: ArrayLike, k: int, size: int) -> np.ndarray:
    """The checked, ascending places of one axis."""
    if has_tracer((points,)):  # its derivatives would be lost, where it has a value too
        raise refusal(
            "scipy.interpolate.RegularGridInterpolator with such points",
            "the lines of the grid decide where each place lies.",
            "np.interp(x, points, values)    one axis with traced points",
        )
    line = np.asarray(points, np.float64)
    if line.ndim != 1 or line.size != size or not np.all(np.diff(line) > 0):
        raise ArgumentError(
            f"scipy.interpolate.RegularGridInterpolator: axis {k} has {size} values.",
            (*user_line(), ("write", f"{size} points there that ascend or descend")),
        )
    return line


def _refuse(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise refusal(
                f"scipy.interpolate.RegularGridInterpolator with {option}={value!r}",
                "only linear and nearest interpolation have a traced form.",
                'RegularGridInterpolator(points, values, method="linear")',
            )


class RegularGridInterpolator:
    """Values on a grid of lines parallel to the axes, interpolated between them.

    Arguments:
        points: the places of the lines, an array for each axis; ascending or descending.
        values: the values on the grid (..., and more axes); may be traced.
        method: "linear" or "nearest"; of plain arrays all that SciPy has.
        bounds_error: whether places outside of the grid raise.
        fill_value: what they get if they do not; None for extrapolation.

    Example:
        >>> f = RegularGridInterpolator((np.arange(3.0),), np.array([0.0, 1.0, 4.0]))
        >>> f(np.array([[0.5], [1.5]]))
        array([0.5, 2.5])
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: ArrayLike | None = math.nan,
        *,
        solver: object = None,
        solver_args: object = None,
    ) -> None:
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        settings = {"solver": solver, "solver_args": solver_args}
        self._plain = None
        if not has_tracer((values, fill_value, *points)):
            self._plain = plain.RegularGridInterpolator(
                points, values, method, bounds_error, fill_value, **settings
            )
            self.grid, self.values = self._plain.grid, self._plain.values
            return
        _refuse({"method": None if method in _METHODS else method, **settings})
        if isinstance(fill_value, str):
            what = f"scipy.interpolate.RegularGridInterpolator: fill_value={fill_value!r}."
            raise ArgumentError(what, (*user_line(), ("write", "fill_value=None to extrapolate")))
        array = inexact(as_operand(values))
        if len(points) > len(array.shape):
            raise ShapeError(
                f"scipy.interpolate.RegularGridInterpolator: {len(points)} axes of points, values "
                f"of shape {array.shape}.",
                user_line(),
            )
        lines = []
        for k, line in enumerate(points):
            plain_line = not has_tracer((line,)) and np.size(line) > 1
            if plain_line and np.all(np.diff(np.asarray(line)) < 0):
                line, array = np.asarray(line)[::-1], np.flip(array, k)
            lines.append(_line(line, k, array.shape[k]))
        self.grid, self.values = tuple(lines), array

    def __call__(
        self, xi: ArrayLike, method: str | None = None, *, nu: Sequence[int] | None = None
    ) -> Value:
        """The values at places (..., axes).

        Arguments:
            xi: places, or a tuple of their coordinates, which broadcast.
            method: another method than that of the interpolator.
            nu: orders of derivatives, of plain arrays alone: take `fgrad.grad`.
        """
        wanted = self.method if method is None else method
        if self._plain is not None and not has_tracer(xi if isinstance(xi, tuple) else (xi,)):
            return self._plain(xi, method, nu=nu)
        _refuse({"method": None if wanted in _METHODS else wanted, "nu": nu})
        places, values = self._places(xi), inexact(as_operand(self.values))
        columns = [places[..., k] for k in range(len(self.grid))]
        inside = [(x >= g[0]) & (x <= g[-1]) for x, g in zip(columns, self.grid, strict=True)]
        within = functools.reduce(np.logical_and, inside)
        missing = functools.reduce(np.logical_or, map(np.isnan, columns))
        if self.bounds_error:
            error = checked.text_of(ValueError("One of the requested xi is out of bounds"))
            checked.require(np.all(within), error)
        cells = [_cell(x, np.asarray(g)) for x, g in zip(columns, self.grid, strict=True)]
        found = _nearest(values, cells) if wanted == "nearest" else _between(values, cells)
        if not self.bounds_error and self.fill_value is not None:
            fill = convert(as_operand(self.fill_value), found.dtype)
            found = np.where(_lengthened(within, found), found, fill)
        return np.where(_lengthened(missing, found), found.dtype.type(math.nan), found)

    def _places(self, xi: ArrayLike) -> Value:
        """Coordinates in the last axis, with at least one axis before it."""
        if isinstance(xi, tuple):
            x = np.stack(np.broadcast_arrays(*[inexact(as_operand(c)) for c in xi]), axis=-1)
        else:
            x = inexact(as_operand(xi))
        count, x = len(self.grid), not_complex(x)
        if len(x.shape) < 2:
            x = np.reshape(x, (-1, 1) if count == 1 and x.shape != (1,) else (1, -1))
        if x.shape[-1] != count:
            raise ShapeError(
                f"scipy.interpolate.RegularGridInterpolator: places of shape {x.shape} in a grid "
                f"of {count} axes.",
                user_line(),
            )
        return x


def _lengthened(x: Value, like: Value) -> Value:
    """`x` with ones as further axes, to broadcast against an array with more of them."""
    return np.reshape(x, (*x.shape, *[1] * (len(like.shape) - len(x.shape))))


Cell = tuple[Value, Value, int]  # the line before a place, how far it is to the next one, lines


def _cell(x: Value, line: np.ndarray) -> Cell:
    if line.size == 1:
        return np.zeros(x.shape, np.int64), x * 0, 1
    k = np.clip(np.searchsorted(line, x) - 1, 0, line.size - 2)
    low, width = line[:-1], np.diff(line)
    return k, (x - at(low)[k].get()) / at(width)[k].get(), line.size


def _nearest(values: Value, cells: Sequence[Cell]) -> Value:
    places = [k + (np.greater(t, 0.5) if n > 1 else 0) for k, t, n in cells]
    return at(values)[tuple(places)].get()


def _between(values: Value, cells: Sequence[Cell]) -> Value:
    """The sum over the corners of each cell."""
    parts = []
    sides = [(0, 1) if n > 1 else (0,) for _, _, n in cells]
    for corner in itertools.product(*sides):
        places = [k + side for (k, _, _), side in zip(cells, corner, strict=True)]
        weights = [
            (t if side else 1 - t) if n > 1 else 1 - t * 0
            for (_, t, n), side in zip(cells, corner, strict=True)
        ]
        value = at(values)[tuple(places)].get()
        weight = functools.reduce(np.multiply, weights)
        parts.append(value * _lengthened(weight, value))
    return functools.reduce(np.add, parts)


def _interpn(
    points: Sequence[ArrayLike],
    values: ArrayLike,
    xi: ArrayLike,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: ArrayLike | None = math.nan,
) -> Value:
    """`RegularGridInterpolator(points, values, ...)(xi)`.

    Example:
        >>> interpn((np.arange(3.0),), np.array([0.0, 1.0, 4.0]), np.array([[0.5]]))
        array([0.5])
    """
    made = RegularGridInterpolator(points, values, method, bounds_error, fill_value)
    return made(xi)


interpn = either(plain, _interpn, "interpn")
