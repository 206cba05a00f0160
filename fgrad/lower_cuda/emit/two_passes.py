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

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Buffer, Kernel, Loop, Update
from fgrad.compile.kernel.rewrite import Body, Lines, part_of
from fgrad.compile.schedule.order import perfect_nest
from fgrad.compile.schedule.split_steps import Parts, reduction_of
from fgrad.lower_cuda.emit.forms import Piece, ordered, runs_inside
from fgrad.lower_cuda.emit.machine import MANY_BLOCKS, MANY_THREADS, MOST_THREADS

LEAST_TERMS = 1 << 16  # of all items together, from which two kernels are better
PART_OF_BLOCK = 1 << 12  # the least terms of a part that a block adds
PART_OF_THREAD = 32  # and of one that a thread adds
WHOLE = 8  # what the size of a part is a multiple of, so that it is read in whole vectors


class Passes(NamedTuple):
    """Both kernels; `parts` are buffers that the first one writes for the second one."""

    first: Kernel
    second: Kernel
    parts: tuple[Buffer, ...]


def two_passes(piece: Piece) -> Passes | None:
    """The two kernels of a piece; None if one is as good."""
    found = reduction_of((*piece.before, *piece.body), piece.kernel.buffers)
    if found is None:
        return None
    nest, _ = perfect_nest(found.loop)
    items = math.prod([extent for _, extent in piece.axes])
    terms = math.prod([loop.extent for loop in nest])
    long = max(nest, key=lambda loop: loop.extent)
    if runs_inside(piece, [found.loop]):
        count = min(MANY_BLOCKS // max(items, 1), terms // PART_OF_BLOCK, long.extent)
    else:
        count = min(MANY_THREADS // items, long.extent // PART_OF_THREAD, MOST_THREADS)
    if items * terms < LEAST_TERMS or count < 2:
        return None
    size = long.extent // count
    size = size // WHOLE * WHOLE if size >= WHOLE else size
    parts = Parts(piece.kernel, found, long, size, long.extent // size, piece.axes)
    first = (*found.before, *parts.partial())
    return Passes(
        _kernel(piece, (Loop(parts.axis, parts.count, "parallel", first),), parts),
        _kernel(piece, _second(parts), parts),
        tuple(parts.buffers.values()),
    )


def _kernel(piece: Piece, body: Body, parts: Parts) -> Kernel:
    """The kernel that runs a body for each item."""
    for axis, extent in reversed(piece.axes):
        body = (Loop(axis, extent, "parallel", body),)
    return ordered(part_of(piece.kernel, body, parts.buffers.values()))


def _second(parts: Parts) -> Body:
    """Reduce what the parts left over, then the parts; go on as before."""
    lines = Lines(parts.names)
    for init in parts.found.inits:
        lines.body.append(Update(init.acc, parts.load(lines, init.acc)))
    loop = Loop(parts.axis, parts.count, "reduce", tuple(lines.body))
    return (*parts.found.before, *parts.rest(), loop, *parts.found.after)
