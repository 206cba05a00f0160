"""L3. Programs without the types of named axes: what one rank runs.

v = pvary[axis=data] w;  y = mul x{data} v{data}       becomes       y = mul x w
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgrad.base.kinds import is_tuple
from fgrad.ir.aval import NO_AXES, varying
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ops.collectives import pvary_p


def untyped(program: Program) -> Program:
    """The program on arrays of which nothing is said to vary."""
    return program.derived("untyped", lambda: _untyped(program))


def without_types(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an equation, whose programs are untyped."""
    return {k: _value(v) for k, v in params.items()}


def _value(x: Any) -> Any:
    if isinstance(x, Program):
        return untyped(x)
    if is_tuple(x) and any([isinstance(item, Program) for item in x]):
        return tuple([_value(item) for item in x])
    return x


def _untyped(program: Program) -> Program:
    env: dict[Atom, Atom] = {}

    def plain(var: Var) -> Var:
        env[var] = out = Var(varying(var.aval, NO_AXES))
        return out

    inputs = tuple([plain(v) for v in program.inputs])
    consts = tuple([(plain(v), array) for v, array in program.consts])
    eqns: list[Eqn] = []
    for prim, given, params, outputs, loc, via in program.eqns:
        operands = tuple([env.get(a, a) for a in given])
        if prim is pvary_p:
            env[outputs[0]] = operands[0]
            continue
        outs = tuple([plain(v) for v in outputs])
        eqns.append(Eqn(prim, operands, Params(without_types(params)), outs, loc, via))
    results = tuple([env.get(a, a) for a in program.outputs])
    return program.replace(inputs=inputs, consts=consts, eqns=tuple(eqns), outputs=results)
