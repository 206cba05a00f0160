"""L4. Elements that a loop only adds to: the write of a sum becomes an addition.

    y' = y.at[i].set(y[i] + u)      becomes      y' = y.at[i].add(u)

The cotangent of y is that of y' then, so that a loop in reverse carries no array for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops.checked import in_range_p
from fgrad.ops.elementwise import ADD, neg_p, sub_p
from fgrad.ops.families import BROADCAST
from fgrad.ops.index import gather_p, scatter_p

Defined = Mapping[Var, Eqn]
DEEPEST = 8  # equations in each other that make an index


def added_elements(program: Program) -> Program:
    """The program in which elements of arrays that are read for that alone are added to."""
    if not any([eqn.prim is scatter_p for eqn in program.eqns]):
        return program

    def add() -> Program:
        defined, uses = definitions(program.eqns), use_counts(program)
        eqns = [part for eqn in program.eqns for part in _added(eqn, defined, uses)]
        return program.replace(eqns=tuple(eqns))

    return program.derived("added elements", add)


def _added(eqn: Eqn, defined: Defined, uses: Mapping[Var, int]) -> list[Eqn]:
    """A write of an element as an addition, if it is one."""
    if eqn.prim is not scatter_p or eqn.params["mode"] != "set":
        return [eqn]
    array, new, *places = eqn.inputs
    total = _made_by(new, defined)
    one_place = not any([a.aval.shape for a in places])
    if total is None or not one_place or not isinstance(array, Var):
        return [eqn]
    if total.prim not in (ADD, sub_p) or uses[array] != 2 or uses[total.outputs[0]] != 1:
        return [eqn]
    x, y = total.inputs
    for old, more in ((x, y), (y, x)) if total.prim is ADD else ((x, y),):
        at = _read_at(old, eqn, defined)
        if at is None or uses[old] != 1 or not _all_same(at, places, defined):  # type: ignore[index]
            continue
        made, more = _of_whole_rows(more, total)
        if total.prim is sub_p:
            less = Var(more.aval.strong())
            made.append(total._replace(prim=neg_p, inputs=(more,), outputs=(less,)))
            more = less
        params = Params({**eqn.params, "mode": "add"})
        return [*made, eqn._replace(inputs=(array, more, *at), params=params)]
    return [eqn]


def _of_whole_rows(more: Atom, total: Eqn) -> tuple[list[Eqn], Atom]:
    """What is added, repeated where it is one number for a row, and the equation that does it."""
    shape = total.outputs[0].aval.shape
    if more.aval.shape == shape:
        return [], more
    whole = Var(more.aval.strong().like(shape))
    params = Params(shape=shape, dims=())
    return [total._replace(prim=BROADCAST, inputs=(more,), params=params, outputs=(whole,))], whole


def _read_at(old: Atom, write: Eqn, defined: Defined) -> tuple[Atom, ...] | None:
    """Where an element was read of the array that is written; None for all else."""
    read = _made_by(old, defined)
    if read is None or read.prim is not gather_p or read.params["axes"] != write.params["axes"]:
        return None
    return read.inputs[1:] if read.inputs[0] is write.inputs[0] else None


def _made_by(atom: Atom, defined: Defined) -> Eqn | None:
    return defined.get(atom) if isinstance(atom, Var) else None


def _all_same(xs: Sequence[Atom], ys: Sequence[Atom], defined: Defined, depth: int = 0) -> bool:
    return all([_same(x, y, defined, depth) for x, y in zip(xs, ys, strict=True)])


def _same(a: Atom, b: Atom, defined: Defined, depth: int = 0) -> bool:
    """Whether two indices are made alike; both are checked to be within the array, or none is."""
    if a is b:
        return True
    if isinstance(a, Lit) or isinstance(b, Lit):
        return isinstance(a, Lit) and isinstance(b, Lit) and a.aval == b.aval and a.value == b.value
    one, other = defined.get(a), defined.get(b)
    if one is None or other is None or one.prim is not other.prim or depth == DEEPEST:
        return False
    if not (one.prim.elementwise or one.prim in (gather_p, in_range_p)):
        return False
    if one.prim is not in_range_p and one.params != other.params:
        return False
    return _all_same(one.inputs, other.inputs, defined, depth + 1)
