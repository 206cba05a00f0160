"""L4. VJP rules of control flow: a forward loop stacks residuals, a reversed loop reads them.

forward   a scan that also stacks the residuals of each step; those that depend on the loop's
          constants alone are computed once
backward  a scan in the other direction, which sums the cotangents of the constants
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.kinds import is_any
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64, Aval, aval_of
from fgrad.ir.program import Atom, Lit, Program, Var
from fgrad.ir.walk import has_effect
from fgrad.ops.control import scan, scan_p, switch, switch_p, while_p
from fgrad.ops.elementwise import convert
from fgrad.ops.selected import Tangent
from fgrad.ops.shape import full
from fgrad.trace import Value, bind, concrete, run
from fgrad.transforms.control.common import (
    Values,
    expand_list,
    inexact_mask,
    known_values,
    restricted,
    some,
    split_list,
)
from fgrad.transforms.control.counters import Uncounted, uncounted
from fgrad.transforms.control.recompute import economical
from fgrad.transforms.control.second_order import pull_role
from fgrad.transforms.control.selected import (
    Gives,
    Kinds,
    Pulling,
    add_to,
    any_selected,
    bit_avals,
    bits_of,
    common_kinds,
    count_of,
    kinds_of,
    pulling,
    settled,
    sums_together,
    there,
    together,
    together_later,
    values_of,
)
from fgrad.transforms.control.while_loop import Kept, Loop, pull_loop, save_loop
from fgrad.transforms.core.derived_programs import (
    DENSE,
    SELECTED,
    Mask,
    VjpPrograms,
    covers,
    derived_program,
    vjp_programs,
    zeros_of,
)
from fgrad.typing import EqnParams, R


class Residuals(NamedTuple):
    """Where each residual of a forward program comes from: the number of an input, of a value that
    depends on the first inputs alone (`fixed`), or of an additional output."""

    places: list[tuple[str, int]]
    fixed: Program
    extra: list[Atom]


def _residuals(programs: VjpPrograms, n_fixed: int) -> Residuals:
    """Sort the residuals; the first `n_fixed` inputs are the same in every step."""
    forward = programs.forward
    number = {v: k for k, v in enumerate(forward.inputs)}
    varying = set(forward.inputs[n_fixed:])
    for eqn in forward.eqns:
        if any([type(a) is Var and a in varying for a in eqn.inputs]):
            varying.update(eqn.outputs)
    fixed: dict[Atom, int] = {}
    extra: dict[Atom, int] = {}
    places: list[tuple[str, int]] = []
    for atom in forward.outputs[programs.results :]:
        if atom in number:
            places.append(("input", number[atom]))  # type: ignore[index]
        elif type(atom) is Lit or atom not in varying:
            places.append(("fixed", fixed.setdefault(atom, len(fixed))))
        else:
            places.append(("extra", extra.setdefault(atom, len(extra))))
    alone = restricted(forward, forward.inputs[:n_fixed], tuple(fixed))
    return Residuals(places, alone, list(extra))


# --- scan in reverse


class SavedScan(NamedTuple):
    """What the forward scan left: the derived programs, and each residual as a value that is fixed
    or has one item for each step."""

    programs: VjpPrograms
    wanted: Mask
    stacked: Mask  # for each residual
    residuals: list[Value]


def _forward_scan(
    values: Values, wanted: Mask, params: EqnParams
) -> tuple[tuple[Value, ...], SavedScan]:
    body: Program = params["body"]
    n_consts, n_carry = params["n_consts"], params["n_carry"]
    programs = vjp_programs(body, wanted)
    if any([concrete(v) is None for v in values]):  # else NumPy would compute again, slowly
        programs = economical(programs, n_consts, n_carry)
    key = ("scan residuals", wanted, n_consts, n_carry, programs.backward)

    def make() -> tuple[Residuals, Program, list[int]]:
        found = _residuals(programs, n_consts)
        first, stop = n_consts, n_consts + n_carry
        extra = list(found.extra)
        # The carry before each step is a residual that must be stacked as well.
        carried = {k for how, k in found.places if how == "input" and first <= k < stop}
        extra += [programs.forward.inputs[k] for k in sorted(carried)]
        outputs = (*programs.forward.outputs[: programs.results], *extra)
        return found, programs.forward.replace(outputs=outputs), sorted(carried)

    found, forward, carried = body.derived(key, make)
    c, k, x = split_list(values, n_consts, n_carry)
    outs = scan(forward, params["length"], params["reverse"], c, k, x)
    results, stacks = outs[: programs.results], outs[programs.results :]
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


class WithoutCounters(NamedTuple):
    """A loop without its counters, its operands, and what it saved."""

    plain: Uncounted
    operands: Values
    saved: SavedScan | WithoutCounters


def _wanted_of_scan(mask: Sequence[bool], body: Program, n_consts: int, n_carry: int) -> Mask:
    """All inexact carries: a cotangent of one step's result may reach any of them."""
    stop = n_consts + n_carry
    full = [*mask[:n_consts], *[True] * n_carry, *mask[stop:]]
    return inexact_mask(body.in_avals, full)


