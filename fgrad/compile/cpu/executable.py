"""L5. A compiled program: a native host program over a table of buffers.

The table's first slots are the inputs, the constants, the outputs and the arena; the rest are
places in the arena and views, derived from those by the host program itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.native_routines import NativeTask
from fgrad.compile.host.program import Callback, HostProgram, Step
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.ir.aval import Aval
from fgrad.ir.program import Lit, Program

if TYPE_CHECKING:
    from fgrad.compile.cpu import native
    from fgrad.compile.entry.table import Work
else:
    native = lazy_module("fgrad.compile.cpu.native")  # for functions that are called repeatedly

KEPT_BYTES = 64 << 20  # the largest arena that a thread keeps between calls


class Image(NamedTuple):
    """What an executable is made of.

    `origins` says of each address among the steps which kernel (by its symbol) or routine it is.
    """

    in_avals: tuple[Aval, ...]
    out_avals: tuple[Aval, ...]
    consts: list[np.ndarray]
    literals: list[tuple[int, Lit]]
    arena_bytes: int
    given: int
    steps: tuple[Step, ...]
    origins: dict[int, str | NativeTask]
    callbacks: tuple[Callback, ...]
    reuse: tuple[tuple[int, int], ...] = ()  # outputs that may take the memory of donated inputs


class Executable:
    """Runs a planned program on C-contiguous native arrays."""

    def __init__(self, image: Image) -> None:
        self.set_image(image, HostProgram(image.steps, image.given, image.callbacks))

    def set_image(self, image: Image, host: HostProgram) -> None:
        """Become what an image says."""
        self.image = image
        self.in_avals = image.in_avals
        self.out_avals = image.out_avals
        self.consts = image.consts
        self.literals = image.literals
        self.arena_bytes = image.arena_bytes
        self.const_pointers = [x.ctypes.data for x in image.consts]
        self.host = host
        self.empty = not image.steps
        self.keeps_arena = True

    def runs_natively(self) -> None:
        """Calls are made by native code from now on, whose arenas come from a pool of its own."""
        self.keeps_arena = False
        _ARENAS.kept = None

    def work(self, program: Program) -> Work:
        """What native code does for a call; `program` is what was compiled."""
        return native.work_of(program, self)

    def seen_as(self, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> Executable:
        """The same for arguments and results of other dtypes of the same sizes."""
        image = self.image._replace(in_avals=tuple(in_avals), out_avals=tuple(out_avals))
        return Executable(image)

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray | np.generic]:
        """The results: fresh arrays; rank-0 ones as NumPy scalars."""
        lent = self._lent(args) if self.image.reuse and not self.image.callbacks else {}
        outs = [
            np.empty(a.shape, a.dtype) if k not in lent else lent[k]
            for k, a in enumerate(self.out_avals)
        ]
        if not self.empty:
            arena = _ARENAS.take(self.arena_bytes + LINE_BYTES)
            self.host.run(given_pointers(args, self.const_pointers, outs, arena))
            if self.keeps_arena:
                _ARENAS.give(arena)
        for k, literal in self.literals:
            outs[k][...] = literal.value
        return [x if x.ndim else x[()] for x in outs]

    def _lent(self, args: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The outputs that take the memory of an argument: one that owns it alone.

        Not where a step may fail: arguments are then as they were.
        """
        starts = [x.ctypes.data for x in args]
        shared: set[int] = set()
        reach, holder = -1, -1
        for i in sorted(range(len(args)), key=starts.__getitem__):
            if starts[i] < reach:
                shared |= {i, holder}
            if starts[i] + args[i].nbytes > reach:
                reach, holder = starts[i] + args[i].nbytes, i
        return {
            k: args[i]
            for k, i in self.image.reuse
            if i not in shared and args[i].base is None and args[i].flags.writeable
        }


def given_pointers(
    args: Sequence[np.ndarray], consts: list[int], outs: Sequence[np.ndarray], arena: np.ndarray
) -> list[int]:
    """The first entries of the table: arguments, constants, results, the aligned arena."""
    pointers = [x.ctypes.data for x in args]
    pointers += consts
    pointers += [x.ctypes.data for x in outs]
    pointers.append(-(-arena.ctypes.data // LINE_BYTES) * LINE_BYTES)
    return pointers


class _Arenas(threading.local):
    """The arena of this thread's last call, for its next one."""

    kept: np.ndarray | None = None

    def take(self, size: int) -> np.ndarray:
        """At least `size` bytes that nobody else uses until they are given back."""
        kept, self.kept = self.kept, None
        return kept if kept is not None and kept.size >= size else np.empty(size, np.uint8)

    def give(self, arena: np.ndarray) -> None:
        """Keep an arena, unless it is too large to hold on to."""
        if arena.size <= KEPT_BYTES:
            self.kept = arena


_ARENAS = _Arenas()
