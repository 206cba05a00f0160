"""L5. Branches that one number chooses are one branch.

    y = switch(i, f, g) x;  z = switch(i, h, k) w     becomes     y, z = switch(i, fh, gk) x w

A derivative has a switch for the values and one for the bits of a cotangent, which read the same
arrays.  One after the other they would read what the first has overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import is_ordered, resolve_atom, resolve_operands
from fgrad.ops import primitives as prims


def join_branches(program: Program) -> Program:
    """The program in which switches by one number are one, where nothing between them needs or
    changes what they share."""
    switches = [eqn for eqn in program.eqns if _joins(eqn)]
    if len({eqn.inputs[0] for eqn in switches}) == len(switches):
        return program
    eqns: list[Eqn] = []
    waiting: list[Eqn] = []
    for eqn in program.eqns:
        if waiting and _must_follow(eqn, waiting):
            eqns.append(_joined(waiting))
            waiting = []
        (waiting if _joins(eqn) else eqns).append(eqn)
    if waiting:
        eqns.append(_joined(waiting))
    return program if len(eqns) == len(program.eqns) else program.replace(eqns=tuple(eqns))


def _joins(eqn: Eqn) -> bool:
    return eqn.prim is prims.switch and len(eqn.params["branches"]) > 1 and not is_ordered(eqn)


def _must_follow(eqn: Eqn, waiting: Sequence[Eqn]) -> bool:
    """Whether an equation comes after some switches, and not before or among them."""
    if any([not set(w.outputs).isdisjoint(eqn.inputs) for w in waiting]):
        return True
    if _joins(eqn):
        first = waiting[0]
        alike = len(eqn.params["branches"]) == len(first.params["branches"])
        return eqn.inputs[0] is not first.inputs[0] or not alike
    shared = {a for w in waiting for a in w.inputs if a.aval.shape}
    return not shared.isdisjoint(eqn.inputs) or is_ordered(eqn)


def _joined(switches: Sequence[Eqn]) -> Eqn:
    """Several switches as one."""
    first = switches[0]
    if len(switches) == 1:
        return first
    operands = list(dict.fromkeys([a for eqn in switches for a in eqn.inputs[1:]]))
    branches = [
        _together([(eqn, eqn.params["branches"][k]) for eqn in switches], operands)
        for k in range(len(first.params["branches"]))
    ]
    return first._replace(
        inputs=(first.inputs[0], *operands),
        params=Params({**first.params, "branches": tuple(branches)}),
        outputs=tuple([v for eqn in switches for v in eqn.outputs]),
    )


def _together(parts: Sequence[tuple[Eqn, Program]], operands: Sequence[Atom]) -> Program:
    """One branch of each of some switches as a program of all operands."""
    given = {a: Var(a.aval.strong()) for a in operands}
    consts: list[tuple[Var, np.ndarray]] = []
    eqns: list[Eqn] = []
    outputs: list[Atom] = []
    for eqn, branch in parts:
        actual = [given[a] for a in eqn.inputs[1:]]
        env: dict[Var, Atom] = dict(zip(branch.inputs, actual, strict=True))
        own = [(Var(v.aval), array) for v, array in branch.consts]
        env.update(zip([v for v, _ in branch.consts], [v for v, _ in own], strict=True))
        consts += own
        for inner in branch.eqns:  # several may be one program
            made = tuple([Var(v.aval) for v in inner.outputs])
            eqns.append(resolve_operands(inner, env)._replace(outputs=made))
            env.update(zip(inner.outputs, made, strict=True))
        outputs += [resolve_atom(a, env) for a in branch.outputs]
    name = parts[0][1].name
    ins = tuple(given.values())
    return Program(name, ins, tuple(consts), tuple(eqns), tuple(outputs), "join_branches")
