"""L0. A pause of Python's cycle collector while many objects are made that stay.

Programs are thousands of small tuples without cycles; the collector would walk all of them again
and again, for a quarter of the time of a large trace.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
