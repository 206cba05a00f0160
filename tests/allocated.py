"""Bytes that this process has asked for and not given back.

Resident memory depends on what else a machine does, on the system's pages and on memory that the
C library keeps for later; what the C library has handed out does not.
"""

from __future__ import annotations

import ctypes
import resource
import sys


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def _handed_out() -> object:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is not None:
        function.restype = _Mallinfo2
    return function


_MALLINFO2 = _handed_out()


def allocated_bytes() -> int:
    """Bytes handed out by malloc, mapped blocks among them; without glibc 2.33 the largest resident
    size so far."""
    if callable(_MALLINFO2):
        info = _MALLINFO2()
        return info.uordblks + info.hblkhd
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
