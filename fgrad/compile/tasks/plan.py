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
from collections import Counter
from collections.abc import Container, Sequence
from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import most
from fgrad.base.sizes import is_symbolic
from fgrad.compile.kernel.ir import Affine, Load, Loop, Statement, Store
from fgrad.compile.kernel.machine import LINE_BYTES
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
    sizes = tuple([v.aval.size for step in work for v in step.args])
    arena = _SymbolicArena() if is_symbolic(sizes) else _Arena()
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
    ends: dict[int, tuple[list[Var], _Walked | None]] = {}  # of steps: temporaries that die there
    for var in outputs:
        out: Var | None = var
        while out is not None and out in lives.first:
            k, slot = lives.first[out], slots[out]
            if k not in ends:
                args = dict.fromkeys([root.get(v, v) for v in steps[k].args])
                dying = [v for v in args if v not in slots and lives.last[v] == k > lives.first[v]]
                ends[k] = dying, _walked(steps[k], root) if dying else None
            dying, walked = ends[k]
            out = _reusable(walked, out, dying, slots) if walked is not None else None
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
                    walked = _walked(steps[made], root)
                    fits = walked is not None and _reusable(walked, out, [var], ()) is not None
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
    arena: _Arena | _SymbolicArena,
) -> None:
    for k, step in enumerate(steps):
        args = list(dict.fromkeys([root.get(v, v) for v in step.args]))
        dying = [v for v in args if v in slots and slots[v].kind == "arena" and last[v] == k]
        walked = _walked(step, root) if dying else None
        taken: set[Var] = set()
        for var in args:
            if var not in slots:
                source = _reusable(walked, var, dying, taken) if walked is not None else None
                if source is not None:
                    taken.add(source)
                    slots[var] = slots[source]
                else:
                    size = var.aval.size * var.aval.dtype.itemsize
                    slots[var] = Slot("arena", arena.take(size))
        for var in args:
            if last[var] == k and slots[var].kind == "arena" and var not in taken:
                arena.give(slots[var].index)


class _Access(NamedTuple):
    """Where all accesses to a buffer are, if they are at one index of one body."""

    body: int
    at: int  # of the statement in it, the last of several
    index: Affine


class _Walked(NamedTuple):
    """How a kernel walks its arrays: those that it reads, and those that it writes, at one place in
    each iteration."""

    read: dict[Var, _Access]
    wrote: dict[Var, _Access]


def _walked(step: KernelStep | LibraryStep, root: dict[Var, Var]) -> _Walked | None:
    """The walks of a kernel; None for other steps."""
    if not isinstance(step, KernelStep):
        return None
    args = [root.get(v, v) for v in step.args]
    counts = Counter(args)
    named = {b.name: v for v, b in zip(args, step.kernel.buffers, strict=False) if counts[v] == 1}
    read: dict[str, _Access | None] = {}
    wrote: dict[str, _Access | None] = {}
    for number, body in enumerate(_bodies(step.kernel.body)):
        for at, s in enumerate(body):
            if type(s) is Load:
                plain = not s.gather and s.predicate is None
                before = read.get(s.buffer, _Access(number, at, s.index))
                same = plain and before is not None and before[::2] == (number, s.index)
                read[s.buffer] = _Access(number, at, s.index) if same else None
            elif type(s) is Store:
                plain = s.mode == "set" and not s.scatter and s.predicate is None
                once = plain and s.buffer not in wrote
                wrote[s.buffer] = _Access(number, at, s.index) if once else None
    return _Walked(
        {named[b]: x for b, x in read.items() if x is not None and b in named},
        {named[b]: x for b, x in wrote.items() if x is not None and b in named},
    )


def _reusable(walked: _Walked, out: Var, dying: Sequence[Var], taken: Container[Var]) -> Var | None:
    """A buffer in whose place a kernel may write `out`, or None: each of its elements is read only
    by the iteration that writes it in `out`, before it does."""
    wrote, width = walked.wrote.get(out), out.aval.dtype.itemsize
    if wrote is None:
        return None
    for var in dying:
        read = walked.read.get(var)
        if read is None or read[::2] != wrote[::2] or read.at > wrote.at or var in taken:
            continue
        if var.aval.size == out.aval.size and var.aval.dtype.itemsize == width:
            return var
    return None


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
        size = _padded(size)
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


class _SymbolicArena(_Arena):
    """The arena where sizes are symbols, of which no guards are to be noted: a block is used again
    for what has its size at all sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.again: dict[int, list[int]] = {}  # free blocks by size

    def take(self, size: int) -> int:
        """The offset of a block of `size` bytes."""
        size = _padded(size)
        free = self.again.get(size)
        offset = free.pop() if free else self._extend(size)
        self.sizes[offset] = size
        return offset

    def give(self, offset: int) -> None:
        """Free a block."""
        self.again.setdefault(self.sizes.pop(offset), []).append(offset)


def _padded(size: int) -> int:
    return most(LINE_BYTES, -(-size // LINE_BYTES) * LINE_BYTES)
