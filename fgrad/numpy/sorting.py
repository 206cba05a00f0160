"""L4. Sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from fgrad.errors import ArgumentError, DtypeError
from fgrad.ir.aval import INT64
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    convert,
    normalize_axis,
    reshape,
    shape_of,
)
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.ops import sort as so
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def _on_axis(a: ArrayLike, axis: SupportsIndex | None) -> tuple[Value, int]:
    x = as_array(a)
    if axis is None:
        return reshape(x, (math.prod(x.shape),)), 0
    return x, normalize_axis(axis, len(x.shape))


def _check_kth(kth: int | Sequence[int], length: int) -> None:
    """Places of a partition must exist."""
    places = np.atleast_1d(kth)
    if places.dtype.kind not in "iu":
        raise DtypeError("Partition index must be integer")
    for k in places.tolist():
        if length and not -length <= k < length:
            raise ArgumentError(f"kth(={k}) out of bounds ({length})")


@implements("sort", extra=("descending",))
def sort(
    a: ArrayLike,
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> Value:
    """Ascending or descending order along an axis, NaN last."""
    x, axis = _on_axis(a, axis)
    if not descending:
        return so.sort((x,), axis)[0]
    if x.dtype.kind in "fcV":
        return ew.neg(so.sort((ew.neg(x),), axis)[0])
    return sh.reverse(so.sort((x,), axis)[0], (axis,))


@implements("argsort", extra=("descending",))
def argsort(
    a: ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: str | None = None,
    order: object = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> Value:
    """The indices that sort, equal elements in their old order, NaN last."""
    x = as_array(a)
    x, axis = _on_axis(x if x.shape else reshape(x, (1,)), axis)
    if descending and x.dtype.kind in "fcV":
        x, descending = ew.neg(x), False
    if not descending:
        return so.sort((x, sh.iota(x.shape, INT64, axis)), axis)[1]
    backward = sh.reverse(x, (axis,))
    order = sh.reverse(so.sort((backward, sh.iota(x.shape, INT64, axis)), axis)[1], (axis,))
    return ew.sub(*broadcast((np.int64(x.shape[axis] - 1), order)))


@implements("partition")
def partition(
    a: ArrayLike,
    kth: int | Sequence[int],
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
) -> Value:
    """A full sort, which is a partition at every place."""
    x, i = _on_axis(a, axis)
    _check_kth(kth, x.shape[i])
    return sort(x, i)


@implements("argpartition")
def argpartition(
    a: ArrayLike,
    kth: int | Sequence[int],
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
) -> Value:
    """The indices of a full sort."""
    x, i = _on_axis(a, axis if shape_of(as_operand(a)) else None)
    _check_kth(kth, x.shape[i])
    return argsort(x, i)


@implements("sort_complex")
def sort_complex(a: ArrayLike) -> Value:
    """Ascending order along the last axis, as complex numbers."""
    x = sort(a)
    if x.dtype.kind == "c":
        return x
    return convert(x, np.dtype(np.complex64 if x.dtype.char in "bhBH" else np.complex128))


@implements("lexsort")
def lexsort(keys: Sequence[ArrayLike], axis: int = -1) -> Value:
    """The indices that sort by several keys, the last one first."""
    xs = [as_array(k) for k in keys]
    if not xs:
        raise ArgumentError("need sequence of keys with len > 0 in lexsort")
    axis = normalize_axis(axis, len(xs[0].shape))
    number = sh.iota(xs[0].shape, INT64, axis)
    return so.sort((*reversed(xs), number), axis, num_keys=len(xs))[-1]
