"""L4. VJP rules of loops: a forward loop stacks residuals, a reversed loop reads them.

forward   a loop that also stacks the residuals of each step; those that depend on the loop's
          constants alone are computed once
backward  a loop in the other direction, which sums the cotangents of the constants, and restores
          the arrays that the forward loop wrote (`restoring.py`)
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Lit, Program, Var
from fgrad.ops.control import scan_p
from fgrad.ops.selected import Tangent
from fgrad.ops.shape import full
from fgrad.trace import Value, concrete, run
from fgrad.transforms.control.additions import added_elements
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
from fgrad.transforms.control.guards import unchecked
from fgrad.transforms.control.recompute import economical
from fgrad.transforms.control.restoring import is_large, restorable, restored_programs, settle
from fgrad.transforms.control.selected import (
    Kinds,
    add_to,
    bit_avals,
    bits_of,
    carry_kinds,
    count_of,
    kinds_of,
    settled,
    sums_together,
    there,
    together,
    values_of,
)
from fgrad.transforms.control.steps import Numbers, Steps, run_steps
from fgrad.transforms.core.derived_programs import (
    AROUND,
    SELECTED,
    Mask,
    VjpPrograms,
    covers,
    derived_program,
    vjp_programs,
    within_loop,
    zeros_of,
)
from fgrad.typing import EqnParams, R


class Turns(NamedTuple):
    """A loop whose steps take constants, a carry and items."""

    body: Program
    n_consts: int
    n_carry: int
    steps: Steps


def turns_of(params: EqnParams) -> Turns:
    """A scan equation."""
    steps = Steps(params["length"], params["reverse"])
    return Turns(params["body"], params["n_consts"], params["n_carry"], steps)


class Residuals(NamedTuple):
    """Where each residual of a forward program comes from: the number of an input, of a value that
    depends on the first inputs alone (`fixed`), or of an additional output."""

    places: list[tuple[str, int]]
    fixed: Program
    extra: list[Atom]


def residuals_of(programs: VjpPrograms, n_fixed: int) -> Residuals:
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
    return Residuals(places, unchecked(alone), list(extra))


class SavedScan(NamedTuple):
    """What the forward loop left: the derived programs, and each residual as a value that is fixed
    or has one item for each step; its arrays that are restored, before and after; how many
    steps were `taken`."""

    programs: VjpPrograms
    wanted: Mask
    stacked: Mask  # for each residual
    residuals: list[Value | Numbers]
    before: list[Value]
    after: list[Value]
    taken: Value | None


def _derivative(loop: Turns, wanted: Mask, known: bool) -> tuple[VjpPrograms, tuple[int, ...]]:
    """The derivative of a step, and the numbers of the carries that it restores."""
    body, n_consts, n_carry, _ = loop
    if known:  # NumPy would compute again, and copy what it updates, slowly
        with within_loop(False):
            return vjp_programs(body, wanted), ()
    body = added_elements(body)
    around = AROUND.restored
    carries = () if around is False else restorable(body, n_consts, n_carry)
    if carries:
        programs = restored_programs(body, wanted, n_consts, carries)
        if around or _reads_arrays(programs):
            return economical(programs, n_consts, n_carry, True), carries
    large = any([is_large(v) for v in body.inputs[n_consts : n_consts + n_carry]])
    with within_loop(False if large and not carries else around):
        programs = vjp_programs(body, wanted)
        return economical(programs, n_consts, n_carry, AROUND.restored is not False), ()


def _reads_arrays(programs: VjpPrograms) -> bool:
    """Whether a pullback reads what it restores."""
    backward, n = programs.backward, len(programs.kinds)
    live = restricted(backward, backward.inputs, backward.outputs[:n])
    read = {a for eqn in live.eqns for a in eqn.inputs}
    first = len(backward.inputs) - sum(programs.takes) - programs.restored
    return any([v in read for v in backward.inputs[first : first + programs.restored]])


def forward_loop(
    loop: Turns, values: Sequence[Value | Numbers], wanted: Mask
) -> tuple[tuple[Value, ...], SavedScan] | None:
    """Run a loop so that it can be pulled back; None if there is no room for its residuals."""
    body, n_consts, n_carry, steps = loop
    known = not any([concrete(v) is None for v in values])
    programs, carries = _derivative(loop, wanted, known)
    key = ("scan residuals", wanted, n_consts, n_carry, programs.backward)

    def make() -> tuple[Residuals, Program, list[int]]:
        found = residuals_of(programs, n_consts)
        first, stop = n_consts, n_consts + n_carry
        extra = list(found.extra)
        # The carry before each step is a residual that must be stacked as well.
        carried = {k for how, k in found.places if how == "input" and first <= k < stop}
        extra += [programs.forward.inputs[k] for k in sorted(carried)]
        outputs = (*programs.forward.outputs[: programs.results], *extra)
        return found, programs.forward.replace(outputs=outputs), sorted(carried)

    found, forward, carried = body.derived(key, make)
    if not _has_room(steps, forward.out_avals[programs.results :]):
        return None
    c, k, x = split_list(values, n_consts, n_carry)
    outs, count = run_steps(steps, forward, c, k, x)  # type: ignore[arg-type]
    results, stacks = outs[: programs.results], outs[programs.results :]
    fixed = run(found.fixed, c)  # type: ignore[arg-type]
    position = {number: len(found.extra) + j for j, number in enumerate(carried)}
    residuals: list[Value | Numbers] = []
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
    before, after = [k[j] for j in carries], [results[j] for j in carries]
    return results, SavedScan(programs, wanted, tuple(stacked), residuals, before, after, count)  # type: ignore[arg-type]


ROOM = 1 << 26  # bytes of residuals of a loop whose steps are counted


def _has_room(steps: Steps, stacked: Sequence[Aval]) -> bool:
    """Whether residuals can be stacked."""
    if not steps.counted or not stacked:
        return True
    size = sum([a.size * a.dtype.itemsize for a in stacked])
    return steps.length is not None and steps.length * size <= ROOM


class WithoutCounters(NamedTuple):
    """A loop without its counters, its operands, and what it saved."""

    plain: Uncounted
    operands: Values
    saved: SavedScan | WithoutCounters


def wanted_of_loop(mask: Sequence[bool], loop: Turns) -> Mask:
    """All inexact carries: a cotangent of one step's result may reach any of them."""
    stop = loop.n_consts + loop.n_carry
    full = [*mask[: loop.n_consts], *[True] * loop.n_carry, *mask[stop:]]
    return inexact_mask(loop.body.in_avals, full)