def _save_scan(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], SavedScan | WithoutCounters]:
    known = not any([concrete(v) is None for v in values])
    plain = None if known else uncounted(values, params)
    if plain is not None:
        operands = plain.operands(values, plain.numbers(values))
        outs, saved = _save_scan(operands, plain.operands(traced, False), plain.params)
        return plain.results(outs), WithoutCounters(plain, operands, saved)
    wanted = _wanted_of_scan(traced, params["body"], params["n_consts"], params["n_carry"])
    return _forward_scan(values, wanted, params)


def _operand_avals(params: EqnParams) -> list[Aval]:
    """The avals of a scan's operands."""
    avals, first = params["body"].in_avals, params["n_consts"] + params["n_carry"]
    length = params["length"]
    return [
        *[a.strong() for a in avals[:first]],
        *[a.like((length, *a.shape)) for a in avals[first:]],
    ]


class _Step(NamedTuple):
    """The step of a backward loop, and the kinds of what it carries, takes and gives."""

    body: Program
    carry: Kinds  # of the wanted carries
    ys: Kinds  # of the cotangents of results that the body's pullback takes
    consts: Kinds
    xs: Kinds


def _backward_step(
    body: Program, saved: SavedScan, n_consts: int, n_carry: int, carry: Kinds, ys: Kinds
) -> _Step:
    """(fixed residuals, ct carry, sums for consts, bits of both, stacked residuals, ct ys, bits) ->
    (ct carry, sums, bits of both, ct xs, bits)."""
    programs, wanted, stacked, _ = saved
    takes = programs.takes
    want_c, want_k, want_x = split_list(wanted, n_consts, n_carry)
    n_c, n_k = sum(want_c), sum(want_k)

    def cts_of(carries: Sequence[R], of_ys: Sequence[R]) -> tuple[R | None, ...]:
        return (*some(expand_list(iter(carries), want_k), takes[:n_carry]), *of_ys)

    pull, carry = settled(programs, carry, lambda kinds: cts_of(kinds, ys), n_c)
    consts, xs = pull.kinds[:n_c], pull.kinds[n_c + n_k :]
    count = len(stacked)
    res_avals = [v.aval for v in programs.backward.inputs[:count]]
    fixed_avals = [a for a, s in zip(res_avals, stacked, strict=True) if not s]
    stack_avals = some(res_avals, stacked)
    avals = [a.strong() for a in body.in_avals]
    c_avals, k_avals, x_avals = (
        some(part, mask)
        for part, mask in zip(
            split_list(avals, n_consts, n_carry), (want_c, want_k, want_x), strict=True
        )
    )
    y_avals = some([a.strong() for a in body.out_avals], takes)[sum(takes[:n_carry]) :]
    bits_k, bits_c = bit_avals(k_avals, carry), bit_avals(c_avals, consts)
    own_y, bits_y = there(y_avals, ys), bit_avals(y_avals, ys)
    parts = [fixed_avals, k_avals, c_avals, bits_k, bits_c, stack_avals, own_y, bits_y]

    def step(*values: Value) -> list[Value]:
        fixed, ct_k, sums, on_k, on_c, stacks, ct_y, on_y, _ = split_list(values, *map(len, parts))
        one, each = iter(fixed), iter(stacks)
        residuals = [next(each) if s else next(one) for s in stacked]
        given_k = together(iter(ct_k), iter(on_k), carry)
        given_y = together(iter(ct_y), iter(on_y), ys)
        pulled = pull(residuals, cts_of(given_k, given_y))
        ct_c, pulled_k, ct_x = split_list(pulled, n_c, n_k)
        sums, on_c = add_to(sums, on_c, ct_c, consts)
        return [
            *values_of(pulled_k, k_avals, carry), *sums, *bits_of(pulled_k, k_avals, carry), *on_c,
            *values_of(ct_x, x_avals, xs), *bits_of(ct_x, x_avals, xs),
        ]  # fmt: skip

    key = ("scan vjp", wanted, n_consts, n_carry, programs.backward, carry, ys)
    ins = [a for part in parts for a in part]
    return _Step(derived_program(body, key, step, ins, "vjp"), carry, ys, consts, xs)


