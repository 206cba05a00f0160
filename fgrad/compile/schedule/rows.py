"""L5. Interleave two rows, to hide the latency of each row's reduction.

Between two loops over a row stands a number of the row, and all of it must be there before the
second loop begins.  The loops of two rows side by side halve that wait, and share what both read:

    parallel i in R:                     parallel i in R/2:
      acc s = max f32 -inf                 acc s = max f32 -inf; acc t = max f32 -inf
      reduce j in C:                       reduce j in C:
        update s (load x[C*i + j])   ->      update s (load x[2*C*i + j])
      %1 = read s                            update t (load x[2*C*i + j + C])
      parallel j in C: ... %1 ...          %1 = read s; %2 = read t
                                           parallel j in C: ... %1 ... %2 ...
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from fgrad.compile.kernel.ir import (
    Affine,
    Buffer,
    Const,
    Index,
    Init,
    Load,
    Loop,
    Op,
    Read,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.machine import ELEMENTS_WORTH_UNROLLING, L2_BYTES
from fgrad.compile.kernel.rewrite import Body, Names, map_indices, stride_of, substitute, walk

LEAST_ROWS = 16
MOST_STATEMENTS = 64
# Two streams of longer rows defeat the prefetching from beyond the second cache.
SHORT_ROW = 256  # bytes
_KNOWN = (Const, Index, Load, Op, Init, Read, Update, Store, Loop)


def pair_rows(body: Body, names: Names, buffers: dict[str, Buffer], runs: int = 1) -> Body:
    """The body with loops over rows taken two rows at a time; `runs` is how often it is run."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            private = _private_rows(s, body, buffers, runs)
            if private is None:
                inside = pair_rows(s.body, names, buffers, runs * s.extent)
                s = s._replace(body=inside) if s.lanes < 2 else s
            else:
                s = _paired(s, private, names, buffers)
        out.append(s)
    return tuple(out)


def _private_rows(
    loop: Loop, around: Body, buffers: dict[str, Buffer], runs: int
) -> list[str] | None:
    """The scratch rows that each row of a loop has for itself; None if rows may not be paired."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    sums = [s for s in inner if s.kind == "reduce" and s.lanes > 1]
    work = runs * loop.extent * max([s.extent for s in inner], default=0)
    plain = loop.lanes < 2 and loop.kind in ("parallel", "serial")
    if (
        not plain
        or len(inner) < 2
        or not sums
        or loop.extent < LEAST_ROWS
        or work < ELEMENTS_WORTH_UNROLLING
        or loop.extent % 2
    ):
        return None
    body = list(walk(loop.body))
    if len(body) > MOST_STATEMENTS or not all([isinstance(s, _KNOWN) for s in body]):
        return None
    if any([isinstance(s, Loop) for x in inner for s in x.body]) or _carries(body):
        return None
    if not _is_streamed_well(body, inner, buffers):
        return None
    stored = {s.buffer for s in body if isinstance(s, Store)}
    private = [name for name in sorted(stored) if _is_private(loop, name, buffers[name], around)]
    shared = stored.difference(private)
    return private if all([_is_apart(loop, body, name) for name in shared]) else None


def _is_streamed_well(
    body: Sequence[Statement], inner: Sequence[Loop], buffers: dict[str, Buffer]
) -> bool:
    """Whether rows are so short that two lie beside each other, or all of them are near."""
    names = {s.buffer for s in body if isinstance(s, (Load, Store))}
    used = [buffers[name] for name in names if buffers[name].role != "scratch"]
    width = max([b.dtype.itemsize for b in used], default=1)
    short = max([s.extent for s in inner]) * width <= SHORT_ROW
    return short or sum([b.size * b.dtype.itemsize for b in used]) <= L2_BYTES


def _carries(body: Sequence[Statement]) -> bool:
    """Whether an accumulator goes on from row to row."""
    own = {s.acc for s in body if isinstance(s, Init)}
    return any([isinstance(s, (Update, Read)) and s.acc not in own for s in body])


def _is_private(loop: Loop, name: str, buffer: Buffer, around: Body) -> bool:
    """Whether each row writes all of a scratch buffer before it reads it, and nobody else does."""
    if buffer.role != "scratch":
        return False
    mine = [s for s in walk(loop.body) if isinstance(s, (Load, Store)) and s.buffer == name]
    uses = [s for s in walk(around) if isinstance(s, (Load, Store)) and s.buffer == name]
    first = mine[0]
    writers = [s for s in loop.body if isinstance(s, Loop) and first in s.body]
    return (
        len(uses) == len(mine)
        and isinstance(first, Store)
        and len(writers) > 0
        and first.index == Affine(0, ((writers[0].axis, 1),))
        and writers[0].extent == buffer.size
        and (first.mode, first.predicate, first.scatter) == ("set", None, ())
    )


def _is_apart(loop: Loop, body: Sequence[Statement], name: str) -> bool:
    """Whether rows write different elements, or only add to the same ones in order."""
    loads = [s for s in body if isinstance(s, Load) and s.buffer == name]
    stores = [s for s in body if isinstance(s, Store) and s.buffer == name]
    if loads or any([s.scatter for s in stores]):
        return False
    strides = [abs(stride_of(s.index, loop.axis)) for s in stores]
    if loop.kind == "parallel":
        return all(strides) and all([s.mode == "set" for s in stores])
    if len(stores) > 1:
        return False
    extents = {s.axis: s.extent for s in body if isinstance(s, Loop)}
    inner = [(step, extents.get(axis, 1)) for axis, step in stores[0].index.terms]
    width = sum([abs(step) * (extent - 1) for step, extent in inner])
    return stores[0].mode == "set" and strides[0] > width if strides[0] else stores[0].mode == "add"


def _paired(loop: Loop, private: list[str], names: Names, buffers: dict[str, Buffer]) -> Loop:
    """The loop over pairs: each statement beside its copy for the second row."""
    copier = names.copier()
    copier.new_axis = lambda axis: axis
    for name in private:
        other = copier.buffers[name] = names.name(name)
        buffers[other] = buffers[name]._replace(name=other)
    axis = names.name(loop.axis)
    rows = [
        map_indices(body, lambda index, row=row: substitute(index, loop.axis, row, ((axis, 2),)))
        for row, body in enumerate((loop.body, copier.body(loop.body)))
    ]
    both = tuple(
        [_beside(a, b) if isinstance(a, Loop) else (a, b) for a, b in zip(*rows, strict=True)]
    )
    return loop._replace(axis=axis, extent=loop.extent // 2, body=tuple(chain(*both)))


def _beside(a: Loop, b: Statement) -> tuple[Statement]:
    """One loop for the loops of two rows."""
    assert isinstance(b, Loop)
    return (a._replace(body=tuple(chain(*zip(a.body, b.body, strict=True)))),)
