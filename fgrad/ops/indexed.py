"""L3. Reads and updates of NumPy arrays at integers: what evaluates `gather` and `scatter`.

Places are looked at once: seen as unsigned integers, negative ones are the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.trace import Value

FEW = 1024  # elements up to which `ufunc.at` takes them as they stand
LONG = 128  # elements of a row from which on rows are added one by one
UPDATE_AT = {"mul": np.multiply, "min": np.minimum, "max": np.maximum}


def rest_of(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that are not indexed."""
    return tuple([a for a in range(ndim) if a not in axes])


def _as_intp(index: Value, length: int) -> Any:
    """An index array as intp; unsigned values beyond its range become `length`."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(length))
    return index.astype(np.intp, copy=False) if isinstance(index, np.ndarray) else np.intp(index)


_INTP, _UINTP = np.dtype(np.intp), np.dtype(np.uintp)


def _as_places(indices: Sequence[Value], lengths: Sequence[int]) -> list[Any]:
    """Index arrays as intp."""
    found = []
    for i, n in zip(indices, lengths, strict=True):
        found.append(i if type(i) is np.ndarray and i.dtype is _INTP else _as_intp(i, n))
    return found


def _in_bounds(indices: Sequence[Value], lengths: Sequence[int]) -> Value | bool:
    """Where all indices are in bounds."""
    inside: Value | bool = True
    for i, n in zip(indices, lengths, strict=True):
        inside = inside & (i >= 0) & (i < n)
    return inside


def _all_in_bounds(indices: Sequence[np.ndarray], lengths: Sequence[int]) -> bool:
    """Whether index arrays of type intp, which are not empty, are in bounds."""
    most = np.maximum.reduce  # methods of arrays take thrice as long
    pairs = zip(indices, lengths, strict=True)
    return all([most(i.view(_UINTP), None) < n for i, n in pairs])


def _clipped(indices: Sequence[Value], lengths: Sequence[int]) -> list[Value]:
    pairs = zip(indices, lengths, strict=True)
    return [np.minimum(np.maximum(i, 0), max(n - 1, 0)) for i, n in pairs]


def _indexed_first(x: Value, axes: tuple[int, ...]) -> Any:
    """A view of `x` with the indexed axes first."""
    if axes[-1] == len(axes) - 1:
        return x
    return x.transpose(axes + rest_of(x.ndim, axes))


def read(x: Any, indices: Sequence[Value], axes: tuple[int, ...], mode: str) -> Value:
    """The elements at places, those first and then the other axes; outside of the array those at
    its ends ("clip"), or zeros ("fill")."""
    lengths = [x.shape[a] for a in axes]
    where = _as_places(indices, lengths)
    if mode == "clip" and len(axes) == 1 and x.flags.c_contiguous:
        (axis,), rank = axes, where[0].ndim
        taken = x.take(where[0], axis, mode="clip")
        if not axis:
            return taken
        first = range(axis, axis + rank)
        return taken.transpose((*first, *range(axis), *range(axis + rank, taken.ndim)))
    moved = _indexed_first(x, axes)
    if where[0].size and _all_in_bounds(where, lengths):
        return moved[tuple(where)]
    clipped = tuple(_clipped(where, lengths))
    if mode == "clip":
        return moved[clipped]
    inside = _in_bounds(where, lengths)
    shape = np.shape(inside) + moved.shape[len(axes) :]
    if 0 in lengths:
        return np.zeros(shape, x.dtype)[()]
    inside = np.reshape(inside, np.shape(inside) + (1,) * (len(shape) - np.ndim(inside)))
    return np.where(inside, moved[clipped], x.dtype.type(0))[()]


def updated(
    x: Value, updates: Value, indices: Sequence[Value], axes: tuple[int, ...], mode: str
) -> np.ndarray:
    """A copy of `x` with rows set, added, ... at places; those out of bounds are dropped."""
    if mode == "add":
        out = np.array(x, order="C", copy=True)
        add_rows(out, updates, indices, axes, "fill")
        return out
    out = np.array(_indexed_first(x, axes), order="C", copy=True)
    count = len(indices)
    where, rows = _rows_inside(updates, indices, out.shape[:count], "fill")
    if rows.size:
        width = math.prod(out.shape[count:])
        places = _flat(where, [n * width for n in _strides(out.shape[:count])])
        rows = rows.reshape(len(places), width)
        if mode == "set":
            out.reshape(-1, width)[places // width] = rows
        else:
            _at(UPDATE_AT[mode], out, places, np.arange(width), rows)
    order = axes + rest_of(x.ndim, axes)
    return out.transpose(np.argsort(order))


def _rows_inside(
    updates: Value, indices: Sequence[Value], lengths: Sequence[int], mode: str
) -> tuple[list[Any], Any]:
    """Flat places, clipped to lie in bounds or without those that do not, and their rows."""
    where = [np.ravel(_as_intp(i, n)) for i, n in zip(indices, lengths, strict=True)]
    rows = np.reshape(updates, (where[0].size, *np.shape(updates)[np.ndim(indices[0]) :]))
    if not rows.size or _all_in_bounds(where, lengths):
        return where, rows
    if mode == "clip":
        return _clipped(where, lengths), rows
    inside = _in_bounds(where, lengths)
    return [i[inside] for i in where], rows[inside]


def _strides(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous array, in elements."""
    return [math.prod(shape[a + 1 :]) for a in range(len(shape))]


def _flat(where: Sequence[Value], strides: Sequence[int]) -> Any:
    total = None
    for i, n in zip(where, strides, strict=True):
        term = i if n == 1 else i * n
        total = term if total is None else total + term
    return total


def _at(ufunc: np.ufunc, table: np.ndarray, places: Value, inner: Value, rows: Value) -> None:
    """Combine rows with a contiguous array at places, and at further ones within each row."""
    if rows.size > len(places):  # `ufunc.at` is fast on one axis only
        places = (places[:, None] + inner).reshape(-1)
    ufunc.at(table.reshape(-1), places, rows.reshape(-1))


def add_rows(
    buffer: np.ndarray, updates: Value, indices: Sequence[Value], axes: tuple[int, ...], mode: str
) -> None:
    """Add rows at places, in place: the transpose of `read`."""
    lengths = [buffer.shape[a] for a in axes]
    size = updates.size
    if 0 < size <= FEW:
        given = _as_places(indices, lengths)
        if _all_in_bounds(given, lengths):
            np.add.at(_indexed_first(buffer, axes), tuple(given), updates)
            return
    where, rows = _rows_inside(updates, indices, lengths, mode)
    if not rows.size:
        return
    width = rows[0].size
    if width >= LONG or not buffer.flags.c_contiguous:
        table = _indexed_first(buffer, axes)
        for place, row in zip(zip(*[i.tolist() for i in where], strict=True), rows, strict=True):
            table[place] += row
        return
    strides = _strides(buffer.shape)
    inner = np.zeros(1, np.intp)
    if width > 1:
        for a in rest_of(buffer.ndim, axes):
            inner = (inner[:, None] + strides[a] * np.arange(buffer.shape[a])).reshape(-1)
    _at(np.add, buffer, _flat(where, [strides[a] for a in axes]), inner, rows)
