"""L4. Derivatives and batching of control flow, by deriving the programs that it holds.

jvp     scan of the body's jvp; while by its body's; switch of the branches' jvps
vjp     forward   a scan that also stacks the residuals of each step; those that depend on
                  the loop's constants alone are computed once
        backward  a scan the other way round, which sums the cotangents of the constants
vmap    a scan of the batched body; what is batched in the carry is a fixed point
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fgrad.errors import MissingRuleError
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Lit, Program, Var
from fgrad.ops.control import scan, scan_p, switch, switch_p, while_loop, while_p
from fgrad.ops.elementwise import convert, eq, le, select
from fgrad.ops.families import ADD, batch_first, zeros_like
from fgrad.ops.reduce import reduce_any
from fgrad.ops.shape import broadcast, move_axis
from fgrad.source import here, resolve
from fgrad.trace import STATE, Value, bind, run, trace
from fgrad.transforms.derive import (
    Mask,
    VjpPrograms,
    batched_program,
    jvp_program,
    vjp_programs,
    zeros_of,
)

Values = Sequence[Value]
Dims = Sequence["int | None"]


def _made(
    of: Program, key: Any, fun: Callable[..., Values], avals: Sequence[Aval], by: str
) -> Program:
    """A program derived from another one, traced once."""
    found = of.cache.get(key)
    if found is None:
        made_by = f"{by}({of.made_by})"
        found = of.cache[key] = trace(fun, [a.strong() for a in avals], of.name, made_by).program
    return found


def _split(values: Values, *counts: int) -> list[list[Value]]:
    """Consecutive parts of the given lengths, and the rest."""
    parts, start = [], 0
    for n in counts:
        parts.append(list(values[start : start + n]))
        start += n
    return [*parts, list(values[start:])]


def _some(values: Values, mask: Sequence[bool]) -> list[Any]:
    return [x for x, m in zip(values, mask, strict=True) if m]


def _spread(values: Iterator[Value], mask: Sequence[bool]) -> list[Value | None]:
    return [next(values) if m else None for m in mask]


def _known(tangents: Sequence[Value | None]) -> Mask:
    return tuple([t is not None for t in tangents])


def _tangents(primals: Values, tangents: Sequence[Value | None], mask: Mask) -> list[Value]:
    """Tangents where the mask says so, zeros where they are zero."""
    return [
        zeros_like(x) if t is None else t
        for x, t, m in zip(primals, tangents, mask, strict=True)
        if m
    ]


def _inexact(avals: Sequence[Aval], mask: Sequence[bool]) -> Mask:
    return tuple([bool(m and a.dtype.kind in "fc") for a, m in zip(avals, mask, strict=True)])


def _values(values: Values, avals: Sequence[Aval]) -> list[Value]:
    """Operands with zeros for those without a value, which enter linearly."""
    return [zeros_of(a) if isinstance(v, Aval) else v for v, a in zip(values, avals, strict=True)]


# --- jvp


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
    parts = _split(avals, n_consts, n_carry)
    masks = _split(active, n_consts, n_carry)
    sizes = [n for part, mask in zip(parts, masks, strict=True) for n in (len(part), sum(mask))]

    def both(*values: Value) -> list[Value]:
        c, tc, k, tk, x, tx, _ = _split(values, *sizes)
        outs = run(derived.program, [*c, *k, *x, *tc, *tk, *tx])
        carry, _, pushed = _split(outs, n_carry, len(body.outputs) - n_carry)
        found = _spread(iter(pushed), derived.has_tangent)
        return [
            *carry,
            *_tangents(carry, found[:n_carry], masks[1]),  # type: ignore[arg-type]
            *[t for t in found[n_carry:] if t is not None],
        ]

    ins = [a for p, m in zip(parts, masks, strict=True) for a in (*p, *_some(p, m))]
    return _made(body, ("loop jvp", active, n_consts, n_carry), both, ins, "jvp")


@scan_p.jvp
def _(
    primals: Values, tangents: Sequence[Value | None], _outs: Any, *,
    body: Program, length: int, reverse: bool, n_consts: int, n_carry: int, saved: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    stop = n_consts + n_carry
    active = _carry_fixpoint(body, _known(tangents), n_consts, stop)
    derived = _jvp_body(body, active, n_consts, n_carry)
    c, k, x = _split(primals, n_consts, n_carry)
    tc, tk, tx = [
        _tangents(p, t, m)
        for p, t, m in zip(
            (c, k, x),
            _split(tangents, n_consts, n_carry),
            _split(active, n_consts, n_carry),
            strict=True,
        )
    ]
    outs = scan(derived, length, reverse, [*c, *tc], [*k, *tk], [*x, *tx])
    pushed = iter(outs[n_carry:])
    has = jvp_program(body, active).has_tangent
    return (
        *_spread(pushed, active[n_consts:stop]),
        *_spread(pushed, has[n_carry:]),
    )


@while_p.jvp
def _(
    primals: Values, tangents: Sequence[Value | None], _outs: Any, *,
    cond: Program, body: Program, n_cond: int, n_body: int, max_steps: int | None,
    saved: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    active = _known(tangents[n_cond:])
    active = _carry_fixpoint(body, active, n_body, len(active))
    n_carry = len(primals) - n_cond - n_body
    derived = _jvp_body(body, active, n_body, n_carry)
    cc, c, k = _split(primals, n_cond, n_body)
    _, tc, tk = _split(tangents, n_cond, n_body)
    tc, tk = _tangents(c, tc, active[:n_body]), _tangents(k, tk, active[n_body:])

    def holds(*values: Value) -> list[Value]:
        return run(cond, values[: n_cond + n_carry])

    extra = _some(body.in_avals[n_body:], active[n_body:])
    key = ("while jvp", active[n_body:])
    test = _made(cond, key, holds, [*cond.in_avals, *extra], "jvp")
    outs = while_loop(test, derived, cc, [*c, *tc], [*k, *tk], max_steps)
    return tuple(_spread(iter(outs[n_carry:]), active[n_body:]))


@switch_p.jvp
def _(
    primals: Values, tangents: Sequence[Value | None], outs: Values, *,
    branches: tuple[Program, ...], saved: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    active = _known(tangents[1:])
    if not any(active):
        return (None,) * len(outs)
    masks = [jvp_program(branch, active).has_tangent for branch in branches]
    has = tuple([any(column) for column in zip(*masks, strict=True)])
    derived = [_jvp_branch(branch, active, has) for branch in branches]
    pushed = switch(
        primals[0], derived, [*primals[1:], *[t for t in tangents[1:] if t is not None]]
    )
    return tuple(_spread(iter(pushed), has))


def _jvp_branch(branch: Program, active: Mask, has: Mask) -> Program:
    """The tangents of a branch, zeros where only other branches have one."""
    derived = jvp_program(branch, active)

    def tangents(*values: Value) -> list[Value]:
        outs = run(derived.program, values)
        primals, pushed = _split(outs, len(branch.outputs))
        return _tangents(primals, _spread(iter(pushed), derived.has_tangent), has)

    ins = [*branch.in_avals, *_some(branch.in_avals, active)]
    return _made(branch, ("switch jvp", active, has), tangents, ins, "jvp")


# --- residuals


class Residuals(NamedTuple):
    """Where each residual of a forward program comes from: the number of an input, of a value that
    depends on the first inputs alone (`fixed`), or of an additional output."""

    places: list[tuple[str, int]]
    fixed: Program
    extra: list[Any]


def _residuals(programs: VjpPrograms, n_fixed: int) -> Residuals:
    """Sort the residuals; the first `n_fixed` inputs are the same in every step."""
    forward = programs.forward
    number = {v: k for k, v in enumerate(forward.inputs)}
    varying = set(forward.inputs[n_fixed:])
    for eqn in forward.eqns:
        if any([type(a) is Var and a in varying for a in eqn.inputs]):
            varying.update(eqn.outputs)
    fixed: dict[Any, int] = {}
    extra: dict[Any, int] = {}
    places: list[tuple[str, int]] = []
    for atom in forward.outputs[programs.count :]:
        if atom in number:
            places.append(("input", number[atom]))  # type: ignore[index]
        elif type(atom) is Lit or atom not in varying:
            places.append(("fixed", fixed.setdefault(atom, len(fixed))))
        else:
            places.append(("extra", extra.setdefault(atom, len(extra))))
    alone = _restricted(forward, forward.inputs[:n_fixed], tuple(fixed))
    return Residuals(places, alone, list(extra))


def _restricted(program: Program, inputs: tuple[Var, ...], outputs: tuple[Any, ...]) -> Program:
    """The part of a program that some outputs need."""
    live = {a for a in outputs if type(a) is Var}
    kept = []
    for eqn in reversed(program.eqns):
        if any([v in live for v in eqn.outputs]):
            kept.append(eqn)
            live.update([a for a in eqn.inputs if type(a) is Var])
    consts = tuple([pair for pair in program.consts if pair[0] in live])
    return program.replace(
        inputs=inputs, consts=consts, eqns=tuple(reversed(kept)), outputs=outputs
    )


def _cached(program: Program, key: Any, make: Callable[[], Any]) -> Any:
    found = program.cache.get(key)
    if found is None:
        found = program.cache[key] = make()
    return found


# --- scan in reverse


class SavedScan(NamedTuple):
    """What the forward scan left: the derived programs, and each residual as a value that is fixed
    or has one item for each step."""

    programs: VjpPrograms
    wanted: Mask
    stacked: Mask  # for each residual
    residuals: list[Value]


def _forward_scan(
    values: Values, wanted: Mask, params: dict[str, Any]
) -> tuple[tuple[Value, ...], SavedScan]:
    body: Program = params["body"]
    n_consts, n_carry = params["n_consts"], params["n_carry"]
    programs = vjp_programs(body, wanted)
    key = ("scan residuals", wanted, n_consts, n_carry)

    def make() -> tuple[Residuals, Program, list[Any]]:
        found = _residuals(programs, n_consts)
        first, stop = n_consts, n_consts + n_carry
        extra = list(found.extra)
        # The carry before each step is a residual that must be stacked as well.
        carried = {k for how, k in found.places if how == "input" and first <= k < stop}
        extra += [programs.forward.inputs[k] for k in sorted(carried)]
        outputs = (*programs.forward.outputs[: programs.count], *extra)
        return found, programs.forward.replace(outputs=outputs), sorted(carried)

    found, forward, carried = _cached(body, key, make)
    c, k, x = _split(values, n_consts, n_carry)
    outs = scan(forward, params["length"], params["reverse"], c, k, x)
    results, stacks = outs[: programs.count], outs[programs.count :]
    fixed = run(found.fixed, c)
    position = {number: len(found.extra) + j for j, number in enumerate(carried)}
    residuals: list[Value] = []
    stacked: list[bool] = []
    for how, j in found.places:
        if how == "fixed" or (how == "input" and j < n_consts):
            residuals.append(fixed[j] if how == "fixed" else c[j])
            stacked.append(False)
            continue
        if how == "extra":
            residuals.append(stacks[j])
        else:
            residuals.append(stacks[position[j]] if j in position else values[j])
        stacked.append(True)
    return results, SavedScan(programs, wanted, tuple(stacked), residuals)


def _wanted_of_scan(mask: Sequence[bool], body: Program, n_consts: int, n_carry: int) -> Mask:
    """All inexact carries: a cotangent of one step's result may reach any of them."""
    stop = n_consts + n_carry
    full = [*mask[:n_consts], *[True] * n_carry, *mask[stop:]]
    return _inexact(body.in_avals, full)


