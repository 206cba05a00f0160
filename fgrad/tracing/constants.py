"""L2. Arrays that a function closes over -> recorded constants with their values at trace time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fgrad.base.frames import note_read_only
from fgrad.tracing.assign import freeze, thaw
from fgrad.tracing.record import writable_memory

if TYPE_CHECKING:
    from fgrad.trace import Builder

SMALL = 4096  # bytes of a constant up to which copying it is cheaper than anything else
KEPT = (
    f"Arrays of more than {SMALL} bytes that a function has read, and those to which a branch or a "
    "loop may have given another name, stay as they are until it ends."
)


def constant(builder: Builder, x: np.ndarray) -> np.ndarray:
    """An array as a trace records it, which no later write reaches.

    Small arrays are copied, and all are where the records outlive the call; a large one is
    made read-only until the trace ends, so that a write raises.
    """
    flags = x.flags
    if not flags.c_contiguous:
        builder.reordered = True
    if not flags.writeable:
        if x.base is None:
            return x
    elif x.nbytes <= SMALL or builder.outlives:
        return x.copy()
    elif x.base is None:
        freeze((x,), builder.frozen)
        return x
    memory = writable_memory(x)
    if memory and (x.nbytes <= SMALL or builder.outlives):
        return x.copy()
    freeze(memory, builder.frozen)
    return x


def thaw_constants(builder: Builder, error: BaseException | None) -> None:
    """Make frozen arrays writable again at the end of a trace; explain failed writes to them."""
    if error is not None:
        note_read_only(error, KEPT)
    thaw(builder.frozen)
