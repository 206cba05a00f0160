"""L4. Choose which residuals of a loop's steps are saved, and which the pullback recomputes.

    step (x, y, z) -> x * y, x + z, exp x     keeps  x, y, z and exp x
                                              computes  x * y and x + z  in the backward step

A residual that cheap operations make of values that take no more room is not stacked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.traits import Cost
from fgrad.ir.walk import definitions, has_effect
from fgrad.ops.checked import checked_p, in_range_p
from fgrad.ops.control import while_p
from fgrad.ops.index import gather_p, scatter_p
from fgrad.trace import Value, run
from fgrad.transforms.control.common import split_list
from fgrad.transforms.control.guards import unchecked
from fgrad.transforms.control.while_loop import SavesStates
from fgrad.transforms.core.derived_programs import (
    Along,
    Kinds,
    VjpPrograms,
    derived_program,
    join_supports,
    split_supports,
)

LARGE = 4  # times as many elements as an update writes: the array is made again
VECTOR = 64  # elements: from there on a division is cheaper than memory, up to there an update
MOST_EQUATIONS = 256  # that one residual may take to be computed again


def economical(programs: VjpPrograms, n_fixed: int, n_carry: int, reads: bool) -> VjpPrograms:
    """The same derivative with fewer residuals.

    Arguments:
        programs: of the body of a loop.
        n_fixed: how many of its first inputs are the same in every step.
        n_carry: how many of the following are carried, and would have to be stacked.
        reads: whether what is read of an array that stays is read again.
    """
    forward = programs.forward
    wanted = forward.outputs[programs.results :]
    kept = _Choice(forward, n_fixed, n_carry, reads).kept(wanted)
    if len(kept) >= len(dict.fromkeys(wanted)) and all([a in kept for a in wanted]):
        return programs
    remade = forward.replace(inputs=tuple(kept), outputs=wanted)
    remade = unchecked(remade.replace(eqns=_between(forward.eqns, kept, wanted)))
    small = forward.replace(outputs=(*forward.outputs[: programs.results], *kept))

    both = join_supports(programs.backward, programs.supports)

    def backward(*values: Value) -> Sequence[Value]:
        saved, cts = split_list(values, len(kept))
        return run(both, [*run(remade, saved), *cts])

    avals = [*[v.aval for v in kept], *programs.backward.in_avals[len(wanted) :]]
    key = ("economical", programs.backward, n_fixed, n_carry, reads)
    whole = derived_program(forward, key, backward, avals, "vjp")
    pair = whole.derived("split supports", lambda: split_supports(whole, programs.kinds))

    def along(given: Kinds) -> Along | None:
        found = programs.along(given)
        if found is None:
            return None

        def pull(*values: Value) -> Sequence[Value]:
            saved, cts = split_list(values, len(kept))
            return run(found.program, [*run(remade, saved), *cts])

        ins = [*[v.aval for v in kept], *found.program.in_avals[len(wanted) :]]
        return found._replace(program=derived_program(found.program, key, pull, ins, "vjp"))

    return programs._replace(forward=small, backward=pair[0], supports=pair[1], along=along)


class _Choice:
    """What is kept of one program."""

    def __init__(self, forward: Program, n_fixed: int, n_carry: int, reads: bool) -> None:
        self.reads = reads
        self.defined: Mapping[Var, Eqn] = definitions(forward.eqns)
        self.free: set[Var] = set(forward.inputs[:n_fixed]) | {v for v, _ in forward.consts}
        for eqn in forward.eqns:
            if all([a in self.free for a in eqn.inputs if isinstance(a, Var)]):
                self.free.update(eqn.outputs)
        self.free.update(forward.inputs[n_fixed + n_carry :])

    def kept(self, wanted: Sequence[Atom]) -> list[Var]:
        """The values from which the wanted ones are made."""
        found: dict[Var, None] = {}
        later: list[Var] = []
        for atom in dict.fromkeys(wanted):
            if not isinstance(atom, Var):
                continue
            if atom in self.free or not self.is_cheap(atom):
                found[atom] = None
            else:
                later.append(atom)
        made = {v: self.sources(v) for v in later}
        together = [v for each in made.values() for v in each or ()]
        if self.new_bytes(together, found) <= self.new_bytes(later, {}):
            # One by one they may not pay, but what they are made of is shared.
            found.update(dict.fromkeys(together))
        for var, sources in made.items():
            good = sources is not None and self.new_bytes(sources, found) <= self.new_bytes(
                [var], {}
            )
            found.update(dict.fromkeys(sources if good and sources is not None else [var]))
        return list(found)

    def new_bytes(self, values: Sequence[Var], found: Collection[Var]) -> int:
        """The room of those values that are not kept anyway."""
        new = [v for v in dict.fromkeys(values) if v not in found and v not in self.free]
        return sum([v.aval.size * v.aval.dtype.itemsize for v in new])

    def is_cheap(self, var: Var) -> bool:
        """Whether a value is made by an operation that costs less than memory."""
        eqn = self.defined.get(var)
        if eqn is None:
            return False
        prim = eqn.prim
        if prim in (in_range_p, checked_p):
            return True
        if prim is scatter_p:
            return _is_made_again(eqn)
        if prim is while_p:
            return _saves_states(eqn)
        if prim is gather_p:
            return self.reads and eqn.inputs[0] in self.free
        if prim.elementwise:
            limit = Cost.DIVISION if var.aval.size >= VECTOR else Cost.CHEAP
            return prim.host is None and prim.cost is not None and prim.cost <= limit
        return prim.movement is not None and prim.movement.fixed and not prim.multiple

    def is_constant(self, var: Var) -> bool:
        """Whether a value is made of literals."""
        eqn = self.defined.get(var)
        return eqn is not None and not any([isinstance(a, Var) for a in eqn.inputs])

    def sources(self, var: Var) -> list[Var] | None:
        """What cheap operations make a value of; None if they are many."""
        found: dict[Var, None] = {}
        seen: set[Var] = set()
        pending = [var]
        while pending:
            v = pending.pop()
            if v in seen:
                continue
            seen.add(v)
            if (v in self.free and not self.is_constant(v)) or not self.is_cheap(v):
                found[v] = None
            else:
                pending += [a for a in self.defined[v].inputs if isinstance(a, Var)]
        return list(found) if len(seen) <= MOST_EQUATIONS else None


def _is_made_again(eqn: Eqn) -> bool:
    """Whether an update makes an array of few elements, or of far more than what is written."""
    x, *written = eqn.inputs
    return x.aval.size <= VECTOR or x.aval.size >= LARGE * sum([a.aval.size for a in written])


def _saves_states(eqn: Eqn) -> bool:
    """Whether an inner loop keeps states, which take more room than what they are made of."""
    return isinstance(eqn.params["role"], SavesStates) and not has_effect(eqn)


def _between(eqns: Sequence[Eqn], kept: Sequence[Var], wanted: Sequence[Atom]) -> tuple[Eqn, ...]:
    """The equations that make `wanted` of `kept`."""
    known, live = set(kept), {a for a in wanted if isinstance(a, Var)}
    found: list[Eqn] = []
    for eqn in reversed(eqns):
        made = [v for v in eqn.outputs if v in live and v not in known]
        if made:
            found.append(eqn)
            live.update([a for a in eqn.inputs if isinstance(a, Var)])
    return tuple(reversed(found))