def _pull_scan(
    cts: Sequence[Tangent],
    wanted: Sequence[bool],
    values: Values,
    _outs: object,
    params: EqnParams,
) -> list[Tangent]:
    body: Program = params["body"]
    n_consts, n_carry, length = params["n_consts"], params["n_carry"], params["length"]
    saved: SavedScan | WithoutCounters | None = params.get("saved")
    if isinstance(saved, WithoutCounters):
        plain = saved.plain
        inner = {**plain.params, "saved": saved.saved}
        within = plain.operands(wanted, False)
        return plain.expanded(_pull_scan(plain.carries(cts), within, saved.operands, None, inner))
    if saved is None or not covers(saved.wanted, wanted):
        known = known_values(values, _operand_avals(params))
        mask = _wanted_of_scan(wanted, body, n_consts, n_carry)
        saved = _forward_scan(known, mask, params)[1]
    takes, avals = saved.programs.takes, [a.strong() for a in body.in_avals]
    want_c, want_k, _ = split_list(saved.wanted, n_consts, n_carry)
    ct_k, ct_y = some(cts[:n_carry], want_k), some(cts[n_carry:], takes[n_carry:])
    k_avals, c_avals = (
        some(avals[n_consts : n_consts + n_carry], want_k),
        some(avals[:n_consts], want_c),
    )
    unknown = SELECTED if any_selected(cts) else DENSE
    carry = tuple([unknown if kind is None else kind for kind in kinds_of(ct_k)])
    step = _backward_step(body, saved, n_consts, n_carry, carry, kinds_of(ct_y))
    whole = [a.like((length, *a.shape)) for a in some(body.out_avals[n_carry:], takes[n_carry:])]
    fixed = [r for r, s in zip(saved.residuals, saved.stacked, strict=True) if not s]
    starts = [
        *values_of(ct_k, k_avals, step.carry),
        *[zeros_of(a) for a in c_avals],
        *bits_of(ct_k, k_avals, step.carry),
        *[full(a.shape, False, a.dtype) for a in bit_avals(c_avals, step.consts)],
    ]
    items = [*values_of(ct_y, whole, step.ys), *bits_of(ct_y, whole, step.ys)]
    stacks = some(saved.residuals, saved.stacked)
    outs = scan(step.body, length, not params["reverse"], fixed, starts, [*stacks, *items])
    n_bits_k, n_bits_c = step.carry.count(SELECTED), step.consts.count(SELECTED)
    on_k, on_c, of_x = split_list(outs[len(k_avals) + len(c_avals) :], n_bits_k, n_bits_c)
    pulled_k, pulled_c, _ = split_list(outs, len(k_avals), len(c_avals))
    n_x = count_of(step.xs)[0]
    pulled = [
        *sums_together(pulled_c, on_c, step.consts),
        *together(iter(pulled_k), iter(on_k), step.carry),
        *together(iter(of_x[:n_x]), iter(of_x[n_x:]), step.xs),
    ]
    return expand_list(iter(pulled), saved.wanted)


scan_p.save = _save_scan
scan_p.pullback = _pull_scan
scan_p.selects = True
scan_p.refuse("transpose", "is transposed by a scan in the other direction")


# --- while in reverse


def _bounded(params: EqnParams) -> EqnParams:
    """A loop of at most `max_steps` steps as a scan whose steps do nothing once it has ended."""
    cond, body = params["cond"], params["body"]
    n_cond, n_body = params["n_cond"], params["n_body"]
    n_carry = len(body.outputs)

    def step(*values: Value) -> Values:
        cc, c, k = split_list(values, n_cond, n_body)
        (go,) = run(cond, [*cc, *k])
        same = derived_program(
            body, ("same", n_body), lambda *v: list(v[n_body:]), body.in_avals, "identity"
        )
        return switch(convert(go, INT64), (same, body), [*c, *k])

    avals = [*cond.in_avals[:n_cond], *body.in_avals]
    key = ("bounded", cond, n_cond, n_body)
    bounded = derived_program(body, key, step, avals, "bounded")
    return {
        "body": bounded, "length": params["max_steps"], "reverse": False,
        "n_consts": n_cond + n_body, "n_carry": n_carry,
    }  # fmt: skip


