"""Runs the text of a body on a CPU: the device's threads, blocks, barriers and shuffles.

A body without barriers, shuffles and atomic operations is run by a native loop over its threads.
Any other is run block after block, each thread with a stack of its own that is left where it waits;
the threads take turns in the order of their numbers or in a random one.  Shared memory is poisoned
before each block.  With the bounds of the arrays each access is checked: that it is inside of an
array and aligned, and that no other thread touches the same byte without a barrier in between,
unless both read or both are atomic; and a thread that does not end is found.  Arithmetic has the
device's bits: both fuse only what the text fuses.

    Emulated(body, 2).run(grid=16, block=(256, 1), pointers=[x.ctypes.data, y.ctypes.data])
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import random
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from emulator.entry import (
    CONTEXT_BYTES,
    ENDLESS,
    FAULT,
    HEAD_WORDS,
    INTERVAL_SHIFT,
    LIMIT,
    OTHER,
    OUTSIDE,
    RANGES,
    SHADOW_WORDS,
    STACK_BYTES,
    THREAD_SHIFT,
    loop,
    turns,
)
from emulator.text import Retargeted, retarget
from emulator.turns import Threads
from fgrad.compile.llvm.runtime import Source, build
from fgrad.errors import CheckError

KEPT = 4096  # bodies that stay in memory
STEPS = 1 << 27  # that a thread makes at most
STEPS_OF_A_TURN = 1 << 10

_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_LOOP = ctypes.CFUNCTYPE(None, _P, _I, _I, _I, _L, _I)
_TURNS = ctypes.CFUNCTYPE(None, _P, _I, _L, _L, _P, _P, _P, _L, _I, _I)


class _State:
    """What all runs share: one body runs at a time, for its shared memory is in its module."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.interval = 0
        self.stacks: dict[int, mmap.mmap] = {}

    def intervals(self, count: int) -> int:
        """The first of so many numbers of times between barriers, which never come again."""
        first = self.interval + 1
        self.interval += count
        if self.interval >= 1 << (63 - INTERVAL_SHIFT):
            raise CheckError("Too many blocks and barriers in one process.")
        return first

    def contexts(self, threads: int) -> int:
        """The address of memory for so many stacks."""
        if threads not in self.stacks:
            nbytes = (threads + 1) * CONTEXT_BYTES + threads * STACK_BYTES
            self.stacks[threads] = mmap.mmap(-1, nbytes)
        return ctypes.addressof(ctypes.c_char.from_buffer(self.stacks[threads]))


_STATE = _State()


class Emulated:
    """A body that a CPU can run.

    Arguments:
      body: the text of the module, for the device.
      arity: how many arrays it takes.
    """

    def __init__(self, body: str, arity: int) -> None:
        self.body = body
        self.arity = arity

    def run(
        self,
        grid: int,
        block: tuple[int, int],
        pointers: Sequence[int],
        order: random.Random | None = None,
        poison: bool = True,
        bounds: Sequence[tuple[int, int]] | None = None,
        steps: int = STEPS,
    ) -> None:
        """Run all blocks.

        Arguments:
          grid: how many blocks.
          block: how many threads of a block along x and y.
          pointers: the addresses of the arrays.
          order: gives the threads (and blocks) a random order of turns, where they wait at all.
          poison: set all bits of shared memory before each block.
          bounds: the address and bytes of each array; then every access is checked.
          steps: how often a thread may go round a loop of a checked body before it waits or ends;
            a wait counts as a thousand.

        Raises:
          CheckError: a barrier or shuffle that not all threads reach, a checked access that is
            outside of the arrays, not aligned, or races with one of another thread, or a thread
            that does not end.
        """
        if len(pointers) != self.arity:
            raise CheckError(f"A body of {self.arity} arrays was given {len(pointers)}.")
        with _STATE.lock:
            compiled = _compiled(self.body, self.arity, bounds is not None)
            watch = _Watch(bounds or (), compiled.body.grain or 1, steps)
            table = np.array([*pointers, watch.address], np.int64)
            try:
                if compiled.body.by_turns:
                    compiled.by_turns(grid, block, table, order, poison, watch)
                else:
                    compiled.in_a_loop(grid, block, table, poison)
            finally:
                watch.judge(compiled.body.places)


