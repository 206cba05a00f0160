"""L7. Loops and branches as StableHLO.

scan     while (k < length): the carry and the stacks of results; elements are read at k
while    while: its regions read constants where they stand
switch   case, of a number that is clamped
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.interchange.stablehlo_writer import Ref, Rule, Writer
from fgrad.ir.aval import INT32, INT64
from fgrad.ir.program import Eqn

Region = Callable[[Sequence[Ref]], Sequence[Ref]]


def _loop(w: Writer, carry: Sequence[Ref], cond: Region, body: Region) -> list[Ref]:
    inside = [Ref(w.fresh(), x.shape, x.dtype) for x in carry]
    results = [(x.shape, x.dtype) for x in carry]
    regions = [lambda: cond(inside), lambda: body(inside)]
    return w.generic("stablehlo.while", carry, results, "", regions, inside)


def _while(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    p = eqn.params
    n_cond, n_body = p["n_cond"], p["n_body"]
    tests, consts, carry = xs[:n_cond], xs[n_cond : n_cond + n_body], xs[n_cond + n_body :]

    def cond(inside: Sequence[Ref]) -> Sequence[Ref]:
        return w.body(p["cond"], [*tests, *inside])

    return _loop(w, carry, cond, lambda inside: w.body(p["body"], [*consts, *inside]))


def _scan(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    p = eqn.params
    n_consts, n_carry, length = p["n_consts"], p["n_carry"], p["length"]
    consts, items = xs[:n_consts], xs[n_consts + n_carry :]
    carry = xs[n_consts : n_consts + n_carry]
    stacks = [w.wide(w.scalar(0, v.aval.dtype), v.aval.shape) for v in eqn.outputs[n_carry:]]
    if not length:
        return [*carry, *stacks]

    def cond(inside: Sequence[Ref]) -> Sequence[Ref]:
        return [w.compare("LT", inside[0], w.scalar(length, INT64))]

    def body(inside: Sequence[Ref]) -> Sequence[Ref]:
        step = inside[0]
        place = step
        if p["reverse"]:
            place = w.hlo("stablehlo.subtract", w.scalar(length - 1, INT64), step)
        elements = [_element(w, x, place) for x in items]
        outs = w.body(p["body"], [*consts, *inside[1 : 1 + n_carry], *elements])
        filled = [
            _stored(w, stack, y, place)
            for stack, y in zip(inside[1 + n_carry :], outs[n_carry:], strict=True)
        ]
        following = w.hlo("stablehlo.add", step, w.scalar(1, INT64))
        return [following, *outs[:n_carry], *filled]

    return _loop(w, [w.scalar(0, INT64), *carry, *stacks], cond, body)[1:]


def _starts(w: Writer, place: Ref, rank: int) -> list[Ref]:
    return [place, *[w.scalar(0, INT64)] * rank]


def _element(w: Writer, x: Ref, place: Ref) -> Ref:
    shape = x.shape[1:]
    starts = _starts(w, place, len(shape))
    how = f", sizes = {[1, *shape]}"
    part = w.op("stablehlo.dynamic_slice", [x, *starts], (1, *shape), x.dtype, how)
    return w.reshape(part, shape)


def _stored(w: Writer, stack: Ref, y: Ref, place: Ref) -> Ref:
    operands = [stack, w.reshape(y, (1, *y.shape)), *_starts(w, place, len(y.shape))]
    results = [(stack.shape, stack.dtype)]
    return w.generic("stablehlo.dynamic_update_slice", operands, results)[0]


def _switch(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    index, *operands = xs
    branches = eqn.params["branches"]
    last = w.scalar(len(branches) - 1, INT64)
    index = w.hlo("stablehlo.minimum", w.hlo("stablehlo.maximum", index, w.scalar(0, INT64)), last)
    results = [(v.aval.shape, v.aval.dtype) for v in eqn.outputs]
    regions = [lambda b=b: w.body(b, operands) for b in branches]
    return w.generic("stablehlo.case", [w.convert(index, INT32)], results, "", regions)


CONTROL: dict[str, Rule] = {"scan": _scan, "while": _while, "switch": _switch}
