"""L6. Runs the text of a body on a CPU: the device's threads, blocks, barriers and shuffles.

A body without barriers and shuffles is run by a native loop over its threads.  Any other is run
block after block, each thread a greenlet that is left where it waits; the threads take turns in the
order of their numbers or in a random one, and shared memory is poisoned before each block, so that
a missing barrier gives wrong numbers.  A barrier that not all threads reach is an error.

    Emulated(body, 2).run(grid=16, block=(256, 1), pointers=[x.ctypes.data, y.ctypes.data])
"""

from __future__ import annotations

import ctypes
import functools
import random
from collections.abc import Callable, Sequence

import greenlet

from fgrad.compile.cpu.runtime import Source, build
from fgrad.errors import FgradError
from fgrad.lower_cuda.emulate_text import HEAD_WORDS, Retargeted, entry, retarget

WARP_SIZE = 32
_BARRIER, _POPC, _AND, _OR, _WARP, _SHUFFLE, _VOTE = range(7)
_BLOCK_WIDE = (_BARRIER, _POPC, _AND, _OR)
_POISON = 0xFFFFFFFF
_ENTRY_ARGUMENTS = (ctypes.c_void_p, *[ctypes.c_int32] * 7)
_RUN_ALL = ctypes.CFUNCTYPE(None, *_ENTRY_ARGUMENTS)
_RUN_THREAD = ctypes.PYFUNCTYPE(None, *_ENTRY_ARGUMENTS)  # keeps the interpreter's lock


class EmulationError(FgradError):
    """A kernel did on the emulated device what would be undefined on a real one."""


class _Thread(greenlet.greenlet):
    """One thread of a block, and what it waits for."""

    def __init__(self, run: Callable[[], None], lane: int, place: tuple[int, int, int]) -> None:
        super().__init__(run)
        self.lane = lane
        self.place = place  # block, x, y
        self.waits: tuple[int, ...] | None = None  # kind, then the operands
        self.answer = 0


@functools.partial(ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_uint32] * 6))
def _wait(*request: int) -> int:
    """Called by a thread that waits: go on with others, and come back with the answer."""
    thread = greenlet.getcurrent()
    assert isinstance(thread, _Thread) and thread.parent is not None
    thread.waits = request
    thread.parent.switch()
    return thread.answer


_IMPORTS = {"emulate_wait": ctypes.cast(_wait, ctypes.c_void_p).value or 0}


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
    ) -> None:
        """Run all blocks.

        Arguments:
          grid: how many blocks.
          block: how many threads of a block along x and y.
          pointers: the addresses of the arrays.
          order: gives the threads (and blocks) a random order of turns.
          poison: set all bits of shared memory before each block.
          bounds: the address and bytes of each array; then every access is checked.
        """
        if len(pointers) != self.arity:
            raise EmulationError(f"A body of {self.arity} arrays was given {len(pointers)}.")
        compiled = _compiled(self.body, self.arity, bounds is not None)
        table = (ctypes.c_void_p * (self.arity + 1))(*pointers)
        checks = _check_table(bounds or ())
        table[self.arity] = ctypes.addressof(checks)
        run = _Run(compiled, table, block, order, poison)
        if compiled.body.waits:
            run.by_turns(grid)
        else:
            run.native(grid)
        _judge(checks, bounds or (), compiled.body.places)


class _Compiled:
    """The entry of a body in memory."""

    def __init__(self, body: str, arity: int, checked: bool) -> None:
        self.body: Retargeted = retarget(body, checked)
        content = "\n".join([*self.body.lines, str(arity)])
        source = Source(content, self._emit)
        self._arity, self._checked = arity, checked
        (address,) = build([source], _IMPORTS)
        self.all = _RUN_ALL(address)
        self.thread = _RUN_THREAD(address)

    def _emit(self, symbol: str) -> tuple[str, set[str]]:
        text = entry(symbol, self._arity, self.body, self._checked)
        return "\n".join([*self.body.lines, text]), set()


@functools.lru_cache(maxsize=4096)
def _compiled(body: str, arity: int, checked: bool) -> _Compiled:
    return _Compiled(body, arity, checked)


class _Run:
    """One run of a body over a grid."""

    def __init__(
        self,
        compiled: _Compiled,
        table: ctypes.Array[ctypes.c_void_p],
        block: tuple[int, int],
        order: random.Random | None,
        poison: bool,
    ) -> None:
        self.compiled = compiled
        self.table = table
        self.nx, self.ny = block
        self.order = order
        self.poison = int(poison)

    def native(self, grid: int) -> None:
        """All threads one after the other."""
        self.compiled.all(self.table, 0, grid, 0, self.nx, 0, self.ny, self.poison)

    def by_turns(self, grid: int) -> None:
        """Block after block, all threads of a block by turns."""
        blocks = list(range(grid))
        if self.order:
            self.order.shuffle(blocks)
        for block in blocks:
            if self.poison:
                self.compiled.all(self.table, block, block + 1, 0, 0, 0, 0, 1)
            self._block(block)

    def _block(self, block: int) -> None:
        threads = [self._thread(block, x, y) for y in range(self.ny) for x in range(self.nx)]
        while True:
            ready = [thread for thread in threads if not thread.dead and thread.waits is None]
            if self.order:
                self.order.shuffle(ready)
            for thread in ready:
                thread.switch()
            if all([thread.dead for thread in threads]):
                return
            if not _release_warps(threads):
                _release_block(threads, self.compiled.body.places)

    def _thread(self, block: int, x: int, y: int) -> _Thread:
        run, table = self.compiled.thread, self.table
        lane = (y * self.nx + x) % WARP_SIZE
        return _Thread(
            lambda: run(table, block, block + 1, x, x + 1, y, y + 1, 0), lane, (block, x, y)
        )


