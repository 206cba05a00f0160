"""L5. Pass `dce`: an equation or constant that no output needs is dropped.

Requires nothing.  Ensures that each equation has a result that is read later.
"""

from __future__ import annotations

from fgrad.ir.program import Program, Var


def dce(program: Program) -> Program:
    """The program without dead equations and constants; its inputs stay."""
    live = {atom for atom in program.outputs if type(atom) is Var}
    kept = []
    for eqn in reversed(program.eqns):
        if any(v in live for v in eqn.outputs):
            kept.append(eqn)
            live.update([a for a in eqn.inputs if type(a) is Var])
    consts = tuple([pair for pair in program.consts if pair[0] in live])
    if len(kept) == len(program.eqns) and len(consts) == len(program.consts):
        return program
    return program.replace(eqns=tuple(reversed(kept)), consts=consts, made_by="dce")
