"""L5. Kernel -> Kernel: the same meaning in an order that is fast on a CPU.

The steps, in order: loops of extent 0 and 1 go away; perfect nests of parallel loops are sorted so
that the fastest axis is innermost; loops are split where their predicates change; nests that walk
memory without a gap become one loop; the axis to vectorise is chosen by a cost model, for each
outermost loop; small loops are unrolled; loops of long formulas take several vectors at a time.

    parallel i in 4:                 parallel j in 400 lanes 16 unroll 4:
      parallel j in 100:        ->     %0 = load x[j]
        %0 = load x[100*i + j]         ...
        ...
"""

from __future__ import annotations

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import is_power_of_two
from fgrad.base.sizes import settled
from fgrad.compile.kernel.cost import vector_cost, weight
from fgrad.compile.kernel.ir import (
    Affine,
    Buffer,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.machine import (
    ELEMENTS_WORTH_UNROLLING,
    ELEMENTS_WORTH_WIDE_CODE,
    LONG_OPERATION,
    SHORT_BODY,
    VECTOR_BYTES,
    WIDE_REGISTERS,
)
from fgrad.compile.kernel.predicates import split_at_predicates
from fgrad.compile.kernel.rewrite import (
    Body,
    Names,
    indices,
    map_indices,
    only_loop,
    stride_of,
    substitute,
    walk,
)
from fgrad.compile.schedule.columns import stream_columns
from fgrad.compile.schedule.registers import tile_registers
from fgrad.compile.schedule.rows import pair_rows
from fgrad.compile.schedule.sums import block_sums
from fgrad.compile.schedule.tiles import tile_transposes

UNROLL_STATEMENTS = 96  # a loop whose unrolled body has at most this many statements loses its loop
LEAST = 5  # iterations from which a loop is one for all sizes
SHORT_STATE = 16  # the same inside of a loop in order


def schedule(kernel: Kernel, registers: int = 32) -> Kernel:
    """The kernel with loops reordered and merged, and `lanes` and `unroll` set.

    Arguments:
        kernel: what to order.
        registers: how many vectors of 64 bytes the machine holds.

    Requires: a checked kernel.  Ensures: the same stores, up to the order of associative
    reductions.
    """
    names = Names(kernel)
    buffers = {b.name: b for b in kernel.buffers}
    body = sort_nests(sink(simplify_loops(kernel.body)))
    body = collapse(split_at_predicates(body, names, buffers))
    body = tile_registers(body, names, buffers, registers)
    body = stream_columns(body, names, buffers)
    body = block_sums(body, names)
    body = tile_transposes(body, names, buffers)
    body = simplify_loops(body)
    body = Vectoriser(buffers, body, registers < WIDE_REGISTERS).body(body)
    body = unroll(body)
    if registers >= WIDE_REGISTERS:
        body = pair_rows(body, names, buffers)
    body = interleave(body, 4 if registers >= WIDE_REGISTERS else 2)
    return Kernel(kernel.name, tuple(buffers.values()), body)


# --- loops


def simplify_loops(body: Body) -> Body:
    """Drop loops of extent 0 and those left without a body, and open loops of extent 1."""
    out: list[Statement] = []
    for s in body:
        if not isinstance(s, Loop):
            out.append(s)
        elif s.kind == "while":
            out.append(s._replace(body=simplify_loops(s.body)))
        elif s.extent == 1:
            inner = map_indices(s.body, lambda index, axis=s.axis: substitute(index, axis, 0, ()))
            out.extend(simplify_loops(inner))
        elif s.extent > 1 and (inner := simplify_loops(s.body)):
            out.append(s._replace(body=inner))
    return tuple(out)


def sink(body: Body) -> Body:
    """Move cheap statements between parallel loops inwards, where that makes a perfect nest.

    The nest can then be sorted, merged and tiled; code that stays invariant is hoisted on emission.
    """
    return tuple([_sunk(s) if isinstance(s, Loop) else s for s in body])


def _sunk(loop: Loop) -> Loop:
    *head, last = loop.body
    if not isinstance(last, Loop) or loop.kind != "parallel":
        return loop._replace(body=sink(loop.body))
    inner = _sunk(last)
    loops, body = perfect_nest(inner)
    cheap = all([isinstance(s, (Const, Index, Load, Op)) and weight(s) <= 1 for s in head])
    flat = all([isinstance(s, (Const, Index, Load, Op, Store)) for s in body])
    if cheap and flat and inner.kind == "parallel":
        return rebuild([loop, *loops], (*head, *body))
    return loop._replace(body=(*sink(tuple(head)), inner))


def perfect_nest(loop: Loop) -> tuple[list[Loop], Body]:
    """The chain of loops of one kind that contain nothing but the next, and the innermost body."""
    loops = [loop]
    body = loop.body
    while len(body) == 1 and type(body[0]) is Loop and body[0].kind == loop.kind:
        loops.append(body[0])
        body = body[0].body
    return loops, body


def rebuild(loops: list[Loop], body: Body) -> Loop:
    """The nest of `loops`, outermost first, around `body`."""
    for loop in reversed(loops):
        body = (loop._replace(body=body),)
    return only_loop(body)


def sort_nests(body: Body) -> Body:
    """Order perfect nests of parallel or reduce loops by falling stride, unit stride innermost."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            loops, inner = perfect_nest(s)
            if s.kind != "serial" and len(loops) > 1:
                maps = [i for i in indices(inner)]
                loops = sorted(loops, key=lambda loop: _rank(loop, maps), reverse=True)
            s = rebuild(loops, sort_nests(inner))
        out.append(s)
    return tuple(out)


def _rank(loop: Loop, maps: list[Affine]) -> tuple[int, int]:
    """Small for axes that should be innermost: many unit strides, then small strides."""
    strides = [abs(stride_of(index, loop.axis)) for index in maps]
    return (-strides.count(1), sum([min(s, 1 << 20) for s in strides]))


def collapse(body: Body) -> Body:
    """Merge each loop with the only loop inside it where their axes run over memory as one."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            s = s._replace(body=collapse(s.body))
            inner = s.body[0] if len(s.body) == 1 else None
            if isinstance(inner, Loop) and inner.kind == s.kind and _runs_on(s, inner):
                drop = _without(s.axis)
                s = inner._replace(
                    extent=s.extent * inner.extent, body=map_indices(inner.body, drop)
                )
        out.append(s)
    return tuple(out)


def _runs_on(outer: Loop, inner: Loop) -> bool:
    return all(
        stride_of(index, outer.axis) == inner.extent * stride_of(index, inner.axis)
        for index in indices(inner.body)
    )


def _without(axis: str):
    return lambda index: Affine(index.const, tuple([t for t in index.terms if t[0] != axis]))


# --- vectors


class Plan(NamedTuple):
    """A loop with lanes chosen, and an estimate of its cycles."""

    cost: float
    loop: Loop


class Vectoriser:
    """Chooses, for each loop nest, which axis becomes the lanes of vectors.

    Two registers make a vector where they are `narrow`; loops of long formulas begin with one at a
    time, which is half of the machine code.
    """

    def __init__(self, buffers: dict[str, Buffer], body: Body, narrow: bool) -> None:
        self.buffers = buffers
        self.narrow = narrow
        self.uses: dict[str, int] = {}
        self.updating: dict[str, int] = {}
        for s in walk(body):
            if isinstance(s, (Load, Store)):
                self.uses[s.buffer] = self.uses.get(s.buffer, 0) + 1
            elif isinstance(s, Update):
                self.updating[s.acc] = self.updating.get(s.acc, 0) + 1

    def body(self, body: Body) -> Body:
        """The statements with the loops among them planned."""
        return tuple([self.plan(s).loop if isinstance(s, Loop) else s for s in body])

    def plan(self, loop: Loop) -> Plan:
        """The cheaper of vectorising this loop and vectorising inside of it."""
        if loop.lanes:
            return Plan(vector_cost(loop.body, loop.axis, loop.lanes), loop)  # a tile
        inner_loops = any([isinstance(s, Loop) for s in loop.body])
        best = self._inside(loop) if inner_loops else Plan(self._scalar(loop), loop)
        if self._may_vectorise(loop):
            lanes = self._lanes(loop)
            trips = -(-loop.extent // lanes)
            cost = trips * (vector_cost(loop.body, loop.axis, lanes) + 1)
            if not inner_loops and loop.kind == "reduce":
                cost += 2 * lanes.bit_length()
            if lanes > 1 and cost < best.cost:
                best = Plan(cost, loop._replace(lanes=lanes))
        return best

    def _inside(self, loop: Loop) -> Plan:
        cost, body = 0.0, []
        for s in loop.body:
            if isinstance(s, Loop):
                plan = self.plan(s)
                cost += plan.cost
                s = plan.loop
            else:
                cost += weight(s)
            body.append(s)
        return Plan((cost + 1) * loop.extent, loop._replace(body=tuple(body)))

    def _scalar(self, loop: Loop) -> float:
        return loop.extent * (sum([weight(s) for s in loop.body]) + 1)

    def _may_vectorise(self, loop: Loop) -> bool:
        if loop.kind == "serial" or loop.extent < 2:
            return False
        strides: dict[str, list[int]] = {}
        stored: set[str] = set()
        for s in walk(loop.body):
            if isinstance(s, Loop) and (s.lanes or _adds_up(s)):
                return False  # a tile inside, or one sum after the other at computed places
            if isinstance(s, (Load, Store)) and self.buffers[s.buffer].role == "scratch":
                strides.setdefault(s.buffer, []).append(stride_of(s.index, loop.axis))
                if isinstance(s, Store):
                    stored.add(s.buffer)
            elif isinstance(s, Init) and s.op == "carry" and loop.kind == "reduce":
                return False
        for name, found in strides.items():
            private = not any(found) and len(found) == self.uses[name]
            if not (all(found) or private or (name not in stored and not any(found))):
                return False
        return True

    def _lanes(self, loop: Loop) -> int:
        """As many lanes as fill a vector with the loop's widest values, but no more than needed."""
        lanes = VECTOR_BYTES // self._width(loop.body, loop.axis, set())
        if self.narrow and any([weight(s) >= LONG_OPERATION for s in walk(loop.body)]):
            lanes //= 2
        updated = [s.acc for s in walk(loop.body) if isinstance(s, Update)]
        shared = any([self.updating[acc] > 1 for acc in updated])
        while not shared and lanes >= 2 * loop.extent:
            lanes //= 2
        return lanes

    def _width(self, body: Body, axis: str, vectors: set[int]) -> int:
        """The widest itemsize among the vectors of the innermost loops, where the time goes.

        `vectors` collects the ids of values that vary with the axis.
        """
        width, inside = 1, []
        for s in body:
            if isinstance(s, Loop):
                inside.append(self._width(s.body, axis, vectors))
            elif isinstance(s, Read):
                vectors.add(s.id)
            elif isinstance(s, (Load, Op, Index)) and _varies(s, axis, vectors):
                vectors.add(s.id)
                dtype = self.buffers[s.buffer].dtype if isinstance(s, Load) else s.dtype
                width = max(width, dtype.itemsize)
        return max(inside) if inside else width


def _adds_up(loop: Loop) -> bool:
    """Whether a loop changes elements at computed places, in order."""
    return loop.kind == "serial" and any(
        [isinstance(s, Store) and s.scatter and s.mode != "set" for s in loop.body]
    )


def _varies(s: Load | Op | Index, axis: str, vectors: set[int]) -> bool:
    """Whether a value differs between the iterations of a loop, given those before that do."""
    if isinstance(s, Op):
        return not vectors.isdisjoint(s.args)
    if isinstance(s, Index):
        return stride_of(s.index, axis) != 0
    used = [v for v, _ in s.gather] + ([] if s.predicate is None else [s.predicate])
    return stride_of(s.index, axis) != 0 or not vectors.isdisjoint(used)


# --- unrolling


def unroll(body: Body, around: str = "") -> Body:
    """Set `unroll`: enough copies to fill the machine, or all of them for a small loop.

    Arguments:
        body: the statements.
        around: the kind of loop that they stand in, "serial" if one of several is.
    """
    return tuple([_unrolled(s, around) if isinstance(s, Loop) else s for s in body])


def _unrolled(loop: Loop, around: str) -> Loop:
    if not loop.body:
        return loop
    if loop.lanes > 1 and type(loop.body[0]) is Loop and loop.body[0].lanes > 1:
        return loop  # a tile
    in_order = around == "serial" or loop.kind in ("serial", "while")
    loop = loop._replace(body=unroll(loop.body, "serial" if in_order else loop.kind))
    lanes = max(loop.lanes, 1)
    size = _size(loop.body)
    if any([isinstance(s, Loop) and s.unroll * max(s.lanes, 1) < s.extent for s in loop.body]):
        return loop  # a real loop inside
    trips = loop.extent // lanes
    if _is_written_out(loop, around, size):
        copies = settled(trips)
    else:
        cycles = sum([weight(x) for x in loop.body])
        short = (loop.kind == "reduce" or _adds_up(loop)) and cycles <= 12
        copies = 4 if short else 1  # to hide latency of updates
    return loop._replace(unroll=copies if copies <= max(trips, 1) else 1)


def _is_written_out(loop: Loop, around: str, size: int) -> bool:
    """Whether a loop with a body of `size` statements has so few passes that it becomes straight
    code.

    Sizes that no vectors fill share code with their neighbours (`cpu/shared.py`), but not those of
    a state that lives in registers while a loop goes on.
    """
    lanes, inside = max(loop.lanes, 1), bool(around)
    trips = loop.extent // lanes
    few = lanes > 1 and trips <= 8 and trips * size <= UNROLL_STATEMENTS // 2
    small = trips * size <= UNROLL_STATEMENTS and (loop.kind != "parallel" or inside)
    # Of nests of short loops, as in arrays of shape (2, 2, 2, ...), the innermost ones alone.
    nested = any([isinstance(s, Loop) for s in loop.body])
    two = trips <= 2 and (not nested or trips * size <= 2 * UNROLL_STATEMENTS)
    if not ((small and (lanes == 1 or loop.kind != "parallel")) or two or few):
        return False
    if loop.extent < (SHORT_STATE if around == "serial" else LEAST):
        return True
    return inside and loop.extent % lanes == 0 and is_power_of_two(trips)


def _size(body: Body) -> int:
    """The number of statements once inner loops are unrolled."""
    return sum(
        [
            _size(s.body) * s.unroll + 2 if isinstance(s, Loop) else 1
            for s in body
            if not isinstance(s, Const)
        ]
    )


# --- several vectors at a time


def interleave(body: Body, most: int) -> Body:
    """Give loops of long formulas two or four times the lanes, `most` times at most.

    Instructions of several vectors then stand side by side.  A processor looks only some hundred
    instructions ahead, less than one formula, whose own instructions wait for one another.
    """
    counts: dict[str, int] = {}
    for s in walk(body):
        if isinstance(s, Update):
            counts[s.acc] = counts.get(s.acc, 0) + 1
    shared = frozenset([acc for acc, count in counts.items() if count > 1])
    return tuple([_interleaved(s, shared, 1, most) if isinstance(s, Loop) else s for s in body])


def _interleaved(loop: Loop, shared: frozenset[str], runs: int, most: int) -> Loop:
    """One loop that is run `runs` times; sums that several loops share keep their lanes."""
    runs *= loop.extent
    if any([isinstance(s, Loop) for s in loop.body]):
        if loop.lanes > 1:
            return loop
        inner = [s if not isinstance(s, Loop) else _interleaved(s, shared, runs, most)
                 for s in loop.body]  # fmt: skip
        return loop._replace(body=tuple(inner))
    long = any([weight(s) >= LONG_OPERATION for s in loop.body])
    tied = any([isinstance(s, Update) and s.acc in shared for s in loop.body])
    if loop.lanes < 2 or loop.unroll > 1 or not long or tied or runs < ELEMENTS_WORTH_UNROLLING:
        return loop
    short = sum([weight(s) for s in loop.body]) <= SHORT_BODY
    times = most if short and runs >= ELEMENTS_WORTH_WIDE_CODE else 2
    while times > 1 and loop.extent < 8 * times * loop.lanes:
        times //= 2
    return loop._replace(lanes=times * loop.lanes)