def _save_scan(
    values: Values, traced: Sequence[bool], params: dict[str, Any]
) -> tuple[tuple[Value, ...], SavedScan]:
    wanted = _wanted_of_scan(traced, params["body"], params["n_consts"], params["n_carry"])
    return _forward_scan(values, wanted, params)


def _operand_avals(params: dict[str, Any]) -> list[Aval]:
    """The avals of a scan's operands."""
    avals, first = params["body"].in_avals, params["n_consts"] + params["n_carry"]
    length = params["length"]
    return [
        *[a.strong() for a in avals[:first]],
        *[Aval((length, *a.shape), a.dtype) for a in avals[first:]],
    ]


def _backward_body(
    body: Program, saved: SavedScan, n_consts: int, n_carry: int
) -> tuple[Program, list[int]]:
    """(fixed residuals, ct carry, sums for consts, stacked residuals, ct ys) -> (ct carry, sums,
    ct xs)."""
    programs, wanted, stacked, _ = saved
    backward, takes = programs.backward, programs.takes
    count = len(stacked)
    res_avals = [v.aval for v in backward.inputs[:count]]
    fixed_avals = [a for a, s in zip(res_avals, stacked, strict=True) if not s]
    stack_avals = _some(res_avals, stacked)
    want_c, want_k, _ = _split(wanted, n_consts, n_carry)
    avals = [a.strong() for a in body.in_avals]
    k_avals = _some(avals[n_consts : n_consts + n_carry], want_k)
    c_avals = _some(avals[:n_consts], want_c)
    y_avals = _some([a.strong() for a in body.out_avals], takes)[sum(takes[:n_carry]) :]
    sizes = [len(fixed_avals), len(k_avals), len(c_avals), len(stack_avals)]

    def step(*values: Value) -> list[Value]:
        fixed, ct_k, sums, stacks, ct_y = _split(values, *sizes)
        one, each = iter(fixed), iter(stacks)
        residuals = [next(each) if s else next(one) for s in stacked]
        by_carry = _spread(iter(ct_k), want_k)
        cts = [*_some(by_carry, takes[:n_carry]), *ct_y]
        ct_c, pulled_k, ct_x = _split(run(backward, [*residuals, *cts]), len(sums), len(ct_k))
        sums = [bind(ADD, s, ct) for s, ct in zip(sums, ct_c, strict=True)]
        return [*pulled_k, *sums, *ct_x]

    ins = [*fixed_avals, *k_avals, *c_avals, *stack_avals, *y_avals]
    return _made(body, ("scan vjp", wanted, n_consts, n_carry), step, ins, "vjp"), sizes


