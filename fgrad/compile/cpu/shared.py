"""L5. Kernels of one structure share machine code; the constants that differ are parameters.

The first kernel of a structure has its own code, with all numbers in it.  When a second one comes,
code is made for both, which reads the numbers in which they differ from a table; it serves later
ones as well.  One that differs in more numbers gets more general code.  Where the same program was
compiled for other sizes before, a new structure is general from the start: numbers that the program
had then are constants, others are parameters.  All code of a structure computes the same bits, so
that it does not matter which kernel came first.  What was seen of a structure is on disk too: a new
size in a new process finds code that another process made.
"""

from __future__ import annotations

import contextlib
import marshal
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from fgrad.base.digest import digest
from fgrad.base.size_functions import at_present
from fgrad.base.sizes import NotShared, Num, is_symbolic, value_of
from fgrad.base.system import own_lock
from fgrad.compile.cpu.emit.kernel import emit_function
from fgrad.compile.cpu.emit.numbers import (
    Number,
    Pattern,
    Structure,
    pattern,
    structure,
)
from fgrad.compile.cpu.kernels import kernel_source
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import canonical
from fgrad.compile.llvm import runtime
from fgrad.compile.llvm.runtime import Source
from fgrad.compile.llvm.vector.scalar_llvm import scalar_table
from fgrad.config import config

MOST_FAMILIES = 4096  # that a process remembers; the disk has all of them
MOST_PATTERNS = 8  # of one structure; what does not fit them has its own code
MOST_PROGRAMS = 1024  # whose numbers a process remembers
MOST_NUMBERS = 512  # of one program

Named: TypeAlias = "tuple[str, Number]"  # a number and what it is: an extent, a stride, ...


class _Family:
    """The kernels of one structure: what was seen, and the code for several of them."""

    def __init__(self, text: str, is_told: bool) -> None:
        self.text = text
        self.name = "f_" + runtime.symbol(f"structure {text}")[2:]
        self.is_told = is_told  # whether other processes learn of it, and it of them
        self.seen: list[tuple[Number, ...]] = []
        self.patterns: list[Pattern] = []
        self.is_open = True

    def source(
        self, kernel: Kernel, found: Structure, constants: AbstractSet[Named] | None
    ) -> tuple[Source, tuple[int, ...]]:
        """The code for a canonical kernel, and its table.

        Arguments:
            kernel: the kernel.
            found: its structure and numbers.
            constants: those of the program at other sizes; None if it had none.
        """
        numbers = found.numbers
        for known in self.patterns:
            table = known.table(numbers)
            if table is not None:
                return _shared_source(self.text, kernel, known), table
        symbolic, now = is_symbolic(numbers), tuple(map(value_of, numbers))
        is_new = now not in self.seen
        if self.is_open and (is_new or symbolic):
            made = None
            if self.seen or constants is not None or symbolic:
                made = pattern([*self.seen, now], found.roles, constants, numbers)
            if is_new:
                self.seen.append(now)
            source = None if made is None else self.generalised(kernel, made)
            self.keep()
            if made is not None and source is not None:
                return source, made.table(numbers) or ()
        if symbolic:
            raise NotShared(self.text)
        return _own_source(self.text, kernel, numbers), ()

    def generalised(self, kernel: Kernel, found: Pattern) -> Source | None:
        """Code for a pattern; None from now on if that cannot be written."""
        try:
            source = _written(_shared_source(self.text, kernel, found))
        except NotShared:
            self.is_open = False
            return None
        self.patterns.append(found)
        self.is_open = len(self.patterns) < MOST_PATTERNS
        return source

    def keep(self) -> None:
        """Tell later processes."""
        if config.cache and self.is_told:
            known = self.is_open, tuple(map(tuple, self.patterns)), tuple(self.seen)
            runtime.store().put(self.name, marshal.dumps(known))

    def recall(self, numbers: tuple[Number, ...]) -> None:
        """Load the kernel patterns recorded by earlier processes."""
        payload = runtime.store().get(self.name) if config.cache and self.is_told else None
        if payload is None:
            return
        is_open, patterns, seen = marshal.loads(payload)
        kinds = list(map(type, numbers))
        if all([list(map(type, each)) == kinds for each in seen]):
            self.is_open, self.seen = is_open, list(seen)
            self.patterns = [Pattern(*words) for words in patterns]


