"""L5. Pass `ranges`: checks that always pass -> their operand, by the ranges of integers.

A loop counter, what is added to it, remainders, positions of extrema and what was checked before
have limits that are known when a program is compiled; so has what is gathered from those.

Requires nothing.  Ensures that each check that is left may fail, as far as intervals tell.

[M] Moore, Interval Analysis, 1966.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.counted_sums import Around, Sum, counted_sums
from fgrad.compile.passes.cse import equation_key
from fgrad.compile.passes.increments import MOST_STEPS, Change, increment
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import has_checks, programs_in, resolve_atom, resolve_operands
from fgrad.ops import primitives as prims
from fgrad.ops.counters import conjuncts, counter_step, same_integer
from fgrad.typing import EqnParams

_MOST_SCANNED = 1 << 16  # elements of a constant whose least and largest are found


class Range(NamedTuple):
    """The least and the largest value that an integer array may hold."""

    low: int
    high: int

    def joined(self, other: Range) -> Range:
        """The range of what may be in either."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Range) -> bool:
        """Whether it is a part of another one."""
        return other.low <= self.low and self.high <= other.high


Ranges = Sequence[Range | None]  # None for what is no integer
Rule = Callable[[Sequence[Range], EqnParams], Range]


def ranges(program: Program) -> Program:
    """The program without checks that always pass."""
    if not has_checks(program):
        return program
    return Walk(program, [_limits(v.aval) for v in program.inputs]).rewritten()


def _limits(aval: Aval) -> Range | None:
    if aval.dtype.kind not in "iu":
        return Range(0, 1) if aval.dtype.kind == "b" else None
    limits = np.iinfo(aval.dtype)
    return Range(int(limits.min), int(limits.max))


def _of_constant(value: np.ndarray | np.generic) -> Range | None:
    array = np.asarray(value)
    if array.dtype.kind not in "iub" or not 0 < array.size <= _MOST_SCANNED:
        return _limits(Aval(array.shape, array.dtype))
    return Range(int(array.min()), int(array.max()))


# --- one equation


def _corners(combine: Callable[[int, int], int]) -> Rule:
    def rule(given: Sequence[Range], _params: EqnParams) -> Range:
        x, y = given
        found = [combine(a, b) for a in x for b in y]
        return Range(min(found), max(found))

    return rule


def _remainder(given: Sequence[Range], _params: EqnParams) -> Range:
    x, y = given
    if y.low <= 0:
        return Range(min(y.low, 0), max(y.high, 0))
    return x if x.low >= 0 and x.high < y.low else Range(0, y.high - 1)


def _quotient(given: Sequence[Range], _params: EqnParams) -> Range:
    x, y = given
    if y.low <= 0:
        most = max(abs(x.low), abs(x.high))
        return Range(-most, most)
    found = [a // b for a in x for b in y]
    return Range(min(found), max(found))


def _absolute(given: Sequence[Range], _params: EqnParams) -> Range:
    (x,) = given
    most = max(abs(x.low), abs(x.high))
    return Range(0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high)), most)


def _clipped(given: Sequence[Range], _params: EqnParams) -> Range:
    x, low, high = given
    found = [min(max(a, b), c) for a in x for b in low for c in high]
    return Range(min(found), max(found))


def _keeps(given: Ranges) -> bool:
    """Whether numbers that are clipped are within the limits."""
    x, low, high = given
    if x is None or low is None or high is None:
        return False
    return low.high <= x.low and x.high <= high.low


def _iota(_given: Sequence[Range], params: EqnParams) -> Range:
    return Range(0, max(params["shape"][params["axis"]] - 1, 0))


def _size(_given: Sequence[Range], params: EqnParams) -> Range:
    return Range(params["value"], params["value"])


_SAME: Rule = lambda given, _params: given[0]  # noqa: E731 - a row of the table
_EITHER: Rule = lambda given, _params: given[-2].joined(given[-1])  # noqa: E731

_RULES: Mapping[Primitive, Rule] = {
    prims.add: _corners(lambda a, b: a + b),
    prims.sub: _corners(lambda a, b: a - b),
    prims.mul: _corners(lambda a, b: a * b),
    prims.min: _corners(min),
    prims.max: _corners(max),
    prims.neg: lambda given, _: Range(-given[0].high, -given[0].low),
    prims.abs: _absolute,
    prims.remainder: _remainder,
    prims.floor_divide: _quotient,
    prims.select: _EITHER,
    prims.clip: _clipped,
    prims.convert: _SAME,
    prims.checked: _SAME,
    prims.in_range: _SAME,
    prims.iota: _iota,
    prims.size: _size,
    prims.reduce_max: _SAME,
    prims.reduce_min: _SAME,
}


