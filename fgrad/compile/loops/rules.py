"""L5. How each primitive is written into a whole-loop kernel, on arrays of value ids.

x + y            one `add` for each pair of ids       reshape, slice, ...   ids rearranged
sum(x)           a tree of `add`                      x @ y                 chains of `muladd`
x[i], computed   an indirect load, or selections      x.at[i].set(u)        a store
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.size_functions import rounded
from fgrad.compile.kernel.affine import AffineIndex
from fgrad.compile.kernel.scalar import SCALAR_OPS, TRANSCENDENTAL
from fgrad.compile.loops.integers import INTEGER_RULES
from fgrad.compile.loops.loop_indexing import (
    chosen_update,
    dynamic_slice,
    dynamic_update,
    gather,
    scatter,
)
from fgrad.compile.loops.rows import contracted, folded, is_long, running
from fgrad.compile.loops.values import (
    Counting,
    Sparse,
    Stored,
    TooLarge,
    Value,
    reshaped_view,
)
from fgrad.compile.loops.writer import (
    FEW,
    MOST_CELLS,
    LoopRule,
    LoopWriter,
    is_mutable,
    mapped,
    settled,
)
from fgrad.compile.lower.rules import COMPOSED, accumulate_op, better_than
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.primitive import Primitive, folds
from fgrad.ir.program import Eqn
from fgrad.ir.traits import Along
from fgrad.ops import primitives as prims

FEWEST = 6  # functions of as many elements that are computed together
CHAIN = 4  # terms that are added one after the other

# --- elementwise


def elementwise(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """One scalar operation for each element; what is the same for all of an axis, once."""
    if eqn.prim is prims.add:
        merged = _sparse_sum(w, eqn)
        if merged is not None:
            return [merged]
    shape, dtype = w.shape(eqn.outputs[0]), eqn.outputs[0].aval.dtype
    operands = [w.operand(a) for a in eqn.inputs]
    if not shape:
        assert eqn.prim.scalar is not None
        return [np.array(scalar_rule(w, eqn.prim.scalar, dtype)(*map(int, operands)), np.int64)]
    operands = [np.broadcast_to(x, shape) for x in operands]
    varies = [
        slice(None) if any([x.strides[k] for x in operands]) else slice(0, 1)
        for k in range(len(shape))
    ]
    parts = [x[tuple(varies)] for x in operands]
    if parts[0].size > MOST_CELLS:
        raise TooLarge
    scalar = eqn.prim.scalar
    assert scalar is not None
    if scalar in TRANSCENDENTAL and _is_vector(w, parts[0], dtype):
        return [np.broadcast_to(_by_vectors(w, scalar, parts[0], dtype), shape)]
    one = scalar_rule(w, scalar, dtype)
    ids = [one(*map(int, row)) for row in zip(*[x.flat for x in parts], strict=True)]
    return [np.broadcast_to(np.array(ids, np.int64).reshape(parts[0].shape), shape)]


def _is_vector(w: LoopWriter, ids: np.ndarray, dtype: np.dtype) -> bool:
    """Whether a function of several elements that change in each step is worth a vector."""
    if w.lanes or ids.size < FEWEST or len(set(ids.flat)) < FEWEST or dtype.char not in "fd":
        return False
    return max([w.b.depths[int(id)] for id in ids.flat]) == w.b.depth > 0


def _by_vectors(w: LoopWriter, scalar: str, ids: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A function of all elements, through memory."""
    given = w.memory(ids.reshape(-1), (ids.size,), dtype)
    made = w.scratch((ids.size,), dtype)
    place = w.b.open(ids.size, "parallel")
    id = w.b.op(scalar, dtype, w.b.load(given.buffer, place, mutable=True))
    w.b.store(made.buffer, place, id)
    w.b.close()
    w.b.widen(dtype)
    return w.loaded(w.written(made)).reshape(ids.shape)


def scalar_rule(w: LoopWriter, scalar: str, dtype: np.dtype) -> Callable[..., int]:
    """The function of ids that writes one operation."""
    composed = COMPOSED.get(scalar)
    if composed is None and scalar not in SCALAR_OPS:
        raise TooLarge

    def plain(*ids: int) -> int:
        return w.b.op(scalar, dtype, *ids) if composed is None else composed(w.b, dtype, *ids)

    known = INTEGER_RULES.get(scalar)
    if known is None:
        return plain

    def integer(*ids: int) -> int:
        found = known(w, *ids)
        return plain(*ids) if found is None else found

    return integer


