"""L2. Closed traces of functions with custom rules: outer values become captured inputs.

`np.sin(x)` of an outer x is recorded outside where it is used in a trace, and its result captured.
In a closed trace x itself is captured, so that it is known what the function closes over.  A closed
trace of a function *catches* all tracers from outside; that of a rule has the captured inputs that
the equation has operands for (`transforms/core/closure_capture.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer
    from fgrad.typing import PyTree

# A handle, what it is outside, and inside; its number when it was captured, None if it is settled.
Captured: TypeAlias = "tuple[Tracer, PyTree, Tracer, int | None]"


def holds(closed: Builder | None, x: object) -> bool:
    """Whether a value is captured by a closed trace, or by one around it."""
    while closed is not None:
        if id(x) in closed.captures:
            return True
        closed = closed.around
    return False


def own(closed: Builder, x: Tracer) -> Tracer:
    """A value for use in a closed trace: outer values are captured."""
    outer = closed.catches and x.builder.live and x.builder.level < closed.level
    return closed.capture(x) if outer or holds(closed, x) else x


def captured(closed: Builder | None, inner: Tracer) -> bool:
    """Whether a tracer stands for a captured value in a closed trace, or in one around it."""
    while closed is not None:
        if any([known[2] is inner for known in closed.captures.values()]):
            return True
        closed = closed.around
    return False


def takes(closed: Builder, outer: Builder, operands: Sequence[object]) -> bool:
    """Whether an equation of an enclosing trace belongs into a closed one."""
    if outer.level >= closed.level:
        return False
    return closed.catches or any([holds(closed, x) for x in operands])
