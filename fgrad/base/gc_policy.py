"""L0. Pause Python's cycle collector while many long-lived objects are created.

Programs are thousands of small tuples without cycles; the collector would walk all of them again
and again, for half of the time of a large trace.  While users' code runs, which may well make
cycles, it is only made to look less often.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

from fgrad.base.system import own_lock


@contextmanager
def collector_paused() -> Generator[None]:
    """No automatic collections within a block, if there were any before."""
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()  # here, as an interrupt may come in between
        yield
    finally:
        gc.enable()


@contextmanager
def modules_loading() -> Generator[None]:
    """The same, and what is there in the end is old: modules stay, so nobody need look at all that
    they made, which takes 3 ms."""
    with collector_paused():
        yield
        if not gc.get_freeze_count():  # else the user has put objects aside, which stay there
            gc.freeze()
            gc.unfreeze()


YOUNG_OBJECTS = 50_000  # made between two looks, instead of 700


class _Blocks:
    """The number of open blocks, and the thresholds to restore."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.open = 0
        self.usual = gc.get_threshold()


_BLOCKS = _Blocks()


@contextmanager
def collector_relaxed() -> Generator[None]:
    """A block with fewer collections; blocks may nest, and overlap across threads.

    An interrupt may come after every call: what is undone in the end is noted before.
    """
    counted = False
    try:
        with _BLOCKS.lock:
            if not _BLOCKS.open:
                _BLOCKS.usual = gc.get_threshold()
            _BLOCKS.open += 1
            counted = True
            if _BLOCKS.open == 1:
                young, *older = _BLOCKS.usual
                gc.set_threshold(young and max(young, YOUNG_OBJECTS), *older)
        yield
    finally:
        if counted:
            with _BLOCKS.lock:
                _BLOCKS.open -= 1
                if not _BLOCKS.open:
                    gc.set_threshold(*_BLOCKS.usual)
