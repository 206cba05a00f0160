"""L5. Rows: arrays whose elements an inner loop computes, where they are stored or summed.

    b[i] = a[i] - 0.5 * b[i - 1]       becomes     parallel j in n:
                                                     %x = load a[i, j];  %y = load b[i - 1, j]
                                                     store b[i, j] %x - 0.5 * %y

The value rule of a primitive (`lower/rules.py`) says what one element is; those of operands are
other rows, memory, or numbers in registers.  A row is computed where it is stored; what several
equations read is stored first.  Lanes have none: each of their values is a vector already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad.compile.kernel.affine import AffineIndex, Places, shifted, total
from fgrad.compile.kernel.builder import Request, Rule
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.kernel.rewrite import identity
from fgrad.compile.kernel.scalar import SCALAR_OPS
from fgrad.compile.loops.values import (
    Counting,
    Row,
    Sparse,
    Stored,
    TooLarge,
    Update,
    Value,
)
from fgrad.compile.loops.writer import (
    FEW_COSTLY,
    KINDS,
    MOST_CELLS,
    MOST_ROW,
    MOST_TERMS,
    LoopWriter,
    is_mutable,
)
from fgrad.compile.lower.rules import COMPOSED, MOVES, accumulate_op
from fgrad.compile.lower.rules import RULES as VALUE_RULES
from fgrad.ir.aval import BOOL
from fgrad.ir.program import Eqn, Lit, Var
from fgrad.ir.traits import CONTROL
from fgrad.ir.walk import cost_of
from fgrad.ops import primitives as prims

DEEPEST = 40  # rows of rows, each of which is a call of a function
PARTS = 4  # partial results of a sum, which hide the latency of the operation

CHEAP = 1  # operations on an element that are computed again rather than kept


class RowWriter(LoopWriter):
    """Writes programs into a kernel, what is long as loops."""

    def equation(self, eqn: Eqn) -> None:
        """Write one equation."""
        if eqn.prim.holds in CONTROL:
            for atom in eqn.inputs:
                if isinstance(atom, Var) and isinstance(x := self.value(atom), Row):
                    self.env[atom] = self.memory(x, x.shape, x.dtype)
        row = row_of(self, eqn)
        if row is None:
            super().equation(eqn)
        else:
            self.env[eqn.outputs[0]] = row
        for var in eqn.outputs:
            x = self.env[var]
            if isinstance(x, Row) and x.cost > CHEAP and self.uses.get(var, 0) > 1:
                self.env[var] = self.memory(x, x.shape, x.dtype)

    def cells(self, x: Value) -> np.ndarray:
        """A value in registers."""
        if not isinstance(x, Row):
            return super().cells(x)
        if math.prod(x.shape) > MOST_CELLS:
            raise TooLarge
        ids = [x.element(tuple([AffineIndex(k) for k in at]), None) for at in np.ndindex(x.shape)]
        self.check_size()
        return np.array(ids, np.int64).reshape(x.shape)

    def write(self, target: Stored, x: Value) -> Stored:
        """Store a value."""
        size = math.prod(target.shape)
        if isinstance(x, Sparse) and size > MOST_CELLS and not self.lanes:
            x = self.memory(x, x.shape, x.dtype)
        repeated = isinstance(x, np.ndarray) and size > MOST_CELLS and any(x.strides)
        if self.lanes or size <= self.few or not (is_long(self, x) or repeated):
            return super().write(target, x)
        store_row(self, target, x, "set", self.predicate)
        return self.written(target)

    def apply(self, target: Stored, update: Update) -> Stored:
        """An update of memory that holds the newest version."""
        x = update.updates
        many = update.indices[0].size > 1 and is_long(self, x)
        if many and target.buffer in [s.buffer for s in as_row(self, x).reads]:
            # The first of several updates would overwrite what the others read.
            copy = self.memory(x, as_row(self, x).shape, target.dtype)
            update = update._replace(updates=copy)
        return super().apply(target, update)

    def add_row(
        self, target: Stored, x: Value, at: Sequence[int], mode: str, predicate: int | None
    ) -> None:
        """An update of memory by what stands at a place of the first axes of a row."""
        store_row(self, target, part_of(self, x, at), mode, predicate)


def is_long(w: LoopWriter, x: Value) -> bool:
    """Whether a value has more elements than registers should hold, and is not in these."""
    return isinstance(x, Row | Stored) and math.prod(x.shape) > w.few


def row_of(w: LoopWriter, eqn: Eqn) -> Row | None:
    """What an equation computes as a row; None if it is not one."""
    moved = eqn.prim.movement if eqn.prim in MOVES else None
    fixed = moved is not None and moved.fixed and bool(eqn.inputs)
    if w.lanes or not (fixed or eqn.prim.elementwise):
        return None
    operands, size = [w.value(a) for a in eqn.inputs], eqn.outputs[0].aval.size
    joined = moved is not None and (moved.joins or moved.fills) and size > MOST_CELLS
    if not joined and not any([is_long(w, x) for x in operands]):
        return None
    if moved is not None and moved.view:
        if not isinstance(operands[0], Row) and not _spreads(eqn, operands[0]):
            return None
    elif size <= w.few:
        return None
    if eqn.prim is prims.concatenate:
        return as_row(w, _joined(w, eqn, operands))
    return made_row(w, eqn, operands)


def _joined(w: LoopWriter, eqn: Eqn, operands: Sequence[Value]) -> Stored:
    """Arrays one after the other in memory: reading one of them at each place takes longer."""
    (out,), axis = eqn.outputs, eqn.params["axis"]
    if out.aval.size > MOST_ROW:
        raise TooLarge
    target, at = w.scratch(out.aval.shape, out.aval.dtype), 0
    for atom, x in zip(eqn.inputs, operands, strict=True):
        place = AffineIndex(at * target.strides[axis])
        if atom.aval.size:
            w.write(target.moved(place, atom.aval.shape, target.strides), x)
        at += atom.aval.shape[axis]
    return target._replace(version=w.versions[target.buffer])


def _spreads(eqn: Eqn, x: Value) -> bool:
    """Whether memory that changes is repeated, which is no view: it would be read later."""
    return eqn.prim is prims.broadcast and is_mutable(x)


def made_row(w: LoopWriter, eqn: Eqn, operands: Sequence[Value]) -> Row:
    """The row that an equation makes of operands."""
    (out,) = eqn.outputs
    unknown = eqn.prim not in VALUE_RULES and eqn.prim.scalar not in {**SCALAR_OPS, **COMPOSED}
    most = MOST_ROW if out.aval.ndim == 1 else MOST_CELLS  # kernels of their own are faster
    if out.aval.size > most or out.aval.dtype.kind not in KINDS or unknown:
        raise TooLarge
    known = {
        atom: _computed_once(w, _readable(w, x), out.aval.size)
        for atom, x in zip(eqn.inputs, operands, strict=True)
        if isinstance(atom, Var)
    }
    rule = VALUE_RULES[eqn.prim]

    def element(places: Places, predicate: int | None) -> int:
        request = Request(out, places, predicate)
        return _driven(w, rule(w.b, eqn, 0, request), known)

    parts = [x for x in known.values() if isinstance(x, Row)]
    reads = [x for x in known.values() if isinstance(x, Stored) and is_mutable(x)]
    depth = 1 + max([x.depth for x in parts], default=0)
    own = bool(eqn.prim.elementwise)
    row = Row(
        out.aval.shape, out.aval.dtype, element,
        tuple([*reads, *[leaf for x in parts for leaf in x.reads]]),
        own and all([x.aligned for x in parts]),
        max([out.aval.dtype.itemsize, *[_width(x) for x in known.values()]]),
        depth,
        sum([x.cost for x in parts]) + (max(1, cost_of(eqn)) if own else 0),
    )  # fmt: skip
    return row if depth < DEEPEST else as_row(w, w.memory(row, row.shape, row.dtype))


def _driven(w: LoopWriter, rule: Rule, known: Mapping[Var, Value]) -> int:
    """Run a value rule on the operands of its equation."""
    answer: int | None = None
    while True:
        try:
            request = rule.send(answer)  # type: ignore[arg-type]
        except StopIteration as stop:
            return stop.value
        atom = request.atom
        if isinstance(atom, Lit):
            answer = w.number(atom.value, atom.aval.dtype)
        else:
            answer = element_of(w, known[atom], request.places, request.predicate)


def _width(x: Value) -> int:
    return x.width if isinstance(x, Row) else x.dtype.itemsize if isinstance(x, Stored) else 1


def _readable(w: LoopWriter, x: Value) -> Value:
    """A value that inner loops can read at any place."""
    if isinstance(x, Sparse):
        return w.memory(x, x.shape, x.dtype)
    if not isinstance(x, np.ndarray) or x.size <= 1 or not any(x.strides):
        return x
    once = tuple([slice(None) if s else slice(0, 1) for s in x.strides])
    few = x[once]
    found = w.memory(few, few.shape, w.b.dtype_of(int(few.flat[0])))
    strides = [s if b else 0 for s, b in zip(found.strides, x.strides, strict=True)]
    return found._replace(shape=x.shape, strides=tuple(strides))


def _computed_once(w: LoopWriter, x: Value, reads: int) -> Value:
    """A value of which clearly more elements are read than it has: in memory, where these take
    long."""
    if not isinstance(x, Row) or x.cost <= CHEAP:
        return x
    size = math.prod(x.shape)
    return w.memory(x, x.shape, x.dtype) if reads > size + size // 8 else x


def element_of(w: LoopWriter, x: Value, places: Places, predicate: int | None) -> int:
    """One element of a value."""
    if isinstance(x, Row):
        return x.element(places, predicate)
    if isinstance(x, Stored):
        if x.version is not None and x.version != w.versions[x.buffer]:
            raise TooLarge
        at = total((x.base, *places), (1, *x.strides))
        return w.element_at(x, at, predicate)
    if isinstance(x, Counting):
        return w.index(places[0], x.dtype)
    if isinstance(x, Sparse):
        raise TooLarge
    if x.size == 1 or not any(x.strides):
        return int(x.flat[0])
    if any([p != AffineIndex(p.const) for p in places]):
        raise TooLarge
    return int(x[tuple([p.const for p in places])])


def as_row(w: LoopWriter, x: Value) -> Row:
    """A value as a row."""
    if isinstance(x, Row):
        return x
    x = _readable(w, x)
    if isinstance(x, Counting):
        shape, dtype = (x.length,), x.dtype
    elif isinstance(x, Stored):
        shape, dtype = x.shape, x.dtype
    else:
        assert isinstance(x, np.ndarray)
        if not x.size:
            raise TooLarge  # no element says what its dtype is
        shape, dtype = x.shape, w.b.dtype_of(int(x.flat[0]))
    reads = (x,) if isinstance(x, Stored) and is_mutable(x) else ()

    def element(places: Places, predicate: int | None) -> int:
        return element_of(w, x, places, predicate)

    return Row(shape, dtype, element, reads, True, dtype.itemsize, 1, 0)


def part_of(w: LoopWriter, x: Value, first: Sequence[int]) -> Row:
    """A row at constant places along its first axes."""
    row, lead = as_row(w, x), tuple([AffineIndex(k) for k in first])
    if not lead:
        return row

    def element(places: Places, predicate: int | None) -> int:
        return row.element((*lead, *places), predicate)

    return row._replace(
        shape=row.shape[len(lead) :], element=element, aligned=row.aligned and not row.reads
    )


def guarded(w: LoopWriter, x: Stored, inside: int) -> Row:
    """Memory where a predicate holds, and zeros where it does not."""

    def element(places: Places, predicate: int | None) -> int:
        id = element_of(w, x, places, w.b.both(predicate, inside))
        return w.b.op("select", x.dtype, inside, id, w.number(0, x.dtype))

    return as_row(w, x)._replace(element=element, cost=2)


def chosen(w: LoopWriter, hit: int, x: Value, y: Value) -> Row:
    """One of two values."""
    a, b = as_row(w, x), as_row(w, y)

    def element(places: Places, predicate: int | None) -> int:
        p, q = a.element(places, predicate), b.element(places, predicate)
        return p if p == q else w.b.op("select", a.dtype, hit, p, q)

    return Row(
        a.shape, a.dtype, element, (*a.reads, *b.reads), a.aligned and b.aligned,
        max(a.width, b.width), 1 + max(a.depth, b.depth), 1 + a.cost + b.cost,
    )  # fmt: skip


# --- loops


def overlaps(row: Row, target: Stored) -> bool:
    """Whether storing a row may overwrite what another element of it reads."""
    for leaf in row.reads:
        if leaf.buffer != target.buffer:
            continue
        if not (row.aligned and _same_or_apart(leaf, target)) and not _apart(leaf, target):
            return True
    return False


def _same_or_apart(a: Stored, b: Stored) -> bool:
    """Whether two views of a buffer are one, or have no element in common, as rows of a matrix."""
    if (a.shape, a.strides) != (b.shape, b.strides) or min(a.strides, default=0) < 0:
        return False
    way = total((a.base, b.base), (1, -1))
    steps = [way.const, *[s for _, s in way.terms], *[s for _, s in way.values]]
    reach = sum([(n - 1) * s for n, s in zip(a.shape, a.strides, strict=True)])
    return not any(steps) or math.gcd(*steps) > reach


def _apart(a: Stored, b: Stored) -> bool:
    """Whether two views of a buffer have no element in common, as two rows of a matrix."""
    way = total((a.base, b.base), (1, -1))
    if way != AffineIndex(way.const) or min([*a.strides, *b.strides], default=0) < 0:
        return False
    low = b if way.const >= 0 else a
    return abs(way.const) > sum([(n - 1) * s for n, s in zip(low.shape, low.strides, strict=True)])


def store_row(
    w: LoopWriter, target: Stored, x: Value, mode: str = "set", predicate: int | None = None
) -> None:
    """A loop that stores each element, in vectors along the last axis."""
    row = as_row(w, x)
    if overlaps(row, target):
        row = as_row(w, w.staged(row))
    depth = w.b.depth
    places = _opened(w, target.shape, "parallel", max(row.width, target.dtype.itemsize), 1)
    id = row.element(places, None)
    to = total((target.base, *places), (1, *target.strides))
    w.b.store(target.buffer, to, id, mode, predicate)
    w.b.close_to(depth)
    w.check_size()


def _opened(w: LoopWriter, shape: Sequence[int], kind: str, width: int, parts: int) -> Places:
    """Loops over all places, the innermost of vectors of a width, unless that is 0."""
    depth = w.b.depth
    places = w.b.open_all(shape, kind)
    if w.b.depth > depth and width:
        _widen(w, width, parts)
    return places


def _widen(w: LoopWriter, width: int, parts: int) -> None:
    """Vectors, some at a time, in the innermost open loop."""
    frame = w.b.frames[-1]
    assert frame.loop is not None
    lanes = VECTOR_BYTES // width
    unroll = 1
    while unroll < parts and 2 * unroll * lanes <= frame.loop.extent:
        unroll *= 2
    frame.loop = frame.loop._replace(lanes=lanes, unroll=unroll)


def gathered(w: LoopWriter, eqn: Eqn, x: Value) -> Row:
    """Elements of memory at places that other arrays hold."""
    return made_row(w, eqn, [x, *[w.value(a) for a in eqn.inputs[1:]]])


def folded(w: LoopWriter, eqn: Eqn, x: Value) -> Value:
    """A reduction of a row over some axes."""
    dtype, axes = eqn.outputs[0].aval.dtype, eqn.params["axes"]
    row = as_row(w, x)
    op = accumulate_op(eqn.prim, dtype)
    across = len(row.shape) - 1 not in axes
    return _sums(
        w, eqn, row.shape, axes, op, row.width, across, lambda places: row.element(places, None)
    )


def _sums(
    w: LoopWriter, eqn: Eqn, shape: Sequence[int], axes: Sequence[int], op: str, width: int,
    across: bool, term: Callable[[Places], int],
) -> Value:  # fmt: skip
    """op over the terms along some axes, for all places of the others, which are the result's: in
    vectors along these if it goes `across`, else along the last one that is summed."""
    dtype = eqn.outputs[0].aval.dtype
    kept = [k for k in range(len(shape)) if k not in axes]
    short = tuple([shape[k] for k in kept])

    def one(places: Places, width: int) -> int:
        known = dict(zip(kept, places, strict=True))
        return _sum(w, shape, axes, op, dtype, known, term, width)

    if math.prod(short) <= w.few and not across:
        ids = [one(tuple(map(AffineIndex, at)), width) for at in np.ndindex(short)]
        w.check_size()
        return np.array(ids, np.int64).reshape(short)
    target, depth = w.scratch(short, dtype), w.b.depth
    places = _opened(w, short, "parallel", width if across else 0, 1)
    if across:
        _several(w)
    id = one(places, 0 if across else width)
    w.b.store(target.buffer, total((target.base, *places), (1, *target.strides)), id)
    w.b.close_to(depth)
    w.check_size()
    return w.written(target)


def _several(w: LoopWriter) -> None:
    """Vectors side by side in the innermost open loop, each with a sum of its own."""
    frame = w.b.frames[-1]
    assert frame.loop is not None
    lanes = frame.loop.lanes
    while lanes < PARTS * frame.loop.lanes and 2 * lanes <= frame.loop.extent:
        lanes *= 2
    frame.loop = frame.loop._replace(lanes=lanes)


def _sum(
    w: LoopWriter, shape: Sequence[int], axes: Sequence[int], op: str, dtype: np.dtype,
    kept: dict[int, AffineIndex], term: Callable[[Places], int], width: int,
) -> int:  # fmt: skip
    """op over the terms along some axes, in vectors of a `width` along the last one."""
    depth = w.b.depth
    acc = w.b.accumulator(op, dtype, identity(op, dtype))
    inner = [shape[a] for a in axes]
    found = _opened(w, inner, "reduce", width, PARTS)
    along = {**kept, **dict(zip(axes, found, strict=True))}
    w.b.update(acc, term(tuple([along[k] for k in range(len(shape))])))
    w.b.close_to(depth)
    return w.b.read(acc)


def is_long_product(summed: int, results: int) -> bool:
    """Whether a product of matrices is not written out."""
    return summed > FEW_COSTLY or summed * results > MOST_TERMS


def contracted(w: LoopWriter, eqn: Eqn, x: Value, y: Value) -> Value | None:
    """Sums of products of rows; None where they are written out."""
    (cx, cy), (bx, by) = eqn.params["contract"], eqn.params["batch"]
    a, b = as_row(w, x), as_row(w, y)
    summed = math.prod([a.shape[k] for k in cx])
    free_x = [k for k in range(len(a.shape)) if k not in (*cx, *bx)]
    free_y = [k for k in range(len(b.shape)) if k not in (*cy, *by)]
    out = (*[a.shape[k] for k in (*bx, *free_x)], *[b.shape[k] for k in free_y])
    terms = math.prod(out) * summed
    if not is_long_product(summed, math.prod(out)):
        return None
    if out and max(terms // 2, math.prod(a.shape), math.prod(b.shape)) > MOST_CELLS:
        raise TooLarge  # libraries and kernels of their own are faster
    a, b = [as_row(w, _computed_once(w, row, terms)) for row in (a, b)]
    dtype, rank = eqn.outputs[0].aval.dtype, len(out)
    shape = (*out, *[a.shape[k] for k in cx])
    times = "and" if dtype == BOOL else "mul"

    def term(places: Places) -> int:
        lead, inner = places[: len(bx)], places[rank:]
        middle = places[len(bx) : len(bx) + len(free_x)]
        last = places[len(bx) + len(free_x) : rank]
        at_x = dict(zip((*bx, *free_x, *cx), (*lead, *middle, *inner), strict=True))
        at_y = dict(zip((*by, *free_y, *cy), (*lead, *last, *inner), strict=True))
        p = a.element(tuple([at_x[k] for k in range(len(a.shape))]), None)
        q = b.element(tuple([at_y[k] for k in range(len(b.shape))]), None)
        return w.b.op(times, dtype, p, q)

    op = "or" if dtype == BOOL else "add"
    axes = tuple(range(rank, len(shape)))
    last = b if free_y else a
    across = bool(free_x or free_y) and max(free_y or free_x) == len(last.shape) - 1
    return _sums(w, eqn, shape, axes, op, max(a.width, b.width), across, term)


def running(w: LoopWriter, eqn: Eqn, x: Value) -> Value | None:
    """Partial results along a row; None if it has other axes."""
    (out,) = eqn.outputs
    if out.aval.ndim != 1:
        return None
    row, dtype, n = as_row(w, x), out.aval.dtype, out.aval.size
    op = accumulate_op(eqn.prim, dtype)
    target = w.scratch(out.aval.shape, dtype)
    acc = w.b.accumulator("carry", dtype, identity(op, dtype))
    step = w.b.open(n, "serial")
    at = shifted(step, -1, n - 1) if eqn.params["reverse"] else step
    id = w.b.op(op, dtype, w.b.read(acc), row.element((at,), None))
    w.b.update(acc, id)
    w.b.store(target.buffer, total((target.base, at), (1, 1)), id)
    w.b.close()
    return w.written(target)
