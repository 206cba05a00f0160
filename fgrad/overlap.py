"""L2. Whether arrays, or traced ones, share memory.

overlap(u, u[1:]), overlap(u[:5], u[5:]), overlap(u[::2], u[1::2])     True, False, False
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.assign import View, root_of
from fgrad.trace import Builder, Tracer, concrete

MOST_WORK: Any = 100_000  # of NumPy's search for a common element; beyond, it counts as found


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays have elements of one memory in common."""
    if isinstance(a, Tracer) and isinstance(b, Tracer):
        if root_of(a) is not root_of(b):
            return False
        return bool(np.isin(places_of(a), places_of(b)).any())
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
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


def places_of(x: Tracer) -> np.ndarray:
    """For each element of a view, its number in the array at the end of the chain."""
    view = x._view
    if not isinstance(view, View):
        return np.arange(x.size).reshape(x.shape)
    builder = Builder("view", "places", eager=True)
    with builder.running, builder:
        return concrete(view.read(builder.input(places_of(view.base))))
