"""L3. Counters: integer carries of a loop to which every step adds the same number, and the parts
of the condition that ends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fgrad.ir.aval import INT64
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops.checked import checked_p
from fgrad.ops.elementwise import and_, convert_p, sub_p
from fgrad.ops.families import bound_by
from fgrad.ops.selected import ADD

AND = bound_by(and_)


def counter_step(program: Program, given: Var, result: Atom) -> int | None:
    """The number that every step adds to an integer; None if it does something else."""
    if given.aval.shape or given.aval.dtype != INT64:
        return None
    if result is given:
        return 0
    defined = definitions(program.eqns)
    made = same_integer(result, defined)
    eqn = defined.get(made) if isinstance(made, Var) else None
    if eqn is None or eqn.prim not in (ADD, sub_p):
        return None
    x, y = [same_integer(a, defined) for a in eqn.inputs]
    if x is not given and eqn.prim is ADD:
        x, y = y, x
    if x is not given or not isinstance(y, Lit):
        return None
    return int(y.value) if eqn.prim is ADD else -int(y.value)


def conjuncts(holds: Atom, defined: Mapping[Var, Eqn]) -> Iterator[Atom]:
    """The truth values that all hold where `holds` does: the operands of `and` in it."""
    left = [holds]
    while left:
        atom = left.pop()
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is not None and eqn.prim is AND:
            left += eqn.inputs
        else:
            yield atom


def same_integer(atom: Atom, defined: Mapping[Var, Eqn]) -> Atom:
    """What an integer was before checks, and conversions to the dtype that it has."""
    eqn = defined.get(atom) if isinstance(atom, Var) else None
    while eqn is not None and eqn.prim in (convert_p, checked_p):
        x = eqn.inputs[0]
        if x.aval.dtype != atom.aval.dtype:
            break
        atom, eqn = x, defined.get(x) if isinstance(x, Var) else None
    return atom
