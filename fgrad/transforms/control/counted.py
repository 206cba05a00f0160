"""L4. `while` loops in reverse, of which every step leaves its residuals: those whose steps are
counted, or have a bound.

    while i < n:  i, c = i + 1, f(i, c)     n - i steps, of which it is known at once how many
    while p(c):   c = f(c)                  at most `max_steps`; how many is found by the first loop

As a scan without its counters (`counters.py`), they become carries and the number of the step, and
go backward through as many steps as there were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.kinds import is_any
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64
from fgrad.ir.program import Atom, Lit, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops.counters import counter_step, same_integer
from fgrad.ops.elementwise import add, floor_divide, ge, gt, le, lt, max_, min_, mul, sub
from fgrad.ops.families import bound_by
from fgrad.ops.selected import Tangent, join
from fgrad.trace import Value, run
from fgrad.transforms.control.common import Values, some, split_list
from fgrad.transforms.control.scan_vjp import (
    SavedScan,
    Turns,
    forward_loop,
    pull_turns,
    wanted_of_loop,
)
from fgrad.transforms.control.steps import NUMBER, NUMBERS, Condition, Numbers, Steps
from fgrad.transforms.control.while_loop import Loop, settled_loop, settled_operands
from fgrad.transforms.core.derived_programs import Mask, derived_program
from fgrad.typing import R

LT, GT, LE, GE = [bound_by(f) for f in (lt, gt, le, ge)]
COMPARED = {LT: 0, GT: 0, LE: 1, GE: 1}  # and what is added to the number of steps


class SavedCounted(NamedTuple):
    """A loop of which each step left its residuals: carries that are the `same` in all steps and
    `counters` are constants of `turns`."""

    loop: Loop
    same: Mask
    counters: Mask
    turns: Turns
    saved: SavedScan


def save_counted(
    loop: Loop, values: Values, traced: Sequence[bool], bound: int | None,
    any_order: bool,
) -> tuple[tuple[Value, ...], SavedCounted] | None:  # fmt: skip
    """Run a loop so that it can be pulled back to the `traced` ones of its operands; None if its
    steps cannot all be kept."""
    first = loop.n_body
    same = tuple([x is y for x, y in zip(loop.body.inputs[first:], loop.body.outputs, strict=True)])
    inner = settled_loop(loop, same)
    given = settled_operands(loop, same, values)
    cc, c, k = split_list(given, inner.n_cond, inner.n_body)
    growth = _growth(inner.body, inner.n_body)
    counters = tuple([step is not None for step in growth])
    goes = [not counts for counts in counters]
    count = _count(inner, cc, k, growth, bound)
    if count is None and bound is None:
        return None
    starts = [_plain(x) for x in some(k, counters)]
    body = _numbered(inner.body, inner.n_body, growth, True)
    cond = (
        None
        if count is not None
        else Condition(
            _numbered(inner.cond, inner.n_cond, growth, False),
            inner.n_cond + len(starts),
            [*cc, *starts],
        )
    )
    steps = Steps(bound, False, True, count, cond, any_order)
    turns = Turns(body, inner.n_body + len(starts), sum(goes), steps)
    operands: list[Value | Numbers] = [*c, *starts, *some(k, goes), NUMBERS]
    is_traced = _operands(inner, counters, settled_operands(loop, same, traced), False)
    found = forward_loop(turns, operands, wanted_of_loop(is_traced, turns))
    if found is None:
        return None
    outs, saved = found
    assert saved.taken is not None
    n = saved.taken
    each = iter(outs)
    last = [
        next(each) if step is None else add(x, mul(n, INT64.type(step)))
        for x, step in zip(k, growth, strict=True)
    ]
    changed = iter(last)
    carry = values[loop.n_cond + loop.n_body :]
    results = [x if fixed else next(changed) for x, fixed in zip(carry, same, strict=True)]
    return tuple(results), SavedCounted(inner, same, counters, turns, saved)


def pull_counted(kept: SavedCounted, cts: Sequence[Tangent]) -> list[Tangent]:
    """The cotangents of a loop's operands, for those of its last carry."""
    loop, same, counters, turns, saved = kept
    changing = some(cts, [not fixed for fixed in same])
    pulled = pull_turns(turns, saved, some(changing, [not counts for counts in counters]))
    of_consts, of_carry, _ = split_list(pulled, turns.n_consts, turns.n_carry)
    first = loop.n_body - sum(same)
    fixed, rest = iter(of_consts[first : loop.n_body]), iter(of_carry)
    moving = iter([None if counts else next(rest) for counts in counters])
    carry = [
        join(ct, next(fixed)) if is_same else next(moving)
        for ct, is_same in zip(cts, same, strict=True)
    ]
    return [*[None] * (loop.n_cond - sum(same)), *of_consts[:first], *carry]


