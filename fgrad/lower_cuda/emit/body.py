"""L6. A piece of a kernel in its form, as the text of one LLVM function (legacy NVVM dialect).

    define void @fgrad_body(i32 %block, i32 %x, i32 %y, i8 addrspace(1)* %p0, ...)

Accumulators are variables, which LLVM turns into registers.  In a team every thread
runs the statements outside of shared loops; of these loops each thread takes its part, and what
they add up is joined at their end, in an order that is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import (
    Break,
    Const,
    Index,
    Init,
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
from fgrad.compile.llvm.text import element_type, literal, memory_type
from fgrad.compile.schedule.order import perfect_nest
from fgrad.ir.aval import INT64
from fgrad.lower_cuda.emit.access import Axes, Home, Memory, Names, memoised, of
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
from fgrad.lower_cuda.emit.text import BodyText


class Accumulator(NamedTuple):
    """A variable for each iteration of a tile that it is made in."""

    variables: Names
    op: str
    dtype: np.dtype


class Emitted(NamedTuple):
    """The text of a body, and the bytes of scratch memory that all its teams need, by area."""

    text: str
    scratch: tuple[int, ...]


def emit_body(piece: Piece, form: Form) -> Emitted:
    """The text of a piece in its form."""
    return _Emitter(piece, form).emit()


class _Emitter:
    """Writes one body."""

    def __init__(self, piece: Piece, form: Form) -> None:
        self.piece, self.form = piece, form
        self.text = BodyText()
        self.homes = homes_of(piece, form)
        self.axes = Axes(self.text, _is_wide(piece, form, self.homes))
        self.values: dict[int, Names] = {}
        self.products: dict[int, list[Names]] = {}  # factors, by the id of their product
        self.accumulators: dict[str, Accumulator] = {}
        self.shared = {id(loop) for loop in shared_loops(piece.body)} if form.team > 1 else set()
        self.team = Team(self.text, form.team)
        self.memory = Memory(self.text, self.axes, self.values, piece.atomic)
        self.hazards = Hazards(piece, self.homes.private | self.homes.own)
        self.within = form.team == 1  # whether this is the text of one thread alone
        self.tiles: dict[int, Home] = {}  # of loads that were made before, in shared memory

    # --- the function

    def emit(self) -> Emitted:
        """All of it."""
        form, number = self.form, self._item()
        if form.crossed:
            self._tile(number)
        elif form.groups % form.per_block:
            with self.text.when(self.axes.compare("slt", number, form.groups)):
                self._items(number)
        else:
            self._items(number)
        return Emitted(self.text.finish(self.homes.pointers), self.homes.scratch)

    def _item(self) -> str:
        """The number of this thread's group, or of its team."""
        form, axes = self.form, self.axes
        block = axes.thread("%block")
        if form.per_block == 1:
            return block
        first = axes.op("mul", block, form.per_block)
        return axes.op("add", first, axes.thread("%x" if form.team == 1 else "%y"))

    def _items(self, number: str) -> None:
        """Everything that one thread or one team does."""
        self.memory.homes = self.homes.bind(self.text, self.axes, number)
        form, piece = self.form, self.piece
        tile = form.tile if form.team == 1 else {}
        sizes = [tile.get(axis, 1) for axis, _ in form.axes]
        groups = [-(-extent // n) for n, (_, extent) in zip(sizes, form.axes, strict=True)]
        places = map(self.axes.scaled, self._digits(number, groups), sizes)
        self.axes.values |= zip([axis for axis, _ in form.axes], places, strict=True)
        self.body(piece.before)
        if not tile:
            self.body(piece.body)
        elif form.axes[-1][1] % form.vector == 0:
            self._neighbours(tile)
        else:
            self._ragged(tile)

    def _digits(self, number: str, extents: Sequence[int]) -> list[str]:
        """A number below the product of some extents as a place for each, the last the fastest."""
        digits: list[str] = []
        for extent in reversed(extents[1:]):
            rest = self.axes.op("udiv", number, extent)
            digits.insert(0, self.axes.op("urem", number, extent))
            number = rest
        return [number, *digits] if extents else []

    def _neighbours(self, tile: dict[str, int]) -> None:
        """One tile of iterations, side by side."""
        self.axes.set_tile(tile)
        self.body(self.piece.body)
        self.axes.set_tile({})

    def _ragged(self, tile: dict[str, int]) -> None:
        """Whole groups at once; the elements of the last group one by one."""
        axis, extent = self.form.axes[-1]
        first = self.axes.values[axis]
        end = self.axes.op("add", first, self.form.vector)
        with self.text.either(self.axes.compare("sle", end, extent)) as otherwise:
            self._neighbours(tile)
            otherwise()
            with self._each(axis, first, extent):
                self.body(self.piece.body)

    @contextmanager
    def _each(self, axis: str, start: str | int, stop: int, step: int = 1) -> Iterator[None]:
        """for axis in range(start, stop, step)"""
        with self.text.count(start, stop, step, self.axes.type) as value:
            self.axes.values[axis] = value
            yield

    # --- tiles

    def _tile(self, number: str) -> None:
        """What lies across in memory is read along it first, by all threads of a block."""
        self.memory.homes = self.homes.bind(self.text, self.axes, number)
        *others, (a, rows), (b, columns) = self.form.axes
        extents = [*[extent for _, extent in others], -(-rows // TILE), -(-columns // TILE)]
        *places, row, column = self._digits(number, extents)
        self.axes.values |= zip([axis for axis, _ in others], places, strict=True)
        row, column = [self.axes.scaled(x, TILE) for x in (row, column)]
        along, across = (a, row, rows), (b, column, columns)
        self.body(self.piece.before)
        loads = [s for s in self.piece.body if isinstance(s, Load) and s.id in self.form.crossed]
        self.tiles = {s.id: self._square(s) for s in loads}
        for y, x in self._square_rows(across, along):
            index = self._in_square(y, x)
            for s in loads:
                self.memory.write(self.tiles[s.id], index, self.memory.load(s)[0])
        self.text.barrier()
        for y, x in self._square_rows(along, across):
            index = self._in_square(x, y)
            for id, home in self.tiles.items():
                self.values[id] = (self.memory.read(home, index),)
            self.body(self.piece.body)

    def _square(self, s: Load) -> Home:
        """Shared memory for a tile, whose rows are one longer so that columns lie in all banks."""
        dtype, count = self.homes.dtypes[s.id], TILE * (TILE + 1)
        return Home(self.text.shared(f"tile_{s.id}", memory_type(dtype), count), dtype, count)

    def _in_square(self, row: str, column: str) -> str:
        """The index of an element of a tile."""
        return self.axes.op("add", self.axes.op("mul", row, TILE + 1), column)

    def _square_rows(
        self, outer: tuple[str, str, int], inner: tuple[str, str, int]
    ) -> Iterator[tuple[str, str]]:
        """This thread's elements of a tile, as row and column there; the loop's body writes what is
        done with one.  `inner` runs along x, `outer` from y on in steps."""
        axes = self.axes
        x, y = axes.thread("%x"), axes.thread("%y")
        place = axes.op("add", inner[1], x)
        with self.text.when(axes.compare("slt", place, inner[2])):
            for k in range(0, TILE, TILE_ROWS):
                row = axes.op("add", y, k)
                at = axes.op("add", outer[1], row)
                axes.values[inner[0]], axes.values[outer[0]] = place, at
                with self.text.when(axes.compare("slt", at, outer[2])):
                    yield row, x

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
        self.values[s.id] = self.memory.load(s)

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
        start, kind = s.start, element_type(s.dtype)
        starts = self.values[start.id] if isinstance(start, Ref) else (literal(start, s.dtype),)
        copies = range(self.axes.copies)
        variables = tuple([self.text.variable(kind, of(starts, k)) for k in copies])
        self.accumulators[s.acc] = Accumulator(variables, s.op, s.dtype)

    def _get(self, name: str, copy: int = 0) -> str:
        return self.text.get(of(self.accumulators[name].variables, copy))

    def _set(self, name: str, value: str, copy: int = 0) -> None:
        self.text.put(of(self.accumulators[name].variables, copy), value)

    def read(self, s: Read) -> None:
        """The accumulator's value now."""
        self.values[s.id] = tuple(map(self.text.get, self.accumulators[s.acc].variables))

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
        with nullcontext() if self.within else self.text.when(self.team.is_first()):
            self.memory.store(s)

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
            with self._each(loop.axis, 0, loop.extent), self._turn():
                self.body(loop.body)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One of the turns of a loop that all threads of a team run."""
        self.team.loops += 1
        yield
        self._settle()
        self.team.loops -= 1

    def _settle(self) -> None:
        """The next iteration begins when all threads have ended this one."""
        if not self.within and self.hazards.settle():
            self.team.barrier()

    def _while(self, loop: Loop) -> None:
        text = self.text
        head, run, after = text.labels("while", "do", "end")
        text.line(f"br label %{head}")
        text.label(head)
        self.axes.values[loop.axis] = 0
        with self._turn():
            for s in loop.body:
                if isinstance(s, Break):
                    self._settle()
                    text.branch(self.values[s.value][0], after, run)
                    text.label(run)
                else:
                    self.body((s,))
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
        first = self.axes.scaled(self.axes.thread("%x"), vector)
        if not is_written_out(loop, form):
            with self.text.count(first, extent, step, self.axes.type) as at:
                self._group(nest, body, at)
            return
        for trip in range(trips_of(loop, form)):
            at = self.axes.op("add", first, trip * step) if trip else first
            if (trip + 1) * step <= extent:
                self._group(nest, body, at, trip)
            else:
                with self.text.when(self.axes.compare("slt", at, extent)):
                    self._group(nest, body, at, trip)

    def _group(self, nest: Sequence[Loop], body: Body, at: str, slot: int | None = None) -> None:
        """The iterations of a nest from number `at` on, side by side."""
        axes, places = self.axes, self._digits(at, [loop.extent for loop in nest])
        axes.values |= zip([loop.axis for loop in nest], places, strict=True)
        axes.set_tile({nest[-1].axis: self.form.vector})
        axes.slot = slot
        self.body(body)
        axes.set_tile({})
        axes.slot = None


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
