"""L5. Pass `canonical_dot`."""

from __future__ import annotations

from fgrad.ir.program import Program


def canonical_dot(program: Program) -> Program:
    """Same."""
    return program