def _plain(x: Value) -> Value:
    return INT64.type(x) if is_any(x, (np.integer, np.ndarray)) else x


def _operands(loop: Loop, counters: Mask, given: Sequence[R], other: R) -> list[R]:
    """What belongs to operands of a settled loop, for those of its turns."""
    _, c, k = split_list(given, loop.n_cond, loop.n_body)
    return [*c, *some(k, counters), *some(k, [not counts for counts in counters]), other]


def _growth(body: Program, first: int) -> tuple[int | None, ...]:
    """What each carry grows by in a step; None if it is no counter."""
    pairs = zip(body.inputs[first:], body.outputs, strict=True)
    return tuple([counter_step(body, x, y) or None for x, y in pairs])


def _numbered(
    program: Program, first: int, growth: tuple[int | None, ...], is_body: bool
) -> Program:
    """The program of a loop that takes the starts of its counters after its constants, and the
    number of the step at the end."""
    counters = [step is not None for step in growth]
    goes = [not counts for counts in counters]
    avals = program.in_avals
    k_avals = avals[first:]

    def numbered(*values: Value) -> list[Value]:
        c, starts, k, (t,) = split_list(values, first, sum(counters), sum(goes))
        each, start = iter(k), iter(starts)
        carry = [next(each) if step is None else _counted(next(start), t, step) for step in growth]
        outs = run(program, [*c, *carry])
        return some(outs, goes) if is_body else outs

    ins = [*avals[:first], *some(k_avals, counters), *some(k_avals, goes), NUMBER]
    return derived_program(program, ("numbered", first, growth), numbered, ins, "uncounted")


def _counted(first: Value, t: Value, step: int) -> Value:
    """first + step t."""
    return add(first, t if step == 1 else mul(t, INT64.type(step)))


def _count(
    loop: Loop, consts: Values, carry: Values, growth: Sequence[int | None], bound: int | None
) -> Value | None:
    """The number of steps, if the condition compares a counter with what stays."""
    cond, n_cond = loop.cond, loop.n_cond
    defined = definitions(cond.eqns)
    out = cond.outputs[0]
    eqn = defined.get(out) if isinstance(out, Var) else None
    if eqn is None or eqn.prim not in COMPARED:
        return None
    x, y = [same_integer(a, defined) for a in eqn.inputs]
    up = eqn.prim in (LT, LE)
    carried = list(cond.inputs[n_cond:])
    if x not in carried:
        x, y, up = y, x, not up
    if not isinstance(x, Var) or x not in carried:
        return None
    k = carried.index(x)
    step = growth[k]
    stays = _invariant(y, cond, n_cond, consts)
    if step is None or stays is None or (step > 0) is not up:
        return None
    left = sub(stays, carry[k]) if up else sub(carry[k], stays)
    size = abs(step)
    if COMPARED[eqn.prim]:
        left = add(left, INT64.type(1))
    if size > 1:
        left = floor_divide(add(left, INT64.type(size - 1)), INT64.type(size))
    left = max_(left, INT64.type(0))
    return left if bound is None else min_(left, INT64.type(bound))


def _invariant(atom: Atom, cond: Program, n_cond: int, consts: Values) -> Value | None:
    """What a condition compares with, if it is an integer that stays the same."""
    if atom.aval.dtype != INT64 or atom.aval.shape:
        return None
    if isinstance(atom, Lit):
        return atom.value
    fixed = list(cond.inputs[:n_cond])
    return consts[fixed.index(atom)] if atom in fixed else None
