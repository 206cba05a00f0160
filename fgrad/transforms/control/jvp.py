"""L4. JVP rules of scan, while and switch: the same equation on the jvp of its programs.

scan of the body's jvp; while by its body's; switch of the branches' jvps
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import aval_of
from fgrad.ir.program import Program
from fgrad.ops.control import Role, scan, scan_p, switch, switch_p, while_loop, while_p
from fgrad.ops.selected import Tangent
from fgrad.trace import Value, run
from fgrad.transforms.control.common import Values, nonzero_mask, split_list
from fgrad.transforms.control.selected import (
    Gives,
    Kinds,
    any_selected,
    bit_avals,
    bits_of,
    common_kinds,
    count_of,
    kind_of,
    kinds_of,
    pushed_kinds,
    there,
    together,
    together_later,
    values_of,
)
from fgrad.transforms.core.derived_programs import (
    DENSE,
    SELECTED,
    Mask,
    derived_program,
    join_supports,
    jvp_program,
)
from fgrad.transforms.core.merged_loops import mark_primal


def _carry_fixpoint(body: Program, active: Mask, start: int, stop: int) -> Mask:
    """The inputs with tangents, where a carry has one as soon as its result has."""
    while True:
        has = jvp_program(body, active).has_tangent
        carry = tuple([a or h for a, h in zip(active[start:stop], has, strict=False)])
        if carry == active[start:stop]:
            return active
        active = (*active[:start], *carry, *active[stop:])


class _Pushing(NamedTuple):
    """The body of a loop with its tangents, and the kinds of the inputs' and of the results'."""

    body: Program
    given: Kinds
    kinds: Kinds


def _jvp_body(
    body: Program, active: Mask, tangents: Sequence[Tangent], n_consts: int, n_carry: int
) -> _Pushing:
    """(consts, t consts, carry, t carry, xs, t xs) -> (carry, t carry, t ys), with the bits of
    tangents after these."""
    unknown = SELECTED if any_selected(tangents) else DENSE
    given = tuple(
        [
            None if not a else unknown if t is None else kind_of(t)
            for t, a in zip(tangents, active, strict=True)
        ]
    )
    stop = n_consts + n_carry
    given, kinds = pushed_kinds(body, active, given, n_consts, stop)
    derived = jvp_program(body, active, tuple([k for k in given if k is not None]))
    whole = join_supports(derived.program, derived.supports)
    avals = [a.strong() for a in body.in_avals]
    own = [tuple(part) for part in split_list(given, n_consts, n_carry)]
    parts = [
        part
        for p, k in zip(split_list(avals, n_consts, n_carry), own, strict=True)
        for part in (p, there(p, k), bit_avals(p, k))
    ]
    n_pushed = count_of(kinds)[0]

    def both(*values: Value) -> list[Value]:
        c, tc, bc, k, tk, bk, x, tx, bx, _ = split_list(values, *map(len, parts))
        outs = run(whole, [*c, *k, *x, *tc, *tk, *tx, *bc, *bk, *bx])
        carry, _, pushed, bits = split_list(outs, n_carry, len(body.outputs) - n_carry, n_pushed)
        found = together(iter(pushed), iter(bits), kinds)
        carries, ys = found[:n_carry], found[n_carry:]
        return [
            *carry, *values_of(carries, parts[3], own[1]), *bits_of(carries, parts[3], own[1]),
            *values_of(ys, y_avals, kinds[n_carry:]), *bits_of(ys, y_avals, kinds[n_carry:]),
        ]  # fmt: skip

    y_avals = [a.strong() for a in body.out_avals[n_carry:]]
    key = ("loop jvp", active, given, n_consts, n_carry)
    ins = [a for part in parts for a in part]
    made = derived_program(body, key, both, ins, "jvp")
    return _Pushing(mark_primal(made, body), given, kinds)


def _with_tangents(values: Values, tangents: Sequence[Tangent], kinds: Kinds) -> list[Value]:
    """Operands of a loop, their tangents, and the bits of these."""
    avals = [aval_of(x).strong() for x in values]
    return [*values, *values_of(tangents, avals, kinds), *bits_of(tangents, avals, kinds)]


def _apart(pushed: Values, kinds: Kinds) -> list[Tangent]:
    """The tangents of their values and bits."""
    n = count_of(kinds)[0]
    return together(iter(pushed[:n]), iter(pushed[n:]), kinds)


@scan_p.jvp
def _(
    primals: Values, tangents: Sequence[Tangent], _outs: object, *,
    body: Program, length: int, reverse: bool, n_consts: int, n_carry: int,
    saved: Values | None = None,
) -> tuple[Tangent, ...]:  # fmt: skip
    stop = n_consts + n_carry
    active = _carry_fixpoint(body, nonzero_mask(tangents), n_consts, stop)
    pushing = _jvp_body(body, active, tangents, n_consts, n_carry)
    parts = [split_list(each, n_consts, n_carry) for each in (primals, tangents, pushing.given)]
    c, k, x = (_with_tangents(p, t, tuple(kinds)) for p, t, kinds in zip(*parts, strict=True))
    outs = scan(pushing.body, length, reverse, c, k, x)
    of_carry = pushing.given[n_consts:stop]
    _, of_carries, of_ys = split_list(outs, n_carry, sum(count_of(of_carry)))
    return (*_apart(of_carries, of_carry), *_apart(of_ys, pushing.kinds[n_carry:]))


@while_p.jvp
def while_tangents(
    primals: Values, tangents: Sequence[Tangent], _outs: object, *,
    cond: Program, body: Program, n_cond: int, n_body: int, max_steps: int | None,
    role: Role | None, any_order: bool, saved: Values | None = None,
) -> tuple[Tangent, ...]:  # fmt: skip
    """The tangents of the last carry; those of the condition's constants have no part in them."""
    active = nonzero_mask(tangents[n_cond:])
    active = _carry_fixpoint(body, active, n_body, len(active))
    n_carry = len(primals) - n_cond - n_body
    pushing = _jvp_body(body, active, tangents[n_cond:], n_body, n_carry)
    of_consts, of_carry = pushing.given[:n_body], pushing.given[n_body:]
    cc, c, k = split_list(primals, n_cond, n_body)
    _, tc, tk = split_list(tangents, n_cond, n_body)

    def holds(*values: Value) -> list[Value]:
        return run(cond, values[: n_cond + n_carry])

    carried = [a.strong() for a in body.in_avals[n_body:]]
    extra = [*there(carried, of_carry), *bit_avals(carried, of_carry)]
    test = derived_program(cond, ("while jvp", of_carry), holds, [*cond.in_avals, *extra], "jvp")
    c, k = _with_tangents(c, tc, of_consts), _with_tangents(k, tk, of_carry)
    outs = while_loop(test, pushing.body, cc, c, k, max_steps, any_order=any_order)
    return tuple(_apart(outs[n_carry:], of_carry))


