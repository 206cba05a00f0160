"""L5. Pass `plan`: where every buffer lives.

Inputs and constants are the caller's; an output has its own fresh array; all else shares one arena,
in which a buffer's place is used again after its last reader.  Places are multiples of 64 bytes.

    step 0 writes t0 (640 bytes)   arena [0, 640)
    step 1 reads t0, writes t1     arena [640, 1280)
    step 2 reads t1, writes t2     arena [0, 640)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from fgrad.compile.steps import AliasStep, KernelStep, LibraryStep, Step
from fgrad.ir.program import Lit, Program, Var

ALIGNMENT = 64


class Slot(NamedTuple):
    """A buffer's home: argument, constant or result number `index`, or an offset in the arena."""

    kind: str  # "input" | "const" | "output" | "arena"
    index: int


class Plan(NamedTuple):
    """A program as steps over slots.

    `slots` gives the home of each variable that has a buffer; `copies` are (source, output number)
    for results that are arguments, constants or other results; literals are `(output number, Lit)`.
    """

    steps: list[KernelStep | LibraryStep]
    slots: dict[Var, Slot]
    arena_bytes: int
    copies: list[tuple[Var, int]]
    literals: list[tuple[int, Lit]]


def plan(program: Program, steps: Sequence[Step]) -> Plan:
    """Give every variable of the steps a place."""
    root = _roots(steps)
    slots: dict[Var, Slot] = {v: Slot("input", k) for k, v in enumerate(program.inputs)}
    slots.update({v: Slot("const", k) for k, (v, _) in enumerate(program.consts)})
    copies, literals = [], []
    for k, atom in enumerate(program.outputs):
        if type(atom) is Lit:
            literals.append((k, atom))
            continue
        assert isinstance(atom, Var)
        source = root.get(atom, atom)
        if source in slots:
            copies.append((source, k))
        else:
            slots[source] = Slot("output", k)
    work = [s for s in steps if type(s) is not AliasStep]
    arena = _Arena()
    _place_temporaries(work, root, slots, arena)
    slots.update({v: slots[source] for v, source in root.items() if source in slots})
    return Plan(work, slots, arena.high, copies, literals)  # type: ignore[arg-type]


def _roots(steps: Sequence[Step]) -> dict[Var, Var]:
    """For each alias, the variable whose buffer it is."""
    root: dict[Var, Var] = {}
    for step in steps:
        if type(step) is AliasStep:
            root[step.output] = root.get(step.source, step.source)
    return root


def _place_temporaries(
    steps: Sequence[KernelStep | LibraryStep],
    root: dict[Var, Var],
    slots: dict[Var, Slot],
    arena: _Arena,
) -> None:
    last: dict[Var, int] = {}
    for k, step in enumerate(steps):
        for var in step.args:
            last[root.get(var, var)] = k
    for k, step in enumerate(steps):
        args = list(dict.fromkeys([root.get(v, v) for v in step.args]))
        for var in args:
            if var not in slots:
                size = var.aval.size * var.aval.dtype.itemsize
                slots[var] = Slot("arena", arena.take(size))
        for var in args:
            if last[var] == k and slots[var].kind == "arena":
                arena.give(slots[var].index)


class _Arena:
    """Best fit with coalescing of freed neighbours."""

    def __init__(self) -> None:
        self.high = 0
        self.sizes: dict[int, int] = {}  # of blocks in use, by offset
        self.free: list[tuple[int, int]] = []  # (size, offset), sorted
        self.by_start: dict[int, int] = {}  # free blocks: offset -> size
        self.by_end: dict[int, int] = {}  # free blocks: end -> offset

    def take(self, size: int) -> int:
        """The offset of a block of at least `size` bytes."""
        size = max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
        at = bisect_left(self.free, (size, -1))
        if at < len(self.free):
            found, offset = self.free[at]
            self._remove(found, offset)
            if found > size:
                self._add(found - size, offset + size)
        else:
            offset = self._extend(size)
        self.sizes[offset] = size
        return offset

    def _extend(self, size: int) -> int:
        offset = self.by_end.get(self.high, self.high)
        if offset != self.high:
            self._remove(self.high - offset, offset)
        self.high = offset + size
        return offset

    def give(self, offset: int) -> None:
        """Free a block."""
        size = self.sizes.pop(offset)
        after = self.by_start.get(offset + size)
        if after is not None:
            self._remove(after, offset + size)
            size += after
        before = self.by_end.get(offset)
        if before is not None:
            self._remove(offset - before, before)
            size, offset = size + offset - before, before
        self._add(size, offset)

    def _add(self, size: int, offset: int) -> None:
        insort(self.free, (size, offset))
        self.by_start[offset] = size
        self.by_end[offset + size] = offset

    def _remove(self, size: int, offset: int) -> None:
        del self.free[bisect_left(self.free, (size, offset))]
        del self.by_start[offset]
        del self.by_end[offset + size]
