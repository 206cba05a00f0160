"""L5. Pass `fuse`: which equations share a kernel, and which results get a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fgrad.compile.lower_nest import NESTS
from fgrad.compile.lower_rules import MOVES, REDUCTIONS
from fgrad.compile.steps import Group
from fgrad.ir.program import Eqn, Program, Var
from fgrad.ir.walk import use_counts

_HEAVY = frozenset({"exp", "log", "sin", "cos", "tanh", "div", "sqrt", "pow", "erf", "logistic"})


class Fusion(NamedTuple):
    """Groups in order, and the equations of variables that have no buffer."""

    groups: list[Group]
    virtual: Mapping[Var, Eqn]


def fuse(program: Program) -> Fusion:
    """Partition the equations of a program."""
    uses = use_counts(program)
    outputs = {a for a in program.outputs if type(a) is Var}
    buffers = set(program.inputs) | {v for v, _ in program.consts}
    virtual: dict[Var, Eqn] = {}
    cost: dict[Var, int] = {}
    groups: list[Group] = []
    for eqn in program.eqns:
        name = eqn.prim.name
        out = eqn.outputs[0]
        spent = sum([cost.get(a, 0) for a in eqn.inputs if type(a) is Var])
        if name == "reshape" and eqn.inputs[0] in buffers:
            groups.append(Group("alias", (eqn,), eqn.outputs))
            buffers.add(out)
            continue
        if name == "concatenate" or (name in NESTS and name not in MOVES):
            groups.append(Group("nest", (eqn,), eqn.outputs))
            buffers.update(eqn.outputs)
            continue
        if name in ("sort",):
            groups.append(Group("library", (eqn,), eqn.outputs))
            buffers.update(eqn.outputs)
            continue
        spent += 8 if name in _HEAVY else 1 if name not in MOVES else 0
        stays = name in REDUCTIONS or name in ("dot_general", "conv") or out in outputs
        if stays or (uses.get(out, 0) > 1 and spent > 4) or spent > 400:
            domain = out.aval.shape
            groups.append(Group("loop", (eqn,), eqn.outputs, domain, len(domain)))
            buffers.update(eqn.outputs)
        else:
            virtual[out] = eqn
            cost[out] = spent
    return Fusion(groups, virtual)
