"""L5. How much a step of a loop adds to an integer at least, and at most.

for i in range(9):            0 to 4 in a step, 0 to 36 in all: two branches, one of which
    for j in range(4):        counts, in a loop of 4 steps
        if x[i] > j:
            c += 1
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ops import primitives as prims

MOST_STEPS = 1 << 50  # that a program can make: 13 days, at one a nanosecond


class Change(NamedTuple):
    """What is added at least and at most; `each` at most in one step of the innermost loops."""

    low: int
    high: int
    each: int

    def plus(self, other: Change) -> Change:
        """One after the other."""
        return Change(self.low + other.low, self.high + other.high, self.each + other.each)

    def times(self, least: int, most: int) -> Change:
        """In some number of steps."""
        limit = self.each * MOST_STEPS
        low = min(self.low * least, self.low * most)
        high = max(self.high * least, self.high * most)
        return Change(max(low, -limit), min(high, limit), self.each)


def increment(program: Program, given: Var, result: Atom) -> Change | None:
    """What a program adds to one of its inputs; None if it does something else."""
    if given.aval.shape or given.aval.dtype != INT64:
        return None
    return _Search(program, given).of(result)


class _Search:
    """The integers of a program that are an input and something that is added to it."""

    def __init__(self, program: Program, given: Var) -> None:
        self.found: dict[Var, Change] = {given: Change(0, 0, 0)}
        for eqn in program.eqns:
            if self.found.keys().isdisjoint(eqn.inputs):
                continue
            for k, v in enumerate(eqn.outputs):
                if not v.aval.shape and v.aval.dtype == INT64:
                    change = self._made_by(eqn, k)
                    if change is not None:
                        self.found[v] = change

    def of(self, atom: Atom) -> Change | None:
        """What was added; None if it is another integer."""
        return self.found.get(atom) if isinstance(atom, Var) else None

    def _made_by(self, eqn: Eqn, k: int) -> Change | None:
        if eqn.prim in (prims.convert, prims.checked):
            return self.of(eqn.inputs[0])
        if eqn.prim in (prims.add, prims.sub):
            return self._sum(eqn)
        if eqn.prim is prims.select:
            return _either([self.of(a) for a in eqn.inputs[1:]])
        if eqn.prim is prims.switch:
            branches = eqn.params["branches"]
            return _either([self._through(b, eqn.inputs[1:], b.outputs[k]) for b in branches])
        if eqn.prim is prims.scan and k < eqn.params["n_carry"]:
            length = eqn.params["length"]
            return self._loop(eqn, eqn.params["n_consts"], 0, k, length, length)
        if eqn.prim is prims.while_:
            return self._loop(eqn, eqn.params["n_body"], eqn.params["n_cond"], k, 0, MOST_STEPS)
        return None

    def _sum(self, eqn: Eqn) -> Change | None:
        x, y = eqn.inputs
        if eqn.prim is prims.add and isinstance(x, Lit):
            x, y = y, x
        before = self.of(x)
        if before is None or not isinstance(y, Lit):
            return None
        n = int(y.value) if eqn.prim is prims.add else -int(y.value)
        return before.plus(Change(n, n, abs(n)))

    def _through(self, program: Program, operands: Sequence[Atom], out: Atom) -> Change | None:
        """What a branch adds to one of its operands."""
        for v, atom in zip(program.inputs, operands, strict=True):
            before = self.of(atom)
            inside = None if before is None else increment(program, v, out)
            if before is not None and inside is not None:
                return before.plus(inside)
        return None

    def _loop(
        self, eqn: Eqn, n_consts: int, skipped: int, k: int, least: int, most: int
    ) -> Change | None:
        before = self.of(eqn.inputs[skipped + n_consts + k])
        body: Program = eqn.params["body"]
        if before is None:
            return None
        inside = increment(body, body.inputs[n_consts + k], body.outputs[k])
        return None if inside is None else before.plus(inside.times(least, most))


def _either(changes: Sequence[Change | None]) -> Change | None:
    known = [x for x in changes if x is not None]
    if not known or len(known) < len(changes):
        return None
    lows, highs, most = zip(*known, strict=True)
    return Change(min(lows), max(highs), max(most))
