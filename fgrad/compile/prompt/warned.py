"""L5. Program -> its values of which a number that is not finite may stay unseen in the results.

NumPy warns where finite numbers give infinity or NaN.  Mostly these go on to the results, which are
looked at in each call; but 1 / (1 + inf) is 0, and `np.where` may leave them out.  Such values are
looked at themselves, so that a call where NumPy would warn is interpreted, and warns: the program
is run once more up to them, its loops with one more carry; what both runs share is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.prompt.outside import Refused
from fgrad.ir.aval import BOOL, Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.traits import Cost
from fgrad.ir.walk import programs_in
from fgrad.ops import primitives as prims
from fgrad.trace import Tracer, bind, run, trace
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree

# Operands that give a number that is not finite wherever they are not, whatever the others are.
_ALL = frozenset({
    prims.add, prims.sub, prims.mul, prims.neg, prims.abs, prims.sqrt, prims.cbrt, prims.log,
    prims.log1p, prims.log2, prims.log10, prims.sin, prims.cos, prims.tan, prims.sinh, prims.cosh,
    prims.asin, prims.acos, prims.asinh, prims.conj, prims.complex, prims.reduce_sum,
    prims.reduce_prod, prims.cumsum, prims.cumprod, prims.dot_general, prims.reshape,
    prims.permute, prims.broadcast, prims.concatenate, prims.reverse, prims.convert,
    prims.stop_gradient,
})  # fmt: skip
_FIRST = frozenset({prims.div, prims.checked, prims.in_range})
# What gives no number that is not finite of finite ones, though it computes.
_SILENT = frozenset({
    prims.neg, prims.abs, prims.max, prims.min, prims.clip, prims.floor, prims.ceil, prims.trunc,
    prims.rint, prims.sign, prims.select, prims.sin, prims.cos, prims.tanh, prims.atan,
    prims.atan2, prims.erf, prims.erfc, prims.copysign, prims.stop_gradient,
    prims.checked, prims.in_range, prims.required, prims.reduce_max, prims.reduce_min,
    prims.cummax, prims.cummin, prims.sort, prims.real, prims.imag, prims.conj, prims.complex,
    prims.asinh, prims.cbrt, prims.bitcast, prims.isfinite, prims.isnan, prims.isinf,
})  # fmt: skip


class Hidden(NamedTuple):
    """What must be looked at in a program, and in the bodies of its equations, by their numbers."""

    values: list[Var]
    inside: dict[int, list[Hidden]]

    @property
    def nothing(self) -> bool:
        """Whether the results show all."""
        return not (self.values or self.inside)


def hidden_in(program: Program) -> Hidden:
    """The values of a program that must be looked at beside its results.

    Raises:
        Refused: it divides integers, or has operations that are not looked into.
    """
    return _look(program, [True] * len(program.outputs), [True] * len(program.inputs))[0]


Looked = tuple[Hidden, list[bool]]  # and which inputs are seen in the results


def _look(program: Program, outs: Sequence[bool], given: Sequence[bool]) -> Looked:
    """What must be looked at in a program.

    Arguments:
        outs: which results are seen.
        given: which inputs are not the same in all calls.
    """
    pairs = zip(program.outputs, outs, strict=True)
    seen: set[Atom] = {v for v, is_seen in pairs if is_seen and isinstance(v, Var)}
    made = _dependent(program, given)
    hidden = Hidden([], {})
    for k, eqn in reversed(list(enumerate(program.eqns))):
        for out in eqn.outputs:
            if out not in seen and out in made and may_warn(eqn, out.aval):
                hidden.values.append(out)
                seen.add(out)
        if eqn.prim in _OF_PROGRAMS:
            results = [v in seen for v in eqn.outputs]
            bodies, places = _OF_PROGRAMS[eqn.prim](eqn, results, [v in made for v in eqn.inputs])
            if not all([body.nothing for body in bodies]):
                hidden.inside[k] = bodies
            seen |= {v for v, is_seen in zip(eqn.inputs, places, strict=True) if is_seen}
        else:
            seen |= _seen_operands(eqn, seen)
    return hidden, [v in seen for v in program.inputs]


def _dependent(program: Program, given: Sequence[bool]) -> set[Var]:
    """The values that depend on some of the inputs, and are not the same in all calls."""
    found = {v for v, is_given in zip(program.inputs, given, strict=True) if is_given}
    for eqn in program.eqns:
        if not found.isdisjoint([v for v in eqn.inputs if isinstance(v, Var)]):
            found.update(eqn.outputs)
    return found


def may_warn(eqn: Eqn, aval: Aval) -> bool:
    """Whether NumPy may warn as it computes a value."""
    prim = eqn.prim
    if aval.dtype.kind in "iu" and prim in (prims.floor_divide, prims.remainder, prims.fmod):
        divisor = eqn.inputs[1]
        if not isinstance(divisor, Lit) or not divisor.value:
            raise Refused("it divides integers by what may be zero")
    if aval.dtype.kind not in "fc" or prim in _SILENT or programs_in(eqn.params):
        return False
    if prim is prims.convert:
        return eqn.inputs[0].aval.dtype.itemsize > aval.dtype.itemsize
    return prim.cost is not Cost.NOTHING


def _seen_operands(eqn: Eqn, seen: set[Atom]) -> set[Atom]:
    """The operands whose numbers are seen in results of an equation that are seen."""
    if programs_in(eqn.params):
        raise Refused(f"it has an operation that is not looked into ({eqn.prim})")
    if not all([v in seen for v in eqn.outputs]):
        return set()
    if eqn.prim in _ALL:
        return set(eqn.inputs) if eqn.outputs[0].aval.dtype.kind in "fc" else set()
    return {eqn.inputs[0]} if eqn.prim in _FIRST else set()


def _carried(
    body: Program, before: int, outs: Sequence[bool], given: Sequence[bool], count: int
) -> Looked:
    """A loop's body: a carry has to be seen in the last step and in the next one.

    Arguments:
        before: how many inputs are not carried, the first ones.
        outs: which results of the loop are seen; the first `count` are the carries.
        given: the operands that are not the same in all calls.
    """
    found, varies = list(outs), list(given)
    while True:
        looked, inner = _look(body, found, varies)
        made = _dependent(body, varies)
        now = [x or v in made for x, v in zip(varies[before:], body.outputs[:count], strict=False)]
        seen = [x and inner[before + k] for k, x in enumerate(found[:count])]
        if now == varies[before : before + count] and seen == found[:count]:
            return looked, inner
        varies[before : before + count], found[:count] = now, seen


def _scan(eqn: Eqn, outs: list[bool], given: list[bool]) -> tuple[list[Hidden], list[bool]]:
    params = eqn.params
    body, found = _carried(params["body"], params["n_consts"], outs, given, params["n_carry"])
    return [body], [x and params["length"] > 0 for x in found]


def _while(eqn: Eqn, outs: list[bool], given: list[bool]) -> tuple[list[Hidden], list[bool]]:
    """Constants may not be read at all, where there is no step."""
    params = eqn.params
    asked, consts = params["n_cond"], params["n_body"]
    body, found = _carried(params["body"], consts, outs, given[asked:], len(outs))
    cond = _look(params["cond"], [False], [*given[:asked], *[True] * len(outs)])[0]
    if not cond.nothing:
        raise Refused("NumPy may warn in the condition of a loop")
    return [body], [*[False] * (asked + consts), *found[consts:]]


def _switch(eqn: Eqn, outs: list[bool], given: list[bool]) -> tuple[list[Hidden], list[bool]]:
    looked = [_look(branch, outs, given[1:]) for branch in eqn.params["branches"]]
    seen = [all(places) for places in zip(*[found for _, found in looked], strict=True)]
    return [hidden for hidden, _ in looked], [False, *seen]


_OF_PROGRAMS = {prims.scan: _scan, prims.while_: _while, prims.switch: _switch}


# --- the second run -------------------------------------------------------------------------------


def run_looking(
    program: Program, hidden: Hidden, args: Sequence[PyTree]
) -> tuple[list[PyTree], PyTree]:
    """The results of a program, and whether what is hidden in it is finite, in the open trace."""
    env: dict[Atom, PyTree] = dict(zip(program.inputs, args, strict=True))
    env.update(program.consts)
    state = THREAD.state
    saved, tests = state.loc, []
    try:
        for k, eqn in enumerate(program.eqns):
            state.loc = eqn.loc
            ins = [x.value if isinstance(x, Lit) else env[x] for x in eqn.inputs]
            bodies = hidden.inside.get(k)
            if bodies is not None:
                out, test = _AGAIN[eqn.prim](eqn.params, bodies, ins)
                tests.append(test)
            else:
                out = bind(eqn.prim, *ins, **eqn.params)
            env.update(zip(eqn.outputs, out if eqn.prim.multiple else [out], strict=True))
    finally:
        state.loc = saved
    tests += [np.all(np.isfinite(env[v])) for v in hidden.values]
    outs = [x.value if isinstance(x, Lit) else env[x] for x in program.outputs]
    return outs, reduce(np.logical_and, tests, np.True_)


_TEST = Aval((), BOOL)
Again = tuple[Sequence[PyTree], PyTree]


def _program(fun: Callable[..., Sequence[PyTree]], avals: Sequence[Aval], name: str) -> Program:
    traced = trace(fun, avals, name, "for", True)
    if traced.captured:
        raise Refused("a loop reads arrays outside of it")
    return traced.program


def _scan_again(params: Params, bodies: list[Hidden], ins: list[PyTree]) -> Again:
    body, at = params["body"], params["n_consts"] + params["n_carry"]
    count = params["n_carry"]

    def step(*xs: Tracer) -> list[PyTree]:
        outs, test = run_looking(body, bodies[0], [*xs[:at], *xs[at + 1 :]])
        return [*outs[:count], np.logical_and(xs[at], test), *outs[count:]]

    avals = [v.aval for v in body.inputs]
    made = _program(step, [*avals[:at], _TEST, *avals[at:]], body.name)
    changed = {**params, "body": made, "n_carry": count + 1}
    outs = list(bind(prims.scan, *ins[:at], np.True_, *ins[at:], **changed))
    return [*outs[:count], *outs[count + 1 :]], outs[count]


def _while_again(params: Params, bodies: list[Hidden], ins: list[PyTree]) -> Again:
    cond, body = params["cond"], params["body"]

    def asked(*xs: Tracer) -> list[PyTree]:
        return run(cond, xs[:-1])

    def step(*xs: Tracer) -> list[PyTree]:
        outs, test = run_looking(body, bodies[0], xs[:-1])
        return [*outs, np.logical_and(xs[-1], test)]

    made = [
        _program(fun, [*[v.aval for v in of.inputs], _TEST], of.name)
        for fun, of in ((asked, cond), (step, body))
    ]
    changed = {**params, "cond": made[0], "body": made[1]}
    *outs, test = bind(prims.while_, *ins, np.True_, **changed)
    return outs, test


def _switch_again(params: Params, bodies: list[Hidden], ins: list[PyTree]) -> Again:
    def branch(program: Program, hidden: Hidden) -> Program:
        def both(*xs: Tracer) -> list[PyTree]:
            outs, test = run_looking(program, hidden, xs)
            return [*outs, test]

        return _program(both, [v.aval for v in program.inputs], program.name)

    branches = [branch(*pair) for pair in zip(params["branches"], bodies, strict=True)]
    *outs, test = bind(prims.switch, *ins, **{**params, "branches": tuple(branches)})
    return outs, test


_AGAIN = {prims.scan: _scan_again, prims.while_: _while_again, prims.switch: _switch_again}
