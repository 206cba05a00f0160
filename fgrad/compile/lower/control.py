"""L5. Control equations -> steps that `loops/bodies.py` completes with compiled bodies."""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.compile.tasks.routines import Unbuilt
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.ir.program import Eqn, Var


def control_step(eqn: Eqn, _defined: Mapping[Var, Eqn]) -> LibraryStep:
    """The step of a control equation, until `compile_bodies` completes it."""
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep(Unbuilt(eqn), args, ())
