"""L4. While loops in reverse, without a bound on their steps: some states are kept, others are
computed again.

    forward    keeps the states of steps 0, s, 2s, ...; s is a power of two that doubles when the
               slots are full.  State i stands in slot i mod m: as m is odd, any m multiples of s
               that follow each other have places of their own, and nothing is ever moved
    backward   from the nearest kept state, the states up to the present one are computed again into
               a stack of m + 1 more slots, and pulled back from the last to the first

Up to m^2 steps, each is computed twice, and once more for its residuals.  Beyond, the stack keeps
every so many states, as Griewank's binomial schedule has it, so that any number of steps will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.base.kinds import is_tuple_like
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import here, resolve
from fgrad.errors import MissingRuleError
from fgrad.ir.aval import INT64, Aval, aval_of
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import has_effect
from fgrad.ops.control import Role, while_loop
from fgrad.ops.elementwise import (
    add,
    and_,
    eq,
    floor_divide,
    ge,
    gt,
    le,
    lt,
    max_,
    min_,
    mul,
    neg,
    or_,
    remainder,
    select,
    sub,
)
from fgrad.ops.index import gather, scatter
from fgrad.ops.selected import Tangent, join
from fgrad.trace import Value, run, trace
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.control.common import (
    Values,
    expand_list,
    restricted,
    some,
    split_list,
    unset,
)
from fgrad.transforms.control.guards import unchecked
from fgrad.transforms.control.reach import inputs_with_tangents
from fgrad.transforms.control.selected import (
    Kinds,
    Pulling,
    add_to,
    bit_avals,
    bits_of,
    carry_kinds,
    count_of,
    settled,
    sums_together,
    there,
    together,
    values_of,
)
from fgrad.transforms.core.derived_programs import (
    AROUND,
    SELECTED,
    Mask,
    VjpPrograms,
    derived_program,
    vjp_programs,
    zeros_of,
)
from fgrad.typing import R

SLOTS = 128  # of the stack; the forward loop has one less
FEWEST = 8
BUDGET = 1 << 26  # bytes of all slots, where that is more than the fewest

ZERO, ONE = INT64.type(0), INT64.type(1)


class Loop(NamedTuple):
    """A while loop: its programs, and how many constants each of them has."""

    cond: Program
    body: Program
    n_cond: int
    n_body: int


class Plan(NamedTuple):
    """How a loop is pulled back.

    `programs` are the body's derivative by the `wanted` of its inputs; `kept` are the numbers of
    the carries that are stored; `again` makes them of the constants and themselves, `residuals`
    what the pullback of a step needs; the forward loop has `slots` for states.
    """

    programs: VjpPrograms
    wanted: Mask
    kept: tuple[int, ...]
    again: Program
    residuals: Program
    slots: int

    @property
    def stack(self) -> int:
        """The slots for states that are computed again."""
        return self.slots + 1


class LoopRole(Role):
    """What a loop does for another one."""

    __slots__ = ("loop", "plan")

    def __init__(self, loop: Loop, plan: Plan, operands: Sequence[Aval]) -> None:
        super().__init__(operands)
        self.loop, self.plan = loop, plan


class SavesStates(LoopRole):
    """A loop that takes the steps of another one and keeps states."""

    __slots__ = ()


class PullsBack(LoopRole):
    """A loop that pulls another one back, with cotangents of some kinds for its carries."""

    __slots__ = ("carry",)

    def __init__(self, loop: Loop, plan: Plan, operands: Sequence[Aval], carry: Kinds) -> None:
        super().__init__(loop, plan, operands)
        self.carry = carry


class Kept(NamedTuple):
    """What is left of a loop for its pullback.

    Carries that are the `same` in all steps are constants of `loop`, whose operands are `values`;
    `left` are the number of its steps, the stride and the slots.
    """

    loop: Loop
    plan: Plan
    same: Mask
    values: list[Value]
    left: list[Value]


def save_loop(loop: Loop, values: Values, traced: Sequence[bool]) -> tuple[tuple[Value, ...], Kept]:
    """Run a loop so that it can be pulled back to the `traced` ones of its operands."""
    body, n = loop.body, loop.n_body
    pairs = zip(body.inputs[n:], body.outputs, strict=True)
    same = tuple([x is y for x, y in pairs])
    inner = settled_loop(loop, same)
    given = settled_operands(loop, same, values)
    plan = plan_of(inner, settled_operands(loop, same, traced)[inner.n_cond :])
    outs, left = _saving(inner, plan, given)
    changed = iter(outs)
    carry = values[loop.n_cond + n :]
    last = [k if fixed else next(changed) for k, fixed in zip(carry, same, strict=True)]
    return tuple(last), Kept(inner, plan, same, given, left)


def pull_loop(kept: Kept, cts: Sequence[Tangent]) -> list[Tangent]:
    """The cotangents of a loop's operands, for those of its last carry."""
    loop, plan, same, values, left = kept
    changing = [not fixed for fixed in same]
    want_c, want_k = plan.wanted[: loop.n_body], plan.wanted[loop.n_body :]
    pulled, sums = _pulling(loop, plan, values, left, some(some(cts, changing), want_k))
    of_consts = expand_list(iter(sums), want_c)
    first = loop.n_body - sum(same)
    fixed, rest = iter(of_consts[first:]), iter(expand_list(iter(pulled), want_k))
    carry = [
        join(ct, next(fixed)) if is_same else next(rest)
        for ct, is_same in zip(cts, same, strict=True)
    ]
    return [*[None] * (loop.n_cond - sum(same)), *of_consts[:first], *carry]


