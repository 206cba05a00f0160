"""L6. A piece of a kernel in its form, as the text of one LLVM function (legacy NVVM dialect).

    define void @fgrad_body(i32 %block, i32 %x, i32 %y, i8 addrspace(1)* %p0, ...)

Accumulators are memory of the thread, which LLVM turns into registers.  In a team every thread
runs the statements outside of shared loops; of these loops each thread takes its part, and what
they add up is joined at their end, in an order that is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fgrad.compile.cpu.llvm_text import FunctionText, element_type, literal
from fgrad.compile.kernel.ir import (
    Const,
    Index,
    Init,
    Leave,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import Body, identity, walk
from fgrad.compile.schedule.order import perfect_nest
from fgrad.lower_cuda.emit import team_text
from fgrad.lower_cuda.emit.access import (
    INT64,
    Axes,
    Home,
    Memory,
    Names,
    memoised,
    memory_type,
    of,
    when,
)
from fgrad.lower_cuda.emit.forms import (
    TILE,
    TILE_ROWS,
    Form,
    Piece,
    is_written_out,
    shared_loops,
    trips_of,
)
from fgrad.lower_cuda.emit.hazards import Hazards
from fgrad.lower_cuda.emit.homes import Homes, homes_of
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA
from fgrad.lower_cuda.emit.team import Team

_GROUP = "group"  # the axis of the groups of a lane; no axis of a kernel has this name


class Accumulator(NamedTuple):
    """Memory of the thread that holds a value, for each iteration of a tile that it is made in."""

    pointers: tuple[str, ...]
    op: str
    dtype: np.dtype


class BodyText(NamedTuple):
    """The text of a body, and the bytes of scratch memory that all its teams need, by area."""

    text: str
    scratch: tuple[int, ...]


def emit_body(piece: Piece, form: Form) -> BodyText:
    """The text of a piece in its form."""
    return _Emitter(piece, form).emit()


class _Emitter:
    """Writes one body."""

    def __init__(self, piece: Piece, form: Form) -> None:
        self.piece, self.form = piece, form
        self.text = FunctionText()
        self.homes = homes_of(piece, form)
        self.axes = Axes(self.text, _is_wide(piece, form, self.homes))
        self.allocas: list[str] = []
        self.values: dict[int, Names] = {}
        self.products: dict[int, list[Names]] = {}  # factors, by the id of their product
        self.accumulators: dict[str, Accumulator] = {}
        self.shared = {id(loop) for loop in shared_loops(piece.body)} if form.team > 1 else set()
        self.team = Team(self.text, form.team)
        self.memory = Memory(self.text, self.axes, {}, piece.atomic)
        self.hazards = Hazards(piece, self.homes.private | self.homes.own)
        self.within = form.team == 1  # whether this is the text of one thread alone
        self.tiles: dict[int, Home] = {}  # of loads that were made before, in shared memory

    # --- the function

    def emit(self) -> BodyText:
        """All of it."""
        text, form = self.text, self.form
        number = self._item()
        if form.crossed:
            self._tile(number)
        elif form.groups % form.per_block:
            some = self._compare("slt", number, form.groups)
            when(text, some, lambda: self._items(number))
        else:
            self._items(number)
        text.line("ret void")
        head = f"define void @fgrad_body({', '.join(self._parameters())}) {{\nentry:\n"
        body = "\n".join([*self.allocas, *text.lines])
        lines = [*self.homes.globals, *sorted(text.declarations)]
        return BodyText("\n".join([*lines, head + body, "}", ""]), self.homes.scratch)

    def _parameters(self) -> list[str]:
        count = self.homes.pointers
        return [
            "i32 %block", "i32 %x", "i32 %y",
            *[f"i8 addrspace(1)* %p{k}" for k in range(count)],
        ]  # fmt: skip

    def _item(self) -> str:
        """The number of this thread's group, or of its team."""
        form, axes = self.form, self.axes
        block = axes.thread("%block")
        if form.per_block == 1:
            return block
        number = axes.op("mul", block, str(form.per_block))
        return axes.op("add", number, axes.thread("%x" if form.team == 1 else "%y"))

    def _compare(self, predicate: str, a: str, b: int | str) -> str:
        return self.text.emit(f"icmp {predicate} {self.axes.type} {a}, {b}")

    def _items(self, number: str) -> None:
        """Everything that one thread or one team does."""
        self.memory.homes = self.homes.bind(self.text, self.axes, number, self._alloca)
        form, piece = self.form, self.piece
        sizes = form.tile if form.team == 1 else {}
        last = self._open_items(number, sizes)
        self.body(piece.before)
        if not sizes or last is None:
            self.body(piece.body)
        elif form.axes[-1][1] % form.vector == 0:
            self._neighbours(sizes)
        else:
            self._ragged(last, sizes)

    def _open_items(self, number: str, sizes: dict[str, int]) -> str | None:
        """Give the axes of the items their values; returns the last one's."""
        value, axes = number, self.form.axes
        for k, (axis, extent) in reversed(list(enumerate(axes))):
            size = sizes.get(axis, 1)
            groups = -(-extent // size)
            value, place = self._divided(value, groups) if k else (value, value)
            if size > 1:
                place = self.axes.op("mul", place, str(size))
            self.axes.values[axis] = place
        return str(self.axes.values[axes[-1][0]]) if axes else None

    def _divided(self, value: str, by: int) -> tuple[str, str]:
        """The quotient and the remainder."""
        return self.axes.op("udiv", value, str(by)), self.axes.op("urem", value, str(by))

    def _neighbours(self, sizes: dict[str, int]) -> None:
        """One tile of iterations, side by side."""
        self.axes.set_tile(sizes)
        self.body(self.piece.body)
        self.axes.set_tile({})

    def _ragged(self, first: str, sizes: dict[str, int]) -> None:
        """Whole groups at once; the elements of the last group one by one."""
        axis, extent = self.form.axes[-1]
        end = self.axes.op("add", first, str(self.form.vector))
        self._either(
            self._compare("sle", end, extent),
            lambda: self._neighbours(sizes),
            lambda: self._loop(axis, first, str(extent), 1, lambda: self.body(self.piece.body)),
        )

    # --- tiles

    def _tile(self, number: str) -> None:
        """What lies across in memory is read along it first, by all threads of a block."""
        self.memory.homes = self.homes.bind(self.text, self.axes, number, self._alloca)
        *others, (a, rows), (b, columns) = self.form.axes
        number, column = self._divided(number, -(-columns // TILE))
        number, row = self._divided(number, -(-rows // TILE))
        for k, (axis, extent) in reversed(list(enumerate(others))):
            number, place = self._divided(number, extent) if k else (number, number)
            self.axes.values[axis] = place
        row, column = [self.axes.op("mul", x, str(TILE)) for x in (row, column)]
        self.body(self.piece.before)
        loads = [s for s in self.piece.body if isinstance(s, Load) and s.id in self.form.crossed]
        shared = {s.id: self._square(s) for s in loads}
        self._square_rows(
            (b, column, columns), (a, row, rows), lambda at: self._read(loads, shared, at)
        )
        team_text.barrier(self.text)
        self.tiles = shared
        self._square_rows((a, row, rows), (b, column, columns), self._run)

    def _square(self, s: Load) -> Home:
        """Shared memory for a tile, whose rows are one longer so that columns lie in all banks."""
        dtype = self.homes.dtypes[s.id]
        kind, name, count = memory_type(dtype), f"tile_{s.id}", TILE * (TILE + 1)
        team_text.shared_array(self.text, name, kind, count)
        return Home(team_text.shared_place(self.text, name, kind, count, "0"), dtype, count, 3)

    def _square_rows(
        self, outer: tuple[str, str, int], inner: tuple[str, str, int], inside: Callable[..., None]
    ) -> None:
        """This thread's elements of a tile: `inner` runs along x, `outer` from y on in steps."""
        x, y = self.axes.thread("%x"), self.axes.thread("%y")
        place = self.axes.op("add", inner[1], x)
        some = self._compare("slt", place, inner[2])

        def rows() -> None:
            for k in range(0, TILE, TILE_ROWS):
                row = self.axes.op("add", y, str(k))
                at = self.axes.op("add", outer[1], row)
                self.axes.values[inner[0]], self.axes.values[outer[0]] = place, at
                when(
                    self.text, self._compare("slt", at, outer[2]), lambda row=row: inside((row, x))
                )

        when(self.text, some, rows)

    def _read(self, loads: Sequence[Load], shared: dict[int, Home], at: tuple[str, str]) -> None:
        row, column = at
        index = self.axes.op("add", self.axes.op("mul", row, str(TILE + 1)), column)
        for s in loads:
            self.memory.write(shared[s.id], index, self.memory.load(s, self.values)[0])

    def _run(self, at: tuple[str, str]) -> None:
        row, column = at
        index = self.axes.op("add", self.axes.op("mul", column, str(TILE + 1)), row)
        for id, home in self.tiles.items():
            self.values[id] = (self.memory.read(home, index),)
        self.body(self.piece.body)

    # --- blocks of code

    def _alloca(self, kind: str, count: int) -> str:
        """Memory of the thread."""
        name = self.text.fresh("m")
        self.allocas.append(f"  {name} = alloca {kind}, i32 {count}")
        return name

    def _either(self, condition: str, then: Callable[[], None], other: Callable[[], None]) -> None:
        text = self.text
        yes, no, after = [text.fresh(stem)[1:] for stem in ("then", "else", "end")]
        text.line(f"br i1 {condition}, label %{yes}, label %{no}")
        for label, block in ((yes, then), (no, other)):
            text.label(label)
            block()
            text.line(f"br label %{after}")
        text.label(after)

    def _loop(
        self, axis: str, start: str, stop: str, step: int, inside: Callable[[], None]
    ) -> None:
        """for axis in range(start, stop, step): inside()"""
        text, kind = self.text, self.axes.type
        counter = self._alloca(kind, 1)
        head, run, after = [text.fresh(stem)[1:] for stem in ("loop", "do", "end")]
        text.line(f"store {kind} {start}, {kind}* {counter}")
        text.line(f"br label %{head}")
        text.label(head)
        value = text.emit(f"load {kind}, {kind}* {counter}")
        more = self._compare("slt", value, stop)
        text.line(f"br i1 {more}, label %{run}, label %{after}")
        text.label(run)
        self.axes.values[axis] = value
        inside()
        following = self.axes.op("add", value, str(step))
        text.line(f"store {kind} {following}, {kind}* {counter}")
        text.line(f"br label %{head}")
        text.label(after)

    # --- statements

    def body(self, body: Body) -> None:
        """Statements in order."""
        for s in body:
            _EMIT[type(s)](self, s)

    def const(self, s: Const) -> None:
        """A literal; no instruction."""
        self.values[s.id] = (literal(s.value, s.dtype),)

    def index(self, s: Index) -> None:
        """The value of an affine map, as a number."""
        copies = range(self.axes.copies if self.axes.varies(s.index) else 1)
        convert = SCALAR_CUDA["convert"]
        names = [self.axes.widened(self.axes.affine(s.index, k)) for k in copies]
        if s.dtype != INT64:
            names = [convert(self.text, [name], INT64, s.dtype) for name in names]
        self.values[s.id] = tuple(names)

    def load(self, s: Load) -> None:
        """Memory read, unless it has been."""
        if s.id in self.tiles:
            return
        self._before(s)
        self.values[s.id] = self.memory.load(s, self.values)

    def op(self, s: Op) -> None:
        """A scalar operation, once for each iteration of a tile if they differ."""
        args = [self.values[a] for a in s.args]
        dtype = self.dtypes.get(s.args[-1], s.dtype)
        row = SCALAR_CUDA[s.op]
        if s.op == "mul" and s.dtype.kind == "f":
            self.products[s.id] = args
        each = [tuple([of(a, k) for a in args]) for k in range(max(map(len, args)))]
        self.values[s.id] = tuple(memoised(each, lambda k: row(self.text, each[k], dtype, s.dtype)))

    @property
    def dtypes(self) -> dict[int, np.dtype]:
        """The dtype of every value of the piece."""
        return self.homes.dtypes

    def init(self, s: Init) -> None:
        """A new accumulator."""
        kind, copies = element_type(s.dtype), range(self.axes.copies)
        pointers = tuple([self._alloca(kind, 1) for _ in copies])
        self.accumulators[s.acc] = Accumulator(pointers, s.op, s.dtype)
        start = (literal(s.start, s.dtype),) if not isinstance(s.start, Ref) else None
        for k in copies:
            self._set(s.acc, of(start or self.values[s.start.id], k), k)  # type: ignore[union-attr]

    def _get(self, name: str, copy: int = 0) -> str:
        pointers, _, dtype = self.accumulators[name]
        kind = element_type(dtype)
        return self.text.emit(f"load {kind}, {kind}* {of(pointers, copy)}")

    def _set(self, name: str, value: str, copy: int = 0) -> None:
        pointers, _, dtype = self.accumulators[name]
        kind = element_type(dtype)
        self.text.line(f"store {kind} {value}, {kind}* {of(pointers, copy)}")

    def read(self, s: Read) -> None:
        """The accumulator's value now."""
        copies = range(len(self.accumulators[s.acc].pointers))
        self.values[s.id] = tuple([self._get(s.acc, k) for k in copies])

    def update(self, s: Update) -> None:
        """Contributions to an accumulator, one iteration after the other.

        A product that is added is rounded once; only here: an element that two kernels compute must
        have the same bits in both, or `x == max(x)` fails.
        """
        _, op, dtype = self.accumulators[s.acc]
        factors = self.products.get(s.value) if op == "add" else None
        terms = [self.values[s.value]] if factors is None else factors
        for k in range(self.axes.copies):
            values = [of(x, k) for x in terms]
            if factors is not None:
                row = SCALAR_CUDA["muladd"]
                value = row(self.text, [*values, self._get(s.acc, k)], dtype, dtype)
            elif op == "carry":
                value = values[0]
            else:
                value = self.join(op, dtype, self._get(s.acc, k), values[0])
            self._set(s.acc, value, k)

    def join(self, op: str, dtype: np.dtype, a: str, b: str) -> str:
        """One step of an accumulator."""
        return SCALAR_CUDA[op](self.text, [a, b], dtype, dtype)

    def store(self, s: Store) -> None:
        """Memory written; by the first thread, where all of a team would."""
        self._before(s)
        if self.within:
            self.memory.store(s, self.values)
            return
        when(self.text, self.team.is_first(), lambda: self.memory.store(s, self.values))

    def _before(self, s: Statement) -> None:
        """Wait for the other threads of the team, if this touches what they touched."""
        if not self.within and self.hazards.meets((s,)):
            self.team.barrier()

    # --- loops

    def loop(self, loop: Loop) -> None:
        """A loop of a thread, a shared loop, or one that all threads of a team run."""
        if loop.kind == "while":
            self._while(loop)
        elif id(loop) in self.shared and not self.within:
            self._share(loop)
        else:
            inside = self._body_of(loop)
            self._loop(loop.axis, "0", str(loop.extent), 1, inside)

    def _body_of(self, loop: Loop) -> Callable[[], None]:
        def inside() -> None:
            self.team.loops += 1
            self.body(loop.body)
            self._settle()
            self.team.loops -= 1

        return inside

    def _settle(self) -> None:
        """The next iteration begins when all threads have ended this one."""
        if not self.within and self.hazards.settle():
            self.team.barrier()

    def _while(self, loop: Loop) -> None:
        text = self.text
        head, run, after = [text.fresh(stem)[1:] for stem in ("while", "do", "end")]
        text.line(f"br label %{head}")
        text.label(head)
        self.axes.values[loop.axis] = 0
        self.team.loops += 1
        for s in loop.body:
            if isinstance(s, Leave):
                self._settle()
                done = self.values[s.value][0]
                text.line(f"br i1 {done}, label %{after}, label %{run}")
                text.label(run)
            else:
                _EMIT[type(s)](self, s)
        self._settle()
        self.team.loops -= 1
        text.line(f"br label %{head}")
        text.label(after)

    # --- shared loops

    def _share(self, loop: Loop) -> None:
        """Each thread's part of a loop, then the joined sums."""
        if self.hazards.meets((loop,)):
            self.team.barrier()
        inner = {s.acc for s in walk(loop.body) if isinstance(s, Init)}
        updated = [s.acc for s in walk(loop.body) if isinstance(s, Update)]
        sums = [acc for acc in dict.fromkeys(updated) if acc not in inner]
        before = {acc: self._get(acc) for acc in sums}
        for acc in sums:
            _, op, dtype = self.accumulators[acc]
            self._set(acc, literal(identity(op, dtype), dtype))
        self.within = True
        self._parts(loop)
        self.within = False
        for acc in sums:
            _, op, dtype = self.accumulators[acc]
            total = self.team.fold(self._get(acc), dtype, partial(self.join, op, dtype))
            self._set(acc, self.join(op, dtype, before[acc], total))

    def _parts(self, loop: Loop) -> None:
        """Groups of `vector` neighbours, one for each thread in turn."""
        nest, body = perfect_nest(loop)
        form, vector = self.form, self.form.vector
        extent = math.prod([x.extent for x in nest])
        step = form.team * vector
        lane = self.axes.thread("%x")
        first = lane if vector == 1 else self.axes.op("mul", lane, str(vector))
        inside = self._group(nest, body)
        if not is_written_out(loop, form):
            self._loop(
                "", first, str(extent), step, lambda: inside(str(self.axes.values[""]), None)
            )
            return
        for trip in range(trips_of(loop, form)):
            at = first if trip == 0 else self.axes.op("add", first, str(trip * step))
            if (trip + 1) * step <= extent:
                inside(at, trip)
            else:
                some = self._compare("slt", at, extent)
                when(self.text, some, lambda a=at, t=trip: inside(a, t))

    def _group(self, nest: Sequence[Loop], body: Body) -> Callable[..., None]:
        def inside(at: Any, slot: int | None = None) -> None:
            axes = self.axes
            rest = at
            for k in range(len(nest) - 1, -1, -1):
                extent = str(nest[k].extent)
                axes.values[nest[k].axis] = axes.op("urem", rest, extent) if k else rest
                rest = axes.op("udiv", rest, extent) if k else rest
            axes.set_tile({nest[-1].axis: self.form.vector})
            axes.slot = slot
            self.body(body)
            axes.set_tile({})
            axes.slot = None

        return inside


_EMIT: dict[type, Callable[[_Emitter, Any], None]] = {
    Const: _Emitter.const,
    Index: _Emitter.index,
    Load: _Emitter.load,
    Op: _Emitter.op,
    Read: _Emitter.read,
    Init: _Emitter.init,
    Update: _Emitter.update,
    Store: _Emitter.store,
    Loop: _Emitter.loop,
}


def _is_wide(piece: Piece, form: Form, homes: Homes) -> bool:
    """Whether indices need 64 bits."""
    sizes = [*[b.size for b in piece.kernel.buffers], *homes.scratch]
    extents = dict(piece.axes)
    statements = (*walk(piece.before), *walk(piece.body))
    for s in statements:
        if isinstance(s, Loop):
            extents[s.axis] = max(s.extent, extents.get(s.axis, 0))
    numbers = [
        abs(s.index.const) + sum([abs(n) * (extents[axis] - 1) for axis, n in s.index.terms])
        for s in statements
        if isinstance(s, Index)
    ]
    threads = form.groups * max(form.vector, form.team)
    return max([*sizes, *numbers, threads]) >= 1 << 30
