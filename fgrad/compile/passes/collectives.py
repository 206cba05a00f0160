"""L5. Pass `collectives`: few meetings of ranks.

    s = psum x;  t = psum y       u = psum (concatenate x y);  s = slice u;  t = slice u
    m = pmax x                    m = reduce_max (all_gather x), which knows NaN
    reduce_sum (psum x)           psum (reduce_sum x), which is less to send: gradients of biases
    s = psum x, of 8 or 16 bits   s = narrow (psum (wide x)), rounded once

Sums that do not depend on each other become one, if they are small: a meeting takes as long as
copying some ten thousand bytes.  Equations move behind the collectives that they read and no other,
so that all sums that can be made at once are.

Requires nothing.  Ensures that no `pmax` or `pmin` is left, and that all ranks of one program meet
in one order, whatever their constants are: so it stands before the passes that look at these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.writer import Writer
from fgrad.ir.aval import FLOAT32, INT32
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import communicates, has_effect
from fgrad.ops import primitives as prims

SMALL = 1 << 16  # bytes of a sum that is joined with others


def collectives(program: Program) -> Program:
    """The program with extrema gathered, and small sums joined."""
    meeting = [eqn for eqn in program.eqns if communicates(eqn)]
    if not meeting:
        return program
    eqns: Sequence[Eqn] = _reduced(program)
    if any([_is_narrow(eqn) for eqn in meeting]):
        eqns = _widened(eqns)
    if len([eqn for eqn in eqns if _joins(eqn)]) > 1:
        eqns = _joined(eqns)
    writer = Writer()
    for eqn in eqns:
        if eqn.prim is not prims.pmax and eqn.prim is not prims.pmin:
            writer.eqns.append(eqn)
            continue
        writer.like = eqn
        reduce = prims.reduce_max if eqn.prim is prims.pmax else prims.reduce_min
        every = writer.apply(prims.all_gather, *eqn.inputs, **eqn.params)
        writer.result(eqn, writer.apply(reduce, every, axes=(0,)))
    return program.replace(eqns=tuple(writer.eqns), made_by="collectives")


def _reduced(program: Program) -> list[Eqn]:
    """Sums over ranks that are summed along axes, and read by nobody else, after these."""
    read = Counter([x for eqn in program.eqns for x in eqn.inputs if isinstance(x, Var)])
    read.update([x for x in program.outputs if isinstance(x, Var)])
    once = {
        eqn.outputs[0]
        for eqn in program.eqns
        if eqn.prim is prims.psum and isinstance(eqn.inputs[0], Var) and read[eqn.outputs[0]] == 1
    }
    sums: dict[Atom, Eqn] = {
        eqn.inputs[0]: eqn
        for eqn in program.eqns
        if eqn.prim is prims.reduce_sum and eqn.inputs[0] in once
    }
    writer, gone = Writer(), {eqn.outputs[0] for eqn in sums.values()}
    for eqn in program.eqns:
        later = sums.get(eqn.outputs[0]) if eqn.prim is prims.psum else None
        if later is not None:
            writer.like = later
            part = writer.apply(prims.reduce_sum, *eqn.inputs, **later.params)
            outputs = later.outputs
            writer.eqns.append(Eqn(eqn.prim, (part,), eqn.params, outputs, eqn.loc, eqn.via))
        elif not (eqn.outputs and eqn.outputs[0] in gone):
            writer.eqns.append(eqn)
    return writer.eqns


def _is_narrow(eqn: Eqn) -> bool:
    """Whether an equation is a sum of numbers of 8 or 16 bits, of which libraries round each
    partial sum, or end at the largest (Open MPI 5.0 with vectors), if they know them."""
    is_sum = eqn.prim is prims.psum or eqn.prim is prims.psum_scatter
    return is_sum and eqn.outputs[0].aval.dtype.itemsize < 4


def _widened(eqns: Sequence[Eqn]) -> list[Eqn]:
    """Sums of numbers of 8 and 16 bits as sums of 32 bits."""
    writer = Writer()
    for eqn in eqns:
        if not _is_narrow(eqn):
            writer.eqns.append(eqn)
            continue
        writer.like = eqn
        dtype = eqn.outputs[0].aval.dtype
        wide = INT32 if dtype.kind in "iu" else FLOAT32
        x = writer.apply(prims.convert, *eqn.inputs, dtype=wide)
        total = writer.apply(eqn.prim, x, **eqn.params)
        narrow = Params({"dtype": dtype})
        writer.eqns.append(Eqn(prims.convert, (total,), narrow, eqn.outputs, eqn.loc, eqn.via))
    return writer.eqns


def _joins(eqn: Eqn) -> bool:
    """Whether an equation may be one of a joined sum."""
    if eqn.prim is not prims.psum or not isinstance(eqn.inputs[0], Var):
        return False
    return 0 < eqn.outputs[0].aval.size * eqn.outputs[0].aval.dtype.itemsize <= SMALL


class _Place(NamedTuple):
    """Where an equation stands: after how many meetings on which it depends, before or in the next
    one."""

    level: int
    meets: bool


def _joined(eqns: Sequence[Eqn]) -> list[Eqn]:
    places = _places(eqns)
    order = sorted(range(len(eqns)), key=lambda k: places[k])  # which is stable
    groups: dict[object, list[Eqn]] = {}
    for k in order:
        if _joins(eqns[k]):
            groups.setdefault(_key(eqns[k], places[k]), []).append(eqns[k])
    writer = Writer()
    for k in order:
        group = groups.get(_key(eqns[k], places[k]), []) if _joins(eqns[k]) else []
        if len(group) < 2:
            writer.eqns.append(eqns[k])
        elif group[0] is eqns[k]:
            _write_sum(writer, group)
    return writer.eqns


def _key(eqn: Eqn, place: _Place) -> object:
    return place, eqn.params.content, eqn.outputs[0].aval.dtype


def _places(eqns: Sequence[Eqn]) -> list[_Place]:
    """Each equation after what it reads; effects in their order."""
    levels: dict[Atom, int] = {}
    acted, places = _Place(0, False), list[_Place]()
    for eqn in eqns:
        level = max([levels.get(a, 0) for a in eqn.inputs], default=0)
        place = _Place(level, communicates(eqn))
        if has_effect(eqn):
            if place < acted:
                place = _Place(acted.level + (acted.meets and not place.meets), place.meets)
            acted = place
        places.append(place)
        levels.update(dict.fromkeys(eqn.outputs, place.level + place.meets))
    return places


def _write_sum(writer: Writer, group: Sequence[Eqn]) -> None:
    """One sum of the operands beside each other, and its parts as results."""
    writer.like = group[0]
    sizes = [eqn.outputs[0].aval.size for eqn in group]
    flat = [
        writer.apply(prims.reshape, eqn.inputs[0], shape=(size,))
        for eqn, size in zip(group, sizes, strict=True)
    ]
    whole = writer.apply(prims.concatenate, *flat, axis=0)
    total = writer.apply(prims.psum, whole, **group[0].params)
    start = 0
    for eqn, size in zip(group, sizes, strict=True):
        writer.like = eqn
        part = writer.apply(prims.slice, total, start=(start,), stop=(start + size,), step=(1,))
        writer.result(eqn, part)
        start += size
