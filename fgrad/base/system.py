"""L0. What systems differ in: forks, the C library of a process, and the processors it may use.

Linux is where all is tested. What another system lacks is asked for here, and done without:
Windows has neither forks nor POSIX threads. Locks are renewed in forked processes, where the
threads that held them are gone.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from _thread import RLock, get_ident
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    class HasLock(Protocol):
        """What keeps a lock."""

        lock: RLock


POSIX = os.name == "posix"
# As `platform.machine` names it, whose module is 0.4 ms.
MACHINE = os.uname().machine if POSIX else os.environ.get("PROCESSOR_ARCHITECTURE", "")

_DESCRIBES = {
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
}  # fmt: skip
_PROCESSOR_BYTES = 1 << 14  # the description of the first processor


def at_fork(
    before: Callable[[], object] | None = None,
    in_parent: Callable[[], object] | None = None,
    in_child: Callable[[], object] | None = None,
) -> None:
    """Call functions around each fork of the process, where there are forks."""
    if not hasattr(os, "register_at_fork"):
        return
    given = {"before": before, "after_in_parent": in_parent, "after_in_child": in_child}
    os.register_at_fork(**{name: call for name, call in given.items() if call is not None})


def main_thread() -> int:
    """The identity of the main thread.

    `threading` takes the thread that imports it first for the main one; so does this before, as
    that import is half a millisecond of the 6 in which a file of `export` is loaded and called.
    """
    ask = getattr(sys.modules.get("threading"), "main_thread", None)
    return get_ident() if ask is None else ask().ident or 0


@lru_cache(1)
def c_library() -> ctypes.CDLL:
    """The functions that are in every process: those of the C library, and all it has loaded where
    the system looks through that."""
    return ctypes.CDLL(None if POSIX else "ucrtbase", use_errno=True)


def processors() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def cache_folder() -> str:
    """Where this system keeps what programs can make anew."""
    home, env = os.path.expanduser("~"), os.environ.get
    usual = {
        "darwin": os.path.join(home, "Library", "Caches"),
        "win32": env("LOCALAPPDATA", "") or os.path.join(home, "AppData", "Local"),
    }
    return env("XDG_CACHE_HOME", "") or usual.get(sys.platform, os.path.join(home, ".cache"))


def processor() -> str:
    """How the system describes the first processor, without what changes from time to time."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_PROCESSOR_BYTES).decode(errors="replace").partition("\n\n")[0]
    except OSError:
        return ""
    lines = [line for line in text.split("\n") if line.partition(":")[0].strip() in _DESCRIBES]
    return "\n".join(lines)


# --- locks and forks

_OWNERS: weakref.WeakSet[HasLock] = weakref.WeakSet()


def own_lock(owner: HasLock) -> RLock:
    """A reentrant lock to be kept as `owner.lock`, which is replaced in a forked child."""
    _OWNERS.add(owner)
    return RLock()


class Locked:
    """An object with a lock."""

    def __init__(self) -> None:
        self.lock = own_lock(self)


class Shared:
    """A context that lasts from the first of some blocks, in all threads, to the end of the last:
    what it changes belongs to the process."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self.make = make
        self.lock = own_lock(self)
        self.blocks = 0

    @contextmanager
    def block(self) -> Generator[None]:
        """A block within."""
        with self.lock:
            if not self.blocks:
                self.entered = self.make()
                self.entered.__enter__()
            self.blocks += 1
        try:
            yield
        finally:
            with self.lock:
                self.blocks -= 1
                if not self.blocks:
                    self.entered.__exit__(None, None, None)


def _renew() -> None:
    for owner in list(_OWNERS):
        owner.lock = RLock()


at_fork(in_child=_renew)
