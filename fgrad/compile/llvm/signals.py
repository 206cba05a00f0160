"""L5. The cells by which signals end native code: whether, by which exception, of which thread.

`interrupts.py` tells how, and has the native functions that read and write them.
"""

from __future__ import annotations

import ctypes
from _thread import get_ident

import numpy as np

from fgrad.base.system import POSIX, at_fork, c_library, main_thread

CELLS = "fgrad_signals"  # the name that native code has for them
STOP, TYPE, VALUE, TRACE, MAIN, KEY, LAST = range(7)


class _Signals:
    """The cells that native code reads: whether this process's main thread was stopped, the kept
    exception, that thread's identity, and the key of what stops a pool's thread."""

    def __init__(self) -> None:
        self.cells = np.zeros(8, np.int64)
        self.address: int = self.cells.ctypes.data
        self.cells.view(np.uint64)[MAIN] = main_thread()
        if POSIX:
            key = ctypes.c_void_p(self.address + 8 * KEY)
            c_library().pthread_key_create(key, None)
        at_fork(in_child=self.forked)

    def forked(self) -> None:
        """After a fork: the thread that is left is the main one."""
        self.cells[: TRACE + 1] = 0
        self.cells.view(np.uint64)[MAIN] = get_ident()


SIGNALS = _Signals()


def is_stopped() -> bool:
    """Whether a signal handler has stopped the native code of this thread."""
    if not SIGNALS.cells[STOP]:
        return False
    return int(SIGNALS.cells.view(np.uint64)[MAIN]) == get_ident()


def keep(error: BaseException) -> bool:
    """Stop the native code that has called Python in this thread; False if it is not the main one.

    What a signal's handler has raised within a callback ends the loop around it too.
    """
    if int(SIGNALS.cells.view(np.uint64)[MAIN]) != get_ident():
        return False
    parts = (type(error), error, error.__traceback__)
    for place, part in zip((TYPE, VALUE, TRACE), parts, strict=True):
        if part is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
            SIGNALS.cells[place] = id(part)
    SIGNALS.cells[STOP] = 1
    return True