class Test(NamedTuple):
    """A comparison x ~ y of integers.

    always: whether it holds for all values of two ranges.
    never: whether it holds for none.
    left, right: the values of x, or of y, for which it may hold.
    """

    always: Callable[[Range, Range], bool]
    never: Callable[[Range, Range], bool]
    left: Callable[[Range, Range], Range]
    right: Callable[[Range, Range], Range]


def _below(gap: int) -> Test:
    """x + gap <= y."""
    return Test(
        lambda x, y: x.high + gap <= y.low,
        lambda x, y: x.low + gap > y.high,
        lambda x, y: Range(x.low, min(x.high, y.high - gap)),
        lambda x, y: Range(max(y.low, x.low + gap), y.high),
    )


def _above(gap: int) -> Test:
    """x >= y + gap."""
    test = _below(gap)
    return Test(
        lambda x, y: test.always(y, x),
        lambda x, y: test.never(y, x),
        lambda x, y: test.right(y, x),
        lambda x, y: test.left(y, x),
    )


_TESTS: Mapping[Primitive, Test] = {
    prims.lt: _below(1),
    prims.le: _below(0),
    prims.gt: _above(1),
    prims.ge: _above(0),
}

# What a comparison of an integer with itself is.
_OF_EQUALS: Mapping[Primitive, bool] = {
    prims.eq: True,
    prims.ne: False,
    prims.le: True,
    prims.ge: True,
    prims.lt: False,
    prims.gt: False,
}

# Whether a result has its value without limits: what gives it.
_FITS: Mapping[Primitive, Rule] = {
    prims.add_fits: _RULES[prims.add],
    prims.sub_fits: _RULES[prims.sub],
    prims.mul_fits: _RULES[prims.mul],
}


# --- a program

Walks = dict[tuple[int, tuple[Range | None, ...], tuple[Sum, ...]], "Walk"]
Inner = tuple[dict[str, object], list[Range | None]]  # programs for parameters, ranges of results


