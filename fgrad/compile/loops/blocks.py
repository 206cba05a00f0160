"""L5. A loop that counts, and whose steps need none of the others, takes vectors of steps.

    while:                               becomes     while:
      %k = read k                                      %k = read k
      break if not (%k < n)                            break if not (%k + 7 < n, and all places of
      store x[%k] add= f(y[%k])                                      these steps are inside)
      update k (%k + 1)                                reduce j in 8 lanes 8:
                                                         store x[j + %k] add= f(y[j + %k])
                                                       update k (%k + 8)
                                                     while:  as before, for what is left

Nothing is added up from step to step, so that all bits stay.  Indices are assumed to be inside of
their arrays, as in `sums.py`: a block of which that is not true is left to the single steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.cost import vector_cost, weight
from fgrad.compile.kernel.ir import (
    Affine,
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
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.kernel.rewrite import Body, Lines, Names, Renamer, walk
from fgrad.compile.kernel.unread import drop_unread, used_by
from fgrad.compile.loops.places import INT64, Assumed, Form, Places, are_apart

VECTORS = (4, 1)  # of a block
WON = 1.5  # times the cost of vectors is that of single steps at least
MOST_CODE = 2000  # statements of a kernel whose loops take blocks
_STRAIGHT = (Const, Index, Load, Op, Read, Update, Store, Break)
_BOOL = np.dtype(bool)
_UPWARD = {"lt": True, "le": True, "gt": False, "ge": False}  # what x op y says of x


class _Counted(NamedTuple):
    """A loop that counts.

    Arguments:
        counter: its accumulator.
        step: what that grows by.
        going: the comparisons that must hold for a step.
        places: of what it reads and writes.
        lanes: of its vectors.
    """

    counter: str
    step: int
    going: Sequence[int]
    places: Places
    lanes: int


def in_blocks(kernel: Kernel) -> Kernel:
    """The kernel of a loop with vectors where steps that are counted need none of the others."""
    found = list(walk(kernel.body))
    if not any([isinstance(s, Loop) and s.kind == "while" for s in found]):
        return kernel
    if len(found) > MOST_CODE:
        return kernel
    blocks = _Blocks(kernel)
    body = blocks.body(kernel.body)
    return drop_unread(kernel._replace(body=body)) if blocks.changed else kernel


class _Blocks:
    """The loops of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.names = Names(kernel)
        self.dtypes = {b.name: b.dtype for b in kernel.buffers}
        self.around = {s.id: s for s in walk(kernel.body) if isinstance(s, (Const, Index))}
        inside = [s for top in kernel.body if isinstance(top, Loop) for s in walk(top.body)]
        failed = {s.acc for s in kernel.body if isinstance(s, Init) and s.op in ("or", "and")}
        self.failed = failed - {s.acc for s in inside if isinstance(s, Read)}
        self.carries = {s.acc for s in walk(kernel.body) if isinstance(s, Init) and s.op == "carry"}
        self.changed = False

    def body(self, body: Body) -> Body:
        """A body with blocks before the loops that can have them."""
        out: list[Statement] = []
        for s in body:
            if not isinstance(s, Loop) or s.lanes > 1:
                out.append(s)
            elif any([isinstance(inner, Loop) for inner in s.body]):
                out.append(s._replace(body=self.body(s.body)))
            else:
                counted = self.counted(s) if s.kind == "while" else None
                if counted is not None:
                    self.changed = True
                    out += [self.block(s, counted, vectors) for vectors in VECTORS]
                out.append(s)
        return tuple(out)

    def counted(self, loop: Loop) -> _Counted | None:
        """What is known of a loop, if blocks of its steps are vectors and win."""
        body = loop.body
        if not all([isinstance(s, _STRAIGHT) for s in body]):
            return None
        updates = [s for s in body if isinstance(s, Update) and s.acc not in self.failed]
        read = {s.acc for s in body if isinstance(s, Read)}
        if len(updates) != 1 or read != {updates[0].acc} or updates[0].acc not in self.carries:
            return None
        counter = updates[0].acc
        places = Places(body, counter, self.around, assumes=True)
        grown = places.form(updates[0].value)
        if grown is None or grown.terms or grown.step != 1 or not grown.const:
            return None
        going = _going(body, places, grown.const > 0)
        stored = [s for s in body if isinstance(s, Store)]
        if going is None or not stored:
            return None
        accesses = [(s, places.place(s)) for s in body if isinstance(s, (Load, Store))]
        lanes = VECTOR_BYTES // max([self.dtypes[s.buffer].itemsize for s, _ in accesses])
        found = _Counted(counter, grown.const, going, places, lanes)
        if not are_apart(accesses, lanes) or not self.is_won(loop, found):
            return None
        return found

    def is_won(self, loop: Loop, c: _Counted) -> bool:
        """Whether vectors are faster."""
        lines: list[Statement] = []
        for s in loop.body:
            if isinstance(s, (Load, Store)):
                form = c.places.place(s)
                lines.append(s if form is None else _along(s, form, c.step))
            else:
                lines.append(s)
        single = sum([weight(s) for s in loop.body]) + 1
        vectors = vector_cost(tuple(lines), _LANE, c.lanes) + 1
        return c.lanes * single >= WON * vectors

    def block(self, loop: Loop, c: _Counted, vectors: int) -> Loop:
        """The loop over blocks of as many vectors."""
        length, lines = c.lanes * vectors, Lines(self.names)
        first = lines.read(c.counter)
        end = lines.op("add", (first, lines.number(c.step * (length - 1), INT64)), INT64)
        goes = [_Again(self, loop.body, c, end, lines).value(id) for id in c.going]
        for at in (first, end):
            again = _Again(self, loop.body, c, at, lines)
            goes += [g for a in dict.fromkeys(c.places.assumed) for g in again.holds(a)]
        holds = goes[0]
        for other in goes[1:]:
            holds = lines.op("and", (holds, other), _BOOL)
        lines.body.append(Break(lines.op("not", (holds,), _BOOL)))
        start = first if c.step > 0 else end
        lines.body.append(self.vectors(loop, c, start, length))
        moved = lines.op("add", (first, lines.number(c.step * length, INT64)), INT64)
        lines.body.append(Update(c.counter, moved))
        return Loop(self.names.name(loop.axis), 1, "while", tuple(lines.body))

    def vectors(self, loop: Loop, c: _Counted, start: int, length: int) -> Loop:
        """The steps of one block, from the lowest counter on."""
        axis, by = self.names.name(loop.axis), abs(c.step)
        lines = Lines(self.names)
        offset = lines.index(Affine(0, ((axis, by),)), INT64)
        counter = lines.op("add", (start, offset), INT64)
        copier = self.names.copier()
        for s in loop.body:
            if isinstance(s, Break) or (isinstance(s, Update) and s.acc == c.counter):
                continue
            if isinstance(s, Read):
                copier.ids[s.id] = counter
                continue
            if isinstance(s, (Load, Store)):
                s = _placed(s, c.places, axis, by, start)
            lines.body += copier.body((s,))
        return Loop(axis, length, "reduce", tuple(lines.body), c.lanes)


