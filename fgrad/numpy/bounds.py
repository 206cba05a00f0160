"""L4. Integers that index an axis -> integers from 0 on, or an error where they are outside.

Known ones are checked here.  Traced ones wrap where they are negative; compiled code clips those
outside, or checks them (`tracing/checks.py`), which raises after the kernel has run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.base.sizes import Num
from fgrad.errors import BoundsError
from fgrad.ir.aval import INT64
from fgrad.numpy.promote import convert, strong
from fgrad.ops import elementwise as ew
from fgrad.ops.checked import in_range, located, out_of_bounds
from fgrad.ops.size import number
from fgrad.trace import Value
from fgrad.tracing.checks import checks

index_watchers: list[Callable[[Value, int, int], None]] = []  # of `fgrad.debug.check_index`


def bounds_error(i: int, axis: int, length: int) -> BoundsError:
    """The error of a known index outside of the array."""
    return BoundsError(f"index {i} is out of bounds for axis {axis} with size {length}")


def known_indices(indices: np.ndarray, axis: int, length: int) -> Any:
    """Known indices, wrapped if negative: an array, or a value that depends on a length that may
    change."""
    if not indices.size:
        return indices.astype(INT64)
    if indices.dtype is INT64 and int(np.maximum.reduce(indices.view(np.uint64), None)) < length:
        return indices  # seen so, negative ones are the largest
    low, high = int(np.minimum.reduce(indices, None)), int(np.maximum.reduce(indices, None))
    if low < -length or high >= length:
        raise bounds_error(low if low < -length else high, axis, length)
    if low >= 0:
        return indices
    if type(length) is not Num:
        return np.where(indices < 0, indices + indices.dtype.type(length), indices)
    wide = indices.astype(INT64)
    return ew.select(wide < 0, ew.add(wide, number(length, INT64, wide.shape)), wide)


def traced_indices(indices: Any, axis: int, length: int) -> Value:
    """Traced indices, counted from the end where they are negative."""
    for watch in index_watchers:
        watch(indices, axis, length)
    i = strong(indices)
    if i.dtype.kind != "u":
        i = convert(i, INT64)
        i = ew.select(ew.lt(i, np.int64(0)), ew.add(i, number(length, INT64, i.shape)), i)
    if index_watchers or not checks():
        return i
    return in_range(i, 0, length - 1, located(out_of_bounds(axis, length)))
