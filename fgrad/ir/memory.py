"""L1. Program -> its peak memory if the equations run one by one, in order."""

from __future__ import annotations

from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.walk import programs_in


def is_view(eqn: Eqn) -> bool:
    """Whether the results share the memory of the operands."""
    movement = eqn.prim.movement
    return movement is not None and movement.view


def bytes_of(aval: Aval) -> int:
    """The bytes of an array."""
    return aval.size * aval.dtype.itemsize


def peak_bytes(program: Program) -> int:
    """The most bytes of results that are alive at once, its inputs not counted.

    Programs in the parameters of an equation count while it runs.
    """
    owner: dict[Atom, Atom] = {}

    def owned(atom: Atom) -> Atom:
        return owner.get(atom, atom)

    for eqn in program.eqns:
        if is_view(eqn):
            owner.update({v: owned(a) for v, a in zip(eqn.outputs, eqn.inputs, strict=False)})
    last: dict[Atom, int] = {}
    for k, eqn in enumerate(program.eqns):
        last.update({owned(a): k for a in eqn.inputs})
    last.update({owned(a): len(program.eqns) for a in program.outputs})
    dying: dict[int, list[Atom]] = {}
    for atom, k in last.items():
        dying.setdefault(k, []).append(atom)
    made: set[Atom] = set()
    alive = peak = 0
    for k, eqn in enumerate(program.eqns):
        peak = max(peak, alive + _inside(eqn))
        if not is_view(eqn):
            fresh = [v for v in eqn.outputs if v in last]
            made.update(fresh)
            alive += sum([bytes_of(v.aval) for v in fresh])
            peak = max(peak, alive + sum([bytes_of(v.aval) for v in eqn.outputs if v not in last]))
        alive -= sum([bytes_of(a.aval) for a in dying.get(k, ()) if a in made])
    return peak


def _inside(eqn: Eqn) -> int:
    """The memory of the programs that an equation holds: one of them runs at a time."""
    return max([_peak_of(p) for p in programs_in(eqn.params)], default=0)


def _peak_of(program: Program) -> int:
    return program.derived("peak", lambda: peak_bytes(program))


def live_bytes(program: Program) -> list[int]:
    """For each equation, the bytes of earlier results that it or a later one reads."""
    last: dict[Atom, int] = {}
    for k, eqn in enumerate(program.eqns):
        last.update({a: k for a in eqn.inputs if type(a) is Var})
    change = [0] * (len(program.eqns) + 1)
    for k, eqn in enumerate(program.eqns):
        for var in eqn.outputs:
            if last.get(var, k) > k:
                change[k + 1] += bytes_of(var.aval)
                change[last[var] + 1] -= bytes_of(var.aval)
    total = 0
    found: list[int] = []
    for c in change[:-1]:
        total += c
        found.append(total)
    return found
