"""L6. Where the threads of a team need a barrier.

A thread may not touch what another one of its team has written, nor write what another one reads,
before all have come to a barrier.  Elements that only one thread touches need none.
"""

from __future__ import annotations

from collections.abc import Collection

from fgrad.compile.kernel.ir import Load, Store
from fgrad.compile.kernel.rewrite import Body, walk
from fgrad.lower_cuda.emit.forms import Piece


class Hazards:
    """The memory accessed by the team since its last barrier."""

    def __init__(self, piece: Piece, private: Collection[str]) -> None:
        self.private = private
        sizes = {b.name: b.size * b.dtype.itemsize for b in piece.kernel.buffers}
        given = [b.name for b in piece.kernel.buffers if b.role == "in"]
        # A result may be in the memory of an argument of its size, which all threads may read.
        self.twins = {
            b.name: {b.name, *[a for a in given if sizes[a] == sizes[b.name]]}
            for b in piece.kernel.buffers
        }
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.changed = self._reach(self._touched(piece.body)[1])

    def _touched(self, body: Body) -> tuple[set[str], set[str]]:
        """The buffers that statements read and those that they write."""
        accesses = [s for s in walk(body) if isinstance(s, (Load, Store))]
        touched = [s for s in accesses if s.buffer not in self.private]
        reads = {s.buffer for s in touched if isinstance(s, Load) or s.mode != "set"}
        return reads, {s.buffer for s in touched if isinstance(s, Store)}

    def _reach(self, writes: set[str]) -> set[str]:
        """The buffers whose memory is written with these."""
        return set().union(*[self.twins[name] for name in writes])

    def meets(self, body: Body) -> bool:
        """Whether a barrier is needed before these statements; they are noted as done."""
        reads, writes = self._touched(body)
        reach = self._reach(writes)
        wait = bool(reads & self.writes or reach & (self.reads | self.writes))
        if wait:
            self.reads, self.writes = set(), set()
        self.reads |= reads
        self.writes |= writes
        return wait

    def settle(self) -> bool:
        """Whether a barrier is needed before all of this is done again."""
        wait = bool(self.writes or self.reads & self.changed)
        if wait:
            self.reads, self.writes = set(), set()
        return wait