def _forward_scan(
    values: Values, wanted: Mask, params: EqnParams
) -> tuple[tuple[Value, ...], SavedScan]:
    found = forward_loop(turns_of(params), values, wanted)
    assert found is not None
    return found


def save_scan(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], SavedScan | WithoutCounters]:
    """Run a scan so that it can be pulled back to the `traced` ones of its operands."""
    known = not any([concrete(v) is None for v in values])
    plain = None if known else uncounted(values, params)
    if plain is not None:
        operands = plain.operands(values, plain.numbers(values))
        outs, saved = save_scan(operands, plain.operands(traced, False), plain.params)
        return plain.results(outs), WithoutCounters(plain, operands, saved)
    return _forward_scan(values, wanted_of_loop(traced, turns_of(params)), params)


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
    """(fixed residuals, ct carry, sums for consts, bits of both, arrays, stacked residuals, ct ys,
    bits) -> (ct carry, sums, bits of both, arrays, ct xs, bits)."""
    programs, wanted, stacked = saved.programs, saved.wanted, saved.stacked
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
    own_k = there(k_avals, carry)
    own_y, bits_y = there(y_avals, ys), bit_avals(y_avals, ys)
    arrays = [v.aval for v in programs.backward.inputs[count : count + programs.restored]]
    parts = [fixed_avals, own_k, c_avals, bits_k, bits_c, arrays, stack_avals, own_y, bits_y]

    def step(*values: Value) -> list[Value]:
        fixed, ct_k, sums, on_k, on_c, after, stacks, ct_y, on_y, _ = split_list(
            values, *map(len, parts)
        )
        one, each = iter(fixed), iter(stacks)
        residuals = [next(each) if s else next(one) for s in stacked]
        given_k = together(iter(ct_k), iter(on_k), carry)
        given_y = together(iter(ct_y), iter(on_y), ys)
        pulled, before = pull.restoring([*residuals, *after], cts_of(given_k, given_y))
        ct_c, pulled_k, ct_x = split_list(pulled, n_c, n_k)
        sums, on_c = add_to(sums, on_c, ct_c, consts)
        return [
            *values_of(pulled_k, k_avals, carry), *sums, *bits_of(pulled_k, k_avals, carry), *on_c,
            *before,
            *values_of(ct_x, x_avals, xs), *bits_of(ct_x, x_avals, xs),
        ]  # fmt: skip

    key = ("scan vjp", wanted, n_consts, n_carry, programs.backward, carry, ys)
    ins = [a for part in parts for a in part]
    return _Step(derived_program(body, key, step, ins, "vjp"), carry, ys, consts, xs)


