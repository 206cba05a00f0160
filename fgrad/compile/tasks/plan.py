"""L5. Pass `plan`: assign every buffer its memory.

Inputs and constants are the caller's; an output has its own fresh array; all else shares one arena,
in which a buffer's place is used again after its last reader, and by a kernel that reads it for the
last time element by element as it writes.  Places are multiples of 64 bytes.

    step 0 writes t0 (640 bytes)   arena [0, 640)
    step 1 reads t0, writes t1     arena [640, 1280)
    step 2 reads t1, writes t2     arena [0, 640)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Kernel, Load, Loop, Statement, Store
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.kernel.rewrite import walk
from fgrad.compile.tasks.steps import AliasStep, KernelStep, LibraryStep, Step
from fgrad.ir.aval import Aval
from fgrad.ir.program import Lit, Program, Var

# An input whose memory any result may take, or (input, output): that one result.
Donation: TypeAlias = int | tuple[int, int]


class Slot(NamedTuple):
    """A buffer's home: argument, constant or result number `index`, or an offset in the arena."""

    kind: str  # "input" | "const" | "output" | "arena"
    index: int


class Plan(NamedTuple):
    """A program as steps over slots.

    `slots` gives the home of each variable that has a buffer; `copies` are (source, output number)
    for results that are arguments, constants or other results; literals are `(output number, Lit)`.
    `reuse` are (output, input) numbers that may be one piece of memory, if the caller likes.
    """

    steps: list[KernelStep | LibraryStep]
    slots: dict[Var, Slot]
    arena_bytes: int
    copies: list[tuple[Var, int]]
    literals: list[tuple[int, Lit]]
    reuse: tuple[tuple[int, int], ...] = ()


def plan(program: Program, steps: Sequence[Step], donated: Sequence[Donation] = ()) -> Plan:
    """Give every variable of the steps a place; `donated` inputs may give theirs to results."""
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
    work = [s for s in steps if not isinstance(s, AliasStep)]
    lives = _lives(work, root)
    reuse = _reuse(program, work, root, slots, lives, donated) if donated else ()
    _place_in_outputs(work, root, slots, lives, {k for k, _ in reuse})
    arena = _Arena()
    _place_temporaries(work, root, slots, lives.last, arena)
    slots.update({v: slots[source] for v, source in root.items() if source in slots})
    return Plan(work, slots, arena.high, copies, literals, reuse)  # type: ignore[arg-type]


class _Lives(NamedTuple):
    """The first and the last step that names each variable."""

    first: dict[Var, int]
    last: dict[Var, int]


def _lives(steps: Sequence[KernelStep | LibraryStep], root: dict[Var, Var]) -> _Lives:
    lives = _Lives({}, {})
    for k, step in enumerate(steps):
        for var in step.args:
            var = root.get(var, var)
            lives.first.setdefault(var, k)
            lives.last[var] = k
    return lives


def _place_in_outputs(
    steps: Sequence[KernelStep | LibraryStep],
    root: dict[Var, Var],
    slots: dict[Var, Slot],
    lives: _Lives,
    taken: set[int],
) -> None:
    """A temporary that dies where a result is written element by element is in the result's memory,
    unless that is an argument's."""
    outputs = [v for v, slot in slots.items() if slot.kind == "output" and slot.index not in taken]
    for var in outputs:
        out: Var | None = var
        while out is not None and out in lives.first:
            k, slot = lives.first[out], slots[out]
            args = dict.fromkeys([root.get(v, v) for v in steps[k].args])
            dying = [v for v in args if v not in slots and lives.last[v] == k > lives.first[v]]
            out = _reusable(steps[k], out, dying, set(), root) if dying else None
            if out is not None:
                slots[out] = slot


