"""L3. Diagonals of matrices, which stand in the last two axes: one equation at the prompt, an index
map when compiled.

    diagonal(a, k)[..., i] = a[..., i + max(-k, 0), i + max(k, 0)]
    on_diagonal            is its transpose: zeros with a diagonal
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.composed import compose_when_compiled
from fgrad.ops.elementwise import add, eq, lit, select
from fgrad.ops.families import batch_first, linear, moves
from fgrad.ops.shape import broadcast, full, iota, pad, reshape, slice_
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import EqnParams

diagonal_p = Primitive(
    "diagonal", traits.moving(view=True, drops=True), params=("offset",), linear_in="all"
)
on_diagonal_p = Primitive(
    "on_diagonal", traits.moving(fills=True), params=("plane", "offset"), linear_in="all"
)
Plane = tuple[int, ...]


def _count(plane: Plane, offset: int) -> int:
    rows, columns = plane
    return max(min(rows - max(-offset, 0), columns - max(offset, 0)), 0)


def _first(plane: Plane, offset: int) -> int:
    """The place of the first element in the flat matrix; the others are columns + 1 apart."""
    return max(-offset, 0) * plane[1] + max(offset, 0)


@diagonal_p.type_rule
def _(a: Aval, *, offset: int) -> Aval:
    if a.ndim < 2:
        raise ShapeError(f"diagonal: shape {a.shape} is not that of a matrix.")
    return Aval((*a.shape[:-2], _count(a.shape[-2:], offset)), a.dtype)


@on_diagonal_p.type_rule
def _(x: Aval, *, plane: Plane, offset: int) -> Aval:
    if not x.ndim or x.shape[-1] != _count(plane, offset):
        raise ShapeError(f"on_diagonal: {x.shape} does not fit diagonal {offset} of {plane}.")
    return Aval((*x.shape[:-1], *plane), x.dtype)


diagonal_p.evaluate(lambda a, *, offset: a.diagonal(offset, -2, -1))


def _writable(a: np.ndarray, offset: int) -> np.ndarray:
    """A view of the diagonal of an array; NumPy's own is read-only."""
    view = a.diagonal(offset, -2, -1)
    view.flags.writeable = True
    return view


@on_diagonal_p.evaluate
def _(x: Value, *, plane: Plane, offset: int) -> np.ndarray:
    out = np.zeros((*x.shape[:-1], *plane), x.dtype)
    _writable(out, offset)[...] = x
    return out


def _accumulate(buffer: np.ndarray, ct: Value, _values: object, params: EqnParams) -> None:
    view = _writable(buffer, params["offset"])
    view += ct


diagonal_p.accumulate = _accumulate


@diagonal_p.transpose
def _(ct: Value, wanted: Sequence[bool], a: Value, *, offset: int) -> tuple[Value]:
    return (bind_one(on_diagonal_p, ct, {"plane": tuple(a.shape[-2:]), "offset": offset}),)


@on_diagonal_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, plane: Plane, offset: int) -> tuple[Value]:
    return (bind_one(diagonal_p, ct, {"offset": offset}),)


def _read(a: Value, *, offset: int) -> Value:
    *lead, rows, columns = a.shape
    plane, zeros = (rows, columns), (0,) * (len(a.shape) - 2)
    count, first = _count(plane, offset), _first(plane, offset)
    if not count:
        return full((*lead, 0), 0, a.dtype)
    stop = first + (count - 1) * (columns + 1) + 1
    flat = reshape(a, (*lead, rows * columns))
    step = (*[1 for _ in lead], columns + 1)
    return slice_(flat, (*zeros, first), (*lead, stop), step)


def _placed(x: Value, *, plane: Plane, offset: int) -> Value:
    *lead, count = x.shape
    rows, columns = plane
    shape, zeros = (*lead, rows, columns), (0,) * len(lead)
    if not count:
        return full(shape, 0, x.dtype)
    before = max(offset, 0)
    line = pad(x, (*zeros, before), (*zeros, columns - count - before))
    k = len(lead)
    wide = broadcast(line, shape, (*range(k), k + 1))
    rows_moved = add(iota(shape, INT64, k), np.int64(offset))
    return select(eq(rows_moved, iota(shape, INT64, k + 1)), wide, lit(x, 0))


compose_when_compiled(diagonal_p, _read)
compose_when_compiled(on_diagonal_p, _placed)


for _prim in (diagonal_p, on_diagonal_p):
    linear(_prim)

    @_prim.batch
    def _(
        size: int,
        operands: Sequence[Value],
        dims: Sequence[int | None],
        *,
        _prim: Primitive = _prim,
        **params: object,
    ) -> tuple[Value, int]:
        return bind(_prim, batch_first(size, operands[0], dims[0]), **params), 0


moves(diagonal_p, gaps="transpose")
moves(on_diagonal_p, gaps="jvp")


def diagonal(a: Value, offset: int = 0) -> Value:
    """A diagonal of matrices: 0 is the main one, those above it are positive."""
    return bind_one(diagonal_p, a, {"offset": offset})


def on_diagonal(x: Value, offset: int = 0) -> Value:
    """The smallest square matrices with a diagonal, zeros elsewhere."""
    n = x.shape[-1] + abs(offset)
    return bind_one(on_diagonal_p, x, {"plane": (n, n), "offset": offset})
