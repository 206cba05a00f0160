"""L5. Column reductions of large matrices: stream rows instead of striding down columns.

Each element of a row of results would walk down its own column, a cache line at a time.  Instead a
strip of results is kept in a scratch row, and the matrix is added to it row by row:

    parallel j in C:                      parallel j in C:  store t[j] = 0
      acc s = add f32 0.0                 serial i in R:
      reduce i in R:                        parallel j in C:
        update s (load x[C*i + j])   ->       store t[j] = t[j] + load x[C*i + j]
      store y[j] (read s)                 parallel j in C:  store y[j] = t[j]

Sums of very many rows keep the scratch row in float64.  (Adding 2 to 8 rows at a time was slower
beyond the cache and no faster within it.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
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
from fgrad.compile.kernel.machine import STRIP_BYTES
from fgrad.compile.kernel.rewrite import (
    Body,
    Names,
    Renamer,
    map_indices,
    stride_of,
    substitute,
    walk,
)
from fgrad.compile.schedule.sums import BLOCK

LEAST_ROWS = 16
LEAST_BYTES = 1 << 16  # smaller matrices stay in a near cache either way
_DOUBLE = np.dtype(np.float64)


class _Columns(NamedTuple):
    """A loop over columns, taken apart."""

    loop: Loop
    before: Body
    inits: tuple[Init, ...]
    rows: Loop
    after: Body


class _Strip(NamedTuple):
    """The columns `first + outer + (0 .. size-1)`, and the scratch row of each accumulator."""

    size: int
    first: int
    outer: tuple[tuple[str, int], ...]
    scratch: dict[str, Buffer]


_Make: TypeAlias = Callable[[Renamer, Affine, _Strip], list[Statement]]


def stream_columns(body: Body, names: Names, buffers: dict[str, Buffer]) -> Body:
    """The body with column reductions streamed; scratch rows are added to `buffers`."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            found = _match(s, buffers)
            if found is not None:
                out += _Streamer(found, names, buffers).strips()
                continue
            s = s._replace(body=stream_columns(s.body, names, buffers))
        out.append(s)
    return tuple(out)


def _match(loop: Loop, buffers: dict[str, Buffer]) -> _Columns | None:
    """The parts of a loop over columns that is worth streaming."""
    loops = [s for s in loop.body if isinstance(s, Loop)]
    if loop.kind != "parallel" or len(loops) != 1 or loops[0].kind != "reduce":
        return None
    rows = loops[0]
    at = loop.body.index(rows)
    before, after = loop.body[:at], loop.body[at + 1 :]
    inits = tuple([s for s in before if isinstance(s, Init)])
    odd = (
        any([isinstance(s, (Store, Read, Update)) for s in before])
        or any([isinstance(s, (Loop, Store, Init, Read)) for s in rows.body])
        or any([isinstance(s, (Init, Update)) for s in after])
        or any([isinstance(s, (Load, Store)) and _private(s, buffers) for s in walk(loop.body)])
    )
    if odd or not inits or not _pays(loop, rows, buffers):
        return None
    return _Columns(loop, tuple([s for s in before if not isinstance(s, Init)]), inits, rows, after)


def _private(s: Load | Store, buffers: dict[str, Buffer]) -> bool:
    return buffers[s.buffer].role == "scratch"


def _pays(loop: Loop, rows: Loop, buffers: dict[str, Buffer]) -> bool:
    """Whether most loads run along the columns' axis, and the matrix is large."""
    along, down, width = 0, 0, 1
    for s in rows.body:
        if isinstance(s, Load):
            column, row = abs(stride_of(s.index, loop.axis)), abs(stride_of(s.index, rows.axis))
            along += column == 1 and row != 1
            down += (row == 1 and column > 1) + len(s.gather)
            width = max(width, buffers[s.buffer].dtype.itemsize)
    large = loop.extent * rows.extent * width >= LEAST_BYTES
    return along > down and large and rows.extent >= LEAST_ROWS and loop.extent * width >= 128


