"""L6. Where the buffers of a piece live: global memory, shared memory, or registers of a thread.

b1: scratch f32[1024] of a row, of which each lane writes and reads only its own elements
    -> registers of the lanes
another scratch buffer of a team -> shared memory, if it fits, else an area in global memory
a small scratch buffer of one thread -> its registers
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fgrad.compile.cpu.llvm_text import FunctionText
from fgrad.compile.kernel.ir import Buffer, Const, Index, Init, Load, Loop, Op, Read, Store
from fgrad.compile.kernel.rewrite import Body, walk
from fgrad.compile.schedule.order import perfect_nest
from fgrad.lower_cuda.emit.access import Axes, Home, memory_type, pointer_type
from fgrad.lower_cuda.emit.forms import Form, Piece, is_written_out, shared_loops, trips_of

SHARED_BYTES = 40 << 10  # of a block; what reductions need comes on top
THREAD_BYTES = 512  # of scratch memory that a thread keeps in registers

Key = tuple[object, ...]


class Homes(NamedTuple):
    """The homes of a piece, and what its function needs for them."""

    buffers: tuple[Buffer, ...]
    kinds: dict[str, str]  # of scratch buffers: lane | thread | shared | area
    form: Form
    lanes: dict[str, int]  # groups of a lane, of buffers in registers of lanes
    private: frozenset[str]  # buffers of which each thread touches only its own elements
    own: frozenset[str]  # scratch buffers of one thread
    dtypes: dict[int, np.dtype]

    @property
    def given(self) -> tuple[Buffer, ...]:
        """The buffers that are arguments."""
        return tuple([b for b in self.buffers if b.role != "scratch"])

    @property
    def areas(self) -> tuple[Buffer, ...]:
        """The scratch buffers in global memory."""
        return tuple([b for b in self.buffers if self.kinds.get(b.name) == "area"])

    @property
    def pointers(self) -> int:
        """How many addresses the function takes."""
        return len(self.given) + len(self.areas)

    @property
    def scratch(self) -> tuple[int, ...]:
        """The bytes of each area."""
        return tuple([self._copies(b) * b.size * b.dtype.itemsize for b in self.areas])

    def _copies(self, buffer: Buffer) -> int:
        blocks = self.form.grid * self.form.per_block
        alone = self.form.team == 1 or buffer.name not in self.own
        return blocks if alone else blocks * self.form.team

    @property
    def globals(self) -> list[str]:
        """The declarations of shared memory."""
        return [
            f"@{_shared_name(b)} = internal addrspace(3) global "
            f"[{self.form.per_block * b.size} x {memory_type(b.dtype)}] undef, align 16"
            for b in self.buffers
            if self.kinds.get(b.name) == "shared"
        ]

    def bind(
        self, text: FunctionText, axes: Axes, number: str, alloca: Callable[[str, int], str]
    ) -> dict[str, Home]:
        """The homes of the team or thread of this number."""
        found: dict[str, Home] = {}
        areas = 0
        for k, buffer in enumerate(self.given):
            found[buffer.name] = _global(text, buffer, k)
        for buffer in self.buffers:
            kind = self.kinds.get(buffer.name)
            if kind == "area":
                home = _global(text, buffer, len(self.given) + areas)
                areas += 1
                copy = number
                if self.form.team > 1 and buffer.name in self.own:
                    team = axes.op("mul", number, str(self.form.team))
                    copy = axes.op("add", team, axes.thread("%x"))
                found[buffer.name] = _moved(text, axes, home, copy)
            elif kind == "shared":
                found[buffer.name] = self._in_shared(text, axes, buffer)
            elif kind is not None:
                count = buffer.size
                if kind == "lane":
                    count = self.lanes[buffer.name] * self.form.vector
                pointer = alloca(memory_type(buffer.dtype), count)
                found[buffer.name] = Home(pointer, buffer.dtype, count, 0, kind == "lane")
        return found

    def _in_shared(self, text: FunctionText, axes: Axes, buffer: Buffer) -> Home:
        kind = memory_type(buffer.dtype)
        array = f"[{self.form.per_block * buffer.size} x {kind}]"
        pointer = text.emit(
            f"getelementptr {array}, {array} addrspace(3)* @{_shared_name(buffer)}, i32 0, i32 0"
        )
        home = Home(pointer, buffer.dtype, buffer.size, 3)
        if self.form.per_block == 1:
            return home
        return _moved(
            text, axes, home, "%y" if axes.type == "i32" else text.emit("zext i32 %y to i64")
        )


def _shared_name(buffer: Buffer) -> str:
    return f"scratch_{buffer.name}"


def _global(text: FunctionText, buffer: Buffer, number: int) -> Home:
    kind = pointer_type(buffer.dtype, 1)
    pointer = text.emit(f"bitcast i8 addrspace(1)* %p{number} to {kind}")
    return Home(pointer, buffer.dtype, buffer.size, 1)


def _moved(text: FunctionText, axes: Axes, home: Home, number: str) -> Home:
    """The home `number` times the buffer's size further on."""
    element, kind = memory_type(home.dtype), pointer_type(home.dtype, home.space)
    offset = axes.op("mul", number, str(home.size))
    pointer = text.emit(f"getelementptr {element}, {kind} {home.pointer}, {axes.type} {offset}")
    return home._replace(pointer=pointer)