class Walk:
    """The ranges of all variables of a program, for ranges of its inputs.

    Arguments:
        inputs: the ranges of what the program takes.
        walks: those of programs in it, by their identity and what is known of their inputs.  A loop
            is walked several times, which without these would double for each loop in a loop.
        sums: what is known of sums of inputs.
    """

    def __init__(
        self, program: Program, inputs: Ranges, walks: Walks | None = None, sums: Sequence[Sum] = ()
    ) -> None:
        self.program = program
        self.sums = sums
        self.walks: Walks = {} if walks is None else walks
        self.known: dict[Var, Range | None] = dict(zip(program.inputs, inputs, strict=True))
        self.known.update([(v, _of_constant(x)) for v, x in program.consts])
        self.decided: dict[Var, bool] = {}  # comparisons that always, or never, hold
        self.made_by: dict[Var, Eqn] = {}
        self.equal: dict[Var, Var] = {}  # the first of equal integers
        self.firsts: dict[object, Var] = {}
        self.env: dict[Var, Atom] = {}
        self.eqns: list[Eqn] = []
        for eqn in program.eqns:
            self._equation(resolve_operands(eqn, self.env))

    def rewritten(self) -> Program:
        """The program without the checks that always pass; itself where nothing is known."""
        if (
            all([a is b for a, b in zip(self.eqns, self.program.eqns, strict=False)])
            and not self.env
        ):
            return self.program
        outputs = tuple([resolve_atom(a, self.env) for a in self.program.outputs])
        return self.program.replace(eqns=tuple(self.eqns), outputs=outputs, made_by="ranges")

    @property
    def outputs(self) -> list[Range | None]:
        """The ranges of the results."""
        return [self.of(resolve_atom(a, self.env)) for a in self.program.outputs]

    def of(self, atom: Atom) -> Range | None:
        """The range of a value; None if it is no integer."""
        return _of_constant(atom.value) if isinstance(atom, Lit) else self.known.get(atom)

    def holds(self, atom: Atom) -> bool | None:
        """Whether a truth value is always, or never, true; None if that is not known."""
        if isinstance(atom, Lit):
            return bool(atom.value)
        return self.decided.get(atom)

    def _equation(self, eqn: Eqn) -> None:
        tests = eqn.prim in (prims.checked, prims.required)
        if tests and self.holds(eqn.inputs[-1]):
            self.env[eqn.outputs[0]] = eqn.inputs[0]
            return
        if eqn.prim is prims.select and self.holds(eqn.inputs[0]) is not None:
            chosen = eqn.inputs[1 if self.holds(eqn.inputs[0]) else 2]
            if chosen.aval.shape == eqn.outputs[0].aval.shape:  # not that of a number
                self.env[eqn.outputs[0]] = chosen
                return
        given = [self.of(a) for a in eqn.inputs]
        if eqn.prim is prims.in_range and given[0] is not None:
            eqn = _without_limits(eqn, given[0])
            if eqn.params["low"] is eqn.params["high"] is None:
                self.env[eqn.outputs[0]] = eqn.inputs[0]
                return
        if eqn.prim is prims.clip and _keeps(given):
            x, out = eqn.inputs[0], eqn.outputs[0]
            if x.aval.shape == out.aval.shape and x.aval.dtype == out.aval.dtype:
                self.env[out] = x
                return
        if programs_in(eqn.params):
            eqn = self._with_programs(eqn, given)
        else:
            found = self._result(eqn, given)
            self.known.update([(v, found) for v in eqn.outputs])
            if eqn.prim.elementwise and found is not None:
                same = eqn._replace(inputs=tuple([self._first(a) for a in eqn.inputs]))
                self.equal[eqn.outputs[0]] = self.firsts.setdefault(
                    equation_key(same), same.outputs[0]
                )
        self.made_by.update([(v, eqn) for v in eqn.outputs])
        self.eqns.append(eqn)

    def _first(self, atom: Atom) -> Atom:
        """The first of the integers that are computed alike, checks and conversions apart."""
        atom = same_integer(atom, self.made_by)
        return self.equal.get(atom, atom) if isinstance(atom, Var) else atom

    def _result(self, eqn: Eqn, given: Ranges) -> Range | None:
        out = eqn.outputs[0]
        limits = _limits(out.aval)
        if eqn.prim in _TESTS or eqn.prim in _OF_EQUALS:
            self._compare(eqn, given)
            return limits
        if eqn.prim in _FITS:
            whole = _limits(eqn.inputs[0].aval)
            if None not in given and whole is not None:
                found = _FITS[eqn.prim](cast("Sequence[Range]", given), eqn.params)
                if found.within(whole):
                    self.decided[out] = True
            return limits
        self._spread(eqn)
        if limits is None or len(eqn.outputs) > 1:
            return limits
        rule = _RULES.get(eqn.prim)
        movement = eqn.prim.movement
        if rule is None and movement is not None and not movement.fills:
            rule = _joined if movement.joins else _SAME
        if eqn.params.get("mode", "clip") != "clip":
            return limits  # elements from outside, or sums
        place = eqn.prim.fold is not None and eqn.prim.fold.along.value == "place"
        if place and "axis" in eqn.params:
            length = eqn.inputs[0].aval.shape[eqn.params["axis"]]
            return Range(0, max(length - 1, 0))
        if rule is None or (eqn.inputs and None in given):
            return limits
        found = self._limited(eqn, rule(cast("Sequence[Range]", given), eqn.params))
        if eqn.prim is prims.in_range:
            found = _within_limits(found, eqn.params)
        return found if found.within(limits) else limits

    def _limited(self, eqn: Eqn, found: Range) -> Range:
        """A range of what an equation makes, by what is known of sums."""
        if not self.sums or eqn.prim not in (prims.add, prims.sub) or eqn.outputs[0].aval.shape:
            return found
        x, y = [same_integer(a, self.made_by) for a in eqn.inputs]
        sign = 1 if eqn.prim is prims.add else -1
        inputs = self.program.inputs
        for s in self.sums:
            pair = (inputs[s.constant], inputs[s.counter])
            if s.sign == sign and ((x, y) == pair or (sign > 0 and (y, x) == pair)):
                found = _kept(found, s)
        return found

    def _compare(self, eqn: Eqn, given: Ranges) -> None:
        (x, y), (a, b), out = given, eqn.inputs, eqn.outputs[0]
        if x is None or y is None or "f" in [a.aval.dtype.kind, b.aval.dtype.kind]:
            return
        if eqn.prim in _OF_EQUALS and self._first(a) is self._first(b):
            self.decided[out] = _OF_EQUALS[eqn.prim]
        test = _TESTS.get(eqn.prim)
        if test is not None and (test.always(x, y) or test.never(x, y)):
            self.decided[out] = test.always(x, y)

    def _spread(self, eqn: Eqn) -> None:
        """A truth value that is copied, or joined with others, may still be known."""
        known = [self.holds(a) for a in eqn.inputs if a.aval.dtype.kind == "b"]
        if len(known) != len(eqn.inputs) or not known or eqn.outputs[0].aval.dtype.kind != "b":
            return
        movement = eqn.prim.movement
        if movement is not None and not movement.fills and len(set(known)) == 1:
            found = known[0]
        elif eqn.prim is prims.and_:
            found = False if False in known else None if None in known else True
        elif eqn.prim is prims.or_:
            found = True if True in known else None if None in known else False
        else:
            return
        if found is not None:
            self.decided[eqn.outputs[0]] = found

    # Programs.

    def _with_programs(self, eqn: Eqn, given: list[Range | None]) -> Eqn:
        if eqn.prim is prims.scan:
            inner, outs = self._scan(eqn, given)
        elif eqn.prim is prims.while_:
            inner, outs = self._while(eqn, given)
        elif eqn.prim is prims.switch:
            inner, outs = self._switch(eqn, given)
        else:
            inner, outs = {}, [_limits(v.aval) for v in eqn.outputs]
        self.known.update(zip(eqn.outputs, outs, strict=True))
        changed = {name: x for name, x in inner.items() if x is not eqn.params[name]}
        return eqn._replace(params=Params({**eqn.params, **changed})) if changed else eqn

    def walk(self, program: Program, inputs: Ranges, sums: Sequence[Sum] = ()) -> Walk:
        """A program inside, for ranges of its inputs and of sums of these."""
        key = id(program), tuple(inputs), tuple(sums)
        if key not in self.walks:
            self.walks[key] = Walk(program, inputs, self.walks, sums)
        return self.walks[key]

    def _scan(self, eqn: Eqn, given: list[Range | None]) -> Inner:
        p = eqn.params
        body, n_consts, end = p["body"], p["n_consts"], p["n_consts"] + p["n_carry"]
        carry = self._carries(body, given, n_consts, p["n_carry"], p["length"], None)
        walk = self.walk(body, [*given[:n_consts], *carry, *given[end:]])
        last = [_union(x, y) for x, y in zip(given[n_consts:end], walk.outputs, strict=False)]
        outs = [*last, *walk.outputs[p["n_carry"] :]]
        return {"body": walk.rewritten()}, outs

    def _while(self, eqn: Eqn, given: list[Range | None]) -> Inner:
        p = eqn.params
        cond, body, n_cond, n_body = p["cond"], p["body"], p["n_cond"], p["n_body"]
        n = len(body.outputs)
        first = n_cond + n_body
        fixed = [
            x if out is v else _limits(v.aval)
            for x, v, out in zip(given[first:], body.inputs[n_body:], body.outputs, strict=False)
        ]
        limits = self._bounds(cond, [*given[:n_cond], *fixed], n_cond)
        carry = self._carries(body, given[n_cond:], n_body, n, None, limits)
        counters = [
            k
            for k, x in enumerate(carry)
            if x is not None and x.low >= 0 and carry[k] != _limits(body.inputs[n_body + k].aval)
        ]
        sums = counted_sums(Around(self.made_by, self.of), eqn, counters)
        consts = given[n_cond:first]
        for s in sums:
            x = consts[s.constant]
            consts[s.constant] = None if x is None else _kept(x, s)
        walk = self.walk(body, [*consts, *carry], sums)
        outs = [_union(x, y) for x, y in zip(given[first:], walk.outputs, strict=False)]
        return {"body": walk.rewritten()}, outs

    def _switch(self, eqn: Eqn, given: list[Range | None]) -> Inner:
        walks = [self.walk(branch, given[1:]) for branch in eqn.params["branches"]]
        outs = walks[0].outputs
        for walk in walks[1:]:
            outs = [_union(x, y) for x, y in zip(outs, walk.outputs, strict=True)]
        branches = tuple([walk.rewritten() for walk in walks])
        is_same = all([a is b for a, b in zip(branches, eqn.params["branches"], strict=True)])
        return {"branches": eqn.params["branches"] if is_same else branches}, outs

    def _carries(
        self,
        body: Program,
        given: list[Range | None],
        n_consts: int,
        n: int,
        length: int | None,
        limits: Mapping[int, Range] | None,
    ) -> list[Range | None]:
        """The ranges of carries at the beginning of each step.

        Arguments:
            given: those of the body's constants, then of the first carries, then of rows.
            length: how many steps there are; None if that is not known.
            limits: what the condition of a loop says of carries.
        """
        inputs = body.inputs[n_consts : n_consts + n]
        carry = [_limits(v.aval) for v in inputs]
        for k, (v, out) in enumerate(zip(inputs, body.outputs, strict=False)):
            first = given[n_consts + k]
            if first is not None:
                step = counter_step(body, v, out)
                carry[k] = _counted(first, step, length, carry[k], (limits or {}).get(k))
                change = increment(body, v, out) if step is None else None
                if change is not None:
                    carry[k] = _increased(first, change, length, carry[k])
        return self._stable(body, given, n_consts, carry)

    def _stable(
        self, body: Program, given: list[Range | None], n_consts: int, carry: list[Range | None]
    ) -> list[Range | None]:
        """Carries that are neither counters nor fixed: what they hold after a step and before the
        first, if a step keeps them there."""
        n = len(carry)
        firsts = given[n_consts : n_consts + n]
        rest = given[n_consts + n :]
        unknown = [
            k
            for k, (v, now) in enumerate(zip(body.inputs[n_consts:], carry, strict=False))
            if now is not None and now == _limits(v.aval) and v.aval.dtype.kind != "b"
        ]
        if not unknown:
            return carry
        once = self.walk(body, [*given[:n_consts], *carry, *rest]).outputs
        tried = list(carry)
        for k in unknown:
            tried[k] = _union(firsts[k], once[k])
        if tried == carry:
            return carry
        again = self.walk(body, [*given[:n_consts], *tried, *rest]).outputs
        for k in unknown:
            now, then = tried[k], again[k]
            if now is None or then is None or not then.within(now):
                return carry
        return tried

    def _bounds(self, cond: Program, given: Ranges, n_consts: int) -> dict[int, Range]:
        """What is known of carries where a condition holds: it, or a part of it, compares them."""
        walk = self.walk(cond, given)
        carries = cond.inputs[n_consts:]
        found: dict[int, Range] = {}
        for part in conjuncts(resolve_atom(cond.outputs[0], walk.env), walk.made_by):
            made = walk.made_by.get(cast("Var", part))
            if made is not None and made.prim in _TESTS:
                x, y = [walk.of(a) for a in made.inputs]
                if x is None or y is None:
                    continue
                test = _TESTS[made.prim]
                for a, kept in zip(made.inputs, (test.left(x, y), test.right(x, y)), strict=True):
                    a = same_integer(a, walk.made_by)
                    if a in carries:
                        k = carries.index(cast("Var", a))
                        found[k] = _both(found[k], kept) if k in found else kept
        return found