def pull_scan(
    cts: Sequence[Tangent],
    wanted: Sequence[bool],
    values: Values,
    _outs: object,
    params: EqnParams,
) -> list[Tangent]:
    """The cotangents of a scan's operands, for those of its results."""
    saved: SavedScan | WithoutCounters | None = params.get("saved")
    if isinstance(saved, WithoutCounters):
        plain = saved.plain
        inner = {**plain.params, "saved": saved.saved}
        within = plain.operands(wanted, False)
        return plain.expanded(pull_scan(plain.carries(cts), within, saved.operands, None, inner))
    loop = turns_of(params)
    if saved is None or not covers(saved.wanted, wanted):
        known = known_values(values, _operand_avals(params))
        saved = _forward_scan(known, wanted_of_loop(wanted, loop), params)[1]
    return pull_turns(loop, saved, cts)


def pull_turns(loop: Turns, saved: SavedScan, cts: Sequence[Tangent]) -> list[Tangent]:
    """The cotangents of a loop's operands, for those of its results."""
    body, n_consts, n_carry, steps = loop
    takes, avals = saved.programs.takes, [a.strong() for a in body.in_avals]
    want_c, want_k, _ = split_list(saved.wanted, n_consts, n_carry)
    ct_k, ct_y = some(cts[:n_carry], want_k), some(cts[n_carry:], takes[n_carry:])
    k_avals, c_avals = (
        some(avals[n_consts : n_consts + n_carry], want_k),
        some(avals[:n_consts], want_c),
    )
    carry = carry_kinds(body, n_consts, n_carry, cts, want_k)
    step = _backward_step(body, saved, n_consts, n_carry, carry, kinds_of(ct_y))
    made = some(body.out_avals[n_carry:], takes[n_carry:])
    whole = [a.like((steps.length or 0, *a.shape)) for a in made]
    fixed = [r for r, s in zip(saved.residuals, saved.stacked, strict=True) if not s]
    starts = [
        *values_of(ct_k, k_avals, step.carry),
        *[zeros_of(a) for a in c_avals],
        *bits_of(ct_k, k_avals, step.carry),
        *[full(a.shape, False, a.dtype) for a in bit_avals(c_avals, step.consts)],
        *saved.after,
    ]
    items = [*values_of(ct_y, whole, step.ys), *bits_of(ct_y, whole, step.ys)]
    stacks = some(saved.residuals, saved.stacked)
    back = steps.backward(saved.taken)
    outs, _ = run_steps(back, step.body, fixed, starts, [*stacks, *items])  # type: ignore[arg-type]
    n_bits_k, n_bits_c = step.carry.count(SELECTED), step.consts.count(SELECTED)
    pulled_k, pulled_c, on_k, on_c, arrays, of_x = split_list(
        outs, count_of(step.carry)[0], len(c_avals), n_bits_k, n_bits_c, len(saved.after)
    )
    settle(saved.before, arrays)
    n_x = count_of(step.xs)[0]
    pulled = [
        *sums_together(pulled_c, on_c, step.consts),
        *together(iter(pulled_k), iter(on_k), step.carry),
        *together(iter(of_x[:n_x]), iter(of_x[n_x:]), step.xs),
    ]
    return expand_list(iter(pulled), saved.wanted)


scan_p.save = save_scan
scan_p.pullback = pull_scan
scan_p.selects = True
scan_p.refuse("transpose", "is transposed by a scan in the other direction")
