"""L5. What a step of a loop in order computes without the steps before it is computed by vectors.

    serial i in n:                      becomes     serial o in n / 128:
      %1 = load s[i];  ... clip %1                    reduce i in 128 lanes 8:
      %2 = load x[%1]                                   %1 = load s[128 o + i];  ... clip %1
      store h[%1] add= f(%2)                            store places[i] %1;  store terms[i] f(%2)
                                                      serial i in 128:
                                                        store h[load places[i]] add= load terms[i]
                                                    serial i in n % 128:  as before

The order of what is written and added up stays, and so do all bits.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.named_tuple import NamedTuple
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
from fgrad.compile.kernel.machine import STRIP, VECTOR_BYTES
from fgrad.compile.kernel.rewrite import Body, Names, map_indices, substitute, walk
from fgrad.compile.kernel.unread import used_by

UNROLL = 4  # steps in order between two looks at the clock
FEWEST_STRIPS = 2
CHAIN = 8  # operations that fit beside the addition that a step waits for
MOST_BETWEEN = 6  # values of a step that wait
WON = 1.5  # times what vectors and waiting cost is what single steps cost at least
_STRAIGHT = (Const, Index, Load, Op, Read, Update, Store)


class _Parts(NamedTuple):
    """The body of a loop in two, and the values between them."""

    early: Body
    late: Body
    between: list[int]


def in_strips(kernel: Kernel) -> Kernel:
    """The kernel of a loop with what needs no step before in vectors."""
    if not any([isinstance(s, Loop) and s.kind == "serial" for s in kernel.body]):
        return kernel
    return _Strips(kernel).kernel()


class _Strips:
    """The loops of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.whole, self.names = kernel, Names(kernel)
        self.buffers = {b.name: b for b in kernel.buffers}
        self.more: list[Buffer] = []
        self.dtypes = _dtypes(kernel, self.buffers)
        inside = [s for top in kernel.body if isinstance(top, Loop) for s in walk(top.body)]
        failed = {s.acc for s in kernel.body if isinstance(s, Init) and s.op in ("or", "and")}
        self.failed = failed - {s.acc for s in inside if isinstance(s, Read)}

    def kernel(self) -> Kernel:
        """The whole kernel."""
        body = self.body(self.whole.body)
        return self.whole._replace(body=body, buffers=(*self.whole.buffers, *self.more))

    def body(self, body: Body) -> Body:
        """A body in which loops in order stand."""
        out: list[Statement] = []
        for s in body:
            if not isinstance(s, Loop) or s.kind != "serial" or s.lanes > 1:
                out.append(s)
            elif any([isinstance(inner, Loop) for inner in s.body]):
                out.append(s._replace(body=self.body(s.body)))
            else:
                out += self.loop(s)
        return tuple(out)

    def loop(self, loop: Loop) -> list[Statement]:
        """A loop in strips, or itself where nothing is won."""
        if loop.extent < FEWEST_STRIPS * STRIP:
            return [loop]
        if not all([isinstance(s, _STRAIGHT) for s in loop.body]):
            return [loop]
        parts = self.parts(loop)
        if parts is None or not self.is_won(loop, parts):
            return [loop]
        return self.strips(loop, parts)

    def parts(self, loop: Loop) -> _Parts | None:
        """What needs no step before, and the rest."""
        written = {s.buffer for s in loop.body if isinstance(s, Store)}
        late: set[int] = set()
        cheap: dict[int, Statement] = {}  # what costs as much to read again
        early: list[Statement] = []
        rest: list[Statement] = []
        for s in loop.body:
            if isinstance(s, (Const, Index)) or (isinstance(s, Load) and self.is_plain(s, written)):
                cheap[s.id] = s
                early.append(s)
                rest.append(s)
                continue
            waits = not late.isdisjoint(used_by(s)) or isinstance(s, (Read, Store))
            waits = waits or (isinstance(s, Load) and s.buffer in written)
            waits = waits or (isinstance(s, Update) and s.acc not in self.failed)
            if isinstance(s, Load) and self.buffers[s.buffer].role == "scratch":
                return None
            if waits and isinstance(s, (Load, Op, Read)):
                late.add(s.id)
            (rest if waits else early).append(s)
        made = {s.id for s in early if isinstance(s, (Load, Op))} - cheap.keys()
        read = [v for s in rest for v in used_by(s)]
        return _Parts(
            tuple(early), tuple(rest), list(dict.fromkeys([v for v in read if v in made]))
        )

    def is_plain(self, s: Load, written: set[str]) -> bool:
        """Whether a load reads elements that the loop does not write, at no computed place."""
        role = self.buffers[s.buffer].role
        return (
            not s.gather and s.predicate is None and s.buffer not in written and role != "scratch"
        )

    def is_won(self, loop: Loop, parts: _Parts) -> bool:
        """Whether vectors are faster."""
        if not parts.between or len(parts.between) > MOST_BETWEEN:
            return False
        lanes = self.lanes(parts)
        waits = any([isinstance(s, Update) for s in parts.late])
        single = sum([weight(s) for s in parts.early]) - (CHAIN if waits else 0)
        vectors = (vector_cost(parts.early, loop.axis, lanes) + len(parts.between) + 1) / lanes
        return single >= WON * (vectors + len(parts.between))

    def lanes(self, parts: _Parts) -> int:
        """The elements of a vector of the widest numbers that meet memory."""
        widths = [self.buffers[s.buffer].dtype.itemsize for s in parts.early if isinstance(s, Load)]
        widths += [self.dtypes[v].itemsize for v in parts.between]
        return VECTOR_BYTES // max(widths)

    def strips(self, loop: Loop, parts: _Parts) -> list[Statement]:
        """The strips, and the steps that are left."""
        around, first, then = [self.names.name(loop.axis) for _ in range(3)]
        count, left = divmod(loop.extent, STRIP)
        homes = {v: self.home(self.dtypes[v]) for v in parts.between}
        before = _moved(parts.early, loop.axis, 0, ((around, STRIP), (first, 1)))
        stores = [Store(homes[v], Affine(0, ((first, 1),)), v) for v in parts.between]
        lanes = self.lanes(parts)
        vectors = Loop(first, STRIP, "reduce", (*before, *stores), lanes)
        copier = self.names.copier()
        loads: list[Statement] = [
            Load(copier.fresh(v), homes[v], Affine(0, ((then, 1),))) for v in parts.between
        ]
        late = _moved(parts.late, loop.axis, 0, ((around, STRIP), (then, 1)))
        single = Loop(then, STRIP, "serial", (*loads, *copier.body(late)), unroll=UNROLL)
        out: list[Statement] = [Loop(around, count, "serial", (vectors, single))]
        if left:
            tail = self.names.name(loop.axis)
            rest = _moved(loop.body, loop.axis, count * STRIP, ((tail, 1),))
            out.append(Loop(tail, left, "serial", self.names.copy(rest)))
        return out

    def home(self, dtype: np.dtype) -> str:
        """Memory for the values of a strip."""
        name = self.names.name("strip")
        self.more.append(Buffer(name, dtype, STRIP, "scratch"))
        return name


def _moved(body: Body, axis: str, const: int, terms: tuple[tuple[str, int], ...]) -> Body:
    """The statements at another place of the loop."""
    return map_indices(body, lambda index: substitute(index, axis, const, terms))


def _dtypes(kernel: Kernel, buffers: dict[str, Buffer]) -> dict[int, np.dtype]:
    """The dtype of each value that a loop makes."""
    found: dict[int, np.dtype] = {}
    for s in walk(kernel.body):
        if isinstance(s, (Const, Index, Op)):
            found[s.id] = s.dtype
        elif isinstance(s, Load):
            found[s.id] = buffers[s.buffer].dtype
    return found
