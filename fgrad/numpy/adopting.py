"""L4. Plain arrays as arrays of a trace.

adopt_array     a copy, which nobody else has
adopted         the array itself, where one variable alone refers to it
"""

from __future__ import annotations

import numpy as np

from fgrad.ops import elementwise as ew
from fgrad.ops.families import BROADCAST
from fgrad.trace import Builder, Tracer, innermost
from fgrad.tracing.assign import keep_memory
from fgrad.tracing.fastpath import adopt_known
from fgrad.tracing.layouts import mark


def adopt_array(builder: Builder, array: np.ndarray, is_new: bool = False) -> Tracer:
    """A plain array as a value of a trace; one number repeated stays small in programs.  A copy,
    unless it `is_new`: nobody else has it."""
    if is_new and builder.plain and builder.saves and builder.eager and array.shape:
        out = adopt_known(builder, ew.convert_p, array)
        if not array.flags.c_contiguous:
            mark(out, False)
        return out
    if array.size and not np.any(array != array.flat[0]):
        params = {"shape": array.shape, "dims": ()}
        out = builder.record(BROADCAST, (array.dtype.type(array.flat[0]),), params)
    else:
        out = builder.record(ew.convert_p, (array,), {"dtype": array.dtype})
    mark(out, array.flags.c_contiguous)
    keep_memory(out)
    return out


def adopted(array: np.ndarray) -> Tracer:
    """A new plain array that nobody else has as an array of the innermost trace."""
    builder = innermost()
    assert builder is not None
    return adopt_array(builder, array, is_new=True)
