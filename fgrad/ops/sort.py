"""L3. Sorting: the first `num_keys` operands order all of them; searching; selecting.

    sort((k, v), axis=0)[1] == v[argsort(k)]           stable, ascending, NaN last

The derivative gathers tangents by the permutation, which is an iota carried along; the permutation
itself is constant between ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.primitive import DISCRETE, NOT_LINEAR, Primitive
from fgrad.ops.families import batch_first
from fgrad.ops.index import gather, sort_p
from fgrad.ops.selected import Selected, plain
from fgrad.ops.shape import iota, reshape
from fgrad.trace import Tracer, Value, bind
from fgrad.typing import EqnParams


def sort(operands: Sequence[Value], axis: int, num_keys: int = 1) -> tuple[Value, ...]:
    """The operands reordered along an axis; the first `num_keys` ascend lexicographically."""
    return bind(sort_p, *operands, axis=axis, num_keys=num_keys)


@sort_p.type_rule
def _(*operands: Aval, axis: int, num_keys: int) -> tuple[Aval, ...]:
    if not 1 <= num_keys <= len(operands):
        raise ShapeError(f"sort: {num_keys} keys for {len(operands)} operands.")
    shape = operands[0].shape
    if any(x.shape != shape for x in operands):
        raise ShapeError(f"sort: operands have shapes {[x.shape for x in operands]}.")
    if not 0 <= axis < len(shape):
        raise ShapeError(f"sort: axis {axis} of shape {shape}.")
    return tuple([x.strong() for x in operands])


@sort_p.evaluate
def _(*operands: np.ndarray, axis: int, num_keys: int) -> tuple[np.ndarray, ...]:
    if len(operands) == 1:
        return (_sorted(operands[0], axis),)
    order = _order(operands[:num_keys], axis)
    return tuple([np.take_along_axis(x, order, axis) for x in operands])


FAST = 256  # elements from which on another order than the stable one is worth a look


def _sorted(x: Value, axis: int) -> np.ndarray:
    """In ascending order; zeros of both signs stay in theirs, which NumPy's fast way mixes up."""
    if x.dtype.kind in "biuf" and x.shape[axis] >= FAST:
        signs = np.signbit(x[x == 0]) if x.dtype.kind == "f" else np.False_
        if not signs.any() or signs.all():
            return np.sort(x, axis=axis)
    return np.sort(x, axis=axis, kind="stable")


def _order(keys: Sequence[Any], axis: int) -> np.ndarray:
    """The stable order of some keys; NumPy's other order is much faster, and the same if no two
    keys are equal."""
    if len(keys) > 1:
        return np.lexsort(keys[::-1], axis=axis)
    (key,) = keys
    if key.shape[axis] < FAST:
        return np.argsort(key, axis=axis, kind="stable")
    order = np.argsort(key, axis=axis)
    moved = np.moveaxis(np.take_along_axis(key, order, axis), axis, -1)
    distinct = moved[..., :-1] < moved[..., 1:]
    return order if distinct.all() else np.argsort(key, axis=axis, kind="stable")


@sort_p.jvp
def _(
    primals: Sequence[Value],
    tangents: tuple[Value | None, ...],
    _outs: object,
    *,
    axis: int,
    num_keys: int,
) -> tuple[Value | None, ...]:
    """Tangents move with their elements."""
    shape = tuple(primals[0].shape)
    if all(t is None for t in tangents):
        return tangents
    number = iota(shape, INT64, axis)
    order = bind(sort_p, *primals[:num_keys], number, axis=axis, num_keys=num_keys)[-1]
    where = [order if a == axis else iota(shape, INT64, a) for a in range(len(shape))]
    every = tuple(range(len(shape)))
    return tuple([None if t is None else gather(plain(t), where, every) for t in tangents])


sort_p.refuse("transpose", NOT_LINEAR)


def _pull_sort(
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    values: Sequence[Value],
    _outs: object,
    params: EqnParams,
) -> Sequence[Value | None]:
    """Cotangents of known numbers move back with their elements."""
    axis, num_keys = params["axis"], params["num_keys"]
    if any([type(v) in (Tracer, Selected) for v in (*cts, *values)]):
        return NotImplemented
    order = _order(values[:num_keys], axis)
    parts: list[np.ndarray | None] = []
    for ct, want in zip(cts, wanted, strict=True):
        if not want or ct is None:
            parts.append(None)
            continue
        back = np.empty(order.shape, ct.dtype)
        np.put_along_axis(back, order, ct, axis)
        parts.append(back)
    return parts