def _pull_scan(
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    values: Values,
    _outs: Any,
    params: dict[str, Any],
) -> list[Value | None]:
    body: Program = params["body"]
    n_consts, n_carry, length = params["n_consts"], params["n_carry"], params["length"]
    saved: SavedScan | None = params.get("saved")
    if saved is None or any([w and not m for w, m in zip(wanted, saved.wanted, strict=True)]):
        known = _values(values, _operand_avals(params))
        mask = _wanted_of_scan(wanted, body, n_consts, n_carry)
        saved = _forward_scan(known, mask, params)[1]
    step, _ = _backward_body(body, saved, n_consts, n_carry)
    takes, avals = saved.programs.takes, body.in_avals
    want_c, want_k, _ = _split(saved.wanted, n_consts, n_carry)
    ct_k = [
        zeros_of(a) if ct is None else ct
        for ct, a, w in zip(cts[:n_carry], avals[n_consts:], want_k, strict=False)
        if w
    ]
    sums = [zeros_of(a) for a in _some(avals[:n_consts], want_c)]
    ct_y = [
        zeros_of(Aval((length, *a.shape), a.dtype)) if ct is None else ct
        for ct, a, t in zip(cts[n_carry:], body.out_avals[n_carry:], takes[n_carry:], strict=True)
        if t
    ]
    fixed = [r for r, s in zip(saved.residuals, saved.stacked, strict=True) if not s]
    stacks = _some(saved.residuals, saved.stacked)
    outs = scan(step, length, not params["reverse"], fixed, [*ct_k, *sums], [*stacks, *ct_y])
    pulled_k, pulled_c, pulled_x = _split(outs, len(ct_k), len(sums))
    return _spread(iter([*pulled_c, *pulled_k, *pulled_x]), saved.wanted)


