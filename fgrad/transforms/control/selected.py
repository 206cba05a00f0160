"""L4. Selected tangents and cotangents in the steps of loops and in branches.

A loop carries values, so a selected one is carried as two: the value, whose zeros are in place, and
the bits of its support.  What is zero in one step so stays zero in the next, be the derivative of
that infinite or NaN.  A loop without selections carries no bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import BOOL, Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ops.families import ADD
from fgrad.ops.selected import ZERO, Selected, Tangent, known_support, plain
from fgrad.ops.shape import full
from fgrad.trace import Value, bind, run
from fgrad.transforms.control.common import Values, restricted, split_list
from fgrad.transforms.control.reach import carries_with_cotangents
from fgrad.transforms.core.derived_programs import (
    DENSE,
    SELECTED,
    Along,
    Mask,
    VjpPrograms,
    derived_program,
    join_supports,
    jvp_program,
    with_supports,
    zeros_of,
)
from fgrad.typing import R

Kind = int | None  # DENSE, SELECTED, or None for what is known to be zero
Kinds = tuple[Kind, ...]


def kind_of(t: Tangent) -> Kind:
    """The kind of a tangent or cotangent; zeros that happen to be in what was given do not count
    as a selection here."""
    if t is None:
        return None
    return SELECTED if type(t) is Selected and not t.support.loose else DENSE


def kinds_of(ts: Sequence[Tangent]) -> Kinds:
    """The kinds of some tangents or cotangents."""
    return tuple([kind_of(t) for t in ts])


def any_selected(ts: Sequence[Tangent]) -> bool:
    """Whether any tangent or cotangent is selected."""
    return SELECTED in kinds_of(ts)


def values_of(ts: Sequence[Tangent], avals: Sequence[Aval], kinds: Kinds) -> list[Value]:
    """The values of those that are not known to be zero, by `kinds`."""
    return [
        zeros_of(a) if t is None else plain(t)
        for t, a, kind in zip(ts, avals, kinds, strict=True)
        if kind is not None
    ]


def bits_of(ts: Sequence[Tangent], avals: Sequence[Aval], kinds: Kinds) -> list[Value]:
    """The bits of those that are selected by `kinds`, whatever they are themselves."""
    return [
        t.bits() if type(t) is Selected else full(a.shape, t is not None, BOOL)
        for t, a, kind in zip(ts, avals, kinds, strict=True)
        if kind == SELECTED
    ]


def bit_avals(avals: Sequence[Aval], kinds: Kinds) -> list[Aval]:
    """The types of the bits of the selected ones."""
    return [Aval(a.shape, BOOL) for a, kind in zip(avals, kinds, strict=True) if kind == SELECTED]


def there(those: Sequence[R], kinds: Kinds) -> list[R]:
    """Those that are not known to be zero."""
    return [a for a, kind in zip(those, kinds, strict=True) if kind is not None]


def count_of(kinds: Kinds) -> tuple[int, int]:
    """How many values and bits there are."""
    return len(kinds) - kinds.count(None), kinds.count(SELECTED)


def together(values: Iterator[Value], bits: Iterator[Value], kinds: Kinds) -> list[Tangent]:
    """Tangents or cotangents made of their values and bits."""
    found: list[Tangent] = []
    for kind in kinds:
        if kind is None:
            found.append(None)
        elif kind == DENSE:
            found.append(next(values))
        else:
            found.append(Selected(next(values), known_support(next(bits)), ZERO))
    return found


Gives = Callable[[Sequence[Tangent], Sequence[Aval], Kinds], list[Value]]  # values_of or bits_of


def together_later(run_branches: Callable[[Gives], Sequence[Value]], kinds: Kinds) -> list[Tangent]:
    """The tangents or cotangents of branches, whose bits are computed when they are needed."""
    some_kinds = [kind for kind in kinds if kind is not None]
    values = run_branches(values_of)
    found = iter(with_supports(values, some_kinds, lambda: run_branches(bits_of)))
    return [None if kind is None else next(found) for kind in kinds]


def sums_together(sums: Values, bits: Values, kinds: Kinds) -> list[Tangent]:
    """Sums of cotangents with their bits; None for those to which nothing was added."""
    each = iter(bits)
    return [
        None if kind is None else together(iter([s]), each, (kind,))[0]
        for s, kind in zip(sums, kinds, strict=True)
    ]


def selected_or(of_one: Kinds, of_other: Kinds) -> Kinds:
    """The kinds of carries, for those before a step and those after it."""
    pairs = zip(of_one, of_other, strict=True)
    return tuple(
        [None if a is b is None else SELECTED if SELECTED in (a, b) else DENSE for a, b in pairs]
    )


def carry_kinds(
    body: Program, first: int, n_carry: int, cts: Sequence[Tangent], wanted: Sequence[bool]
) -> Kinds:
    """The kinds of the cotangents of a loop's wanted carries: None of those that no result with a
    cotangent depends on.

    Arguments:
        body: the step of the loop.
        first, n_carry: the place of the first carry among its inputs, and their number.
        cts: the cotangents of the loop's results.
    """
    reached = carries_with_cotangents(body, first, n_carry, [ct is not None for ct in cts])
    zero = SELECTED if any_selected(cts) else DENSE
    kinds = zip(kinds_of(cts[:n_carry]), reached, wanted, strict=True)
    return tuple([zero if k is None and there else k for k, there, asked in kinds if asked])


def common_kinds(each: Sequence[Kinds]) -> Kinds:
    """The kinds that serve several branches: zeros of one of them count as not selected."""
    return tuple(
        [column[0] if len(set(column)) == 1 else SELECTED for column in zip(*each, strict=True)]
    )


class Pulling(NamedTuple):
    """The pullback of a step or branch: `program(*residuals, *cotangents, *bits)` gives those
    cotangents of the wanted inputs that are not known to be zero, then the bits of those that are
    selected, then the arrays that are `restored`."""

    program: Program
    given: Kinds  # of the cotangents of the results
    kinds: Kinds  # of those of the inputs
    avals: tuple[Aval, ...]  # of all wanted inputs
    restored: int

    def __call__(self, residuals: Values, cts: Sequence[Tangent]) -> list[Tangent]:
        """The cotangents of the inputs, for those of the results."""
        return self.restoring(residuals, cts)[0]

    def restoring(
        self, residuals: Values, cts: Sequence[Tangent]
    ) -> tuple[list[Tangent], list[Value]]:
        """The same, and the arrays before the step; those after it are the last residuals."""
        each = iter([v.aval for v in self.program.inputs[len(residuals) :]])
        own = [NOTHING if kind is None else next(each) for kind in self.given]
        operands = [*values_of(cts, own, self.given), *bits_of(cts, own, self.given)]
        outs = run(self.program, [*residuals, *operands])
        n, last = count_of(self.kinds)[0], len(outs) - self.restored
        return together(iter(outs[:n]), iter(outs[n:]), self.kinds), outs[last:]


NOTHING = Aval((), BOOL)


def pulling(programs: VjpPrograms, given: Kinds) -> Pulling:
    """The pullback of a step or branch for cotangents of some kinds."""
    backward = programs.backward

    def make() -> Pulling:
        if all([kind == DENSE for kind in given]):
            return _pulling_all(programs, given)
        found = programs.along(given)
        return _pushed(programs, given) if found is None else _along(programs, given, found)

    return backward.derived(("pulling", given), make)


def _pulling_all(programs: VjpPrograms, given: Kinds) -> Pulling:
    backward = programs.backward
    kinds = tuple([kind and SELECTED for kind in programs.kinds])
    n = len(kinds)
    outputs = there(backward.outputs[:n], kinds)
    outputs = (*outputs, *programs.supports.outputs, *backward.outputs[n:])
    program = backward.replace(outputs=outputs)
    return Pulling(program, given, kinds, backward.out_avals[:n], programs.restored)


def _along(programs: VjpPrograms, given: Kinds, found: Along) -> Pulling:
    program, n = found.program, len(found.kinds)
    kinds = tuple([kind and SELECTED for kind in found.kinds])
    outs, before, bits = split_list(program.outputs, n, programs.restored)
    program = restricted(program, program.inputs, (*there(outs, kinds), *bits, *before))
    return Pulling(program, given, kinds, programs.backward.out_avals[:n], programs.restored)


def _pushed(programs: VjpPrograms, given: Kinds) -> Pulling:
    """A pullback is linear in the cotangents: it is pushed along those that there are."""
    backward, n = programs.backward, len(programs.kinds)
    count = len(backward.inputs) - len(given)
    avals = [a.strong() for a in backward.in_avals]
    active = (*(False,) * count, *[kind is not None for kind in given])
    derived = jvp_program(backward, active, tuple([k for k in given if k is not None]))
    whole = join_supports(derived.program, derived.supports)
    each = iter([kind and SELECTED for kind in derived.kinds])
    kinds = tuple([next(each) if has else None for has in derived.has_tangent[:n]])

    def linear(*values: Value) -> Values:
        zeros = [zeros_of(a) for a in avals[count:]]
        outs = run(whole, [*values[:count], *zeros, *values[count:]])
        return [*outs[len(backward.outputs) :], *outs[n : len(backward.outputs)]]

    own = avals[count:]
    ins = [*avals[:count], *there(own, given), *bit_avals(own, given)]
    traced = derived_program(backward, ("pulled", given), linear, ins, "vjp")
    program = restricted(traced, traced.inputs, traced.outputs)
    return Pulling(program, given, kinds, backward.out_avals[:n], programs.restored)


def settled(
    programs: VjpPrograms, carry: Kinds, cts_of: Callable[[Kinds], Kinds], n_consts: int
) -> tuple[Pulling, Kinds]:
    """The pullback of a loop's step, and the kinds of its carries, which are those before a step
    and after it.

    Arguments:
        carry: the kinds of the wanted carries, before the first step.
        cts_of: makes the kinds of a step's results of those of the carries.
        n_consts: how many wanted inputs come before the carries.
    """
    while True:
        step = pulling(programs, cts_of(carry))
        after = step.kinds[n_consts : n_consts + len(carry)]
        more = selected_or(carry, after)
        if more == carry:
            return step, carry
        carry = more


def add_to(
    sums: Values, bits: Values, cts: Sequence[Tangent], kinds: Kinds
) -> tuple[Values, Values]:
    """Sums of cotangents, and of their bits."""
    avals = [aval_of(s).strong() for s in sums]
    sums = [s if ct is None else bind(ADD, s, plain(ct)) for s, ct in zip(sums, cts, strict=True)]
    found = bits_of(cts, avals, kinds)
    return sums, [bind(ADD, a, b) for a, b in zip(bits, found, strict=True)]


def pushed_kinds(
    body: Program, active: Mask, kinds: Kinds, start: int, stop: int
) -> tuple[Kinds, Kinds]:
    """The kinds of the inputs' tangents, where a carry is selected as soon as its result is, and
    those of the results'.

    Arguments:
        kinds: of all inputs; None where they are not active.
        start, stop: the places of the carries among the inputs.
    """
    while True:
        derived = jvp_program(body, active, tuple([k for k in kinds if k is not None]))
        each = iter([SELECTED if kind else DENSE for kind in derived.kinds])
        after = tuple([next(each) if has else None for has in derived.has_tangent])
        carry = tuple(
            [
                SELECTED if k is not None and SELECTED in (k, a) else k
                for k, a in zip(kinds[start:stop], after, strict=False)
            ]
        )
        if carry == kinds[start:stop]:
            return kinds, after
        kinds = (*kinds[:start], *carry, *kinds[stop:])
