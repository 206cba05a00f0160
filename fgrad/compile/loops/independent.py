"""L5. Loops in order whose steps need none of the others are vectors.

    serial i in n:                      becomes     reduce i in n lanes 8:  the same
      %1 = load s[i];  %2 = load b[%1]
      store out[i] %2;  update failed (%1 out of bounds)

    serial j in n:                      becomes     reduce j in n lanes 8:
      serial k in m:                      serial k in m:
        store y[k, j] sum= c * x[i, k]      store y[k, j] sum= c * x[i, k]
        store y[i, k] sum= c * x[k, j]      store y[i, k] sum= the sum of the lanes

    serial i in n:                      becomes     reduce i in n lanes 8:  the same
      acc s = carry 0.0                   the steps of each lane stay in order
      serial k in m:  update s (s + x[k] * y[k, i])
      store out[i] s

A step needs none of the others if no two of a vector read or write one element that one of them
writes (`places.py`), and if it adds to accumulators that any order gives the same bits: what has
failed, and integers.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.compile.kernel.cost import body_cost, vector_cost, weight
from fgrad.compile.kernel.ir import (
    Break,
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
from fgrad.compile.kernel.machine import LATENCY_CYCLES, VECTOR_BYTES, WHILE_TURNS
from fgrad.compile.kernel.rewrite import (
    Body,
    added_in_order,
    has_sums,
    map_indices,
    stride_of,
    substitute,
    walk,
)
from fgrad.compile.kernel.unread import used_by
from fgrad.compile.loops.places import Access, Form, Places, are_apart

FEWEST_VECTORS = 2  # of a loop
PARTS = 2  # vectors at a time, where the latency of a load is to be hidden
MOST_PARTS = 4  # the same of a loop with loops in it
WON = 1.5  # times the cost of vectors is that of single steps at least
MOST_INNER = 300  # statements of a loop with loops in it
_STRAIGHT = (Const, Index, Load, Op, Update, Store)
_NESTED = (*_STRAIGHT, Init, Read, Break, Loop)


def independent_steps(kernel: Kernel) -> Kernel:
    """The kernel of a loop with vectors where steps need none of the others."""
    body = kernel.body
    if any([isinstance(s, Loop) and s.kind == "serial" for s in walk(body)]):
        body = _Steps(kernel).body(body, ())
    return kernel._replace(body=added_in_order(body))


class _Steps:
    """The loops of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.scratch = {b.name for b in kernel.buffers if b.role == "scratch"}
        self.dtypes = {b.name: b.dtype for b in kernel.buffers}
        self.around = {s.id: s for s in walk(kernel.body) if isinstance(s, (Const, Index))}
        # Those that are read after all loops, whatever the order of what was added.
        self.accs = {
            s.acc
            for s in kernel.body
            if isinstance(s, Init) and (s.op in ("or", "and") or _is_exact(s))
        }
        inside = [s for top in kernel.body if isinstance(top, Loop) for s in walk(top.body)]
        self.accs -= {s.acc for s in inside if isinstance(s, Read)}

    def body(self, body: Body, around: tuple[Loop, ...]) -> Body:
        """A body with its innermost loops as vectors."""
        return tuple([self.loop(s, around) if isinstance(s, Loop) else s for s in body])

    def loop(self, loop: Loop, around: tuple[Loop, ...]) -> Loop:
        """A loop, or what is in it, as vectors."""
        nested = any([isinstance(s, Loop) for s in loop.body])
        inner = loop
        if nested:
            inner = loop._replace(body=self.body(loop.body, (*around, loop)))
            made = tuple([s for s in walk(inner.body) if isinstance(s, Loop) and s.lanes > 1])
            if made and not has_sums(made):
                return inner
        in_order = all([s.kind in ("serial", "while") and s.lanes < 2 for s in (*around, loop)])
        lanes = self.lanes(loop.body)
        if not in_order or loop.kind != "serial" or loop.extent < FEWEST_VECTORS * lanes:
            return inner
        if loop.lanes > 1 or not (self.is_nest(loop, lanes) if nested else self.is_straight(loop)):
            return inner
        if not _is_won(loop, inner, lanes):
            return inner
        loop = _upwards(loop)
        if nested:
            return loop._replace(kind="reduce", lanes=lanes * _parts(loop, lanes))
        unroll = PARTS if loop.extent >= FEWEST_VECTORS * PARTS * lanes else 1
        return loop._replace(kind="reduce", lanes=lanes, unroll=unroll)

    def lanes(self, body: Body) -> int:
        """The elements of a vector of the widest numbers that meet memory."""
        names = [s.buffer for s in walk(body) if isinstance(s, (Load, Store))]
        return VECTOR_BYTES // max([self.dtypes[name].itemsize for name in names], default=8)

    def is_straight(self, loop: Loop) -> bool:
        """Whether the loop is a straight line, of which no step needs another."""
        if not all([isinstance(s, _STRAIGHT) for s in loop.body]):
            return False
        if any([isinstance(s, Update) and s.acc not in self.accs for s in loop.body]):
            return False
        return self.is_apart(loop, (), self.lanes(loop.body))

    def is_nest(self, loop: Loop, lanes: int) -> bool:
        """Whether no step needs another, and the loops in each are as long as those in others."""
        body = list(walk(loop.body))
        if len(body) > MOST_INNER or not all([isinstance(s, _NESTED) for s in body]):
            return False
        own = {s.acc for s in body if isinstance(s, Init)}
        if any([isinstance(s, Update) and s.acc not in own | self.accs for s in body]):
            return False
        if any([isinstance(s, Read) and s.acc not in own for s in body]):
            return False
        if not _of_lanes(loop.axis, body).isdisjoint([
            s.value for s in body if isinstance(s, Break)
        ]):  # fmt: skip
            return False
        inner = tuple([s.axis for s in body if isinstance(s, Loop)])
        return self.is_apart(loop, inner, lanes * MOST_PARTS)

    def is_apart(self, loop: Loop, inner: tuple[str, ...], lanes: int) -> bool:
        """Whether no two steps of a vector meet in memory."""
        places = Places(walk(loop.body), loop.axis, self.around, inner)
        found = [(s, places.place(s)) for s in walk(loop.body) if isinstance(s, (Load, Store))]
        sums = self.sums(loop, found)
        found = [(s, form) for s, form in found if s.buffer not in sums]
        if any([s.buffer in self.scratch and not _walks(s, loop.axis) for s, _ in found]):
            return False  # each lane would have a copy of its own
        return are_apart(found, min(lanes, loop.extent), inner)

    def sums(self, loop: Loop, found: Sequence[tuple[Access, Form | None]]) -> set[str]:
        """The buffers to which steps add alone, in any order: each statement to elements that
        differ from step to step, or to one for all, which takes the sum of the lanes."""
        sums = {s.buffer for s, _ in found} & {b for b, d in self.dtypes.items() if d.kind in "fi"}
        moved = _of_lanes(loop.axis, list(walk(loop.body)))
        for s, form in found:
            if isinstance(s, Load) or s.mode != "sum" or form is None:
                sums.discard(s.buffer)
            elif not form.step:
                along = any([axis == loop.axis for axis, _ in s.index.terms])
                if along or not moved.isdisjoint([id for id, _ in s.scatter]):
                    sums.discard(s.buffer)
        return sums