scan_p.save = _save_scan
scan_p.pullback = _pull_scan
scan_p.refuse("transpose", "is transposed by a scan in the other direction")


# --- while in reverse


def _bounded(params: dict[str, Any]) -> dict[str, Any]:
    """A loop of at most `max_steps` steps as a scan whose steps do nothing once it has ended."""
    cond, body = params["cond"], params["body"]
    n_cond, n_body = params["n_cond"], params["n_body"]
    n_carry = len(body.outputs)

    def step(*values: Value) -> Values:
        cc, c, k = _split(values, n_cond, n_body)
        (go,) = run(cond, [*cc, *k])
        same = _made(body, ("same", n_body), lambda *v: list(v[n_body:]), body.in_avals, "identity")
        return switch(convert(go, INT64), (same, body), [*c, *k])

    avals = [*cond.in_avals[:n_cond], *body.in_avals]
    key = ("bounded", id(cond), n_cond, n_body)
    bounded = _made(body, key, step, avals, "bounded")
    return {
        "body": bounded, "length": params["max_steps"], "reverse": False,
        "n_consts": n_cond + n_body, "n_carry": n_carry,
    }  # fmt: skip


def _save_while(
    values: Values, traced: Sequence[bool], params: dict[str, Any]
) -> tuple[tuple[Value, ...], SavedScan | None]:
    if params["max_steps"] is None:
        return bind(while_p, *values, **params), None
    return _save_scan(values, traced, _bounded(params))


