"""L4. Batching rules of scan, while and switch: the same equation on batched bodies.

scan     what is batched in the carry is a fixed point
while    runs until all lanes have ended; those that have keep their values
switch   all branches, and a selection, where lanes choose differently
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.ir.aval import INT64
from fgrad.ir.program import Program
from fgrad.ir.walk import has_checks
from fgrad.ops.control import Role, scan, scan_p, switch, switch_p, while_loop, while_p
from fgrad.ops.elementwise import eq, ge, le, select
from fgrad.ops.families import batch_first
from fgrad.ops.reduce import reduce_any
from fgrad.ops.shape import broadcast, move_axis
from fgrad.trace import Value, run
from fgrad.transforms.control.common import Dims, Values, split_list
from fgrad.transforms.control.guards import guarded
from fgrad.transforms.core.derived_programs import (
    batched_program,
    derived_program,
)


def _normal(size: int, x: Value, dim: int | None, batched: bool) -> Value:
    """`x` with its batched axis first if it is to have one."""
    return batch_first(size, x, dim) if batched else x


def _batched_carry(body: Program, size: int, dims: Dims, start: int, stop: int) -> list[int | None]:
    """The batched axes of the inputs, where a carry has one as soon as its result has."""
    found = [*dims]
    found[start:stop] = [None if d is None else 0 for d in dims[start:stop]]
    while True:
        outs = batched_program(body, size, tuple(found)).dims
        carry = [
            0 if d is not None or out is not None else None
            for d, out in zip(found[start:stop], outs, strict=False)
        ]
        if carry == found[start:stop]:
            return found
        found[start:stop] = carry


def _batched_body(
    body: Program, size: int, dims: Dims, carry: Dims
) -> tuple[Program, list[int | None]]:
    """The batched body with its carry's axes as they come in, and those of the ys first."""
    derived = batched_program(body, size, tuple(dims))
    outs = [*carry, *[None if d is None else 0 for d in derived.dims[len(carry) :]]]
    if list(derived.dims) == outs:
        return derived.program, outs

    def normal(*values: Value) -> list[Value]:
        triples = zip(run(derived.program, values), derived.dims, outs, strict=True)
        return [_normal(size, y, d, to is not None) for y, d, to in triples]

    key = ("loop vmap", size, tuple(dims), tuple(carry))
    return derived_program(body, key, normal, derived.program.in_avals, "vmap"), outs


@scan_p.batch
def _(
    size: int, operands: Values, dims: Dims, *,
    body: Program, length: int, reverse: bool, n_consts: int, n_carry: int,
    saved: Values | None = None,
) -> tuple[tuple[Value, ...], list[int | None]]:  # fmt: skip
    stop = n_consts + n_carry
    items = [None if d is None else 0 for d in dims[stop:]]
    found = _batched_carry(body, size, [*dims[:stop], *items], n_consts, stop)
    derived, outs = _batched_body(body, size, found, found[n_consts:stop])
    c, k, x = split_list(operands, n_consts, n_carry)
    k = [
        _normal(size, v, d, to is not None)
        for v, d, to in zip(k, dims[n_consts:], found[n_consts:stop], strict=False)
    ]
    x = [v if d is None else move_axis(v, d, 1) for v, d in zip(x, dims[stop:], strict=True)]
    results = scan(derived, length, reverse, c, k, x)
    return results, [*outs[:n_carry], *[None if d is None else 1 for d in outs[n_carry:]]]


@while_p.batch
def _(
    size: int, operands: Values, dims: Dims, *,
    cond: Program, body: Program, n_cond: int, n_body: int, max_steps: int | None,
    role: Role | None, any_order: bool, saved: Values | None = None,
) -> tuple[tuple[Value, ...], list[int | None]]:  # fmt: skip
    cc, c, k = split_list(operands, n_cond, n_body)
    cond_dims, own = list(dims[:n_cond]), list(dims[n_cond:])
    found = _batched_carry(body, size, own, n_body, len(own))
    test = batched_program(cond, size, (*cond_dims, *found[n_body:]))
    lanes = test.dims[0] is not None
    if lanes:  # lanes end at different times, so every carry differs between them
        found[n_body:] = [0] * len(k)
        test = batched_program(cond, size, (*cond_dims, *found[n_body:]))
    derived, outs = _batched_body(body, size, found, found[n_body:])
    k = [
        _normal(size, v, d, to is not None)
        for v, d, to in zip(k, own[n_body:], found[n_body:], strict=True)
    ]
    if not lanes:
        steps = while_loop(test.program, derived, cc, c, k, max_steps, any_order=any_order)
        return steps, outs

    if has_checks(body):
        all_found = [0, *found]
        inner, _ = _batched_body(guarded(body), size, all_found, found[n_body:])
    else:
        inner = None

    def any_lane(*values: Value) -> list[Value]:
        return [reduce_any(run(test.program, values)[0], (0,))]

    def masked(*values: Value) -> list[Value]:
        cc, c, old = split_list(values, n_cond, n_body)
        (go,) = run(test.program, [*cc, *old])
        new = run(derived, [*c, *old]) if inner is None else run(inner, [go, *c, *old])
        return [
            select(go if a.ndim == 1 else broadcast(go, a.shape, (0,)), a, b)
            for a, b in zip(new, old, strict=True)
        ]

    ins = test.program.in_avals
    key = ("lanes", size, (*cond_dims, *found))
    running = derived_program(cond, key, any_lane, ins, "vmap")
    step_ins = [*ins[:n_cond], *derived.in_avals]
    step = derived_program(body, (*key, cond), masked, step_ins, "vmap")
    return while_loop(running, step, cc, [*cc, *c], k, max_steps), outs


@switch_p.batch
def _(
    size: int,
    operands: Values,
    dims: Dims,
    *,
    branches: tuple[Program, ...],
    saved: Values | None = None,
) -> tuple[tuple[Value, ...], list[int | None]]:
    index, *xs = operands
    own = tuple(dims[1:])
    if dims[0] is not None:
        return _all_branches(size, index, xs, branches, own)
    derived = [batched_program(branch, size, own) for branch in branches]
    has = [
        any([d is not None for d in column])
        for column in zip(*[p.dims for p in derived], strict=True)
    ]
    outs = [0 if h else None for h in has]
    programs = [_batched_body(branch, size, own, outs)[0] for branch in branches]
    return switch(index, programs, xs), outs


def _all_branches(
    size: int, index: Value, xs: Values, branches: Sequence[Program], own: Dims
) -> tuple[tuple[Value, ...], list[int | None]]:
    """Each lane has its own branch: all are computed, and one is selected."""
    chosen: list[Value] = []
    last = len(branches) - 1
    for n, branch in reversed(list(enumerate(branches))):
        mine = (ge if n == last else le if n == 0 else eq)(index, INT64.type(n))
        if has_checks(branch):
            derived = batched_program(guarded(branch), size, (0, *own))
            ys = run(derived.program, [mine, *xs])
        else:
            derived = batched_program(branch, size, tuple(own))
            ys = run(derived.program, xs)
        outs = [batch_first(size, y, d) for y, d in zip(ys, derived.dims, strict=True)]
        if n == last:
            chosen = outs
            continue
        chosen = [
            select(mine if y.ndim == 1 else broadcast(mine, y.shape, (0,)), y, other)
            for y, other in zip(outs, chosen, strict=True)
        ]
    return tuple(chosen), [0] * len(chosen)