class Counted(NamedTuple):
    """A loop whose steps could be counted, as a scan and what that saved."""

    params: EqnParams
    saved: SavedScan | WithoutCounters


def _save_while(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], SavedScan | WithoutCounters | Counted | Kept | None]:
    if params["max_steps"] is not None:
        return _save_scan(values, traced, _bounded(params))
    if params["role"] is not None:
        return bind(while_p, *values, **params), None
    return _save_unbounded(values, traced, params)


def _save_unbounded(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], Counted | Kept]:
    numbers = [concrete(v) for v in values]
    cond, body, n_cond, n_body = [params[k] for k in ("cond", "body", "n_cond", "n_body")]
    acts = any([has_effect(eqn) for eqn in (*cond.eqns, *body.eqns)])
    if acts or any([x is None for x in numbers]):  # counting steps would act twice
        return save_loop(Loop(cond, body, n_cond, n_body), values, traced)
    as_scan = {
        "body": body, "length": _count(numbers, params), "reverse": False,
        "n_consts": n_body, "n_carry": len(body.outputs),
    }  # fmt: skip
    outs, saved = _save_scan(values[n_cond:], traced[n_cond:], as_scan)
    return outs, Counted(as_scan, saved)


def _count(numbers: Sequence[Value], params: EqnParams) -> int:
    """The steps of a loop whose operands are known."""
    cond_consts, body_consts, carry = split_list(numbers, params["n_cond"], params["n_body"])
    steps = 0
    while run(params["cond"], [*cond_consts, *carry])[0]:
        carry = run(params["body"], [*body_consts, *carry])
        steps += 1
    return steps


def _pull_while(
    cts: Sequence[Tangent],
    wanted: Sequence[bool],
    values: Values,
    outs: Sequence[Value],
    params: EqnParams,
) -> list[Tangent]:
    saved: SavedScan | WithoutCounters | Counted | Kept | None = params.get("saved")
    if params["max_steps"] is not None:
        return _pull_scan(cts, wanted, values, outs, {**_bounded(params), "saved": saved})
    role, n_cond = params["role"], params["n_cond"]
    if role is not None and not any([isinstance(v, Aval) for v in values]):
        found = pull_role(role, cts, wanted, values, outs)
        if found is not None:
            return found
    if saved is None:
        avals = [*params["cond"].in_avals[:n_cond], *params["body"].in_avals]
        saved = _save_unbounded(known_values(values, avals), wanted, params)[1]
    if isinstance(saved, Kept):
        return pull_loop(saved, cts)
    assert isinstance(saved, Counted)
    as_scan = {**saved.params, "saved": saved.saved}
    parts = _pull_scan(cts, wanted[n_cond:], values[n_cond:], outs, as_scan)
    return [None] * n_cond + parts


while_p.save = _save_while
while_p.pullback = _pull_while
while_p.selects = True
while_p.refuse("transpose", "is transposed by a loop over its steps in the other direction")


# --- switch in reverse


class SavedSwitch(NamedTuple):
    """What the forward branches left: all residuals, of which `layout[b]` are those of branch b."""

    which: Value
    branches: tuple[Program, ...]
    programs: list[VjpPrograms]
    wanted: Mask
    layout: list[list[int]]
    residuals: list[Value]


def _forward_switch(
    values: Values, wanted: Mask, branches: tuple[Program, ...]
) -> tuple[tuple[Value, ...], SavedSwitch]:
    index, *operands = values
    if is_any(index, (np.integer, np.ndarray)):  # it is known which one is taken
        branches = (branches[min(max(int(index), 0), len(branches) - 1)],)
        index = INT64.type(0)
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
    layout: list[list[int]] = []
    for n, f in enumerate(found):
        first = len(operands) + sum(sizes[:n])
        fixed = run(f.fixed, [])
        row: list[int] = []
        for how, j in f.places:
            if how == "fixed":
                row.append(len(residuals))
                residuals.append(fixed[j])
            else:
                row.append(j if how == "input" else first + j)
        layout.append(row)
    read = {k: n for n, k in enumerate(sorted({k for row in layout for k in row}))}
    layout = [[read[k] for k in row] for row in layout]
    residuals = [residuals[k] for k in read]
    return outs[:count], SavedSwitch(index, branches, programs, wanted, layout, residuals)


