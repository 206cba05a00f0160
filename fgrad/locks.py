"""L0. Locks in forked processes: the threads that held them are gone in the child."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()


def own_lock(owner: Any) -> Any:
    """A reentrant lock to be kept as `owner.lock`, which is replaced in a forked child."""
    _OWNERS.add(owner)
    return threading.RLock()


class Locked:
    """Something with a lock."""

    def __init__(self) -> None:
        self.lock = own_lock(self)


def _renew() -> None:
    for owner in list(_OWNERS):
        owner.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