def _without_limits(eqn: Eqn, x: Range) -> Eqn:
    """A check without the limits that are kept anyway."""
    low, high = eqn.params["low"], eqn.params["high"]
    low = None if low is None or x.low >= low else low
    high = None if high is None or x.high <= high else high
    return eqn._replace(params=Params({**eqn.params, "low": low, "high": high}))


def _within_limits(x: Range, params: EqnParams) -> Range:
    """What is left of a range behind a check."""
    low, high = params["low"], params["high"]
    found = _both(x, Range(x.low if low is None else low, x.high if high is None else high))
    return found if found.low <= found.high else x


def _joined(given: Sequence[Range], _params: EqnParams) -> Range:
    return Range(min([x.low for x in given]), max([x.high for x in given]))


def _union(x: Range | None, y: Range | None) -> Range | None:
    return None if x is None or y is None else x.joined(y)


def _increased(
    first: Range, change: Change, length: int | None, whole: Range | None
) -> Range | None:
    """The range, at the beginning of a step, of what steps add to."""
    steps = MOST_STEPS if length is None else max(length - 1, 0)
    added = change.times(0, steps)
    found = Range(first.low + added.low, first.high + added.high)
    return found if whole is not None and found.within(whole) else whole


def _counted(
    first: Range, step: int | None, length: int | None, whole: Range | None, limit: Range | None
) -> Range | None:
    """The range of a counter at the beginning of a step."""
    if whole is None or step is None:
        return whole
    if length is not None or limit is None:
        last = step * max((MOST_STEPS if length is None else length) - 1, 0)
        found = Range(first.low + min(last, 0), first.high + max(last, 0))
        return found if found.within(whole) else whole
    # The condition holds at the beginning of a step, so that what is counted has not wrapped.
    low = first.low if step >= 0 else limit.low
    high = first.high if step <= 0 else limit.high
    after = Range(low + min(step, 0), high + max(step, 0))
    return Range(low, high) if low <= high and after.within(whole) else whole


def _kept(x: Range, s: Sum) -> Range:
    """What is left of a range by what is known of a sum; all of it where nothing would be."""
    found = _both(x, Range(x.low, s.most) if s.sign > 0 else Range(-s.most, x.high))
    return found if found.low <= found.high else x


def _both(x: Range, y: Range) -> Range:
    """The values in both ranges."""
    return Range(max(x.low, y.low), min(x.high, y.high))
