"""L5. Pass `dce`: drop equations and constants that no output needs.

Pairs of transpositions that only tell the order of a result (`ir/order.py`) are needed by none.

Requires nothing.  Ensures that each equation has a result that is read later, or an effect, or that
ranks meet in it, or that it may raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.ir.order import without_pairs
from fgrad.ir.program import Atom, Eqn, Program
from fgrad.ir.walk import must_run
from fgrad.transforms.checkpoint.checkpoint import barrier_p


def dce(program: Program) -> Program:
    """The program without dead equations and constants; its inputs stay."""
    program = without_pairs(program)
    live: set[Atom] = set(program.outputs)
    kept, same = [], True
    for eqn in reversed(program.eqns):
        if live.isdisjoint(eqn.outputs) and not must_run(eqn):
            same = False
            continue
        if eqn.prim is barrier_p:
            whole = eqn
            eqn = without(eqn, [v not in live for v in eqn.outputs])
            same = same and eqn is whole
        kept.append(eqn)
        live.update(eqn.inputs)
    consts = tuple([pair for pair in program.consts if pair[0] in live])
    if same and len(consts) == len(program.consts):
        return program
    return program.replace(eqns=tuple(reversed(kept)), consts=consts, made_by="dce")


def without(eqn: Eqn, gone: Sequence[bool]) -> Eqn:
    """A barrier without some of its operands and their results."""
    if not any(gone):
        return eqn
    inputs = tuple([a for a, g in zip(eqn.inputs, gone, strict=True) if not g])
    outputs = tuple([v for v, g in zip(eqn.outputs, gone, strict=True) if not g])
    return eqn._replace(inputs=inputs, outputs=outputs)
