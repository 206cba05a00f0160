"""L7. BLAS and LAPACK for machine code from files, and the errors that it notes."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.compile.cpu import blas_threads
from fgrad.compile.cpu.lapack import failure, routine_address

__all__ = ["addresses", "failure"]

_PREFIX = "fgrad_"


def addresses(names: Sequence[str]) -> dict[str, int]:
    """The addresses of routines by the names that machine code has for them."""
    guards = blas_threads.imports()
    return {
        name: guards[name] if name in guards else routine_address(name.removeprefix(_PREFIX))
        for name in names
    }
