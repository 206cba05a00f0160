"""L5. Kernels of one structure share machine code; the constants that differ are parameters.

The first kernel of a structure has its own code, with all numbers in it.  When a second one comes,
code is made for both, which reads the numbers in which they differ from a table; it serves later
ones as well.  One that differs in more numbers gets more general code.  All code of a structure
computes the same bits, so that it does not matter which kernel came first.  What was seen of a
structure is on disk too: a new size in a new process finds code that another process made.
"""

from __future__ import annotations

import hashlib
import marshal
from collections import OrderedDict
from collections.abc import Sequence

from fgrad.base.fork_locks import own_lock
from fgrad.compile.cpu.emit.kernel import emit_function
from fgrad.compile.cpu.emit.numbers import NotShared, Number, Pattern, pattern, structure
from fgrad.compile.cpu.kernels import canonical_source, kernel_source
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import canonical
from fgrad.compile.llvm import runtime
from fgrad.compile.llvm.runtime import Source
from fgrad.compile.llvm.vector.scalar_llvm import scalar_table
from fgrad.config import config

MOST_FAMILIES = 4096  # that a process remembers; the disk has all of them
MOST_PATTERNS = 8  # of one structure; what does not fit them has its own code


class _Family:
    """The kernels of one structure: what was seen, and the code for several of them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.name = "f_" + runtime.symbol(f"structure {text}")[2:]
        self.seen: list[tuple[Number, ...]] = []
        self.patterns: list[Pattern] = []
        self.is_open = True

    def source(self, kernel: Kernel, numbers: tuple[Number, ...]) -> tuple[Source, tuple[int, ...]]:
        """The code for a canonical kernel, and its table."""
        for found in self.patterns:
            table = found.table(numbers)
            if table is not None:
                return _shared_source(self.text, kernel, found), table
        if numbers not in self.seen and self.is_open:
            self.seen.append(numbers)
            source = self.generalised(kernel) if len(self.seen) > 1 else None
            self.keep()
            if source is not None:
                return source, self.patterns[-1].table(numbers) or ()
        return canonical_source(kernel), ()

    def generalised(self, kernel: Kernel) -> Source | None:
        """Code for all that was seen; None from now on if that cannot be written."""
        found = pattern(self.seen)
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
        if config.cache:
            known = self.is_open, len(self.patterns), tuple(self.seen)
            runtime.store().put(self.name, marshal.dumps(known))

    def recall(self, numbers: tuple[Number, ...]) -> None:
        """Load the kernel patterns recorded by earlier processes."""
        payload = runtime.store().get(self.name) if config.cache else None
        if payload is None:
            return
        is_open, count, seen = marshal.loads(payload)
        kinds = list(map(type, numbers))
        if all([list(map(type, each)) == kinds for each in seen]):
            self.is_open, self.seen = is_open, list(seen)
            self.patterns = [pattern(seen[: k + 2]) for k in range(count)]


class _Families:
    """The structures that the process has met."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.recent: OrderedDict[bytes, _Family] = OrderedDict()

    def source(self, kernel: Kernel) -> tuple[Source, tuple[int, ...]]:
        """The code for a scheduled kernel, and its table."""
        renamed = canonical(kernel)
        text, numbers = structure(renamed)
        if not numbers:
            return canonical_source(renamed), ()
        key = hashlib.sha256(text.encode()).digest()
        with self.lock:
            family = self.recent.get(key)
            if family is None:
                family = self.recent[key] = _Family(text)
                family.recall(numbers)
                if len(self.recent) > MOST_FAMILIES:
                    self.recent.popitem(last=False)
            self.recent.move_to_end(key)
            return family.source(renamed, numbers)


_FAMILIES = _Families()


def shared_sources(kernels: Sequence[Kernel]) -> list[tuple[Source, tuple[int, ...]]]:
    """The code of scheduled kernels, and the table of each."""
    if not config.shared_kernels:
        return [(kernel_source(kernel), ()) for kernel in kernels]
    return [_FAMILIES.source(kernel) for kernel in kernels]


def _content(text: str, found: Pattern) -> str:
    """What the code of a pattern depends on."""
    fixed = [n for word, n in zip(found.words, found.numbers, strict=True) if word is None]
    return f"shared\n{text}\n{found.words}\n{fixed}"


def _shared_source(text: str, kernel: Kernel, found: Pattern) -> Source:
    table = scalar_table(runtime.target().features)
    return Source(_content(text, found), lambda symbol: emit_function(symbol, kernel, table, found))


def _written(source: Source) -> Source:
    """The same source, written at once: whether that is possible is known then."""
    name = "@fgrad_unnamed_kernel"
    text, needs = source.emit(name[1:])
    return Source(source.content, lambda symbol: (text.replace(name, f"@{symbol}"), needs))
