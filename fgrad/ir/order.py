"""L1. Program -> which results NumPy would have computed in C order.

y = scan[body=P] x      not in C order, if a result of P is not
a = permute y           two equations for a result that is not in C order, although all that
z = permute a           it was made of is: whoever runs the program again can tell it from them
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fgrad.base.source import Loc
from fgrad.ir.aval import varying
from fgrad.ir.basic import BASIC
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import programs_in, resolve_atom, resolve_operands
from fgrad.typing import EqnParams

Orders = tuple[bool, ...]


def orders_of(program: Program, loose: Collection[int] = ()) -> Orders:
    """Whether each result certainly lies in C order, where all inputs do but those at `loose`."""

    def find() -> Orders:
        unknown = {program.inputs[k] for k in loose}
        unknown.update(v for v, array in program.consts if not array.flags.c_contiguous)
        for eqn in program.eqns:
            kept = _kept(eqn, unknown)
            unknown.update(v for v, in_order in zip(eqn.outputs, kept, strict=True) if not in_order)
        return tuple([a not in unknown for a in program.outputs])

    return program.derived(("orders", *sorted(loose)), find)


def _kept(eqn: Eqn, unknown: Collection[Atom]) -> Orders:
    if eqn.prim.makes_order:
        return (True,) * len(eqn.outputs)
    if unknown and any([a in unknown for a in eqn.inputs]):
        return (False,) * len(eqn.outputs)
    if eqn.prim.reorders is None and eqn.prim.holds is None:
        return (True,) * len(eqn.outputs)
    avals = [a.aval for a in eqn.inputs]
    return kept_orders(eqn.prim, avals, eqn.params, len(eqn.outputs))


def kept_orders(prim: Primitive, values: Sequence[object], params: EqnParams, count: int) -> Orders:
    """Whether each result of an equation lies in C order, where all operands do."""
    if prim.holds is not None:
        return _held_orders(prim, params, count)
    return (prim.reorders is None or not prim.reorders(values, params),) * count


def _held_orders(prim: Primitive, params: EqnParams, count: int) -> Orders:
    """The orders of programs that run once; those of a loop start the next step."""
    found = [orders_of(p) for p in programs_in(params)]
    if not found:  # a custom rule, which knows of its function
        orders = getattr(params.get("rules"), "orders", None)
        found = [(False,) if orders is None else orders]
    if prim.holds is not Holds.LOOP and all([len(orders) == count for orders in found]):
        return tuple([all(each) for each in zip(*found, strict=True)])
    return (all([all(orders) for orders in found]),) * count


def with_orders(program: Program, orders: Sequence[bool], loose: Collection[int] = ()) -> Program:
    """The program with equations that tell of its results where they do not lie in C order; of the
    inputs at `loose` it is known that they may not."""
    outputs: list[Atom] = list(program.outputs)
    told = orders_of(program, loose)
    eqns: list[Eqn] = []
    for k, (atom, in_order, known) in enumerate(zip(outputs, orders, told, strict=True)):
        if known and not in_order:
            outputs[k] = _twice_permuted(atom, eqns, program.eqns[-1].loc)
    if not eqns:
        return program
    return program.replace(eqns=(*program.eqns, *eqns), outputs=tuple(outputs))


def _twice_permuted(atom: Atom, eqns: list[Eqn], loc: Loc | None) -> Var:
    prim, rank = BASIC.permute, len(atom.aval.shape)
    params = Params({"axes": tuple(range(rank))[::-1]})
    for _ in range(2):
        var = Var(varying(prim.type_of(atom.aval, **params), atom.aval.varies))
        eqns.append(Eqn(prim, (atom,), params, (var,), loc))
        atom = var
    assert isinstance(atom, Var)
    return atom


def without_pairs(program: Program) -> Program:
    """The program without transpositions of transpositions that change nothing: no compiled code
    asks for the order."""
    permute = BASIC.permute
    if len([eqn for eqn in program.eqns if eqn.prim is permute]) < 2:
        return program
    made: dict[Atom, Eqn] = {}
    same: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    for given in program.eqns:
        eqn = resolve_operands(given, same)
        if eqn.prim is permute:
            (x,), (out,), axes = eqn.inputs, eqn.outputs, eqn.params["axes"]
            first = made.get(x)
            if first is not None and _changes_nothing(first.params["axes"], axes):
                same[out] = first.inputs[0]
                continue
            made[out] = eqn
        eqns.append(eqn)
    outputs = tuple([resolve_atom(a, same) for a in program.outputs])
    return program.replace(eqns=tuple(eqns), outputs=outputs) if same else program


def _changes_nothing(first: Sequence[int], then: Sequence[int]) -> bool:
    return all([first[a] == k for k, a in enumerate(then)])
