"""L5. What the number of steps of a loop says of a counter and a constant together.

    for j in range(a, b):       b - a steps, so the counter t is below that in each of them
        x[j]                    j = a + t <= b - 1, and a <= b - 1
    for j in range(a, b, -1):   a - b steps
        x[j]                    j = a - t >= b + 1, and a >= b + 1

However far a and b are apart, and whichever is the larger: a step is only taken where it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ops import primitives as prims
from fgrad.ops.counters import conjuncts, same_integer

MOST = (1 << 63) - 1


class Sum(NamedTuple):
    """constant + sign * counter, and constant, are `most` at most, or `-most` at least where the
    sign is negative; both are numbers of a body's inputs."""

    constant: int
    counter: int
    sign: int
    most: int


class Ends(Protocol):
    """The ends of a range of integers."""

    @property
    def low(self) -> int:
        """The least."""
        ...

    @property
    def high(self) -> int:
        """The largest."""
        ...


class Around(NamedTuple):
    """The equations around a loop, and the ranges of what they make."""

    made: Mapping[Var, Eqn]
    ends: Callable[[Atom], Ends | None]


def counted_sums(around: Around, eqn: Eqn, counters: Sequence[int]) -> list[Sum]:
    """What is known of sums in the body of a `while` loop, of which some carries never are below
    0.  Counters and constants are those of the body's inputs."""
    p = eqn.params
    n_cond, n_body = p["n_cond"], p["n_body"]
    found: list[Sum] = []
    for k, counts in _limits_of(p["cond"], n_cond, counters):
        parts = _difference(around, eqn.inputs[counts])
        if parts is None:
            continue
        (p_root, p_by, p_ends), (q_root, q_by, q_ends) = parts
        for c in range(n_body):
            root, by = _root(around, eqn.inputs[n_cond + c])
            if isinstance(root, Var) and root is q_root:
                found.append(Sum(c, n_body + k, 1, p_ends.high - 1 + by - q_by))
            if isinstance(root, Var) and root is p_root:
                found.append(Sum(c, n_body + k, -1, -(q_ends.low + 1 + by - p_by)))
    return found


def _limits_of(cond: Program, n_cond: int, counters: Sequence[int]) -> list[tuple[int, int]]:
    """Which carries a condition says are below what of its constants."""
    made = {v: eqn for eqn in cond.eqns for v in eqn.outputs}
    growing = {cond.inputs[n_cond + k]: k for k in counters}
    fixed = {v: k for k, v in enumerate(cond.inputs[:n_cond])}
    found: list[tuple[int, int]] = []
    for part in conjuncts(cond.outputs[0], made):
        eqn = made.get(part) if isinstance(part, Var) else None
        if eqn is not None and eqn.prim is prims.lt:
            x, y = [same_integer(a, made) for a in eqn.inputs]
            if isinstance(x, Var) and x in growing and isinstance(y, Var) and y in fixed:
                found.append((growing[x], fixed[y]))
    return found


Part = tuple[Atom, int, Ends]  # what an integer is a number more than, that number, its range


def _difference(around: Around, limit: Atom) -> tuple[Part, Part] | None:
    """The two integers that a number of steps is the difference of, where that has not wrapped."""
    atom = same_integer(limit, around.made)
    eqn = around.made.get(atom) if isinstance(atom, Var) else None
    if eqn is not None and eqn.prim is prims.max and _is_at_most_0(eqn.inputs[1]):
        atom = same_integer(eqn.inputs[0], around.made)  # no counter is below 0
        eqn = around.made.get(atom) if isinstance(atom, Var) else None
    nothing = Lit(INT64.type(0))
    p, q = eqn.inputs if eqn is not None and eqn.prim is prims.sub else (atom, nothing)
    p_ends, q_ends = around.ends(p), around.ends(q)
    if p_ends is None or q_ends is None or p.aval.dtype != INT64 or q.aval.dtype != INT64:
        return None
    if p_ends.high - q_ends.low > MOST or p_ends.low - q_ends.high < -MOST - 1:
        return None
    return (*_root(around, p), p_ends), (*_root(around, q), q_ends)


def _is_at_most_0(atom: Atom) -> bool:
    return isinstance(atom, Lit) and not atom.aval.shape and int(atom.value) <= 0


def _root(around: Around, atom: Atom) -> tuple[Atom, int]:
    """What an integer is a number more than, and that number, where the sum has not wrapped."""
    by = 0
    while True:
        atom = same_integer(atom, around.made)
        eqn = around.made.get(atom) if isinstance(atom, Var) else None
        if eqn is None or eqn.prim not in (prims.add, prims.sub) or atom.aval != Aval((), INT64):
            return atom, by
        x, y = eqn.inputs
        if eqn.prim is prims.add and isinstance(x, Lit):
            x, y = y, x
        ends = around.ends(x)
        if not isinstance(y, Lit) or ends is None or isinstance(x, Lit):
            return atom, by
        n = int(y.value) if eqn.prim is prims.add else -int(y.value)
        if ends.low + n < -MOST - 1 or ends.high + n > MOST:
            return atom, by
        atom, by = x, by + n