class _Seen:
    """The numbers of a program at the sizes that were compiled."""

    def __init__(self) -> None:
        self.sizes = 0
        self.counts: Counter[Named] = Counter()

    def add(self, numbers: set[Named]) -> None:
        """Those of one more size."""
        self.sizes += 1
        self.counts.update(numbers)
        if len(self.counts) > MOST_NUMBERS:
            constants = self.constants()
            self.counts = Counter({n: k for n, k in self.counts.items() if n in constants})

    def constants(self) -> frozenset[Named]:
        """Those of most sizes."""
        return frozenset([n for n, count in self.counts.items() if 2 * count > self.sizes])


class _Families:
    """The structures that the process has met, and the numbers of the programs that had them."""

    def __init__(self, is_told: bool = True) -> None:
        self.is_told = is_told
        self.lock = own_lock(self)
        self.recent: OrderedDict[str, _Family] = OrderedDict()
        self.programs: OrderedDict[Hashable, _Seen] = OrderedDict()

    def sources(
        self, kernels: Sequence[Kernel], program: Hashable
    ) -> list[tuple[Source, tuple[int, ...]]]:
        """The code for the scheduled kernels of a program, and the table of each.

        Arguments:
            kernels: the kernels.
            program: what the program is, whatever its sizes.
        """
        with self.lock:
            before = self.programs.setdefault(program, _Seen())
            self.programs.move_to_end(program)
            if len(self.programs) > MOST_PROGRAMS:
                self.programs.popitem(last=False)
            found: list[tuple[Source, tuple[int, ...]]] = []
            met: set[Named] = set()
            constants = before.constants() if before.sizes else None
            for kernel in kernels:
                renamed = canonical(kernel)
                parts = structure(renamed)
                named = zip(parts.roles, parts.numbers, strict=True)
                met.update([pair for pair in named if type(pair[1]) is not Num])
                if "{" in parts.text:
                    raise NotShared(parts.text)
                if parts.numbers:
                    family = self.family(parts.text, tuple(map(value_of, parts.numbers)))
                    found.append(family.source(renamed, parts, constants))
                else:
                    found.append((_own_source(parts.text, renamed, ()), ()))
            before.add(met)
        return found

    def family(self, text: str, numbers: tuple[Number, ...]) -> _Family:
        """The kernels of a structure."""
        key = digest(text.encode())
        family = self.recent.get(key)
        if family is None:
            family = self.recent[key] = _Family(text, self.is_told)
            family.recall(numbers)
            if len(self.recent) > MOST_FAMILIES:
                self.recent.popitem(last=False)
        self.recent.move_to_end(key)
        return family


_FAMILIES = [_Families()]  # the last one is in use


@contextlib.contextmanager
def without_history() -> Iterator[None]:
    """A context in which what code is made depends on nothing that was compiled before it."""
    families = _Families(is_told=False)
    _FAMILIES.append(families)
    try:
        yield
    finally:
        _FAMILIES.remove(families)


def shared_sources(
    kernels: Sequence[Kernel], program: Hashable = ()
) -> list[tuple[Source, tuple[int, ...]]]:
    """The code of the scheduled kernels of a program, and the table of each; `program` says what
    it is, whatever its sizes."""
    if not config.shared_kernels:
        return [(kernel_source(kernel), ()) for kernel in kernels]
    return _FAMILIES[-1].sources(kernels, program)


def _content(text: str, found: Pattern) -> str:
    """What the code of a pattern depends on."""
    fixed = [n for word, n in zip(found.words, found.numbers, strict=True) if word is None]
    return f"shared\n{text}\n{found.words}\n{fixed}"


def _own_source(text: str, kernel: Kernel, numbers: tuple[Number, ...]) -> Source:
    """Code with all numbers in it, of which none may change; the sizes of arrays are none."""
    kernel = at_present(kernel)
    table = scalar_table(runtime.target().features)
    content = _content(text, Pattern((None,) * len(numbers), numbers))
    return Source(content, lambda symbol: emit_function(symbol, kernel, table))


def _shared_source(text: str, kernel: Kernel, found: Pattern) -> Source:
    table = scalar_table(runtime.target().features)
    return Source(_content(text, found), lambda symbol: emit_function(symbol, kernel, table, found))


def _written(source: Source) -> Source:
    """The same source, written at once: whether that is possible is known then."""
    name = "@fgrad_unnamed_kernel"
    text, needs = source.emit(name[1:])
    return Source(source.content, lambda symbol: (text.replace(name, f"@{symbol}"), needs))