class _Streamer:
    """Writes the streamed form of one loop over columns."""

    def __init__(self, parts: _Columns, names: Names, buffers: dict[str, Buffer]) -> None:
        self.parts = parts
        self.names = names
        self.buffers = buffers

    def strips(self) -> list[Statement]:
        """The whole loop, in strips of columns."""
        extent = self.parts.loop.extent
        width = max([init.dtype.itemsize for init in self.parts.inits])
        size = min(extent, STRIP_BYTES // width)
        count, rest = divmod(extent, size)
        if count == 1 and not rest:
            return self.strip(size, 0, ())
        axis = self.names.name(self.parts.loop.axis)
        full = self.strip(size, 0, ((axis, size),))
        out: list[Statement] = [Loop(axis, count, "parallel", tuple(full))]
        return out + (self.strip(rest, count * size, ()) if rest else [])

    def strip(self, size: int, first: int, outer: tuple[tuple[str, int], ...]) -> list[Statement]:
        """One strip: set the scratch row, add all rows to it, write the results."""
        scratch: dict[str, Buffer] = {}
        for init in self.parts.inits:
            long = self.parts.rows.extent > BLOCK
            wide = long and init.op == "add" and init.dtype.kind == "f"
            name = self.names.name("row")
            scratch[init.acc] = Buffer(name, _DOUBLE if wide else init.dtype, size, "scratch")
            self.buffers[name] = scratch[init.acc]
        strip = _Strip(size, first, outer, scratch)
        rows = self.names.name(self.parts.rows.axis)
        body = map_indices(
            (self.columns(strip, self.add),),
            lambda index: substitute(index, self.parts.rows.axis, 0, ((rows, 1),)),
        )
        stream = Loop(rows, self.parts.rows.extent, "serial", body)
        return [self.columns(strip, self.begin), stream, self.columns(strip, self.end)]

    def columns(self, strip: _Strip, make: _Make) -> Loop:
        """A loop over the strip's columns whose body `make` writes, with names of its own."""
        old, axis = self.parts.loop.axis, self.names.name(self.parts.loop.axis)
        copier = self.names.copier()
        place = Affine(0, ((axis, 1),))
        body = (*copier.body(self.parts.before), *make(copier, place, strip))
        terms = ((axis, 1), *strip.outer)
        moved = map_indices(body, lambda index: substitute(index, old, strip.first, terms))
        return Loop(axis, strip.size, "parallel", moved)

    def begin(self, copier: Renamer, place: Affine, strip: _Strip) -> list[Statement]:
        """The starts of the accumulators."""
        out: list[Statement] = []
        for init in self.parts.inits:
            if isinstance(init.start, Ref):
                value = copier.use(init.start.id)
            else:
                value = self.names.id()
                out.append(Const(value, init.start, init.dtype))
            row = strip.scratch[init.acc]
            out.append(Store(row.name, place, self.converted(out, value, init.dtype, row.dtype)))
        return out

    def add(self, copier: Renamer, place: Affine, strip: _Strip) -> list[Statement]:
        """One row of the matrix joins the scratch rows."""
        inits = {init.acc: init for init in self.parts.inits}
        out: list[Statement] = []
        for s in self.parts.rows.body:
            if not isinstance(s, Update):
                out += copier.body((s,))
                continue
            init, row = inits[s.acc], strip.scratch[s.acc]
            value = self.converted(out, copier.use(s.value), init.dtype, row.dtype)
            old = Load(self.names.id(), row.name, place)
            new = Op(self.names.id(), init.op, (value, old.id), row.dtype)
            out += [old, new, Store(row.name, place, new.id)]
        return out

    def end(self, copier: Renamer, place: Affine, strip: _Strip) -> list[Statement]:
        """What follows the reduction, with the scratch row in place of the accumulators."""
        dtypes = {init.acc: init.dtype for init in self.parts.inits}
        out: list[Statement] = []
        for s in self.parts.after:
            if not isinstance(s, Read):
                out += copier.body((s,))
                continue
            row = strip.scratch[s.acc]
            load = Load(self.names.id(), row.name, place)
            out.append(load)
            copier.ids[s.id] = self.converted(out, load.id, row.dtype, dtypes[s.acc])
        return out

    def converted(self, out: list[Statement], value: int, dtype: np.dtype, target: np.dtype) -> int:
        """The value in another dtype."""
        if target == dtype:
            return value
        new = Op(self.names.id(), "convert", (value,), target)
        out.append(new)
        return new.id
