"""L6. Building blocks of special functions: rows of the scalar table, libdevice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.compile.llvm.vector.lanes import Lanes
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA
from fgrad.lower_cuda.emit.text import BodyText

Special = Callable[..., str]
DOUBLE = np.dtype(np.float64)


def body_of(v: Lanes) -> BodyText:
    """The body that is written, for loops and branches."""
    assert isinstance(v.text, BodyText)
    return v.text


def row(v: Lanes, name: str, *args: str) -> str:
    """A row of the scalar table."""
    return SCALAR_CUDA[name](v.text, args, DOUBLE, DOUBLE)


def device(name: str) -> Special:
    """A function of libdevice."""

    def call(v: Lanes, *args: str) -> str:
        types = ", ".join(["double"] * len(args))
        v.text.declare(f"declare double @__nv_{name}({types})")
        return v.text.emit(f"call double @__nv_{name}({', '.join([f'double {x}' for x in args])})")

    return call


def all_of(v: Lanes, *conditions: str) -> str:
    """Whether all hold."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = v.text.emit(f"and i1 {found}, {condition}")
    return found


def any_of(v: Lanes, *conditions: str) -> str:
    """Whether one holds."""
    found = conditions[0]
    for condition in conditions[1:]:
        found = v.text.emit(f"or i1 {found}, {condition}")
    return found


def minus(v: Lanes, x: str) -> str:
    """libNVVM's language has no fneg."""
    return v.sub(-0.0, x)