sort_p.pullback = _pull_sort
sort_p.selects = True


@sort_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, axis: int, num_keys: int
) -> tuple[tuple[Value, ...], list[int]]:
    dim = dims[0]
    if dim is None or any(d != dim for d in dims):
        operands = [batch_first(size, x, d) for x, d in zip(operands, dims, strict=True)]
        dim = 0
    outs = bind(sort_p, *operands, axis=axis + (axis >= dim), num_keys=num_keys)
    return outs, [dim] * len(outs)


# --- searching ------------------------------------------------------------------------------------

searchsorted_p = Primitive(
    "searchsorted", traits.ordering(traits.Algorithm.SEARCH), params=("right",)
)


def searchsorted(x: Value, values: Value, right: bool = False) -> Value:
    """The places in rows `x`, in ascending order with NaN last, before which values belong.

    Arguments:
        x: (rows, n).
        values: (rows, m), of the same dtype.
        right: behind equal elements, not before them.

    Returns:
        (rows, m) int64.
    """
    return bind(searchsorted_p, x, values, right=right)


@searchsorted_p.type_rule
def _(x: Aval, values: Aval, *, right: bool) -> Aval:
    if x.ndim != 2 or values.ndim != 2 or x.shape[0] != values.shape[0]:
        raise ShapeError(f"searchsorted: rows of shapes {x.shape} and {values.shape}.")
    return Aval(values.shape, INT64)


@searchsorted_p.evaluate
def _(x: Value, values: np.ndarray, *, right: bool) -> np.ndarray:
    side = "right" if right else "left"
    rows = [np.searchsorted(a, v, side) for a, v in zip(x, values, strict=True)]
    return np.array(rows, np.int64).reshape(values.shape)


searchsorted_p.refuse("jvp", DISCRETE)
searchsorted_p.refuse("transpose", NOT_LINEAR)


@searchsorted_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, right: bool
) -> tuple[Value, int]:
    x, values = operands
    if dims[0] is None and x.shape[0] == 1:  # all in one row
        values = batch_first(size, values, dims[1])
        flat = reshape(values, (1, size * values.shape[2]))
        return reshape(searchsorted(x, flat, right), values.shape), 0
    x, values = (batch_first(size, v, d) for v, d in zip(operands, dims, strict=True))
    table, flat = [reshape(v, (size * v.shape[1], v.shape[2])) for v in (x, values)]
    return reshape(searchsorted(table, flat, right), values.shape), 0


# --- the greatest elements ------------------------------------------------------------------------

top_k_p = Primitive("top_k", traits.ordering(traits.Algorithm.SELECT), params=("k",), multiple=True)
MOST_SELECTED = 64  # elements that are selected by one walk; for more, rows are sorted


def is_selected(x: Aval, k: int) -> bool:
    """Whether there is a native walk for this selection from rows."""
    fits = x.dtype.kind in "fiu" and x.dtype.itemsize >= 4
    return fits and 1 <= k <= min(x.shape[-1], MOST_SELECTED) and x.shape[-1] < 2**31


def top_k(x: Value, k: int) -> tuple[Value, Value]:
    """The `k` greatest elements of rows, descending, and their places; NaN is the greatest."""
    return bind(top_k_p, x, k=k)


@top_k_p.type_rule
def _(x: Aval, *, k: int) -> tuple[Aval, Aval]:
    if not x.ndim or not 0 <= k <= x.shape[-1]:
        raise ShapeError(f"top_k: {k} elements of rows of shape {x.shape}.")
    shape = (*x.shape[:-1], k)
    return Aval(shape, x.dtype), Aval(shape, INT64)


@top_k_p.evaluate
def _(x: np.ndarray, *, k: int) -> tuple[np.ndarray, np.ndarray]:
    last = x.shape[-1] - 1
    order = last - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    return np.take_along_axis(x, order, -1), order


@top_k_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value | None], outs: Sequence[Value], *, k: int
) -> tuple[Value | None, None]:
    """Tangents of the elements that are taken."""
    shape, (t,) = tuple(outs[1].shape), tangents
    where = [iota(shape, INT64, a) for a in range(len(shape) - 1)]
    return None if t is None else gather(t, (*where, outs[1]), tuple(range(len(shape)))), None


top_k_p.refuse("transpose", NOT_LINEAR)


@top_k_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, k: int
) -> tuple[tuple[Value, Value], list[int]]:
    return bind(top_k_p, batch_first(size, operands[0], dims[0]), k=k), [0, 0]