def _sparse_sum(w: LoopWriter, eqn: Eqn) -> Value | None:
    """The sum of an array and of updates to zeros."""
    a, b = [w.value(x) for x in eqn.inputs]
    if isinstance(a, Sparse):
        a, b = b, a
    if not isinstance(b, Sparse):
        return None
    if isinstance(a, Sparse):
        return a._replace(updates=a.updates + b.updates)
    if w.is_zero(a):
        return b
    if is_mutable(a):
        for update in b.updates:
            a = w.apply(a, update)  # type: ignore[arg-type]
        return a
    found = np.broadcast_to(w.cells(a), b.shape)
    for update in b.updates:
        found = chosen_update(w, found, b.dtype, update)
    return found


def convert(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Between dtypes; nothing where they are equal."""
    (x,) = eqn.inputs
    if x.aval.dtype == eqn.outputs[0].aval.dtype:
        return [w.value(x)]
    return elementwise(w, eqn)


# --- moving elements


def _view(move: Callable[[np.ndarray, Eqn, tuple[int, ...]], np.ndarray]) -> LoopRule:
    """A rule that rearranges: ids, or the steps of a view of memory."""

    def rule(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
        shape = w.shape(eqn.outputs[0])
        return [move(w.operand(eqn.inputs[0]), eqn, shape)]

    return rule


def broadcast(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """The same elements along new axes."""
    shape, dims = w.shape(eqn.outputs[0]), eqn.params["dims"]
    x = w.value(eqn.inputs[0])
    if isinstance(x, Stored) and not is_mutable(x) and x.size > w.most_cells:
        strides = [0] * len(shape)
        for d, stride in zip(dims, x.strides, strict=True):
            strides[d] = stride
        return [x._replace(shape=shape, strides=tuple(strides))]
    ids = w.cells(x)
    ones = [1] * len(shape)
    for d, n in zip(dims, ids.shape, strict=True):
        ones[d] = n
    return [np.broadcast_to(ids.reshape(ones), shape)]


def reshape(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """The same elements under another shape."""
    shape, x = w.shape(eqn.outputs[0]), w.value(eqn.inputs[0])
    if isinstance(x, Stored):
        view = reshaped_view(x, shape)
        if view is not None:
            return [view if not is_mutable(x) or x.size > w.most_cells else w.loaded(view)]
    ids = w.cells(x)
    if ids.size and not any(ids.strides):
        return [np.broadcast_to(ids.flat[0], shape)]
    return [ids.reshape(shape)]


def permute(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Axes in another order."""
    axes, x = eqn.params["axes"], w.value(eqn.inputs[0])
    if isinstance(x, Stored):
        order = x._replace(
            shape=tuple([x.shape[a] for a in axes]), strides=tuple([x.strides[a] for a in axes])
        )
        return [settled(w, order)]
    return [w.cells(x).transpose(axes)]


def slice_(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A regular part."""
    start, step, x = eqn.params["start"], eqn.params["step"], w.value(eqn.inputs[0])
    shape = w.shape(eqn.outputs[0])
    if isinstance(x, Stored):
        by = AffineIndex(sum([a * s for a, s, n in zip(start, x.strides, shape, strict=True)]))
        strides = [s * k for s, k in zip(x.strides, step, strict=True)]
        return [settled(w, x.moved(by, shape, strides))]
    cut = [slice(a, a + (n - 1) * s + 1, s) for a, s, n in zip(start, step, shape, strict=True)]
    if 0 in shape:
        return [np.zeros(shape, np.int64)]
    return [w.cells(x)[tuple(cut)]]


def index(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """One place along the first axes."""
    ints, x = eqn.params["ints"], w.value(eqn.inputs[0])
    if isinstance(x, Stored):
        by = AffineIndex(sum([i * s for i, s in zip(ints, x.strides, strict=False)]))
        return [settled(w, x.moved(by, x.shape[len(ints) :], x.strides[len(ints) :]))]
    return [np.asarray(w.cells(x)[tuple(ints)])]


def reverse(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Axes walked from their ends."""
    axes, x = eqn.params["axes"], w.value(eqn.inputs[0])
    if isinstance(x, Stored):
        by = AffineIndex(sum([(x.shape[a] - 1) * x.strides[a] for a in axes]))
        strides = [-s if k in axes else s for k, s in enumerate(x.strides)]
        return [settled(w, x.moved(by, x.shape, strides))]
    return [np.flip(w.cells(x), axes)]


def pad(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Elements between paddings."""
    p, dtype = eqn.params, eqn.outputs[0].aval.dtype
    ids, shape = w.operand(eqn.inputs[0]), w.shape(eqn.outputs[0])
    if math.prod(shape) > MOST_CELLS:
        raise TooLarge
    out = np.full(shape, w.number(p["value"], dtype), np.int64)
    places = []
    for n, low, gap, length in zip(ids.shape, p["low"], p["interior"], shape, strict=True):
        at = low + (gap + 1) * np.arange(n)
        kept = np.flatnonzero((at >= 0) & (at < length))
        places.append((at[kept], kept))
    out[np.ix_(*[a for a, _ in places])] = ids[np.ix_(*[k for _, k in places])]
    return [out]


def concatenate(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Arrays one after the other."""
    return [np.concatenate([w.operand(a) for a in eqn.inputs], eqn.params["axis"])]


def size(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A number."""
    dtype = eqn.params["dtype"]
    id = w.b.const(rounded(eqn.params["value"], dtype), dtype)
    return [np.broadcast_to(np.int64(id), ())]


def unset(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Memory that the loop writes which carries it."""
    (out,) = eqn.outputs
    shape, dtype = w.shape(out), out.aval.dtype
    if w.lanes or out.aval.size <= FEW:
        return [np.array(w.zeros(shape, dtype))]
    return [w.scratch(shape, dtype)]


def iota(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """The place along an axis."""
    out, axis, dtype = eqn.outputs[0], eqn.params["axis"], eqn.params["dtype"]
    shape, lanes = w.shape(out), w.lanes.get(out, {})
    if axis in lanes:
        # Not as an affine place: each lane has its own copy of the memory of the kernel.
        id = w.b.index(lanes[axis])
        id = id if dtype == INT64 else w.b.op("convert", dtype, id)
        return [np.broadcast_to(np.int64(id), shape)]
    if len(shape) == 1:
        return [Counting(shape[0], dtype)]  # so that loops find the place along it
    if shape[axis] > MOST_CELLS:
        raise TooLarge
    ids = np.array([w.number(k, dtype) for k in range(shape[axis])], np.int64)
    ones = [n if k == axis else 1 for k, n in enumerate(shape)]
    return [np.broadcast_to(ids.reshape(ones), shape)]


def windows(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Sliding windows."""
    p, ids = eqn.params, w.operand(eqn.inputs[0])
    numbers = np.arange(ids.size).reshape(ids.shape)
    return [ids.reshape(-1)[prims.windows.evaluate_rule(numbers, **p)]]


# --- sums and products


def tree(w: LoopWriter, op: str, dtype: np.dtype, ids: Sequence[int]) -> int:
    """op over all: short chains, combined in pairs."""
    parts = []
    for k in range(0, len(ids), CHAIN):
        acc = ids[k]
        for id in ids[k + 1 : k + CHAIN]:
            acc = w.b.op(op, dtype, acc, id)
        parts.append(acc)
    while len(parts) > 1:
        pairs = [w.b.op(op, dtype, *parts[k : k + 2]) for k in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) & ~1 :]
    return parts[0]


def reduction(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A tree over some axes."""
    x, axes, dtype = eqn.inputs[0], eqn.params["axes"], eqn.outputs[0].aval.dtype
    if not w.lanes and x.aval.size and (is_long(w, w.value(x)) or x.aval.size > MOST_CELLS):
        return [folded(w, eqn, w.value(x))]
    op = accumulate_op(eqn.prim, dtype)
    ids = w.operand(x)
    kept = [k for k in range(ids.ndim) if k not in axes]
    shape = tuple([ids.shape[k] for k in kept])
    cells = math.prod([ids.shape[k] for k in axes])
    rows = ids.transpose([*kept, *axes]).reshape(math.prod(shape), cells)
    if rows.size > MOST_CELLS:
        raise TooLarge
    if len(rows) and not cells:
        empty = eqn.prim.evaluate_rule(np.zeros(x.aval.shape, dtype), axes=axes)
        return [np.broadcast_to(np.int64(w.number(np.asarray(empty).flat[0], dtype)), shape)]
    out = [tree(w, op, dtype, [int(i) for i in row]) for row in rows]
    return [np.array(out, np.int64).reshape(shape)]


def cumulative(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Partial results along an axis."""
    axis, dtype = eqn.params["axis"], eqn.outputs[0].aval.dtype
    if not w.lanes and is_long(w, w.value(eqn.inputs[0])):
        found = running(w, eqn, w.value(eqn.inputs[0]))
        if found is not None:
            return [found]
    op = accumulate_op(eqn.prim, dtype)
    ids = np.moveaxis(np.array(w.operand(eqn.inputs[0])), axis, 0)
    steps = range(len(ids) - 2, -1, -1) if eqn.params["reverse"] else range(1, len(ids))
    before = 1 if eqn.params["reverse"] else -1
    for k in steps:
        ids[k] = mapped(lambda p, q: w.b.op(op, dtype, p, q), ids[k + before], ids[k])
    return [np.moveaxis(ids, 0, axis)]


def arg_extremum(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """The first place of the largest or smallest element; the first NaN is both."""
    dtype = eqn.inputs[0].aval.dtype
    ids = np.moveaxis(w.operand(eqn.inputs[0]), eqn.params["axis"], 0)
    compare = better_than(eqn.prim)

    def find(*row: int) -> int:
        best, where = row[0], w.number(0, INT64)
        for k, new in enumerate(row[1:], 1):
            better = w.b.op(compare, BOOL, new, best)
            if dtype.kind == "f":
                fresh = w.b.op("isnan", BOOL, new)
                known = w.b.op("eq", BOOL, best, best)
                better = w.b.op("or", BOOL, better, w.b.op("and", BOOL, fresh, known))
            where = w.b.op("select", INT64, better, w.number(k, INT64), where)
            best = w.b.op("select", dtype, better, new, best)
        return where

    return [mapped(find, *ids)]


def dot(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """Sums of products, written out."""
    values = [w.value(a) for a in eqn.inputs]
    if not w.lanes and any([is_long(w, x) for x in values]):
        found = contracted(w, eqn, *values)
        if found is not None:
            return [found]
    x, y = [w.cells(x) for x in values]
    (cx, cy), (bx, by) = eqn.params["contract"], eqn.params["batch"]
    dtype = eqn.outputs[0].aval.dtype
    free_x = [k for k in range(x.ndim) if k not in (*cx, *bx)]
    free_y = [k for k in range(y.ndim) if k not in (*cy, *by)]
    batch, summed = [math.prod([x.shape[k] for k in axes]) for axes in (bx, cx)]
    left = x.transpose([*bx, *free_x, *cx]).reshape(
        batch, math.prod([x.shape[k] for k in free_x]), summed
    )
    right = y.transpose([*by, *free_y, *cy]).reshape(
        batch, math.prod([y.shape[k] for k in free_y]), summed
    )
    if left.size * right.shape[1] > MOST_PRODUCTS:
        raise TooLarge
    out = [
        _inner(w, dtype, [int(i) for i in a], [int(i) for i in b])
        for rows, columns in zip(left, right, strict=True)
        for a in rows
        for b in columns
    ]
    return [np.array(out, np.int64).reshape(w.shape(eqn.outputs[0]))]


MOST_PRODUCTS = 1024


def _inner(w: LoopWriter, dtype: np.dtype, a: Sequence[int], b: Sequence[int]) -> int:
    """sum of a * b; `or` of `and` for bool."""
    if not a:
        return w.number(0, dtype)
    if dtype.kind != "f":
        pairs = zip(a, b, strict=True)
        times, plus = ("and", "or") if dtype == BOOL else ("mul", "add")
        return tree(w, plus, dtype, [w.b.op(times, dtype, p, q) for p, q in pairs])
    parts = []
    for k in range(0, len(a), CHAIN):
        acc = w.b.op("mul", dtype, a[k], b[k])
        for p, q in zip(a[k + 1 : k + CHAIN], b[k + 1 : k + CHAIN], strict=True):
            acc = w.b.op("muladd", dtype, p, q, acc)
        parts.append(acc)
    return tree(w, "add", dtype, parts)


class _Rules(dict[Primitive, LoopRule]):
    """The rules, with the elementwise one for every primitive that names a scalar row."""

    def get(self, prim: Primitive, default: LoopRule | None = None) -> LoopRule | None:
        found = super().get(prim)
        if found is None and prim.scalar is not None:
            return elementwise
        return found if found is not None else default


RULES: dict[Primitive, LoopRule] = _Rules({
    prims.convert: convert,
    prims.broadcast: broadcast,
    prims.reshape: reshape,
    prims.permute: permute,
    prims.slice: slice_,
    prims.index: index,
    prims.reverse: reverse,
    prims.pad: pad,
    prims.concatenate: concatenate,
    prims.iota: iota,
    prims.size: size,
    prims.unset: unset,
    prims.gather: gather,
    prims.dynamic_slice: dynamic_slice,
    prims.scatter: scatter,
    prims.dynamic_update: dynamic_update,
    **dict.fromkeys(folds(Along.AXES), reduction),
    **dict.fromkeys(folds(Along.RUNNING), cumulative),
    **dict.fromkeys(folds(Along.PLACE), arg_extremum),
    prims.windows: windows,
    prims.dot_general: dot,
})  # fmt: skip
