"""L6. Assign the buffers of a piece to global memory, shared memory, or registers.

b1: scratch f32[1024] of a row, of which each lane writes and reads only its own elements
    -> registers of the lanes
another scratch buffer of a team -> shared memory, if it fits, else an area in global memory
a small scratch buffer of one thread -> its registers
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Buffer, Const, Index, Init, Load, Loop, Op, Read, Store
from fgrad.compile.kernel.rewrite import Body, walk
from fgrad.compile.llvm.text import memory_type
from fgrad.compile.schedule.order import perfect_nest
from fgrad.lower_cuda.emit.access import Axes, Home
from fgrad.lower_cuda.emit.forms import Form, Piece, is_written_out, shared_loops, trips_of
from fgrad.lower_cuda.emit.machine import SHARED_BYTES, THREAD_BYTES
from fgrad.lower_cuda.emit.text import BodyText

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
        teams = self.form.grid * self.form.per_block
        return teams * self.form.team if self._is_of_threads(buffer) else teams

    def _is_of_threads(self, buffer: Buffer) -> bool:
        """Whether each thread of a team has its own copy."""
        return self.form.team > 1 and buffer.name in self.own

    def bind(self, text: BodyText, axes: Axes, number: str) -> dict[str, Home]:
        """The homes of the team or thread of this number."""
        in_global = [*self.given, *self.areas]
        found = {}
        for k, b in enumerate(in_global):
            found[b.name] = Home(text.pointer(k, memory_type(b.dtype)), b.dtype, b.size)
        for b in self.areas:
            copy = number
            if self._is_of_threads(b):
                team = axes.op("mul", number, self.form.team)
                copy = axes.op("add", team, axes.thread("%x"))
            found[b.name] = _moved(text, axes, found[b.name], copy)
        for b in self.buffers:
            kind = self.kinds.get(b.name)
            if kind == "shared":
                found[b.name] = self._in_shared(text, axes, b)
            elif kind in ("lane", "thread"):
                found[b.name] = self._in_registers(text, b)
        return found

    def _in_shared(self, text: BodyText, axes: Axes, b: Buffer) -> Home:
        count = self.form.per_block * b.size
        first = text.shared(f"scratch_{b.name}", memory_type(b.dtype), count)
        home = Home(first, b.dtype, b.size)
        return home if self.form.per_block == 1 else _moved(text, axes, home, axes.thread("%y"))

    def _in_registers(self, text: BodyText, b: Buffer) -> Home:
        of_lanes = b.name in self.lanes
        count = self.lanes[b.name] * self.form.vector if of_lanes else b.size
        return Home(text.private(memory_type(b.dtype), count), b.dtype, count, of_lanes)


def _moved(text: BodyText, axes: Axes, home: Home, number: str) -> Home:
    """The home `number` times the buffer's size further on."""
    return home._replace(first=text.at(home.first, axes.op("mul", number, home.size), axes.type))


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
    every = _accesses(piece.body, b.name)
    if len(users) != 1 or len(every) > len(_accesses(users[0].body, b.name)):
        return False
    axes = {loop.axis for loop in perfect_nest(users[0])[0]}
    return all([axes.isdisjoint([axis for axis, _ in s.index.terms]) for s in every])


def _accesses(body: Body, name: str) -> list[Load | Store]:
    return [s for s in walk(body) if isinstance(s, (Load, Store)) and s.buffer == name]


class _Use(NamedTuple):
    """How a shared loop touches a buffer, directly inside of its nest."""

    key: Key
    groups: int  # of the loop that a lane takes
    kept: bool  # whether registers could hold what a lane touches


def _private(piece: Piece, form: Form, shared: list[Loop]) -> tuple[frozenset[str], dict[str, int]]:
    """The buffers of which each lane touches its own elements only, and the scratch ones of these
    that fit into registers, with the groups of a lane."""
    items = {axis for axis, _ in piece.axes}
    found: dict[str, list[_Use]] = {}
    for loop in shared:
        nest, body = perfect_nest(loop)
        groups, written_out = trips_of(loop, form), is_written_out(loop, form)
        for s in body:
            if isinstance(s, (Load, Store)):
                kept = written_out and len(s.index.terms) <= len(nest)  # not in other loops too
                found.setdefault(s.buffer, []).append(_Use(_key(s, nest, items), groups, kept))
    count = Counter([s.buffer for s in walk(piece.body) if isinstance(s, (Load, Store))])
    private = {
        name: uses
        for name, uses in found.items()
        if len({use.key for use in uses}) == 1
        and None not in uses[0].key
        and len(uses) == count[name]
    }
    scratch = {b.name for b in piece.kernel.buffers if b.role == "scratch"}
    lanes = {
        name: uses[0].groups
        for name, uses in private.items()
        if name in scratch and all([use.kept for use in uses])
    }
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
    plain = not indirect and s.predicate is None and all([stride for _, stride in own]) and apart
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
