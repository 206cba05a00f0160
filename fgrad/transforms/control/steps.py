"""L4. The steps of a loop, of a number that is known when the program is made, or runs.

scan      a number known to the program; results are stacked
counted   at most so many, stacked in as many places as there may be steps
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64, Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ops.control import scan, while_loop
from fgrad.ops.elementwise import add, and_, ge, lt, sub
from fgrad.ops.index import gather, scatter
from fgrad.trace import Value, run
from fgrad.transforms.control.common import Values, split_list, unset
from fgrad.transforms.core.derived_programs import derived_program

ZERO, ONE = INT64.type(0), INT64.type(1)
NUMBER = Aval((), INT64)


class Numbers:
    """The items 0, 1, 2, ... of a loop whose number of steps is known when it runs."""


NUMBERS = Numbers()


class Condition(NamedTuple):
    """What a loop tests before each step: a program of the constants and carries of its steps."""

    program: Program
    n_consts: int
    consts: Sequence[Value]


class Steps(NamedTuple):
    """How many steps a loop has.

    Arguments:
        length: their number, or the most that there can be; None if that is not known.
        reverse: whether the last one comes first.
        counted: whether their number is not `length`.
        taken: that number, if it is known before the loop.
        goes: the condition of a loop whose number is not.
        any_order: whether what they add up may be added in any order.
    """

    length: int | None
    reverse: bool = False
    counted: bool = False
    taken: Value | None = None
    goes: Condition | None = None
    any_order: bool = False

    def backward(self, taken: Value | None) -> Steps:
        """The same steps in the other direction."""
        return self._replace(reverse=not self.reverse, taken=taken, goes=None, any_order=False)


def run_steps(
    steps: Steps, body: Program, consts: Values, carry: Values, xs: Sequence[Value | Numbers]
) -> tuple[tuple[Value, ...], Value | None]:
    """The last carry and each result stacked, and the number of steps if it is counted."""
    if not steps.counted:
        assert steps.length is not None
        return scan(body, steps.length, steps.reverse, consts, carry, xs), None  # type: ignore[arg-type]
    return _run_counted(steps, body, consts, carry, xs)


def _run_counted(
    steps: Steps, body: Program, consts: Values, carry: Values, xs: Sequence[Value | Numbers]
) -> tuple[tuple[Value, ...], Value]:
    n_consts, n_carry = len(consts), len(carry)
    ys = [a.strong() for a in body.out_avals[n_carry:]]
    buffers = [a.like((steps.length or 0, *a.shape)) for a in ys]
    stacks = [x for x in xs if not isinstance(x, Numbers)]
    numbered = [isinstance(x, Numbers) for x in xs]

    def step(*values: Value) -> list[Value]:
        c, stacked, (t,), k, stores = split_list(values, n_consts, len(stacks), 1, n_carry)
        each = iter(stacked)
        items = [t if own else gather(next(each), [t], (0,)) for own in numbered]
        outs = run(body, [*c, *k, *items])
        ys = zip(stores, outs[n_carry:], strict=True)
        stores = [scatter(store, [t], y, (0,)) for store, y in ys]
        return [sub(t, ONE) if steps.reverse else add(t, ONE), *outs[:n_carry], *stores]

    given = [*body.in_avals[:n_consts], *[aval_of(x) for x in stacks]]
    carried = [NUMBER, *body.in_avals[n_consts : n_consts + n_carry], *buffers]
    key = ("counted", n_consts, n_carry, steps.length, steps.reverse, tuple(numbered))
    key = (*key, tuple([aval_of(x).strong() for x in stacks]))
    whole = derived_program(body, key, step, [*given, *carried], "counted")
    test, tested = _test(steps, body, carried, n_carry)
    first = ZERO
    if steps.reverse:
        assert steps.taken is not None
        first = sub(steps.taken, ONE)
    made = [unset(a, [*consts, *carry, *stacks]) for a in buffers]
    outs = while_loop(
        test, whole, tested, [*consts, *stacks],
        [first, *carry, *made], max_steps=steps.length, any_order=steps.any_order,
    )  # fmt: skip
    return outs[1:], outs[0] if steps.taken is None else steps.taken


def _test(
    steps: Steps, body: Program, carried: Sequence[Aval], n_carry: int
) -> tuple[Program, Values]:
    """The condition of a counted loop, and its constants."""
    if steps.reverse:
        return derived_program(body, ("down", tuple(carried)), _down, carried, "counted"), []
    if steps.goes is None:
        assert steps.taken is not None
        avals = [NUMBER, *carried]
        return derived_program(body, ("up", tuple(carried)), _up, avals, "counted"), [steps.taken]
    cond, n_cond, consts = steps.goes

    def going(*values: Value) -> list[Value]:
        cc, (t,), k = split_list(values, n_cond, 1)
        (go,) = run(cond, [*cc, *k[:n_carry], t])
        return [go if steps.length is None else and_(go, lt(t, INT64.type(steps.length)))]

    avals = [*cond.in_avals[:n_cond], *carried]
    key = ("goes", cond, n_cond, steps.length, tuple(carried))
    return derived_program(body, key, going, avals, "counted"), consts


def _down(t: Value, *_: Value) -> list[Value]:
    return [ge(t, ZERO)]


def _up(count: Value, t: Value, *_: Value) -> list[Value]:
    return [lt(t, count)]
