"""L5. Pass `ahead`: functions of what a loop walks along are computed before it, by lanes.

    scan t, x_i -> t + pow(x_i, k_i)     becomes     y = scan x_i -> pow(x_i, k_i)    lanes
                                                     scan t, y_i -> t + y_i           in order

A loop in order computes one number after the other, and a power or a logarithm takes several times
as long so.  Requires prepared bodies.  Ensures the same results: the order of the loop is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.loops.find_batch_axes import FEWEST_PLACES
from fgrad.compile.loops.prepare import prepared
from fgrad.compile.loops.writer import KINDS
from fgrad.compile.lower.rules import MOVES
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.rewriter import number_of
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.traits import Cost
from fgrad.ir.walk import cost_of, definitions, is_ordered, resolve_atom, resolve_operands
from fgrad.ops import primitives as prims

FEW_NUMBERS = 8  # of a result in a step
MOST_BYTES = 1 << 26  # of what is kept between the two loops


def compute_ahead(program: Program) -> Program:
    """The program with loops in two: what needs no carry, and the rest."""
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        eqns += _in_two(eqn) if eqn.prim is prims.scan else [eqn]
    if len(eqns) == len(program.eqns):
        return program
    return program.replace(eqns=tuple(eqns), made_by="ahead")


class _Found(NamedTuple):
    """What a step computes without its carry, and what of it takes long."""

    early: dict[Var, Eqn]
    costly: set[Var]


def _counters(eqn: Eqn) -> list[Var]:
    """The carries of a loop that count its steps: 0, 1, 2, ..."""
    p, body = eqn.params, eqn.params["body"]
    made = definitions(body.eqns)
    found: list[Var] = []
    for k in range(0 if p["reverse"] else p["n_carry"]):
        v, start = body.inputs[p["n_consts"] + k], eqn.inputs[p["n_consts"] + k]
        step = made.get(body.outputs[k])
        if step is None or step.prim is not prims.add or v.aval.dtype != INT64:
            continue
        if step.inputs[0] is v and number_of(step.inputs[1]) == 1 and number_of(start) == 0:
            found.append(v)
    return found


def _search(eqn: Eqn, counters: Sequence[Var]) -> _Found:
    p, body = eqn.params, eqn.params["body"]
    late = set(body.inputs[p["n_consts"] : p["n_consts"] + p["n_carry"]]) - {*counters}
    early: dict[Var, Eqn] = {}
    costly: set[Var] = set()
    for eqn in body.eqns:
        read = [a for a in eqn.inputs if isinstance(a, Var)]
        if not _is_small(eqn) or not late.isdisjoint(read):
            late.update(eqn.outputs)
            continue
        early[eqn.outputs[0]] = eqn
        if cost_of(eqn) >= Cost.FUNCTION or not costly.isdisjoint(read):
            costly.add(eqn.outputs[0])
    return _Found(early, costly)


def _is_small(eqn: Eqn) -> bool:
    """Whether an equation computes or reads a few numbers, and nothing can fail."""
    if len(eqn.outputs) != 1 or is_ordered(eqn) or eqn.outputs[0].aval.size > FEW_NUMBERS:
        return False
    kinds = all([a.aval.dtype.kind in KINDS for a in (*eqn.inputs, *eqn.outputs)])
    return kinds and (eqn.prim.scalar is not None or eqn.prim in MOVES)


def _in_two(eqn: Eqn) -> list[Eqn]:
    """A loop as one without a carry and one that reads its results; itself where nothing is won."""
    p, body = eqn.params, eqn.params["body"]
    first, stop = p["n_consts"], p["n_consts"] + p["n_carry"]
    if not p["n_carry"] or p["length"] < FEWEST_PLACES:
        return [eqn]
    counters = _counters(eqn)
    found = _search(eqn, counters)
    late = [e for e in body.eqns if e.outputs[0] not in found.early]
    read = [a for e in late for a in e.inputs] + list(body.outputs[: p["n_carry"]])
    between = list(dict.fromkeys([a for a in read if isinstance(a, Var) and a in found.costly]))
    made = [k for k, a in enumerate(body.outputs) if k >= p["n_carry"] and a in found.costly]
    kept = sum([v.aval.size * v.aval.dtype.itemsize for v in between]) * p["length"]
    if not (between or made) or kept > MOST_BYTES:
        return [eqn]
    stacks = [Var(Aval((p["length"], *v.aval.shape), v.aval.dtype)) for v in between]
    places = [Var(Aval((p["length"],), INT64)) for _ in counters]
    count = Params({"shape": (p["length"],), "dtype": INT64, "axis": 0})
    lanes = body.replace(
        inputs=(*body.inputs[:first], *body.inputs[stop:], *counters),
        eqns=tuple(found.early.values()),
        outputs=(*between, *[body.outputs[k] for k in made]),
    )
    before = eqn._replace(
        inputs=(*eqn.inputs[:first], *eqn.inputs[stop:], *places),
        params=Params({**p, "body": prepared(dce(lanes)), "n_carry": 0}),
        outputs=(*stacks, *[eqn.outputs[k] for k in made]),
    )
    counted = [Eqn(prims.iota, (), count, (v,), eqn.loc, eqn.via) for v in places]
    return [*counted, before, _rest(eqn, between, stacks, made)]


def _rest(eqn: Eqn, between: list[Var], stacks: list[Var], made: list[int]) -> Eqn:
    """The loop that walks along the results of the one before it."""
    body: Program = eqn.params["body"]
    env: dict[Var, Atom] = {v: Var(v.aval) for v in between}
    items = tuple([v for v in env.values() if isinstance(v, Var)])
    own = [k for k in range(len(body.outputs)) if k not in made]
    eqns = [resolve_operands(e, env) for e in body.eqns]
    rest = body.replace(
        inputs=(*body.inputs, *items),
        eqns=tuple(eqns),
        outputs=tuple([resolve_atom(body.outputs[k], env) for k in own]),
    )
    return eqn._replace(
        inputs=(*eqn.inputs, *stacks),
        params=Params({**eqn.params, "body": prepared(dce(rest))}),
        outputs=tuple([eqn.outputs[k] for k in own]),
    )
