"""L5. Reductions down the columns of a large matrix: rows are streamed instead of columns walked.

Each element of a row of results would walk down its own column, a cache line at a time.  Instead a
strip of results is kept in a scratch row, and GROUP rows at a time are added to it:

    parallel j in C:                      parallel j in C:  store t[j] = 0
      acc s = add f32 0.0                 serial g in R/4:
      reduce i in R:                        parallel j in C:
        update s (load x[C*i + j])   ->       acc s = add f32 0.0
      store y[j] (read s)                     reduce r in 4: update s (load x[C*(4*g + r) + j])
                                              store t[j] = t[j] + read s
                                          parallel j in C:  store y[j] = t[j]

Sums of very many rows keep the scratch row in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fgrad.compile.kernel.ir import (
    Affine,
    Buffer,
    Const,
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
from fgrad.compile.kernel.rewrite import (
    Body,
    Names,
    identity,
    map_indices,
    stride_of,
    substitute,
    walk,
)
from fgrad.compile.schedule_sums import BLOCK

GROUP = 4
STRIP = 2048  # results kept in the scratch row
LEAST_BYTES = 1 << 16  # smaller matrices stay in a near cache either way


class _Columns(NamedTuple):
    """A loop over columns, taken apart."""

    loop: Loop
    before: Body
    inits: tuple[Init, ...]
    rows: Loop
    after: Body


def stream_columns(body: Body, names: Names, buffers: dict[str, Buffer]) -> Body:
    """The body with column reductions streamed; scratch rows are added to `buffers`."""
    out: list[Statement] = []
    for s in body:
        if type(s) is Loop:
            found = _match(s, buffers)
            if found is not None:
                out += _Streamer(found, names, buffers).strips()
                continue
            s = s._replace(body=stream_columns(s.body, names, buffers))
        out.append(s)
    return tuple(out)


def _match(loop: Loop, buffers: dict[str, Buffer]) -> _Columns | None:
    """The parts of a loop over columns that is worth streaming."""
    loops = [s for s in loop.body if type(s) is Loop]
    if loop.kind != "parallel" or len(loops) != 1 or loops[0].kind != "reduce":
        return None
    rows = loops[0]
    at = loop.body.index(rows)
    before, after = loop.body[:at], loop.body[at + 1 :]
    inits = tuple([s for s in before if type(s) is Init])
    if any([type(s) in (Store, Read, Update) for s in before]) or not inits:
        return None
    if any([type(s) in (Loop, Store, Init, Read) for s in rows.body]):
        return None
    if any([type(s) in (Init, Update) for s in after]):
        return None
    along, down, width = 0, 0, 1
    for s in walk(loop.body):
        if type(s) in (Load, Store) and buffers[s.buffer].role == "scratch":
            return None
    for s in rows.body:
        if type(s) is Load:
            column, row = stride_of(s.index, loop.axis), stride_of(s.index, rows.axis)
            along += abs(column) == 1 and abs(row) != 1
            down += (abs(row) == 1 and abs(column) > 1) + len(s.gather)
            width = max(width, buffers[s.buffer].dtype.itemsize)
    large = loop.extent * rows.extent * width >= LEAST_BYTES
    if along <= down or rows.extent < 2 * GROUP or loop.extent * width < 128 or not large:
        return None
    kept = tuple([s for s in before if type(s) is not Init])
    return _Columns(loop, kept, inits, rows, after)


class _Streamer:
    """Writes the streamed form of one loop over columns."""

    def __init__(self, parts: _Columns, names: Names, buffers: dict[str, Buffer]) -> None:
        self.parts = parts
        self.names = names
        self.buffers = buffers

    def strips(self) -> list[Statement]:
        """The whole loop, in strips of at most STRIP columns."""
        extent = self.parts.loop.extent
        size = min(extent, STRIP)
        count, rest = divmod(extent, size)
        if count == 1 and not rest:
            return self.strip(size, None, 0)
        axis = self.names.name(self.parts.loop.axis)
        out: list[Statement] = [
            Loop(axis, count, "parallel", tuple(self.strip(size, (axis, size), 0)))
        ]
        return out + (self.strip(rest, None, count * size) if rest else [])

    def strip(self, size: int, outer: tuple[str, int] | None, first: int) -> list[Statement]:
        """The results `first + outer + (0 .. size-1)`."""
        rows = self.parts.rows.extent
        scratch = {}
        for init in self.parts.inits:
            long_sum = init.op == "add" and init.dtype.kind == "f" and rows > BLOCK
            dtype = np.dtype(np.float64) if long_sum else init.dtype
            name = self.names.name("row")
            self.buffers[name] = Buffer(name, dtype, size, "scratch")
            scratch[init.acc] = name
        groups, rest = divmod(rows, GROUP)
        begin = self.columns(size, outer, first, self.begin, scratch, 0, 0)
        group = self.names.name("group")
        add = self.columns(size, outer, first, self.add, scratch, group, GROUP)
        out = [begin, Loop(group, groups, "serial", (add,))]
        if rest:
            out.append(self.columns(size, outer, first, self.add, scratch, groups * GROUP, rest))
        return [*out, self.columns(size, outer, first, self.end, scratch, 0, 0)]

    def columns(self, size, outer, first, make, scratch, group, count) -> Loop:
        """A loop over the strip's columns whose body `make` writes, with names of its own."""
        parts = self.parts
        axis = self.names.name(parts.loop.axis)
        copier = self.names.copier()
        before = copier.body(parts.before)
        body = [*before, *make(copier, axis, scratch, group, count)]
        terms = ((axis, 1), outer) if outer else ((axis, 1),)
        moved = map_indices(
            tuple(body), lambda index: substitute(index, parts.loop.axis, first, terms)
        )
        return Loop(axis, size, "parallel", moved)

    def begin(self, copier, axis, scratch, group, count) -> list[Statement]:
        """The starts of the accumulators."""
        out: list[Statement] = []
        for init in self.parts.inits:
            if isinstance(init.start, Ref):
                value = copier.use(init.start.id)
            else:
                value = self.names.id()
                out.append(Const(value, init.start, init.dtype))
            value = self.converted(out, value, init.dtype, scratch[init.acc])
            out.append(Store(scratch[init.acc], Affine(0, ((axis, 1),)), value))
        return out

    def add(self, copier, axis, scratch, group, count) -> list[Statement]:
        """`count` rows from number `group` (or `GROUP * group`, if that is an axis) on."""
        rows, inits = self.parts.rows, self.parts.inits
        neutral = [init._replace(start=identity(init.op, init.dtype)) for init in inits]
        out: list[Statement] = list(copier.body(tuple(neutral)))
        copied = copier.body((rows._replace(extent=count),))[0]
        if isinstance(group, str):
            const, terms = 0, ((group, GROUP), (copied.axis, 1))
        else:
            const, terms = group, ((copied.axis, 1),)
        inner = map_indices(copied.body, lambda index: substitute(index, copied.axis, const, terms))
        out.append(copied._replace(body=inner))
        for init in inits:
            name, place = scratch[init.acc], Affine(0, ((axis, 1),))
            dtype = self.buffers[name].dtype
            read = Read(self.names.id(), copier.accs[init.acc])
            out.append(read)
            value = self.converted(out, read.id, init.dtype, name)
            old = Load(self.names.id(), name, place)
            new = Op(self.names.id(), init.op, (old.id, value), dtype)
            out += [old, new, Store(name, place, new.id)]
        return out

    def end(self, copier, axis, scratch, group, count) -> list[Statement]:
        """What follows the reduction, with the scratch row in place of the accumulators."""
        dtypes = {init.acc: init.dtype for init in self.parts.inits}
        out: list[Statement] = []
        for s in self.parts.after:
            if type(s) is not Read:
                out += copier.body((s,))
                continue
            name = scratch[s.acc]
            load = Load(self.names.id(), name, Affine(0, ((axis, 1),)))
            out.append(load)
            copier.ids[s.id] = load.id
            if self.buffers[name].dtype != dtypes[s.acc]:
                copier.ids[s.id] = self.names.id()
                out.append(Op(copier.ids[s.id], "convert", (load.id,), dtypes[s.acc]))
        return out

    def converted(self, out: list[Statement], value: int, dtype: np.dtype, name: str) -> int:
        """The value in the scratch row's dtype."""
        target = self.buffers[name].dtype
        if target == dtype:
            return value
        out.append(Op(self.names.id(), "convert", (value,), target))
        return out[-1].id
