"""L4. Forward derivatives of loops and branches: the same with the jvp of what they hold.

scan of the body's jvp; while by its body's; switch of the branches' jvps
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrad.ir.program import Program
from fgrad.ops.control import scan, scan_p, switch, switch_p, while_loop, while_p
from fgrad.trace import Value, run
from fgrad.transforms.control_parts import (
    Values,
    derived_program,
    known,
    some,
    split,
    spread,
    tangents_of,
)
from fgrad.transforms.derive import (
    Mask,
    jvp_program,
)


def _carry_fixpoint(body: Program, active: Mask, start: int, stop: int) -> Mask:
    """The inputs with tangents, where a carry has one as soon as its result has."""
    while True:
        has = jvp_program(body, active).has_tangent
        carry = tuple([a or h for a, h in zip(active[start:stop], has, strict=False)])
        if carry == active[start:stop]:
            return active
        active = (*active[:start], *carry, *active[stop:])


def _jvp_body(body: Program, active: Mask, n_consts: int, n_carry: int) -> Program:
    """(consts, t consts, carry, t carry, xs, t xs) -> (carry, t carry, t ys)."""
    derived = jvp_program(body, active)
    avals = body.in_avals
    parts = split(avals, n_consts, n_carry)
    masks = split(active, n_consts, n_carry)
    sizes = [n for part, mask in zip(parts, masks, strict=True) for n in (len(part), sum(mask))]

    def both(*values: Value) -> list[Value]:
        c, tc, k, tk, x, tx, _ = split(values, *sizes)
        outs = run(derived.program, [*c, *k, *x, *tc, *tk, *tx])
        carry, _, pushed = split(outs, n_carry, len(body.outputs) - n_carry)
        found = spread(iter(pushed), derived.has_tangent)
        return [
            *carry,
            *tangents_of(carry, found[:n_carry], masks[1]),  # type: ignore[arg-type]
            *[t for t in found[n_carry:] if t is not None],
        ]

    ins = [a for p, m in zip(parts, masks, strict=True) for a in (*p, *some(p, m))]
    return derived_program(body, ("loop jvp", active, n_consts, n_carry), both, ins, "jvp")


@scan_p.jvp
def _(
    primals: Values, tangents: Sequence[Value | None], _outs: Any, *,
    body: Program, length: int, reverse: bool, n_consts: int, n_carry: int, saved: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    stop = n_consts + n_carry
    active = _carry_fixpoint(body, known(tangents), n_consts, stop)
    derived = _jvp_body(body, active, n_consts, n_carry)
    c, k, x = split(primals, n_consts, n_carry)
    tc, tk, tx = [
        tangents_of(p, t, tuple(m))
        for p, t, m in zip(
            (c, k, x),
            split(tangents, n_consts, n_carry),
            split(active, n_consts, n_carry),
            strict=True,
        )
    ]
    outs = scan(derived, length, reverse, [*c, *tc], [*k, *tk], [*x, *tx])
    pushed = iter(outs[n_carry:])
    has = jvp_program(body, active).has_tangent
    return (
        *spread(pushed, active[n_consts:stop]),
        *spread(pushed, has[n_carry:]),
    )


@while_p.jvp
def while_tangents(
    primals: Values, tangents: Sequence[Value | None], _outs: Any, *,
    cond: Program, body: Program, n_cond: int, n_body: int, max_steps: int | None,
    saved: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    """The tangents of the last carry; those of the condition's constants have no part in them."""
    active = known(tangents[n_cond:])
    active = _carry_fixpoint(body, active, n_body, len(active))
    n_carry = len(primals) - n_cond - n_body
    derived = _jvp_body(body, active, n_body, n_carry)
    cc, c, k = split(primals, n_cond, n_body)
    _, tc, tk = split(tangents, n_cond, n_body)
    tc, tk = tangents_of(c, tc, active[:n_body]), tangents_of(k, tk, active[n_body:])

    def holds(*values: Value) -> list[Value]:
        return run(cond, values[: n_cond + n_carry])

    extra = some(body.in_avals[n_body:], active[n_body:])
    key = ("while jvp", active[n_body:])
    test = derived_program(cond, key, holds, [*cond.in_avals, *extra], "jvp")
    outs = while_loop(test, derived, cc, [*c, *tc], [*k, *tk], max_steps)
    return tuple(spread(iter(outs[n_carry:]), active[n_body:]))


@switch_p.jvp
def _(
    primals: Values, tangents: Sequence[Value | None], outs: Values, *,
    branches: tuple[Program, ...], saved: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    active = known(tangents[1:])
    if not any(active):
        return (None,) * len(outs)
    masks = [jvp_program(branch, active).has_tangent for branch in branches]
    has = tuple([any(column) for column in zip(*masks, strict=True)])
    derived = [_jvp_branch(branch, active, has) for branch in branches]
    pushed = switch(
        primals[0], derived, [*primals[1:], *[t for t in tangents[1:] if t is not None]]
    )
    return tuple(spread(iter(pushed), has))


def _jvp_branch(branch: Program, active: Mask, has: Mask) -> Program:
    """The tangents of a branch, zeros where only other branches have one."""
    derived = jvp_program(branch, active)

    def tangents(*values: Value) -> list[Value]:
        outs = run(derived.program, values)
        primals, pushed = split(outs, len(branch.outputs))
        return tangents_of(primals, spread(iter(pushed), derived.has_tangent), has)

    ins = [*branch.in_avals, *some(branch.in_avals, active)]
    return derived_program(branch, ("switch jvp", active, has), tangents, ins, "jvp")