def _forward_branch(
    branch: Program,
    programs: VjpPrograms,
    found: Residuals,
    every: Sequence[Aval],
    first: int,
    wanted: Mask,
) -> Program:
    """A branch with its residuals, and ones for those of the others.

    In a batch all branches are pulled back, and one is selected: a matrix of zeros would be
    singular.
    """
    own = programs.forward.replace(
        outputs=(*programs.forward.outputs[: programs.results], *found.extra)
    )

    def forward(*values: Value) -> list[Value]:
        outs, extra = split_list(run(own, values), programs.results)
        before = [_unused(a) for a in every[:first]]
        after = [_unused(a) for a in every[first + len(extra) :]]
        return [*outs, *before, *extra, *after]

    key = ("switch forward", wanted, tuple(every), first)
    return derived_program(branch, key, forward, branch.in_avals, "vjp")


def _unused(aval: Aval) -> Value:
    return full(aval.shape, int(aval.dtype.kind in "fc"), aval.dtype)


def _save_switch(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], SavedSwitch]:
    branches = params["branches"]
    wanted = inexact_mask(branches[0].in_avals, traced[1:])
    return _forward_switch(values, wanted, branches)


def _pull_switch(
    cts: Sequence[Tangent],
    wanted: Sequence[bool],
    values: Values,
    _outs: object,
    params: EqnParams,
) -> list[Tangent]:
    saved: SavedSwitch | None = params.get("saved")
    if saved is None or not covers(saved.wanted, wanted[1:]):
        branches: tuple[Program, ...] = params["branches"]
        known = [values[0], *known_values(values[1:], branches[0].in_avals)]
        saved = _forward_switch(known, inexact_mask(branches[0].in_avals, wanted[1:]), branches)[1]
    branches = saved.branches
    takes = [any(column) for column in zip(*[p.takes for p in saved.programs], strict=True)]
    given = kinds_of([ct if t else None for ct, t in zip(cts, takes, strict=True)])
    avals = [a.strong() for a in branches[0].out_avals]
    pulls = [pulling(p, tuple(some(given, p.takes))) for p in saved.programs]
    kinds = common_kinds([pull.kinds for pull in pulls])
    ins = [*[_aval(r) for r in saved.residuals], *there(avals, given), *bit_avals(avals, given)]
    operands = [*saved.residuals, *values_of(cts, avals, given), *bits_of(cts, avals, given)]

    def run_branches(gives: Gives) -> Sequence[Value]:
        backward = [
            _backward_branch(b, pull, tuple(p.takes), row, ins, given, kinds, gives)
            for b, pull, p, row in zip(branches, pulls, saved.programs, saved.layout, strict=True)
        ]
        return switch(saved.which, backward, operands)

    return [None, *expand_list(iter(together_later(run_branches, kinds)), saved.wanted)]


def _aval(x: Value) -> Aval:
    return aval_of(x).strong()


def _backward_branch(
    branch: Program,
    pull: Pulling,
    takes: Mask,
    row: Sequence[int],
    ins: Sequence[Aval],
    given: Kinds,
    kinds: Kinds,
    gives: Gives,
) -> Program:
    """A branch's pullback, which takes the residuals and cotangents of all branches, and gives
    the values, or the bits, of cotangents of all kinds."""
    n_cts, n_bits = count_of(given)

    def backward(*values: Value) -> list[Value]:
        saved, cts, bits = split_list(values, len(values) - n_cts - n_bits, n_cts)
        every = together(iter(cts), iter(bits), given)
        pulled = pull([saved[k] for k in row], some(every, takes))
        return gives(pulled, pull.avals, kinds)

    key = ("switch backward", pull.program, tuple(ins), tuple(row), given, kinds, gives)
    whole = derived_program(branch, key, backward, ins, "vjp")
    return whole.derived("live", lambda: restricted(whole, whole.inputs, whole.outputs))


switch_p.save = _save_switch
switch_p.pullback = _pull_switch
switch_p.selects = True
switch_p.refuse("transpose", "is transposed by its branches' backward programs")
