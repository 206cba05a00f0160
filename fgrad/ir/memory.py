"""L1. The memory that a program needs if each equation runs by itself, in order."""

from __future__ import annotations

from fgrad.ir.aval import Aval
from fgrad.ir.program import Program, Var


def bytes_of(aval: Aval) -> int:
    """The bytes of an array."""
    return aval.size * aval.dtype.itemsize


def peak_bytes(program: Program) -> int:
    """The most bytes of results that are alive at once, its inputs not counted."""
    last: dict[Var, int] = {}
    for k, eqn in enumerate(program.eqns):
        last.update({a: k for a in eqn.inputs if type(a) is Var})
    last.update({a: len(program.eqns) for a in program.outputs if type(a) is Var})
    dying: dict[int, list[Var]] = {}
    made = {v for eqn in program.eqns for v in eqn.outputs}
    for var, k in last.items():
        if var in made:
            dying.setdefault(k, []).append(var)
    alive = peak = 0
    for k, eqn in enumerate(program.eqns):
        alive += sum([bytes_of(v.aval) for v in eqn.outputs])
        peak = max(peak, alive)
        alive -= sum([bytes_of(v.aval) for v in dying.get(k, ())])
        alive -= sum([bytes_of(v.aval) for v in eqn.outputs if v not in last])
    return peak