def _pull_while(
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    values: Values,
    outs: Any,
    params: dict[str, Any],
) -> list[Value | None]:
    if params["max_steps"] is None:
        loc = resolve(STATE.loc or here())
        raise MissingRuleError(
            "A while_loop has no derivative in reverse without a bound on its steps.",
            (
                ("where", f"{loc}:  {loc.text()}"),
                ("why", "the values of every step are kept, in memory that is reserved before."),
                ("write", "lax.while_loop(cond, body, init, max_steps=1000)"),
                ("write", "lax.fori_loop(0, n, body, init)     with n a Python integer"),
                ("write", "fgrad.jvp or jacfwd                 need no bound"),
            ),
        )
    bounded = {**_bounded(params), "saved": params.get("saved")}
    return _pull_scan(cts, wanted, values, outs, bounded)


while_p.save = _save_while
while_p.pullback = _pull_while
while_p.refuse("transpose", "is transposed by a scan over its steps")


# --- switch in reverse


class SavedSwitch(NamedTuple):
    """What the forward branches left: all residuals, of which `layout[b]` are those of branch b."""

    programs: list[VjpPrograms]
    wanted: Mask
    layout: list[list[int]]
    residuals: list[Value]


def _forward_switch(
    values: Values, wanted: Mask, branches: tuple[Program, ...]
) -> tuple[tuple[Value, ...], SavedSwitch]:
    index, *operands = values
    programs = [vjp_programs(branch, wanted) for branch in branches]
    count = len(branches[0].outputs)
    found = [_residuals(p, 0) for p in programs]
    avals = [[a.aval for a in f.extra] for f in found]
    sizes = [len(a) for a in avals]
    every = [a for each in avals for a in each]
    forward = [
        _forward_branch(b, p, f, every, sum(sizes[:n]), wanted)
        for n, (b, p, f) in enumerate(zip(branches, programs, found, strict=True))
    ]
    outs = switch(index, forward, operands)
    residuals = [*operands, *outs[count:]]
    layout = []
    for n, f in enumerate(found):
        first = len(operands) + sum(sizes[:n])
        fixed = run(f.fixed, [])
        row = []
        for how, j in f.places:
            if how == "fixed":
                row.append(len(residuals))
                residuals.append(fixed[j])
            else:
                row.append(j if how == "input" else first + j)
        layout.append(row)
    return outs[:count], SavedSwitch(programs, wanted, layout, residuals)


