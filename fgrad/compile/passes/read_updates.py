"""L5. Reads of arrays that were written at known places are reads of what was written there.

    y = dynamic_update(x, u, 2); z = dynamic_update(y, v, 5)
    slice(z, 2, 3)                      becomes     slice(u, 0, 1)
    slice(z, 0, 2)                      becomes     slice(x, 0, 2)
    slice(z, 4, 7)                      becomes     dynamic_update(slice(x, 4, 7), v, 1)

if nobody else needs y.  A loop that is written out is no chain of arrays then.  An array that is
needed is read as it is: an older one would have to be kept, and a kernel that also makes what is
written cannot write in place.  Cotangents of such arrays are zero where these were written, and are
added to where they were read:

    dynamic_update(x, u, 2) + pad(v)    becomes     an update of a region by what it is and v

So do sums of many padded arrays: one kernel would ask of each element which of them it is in; and
those with zeros into which a few elements were scattered, as the cotangents of `x[0, 1]` and
`x[2, 3]` are.  And
a cotangent of which the middle was overwritten, but is read too, is not overwritten to be added to:

    dynamic_update(x, 0, 1) + y         becomes     updates of y by its ends and those of x
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import L2_BYTES
from fgrad.compile.passes.rewriter import Rewriter, known_starts, lit, number_of
from fgrad.compile.passes.simplify import EXACT_LAWS
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.walk import is_cotangent
from fgrad.ops import primitives as prims

LEAST_PADS = 16  # of a sum that is added up region by region
UPDATE_COST = 500  # of an update, in elements of padded arrays that one kernel adds
MOST_PARTS = 4  # updates of which a part is read, by one read
MOST_UPDATES = 2000  # that a read looks at
MOST_SCATTERED = 8  # rows that are added one by one

Region: TypeAlias = "list[tuple[int, int]]"  # the first place along each axis, and the end


class _Update(NamedTuple):
    """An update at a known place."""

    eqn: Eqn
    begins: list[int]

    @property
    def region(self) -> Region:
        """What is written."""
        sizes = self.eqn.inputs[1].aval.shape
        return [(a, a + n) for a, n in zip(self.begins, sizes, strict=True)]


class _Part(NamedTuple):
    """What a read takes of one update: a region of the array, and where the update begins."""

    value: Atom
    begins: list[int]
    region: Region


class _Way(NamedTuple):
    """Where what is read was written: an array, and the parts written into it later."""

    source: Atom
    begins: list[int]  # the place of the source's first element
    parts: list[_Part]  # the newest first
    first: Var | None  # the oldest version that the read goes behind


def read_updates(program: Program) -> Program:
    """The program whose reads of updated arrays are reads of updates, where that is known."""
    long_sums = _long_sums(program)
    writes = (prims.dynamic_update, prims.scatter)
    if not long_sums and not any([eqn.prim in writes for eqn in program.eqns]):
        return program
    program = _only_ends(_added_in_place(program, long_sums))
    updates: dict[Var, _Update] = {}
    for eqn in program.eqns:
        if eqn.prim is prims.dynamic_update:
            x, value, *starts = eqn.inputs
            begins = known_starts(starts, x.aval.shape, value.aval.shape)
            if begins is not None:
                updates[eqn.outputs[0]] = _Update(eqn, begins)
    ways = _ways(program, updates)
    if not ways:
        return program
    r = Rewriter(EXACT_LAWS)

    def read(eqn: Eqn) -> Atom | None:
        way = ways.get(eqn.outputs[0])
        return None if way is None else _read(r, eqn, way)

    return r.walk(program, read, "read_updates")


def _added_in_place(program: Program, starts: Container[Var]) -> Program:
    """The program in which padded cotangents are added to their own region alone."""
    r = Rewriter(EXACT_LAWS)
    consts: dict[Atom, np.ndarray] = dict(program.consts)

    def added(eqn: Eqn) -> Atom | None:
        if eqn.prim is not prims.add or not is_cotangent(eqn):
            return None
        found = _added(r, eqn, starts)
        return _rows_added(r, eqn, consts) if found is None else found

    return r.walk(program, added, "read_updates")


def _rows_added(r: Rewriter, e: Eqn, consts: Mapping[Atom, np.ndarray]) -> Atom | None:
    """A sum with zeros into which a few rows were scattered, as updates of these."""
    for x, other in (e.inputs, e.inputs[::-1]):
        rows = _scattered(r, other, consts)
        if rows:
            is_zero = x in consts and not np.any(consts[x])
            for start, row in rows:
                if is_zero:
                    x = r.make(prims.dynamic_update, x, row, *[lit(a, INT64) for a in start])
                else:
                    x = _region_added(r, x, row, start)
            return x
    return None


def _scattered(
    r: Rewriter, x: Atom, consts: Mapping[Atom, np.ndarray]
) -> list[tuple[tuple[int, ...], Atom]]:
    """The rows that were scattered into zeros, and where they begin; none if anything else is."""
    shape, shaped = x.aval.shape, r.source(x, prims.reshape)
    scatter = r.source(x if shaped is None else shaped.inputs[0], prims.scatter)
    if scatter is None or scatter.params["axes"] != (0,):
        return []
    base, rows, index = scatter.inputs
    places = consts.get(index)
    known = base in consts and not np.any(consts[base])
    if places is None or places.ndim != 1 or not (known or _is_zero(r, base)):
        return []
    count, *width = base.aval.shape
    distinct = len(set(places.tolist())) == places.size <= MOST_SCATTERED
    if not distinct or not all([0 <= p < count for p in places]):
        return []
    lengths = shape[: len(shape) - len(width)]
    if math.prod(lengths) != count or list(shape[len(lengths) :]) != width:
        return []
    found: list[tuple[tuple[int, ...], Atom]] = []
    for k, place in enumerate(places):
        row = _sliced_at(r, rows, (k, *[0] * len(width)), (k + 1, *width))
        start = (*[int(n) for n in np.unravel_index(int(place), lengths)], *[0] * len(width))
        found.append((start, r.make(prims.reshape, row, shape=(*[1] * len(lengths), *width))))
    return found


class _Sum(NamedTuple):
    """A sum of padded arrays, one after the other: its first addition, and what is added."""

    start: Var
    pads: int
    elements: int


def _long_sums(program: Program) -> set[Var]:
    """The first additions of sums that take less time region by region."""
    pads = {e.outputs[0]: e.inputs[0].aval.size for e in program.eqns if _is_plain_pad(e)}
    if len(pads) < LEAST_PADS:
        return set()
    uses = Counter([a for e in program.eqns for a in e.inputs if isinstance(a, Var)])
    sums: dict[Var, _Sum] = {}
    for eqn in program.eqns:
        if eqn.prim is not prims.add or not is_cotangent(eqn):
            continue
        (out,) = eqn.outputs
        for x, other in (eqn.inputs, eqn.inputs[::-1]):
            if other not in pads or not isinstance(x, Var):
                continue
            before = sums.get(x) if uses[x] == 1 else None
            if before is not None:
                more = before.elements + pads[other]
                sums[out] = _Sum(before.start, before.pads + 1, more)
            elif x in pads:
                sums[out] = _Sum(out, 2, pads[x] + pads[other])
    longest = {found.start: found for found in sums.values()}
    return {start for start, found in longest.items() if _is_long(start.aval, found)}


def _is_plain_pad(e: Eqn) -> bool:
    """Whether an equation puts zeros around an array."""
    if e.prim is not prims.pad or any(e.params["interior"]) or e.params["value"]:
        return False
    return all([n >= 0 for n in e.params["low"] + e.params["high"]])


def _is_long(aval: Aval, found: _Sum) -> bool:
    """Whether updates of regions take less time than a kernel that asks of each element which of
    the padded arrays it is in, if what is added to stays in the second cache."""
    updates = found.elements + UPDATE_COST * found.pads
    near = aval.size * aval.dtype.itemsize <= L2_BYTES
    return found.pads >= LEAST_PADS and (1 if near else 4) * updates < found.pads * aval.size


def _added(r: Rewriter, e: Eqn, starts: Container[Var]) -> Atom | None:
    """A sum of an updated and a padded array as an update: bits stay, but those of -0.0 + 0.0."""
    to = (prims.dynamic_update, prims.pad) if e.outputs[0] in starts else (prims.dynamic_update,)
    for x, other in (e.inputs, e.inputs[::-1]):
        pad = r.source(other, prims.pad)
        if pad is None or not _is_plain_pad(pad) or r.source(x, *to) is None:
            continue
        return _region_added(r, x, pad.inputs[0], pad.params["low"])
    return None


def _region_added(r: Rewriter, x: Atom, u: Atom, start: tuple[int, ...]) -> Atom:
    """An array that something was added to, from a place on."""
    stop = tuple([a + n for a, n in zip(start, u.aval.shape, strict=True)])
    total = r.make(prims.add, _sliced_at(r, x, start, stop), u)
    return r.make(prims.dynamic_update, x, total, *[lit(a, INT64) for a in start])


def _sliced_at(r: Rewriter, x: Atom, start: tuple[int, ...], stop: tuple[int, ...]) -> Atom:
    return r.make(prims.slice, x, start=start, stop=stop, step=(1,) * len(start))


def _only_ends(program: Program) -> Program:
    """The program in which cotangents that others read too are not overwritten with zeros to be
    added to: their ends are added to what they would be added to."""
    uses = Counter([a for e in program.eqns for a in e.inputs if isinstance(a, Var)])
    r = Rewriter(EXACT_LAWS)
    return r.walk(program, lambda eqn: _ends_added(r, eqn, uses), "read_updates")


def _ends_added(r: Rewriter, e: Eqn, uses: Mapping[Var, int]) -> Atom | None:
    """A sum of an array that zeros were written into and another as the other, whose ends are
    updated."""
    if e.prim is not prims.add or not is_cotangent(e):
        return None
    for x, other in (e.inputs, e.inputs[::-1]):
        update = r.source(x, prims.dynamic_update)
        if update is None or not isinstance(x, Var) or uses[x] != 1:
            continue
        old, zeros, *starts = update.inputs
        if not isinstance(old, Var) or uses[old] < 2 or not _is_zero(r, zeros):
            continue
        begins = known_starts(starts, old.aval.shape, zeros.aval.shape)
        ends = None if begins is None else _ends(old.aval.shape, begins, zeros.aval.shape)
        if ends is None:
            continue
        total = other
        for start, stop in ends:
            total = _region_added(r, total, _sliced_at(r, old, start, stop), start)
        return total
    return None


def _ends(
    shape: tuple[int, ...], begins: Sequence[int], sizes: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]] | None:
    """What is left of an array before and behind a region along one axis, None if that is more than
    half of it or there are several such axes."""
    axes = [k for k, (n, m) in enumerate(zip(shape, sizes, strict=True)) if n != m]
    if len(axes) != 1 or 2 * sizes[axes[0]] < shape[axes[0]]:
        return None
    (axis,), found = axes, []
    for first, last in ((0, begins[axis]), (begins[axis] + sizes[axis], shape[axis])):
        start, stop = [0] * len(shape), list(shape)
        start[axis], stop[axis] = first, last
        if first < last:
            found.append((tuple(start), tuple(stop)))
    return found


def _is_zero(r: Rewriter, x: Atom) -> bool:
    """Whether an array is zero everywhere."""
    full = r.source(x, prims.broadcast)
    number = number_of(x if full is None else full.inputs[0])
    return number is not None and number == 0


def _covers(one: Region, other: Region) -> bool:
    return all([a <= i and j <= b for (a, b), (i, j) in zip(one, other, strict=True)])


def _ways(program: Program, updates: Mapping[Var, _Update]) -> dict[Var, _Way]:
    """The reads that can be changed, by their results."""
    found: dict[Var, _Way] = {}
    needed = {a for a in program.outputs if isinstance(a, Var)}
    for eqn in program.eqns:
        way = None
        if eqn.prim in (prims.slice, prims.index) and eqn.inputs[0] in updates:
            way = _way(eqn, updates)
        if way is not None:
            found[eqn.outputs[0]] = way
            continue
        updated = eqn.prim is prims.dynamic_update and eqn.outputs[0] in updates
        kept = eqn.inputs[1:] if updated else eqn.inputs
        needed.update([a for a in kept if isinstance(a, Var)])
    for var in reversed(list(updates)):
        before = updates[var].eqn.inputs[0]
        if var in needed and isinstance(before, Var):
            needed.add(before)
    return {out: way for out, way in found.items() if way.first not in needed}


def _region(read: Eqn) -> Region:
    """What is read."""
    shape = read.inputs[0].aval.shape
    if read.prim is prims.slice:
        return list(zip(read.params["start"], read.params["stop"], strict=True))
    ints = read.params["ints"]
    return [(i, i + 1) for i in ints] + [(0, n) for n in shape[len(ints) :]]


def _way(read: Eqn, updates: Mapping[Var, _Update]) -> _Way | None:
    """Where what is read was written."""
    region, parts = _region(read), list[_Part]()
    close = read.prim is prims.index or set(read.params["step"]) <= {1}
    x, first = read.inputs[0], None
    for _ in range(MOST_UPDATES):
        if not isinstance(x, Var) or x not in updates:
            return _Way(x, [0] * len(region), parts, first)
        update = updates[x]
        value, begins, first = update.eqn.inputs[1], update.begins, x
        if _covers(update.region, region):
            return _Way(value, begins, parts, first)
        sides = zip(region, update.region, strict=True)
        shared = [(max(i, a), min(j, b)) for (i, j), (a, b) in sides]
        if all([i < j for i, j in shared]):
            if not close or len(parts) == MOST_PARTS:
                return None
            parts.append(_Part(value, begins, shared))
        x = update.eqn.inputs[0]
    return None


def _read(r: Rewriter, read: Eqn, way: _Way) -> Atom:
    """What is read, from where it was written."""
    source, region = r.resolved(way.source), _region(read)
    if read.prim is prims.index and not way.parts:
        ints = [i - a for i, a in zip(read.params["ints"], way.begins, strict=False)]
        return r.make(prims.index, source, ints=tuple(ints))
    step = read.params["step"] if read.prim is prims.slice else (1,) * len(region)
    found = _sliced(r, source, way.begins, region, step)
    for part in reversed(way.parts):
        value = _sliced(r, r.resolved(part.value), part.begins, part.region, step)
        starts = [
            lit(i - first, INT64) for (i, _), (first, _) in zip(part.region, region, strict=True)
        ]
        found = r.make(prims.dynamic_update, found, value, *starts)
    shape = read.outputs[0].aval.shape
    return found if found.aval.shape == shape else r.make(prims.reshape, found, shape=shape)


def _sliced(
    r: Rewriter, x: Atom, begins: Sequence[int], region: Region, step: Sequence[int]
) -> Atom:
    """The elements of a region, of what begins somewhere."""
    start = tuple([i - a for (i, _), a in zip(region, begins, strict=True)])
    stop = tuple([j - a for (_, j), a in zip(region, begins, strict=True)])
    return r.make(prims.slice, x, start=start, stop=stop, step=tuple(step))
