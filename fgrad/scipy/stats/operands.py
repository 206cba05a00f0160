"""L7. Operands of `scipy.stats`."""

from __future__ import annotations

import math

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, inexact, only_real, ordered_axes
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis


def real_floats(x: ArrayLike) -> Value:
    """Real floats; an error for complex numbers, whose imaginary parts SciPy drops."""
    return only_real("scipy.stats", inexact(as_operand(x)))


def places_of(axis: Axis, rank: int) -> tuple[int, ...]:
    """Axes in their order, all of them for None."""
    places = ordered_axes(axis, rank)
    if axis is not None and (not places or len({*places}) != len(places)):
        raise ArgumentError(f"scipy.stats: axis={axis}.", (("write", "an axis, or several"),))
    return places


def joined(x: Value, axes: tuple[int, ...]) -> Value:
    """Numbers with some of their axes last, as one axis."""
    if len(axes) == 1:
        return moveaxis(x, axes[0], -1)
    rest = [n for k, n in enumerate(x.shape) if k not in axes]
    moved = moveaxis(x, axes, tuple(range(-len(axes), 0)))
    return np.reshape(moved, (*rest, math.prod([x.shape[a] for a in axes])))


def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a summary that keeps its axes, with length 1."""
    return tuple([1 if k in axes else n for k, n in enumerate(shape)])
