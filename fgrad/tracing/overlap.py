"""L2. Whether plain or traced arrays share memory.

overlap(u, u[1:]), overlap(u[:5], u[5:]), overlap(u[::2], u[1::2])     True, False, False
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.base.kinds import is_array
from fgrad.trace import Tracer
from fgrad.tracing.assign import layout_of, settle

MOST_WORK: Any = 100_000  # of NumPy's search for a common element; beyond, it counts as found


def overlap(a: object, b: object) -> bool:
    """Whether two arrays have elements of one memory in common."""
    if isinstance(a, Tracer) and isinstance(b, Tracer):
        if settle(a) is not settle(b):
            return False
        a, b = layout_of(a), layout_of(b)
    if not (is_array(a) and is_array(b)):
        return a is b
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(a: np.ndarray) -> bool:
    """Whether two elements of an array may be one, as in windows that slide."""
    reach = a.itemsize
    steps = sorted([(abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1])
    for step, n in steps:
        if step < reach:
            return a.size > 0
        reach += step * (n - 1)
    return False
