"""L4. VJP rules of `while` loops and of branches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.kinds import is_any
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64, Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ir.walk import has_effect
from fgrad.ops.control import switch, switch_p, while_p
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
from fgrad.transforms.control.counted import SavedCounted, pull_counted, save_counted
from fgrad.transforms.control.recompute import economical
from fgrad.transforms.control.scan_vjp import (
    Residuals,
    SavedScan,
    WithoutCounters,
    pull_scan,
    residuals_of,
    save_scan,
)
from fgrad.transforms.control.second_order import pull_role
from fgrad.transforms.control.selected import (
    Gives,
    Kinds,
    Pulling,
    bit_avals,
    bits_of,
    common_kinds,
    count_of,
    kinds_of,
    pulling,
    there,
    together,
    together_later,
    values_of,
)
from fgrad.transforms.control.while_loop import Kept, Loop, pull_loop, save_loop
from fgrad.transforms.core.derived_programs import (
    Mask,
    VjpPrograms,
    covers,
    derived_program,
    vjp_programs,
)
from fgrad.typing import EqnParams

# --- while in reverse


class Counted(NamedTuple):
    """A loop whose steps could be counted, as a scan and what that saved."""

    params: EqnParams
    saved: SavedScan | WithoutCounters


def _save_while(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], Counted | SavedCounted | Kept | None]:
    if params["role"] is not None:
        return bind(while_p, *values, **params), None
    return _save(values, traced, params)


def _save(
    values: Values, traced: Sequence[bool], params: EqnParams
) -> tuple[tuple[Value, ...], Counted | SavedCounted | Kept]:
    numbers = [concrete(v) for v in values]
    cond, body, n_cond, n_body = [params[k] for k in ("cond", "body", "n_cond", "n_body")]
    acts = any([has_effect(eqn) for eqn in (*cond.eqns, *body.eqns)])
    if acts or any([x is None for x in numbers]):  # counting steps would act twice
        loop = Loop(cond, body, n_cond, n_body)
        kept = save_counted(loop, values, traced, params["max_steps"], params["any_order"])
        return save_loop(loop, values, traced) if kept is None else kept
    as_scan = {
        "body": body, "length": _count(numbers, params), "reverse": False,
        "n_consts": n_body, "n_carry": len(body.outputs),
    }  # fmt: skip
    outs, saved = save_scan(values[n_cond:], traced[n_cond:], as_scan)
    return outs, Counted(as_scan, saved)


def _count(numbers: Sequence[Value], params: EqnParams) -> int:
    """The steps of a loop whose operands are known."""
    cond_consts, body_consts, carry = split_list(numbers, params["n_cond"], params["n_body"])
    steps, most = 0, params["max_steps"]
    while steps != most and run(params["cond"], [*cond_consts, *carry])[0]:
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
    saved: Counted | SavedCounted | Kept | None = params.get("saved")
    role, n_cond = params["role"], params["n_cond"]
    if role is not None and not any([isinstance(v, Aval) for v in values]):
        found = pull_role(role, cts, wanted, values, outs)
        if found is not None:
            return found
    if saved is None:
        avals = [*params["cond"].in_avals[:n_cond], *params["body"].in_avals]
        saved = _save(known_values(values, avals), wanted, params)[1]
    if isinstance(saved, Kept):
        return pull_loop(saved, cts)
    if isinstance(saved, SavedCounted):
        return pull_counted(saved, cts)
    as_scan = {**saved.params, "saved": saved.saved}
    parts = pull_scan(cts, wanted[n_cond:], values[n_cond:], outs, as_scan)
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
    if any([concrete(v) is None for v in values]):  # supports are made again of indices
        n = len(operands)
        programs = [economical(p, 0, n, False) for p in programs]
    count = len(branches[0].outputs)
    found = [residuals_of(p, 0) for p in programs]
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
