"""L2. Whether code is checked when the program runs: indices, divisors, sizes of integers.

Functions that are captured raise what Python raises.  Bodies of `fgrad.lax` loops and functions
that are traced as they are (`jit(f, capture=False)`) clip indices and divide as NumPy does.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from fgrad.base.source import here, resolve
from fgrad.config import config
from fgrad.trace import innermost
from fgrad.tracing.thread_state import THREAD

CLIPPING = frozenset({"scan", "fori_loop", "while_loop", "cond", "switch"})


def checks() -> bool:
    """Whether the code that is being traced is checked."""
    state = THREAD.state
    if state.checks is not None:
        return state.checks
    if not (config.checks and config.capture) or state.captures is False:
        return False
    builder = innermost()
    traced = False
    while builder is not None:
        if builder.what in CLIPPING:
            return False
        traced = traced or not builder.eager or builder.what == "vmap"
        builder = builder.outer
    return traced


@contextmanager
def checking(on: bool = True) -> Generator[None]:
    """Check what is traced in a block, or not."""
    state = THREAD.state
    saved, state.checks = state.checks, on
    try:
        yield
    finally:
        state.checks = saved


def used_line() -> str:
    """The user's line, for errors of checks."""
    loc = resolve(here())
    return f"{loc}:  {loc.text()}"
