"""L5. `raise` and `assert` where a traced value decides, and `try` around what may raise.

    if x < 0:                         the branch records that it must not be taken: Python's error
        raise ValueError("below")     is raised after the kernel has run

Handlers cannot run then, so what they would catch is refused in their `try` (`ops/checked.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fgrad.capture.state import Again, Peel
from fgrad.capture.values import is_unknown, scalar_truth
from fgrad.config import config
from fgrad.errors import CaptureError, TracedArrayError, TracedBoolError, TracedIndexError
from fgrad.ops.checked import LINE, located, raised, require
from fgrad.trace import Tracer, innermost
from fgrad.tracing.carried import Written
from fgrad.tracing.thread_state import THREAD, Handlers

_OF_TRACING = (
    Again, CaptureError, Peel, TracedArrayError, TracedBoolError, TracedIndexError, Written,
)  # fmt: skip


def assert_(test: Callable[[], object], message: Callable[[], object] | None) -> None:
    """`assert test, message`."""
    found: Any = test()
    unknown = is_unknown(found)
    if not unknown and found:
        return
    error = AssertionError() if message is None else AssertionError(message())
    if not unknown:
        raise raised(error)
    if config.checks:
        require(scalar_truth(found), located(_plain(error)))


def record_raised(error: Exception) -> None:
    """Record that an exception is raised here when the program runs."""
    require(np.bool_(False), located(_plain(error), error.__dict__.pop(LINE)))


def _plain(error: Exception) -> Exception:
    """An exception without frames and traced values."""
    if any([isinstance(x, Tracer) for x in error.args]):
        error.args = tuple([repr(x) if isinstance(x, Tracer) else x for x in error.args])
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


@contextmanager
def trying(handlers: Handlers) -> Generator[None]:
    """The block of a `try`, with what is caught."""
    state = THREAD.state
    saved, state.handlers = state.handlers, (*state.handlers, handlers)
    try:
        yield
    finally:
        state.handlers = saved


def caught() -> None:
    """At the head of a handler: what tracing raises for itself is not for the user to handle."""
    if innermost() is not None and isinstance(sys.exc_info()[1], _OF_TRACING):
        raise
