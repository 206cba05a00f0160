"""L5. Pass `inline`: call[program=P] a -> the equations of P, at any depth.

Requires nothing.  Ensures that no `call` equation is left, so that later passes see across calls.
Primitives that are compositions of others (`EXPANSIONS`) are replaced by theirs in the same walk,
and loops lose the roles that they have in derivatives: later passes change their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from fgrad.compile.passes import compositions
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import resolve_atom, resolve_operands
from fgrad.ops.collectives import entered_p
from fgrad.transforms.checkpoint.names import NAME as checkpoint_name_p

Expansions: TypeAlias = "Mapping[Primitive, Callable[[Eqn], Program | None]]"

# Of primitives that later passes do not know.
IDENTITIES: dict[Primitive, Callable[[Eqn], Program | None]] = {
    checkpoint_name_p: lambda eqn: _identity(eqn),
    entered_p: lambda eqn: _identity(eqn),
}
EXPANSIONS: Expansions = {**IDENTITIES, **compositions.EXPANSIONS}


def _identity(eqn: Eqn) -> Program:
    """A name that no policy looks for any more, or a place that no derivative crosses."""
    x = Var(eqn.inputs[0].aval.strong())
    return Program("identity", (x,), (), (), (x,), "inline")


def inline_calls(program: Program, expansions: Expansions = EXPANSIONS) -> Program:
    """The program with every nested call and composition replaced by its equations; `expansions`
    are what a primitive is composed of, for who reads the result."""
    if not any([_is_expanded(eqn.prim, expansions) or _has_role(eqn) for eqn in program.eqns]):
        return program
    eqns: list[Eqn] = []
    consts = list(program.consts)
    env: dict[Var, Atom] = {}
    pending: list[
        tuple[Iterator[Eqn], dict[Var, Atom], Eqn | None, Sequence[Atom], dict[Var, Atom]]
    ]
    pending = [(iter(program.eqns), env, None, (), env)]
    while pending:
        rest, env, call, results, outer = pending[-1]
        eqn = next(rest, None)
        if eqn is None:
            pending.pop()
            if call is not None:
                outs = [resolve_atom(a, env) for a in results]
                outer.update(zip(call.outputs, outs, strict=True))
        elif (body := _expansion(eqn, expansions)) is not None:
            actual = [resolve_atom(a, env) for a in eqn.inputs]
            inner: dict[Var, Atom] = dict(zip(body.inputs, actual, strict=True))
            for var, array in body.consts:
                inner[var] = fresh = Var(var.aval)
                consts.append((fresh, array))
            pending.append((iter(body.eqns), inner, eqn, body.outputs, env))
        else:
            eqn = resolve_operands(eqn, env)
            if _has_role(eqn):
                eqn = eqn._replace(params=Params({**eqn.params, "role": None}))
            if len(pending) > 1:
                eqn = _renamed(eqn, env, pending[-1][2])
            eqns.append(eqn)
    top: dict[Var, Atom] = env
    outputs = tuple([resolve_atom(a, top) for a in program.outputs])
    return program.replace(
        consts=tuple(consts), eqns=tuple(eqns), outputs=outputs, made_by="inline"
    )


def _is_expanded(prim: Primitive, expansions: Expansions) -> bool:
    return prim.holds is Holds.CALL or prim in expansions or prim.composition is not None


def _has_role(eqn: Eqn) -> bool:
    return eqn.prim.holds is Holds.LOOP and eqn.params.get("role") is not None


def _expansion(eqn: Eqn, expansions: Expansions) -> Program | None:
    if eqn.prim.holds is Holds.CALL:
        return eqn.params["program"]
    if eqn.prim.composition is not None:
        return eqn.prim.composition([a.aval for a in eqn.inputs], **eqn.params)
    expand = expansions.get(eqn.prim)
    return None if expand is None else expand(eqn)


def _renamed(eqn: Eqn, env: dict[Var, Atom], call: Eqn | None) -> Eqn:
    """A copy that binds fresh variables, since a program may be called more than once."""
    fresh = tuple([Var(v.aval) for v in eqn.outputs])
    env.update(zip(eqn.outputs, fresh, strict=True))
    loc = eqn.loc if eqn.loc is not None or call is None else call.loc
    return eqn._replace(outputs=fresh, loc=loc)