class _Compiled:
    """A body in memory."""

    def __init__(self, body: str, arity: int, checked: bool) -> None:
        self.body: Retargeted = retarget(body, arity, checked)
        write = turns if self.body.by_turns else loop
        lines = self.body.lines
        source = Source(
            "\n".join([*lines, write("entry")]),
            lambda symbol: ("\n".join([*lines, write(symbol)]), set()),
        )
        (self._address,) = build([source], glue=checked)

    def in_a_loop(self, grid: int, block: tuple[int, int], table: np.ndarray, poison: bool) -> None:
        """All threads one after the other."""
        interval = _STATE.intervals(grid)
        _LOOP(self._address)(table.ctypes.data, grid, *block, interval, poison)

    def by_turns(
        self,
        grid: int,
        block: tuple[int, int],
        table: np.ndarray,
        order: random.Random | None,
        poison: bool,
        watch: _Watch,
    ) -> None:
        """Block after block, all threads of a block by turns, until something is wrong."""
        nx, ny = block
        count = nx * ny
        threads = Threads(count, self.body.places)
        contexts, records = _STATE.contexts(count), threads.records.ctypes.data
        take_turns = _TURNS(self._address)
        rng = None if order is None else np.random.default_rng(order.getrandbits(64))

        def sequence(length: int) -> np.ndarray:
            return np.arange(length) if rng is None else rng.permutation(length)

        for number in sequence(grid).tolist():
            interval = _STATE.intervals(1)
            threads.begin(number, interval)
            for turn in itertools.count():
                if turn * STEPS_OF_A_TURN > watch.steps:
                    raise threads.endless(turn)
                now = sequence(count)
                take_turns(
                    table.ctypes.data, number, nx, count, records, now.ctypes.data, contexts,
                    interval, turn == 0, poison,
                )  # fmt: skip
                if watch.failed():
                    return
                if not threads.answer(_STATE.intervals(1)):
                    break


@functools.lru_cache(KEPT)
def _compiled(body: str, arity: int, checked: bool) -> _Compiled:
    return _Compiled(body, arity, checked)


class _Watch:
    """The table of a checked run: the ranges of the arrays with their shadows, the first fault."""

    def __init__(self, bounds: Sequence[tuple[int, int]], grain: int, steps: int) -> None:
        self.bounds = bounds
        self.grain = grain
        self.steps = steps
        self._shadows: list[np.ndarray] = []
        self._words = np.zeros(HEAD_WORDS + 3 * len(self.bounds), np.int64)
        self._words[LIMIT] = steps
        self._words[RANGES] = len(self.bounds)
        self._words[HEAD_WORDS:] = list(self._ranges())
        self.address = self._words.ctypes.data

    def _ranges(self) -> Iterator[int]:
        """Begin, end and shadow of each array; arrays that overlap have a shadow in common."""
        shadows = {}
        end = 0
        for start, nbytes in sorted(self.bounds):
            if start >= end:
                first, end = start, start
            end = max(end, start + nbytes)
            shadows[start, nbytes] = first
        sizes = {first: 0 for first in shadows.values()}
        for (start, nbytes), first in shadows.items():
            sizes[first] = max(sizes[first], start + nbytes - first)
        memory = {
            first: np.zeros((size // self.grain + 1, SHADOW_WORDS), np.int64)
            for first, size in sizes.items()
        }
        self._shadows = list(memory.values())
        for start, nbytes in self.bounds:
            first = shadows[start, nbytes]
            cells = memory[first].ctypes.data + (start - first) // self.grain * SHADOW_WORDS * 8
            yield from (start, start + nbytes, cells)

    def failed(self) -> bool:
        """Whether a fault was recorded."""
        return bool(self._words[FAULT])

    def judge(self, places: list[str]) -> None:
        """Raise if a fault was recorded."""
        if not self.failed():
            return
        fault, address, size, place, block, thread, other = self._words[: OTHER + 1].tolist()
        where = [("where", f"block {block}, thread {thread}: {places[place]}")]
        if fault == ENDLESS:
            raise CheckError(f"A thread goes round a loop more than {self.steps} times.", where)
        near = [
            ("at", f"{address - start} bytes into array {k} of {nbytes} bytes")
            for k, (start, nbytes) in enumerate(self.bounds)
            if -4096 <= address - start < nbytes + 4096
        ]
        if fault == OUTSIDE:
            headline = f"A thread touches {size} bytes outside of the arrays, or not aligned."
            raise CheckError(headline, [*where, *near])
        mate = other >> THREAD_SHIFT & 1023
        raise CheckError(
            f"Two threads touch {size} bytes without a barrier in between, one of them writing.",
            [*where, ("and", f"thread {mate} before"), *near],
        )