def _forward_branch(
    branch: Program,
    programs: VjpPrograms,
    found: Residuals,
    every: Sequence[Aval],
    first: int,
    wanted: Mask,
) -> Program:
    """A branch with its residuals, and zeros for those of the others."""
    own = programs.forward.replace(
        outputs=(*programs.forward.outputs[: programs.count], *found.extra)
    )

    def forward(*values: Value) -> list[Value]:
        outs, extra = _split(run(own, values), programs.count)
        before = [zeros_of(a) for a in every[:first]]
        after = [zeros_of(a) for a in every[first + len(extra) :]]
        return [*outs, *before, *extra, *after]

    key = ("switch forward", wanted, tuple(every), first)
    return _made(branch, key, forward, branch.in_avals, "vjp")


def _save_switch(
    values: Values, traced: Sequence[bool], params: dict[str, Any]
) -> tuple[tuple[Value, ...], SavedSwitch]:
    branches = params["branches"]
    wanted = _inexact(branches[0].in_avals, traced[1:])
    return _forward_switch(values, wanted, branches)


def _pull_switch(
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    values: Values,
    _outs: Any,
    params: dict[str, Any],
) -> list[Value | None]:
    branches: tuple[Program, ...] = params["branches"]
    saved: SavedSwitch | None = params.get("saved")
    if saved is None or any([w and not m for w, m in zip(wanted[1:], saved.wanted, strict=True)]):
        known = [values[0], *_values(values[1:], branches[0].in_avals)]
        saved = _forward_switch(known, _inexact(branches[0].in_avals, wanted[1:]), branches)[1]
    takes = [any(column) for column in zip(*[p.takes for p in saved.programs], strict=True)]
    avals = [a.strong() for a in branches[0].out_avals]
    given = [
        zeros_of(a) if ct is None else ct for ct, a, t in zip(cts, avals, takes, strict=True) if t
    ]
    residual_avals = [_aval(r) for r in saved.residuals]
    backward = [
        _backward_branch(b, p, row, residual_avals, avals, takes, saved.wanted)
        for b, p, row in zip(branches, saved.programs, saved.layout, strict=True)
    ]
    pulled = iter(switch(values[0], backward, [*saved.residuals, *given]))
    return [None, *_spread(pulled, saved.wanted)]


def _aval(x: Value) -> Aval:
    return Aval(tuple(x.shape), x.dtype)


def _backward_branch(
    branch: Program,
    programs: VjpPrograms,
    row: Sequence[int],
    residuals: Sequence[Aval],
    outs: Sequence[Aval],
    takes: Sequence[bool],
    wanted: Mask,
) -> Program:
    """A branch's pullback, which takes the residuals and cotangents of all branches."""

    def backward(*values: Value) -> list[Value]:
        saved, cts = _split(values, len(residuals))
        given = _some(_spread(iter(cts), takes), programs.takes)
        return run(programs.backward, [*[saved[k] for k in row], *given])

    key = ("switch backward", wanted, tuple(residuals), tuple(row), tuple(takes))
    return _made(branch, key, backward, [*residuals, *_some(outs, takes)], "vjp")


switch_p.save = _save_switch
switch_p.pullback = _pull_switch
switch_p.refuse("transpose", "is transposed by its branches' backward programs")


# --- vmap


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