def _walks(s: Access, axis: str) -> bool:
    """Whether the elements of a vector follow each other in memory."""
    computed = s.gather if isinstance(s, Load) else s.scatter
    return not computed and abs(stride_of(s.index, axis)) == 1


def _upwards(loop: Loop) -> Loop:
    """A loop whose steps may have any order, from its end if most of memory is walked downwards:
    a vector from the last to the first element is turned around at each access."""
    moves = [s.index for s in walk(loop.body) if isinstance(s, (Load, Store))]
    strides = [stride_of(index, loop.axis) for index in moves]
    if strides.count(-1) <= strides.count(1):
        return loop
    last, back = loop.extent - 1, ((loop.axis, -1),)
    body = map_indices(loop.body, lambda index: substitute(index, loop.axis, last, back))
    return loop._replace(body=body)


def _of_lanes(axis: str, body: list[Statement]) -> set[int]:
    """The values that differ from step to step of an axis, directly or through accumulators."""
    found: set[int] = set()
    accs: set[str] = set()
    while True:
        before = len(found) + len(accs)
        for s in body:
            if isinstance(s, (Init, Update)) and not found.isdisjoint(used_by(s)):
                accs.add(s.acc)
            elif isinstance(s, Read) and s.acc in accs:
                found.add(s.id)
            elif isinstance(s, (Load, Index, Op)):
                moves = not isinstance(s, Op) and any([a == axis for a, _ in s.index.terms])
                if moves or not found.isdisjoint(used_by(s)):
                    found.add(s.id)
        if len(found) + len(accs) == before:
            return found


def _is_exact(s: Init) -> bool:
    """Whether a sum, or an extreme, has the same bits in any order."""
    return s.op in ("add", "mul", "max", "min") and s.dtype.kind in "iu"


def _single_cost(body: Body) -> float:
    """The cycles of single steps."""
    cost = 0.0
    for s in body:
        if isinstance(s, Loop):
            turns = WHILE_TURNS if s.kind == "while" else s.extent
            cost += turns * (_single_cost(s.body) + 1)
        else:
            cost += weight(s)
    return cost


def _is_won(loop: Loop, inner: Loop, lanes: int) -> bool:
    """Whether vectors are faster than single steps, and than vectors in each step."""
    vectors = vector_cost(loop.body, loop.axis, lanes) + 1
    single = lanes * (_single_cost(loop.body) + 1)
    return single >= WON * vectors and lanes * (body_cost(inner.body) + 1) >= vectors


def _parts(loop: Loop, lanes: int) -> int:
    """How many vectors at a time hide best how long each step of an inner loop waits."""

    def cycles(parts: int) -> float:
        (inner, *_) = [s for s in walk(loop.body) if isinstance(s, Loop)]
        each = vector_cost(inner.body, loop.axis, lanes)
        return -(-loop.extent // (lanes * parts)) * max(LATENCY_CYCLES, parts * each)

    return min((4, 2, 1), key=cycles)
