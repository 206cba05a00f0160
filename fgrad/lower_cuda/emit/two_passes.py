"""L6. Long reductions to few numbers as two kernels, so that the whole device works on them.

    parallel i in 64:                     parallel i in 64:                  parallel i in 64:
      acc s = add f32 0.0                   parallel b in 312:                 acc s = add f32 0.0
      reduce j in 100000:           ->        acc s = add f32 0.0              reduce b in 312:
        update s (load x[64*j + i])           reduce j in 320: update s ...      update s part[b, i]
      store y[i] (read s)                     store part[b, i] (read s)        store y[i] (read s)

What does not fill a part is left to the second kernel.  The parts depend on the kernel alone, and
all sums are taken in an order that is always the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
    Ref,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import (
    Body,
    Names,
    identity,
    map_indices,
    part_of,
    substitute,
    walk,
)
from fgrad.compile.schedule.order import perfect_nest
from fgrad.lower_cuda.emit.forms import MOST_THREADS, Piece, ordered, runs_inside

LEAST_TERMS = 1 << 16  # of all items together, from which two kernels are better
BLOCKS = 528  # that fill a large device: four for each multiprocessor
THREADS = 1 << 16  # that do
PART_OF_BLOCK = 1 << 12  # the least terms of a part that a block adds
PART_OF_THREAD = 32  # and of one that a thread adds
WHOLE = 8  # what the size of a part is a multiple of, so that it is read in whole vectors


class Passes(NamedTuple):
    """Both kernels; `parts` are buffers that the first one writes for the second one."""

    first: Kernel
    second: Kernel
    parts: tuple[Buffer, ...]


class _Sum(NamedTuple):
    """The body of a piece taken apart."""

    before: Body
    inits: tuple[Init, ...]
    loop: Loop
    after: Body


def two_passes(piece: Piece) -> Passes | None:
    """The two kernels of a piece; None if one is as good."""
    found = _match(piece)
    if found is None:
        return None
    nest, _ = perfect_nest(found.loop)
    items = math.prod([extent for _, extent in piece.axes])
    terms = math.prod([loop.extent for loop in nest])
    long = max(nest, key=lambda loop: loop.extent)
    if runs_inside(piece, [found.loop]):
        parts = min(BLOCKS // max(items, 1), terms // PART_OF_BLOCK, long.extent)
    else:
        parts = min(THREADS // items, long.extent // PART_OF_THREAD, MOST_THREADS)
    if items * terms < LEAST_TERMS or parts < 2:
        return None
    return _Writer(piece, found, long, parts).passes()


def _match(piece: Piece) -> _Sum | None:
    loops = [s for s in piece.body if isinstance(s, Loop)]
    if len(loops) != 1 or loops[0].kind != "reduce":
        return None
    at = piece.body.index(loops[0])
    before = (*piece.before, *piece.body[:at]) if piece.axes else piece.body[:at]
    after = piece.body[at + 1 :]
    inits = tuple([s for s in before if isinstance(s, Init)])
    scalars = tuple([s for s in before if not isinstance(s, Init)])
    accs = {init.acc for init in inits}
    plain = (
        all([isinstance(s, (Const, Index, Load, Op)) for s in scalars])
        and all([isinstance(s, (Const, Index, Load, Op, Read, Store)) for s in after])
        and all([_divides(s, accs) for s in walk((loops[0],))])
        and all([s.op != "carry" and not isinstance(s.start, Ref) for s in inits])
        and all([b.role in ("in", "out") for b in piece.kernel.buffers])
    )
    return _Sum(scalars, inits, loops[0], after) if plain and inits else None


def _divides(s: Statement, accs: set[str]) -> bool:
    """Whether parts of a loop may run this statement apart from each other."""
    if isinstance(s, Loop):
        return s.kind == "reduce" and s.extent > 1
    if isinstance(s, Store):
        return s.mode == "set" and not s.scatter
    return isinstance(s, (Const, Index, Load, Op)) or (isinstance(s, Update) and s.acc in accs)


class _Writer:
    """Writes both kernels."""

    def __init__(self, piece: Piece, found: _Sum, long: Loop, parts: int) -> None:
        self.piece, self.found, self.long = piece, found, long
        size = long.extent // parts
        self.size = size // WHOLE * WHOLE if size >= WHOLE else size
        self.parts = parts = long.extent // self.size
        self.names = Names(piece.kernel)
        self.axis = self.names.name("part")
        self.items = math.prod([extent for _, extent in piece.axes])
        self.place = Affine(0, self._strides())
        self.buffers = {
            init.acc: Buffer(self.names.name("part"), init.dtype, parts * self.items, "out")
            for init in found.inits
        }

    def _strides(self) -> tuple[tuple[str, int], ...]:
        """part[b, items...]: neighbouring items are neighbours."""
        strides, step = [], 1
        for axis, extent in reversed(self.piece.axes):
            strides.append((axis, step))
            step *= extent
        return tuple(sorted([*strides, (self.axis, step)]))

    def passes(self) -> Passes:
        """Both kernels, in order."""
        parts = tuple(self.buffers.values())
        return Passes(self._kernel(self._first()), self._kernel(self._second()), parts)

    def _kernel(self, body: Body) -> Kernel:
        for axis, extent in reversed(self.piece.axes):
            body = (Loop(axis, extent, "parallel", body),)
        return ordered(part_of(self.piece.kernel, body, self.buffers.values()))

    def _of_size(self, extent: int, const: int, terms: tuple[tuple[str, int], ...]) -> Loop:
        """The reduction over a range of its long axis."""
        axis = self.long.axis
        (loop,) = map_indices(
            (_resized(self.found.loop, axis, extent),),
            lambda index: substitute(index, axis, const, (*terms, (axis, 1))),
        )
        assert isinstance(loop, Loop)
        return loop

    def _first(self) -> Body:
        """parallel part: reduce it, store it."""
        starts = [s._replace(start=identity(s.op, s.dtype)) for s in self.found.inits]
        body: list[Statement] = [*self.found.before, *starts]
        body.append(self._of_size(self.size, 0, ((self.axis, self.size),)))
        for init in self.found.inits:
            read = Read(self.names.id(), init.acc)
            body += [read, Store(self.buffers[init.acc].name, self.place, read.id)]
        return (Loop(self.axis, self.parts, "parallel", tuple(body)),)

    def _second(self) -> Body:
        """Reduce what the parts left over, then the parts; go on as before."""
        out: list[Statement] = [*self.found.before, *self.found.inits]
        done = self.size * self.parts
        if done < self.long.extent:
            out.append(self._of_size(self.long.extent - done, done, ()))
        body: list[Statement] = []
        for init in self.found.inits:
            load = Load(self.names.id(), self.buffers[init.acc].name, self.place)
            body += [load, Update(init.acc, load.id)]
        out.append(Loop(self.axis, self.parts, "reduce", tuple(body)))
        return (*out, *self.found.after)


def _resized(loop: Loop, axis: str, extent: int) -> Loop:
    """The nest with another extent of one axis."""
    if loop.axis == axis:
        return loop._replace(extent=extent)
    body = tuple([_resized(s, axis, extent) if isinstance(s, Loop) else s for s in loop.body])
    return loop._replace(body=body)