def settled_loop(loop: Loop, same: Mask) -> Loop:
    """The loop with carries that never change as constants of both its programs."""
    if not any(same):
        return loop
    cond, body, n_cond, n_body = loop

    def settle() -> Loop:
        changing = [not fixed for fixed in same]
        tested, changed = cond.inputs[n_cond:], body.inputs[n_body:]
        return Loop(
            cond.replace(
                inputs=(*cond.inputs[:n_cond], *some(tested, same), *some(tested, changing))
            ),
            body.replace(
                inputs=(*body.inputs[:n_body], *some(changed, same), *some(changed, changing)),
                outputs=tuple(some(body.outputs, changing)),
            ),
            n_cond + sum(same),
            n_body + sum(same),
        )

    return body.derived(("settled", n_cond, n_body, cond), settle)


def settled_operands(loop: Loop, same: Mask, operands: Sequence[R]) -> list[R]:
    cc, c, k = split_list(operands, loop.n_cond, loop.n_body)
    fixed = some(k, same)
    return [*cc, *fixed, *c, *fixed, *some(k, [not is_same for is_same in same])]


def plan_of(loop: Loop, traced: Sequence[bool]) -> Plan:
    """The plan for a loop of which the `traced` inputs of the body are wanted."""
    body, n = loop.body, loop.n_body

    def make() -> Plan:
        wanted = tuple(inputs_with_tangents(body, n, traced))
        programs = vjp_programs(body, wanted)
        forward = programs.forward
        made = forward.outputs[programs.results :]
        kept = _needed(loop, _inputs_of(forward, made))
        carries = [k + n for k in kept]
        again = _part(body, n, carries, [body.outputs[k] for k in kept])
        residuals = _part(forward, n, carries, made)
        size = sum([a.size * a.dtype.itemsize for a in again.in_avals[n:]])
        stack = max(FEWEST, min(SLOTS, BUDGET // (2 * max(size, 1)))) & ~1
        return Plan(programs, wanted, kept, again, residuals, stack - 1)

    return body.derived(("while plan", n, tuple(traced), AROUND.restored), make)


def _variables(atoms: Sequence[Atom]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var)]


def _inputs_of(program: Program, wanted: Sequence[Atom]) -> set[int]:
    """The numbers of the inputs that some results depend on."""
    live = set(_variables(wanted))
    for eqn in reversed(program.eqns):
        if not live.isdisjoint(eqn.outputs):
            live.update(_variables(eqn.inputs))
    return {k for k, v in enumerate(program.inputs) if v in live}


def _needed(loop: Loop, inputs: set[int]) -> tuple[int, ...]:
    """The carries among some inputs of the body, and those that these are made of."""
    body, n = loop.body, loop.n_body
    while True:
        made = [body.outputs[k - n] for k in inputs if k >= n]
        more = inputs | _inputs_of(body, made)
        if more == inputs:
            return tuple(sorted([k - n for k in inputs if k >= n]))
        inputs = more


def _part(program: Program, n: int, carries: Sequence[int], outputs: Sequence[Atom]) -> Program:
    """The part of a program that makes some results of its constants and some carries."""
    inputs = (*program.inputs[:n], *[program.inputs[k] for k in carries])
    return _silent(unchecked(restricted(program, inputs, tuple(outputs))))


def _goes_on(i: Value, *_: Value) -> list[Value]:
    return [ge(i, ZERO)]


def _silent(program: Program) -> Program:
    """The program without side effects, which its first run had."""
    if not any([has_effect(eqn) for eqn in program.eqns]):
        return program
    live = set(_variables(program.outputs))
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        if eqn.prim.effect:
            if not live.isdisjoint(eqn.outputs):
                raise _acts_again()
            continue
        params = {k: _silent_in(x) for k, x in eqn.params.items()}
        if params != eqn.params and "role" in params:
            params["role"] = None  # its derivative would act again
        kept.append(eqn._replace(params=Params(params)))
        live.update(_variables(eqn.inputs))
    return program.replace(eqns=tuple(reversed(kept)))


def _silent_in(x: object) -> object:
    programs = [p for p in x if isinstance(p, Program)] if is_tuple_like(x) else []
    if programs:
        return tuple([_silent(p) for p in programs])
    return _silent(x) if isinstance(x, Program) else x


def _acts_again() -> MissingRuleError:
    loc = resolve(THREAD.state.loc or here())
    return MissingRuleError(
        "A while_loop in reverse computes its steps again, but one of them has a side effect whose "
        "result it needs.",
        (
            ("where", f"{loc}:  {loc.text()}"),
            ("why", "the pullback runs the step again: the effect would happen twice."),
            ("write", "lax.while_loop(cond, body, init, max_steps=1000)   keeps all steps"),
            ("write", "fgrad.pure_callback       if the function has no side effects"),
        ),
    )


# --- forward


def _saving(loop: Loop, plan: Plan, values: Values) -> tuple[list[Value], list[Value]]:
    """Run a loop: its last carry, and what it leaves: the number of steps, the stride, slots."""
    consts, carry = values[: loop.n_cond + loop.n_body], values[loop.n_cond + loop.n_body :]
    stores = [unset(_slots_of(a, plan), values) for a in plan.again.in_avals[loop.n_body :]]
    cond, body, role = _saving_programs(loop, plan)
    given = [*carry, ZERO, ONE, *stores]
    outs = while_loop(cond, body, consts[: loop.n_cond], consts[loop.n_cond :], given, role=role)
    return list(outs[: len(carry)]), list(outs[len(carry) :])


def _saving_programs(loop: Loop, plan: Plan) -> tuple[Program, Program, SavesStates]:
    """The condition and the body of the loop that keeps states, and its role."""
    cond, body, n_cond, n_body = loop
    count = len(body.outputs)

    def going(*values: Value) -> list[Value]:
        return run(cond, values[: n_cond + count])

    def step(*values: Value) -> list[Value]:
        c, k, (i, s), stores = split_list(values, n_body, count, 2)
        s = select(eq(i, mul(s, INT64.type(plan.slots))), add(s, s), s)
        slot = select(_is_kept(i, s), _slot(i, plan), INT64.type(plan.slots + plan.stack))
        stores = [
            scatter(store, [slot], k[j], (0,)) for store, j in zip(stores, plan.kept, strict=True)
        ]
        return [*run(body, [*c, *k]), add(i, ONE), s, *stores]

    stored = [body.in_avals[n_body + k] for k in plan.kept]
    more = [INT64_AVAL, INT64_AVAL, *[_slots_of(a, plan) for a in stored]]
    key = ("while saving", n_cond, n_body, plan.wanted, cond)
    test = derived_program(body, (*key, "cond"), going, [*cond.in_avals, *more], "vjp")
    kept = derived_program(body, key, step, [*body.in_avals, *more], "vjp")
    operands = [*cond.in_avals[:n_cond], *kept.in_avals]
    return test, kept, body.derived((*key, "role"), lambda: SavesStates(loop, plan, operands))


INT64_AVAL = Aval((), INT64)


def _slots_of(aval: Aval, plan: Plan) -> Aval:
    return aval.like((plan.slots + plan.stack, *aval.shape))


def _slot(i: Value, plan: Plan) -> Value:
    """Where the forward loop keeps the state before step i."""
    return remainder(i, INT64.type(plan.slots))


def _is_kept(i: Value, s: Value) -> Value:
    """Whether the forward loop keeps the state before step i, as s divides i."""
    return eq(and_(i, sub(s, ONE)), ZERO)


# --- backward


def _pulling(
    loop: Loop, plan: Plan, values: Values, left: Values, cts: Sequence[Tangent]
) -> tuple[list[Tangent], list[Tangent]]:
    """The cotangents of the first carry, for those of the last one, and of the constants.

    Arguments:
        values: of the loop.
        left: what the forward loop left.
        cts: for each wanted carry.
    """
    n, s, *stores = left
    want_k, takes = plan.wanted[loop.n_body :], plan.programs.takes
    c_avals, k_avals = _const_avals(loop, plan), _carry_avals(loop, plan)
    whole = expand_list(iter(cts), want_k)
    carry = carry_kinds(loop.body, loop.n_body, len(want_k), whole, want_k)
    pull, carry = settled(
        plan.programs, carry, lambda kinds: tuple(some(expand_list(iter(kinds), want_k), takes)),
        len(c_avals),
    )  # fmt: skip
    consts = pull.kinds[: len(c_avals)]
    steps = unset(Aval((plan.stack,), INT64), [*values, n])
    cond, body, role = _pulling_programs(loop, plan, pull, carry)
    starts = [
        *values_of(cts, k_avals, carry), *[zeros_of(a) for a in c_avals],
        *bits_of(cts, k_avals, carry), *[zeros_of(a) for a in bit_avals(c_avals, consts)],
    ]  # fmt: skip
    given = [sub(n, ONE), ZERO, steps, *stores, *starts]
    outs = while_loop(cond, body, [], [*values, s], given, role=role)
    sizes = count_of(carry)[0], len(c_avals), carry.count(SELECTED)
    _, pulled, sums, on_k, on_c = split_list(outs, 3 + len(stores), *sizes)
    return together(iter(pulled), iter(on_k), carry), sums_together(sums, on_c, consts)


def _const_avals(loop: Loop, plan: Plan) -> list[Aval]:
    return [a.strong() for a in some(loop.body.in_avals[: loop.n_body], plan.wanted[: loop.n_body])]


def _carry_avals(loop: Loop, plan: Plan) -> list[Aval]:
    return [a.strong() for a in some(loop.body.in_avals[loop.n_body :], plan.wanted[loop.n_body :])]


class _Walk(NamedTuple):
    """What is the same in all of a backward loop: the plan, the body's constants, the stride, the
    pullback of a step, and the kinds of its carries."""

    plan: Plan
    consts: Values
    s: Value
    pull: Pulling
    carry: Kinds


class _Stack(NamedTuple):
    """States that were computed again: how many, before which steps, and where all states are."""

    top: Value
    steps: Value
    stores: list[Value]

    def has(self, i: Value) -> Value:
        """Whether the newest state is the one before step i."""
        return and_(gt(self.top, ZERO), eq(gather(self.steps, [sub(self.top, ONE)], (0,)), i))


def _pulling_programs(
    loop: Loop, plan: Plan, pull: Pulling, carried: Kinds
) -> tuple[Program, Program, PullsBack]:
    """The condition and the body of the loop that pulls back, and its role."""
    cond, body, n_cond, n_body = loop
    given = [*cond.in_avals[:n_cond], *body.in_avals]
    c_avals, k_avals = _const_avals(loop, plan), _carry_avals(loop, plan)
    consts = pull.kinds[: len(c_avals)]
    stores = [_slots_of(a, plan) for a in plan.again.in_avals[n_body:]]
    carry = [INT64_AVAL, INT64_AVAL, Aval((plan.stack,), INT64), *stores]
    carry += [*there(k_avals, carried), *c_avals]
    carry += [*bit_avals(k_avals, carried), *bit_avals(c_avals, consts)]

    def step(*values: Value) -> list[Value]:
        fixed, (s, i, top, steps), slots, cts = split_list(values, len(given), 4, len(stores))
        walk = _Walk(plan, fixed[n_cond : n_cond + n_body], s, pull, carried)
        stack = _computed_again(walk, _Stack(top, steps, slots), i)
        i, top, *cts = _pulled_back(walk, stack, i, cts)
        return [i, top, stack.steps, *stack.stores, *cts]

    key = ("while pulling", n_cond, n_body, plan.wanted, cond, pull.given, carried)
    test = derived_program(body, (*key, "cond"), _goes_on, carry, "vjp")
    back = derived_program(body, key, step, [*given, INT64_AVAL, *carry], "vjp")
    operands = back.in_avals
    role = body.derived((*key, "role"), lambda: PullsBack(loop, plan, operands, carried))
    return test, back, role


def _while(
    test: Callable[..., Value], step: Callable[..., Values], carry: Values
) -> tuple[Value, ...]:
    """An inner loop of functions that may use outer values."""
    avals = [aval_of(x).strong() for x in carry]
    cond = trace(lambda *xs: [test(*xs)], avals, "while", "vjp")
    body = trace(step, avals, "while", "vjp")
    return while_loop(cond.program, body.program, cond.captured, body.captured, carry)


def _computed_again(walk: _Walk, stack: _Stack, i: Value) -> _Stack:
    """The stack with the state before step i, and of others before it as many as there is room
    for, unless that state is there."""
    plan, most = walk.plan, INT64.type(walk.plan.stack)
    out = INT64.type(plan.slots + plan.stack)
    at, place = _nearest(walk, stack, i)
    x = [gather(store, [place], (0,)) for store in stack.stores]
    after = add(at, _gap(sub(i, at), sub(most, stack.top)))

    def step(at: Value, after: Value, top: Value, steps: Value, *rest: Value) -> list[Value]:
        stores, x = split_list(rest, len(stack.stores))
        x = run(plan.again, [*walk.consts, *x])
        at = add(at, ONE)
        hit = eq(at, after)
        steps = scatter(steps, [select(hit, top, most)], at, (0,))
        slot = [select(hit, add(top, INT64.type(plan.slots)), out)]
        stores = [scatter(store, slot, y, (0,)) for store, y in zip(stores, x, strict=True)]
        top = select(hit, add(top, ONE), top)
        left = select(hit, sub(i, at), ZERO)
        after = select(hit, add(at, _gap(left, sub(most, top))), after)
        return [at, after, top, steps, *stores, *x]

    carry = [at, after, stack.top, stack.steps, *stack.stores, *x]

    def before(at: Value, *_: Value) -> Value:
        return lt(at, i)

    outs = _while(before, step, carry)
    return _Stack(outs[2], outs[3], list(outs[4 : 4 + len(x)]))


def _nearest(walk: _Walk, stack: _Stack, i: Value) -> tuple[Value, Value]:
    """A kept state from which the one before step i is computed: its step and its place.

    It is the newest of the stack, or one of the forward loop's: the first from which on the stack
    has room for all states up to i, or the last before i.
    """
    plan, s = walk.plan, walk.s
    last = and_(i, neg(s))
    room = max_(sub(i, INT64.type(plan.stack)), ZERO)
    first = min_(and_(add(room, sub(s, ONE)), neg(s)), last)
    kept = max_(select(eq(last, i), i, first), ZERO)
    newest, filled = sub(stack.top, ONE), gt(stack.top, ZERO)
    at = select(filled, gather(stack.steps, [newest], (0,)), kept)
    return at, select(filled, add(newest, INT64.type(plan.slots)), _slot(kept, plan))


def _gap(steps: Value, free: Value) -> Value:
    """How far from a kept state to the next one, for `steps` to go with `free` slots.

    With f slots and r evaluations of each, C(f + r, r) steps can be pulled back; the next state is
    kept where the steps before it, which have f slots, need one evaluation less than those after.
    """

    def step(r: Value, _: Value, reach: Value) -> list[Value]:
        r = add(r, ONE)
        return [r, reach, floor_divide(mul(reach, add(free, r)), r)]

    start = [ONE, ONE, add(free, ONE)]

    def short(_r: Value, _gap: Value, reach: Value) -> Value:
        return le(reach, steps)

    _, gap, _ = _while(short, step, start)
    return min_(gap, steps)


def _pulled_back(walk: _Walk, stack: _Stack, i: Value, cts: Values) -> tuple[Value, ...]:
    """Pull back steps from i down, as long as their states are there: the step that comes next,
    the states that are left on the stack, the cotangents of carries and the sums of constants',
    and the bits of both."""
    plan, s, pull, carry = walk.plan, walk.s, walk.pull, walk.carry
    want_k, takes = plan.wanted[len(walk.consts) :], plan.programs.takes
    n_k, n_c = count_of(carry)[0], len(pull.kinds) - len(carry)

    def is_there(i: Value, top: Value, *_: Value) -> Value:
        return and_(ge(i, ZERO), or_(_is_kept(i, s), stack._replace(top=top).has(i)))

    def step(i: Value, top: Value, *rest: Value) -> list[Value]:
        cts, sums, on_k, on_c = split_list(rest, n_k, n_c, carry.count(SELECTED))
        newest, hit = sub(top, ONE), stack._replace(top=top).has(i)
        place = select(hit, add(newest, INT64.type(plan.slots)), _slot(i, plan))
        x = [gather(store, [place], (0,)) for store in stack.stores]
        residuals = run(plan.residuals, [*walk.consts, *x])
        given = together(iter(cts), iter(on_k), carry)
        pulled = pull(residuals, some(expand_list(iter(given), want_k), takes))
        sums, on_c = add_to(sums, on_c, pulled[:n_c], pull.kinds[:n_c])
        avals = pull.avals[n_c:]
        values = values_of(pulled[n_c:], avals, carry)
        on_k = bits_of(pulled[n_c:], avals, carry)
        return [sub(i, ONE), select(hit, newest, top), *values, *sums, *on_k, *on_c]

    return _while(is_there, step, [i, stack.top, *cts])
