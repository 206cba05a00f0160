"""L2. How large a program may become whose loops are written out step by step.

Loops that cannot be recorded once are written out, and those that were tried before count too, so
that the time to trace and to compile a function is bounded.
"""

from __future__ import annotations

import threading

from fgrad.errors import TooManyStepsError
from fgrad.trace import Builder, innermost

MOST_EQUATIONS = 100_000  # some 10 seconds


class _Spent(threading.local):
    """What the outermost open trace of a thread has recorded so far."""

    trace: tuple[int, int] | None = None
    closed = 0  # equations of bodies of loops and branches
    spared = 0  # those that loops would have which were recorded once


SPENT = _Spent()


def _builders() -> list[Builder]:
    found: list[Builder] = []
    builder = innermost()
    while builder is not None:
        found.append(builder)
        builder = builder.outer
    return found


def _opened() -> list[Builder]:
    """The open traces; if their outermost is a new one, counting begins anew."""
    found = _builders()
    trace = (id(found[-1]), found[-1].opened) if found else None
    if SPENT.trace != trace:
        SPENT.trace, SPENT.closed, SPENT.spared = trace, 0, 0
    return found


def spend(equations: int, steps: int = 0) -> None:
    """Count a body that was traced, and that stands for some steps."""
    _opened()
    SPENT.closed += equations
    SPENT.spared += equations * steps


def check_size(why: str) -> None:
    """To be called before each step of a loop that is written out, as `why` says.

    Raises:
        TooManyStepsError: the program is too large already.
    """
    size = SPENT.closed + sum([builder.count for builder in _opened()])
    if size <= MOST_EQUATIONS:
        return
    raise TooManyStepsError(
        "A loop has too many steps to be written out one by one.",
        (
            ("why", f"it is not recorded as one loop: {why}"),
            ("limit", f"{MOST_EQUATIONS:,} operations of a function, of this and other loops"),
            ("write", "x[i] = ... into np.zeros(n)         instead of items.append(...)"),
            ("write", "results of one shape and type       in each step and in each branch"),
            ("write", "fgrad.explain_capture(f)(*args)     what became of each loop"),
            ("write", "fgrad.jit(f, capture=False)         there is no limit, and no loop"),
        ),
    )


def is_too_large_for_python() -> bool:
    """Whether the loops that were recorded once are too large to be written out."""
    return SPENT.spared > MOST_EQUATIONS
