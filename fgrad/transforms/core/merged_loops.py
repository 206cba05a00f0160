"""L4. Loops that compute tangents, in place of those that compute their primals alone.

c = while k          c is computed once:   c, t = while k, t
_, t = while k, t
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import definitions, is_ordered, use_counts
from fgrad.ops.shape import BROADCAST

PRIMAL = "primal of a loop with tangents"


def mark_primal(body: Program, primal: Program) -> Program:
    """The body of a loop with tangents, of which it is known which loop it belongs to: its carry
    begins with that of the primal loop."""
    body.derived(PRIMAL, lambda: primal)
    return body


def merged_loops(program: Program) -> Program:
    """The program without loops whose results a loop with tangents computes too."""
    loops = [eqn for eqn in program.eqns if eqn.prim.holds is Holds.LOOP]
    pushed = [(eqn, p) for eqn in loops if (p := _primal_of(eqn)) is not None]
    if not pushed or any([is_ordered(eqn) for eqn in program.eqns]):
        return program
    uses, values = use_counts(program), _Values(program)
    env: dict[Var, Atom] = {}
    gone: list[Eqn] = []
    for eqn, primal in pushed:
        for own in loops:
            if own.params["body"] is primal and own is not eqn and _is_within(own, eqn, values):
                count = _carries(own)
                if not any([v in uses for v in own.outputs[count:]]) and own not in gone:
                    gone.append(own)
                    env.update(zip(own.outputs[:count], eqn.outputs, strict=False))
    if not gone:
        return program
    kept = [eqn for eqn in program.eqns if not any([eqn is own for own in gone])]
    eqns = sorted_eqns([_renamed(eqn, env) for eqn in kept], program)
    if eqns is None:
        return program
    outputs = tuple([env.get(a, a) if isinstance(a, Var) else a for a in program.outputs])
    return program.replace(eqns=tuple(eqns), outputs=outputs)


def _primal_of(eqn: Eqn) -> Program | None:
    return eqn.params["body"].known(PRIMAL)


def _carries(eqn: Eqn) -> int:
    p = eqn.params
    return p["n_carry"] if "n_carry" in p else len(eqn.outputs)


def _is_within(own: Eqn, whole: Eqn, values: _Values) -> bool:
    """Whether a loop has the operands that another one has besides tangents."""
    if own.prim is not whole.prim:
        return False
    fixed = "n_consts" if "n_consts" in own.params else "n_body"
    before = own.params.get("n_cond", 0)
    if before != whole.params.get("n_cond", 0):
        return False
    starts = [(0, 0), (before, before)]
    a, b = before + own.params[fixed], before + whole.params[fixed]
    n, m = _carries(own), _carries(whole)
    starts += [(a, b), (a + n, b + m)]
    sizes = [before, own.params[fixed], n, len(own.inputs) - a - n]
    pairs = [
        (own.inputs[i : i + size], whole.inputs[j : j + size])
        for (i, j), size in zip(starts, sizes, strict=True)
    ]
    same = ("length", "reverse", "max_steps", "any_order")
    return all([values.equal(x, y) for x, y in pairs]) and all(
        [own.params.get(k) == whole.params.get(k) for k in same]
    )


class _Values:
    """Which values of a program are surely equal."""

    def __init__(self, program: Program) -> None:
        self.defined = definitions(program.eqns)
        self.consts = dict(program.consts)

    def equal(self, xs: Sequence[Atom], ys: Sequence[Atom]) -> bool:
        """Whether each of some values is equal to another one."""
        pairs = zip(xs, ys, strict=False)
        return len(xs) == len(ys) and all([x is y or self.pair(x, y) for x, y in pairs])

    def pair(self, x: Atom, y: Atom) -> bool:
        """Whether two numbers, constants, or arrays of one number are equal."""
        if not isinstance(x, Var) or not isinstance(y, Var):
            return type(x) is type(y) and _same(x.value, y.value)  # type: ignore[union-attr]
        if x in self.consts and y in self.consts:
            return _same(self.consts[x], self.consts[y])
        a, b = self.defined.get(x), self.defined.get(y)
        if a is None or b is None or a.prim is not BROADCAST or b.prim is not BROADCAST:
            return False
        return a.params == b.params and self.equal(a.inputs, b.inputs)


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    alike = x.dtype == y.dtype and x.shape == y.shape
    return alike and (x is y or x.tobytes() == y.tobytes())


def _renamed(eqn: Eqn, env: Mapping[Var, Atom]) -> Eqn:
    if not any([a in env for a in eqn.inputs]):
        return eqn
    return eqn._replace(inputs=tuple([env.get(a, a) for a in eqn.inputs]))  # type: ignore[call-overload]


def sorted_eqns(eqns: Sequence[Eqn], program: Program) -> list[Eqn] | None:
    """Equations after those that they read; None if that cannot be."""
    known: set[Atom] = {*program.inputs, *[v for v, _ in program.consts]}
    found: list[Eqn] = []
    left: Sequence[Eqn] = eqns
    while left:
        later: list[Eqn] = []
        for eqn in left:
            if all([a in known for a in eqn.inputs if isinstance(a, Var)]):
                found.append(eqn)
                known.update(eqn.outputs)
            else:
                later.append(eqn)
        if len(later) == len(left):
            return None
        left = later
    return found
