"""L5. In which order the equations of a loop's body are written: who reads an array in memory
stands before the one that overwrites it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.walk import consumers, definitions
from fgrad.ops import primitives as prims


def ordered(program: Program, mutable: set[Var]) -> list[Eqn]:
    """The equations with all readers of an array in memory before the one that overwrites it."""
    defined, readers = definitions(program.eqns), consumers(program.eqns)
    number = {id(eqn): k for k, eqn in enumerate(program.eqns)}
    versions = set(mutable)
    after: list[set[int]] = [set() for _ in program.eqns]  # what waits for each equation
    waits = [0] * len(program.eqns)

    def edge(first: int, then: int) -> None:
        if then not in after[first]:
            after[first].add(then)
            waits[then] += 1

    for k, eqn in enumerate(program.eqns):
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom in defined:
                edge(number[id(defined[atom])], k)
        old = [a for a in replaced(eqn) if isinstance(a, Var) and a in versions]
        if old and (made := overwritten(eqn)):
            versions.update(made)
            for var in old:
                for reader in readers[var]:
                    if reader is not eqn:
                        edge(number[id(reader)], k)
    ready = [k for k, n in enumerate(waits) if not n]
    found = []
    while ready:
        k = heapq.heappop(ready)
        found.append(program.eqns[k])
        for then in after[k]:
            waits[then] -= 1
            if not waits[then]:
                heapq.heappush(ready, then)
    return found if len(found) == len(program.eqns) else list(program.eqns)


def last_uses(program: Program, eqns: Sequence[Eqn]) -> dict[Var, int]:
    """The number of the last equation that reads each variable."""
    last: dict[Var, int] = {}
    for k, eqn in enumerate(eqns):
        last.update({a: k for a in eqn.inputs if isinstance(a, Var)})
    last.update({a: len(eqns) for a in program.outputs if isinstance(a, Var)})
    return last


def overwritten(eqn: Eqn) -> Sequence[Var]:
    """The results that may be later versions of an operand in memory."""
    if eqn.prim in (prims.scatter, prims.dynamic_update, prims.add):
        return eqn.outputs
    if eqn.prim in (prims.scan, prims.while_, prims.switch):
        shapes = [(a.aval.shape, a.aval.dtype) for a in eqn.inputs]
        return [v for v in eqn.outputs if (v.aval.shape, v.aval.dtype) in shapes]
    return ()


def replaced(eqn: Eqn) -> Sequence[Atom]:
    """The operands of which results may be later versions: no constants of loops."""
    p = eqn.params
    if eqn.prim is prims.scan:
        return eqn.inputs[p["n_consts"] : p["n_consts"] + p["n_carry"]]
    if eqn.prim is prims.while_:
        return eqn.inputs[p["n_cond"] + p["n_body"] :]
    made = [(v.aval.shape, v.aval.dtype) for v in overwritten(eqn)]
    return [a for a in eqn.inputs if (a.aval.shape, a.aval.dtype) in made]
