"""L3. Control flow: primitives that hold closed programs.

    scan     (consts, carry, xs) -> (carry, ys)      body: (consts, carry, x) -> (carry, y)
    while    (cond consts, body consts, carry) -> carry
    switch   (index, operands) -> outputs            one program for each index, clamped

Their derivatives and batching rules derive the programs they hold: see `transforms/control/jvp.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.config import config
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import BOOL, INT64, Aval
from fgrad.ir.primitive import Opaque, Primitive
from fgrad.ir.program import Lit, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import must_run
from fgrad.ops.loop_to_python import WORTH, is_worth, scan_loop, while_loops
from fgrad.trace import Value, bind, run
from fgrad.tracing.device_tracing import follows

scan_p = Primitive(
    "scan",
    traits.holding(Holds.LOOP, constants="n_consts"),
    params=("body", "length", "reverse", "n_consts", "n_carry"),
    multiple=True,
)
while_p = Primitive(
    "while",
    traits.holding(Holds.LOOP, constants="n_body"),
    params=("cond", "body", "n_cond", "n_body", "max_steps", "role", "any_order"),
    multiple=True,
)


class Role(Opaque):
    """What a while loop does in a derivative, which says how it is differentiated itself: by the
    loop that it belongs to, and not by its own steps.  `operands` are the types of its operands;
    the type rule refuses others."""

    __slots__ = ("operands",)

    def __init__(self, operands: Sequence[Aval]) -> None:
        self.operands = tuple(operands)


switch_p = Primitive("switch", traits.holding(Holds.BRANCHES), params=("branches",), multiple=True)


def scan(
    body: Program,
    length: int,
    reverse: bool,
    consts: Sequence[Value],
    carry: Sequence[Value],
    xs: Sequence[Value],
) -> tuple[Value, ...]:
    """Apply `body` `length` times: the last carry, then each y stacked along a new first axis."""
    if not body.outputs:
        if any(map(must_run, body.eqns)):
            scan(_with_result(body, len(consts)), length, reverse, consts, [INT64.type(0)], xs)
        return ()
    return bind(
        scan_p, *consts, *carry, *xs,
        body=body, length=length, reverse=reverse, n_consts=len(consts), n_carry=len(carry),
    )  # fmt: skip


def _with_result(body: Program, n_consts: int) -> Program:
    """The body of a loop that runs for what it checks alone, with a carry: compiled steps have
    results."""

    def make() -> Program:
        kept = Var(Aval((), INT64))
        inputs = (*body.inputs[:n_consts], kept, *body.inputs[n_consts:])
        return body.replace(inputs=inputs, outputs=(kept,))

    return body.derived(("with a result", n_consts), make)


def while_loop(
    cond: Program,
    body: Program,
    cond_consts: Sequence[Value],
    body_consts: Sequence[Value],
    carry: Sequence[Value],
    max_steps: int | None = None,
    role: Role | None = None,
    any_order: bool = False,
) -> tuple[Value, ...]:
    """Apply `body` to the carry while `cond` holds; `max_steps` bounds the number of steps, which
    is what derivatives in reverse need.  A loop with a `role` is differentiated by that.  What
    steps add up may be added in `any_order`, as in a sum over an axis."""
    return bind(
        while_p, *cond_consts, *body_consts, *carry,
        cond=cond, body=body, n_cond=len(cond_consts), n_body=len(body_consts),
        max_steps=max_steps, role=role, any_order=any_order,
    )  # fmt: skip


def switch(
    index: Value, branches: Sequence[Program], operands: Sequence[Value]
) -> tuple[Value, ...]:
    """The outputs of the program whose number is `index` (int64), clamped to the valid ones."""
    if not branches[0].outputs:
        if any([must_run(eqn) for b in branches for eqn in b.eqns]):
            nothing = (Lit(INT64.type(0)),)  # compiled steps have results
            switch(index, [b.replace(outputs=nothing) for b in branches], operands)
        return ()
    return bind(switch_p, index, *operands, branches=tuple(branches))


def _check(name: str, given: Sequence[Aval], taken: Sequence[Aval]) -> None:
    if len(given) != len(taken):
        raise ShapeError(f"{name}: {len(given)} values for a program that takes {len(taken)}.")
    for a, b in zip(given, taken, strict=True):
        if a.shape != b.shape:
            raise ShapeError(f"{name}: a value is {a} where the program has {b}.")
        if a.dtype != b.dtype:
            raise DtypeError(f"{name}: a value is {a} where the program has {b}.")


# --- scan


@scan_p.type_rule
def _(
    *avals: Aval, body: Program, length: int, reverse: bool, n_consts: int, n_carry: int
) -> tuple[Aval, ...]:
    first = n_consts + n_carry
    for x in avals[first:]:
        if not x.shape or x.shape[0] != length:
            raise ShapeError(f"scan: {x} has no first axis of length {length}.")
    items = [Aval(x.shape[1:], x.dtype) for x in avals[first:]]
    _check("scan", [*avals[:first], *items], body.in_avals)
    outs = [x.strong() for x in body.out_avals]
    _check("scan", avals[n_consts:first], outs[:n_carry])
    return (*outs[:n_carry], *[y.like((length, *y.shape)) for y in outs[n_carry:]])


@scan_p.evaluate
@follows(scan_p)
def _(
    *operands: Value, body: Program, length: int, reverse: bool, n_consts: int, n_carry: int
) -> tuple[Value, ...]:
    consts, xs = operands[:n_consts], operands[n_consts + n_carry :]
    carry = list(operands[n_consts : n_consts + n_carry])
    ys = [np.empty((length, *y.shape), y.dtype) for y in body.out_avals[n_carry:]]
    if is_worth(body, length) and not config.nans:
        steps = range(length)[::-1] if reverse else range(length)
        items = zip(steps, *[x[::-1] if reverse else x for x in xs], strict=True)
        return (*scan_loop(body, n_consts, n_carry)(consts, carry, items, ys), *ys)
    for k in reversed(range(length)) if reverse else range(length):
        outs = run(body, [*consts, *carry, *[x[k] for x in xs]])
        carry = outs[:n_carry]
        for stack, y in zip(ys, outs[n_carry:], strict=True):
            stack[k] = y
    return (*carry, *ys)


# --- while


@while_p.type_rule
def _(
    *avals: Aval, cond: Program, body: Program, n_cond: int, n_body: int, max_steps: int | None,
    role: Role | None, any_order: bool,
) -> tuple[Aval, ...]:  # fmt: skip
    carry = avals[n_cond + n_body :]
    _check("while", [*avals[:n_cond], *carry], cond.in_avals)
    _check("while", avals[n_cond:], body.in_avals)
    _check("while", carry, body.out_avals)
    _check("while", cond.out_avals, [Aval((), BOOL)])
    if role is not None:
        _check(f"while with the role {type(role).__name__}", avals, role.operands)
    return tuple([x.strong() for x in body.out_avals])


@while_p.evaluate
@follows(while_p)
def _(
    *operands: Value, cond: Program, body: Program, n_cond: int, n_body: int, max_steps: int | None,
    role: Role | None, any_order: bool,
) -> tuple[Value, ...]:  # fmt: skip
    cond_consts, body_consts = operands[:n_cond], operands[n_cond : n_cond + n_body]
    carry = list(operands[n_cond + n_body :])
    for _ in range(WORTH):
        if not run(cond, [*cond_consts, *carry])[0]:
            return tuple(carry)
        carry = run(body, [*body_consts, *carry])
    if not config.nans:
        return while_loops(cond, body, n_cond, n_body)(cond_consts, body_consts, carry)
    while run(cond, [*cond_consts, *carry])[0]:
        carry = run(body, [*body_consts, *carry])
    return tuple(carry)


# --- switch


@switch_p.type_rule
def _(index: Aval, *operands: Aval, branches: tuple[Program, ...]) -> tuple[Aval, ...]:
    _check("switch", [index], [Aval((), INT64)])
    outs = [x.strong() for x in branches[0].out_avals]
    for branch in branches:
        _check("switch", operands, branch.in_avals)
        _check("switch", branch.out_avals, outs)
    return tuple(outs)


@switch_p.evaluate
@follows(switch_p)
def _(index: Value, *operands: Value, branches: tuple[Program, ...]) -> tuple[Value, ...]:
    return tuple(run(branches[min(max(int(index), 0), len(branches) - 1)], operands))