def _reuse(
    program: Program,
    steps: Sequence[KernelStep | LibraryStep],
    root: dict[Var, Var],
    slots: dict[Var, Slot],
    lives: _Lives,
    donated: Sequence[Donation],
) -> tuple[tuple[int, int], ...]:
    """Outputs that can be written where a donated input of their shape is not read any more."""
    returned = {root.get(a, a) for a in program.outputs if type(a) is Var}
    own: dict[int, int] = {}
    free: dict[Aval, dict[int, Var]] = {}
    for given in donated:
        if isinstance(given, tuple):
            own[given[1]] = given[0]
        else:
            var = program.inputs[given]
            free.setdefault(var.aval.strong(), {})[given] = var
    pairs: list[tuple[int, int]] = []
    for k, atom in enumerate(program.outputs):
        candidates = free.get(atom.aval.strong())
        if k in own:
            var = program.inputs[own[k]]
            candidates = {own[k]: var} if var.aval.strong() == atom.aval.strong() else {}
        if not candidates or type(atom) is Lit:
            continue
        out = root.get(atom, atom)  # type: ignore[arg-type]
        for i, var in candidates.items():
            if var is out:
                fits = True  # the argument itself is the result
            elif var in returned or slots[out] != Slot("output", k):
                fits = False
            else:
                made, read = lives.first.get(out, -1), lives.last.get(var, -1)
                fits = read < made
                if read == made >= 0:
                    fits = _reusable(steps[made], out, [var], set(), root) is not None
            if fits:
                pairs.append((k, i))
                del candidates[i]
                break
    return tuple(pairs)


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
    last: dict[Var, int],
    arena: _Arena,
) -> None:
    for k, step in enumerate(steps):
        args = list(dict.fromkeys([root.get(v, v) for v in step.args]))
        dying = [v for v in args if v in slots and slots[v].kind == "arena" and last[v] == k]
        taken: set[Var] = set()
        for var in args:
            if var not in slots:
                source = _reusable(step, var, dying, taken, root)
                if source is not None:
                    taken.add(source)
                    slots[var] = slots[source]
                else:
                    size = var.aval.size * var.aval.dtype.itemsize
                    slots[var] = Slot("arena", arena.take(size))
        for var in args:
            if last[var] == k and slots[var].kind == "arena" and var not in taken:
                arena.give(slots[var].index)


def _reusable(
    step: KernelStep | LibraryStep,
    out: Var,
    dying: Sequence[Var],
    taken: set[Var],
    root: dict[Var, Var],
) -> Var | None:
    """A buffer in whose place a kernel may write `out`, or None."""
    if not isinstance(step, KernelStep):
        return None
    names = {root.get(v, v): b.name for v, b in zip(step.args, step.kernel.buffers, strict=False)}
    width = out.aval.dtype.itemsize
    for var in dying:
        fits = var.aval.size == out.aval.size and var.aval.dtype.itemsize == width
        once = sum([root.get(v, v) is var for v in step.args]) == 1
        if fits and once and var not in taken and in_place(step.kernel, names[var], names[out]):
            return var
    return None


@lru_cache(maxsize=4096)
def in_place(kernel: Kernel, source: str, target: str) -> bool:
    """Whether each element of `source` is read only by the iteration that writes it in `target`."""
    loads = [s for s in walk(kernel.body) if type(s) is Load and s.buffer == source]
    if any(s.gather or s.predicate is not None for s in loads):
        return False
    found = []
    for body in _bodies(kernel.body):
        read = {s.index for s in body if type(s) is Load and s.buffer == source}
        wrote = [s for s in body if type(s) is Store and s.buffer == target]
        if not read and not wrote:
            continue
        plain = all(s.mode == "set" and not s.scatter and s.predicate is None for s in wrote)
        if len(read) != 1 or len(wrote) != 1 or not plain or wrote[0].index not in read:
            return False
        after = body[body.index(wrote[0]) :]
        if any(type(s) is Load and s.buffer == source for s in after):
            return False
        found.append(body)
    return len(found) == 1


def _bodies(body: tuple[Statement, ...]) -> list[tuple[Statement, ...]]:
    """The bodies of all loops of a kernel, and its own."""
    found, pending = [], [body]
    while pending:
        body = pending.pop()
        found.append(body)
        pending += [s.body for s in body if type(s) is Loop]
    return found


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
        size = max(LINE_BYTES, -(-size // LINE_BYTES) * LINE_BYTES)
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
