"""L5. Gather, scatter and dynamic slices inside a whole-loop kernel.

x[i]              an indirect load; a chain of selections where x is in registers
x.at[i].set(u)    a store where x is memory that the loop updates; else selections
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import product
from typing import Any

import numpy as np

from fgrad.compile.kernel.affine import AffineIndex, shifted, total
from fgrad.compile.loops.rows import gathered, guarded, is_long
from fgrad.compile.loops.values import Row, Sparse, Stored, TooLarge, Update, Value
from fgrad.compile.loops.writer import (
    MOST_CELLS,
    LoopWriter,
    is_mutable,
    is_one_number,
    mapped,
    settled,
)
from fgrad.compile.lower.rules import UINT64, accumulator
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.program import Atom, Eqn, Var
from fgrad.ir.walk import is_cotangent

MOST_CHOICES = 16  # elements of an array in registers that a computed index may choose from


def _own_rows(w: LoopWriter, x: Atom, axes: Sequence[int]) -> set[int]:
    """The numbers of the indexed axes that are lanes, each of which reads and writes its own."""
    own = w.lanes.get(x, {}) if isinstance(x, Var) else {}
    return {k for k, a in enumerate(axes) if a in own}


def _indices(
    w: LoopWriter, atoms: Sequence[Atom], lengths: Sequence[int], predicated: bool,
    own: Collection[int] = (),
) -> tuple[list[np.ndarray], np.ndarray | None]:  # fmt: skip
    """Indices as int64 ids, clamped unless `predicated`; and the ids of predicates that all are
    inside, -1 where that is certain.  Those of a lane's `own` rows are 0."""
    found, inside = [], None
    for number, (atom, n) in enumerate(zip(atoms, lengths, strict=True)):
        ids = w.zeros(w.shape(atom), INT64) if number in own else w.operand(atom)
        dtype = atom.aval.dtype
        flat, predicates = [], []
        for id in map(int, ids.flat):
            if dtype == UINT64:
                id = w.b.op("min", dtype, id, w.b.const(1 << 62, dtype))
            id = id if dtype == INT64 else w.b.op("convert", INT64, id)
            limits = w.ranges.get(id) or w.limits(w.place(id))
            certain = limits is not None and limits[0] >= 0 and limits[1] < n
            certain = certain or w.assumed(w.place(id), 0, n)
            predicate = None if certain or not predicated else w.b.within(w.place(id), 0, n, None)
            predicates.append(-1 if predicate is None else predicate)
            flat.append(id if certain or predicated else _clamped(w, id, n - 1))
        found.append(np.array(flat, np.int64).reshape(ids.shape))
        inside = _both(w, inside, np.array(predicates, np.int64).reshape(ids.shape))
    return found, inside if predicated else None


def _clamped(w: LoopWriter, id: int, high: int) -> int:
    low = w.b.op("max", INT64, id, w.number(0, INT64))
    return w.b.op("min", INT64, low, w.number(max(high, 0), INT64))


def _both(w: LoopWriter, a: np.ndarray | None, b: np.ndarray) -> np.ndarray:
    if a is None:
        return b
    pairs = zip(a.flat, b.flat, strict=True)
    ids = [q if p < 0 else p if q < 0 else w.b.both(int(p), int(q)) for p, q in pairs]
    return np.array(ids, np.int64).reshape(b.shape)


