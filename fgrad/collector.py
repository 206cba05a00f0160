"""L0. A pause of Python's cycle collector while many objects are made that stay.

Programs are thousands of small tuples without cycles; the collector would walk all of them again
and again, for half of the time of a large trace.  While users' code runs, which may well make
cycles, it is only made to look less often.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.locks import own_lock


@contextmanager
def collector_paused() -> Iterator[None]:
    """No automatic collections within a block, if there were any before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


YOUNG_OBJECTS = 50_000  # made between two looks, instead of 700


class _Relaxed:
    """A block in which the collector looks seldom; blocks may nest, and overlap in threads."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.open = 0
        self.usual = gc.get_threshold()

    def __enter__(self) -> None:
        with self.lock:
            self.open += 1
            if self.open == 1:
                self.usual = young, *older = gc.get_threshold()
                gc.set_threshold(young and max(young, YOUNG_OBJECTS), *older)

    def __exit__(self, *_exc: object) -> None:
        with self.lock:
            self.open -= 1
            if not self.open:
                gc.set_threshold(*self.usual)


collector_relaxed = _Relaxed()
