"""L5. Pass `simplify`."""

from __future__ import annotations

from fgrad.ir.program import Program


def simplify(program: Program) -> Program:
    """Same."""
    return program
