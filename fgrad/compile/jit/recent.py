"""L5. Least-recently-used eviction of traces, over all jitted functions.

A trace that is forgotten leaves its function, with its compiled code and its native calls; when
such a call comes again, it is traced anew, and its code comes from the disk cache.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary, ref

from fgrad.base.system import own_lock
from fgrad.ir.program import Program

if TYPE_CHECKING:
    from fgrad.compile.entry.table import Signature

MOST_EQUATIONS = 1 << 17  # in the programs of all traces that are kept, some 300 MB
EACH = 16  # equations that a trace counts for beside its own


class Owner(Protocol):
    """A jitted function, which keeps traces."""

    def forget(self, use: Use, /) -> None:
        """Keep a trace no longer."""
        ...


class Use:
    """Where a trace is cached: its function, keys and native calls."""

    __slots__ = ("__weakref__", "kept", "keys", "owner", "program", "recent", "signatures", "size")

    def __init__(self, owner: Owner, program: Program) -> None:
        self.owner = ref(owner)
        self.program = program
        self.size = EACH + len(program.eqns)
        self.keys: dict[object, None] = {}
        self.signatures: list[Signature] = []
        self.recent = self.kept = True

    def was_recent(self) -> bool:
        """Whether it was used since the last query."""
        recent, self.recent = self.recent, False
        return any([signature.was_used() for signature in self.signatures]) or recent


class Recent:
    """The uses of all traces, oldest first."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.numbers = itertools.count()
        self.held: WeakValueDictionary[int, Use] = WeakValueDictionary()
        self.size = 0  # an upper bound: of those that are gone too

    def add(self, use: Use) -> None:
        """Keep a trace; its function may be asked to `forget` it, when others were added."""
        with self.lock:
            self.held[next(self.numbers)] = use
            self.size += use.size
            going = self._reduce() if self.size > MOST_EQUATIONS else []
        for other in going:
            owner = other.owner()
            if owner is not None:
                owner.forget(other)

    def _reduce(self) -> list[Use]:
        """Evict least recently used traces until 7/8 of the limit remain."""
        alive = sorted(self.held.items())
        recent = {number: use.was_recent() for number, use in alive}
        self.size, going = sum([use.size for _, use in alive]), []
        for number, use in sorted(alive[:-1], key=lambda item: recent[item[0]]):
            if self.size <= MOST_EQUATIONS * 7 // 8:
                break
            self.size -= use.size
            self.held.pop(number, None)
            going.append(use)
        return going


RECENT = Recent()
