"""L5. Pass `factors_in_lanes`: factors of stacks of small matrices that only solutions read stay as
lanes have them.

    factor a -> packed, pivots                    factor a -> packed, pivots, in lanes
    lu_solve packed, pivots, b        becomes     lu_solve packed, pivots, in lanes, b

Transposing eight matrices into lanes and back took a third of such a solution.

Requires steps before `plan`.  Ensures: what anything else reads lies as it did.  A block of
matrices has the same bytes in either form, and pieces of threads are whole blocks
(`NativeRoutine.grain`).
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.compile.cpu.small_stacks import in_lanes, suits
from fgrad.compile.cpu.stack_block import lanes_of
from fgrad.compile.tasks.routines import MatrixRoutine
from fgrad.compile.tasks.steps import AliasStep, LibraryStep, Step
from fgrad.ir.program import Program, Var
from fgrad.typing import PyTree


def factors_in_lanes(program: Program, steps: Sequence[Step]) -> list[Step]:
    """The steps, in which such factors lie in lanes."""
    made = {names[1]: names[2] for step in steps if (names := _factors(step, "factor"))}
    results = set(program.outputs)
    private = {
        packed
        for packed, pivots in made.items()
        if packed not in results
        and pivots not in results
        and all([_lets_lie(step, packed, pivots) for step in steps])
    }
    return [_in_lanes(step) if private.intersection(_names(step)) else step for step in steps]


def _names(step: Step) -> tuple[Var, ...]:
    """The variables of a step."""
    return (step.source, step.output) if isinstance(step, AliasStep) else step.args


def _lets_lie(step: Step, packed: object, pivots: object) -> bool:
    """Whether a step names neither of two factors, or makes them, or solves by them alone."""
    names = _names(step)
    count = names.count(packed) + names.count(pivots)
    if not count:
        return True
    made, given = _factors(step, "factor"), _factors(step, "lu_solve")
    return count == 2 and ((*made[1:3],) == (packed, pivots) or (*given[:2],) == (packed, pivots))


def _factors(step: Step, name: str) -> tuple[Var, ...]:
    """The variables of a step that is the routine of that name on whole blocks of lanes; none of
    another step."""
    routine = step.routine if type(step) is LibraryStep else None
    if type(routine) is not MatrixRoutine or routine.name != name:
        return ()
    params: dict[str, PyTree] = dict(routine.params)
    dtype, n, batch = params["dtype"], params["n"], params["batch"]
    fits = in_lanes(dtype, n, batch) if name == "factor" else suits(dtype, n, params["k"], batch)
    return _names(step) if fits and batch % lanes_of(dtype) == 0 else ()


def _in_lanes(step: Step) -> Step:
    """A step whose factors lie in lanes."""
    assert type(step) is LibraryStep and type(step.routine) is MatrixRoutine
    params = (*step.routine.params, ("lanes", True))
    return step._replace(routine=step.routine._replace(params=params))
