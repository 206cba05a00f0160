"""L5. Loops in order whose steps need none of the others are vectors.

    serial i in n:                      becomes     reduce i in n lanes 8:  the same
      %1 = load s[i];  %2 = load b[%1]
      store out[i] %2;  update failed (%1 out of bounds)

A step needs none of the others if it reads of what the loop writes the very element that it writes
itself, and adds to accumulators that any order gives the same bits: what has failed, and integers.
"""

from __future__ import annotations

from fgrad.compile.kernel.cost import vector_cost, weight
from fgrad.compile.kernel.ir import (
    Affine,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Store,
    Update,
)
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.kernel.rewrite import Body, stride_of, walk

FEWEST_VECTORS = 2  # of a loop
PARTS = 2  # vectors at a time, where the latency of a load is to be hidden
WON = 1.5  # times the cost of vectors is that of single steps at least
_STRAIGHT = (Const, Index, Load, Op, Update, Store)


def independent_steps(kernel: Kernel) -> Kernel:
    """The kernel of a loop with vectors where steps need none of the others."""
    if not any([isinstance(s, Loop) and s.kind == "serial" for s in walk(kernel.body)]):
        return kernel
    return kernel._replace(body=_Steps(kernel).body(kernel.body, ()))


class _Steps:
    """The loops of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.scratch = {b.name for b in kernel.buffers if b.role == "scratch"}
        self.dtypes = {b.name: b.dtype for b in kernel.buffers}
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
        if any([isinstance(s, Loop) for s in loop.body]):
            return loop._replace(body=self.body(loop.body, (*around, loop)))
        in_order = all([s.kind == "serial" and s.lanes < 2 for s in (*around, loop)])
        lanes = self.lanes(loop.body)
        if not in_order or loop.lanes > 1 or loop.extent < FEWEST_VECTORS * lanes:
            return loop
        if not self.is_independent(loop) or not _is_won(loop, lanes):
            return loop
        unroll = PARTS if loop.extent >= FEWEST_VECTORS * PARTS * lanes else 1
        return loop._replace(kind="reduce", lanes=lanes, unroll=unroll)

    def lanes(self, body: Body) -> int:
        """The elements of a vector of the widest numbers that meet memory."""
        names = [s.buffer for s in body if isinstance(s, (Load, Store))]
        return VECTOR_BYTES // max([self.dtypes[name].itemsize for name in names], default=8)

    def is_independent(self, loop: Loop) -> bool:
        """Whether no step needs another."""
        stored: dict[str, Affine] = {}
        for s in loop.body:
            if not isinstance(s, _STRAIGHT) or (isinstance(s, Update) and s.acc not in self.accs):
                return False
            if isinstance(s, Store) and not self.is_apart(s, loop.axis, stored):
                return False
        loads = [s for s in loop.body if isinstance(s, Load)]
        own = all([s.buffer not in stored or _is_at(s, stored[s.buffer]) for s in loads])
        return own and self.scratch.isdisjoint([*stored, *[s.buffer for s in loads]])

    def is_apart(self, s: Store, axis: str, stored: dict[str, Affine]) -> bool:
        """Whether each step writes an element of its own, side by side."""
        first = stored.setdefault(s.buffer, s.index)
        return (
            s.mode == "set" and not s.scatter and first == s.index and stride_of(s.index, axis) == 1
        )


def _is_exact(s: Init) -> bool:
    """Whether a sum, or an extreme, has the same bits in any order."""
    return s.op in ("add", "mul", "max", "min") and s.dtype.kind in "iu"


def _is_at(s: Load, index: Affine) -> bool:
    return s.index == index and not s.gather


def _is_won(loop: Loop, lanes: int) -> bool:
    """Whether vectors are faster."""
    single = sum([weight(s) for s in loop.body]) + 1
    return lanes * single >= WON * (vector_cost(loop.body, loop.axis, lanes) + 1)