_LANE = "lane"


def _along(s: Load | Store, form: Form, step: int) -> Load | Store:
    """An access by the stride along the lanes alone."""
    index = Affine(0, ((_LANE, form.step * step),) if form.step else ())
    return s._replace(index=index, **{"gather" if isinstance(s, Load) else "scatter": ()})


def _placed(s: Load | Store, places: Places, axis: str, by: int, start: int) -> Load | Store:
    """An access whose place is told by the lane, and needs no predicate that is certain."""
    s = s._replace(predicate=places.uncertain(s.predicate))
    form = places.place(s)
    if form is None:
        return s
    terms = [(axis, form.step * by)] if form.step else []
    terms += [(atom, stride) for atom, stride in form.terms if isinstance(atom, str)]
    values = [(atom, stride) for atom, stride in form.terms if isinstance(atom, int)]
    values += [(start, form.step)] if form.step else []
    index, values = Affine(form.const, tuple(sorted(terms))), tuple(values)
    if isinstance(s, Load):
        return s._replace(index=index, gather=values)
    return s._replace(index=index, scatter=values)


def _going(body: Body, places: Places, grows: bool) -> list[int] | None:
    """The comparisons that hold in all steps if they do in the last one; None if the loop may end
    otherwise."""
    (stop,) = [s for s in body if isinstance(s, Break)]
    made = places.made.get(stop.value)
    if not isinstance(made, Op) or made.op != "not":
        return None
    left, found = [made.args[0]], []
    while left:
        s = places.made.get(left.pop())
        if not isinstance(s, Op):
            return None
        if s.op == "and":
            left += s.args
            continue
        if s.op not in _UPWARD:
            return None
        x, y = [places.form(a) for a in s.args]
        if x is None or y is None or bool(x.step) is bool(y.step) or not places.is_pure(s.id):
            return None
        rises = (x.step > 0) is grows if x.step else (y.step > 0) is not grows
        if rises is not _UPWARD[s.op]:
            return None
        found.append(s.id)
    return found


class _Again(Renamer):
    """What a body computes at another value of the counter, as far as it is asked for."""

    def __init__(
        self, blocks: _Blocks, body: Body, c: _Counted, counter: int, lines: Lines
    ) -> None:
        names = blocks.names
        super().__init__(lambda _: names.id(), names.name, names.name, {})
        self.made: Mapping[int, Statement] = c.places.made
        self.lines = lines
        for s in body:
            if isinstance(s, Read):
                self.ids[s.id] = counter

    def value(self, id: int) -> int:
        """A value of the body."""
        if id in self.ids or id not in self.made:
            return self.use(id)
        s = self.made[id]
        for used in used_by(s):
            self.value(used)
        self.lines.body += self.body((s,))
        return self.ids[id]

    def holds(self, a: Assumed) -> list[int]:
        """The comparisons that what is assumed consists of."""
        x, found = self.value(a.value), []
        if a.low is not None:
            found.append(self.lines.op("ge", (x, self.value(a.low)), _BOOL))
        if a.high is None:
            return found
        high = self.value(a.high)
        if not a.open:
            return [*found, self.lines.op("le", (x, high), _BOOL)]
        unsigned = self.lines.op("convert", (x,), np.dtype(np.uint64))
        return [*found, self.lines.op("lt", (unsigned, high), _BOOL)]