def _batched_body(body: Program, size: int, dims: Dims, carry: Dims) -> tuple[Program, list[Any]]:
    """The batched body with its carry's axes as they come in, and those of the ys first."""
    derived = batched_program(body, size, tuple(dims))
    outs = [*carry, *[None if d is None else 0 for d in derived.dims[len(carry) :]]]
    if list(derived.dims) == outs:
        return derived.program, outs

    def normal(*values: Value) -> list[Value]:
        triples = zip(run(derived.program, values), derived.dims, outs, strict=True)
        return [_normal(size, y, d, to is not None) for y, d, to in triples]

    key = ("loop vmap", size, tuple(dims), tuple(carry))
    return _made(body, key, normal, derived.program.in_avals, "vmap"), outs


@scan_p.batch
def _(
    size: int, operands: Values, dims: Dims, *,
    body: Program, length: int, reverse: bool, n_consts: int, n_carry: int, saved: Any = None,
) -> tuple[tuple[Value, ...], list[int | None]]:  # fmt: skip
    stop = n_consts + n_carry
    items = [None if d is None else 0 for d in dims[stop:]]
    found = _batched_carry(body, size, [*dims[:stop], *items], n_consts, stop)
    derived, outs = _batched_body(body, size, found, found[n_consts:stop])
    c, k, x = _split(operands, n_consts, n_carry)
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
    saved: Any = None,
) -> tuple[tuple[Value, ...], list[int | None]]:  # fmt: skip
    cc, c, k = _split(operands, n_cond, n_body)
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
        return while_loop(test.program, derived, cc, c, k, max_steps), outs

    def any_lane(*values: Value) -> list[Value]:
        return [reduce_any(run(test.program, values)[0], (0,))]

    def masked(*values: Value) -> list[Value]:
        cc, c, old = _split(values, n_cond, n_body)
        (go,) = run(test.program, [*cc, *old])
        new = run(derived, [*c, *old])
        return [
            select(go if a.ndim == 1 else broadcast(go, a.shape, (0,)), a, b)
            for a, b in zip(new, old, strict=True)
        ]

    ins = test.program.in_avals
    key = ("lanes", size, (*cond_dims, *found))
    running = _made(cond, key, any_lane, ins, "vmap")
    step_ins = [*ins[:n_cond], *derived.in_avals]
    step = _made(body, (*key, id(cond)), masked, step_ins, "vmap")
    return while_loop(running, step, cc, [*cc, *c], k, max_steps), outs


@switch_p.batch
def _(
    size: int, operands: Values, dims: Dims, *, branches: tuple[Program, ...], saved: Any = None
) -> tuple[tuple[Value, ...], list[int | None]]:
    index, *xs = operands
    own = tuple(dims[1:])
    derived = [batched_program(branch, size, own) for branch in branches]
    if dims[0] is not None:
        return _all_branches(size, index, xs, [(d.program, d.dims) for d in derived])
    has = [
        any([d is not None for d in column])
        for column in zip(*[p.dims for p in derived], strict=True)
    ]
    outs = [0 if h else None for h in has]
    programs = [_batched_body(branch, size, own, outs)[0] for branch in branches]
    return switch(index, programs, xs), outs


def _all_branches(
    size: int, index: Value, xs: Values, derived: Sequence[tuple[Program, Dims]]
) -> tuple[tuple[Value, ...], list[int | None]]:
    """Each lane has its own branch: all are computed, and one is selected."""
    chosen: list[Value] = []
    last = len(derived) - 1
    for n in reversed(range(len(derived))):
        program, dims = derived[n]
        outs = [batch_first(size, y, d) for y, d in zip(run(program, xs), dims, strict=True)]
        if n == last:
            chosen = outs
            continue
        first = (le if n == 0 else eq)(index, INT64.type(n))
        chosen = [
            select(first if y.ndim == 1 else broadcast(first, y.shape, (0,)), y, other)
            for y, other in zip(outs, chosen, strict=True)
        ]
    return tuple(chosen), [0] * len(chosen)
