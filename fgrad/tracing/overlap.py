"""L2. Whether plain or traced arrays share memory.

overlap(u, u[1:]), overlap(u[:5], u[5:]), overlap(u[::2], u[1::2])     True, False, False
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.base.kinds import is_array
from fgrad.trace import Tracer
from fgrad.tracing.assign import View, layout_of, root_of, settle, told_apart
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.thread_state import THREAD

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


def asked_overlap(a: object, b: object) -> bool:
    """Whether two arrays share memory, as a program asks that.

    Raises:
        CaptureError: a branch or a loop has chosen what they are.
    """
    if a is b:
        return True
    ends = [root_of(x) for x in (a, b) if isinstance(x, Tracer)]
    given = {k for body in THREAD.state.bodies for k in body.given}
    apart = len(ends) < 2 or ends[0] is not ends[1]
    if _is_chosen(a) or _is_chosen(b) or (apart and any([id(x) in given for x in ends])):
        card = not_recorded("which memory an array has, that a branch or a loop may have chosen")
        card.final = True  # plain Python finds that a tracer has memory of its own
        raise card
    found = overlap(a, b)
    if not found and len(ends) == 2 and apart:
        told_apart(*ends)
    return found


def _is_chosen(x: object) -> bool:
    """Whether an array is a part of one that a branch or a loop has chosen."""
    while isinstance(x, Tracer) and isinstance(x.memory, View):
        if x.memory.chosen:
            return True
        x = x.memory.base
    return False


def overlaps_itself(a: np.ndarray) -> bool:
    """Whether two elements of an array may be one, as in windows that slide."""
    reach = a.itemsize
    steps = sorted([(abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1])
    for step, n in steps:
        if step < reach:
            return a.size > 0
        reach += step * (n - 1)
    return False