def gather(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Elements at computed places, clamped, or 0 outside."""
    x, *atoms = eqn.inputs
    axes, fill = eqn.params["axes"], eqn.params["mode"] == "fill"
    if not math.prod(w.shape(eqn.outputs[0])):
        return [np.zeros(w.shape(eqn.outputs[0]), np.int64)]
    source = _uniform(w, x)
    if source is None:
        source = _addressable(w, x)
        long = math.prod(w.shape(eqn.outputs[0])) > w.few and isinstance(source, Stored)
        if long and not w.lanes and atoms[0].aval.size > 1:
            return [gathered(w, eqn, source)]
    lengths = [source.shape[a] for a in axes]
    found, inside = _indices(w, atoms, lengths, fill, _own_rows(w, x, axes))
    rest = [k for k in range(len(source.shape)) if k not in axes]
    shape = (*found[0].shape, *[source.shape[k] for k in rest])
    if source.size and not isinstance(source, Stored) and not any(source.strides):
        return [_repeated(w, int(source.flat[0]), shape, inside, len(rest))]
    if math.prod(shape) > (w.most_cells if isinstance(source, Stored) else MOST_CELLS):
        return _large_gather(w, source, axes, found, inside, rest)
    parts = []
    for at in np.ndindex(found[0].shape):
        predicate = None if inside is None or inside[at] < 0 else int(inside[at])
        ids = [int(i[at]) for i in found]
        parts.append(_read_at(w, source, axes, ids, rest, predicate))
    return [np.array(parts, np.int64).reshape(shape)]


def _uniform(w: LoopWriter, atom: Atom) -> np.ndarray | None:
    """An array whose elements are all one scalar, of any size."""
    x = w.value(atom)
    return x if isinstance(x, np.ndarray) and x.size and not any(x.strides) else None


def _repeated(
    w: LoopWriter, id: int, shape: Sequence[int], inside: np.ndarray | None, n_rest: int
) -> np.ndarray:
    """Elements of an array of equal ones; zeros outside of it."""
    if inside is None:
        return np.broadcast_to(np.int64(id), tuple(shape))
    dtype = w.b.dtype_of(id)
    zero = w.number(0, dtype)
    one = scalar_select(w, dtype)
    ids = mapped(lambda p: id if p < 0 else one(p, id, zero), inside)
    return np.broadcast_to(ids.reshape((*ids.shape, *[1] * n_rest)), tuple(shape))


def scalar_select(w: LoopWriter, dtype: np.dtype) -> Callable[[int, int, int], int]:
    """The function of ids that writes a selection."""
    return lambda p, x, y: x if x == y else w.b.op("select", dtype, p, x, y)


def _large_gather(
    w: LoopWriter, source: Stored | np.ndarray, axes: Sequence[int], found: list[np.ndarray],
    inside: np.ndarray | None, rest: list[int],
) -> Sequence[Value]:  # fmt: skip
    """A whole row of an array in memory, as a view."""
    certain = inside is None or inside.flat[0] < 0
    if not isinstance(source, Stored) or found[0].size != 1 or (w.lanes and not certain):
        raise TooLarge
    strides = [source.strides[a] for a in axes]
    by = total([w.place(int(i.flat[0])) for i in found], strides)
    shape = (*found[0].shape, *[source.shape[k] for k in rest])
    own = (*[0] * found[0].ndim, *[source.strides[k] for k in rest])
    view = source.moved(by, shape, own)
    return [view if certain else guarded(w, view, int(inside.flat[0]))]  # type: ignore[union-attr]


def _addressable(w: LoopWriter, atom: Atom) -> Stored | np.ndarray:
    """An array that computed indices can address."""
    x = w.value(atom)
    if isinstance(x, Row):
        return w.memory(x, x.shape, x.dtype)
    if isinstance(x, Stored):
        return x
    size = math.prod(w.shape(atom))
    if size > MOST_CELLS and not w.lanes:
        return w.memory(x, w.shape(atom), atom.aval.dtype)
    ids = w.cells(x)
    if ids.size > MOST_CELLS:
        raise TooLarge
    return ids


def _read_at(
    w: LoopWriter, x: Stored | np.ndarray, axes: Sequence[int], ids: list[int], rest: list[int],
    predicate: int | None,
) -> np.ndarray:  # fmt: skip
    """The elements at one computed place."""
    if isinstance(x, np.ndarray):
        places = [w.place(id) for id in ids]
        if all([p == AffineIndex(p.const) for p in places]):
            key: list[Any] = [slice(None)] * x.ndim
            for a, p in zip(axes, places, strict=True):
                key[a] = p.const
            return x[tuple(key)]
        if math.prod([x.shape[a] for a in axes]) <= MOST_CHOICES and predicate is None:
            return _chosen(w, np.moveaxis(x, axes, range(len(axes))), ids)
        x = w.memory(x, x.shape, _dtype_of(w, x))
    first = total((x.base, *[w.place(id) for id in ids]), (1, *[x.strides[a] for a in axes]))
    part = Stored(
        x.buffer, x.dtype, first,
        tuple([x.shape[k] for k in rest]), tuple([x.strides[k] for k in rest]), x.version,
    )  # fmt: skip
    if predicate is None:
        return w.loaded(part)
    zero = w.number(0, x.dtype)
    mutable = is_mutable(x)
    ids = [
        w.b.op(
            "select", x.dtype, predicate,
            w.b.load(x.buffer, shifted(first, 1, int(k)), predicate, mutable=mutable), zero,
        )
        for k in part.offsets().flat
    ]  # fmt: skip
    return np.array(ids, np.int64).reshape(part.shape)


def _dtype_of(w: LoopWriter, ids: np.ndarray) -> np.dtype:
    return w.b.dtype_of(int(ids.flat[0]))


def _chosen(w: LoopWriter, x: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """A selection among the elements of an array in registers."""
    for id in ids:
        best = x[-1]
        for k in reversed(range(len(x) - 1)):
            hit = w.b.op("eq", BOOL, id, w.number(k, INT64))
            best = mapped(lambda p, q, hit=hit: _pick(w, hit, p, q), x[k], best)
        x = best
    return x


def _pick(w: LoopWriter, hit: int, p: int, q: int) -> int:
    return p if p == q else w.b.op("select", w.b.dtype_of(p), hit, p, q)


def dynamic_slice(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A block that begins at computed places."""
    x, *starts = eqn.inputs
    shape = w.shape(eqn.outputs[0])
    if not math.prod(shape):
        return [np.zeros(shape, np.int64)]
    source = _addressable(w, x)
    room = [n - m + 1 for n, m in zip(source.shape, shape, strict=True)]
    found, _ = _indices(w, starts, room, False)
    places = [w.place(int(i)) for i in found]
    if isinstance(source, Stored):
        return [settled(w, source.moved(total(places, source.strides), shape, source.strides))]
    ids, rest = [int(i) for i in found], list(range(source.ndim))
    moves = [k for k in rest if room[k] > 1]
    if math.prod([room[k] for k in moves]) > MOST_CHOICES:
        memory = w.memory(source, source.shape, _dtype_of(w, source))
        return [w.loaded(memory.moved(total(places, memory.strides), shape, memory.strides))]
    blocks = np.empty((*[room[k] for k in moves], *shape), np.int64)
    for at in product(*[range(room[k]) for k in moves]):
        cut: list[Any] = [slice(0, n) for n in shape]
        for k, start in zip(moves, at, strict=True):
            cut[k] = slice(start, start + shape[k])
        blocks[at] = source[tuple(cut)]
    return [_chosen(w, blocks, [ids[k] for k in moves])]


def scatter(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Elements replaced or added at computed places; those outside are dropped."""
    x, updates, *atoms = eqn.inputs
    axes, mode = eqn.params["axes"], eqn.params["mode"]
    target = w.value(x)
    shape, dtype = w.shape(eqn.outputs[0]), eqn.outputs[0].aval.dtype
    own = _own_rows(w, eqn.outputs[0], axes)
    found, inside = _indices(w, atoms, [shape[a] for a in axes], True, own)
    given = w.value(updates)
    if w.lanes or not is_long(w, given):
        given = w.cells(given)
    elif not is_long(w, target):
        given = w.memory(given, w.shape(updates), dtype)  # it may be read much later
    update = Update(axes, mode, tuple(found), inside, given)
    if mode == "add" and is_cotangent(eqn) and dtype != BOOL and is_mutable(target):
        return [w.apply(target, update._replace(mode="sum"))]  # type: ignore[arg-type]
    return [_updated(w, target, shape, dtype, update)]


def _updated(
    w: LoopWriter, target: Value, shape: tuple[int, ...], dtype: np.dtype, update: Update,
    distinct: bool = False,
) -> Value:  # fmt: skip
    """An array after an update, whose places may be known to be distinct."""
    if is_mutable(target):
        return w.apply(target, update)  # type: ignore[arg-type]
    distinct = distinct or update.indices[0].size == 1
    additive = update.mode == "add" or (update.mode == "set" and distinct)
    if additive and math.prod(shape) > MOST_CHOICES:
        if w.is_zero(target):
            return Sparse(shape, dtype, (update._replace(mode="add"),))
        if isinstance(target, Sparse) and update.mode == "add":
            return target._replace(updates=(*target.updates, update))
    if math.prod(shape) > w.few and not w.lanes:
        return w.apply(w.memory(target, shape, dtype), update)
    return chosen_update(w, w.cells(target), dtype, update)


def chosen_update(w: LoopWriter, x: np.ndarray, dtype: np.dtype, update: Update) -> np.ndarray:
    """Selections between old and new elements of an array in registers."""
    axes, found, inside = update.axes, update.indices, update.inside
    updates = w.cells(update.updates)
    out = np.moveaxis(np.array(x), axes, range(len(axes)))
    for at in np.ndindex(found[0].shape):
        ids = [int(i[at]) for i in found]
        places = [w.place(id) for id in ids]
        constant = all([p == AffineIndex(p.const) for p in places])
        if not constant and math.prod(out.shape[: len(axes)]) > MOST_CHOICES:
            return w.loaded(w.apply(w.memory(x, x.shape, dtype), update))
        certain = constant and (inside is None or inside[at] < 0)
        every = np.ndindex(out.shape[: len(axes)])
        for cell in [tuple([p.const for p in places])] if certain else every:
            hit = None
            if not certain:
                for id, k in zip(ids, cell, strict=True):
                    hit = w.b.both(hit, w.b.op("eq", BOOL, id, w.number(k, INT64)))
            old, new = out[cell], updates[at]
            if update.mode != "set":
                op = accumulator(update.mode, dtype)
                new = mapped(lambda p, q, op=op: w.b.op(op, dtype, p, q), old, new)
            if hit is not None:
                new = mapped(lambda p, q, hit=hit: _pick(w, hit, p, q), new, old)
            out[cell] = new
    return np.moveaxis(out, range(len(axes)), axes)


def dynamic_update(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A block replaced at computed places, which are clamped."""
    x, update, *starts = eqn.inputs
    target, given = w.value(x), w.value(update)
    shape, dtype = w.shape(eqn.outputs[0]), eqn.outputs[0].aval.dtype
    room = [n - m + 1 for n, m in zip(shape, w.shape(update), strict=True)]
    found, _ = _indices(w, starts, room, False)
    if is_long(w, given) and not w.lanes:
        memory = target if is_mutable(target) else w.memory(target, shape, dtype)
        return [_block_replaced(w, memory, given, found, w.shape(update))]  # type: ignore[arg-type]
    if is_mutable(target) and is_one_number(given):
        part = _part_replaced(w, target, found, w.shape(update))  # type: ignore[arg-type]
        w.write(part, given)
        return [w.written(target)]  # type: ignore[arg-type]
    block = w.cells(given)
    if block.size > MOST_CHOICES and not is_mutable(target):
        raise TooLarge
    if not shape:
        return [block]
    at = []
    for start, offsets in zip(found, np.indices(block.shape), strict=True):
        first = w.place(int(start))
        moved = mapped(lambda k, first=first: w.index(shifted(first, 1, k)), np.asarray(offsets))
        at.append(moved)
    update = Update(tuple(range(len(shape))), "set", tuple(at), None, block)
    return [_updated(w, target, shape, dtype, update, True)]


def _block_replaced(
    w: LoopWriter, target: Stored, block: Value, found: Sequence[np.ndarray], shape: Sequence[int]
) -> Value:
    """The same by a loop, in memory."""
    w.add_row(_part_replaced(w, target, found, shape), block, (), "set", w.predicate)
    return w.written(target)


def _part_replaced(
    w: LoopWriter, target: Stored, found: Sequence[np.ndarray], shape: Sequence[int]
) -> Stored:
    """The part of memory that an update replaces."""
    if target.version != w.versions[target.buffer]:
        raise TooLarge
    places = [w.place(int(i)) for i in found]
    return target.moved(total(places, target.strides), shape, target.strides)
