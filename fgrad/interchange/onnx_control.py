"""L7. Loops and branches as nodes of ONNX: their graphs read what stands around them.

scan     Loop of a known number of steps; results of steps are stacked by the node
while    Loop with a condition
switch   If, in If, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.interchange.onnx_writer import NOTHING, Ref, Rule, Writer
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.program import Eqn, Program

Body = Callable[[Ref, list[Ref]], Sequence[Ref]]


def _loop(
    w: Writer, eqn: Eqn, steps: Ref, first: Ref, carry: Sequence[Ref], body: Body
) -> list[Ref]:
    """A Loop; `body` gives the condition, the carry and what is stacked."""
    step, goes_on = Ref(w.fresh(), (), INT64), Ref(w.fresh(), (), BOOL)
    inside = [Ref(w.fresh(), x.shape, x.dtype) for x in carry]
    graph = w.graph("body", [step, goes_on, *inside], lambda: body(step, inside))
    results = [Ref(w.fresh(), v.aval.shape, v.aval.dtype) for v in eqn.outputs]
    return w.node("Loop", [steps, first, *carry], results, body=graph)


def _while(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    p = eqn.params
    n_cond, n_body = p["n_cond"], p["n_body"]
    tests, consts, carry = xs[:n_cond], xs[n_cond : n_cond + n_body], xs[n_cond + n_body :]

    def body(_step: Ref, inside: list[Ref]) -> Sequence[Ref]:
        outs = w.body(p["body"], [*consts, *inside])
        return [*w.body(p["cond"], [*tests, *outs]), *outs]

    (first,) = w.body(p["cond"], [*tests, *carry])
    return _loop(w, eqn, NOTHING, first, carry, body)


def _scan(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    p = eqn.params
    n_consts, n_carry, length = p["n_consts"], p["n_carry"], p["length"]
    consts, items = xs[:n_consts], xs[n_consts + n_carry :]
    carry = xs[n_consts : n_consts + n_carry]
    stacks = eqn.outputs[n_carry:]
    if not length:
        return [
            *carry,
            *[w.wide(w.scalar(0, v.aval.dtype), v.aval.shape) for v in stacks],
        ]

    def body(step: Ref, inside: list[Ref]) -> Sequence[Ref]:
        place = w.each("Sub", w.scalar(length - 1, INT64), step) if p["reverse"] else step
        elements = [w.op("Gather", [x, place], x.shape[1:], x.dtype, axis=0) for x in items]
        return [w.scalar(True, BOOL), *w.body(p["body"], [*consts, *inside, *elements])]

    outs = _loop(w, eqn, w.scalar(length, INT64), NOTHING, carry, body)
    if not p["reverse"]:
        return outs
    return [*outs[:n_carry], *[_backwards(w, y) for y in outs[n_carry:]]]


def _backwards(w: Writer, y: Ref) -> Ref:
    bounds = [w.ints([v]) for v in (-1, -(1 << 62), 0, -1)]
    return w.op("Slice", [y, *bounds], y.shape, y.dtype)


def _switch(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    return _branch(w, eqn, xs[0], eqn.params["branches"], xs[1:])


def _branch(
    w: Writer, eqn: Eqn, index: Ref, branches: Sequence[Program], operands: Sequence[Ref]
) -> list[Ref]:
    """The first branch for numbers up to 0, else one of the others."""
    first, *others = branches
    if not others:
        return w.body(first, operands)

    def further() -> Sequence[Ref]:
        following = w.each("Sub", index, w.scalar(1, INT64))
        return _branch(w, eqn, following, others, operands)

    chosen = w.compare("LessOrEqual", index, w.scalar(0, INT64))
    graphs = {
        "then_branch": w.graph("first", [], lambda: w.body(first, operands)),
        "else_branch": w.graph("others", [], further),
    }
    results = [Ref(w.fresh(), v.aval.shape, v.aval.dtype) for v in eqn.outputs]
    return w.node("If", [chosen], results, **graphs)


CONTROL: dict[str, Rule] = {"scan": _scan, "while": _while, "switch": _switch}
