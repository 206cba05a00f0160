"""L7. A parsed program gets locations: passes need them, and texts of programs have none."""

from __future__ import annotations

from fgrad.base.source import Loc
from fgrad.ir.program import Program
from fgrad.ir.walk import subprograms


def locate(program: Program, file: str) -> None:
    """Give all equations of a fresh program, and those in its parameters, the place `file`."""
    loc = Loc(file, 0, program.name)
    for each in subprograms(program):
        each.eqns = tuple([eqn._replace(loc=loc) for eqn in each.eqns])