@switch_p.jvp
def _(
    primals: Values, tangents: Sequence[Tangent], outs: Values, *,
    branches: tuple[Program, ...], saved: Values | None = None,
) -> tuple[Tangent, ...]:  # fmt: skip
    given = kinds_of(tangents[1:])
    if not any([kind is not None for kind in given]):
        return (None,) * len(outs)
    pushed = [_push_branch(branch, given) for branch in branches]
    kinds = common_kinds([kinds for _, kinds in pushed])
    avals = [a.strong() for a in branches[0].in_avals]
    operands = [
        *primals[1:],
        *values_of(tangents[1:], avals, given),
        *bits_of(tangents[1:], avals, given),
    ]

    def run_branches(gives: Gives) -> Sequence[Value]:
        derived = [
            _jvp_branch(b, given, p, kinds, gives) for b, p in zip(branches, pushed, strict=True)
        ]
        return switch(primals[0], derived, operands)

    return tuple(together_later(run_branches, kinds))


Pushed = tuple[Program, Kinds]


def _push_branch(branch: Program, given: Kinds) -> Pushed:
    """A branch that gives its results, their tangents and the bits of these; and the kinds."""
    active = tuple([kind is not None for kind in given])
    derived = jvp_program(branch, active, tuple([k for k in given if k is not None]))
    each = iter([kind and SELECTED for kind in derived.kinds])
    kinds = tuple([next(each) if has else None for has in derived.has_tangent])
    return join_supports(derived.program, derived.supports), kinds


def _jvp_branch(
    branch: Program, given: Kinds, pushed: Pushed, kinds: Kinds, gives: Gives
) -> Program:
    """The values, or the bits, of a branch's tangents."""
    whole, own = pushed
    count = len(branch.outputs)

    def tangents(*values: Value) -> list[Value]:
        return gives(_apart(run(whole, values)[count:], own), branch.out_avals, kinds)

    avals = [a.strong() for a in branch.in_avals]
    ins = [*avals, *there(avals, given), *bit_avals(avals, given)]
    return derived_program(branch, ("switch jvp", given, kinds, gives), tangents, ins, "jvp")
