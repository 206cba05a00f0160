"""L5. The numbers of a host program's slots."""

from __future__ import annotations

from fgrad.compile.host.program import Callback, PointAt, Step
from fgrad.compile.tasks.plan import Slot


class Table:
    """Numbers of slots; places in the arena get one each.

    After the arena stand `common` slots that the caller gives too.
    """

    def __init__(self, inputs: int, consts: int, outputs: int, common: int = 0) -> None:
        self.first = {"input": 0, "const": inputs, "output": inputs + consts}
        self.arena = inputs + consts + outputs
        self.given = self.arena + 1 + common
        self.places: list[Step] = []
        self.taken = 0
        self.callbacks: list[Callback] = []
        self.derived: dict[tuple[int, int], int] = {}

    def number(self, slot: Slot, offset: int = 0) -> int:
        """The table's entry for a buffer, `offset` bytes in."""
        if slot.kind == "arena":
            return self.place(self.arena, slot.index + offset)
        number = self.first[slot.kind] + slot.index
        return self.place(number, offset) if offset else number

    def place(self, base: int, offset: int) -> int:
        """The entry for what is `offset` bytes behind another entry."""
        found = self.derived.get((base, offset))
        if found is None:
            found = self.derived[base, offset] = self.reserve(1)
            self.places.append(PointAt(found, base, offset))
        return found

    def reserve(self, count: int) -> int:
        """The first of `count` fresh entries, which the steps of a loop's body fill."""
        first = self.given + self.taken
        self.taken += count
        return first