def homes_of(piece: Piece, form: Form) -> Homes:
    """The homes of a piece's buffers."""
    shared = shared_loops(piece.body) if form.team > 1 else []
    private, lanes = _private(piece, form, shared)
    own = frozenset([b.name for b in piece.kernel.buffers if _is_own(b, piece, form, shared)])
    kinds: dict[str, str] = {}
    room = SHARED_BYTES
    for b in piece.kernel.buffers:
        if b.role != "scratch":
            continue
        size = b.size * b.dtype.itemsize
        if b.name in lanes:
            kinds[b.name] = "lane"
        elif b.name in own:
            kinds[b.name] = "thread" if size <= THREAD_BYTES else "area"
        elif form.team > 1 and size * form.per_block <= room:
            kinds[b.name], room = "shared", room - size * form.per_block
        else:
            kinds[b.name] = "area"
    return Homes(piece.kernel.buffers, kinds, form, lanes, private, own, _dtypes(piece))


def _is_own(b: Buffer, piece: Piece, form: Form, shared: list[Loop]) -> bool:
    """Whether a scratch buffer is of one thread: it lives inside of one iteration of its loop."""
    if b.role != "scratch":
        return False
    if form.team == 1:
        return True
    users = [loop for loop in shared if _accesses(loop.body, b.name)]
    if len(users) != 1 or len(_accesses(piece.body, b.name)) > len(
        _accesses(users[0].body, b.name)
    ):
        return False
    nest, body = perfect_nest(users[0])
    axes = {loop.axis for loop in nest}
    inside = _accesses(body, b.name)
    return all([axes.isdisjoint([axis for axis, _ in s.index.terms]) for s in inside])


def _accesses(body: Body, name: str) -> list[Load | Store]:
    return [s for s in walk(body) if isinstance(s, (Load, Store)) and s.buffer == name]


def _private(piece: Piece, form: Form, shared: list[Loop]) -> tuple[frozenset[str], dict[str, int]]:
    """The buffers of which each lane touches its own elements only, and the scratch ones of these
    that fit into registers, with the groups of a lane."""
    keys: dict[str, set[Key]] = {}
    direct: dict[str, int] = {}
    written_out: dict[str, bool] = {}
    trips: dict[str, int] = {}
    items = {axis for axis, _ in piece.axes}
    again: set[str] = set()
    for loop in shared:
        nest, body = perfect_nest(loop)
        for s in body:
            if isinstance(s, (Load, Store)):
                direct[s.buffer] = direct.get(s.buffer, 0) + 1
                keys.setdefault(s.buffer, set()).add(_key(s, nest, items))
                if len(s.index.terms) > len(nest):  # in other loops too
                    again.add(s.buffer)
                trips[s.buffer] = trips_of(loop, form)
                fits = written_out.get(s.buffer, True)
                written_out[s.buffer] = fits and is_written_out(loop, form)
    every = [s for s in walk(piece.body) if isinstance(s, (Load, Store))]
    count: dict[str, int] = {}
    for s in every:
        count[s.buffer] = count.get(s.buffer, 0) + 1
    private = {
        name
        for name, found in keys.items()
        if len(found) == 1 and None not in next(iter(found)) and direct[name] == count[name]
    }
    scratch = {b.name for b in piece.kernel.buffers if b.role == "scratch"}
    lanes = {name: trips[name] for name in private & scratch - again if written_out[name]}
    return frozenset(private), lanes


def _key(s: Load | Store, nest: list[Loop], items: set[str]) -> Key:
    """What says which lane touches which element; with None in it if it cannot be said.

    It cannot if an element is of another lane in another turn of a loop around the nest.
    """
    indirect = s.gather if isinstance(s, Load) else s.scatter
    strides = dict(s.index.terms)
    own = [(loop.extent, strides.pop(loop.axis, 0)) for loop in nest]
    reach = sum([abs(stride) * (extent - 1) for extent, stride in own])
    turns = math.gcd(*[stride for axis, stride in strides.items() if axis not in items])
    apart = turns == 0 or turns > reach
    plain = not indirect and s.guard is None and all([stride for _, stride in own]) and apart
    return (s.index.const, *own, *sorted(strides.items()), *(() if plain else (None,)))


def _dtypes(piece: Piece) -> dict[int, np.dtype]:
    """The dtype of every value."""
    of_buffer = {b.name: b.dtype for b in piece.kernel.buffers}
    found: dict[int, np.dtype] = {}
    of_acc: dict[str, np.dtype] = {}
    for s in (*walk(piece.before), *walk(piece.body)):
        if isinstance(s, (Const, Index, Op)):
            found[s.id] = s.dtype
        elif isinstance(s, Load):
            found[s.id] = of_buffer[s.buffer]
        elif isinstance(s, Init):
            of_acc[s.acc] = s.dtype
        elif isinstance(s, Read):
            found[s.id] = of_acc[s.acc]
    return found
