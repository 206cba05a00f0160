"""L7. The largest elements of rows."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import INT64, Aval
from fgrad.numpy.promote import as_array
from fgrad.ops import sort as _ops
from fgrad.ops.elementwise import sub
from fgrad.ops.shape import iota, move_axis, reverse, slice_
from fgrad.ops.sort import is_selected
from fgrad.trace import Value
from fgrad.tracing.device_tracing import lowered
from fgrad.typing import ArrayLike


@lowered
def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Value, Value]:
    """The `k` largest elements along an axis, descending, and where they are.

    Of equal elements the first ones are taken; NaN counts as the largest of all.

    Arguments:
        operand: an array.
        k: how many, a Python integer.
        axis: along which; the last one if it is not given.

    Returns:
        The elements and their positions, an int64 array.

    Raises:
        ArgumentError: `k` is no integer.
        ShapeError: there are fewer than `k` elements, or no such axis.

    Example:
        >>> import numpy as np
        >>> from fgrad import lax
        >>> values, places = lax.top_k(np.array([3.0, 1.0, 2.0, 3.0]), 3)
        >>> values
        array([3., 3., 2.])
        >>> places
        array([0, 3, 2])
    """
    x = as_array(operand)
    shape = tuple(x.shape)
    if not shape or not -len(shape) <= axis < len(shape):
        raise ShapeError(f"lax.top_k: there is no axis {axis} in shape {shape}.")
    axis %= len(shape)
    length = shape[axis]
    if not isinstance(k, SupportsIndex):
        raise ArgumentError(f"lax.top_k: k={k!r} is no count.")
    k = operator.index(k)
    if not 0 <= k <= length:
        raise ShapeError(f"lax.top_k: {k} of {length} elements.")
    last = len(shape) - 1
    rows = move_axis(x, axis, last)
    aval = Aval(tuple(rows.shape), rows.dtype)
    values, places = _ops.top_k(rows, k) if is_selected(aval, k) else _sorted(rows, k)
    return move_axis(values, last, axis), move_axis(places, last, axis)


def _sorted(rows: Value, k: int) -> tuple[Value, Value]:
    """By a sort of the reversed rows: of equal elements their last ones come last, and are the
    first ones of `rows`."""
    shape, last = tuple(rows.shape), len(rows.shape) - 1
    both = (reverse(rows, (last,)), iota(shape, INT64, last))
    start = (*[0] * last, shape[last] - k)
    values, places = [
        reverse(slice_(v, start, shape, (1,) * len(shape)), (last,)) for v in _ops.sort(both, last)
    ]
    return values, sub(INT64.type(shape[last] - 1), places)
