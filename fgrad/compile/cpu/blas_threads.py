"""L5. How many threads OpenBLAS may use in one product: one, where a second would not pay.

OpenBLAS shares a product of half a million multiply-adds among all cores, and ends it with a
barrier that yields whole time slices: with another process on a core, 256^3 takes 47 ms, not 0.44.
Small products therefore run between `set_threads(1)` and `set_threads(what it was)`.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import scipy

SERIAL = 1 << 24  # multiply-adds of a product up to which one thread is enough: about 0.5 ms


class ThreadControl(NamedTuple):
    """Addresses of `int get_threads(void)` and `void set_threads(int)`."""

    get: int
    set: int


@lru_cache
def thread_control() -> ThreadControl | None:
    """The functions of the OpenBLAS that SciPy brings along; None if it uses another BLAS."""
    package = Path(scipy.__file__).parent
    folders = (package.parent / "scipy.libs", package / ".dylibs", package / ".libs")
    for path in [path for folder in folders for path in sorted(folder.glob("*openblas*"))]:
        library = ctypes.CDLL(str(path))
        for prefix in ("scipy_openblas", "openblas"):
            names = (f"{prefix}_get_num_threads", f"{prefix}_set_num_threads")
            if all([hasattr(library, name) for name in names]):
                get, put = [
                    ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
                    for name in names
                ]
                return ThreadControl(get, put)
    return None


def runs_alone(multiply_adds: int) -> bool:
    """Whether a product of this size is to run on one thread, and can be told to."""
    return multiply_adds <= SERIAL and thread_control() is not None
