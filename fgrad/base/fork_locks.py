"""L0. Locks in forked processes: the threads that held them are gone in the child; and contexts
that threads share."""

from __future__ import annotations

import weakref
from _thread import RLock
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from fgrad.base.system import at_fork

if TYPE_CHECKING:
    from typing import Protocol

    class HasLock(Protocol):
        """What keeps a lock."""

        lock: RLock


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