# What waiting threads are told.


def _release_warps(threads: list[_Thread]) -> bool:
    """Answer all warps whose threads have come together; False if there is none."""
    released = False
    for start in range(0, len(threads), WARP_SIZE):
        warp = threads[start : start + WARP_SIZE]
        groups: dict[tuple[int, ...], list[_Thread]] = {}
        for thread in warp:
            if thread.waits is not None and thread.waits[0] not in _BLOCK_WIDE:
                kind, mask, mode, *_ = thread.waits
                groups.setdefault((kind, mask, mode), []).append(thread)
        for (kind, mask, mode), members in groups.items():
            expected = [t for t in warp if not t.dead and mask >> t.lane & 1]
            if members == expected:
                _answer_warp(members, kind, mode)
                released = True
            elif any([thread not in expected for thread in members]):
                raise _error("A thread waits for a warp without being in its mask.", members)
    return released


def _answer_warp(members: list[_Thread], kind: int, mode: int) -> None:
    values = {thread.lane: thread.waits[3] for thread in members if thread.waits}
    for thread in members:
        if kind == _SHUFFLE and thread.waits:
            thread.answer = _shuffled(values, thread.lane, mode, *thread.waits[4:6])
        elif kind == _VOTE:
            thread.answer = _voted(values, mode)
    for thread in members:
        thread.waits = None


def _shuffled(values: dict[int, int], lane: int, mode: int, other: int, clamp: int) -> int:
    """shfl.sync of PTX: the word of another lane, and whether it is in range"""
    other, segment, limit = other & 31, clamp >> 8 & 31, clamp & 31
    first = lane & segment
    last = first | (limit & ~segment)
    source = [first | (other & ~segment), lane - other, lane + other, lane ^ other][mode]
    inside = source >= last if mode == 1 else source <= last
    return values.get(source if inside else lane, _POISON) | int(inside) << 32


def _voted(values: dict[int, int], mode: int) -> int:
    """vote.sync: all, any, equal, ballot"""
    bits = set(values.values())
    ballot = sum([bit << lane for lane, bit in values.items()])
    return [int(0 not in bits) << 32, int(1 in bits) << 32, int(len(bits) == 1) << 32, ballot][mode]


def _release_block(threads: list[_Thread], places: list[str]) -> None:
    """Let all threads pass a barrier that all have reached."""
    waiting = [thread for thread in threads if thread.waits is not None]
    reached = {thread.waits[:2] for thread in waiting if thread.waits}
    if any([kind not in _BLOCK_WIDE for kind, _ in reached]):
        raise _error("Threads wait for others of their warp, which do not come.", waiting)
    if len(waiting) < len(threads):
        raise _error("Threads wait at a barrier, and others of their block have ended.", waiting)
    if len(reached) > 1:
        where = ", ".join(sorted([f"{places[place]}" for _, place in reached]))
        raise _error(f"Threads of a block wait at different barriers: {where}.", waiting)
    given = [thread.waits[2] != 0 for thread in threads if thread.waits]
    ((kind, _),) = reached
    answer = {_POPC: sum(given), _AND: int(all(given)), _OR: int(any(given))}.get(kind, 0)
    for thread in threads:
        thread.answer, thread.waits = answer, None


def _error(headline: str, threads: list[_Thread]) -> EmulationError:
    block, x, y = threads[0].place
    return EmulationError(
        headline,
        [
            ("where", f"block {block}: {len(threads)} threads wait, the first is x = {x}, y = {y}"),
            ("why", "on a device the kernel would never end, or its result be undefined"),
        ],
    )


# Checked accesses.


def _check_table(bounds: Sequence[tuple[int, int]]) -> ctypes.Array[ctypes.c_int64]:
    ranges = [word for start, nbytes in bounds for word in (start, start + nbytes)]
    table = (ctypes.c_int64 * (HEAD_WORDS + len(ranges)))()
    table[6] = len(bounds)
    table[HEAD_WORDS:] = ranges
    return table


def _judge(
    table: ctypes.Array[ctypes.c_int64], bounds: Sequence[tuple[int, int]], places: list[str]
) -> None:
    """Raise if an access was recorded."""
    address, size, place, block, x, y = table[:6]
    if not address:
        return
    near = [
        f"{address - start} bytes into array {k} of {nbytes} bytes"
        for k, (start, nbytes) in enumerate(bounds)
        if -4096 <= address - start < nbytes + 4096
    ]
    raise EmulationError(
        f"A thread touches {size} bytes outside of the arrays, or not aligned.",
        [
            ("where", f"block {block}, x = {x}, y = {y}: {places[place]}"),
            ("where", "; ".join(near) or f"address {address:#x}"),
        ],
    )
