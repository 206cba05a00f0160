"""L5. OpenBLAS on one thread: products with vectors and small factorisations.

OpenBLAS ends its work with a barrier that yields whole time slices: with another process on a core,
256^3 takes 47 ms, not 0.44.

While any of our calls runs, OpenBLAS is told to use one thread; the last one to end restores what
the user had set.  A call that begins just before that keeps the setting that was saved.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import lru_cache
from importlib.machinery import PathFinder

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.system import at_fork

RUNNING = np.zeros(3, np.int64)  # products that run now; the setting to restore; whether it is due


class ThreadControl(NamedTuple):
    """Addresses of `int get_threads(void)` and `void set_threads(int)`."""

    get: int
    set: int


@lru_cache
def thread_control() -> ThreadControl | None:
    """The functions of the OpenBLAS that SciPy brings along; None if it uses another BLAS."""
    found = PathFinder.find_spec("scipy")
    if found is None or found.origin is None:
        return None
    package = os.path.dirname(found.origin)
    folders = (
        os.path.join(os.path.dirname(package), "scipy.libs"),
        os.path.join(package, ".dylibs"),
        os.path.join(package, ".libs"),
    )
    for path in [path for folder in folders for path in _openblas_in(folder)]:
        library = ctypes.CDLL(path)
        for prefix in ("scipy_openblas", "openblas"):
            names = (f"{prefix}_get_num_threads", f"{prefix}_set_num_threads")
            if all([hasattr(library, name) for name in names]):
                get, put = [
                    ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
                    for name in names
                ]
                return ThreadControl(get, put)
    return None


def _openblas_in(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        names = [name for name in sorted(os.listdir(folder)) if "openblas" in name]
        return [os.path.join(folder, name) for name in names]
    return []


def _all_ended() -> None:
    """After a fork: products of other threads never end in the child."""
    control = thread_control() if RUNNING[2] else None
    if control is not None:
        ctypes.CFUNCTYPE(None, ctypes.c_int)(control.set)(int(RUNNING[1]))
    RUNNING[:] = 0


at_fork(in_child=_all_ended)

# Around a call: the first one in tells OpenBLAS to use one thread, the last one out restores.
ENTER = """  %running = atomicrmw add ptr @fgrad_running, i64 1 seq_cst
  %is_first = icmp eq i64 %running, 0
  br i1 %is_first, label %enter, label %entered
enter:
  %saved_at = getelementptr i64, ptr @fgrad_running, i64 1
  %due_at = getelementptr i64, ptr @fgrad_running, i64 2
  %due = load atomic i64, ptr %due_at seq_cst, align 8
  %is_due = icmp ne i64 %due, 0
  %threads = call i32 @fgrad_get_threads()
  %threads64 = sext i32 %threads to i64
  %saved = load atomic i64, ptr %saved_at seq_cst, align 8
  %keep = select i1 %is_due, i64 %saved, i64 %threads64
  store atomic i64 %keep, ptr %saved_at seq_cst, align 8
  store atomic i64 1, ptr %due_at seq_cst, align 8
  call void @fgrad_set_threads(i32 1)
  br label %entered
entered:"""
LEAVE = """  %were_running = atomicrmw sub ptr @fgrad_running, i64 1 seq_cst
  %is_last = icmp eq i64 %were_running, 1
  br i1 %is_last, label %leave, label %left
leave:
  %restore_at = getelementptr i64, ptr @fgrad_running, i64 1
  %restored_at = getelementptr i64, ptr @fgrad_running, i64 2
  %restore64 = load atomic i64, ptr %restore_at seq_cst, align 8
  %restore = trunc i64 %restore64 to i32
  call void @fgrad_set_threads(i32 %restore)
  store atomic i64 0, ptr %restored_at seq_cst, align 8
  br label %left
left:"""
DECLARATIONS = {
    "@fgrad_running = external global i64",
    "declare i32 @fgrad_get_threads()",
    "declare void @fgrad_set_threads(i32)",
}


def imports() -> dict[str, int]:
    """The addresses that `ENTER` and `LEAVE` need; none if SciPy uses another BLAS."""
    control = thread_control()
    if control is None:
        return {}
    return {
        "fgrad_get_threads": control.get,
        "fgrad_set_threads": control.set,
        "fgrad_running": RUNNING.ctypes.data,
    }
