"""L4. Second derivatives of while loops: the vjp of the loops that compute a vjp.

With J the derivative of a loop L, its pullback P maps a cotangent u to uJ.  A cotangent v of that
goes back to u as Jv, the tangent of L along v, and to the operands of L as the gradient of u(Jv),
which is the pullback of the jvp of L.  So no derivative of slots and stacks is ever needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.ops.selected import Tangent, plain
from fgrad.trace import Builder
from fgrad.transforms.control.common import Values, expand_list, some, split_list
from fgrad.transforms.control.jvp import while_tangents
from fgrad.transforms.control.selected import together
from fgrad.transforms.control.while_loop import (
    Kept,
    LoopRole,
    PullsBack,
    SavesStates,
    pull_loop,
    save_loop,
)
from fgrad.transforms.core.tape import Tape, pull_selected
from fgrad.transforms.core.wrap import outside

Cotangents = Sequence[Tangent]


def pull_role(
    role: LoopRole, cts: Cotangents, wanted: Sequence[bool], values: Values, outs: Values
) -> list[Tangent] | None:
    """The cotangents of the operands of a loop that saves states, or that pulls them back; None if
    its states have cotangents themselves."""
    if isinstance(role, PullsBack):
        return _pull_pulling(role, cts, wanted, values)
    assert isinstance(role, SavesStates)
    return _pull_saving(role, cts, wanted, values, outs)


def _pull_saving(
    role: SavesStates, cts: Cotangents, wanted: Sequence[bool], values: Values, outs: Values
) -> list[Tangent] | None:
    loop, plan = role.loop, role.plan
    own, count = loop.n_cond + len(loop.body.inputs), len(loop.body.outputs)
    if any([ct is not None for ct in cts[count:]]):
        return None
    asked = list(wanted[:own])
    if any([w and not p for w, p in zip(asked[loop.n_cond :], plan.wanted, strict=True)]):
        kept = save_loop(loop, values[:own], asked)[1]
    else:
        kept = Kept(loop, plan, (False,) * count, list(values[:own]), list(outs[count:]))
    return [*pull_loop(kept, cts[:count]), *[None] * (len(values) - own)]


def _pull_pulling(
    role: PullsBack, cts: Cotangents, wanted: Sequence[bool], values: Values
) -> list[Tangent] | None:
    loop, plan, carry = role.loop, role.plan, role.carry
    own, first = loop.n_cond + len(loop.body.inputs), 3 + len(plan.kept)
    if any([ct is not None for ct in cts[:first]]):
        return None
    want_c, want_k = plan.wanted[: loop.n_body], plan.wanted[loop.n_body :]
    there_k = [kind is not None for kind in carry]
    of_carry, of_sums, of_bits = split_list(cts[first:], sum(there_k), sum(want_c))
    _, given, _, bits = split_list(values, own + 1 + first, len(of_carry), len(of_sums))
    tangents = [
        *[None] * loop.n_cond,
        *expand_list(iter(of_sums), want_c),
        *expand_list(iter(expand_list(iter(of_carry), there_k)), want_k),
    ]
    pulled, slopes = _pull_tangent(
        role, wanted[:own], values[:own], tangents, together(iter(given), iter(bits), carry)
    )
    return [
        *pulled,
        *[None] * (1 + first),
        *some(slopes, there_k),
        *of_sums,
        *[None] * len(of_bits),
    ]


def _pull_tangent(
    role: PullsBack,
    wanted: Sequence[bool],
    values: Values,
    tangents: Cotangents,
    cts: Cotangents,
) -> tuple[list[Tangent], Cotangents]:
    """The tangents of a loop's wanted carries, and what `cts` of these pull back to operands."""
    loop, plan = role.loop, role.plan
    builder = Builder("vjp", loop.body.name, eager=True, saves=True)
    with builder.running, builder:
        inputs = [builder.input(v, None) for v in values]
        pushed = while_tangents(
            inputs, tangents, None, cond=loop.cond, body=loop.body,
            n_cond=loop.n_cond, n_body=loop.n_body, max_steps=None, role=None, any_order=False,
        )  # fmt: skip
        found = [
            None if t is None else builder.lift(plain(t))
            for t in some(pushed, plan.wanted[loop.n_body :])
        ]
        slopes = [None if t is None else outside(builder, t) for t in found]
        pairs = [(t, ct) for t, ct in zip(found, cts, strict=True) if not (t is None or ct is None)]
        tape = Tape(builder, [t for t, _ in pairs], wanted)
    builder.release()
    pulled = pull_selected(tape, [ct for _, ct in pairs])
    return expand_list(iter(pulled), wanted), slopes
