"""L6. Device memory: free lists of size classes above the driver's pool.

Everything runs on one stream, so a block may be given out again as soon as it was released, while
kernels that read it still wait for their turn: the next ones wait behind them.

    allocate(5000) -> a block of 5120 bytes      classes are 2^k, 1.125 * 2^k, ..., 1.875 * 2^k

Of several free blocks the one with the lowest address is taken, in whatever order they came back:
a training step whose results are its next arguments meets the same addresses every other time, and
with them its graphs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from heapq import heappop, heappush

from fgrad.base.named_tuple import NamedTuple

SMALLEST = 256  # bytes: what the driver aligns to
MOST_HOMES = 4096
IN_USE, HELD, PEAK, RESERVED, REUSED = range(5)  # of `Statistics`


class Statistics(NamedTuple):
    """Bytes and counts of device memory since the process began."""

    in_use: int  # bytes of blocks that somebody has
    held: int  # bytes of blocks in the free lists
    peak: int  # the most bytes that were in use at one time
    reserved: int  # how often the driver was asked for a block
    reused: int  # how often a block came from the free lists


def size_class(nbytes: int) -> int:
    """The bytes of the block that `nbytes` get: at most an eighth more, or `SMALLEST`."""
    if nbytes <= SMALLEST:
        return SMALLEST
    step = 1 << max((nbytes - 1).bit_length() - 4, 8)
    return -(-nbytes // step) * step


class Memory:
    """Blocks of device memory by their size.

    `release` may be called from anywhere, the garbage collector included: it takes no lock.

    Arguments:
        reserve: gives a new block, or 0 if there is no memory left.
        unreserve: takes a block back.
    """

    def __init__(self, reserve: Callable[[int], int], unreserve: Callable[[int], None]) -> None:
        self._reserve = reserve
        self._unreserve = unreserve
        self._free: dict[int, list[int]] = {}
        self._homes: dict[int, tuple[list[int], int]] = {}  # by the bytes that were asked for
        self._counts = array("q", [0] * len(Statistics._fields))

    def allocate(self, nbytes: int) -> int:
        """A block of at least `nbytes`; 0 if there is no memory left, or nothing is asked for."""
        if not nbytes:
            return 0
        blocks, size = self._homes.get(nbytes) or self.blocks(nbytes)
        pointer = _taken(blocks)
        counts = self._counts
        if pointer:
            counts[HELD] -= size
            counts[REUSED] += 1
        else:
            pointer = self._reserve(size)
            if not pointer and self.empty_cache():
                pointer = self._reserve(size)
            if not pointer:
                return 0
            counts[RESERVED] += 1
        counts[IN_USE] += size
        if counts[IN_USE] > counts[PEAK]:
            counts[PEAK] = counts[IN_USE]
        return pointer

    def release(self, pointer: int, nbytes: int) -> None:
        """Take back a block that `allocate(nbytes)` gave."""
        if pointer:
            blocks, size = self._homes.get(nbytes) or self.blocks(nbytes)
            heappush(blocks, pointer)
            counts = self._counts
            counts[IN_USE] -= size
            counts[HELD] += size

    def empty_cache(self) -> int:
        """Give all free blocks back to the driver; their bytes."""
        freed = 0
        for size, blocks in list(self._free.items()):
            while pointer := _taken(blocks):
                self._unreserve(pointer)
                freed += size
        self._counts[HELD] -= freed
        return freed

    @property
    def statistics(self) -> Statistics:
        """Bytes and counts until now."""
        return Statistics(*self._counts)

    def blocks(self, nbytes: int) -> tuple[list[int], int]:
        """The free blocks for `nbytes`, a heap that stays, and their size: for native code."""
        size = size_class(nbytes)
        home = self._free.setdefault(size, []), size
        if len(self._homes) < MOST_HOMES:
            self._homes[nbytes] = home
        return home

    @property
    def counts_address(self) -> int:
        """Where the statistics are, a word each: for native code."""
        return self._counts.buffer_info()[0]


def _taken(blocks: list[int] | None) -> int:
    """One of the blocks, or 0; another thread may take the last one between test and pop."""
    try:
        return heappop(blocks) if blocks else 0
    except IndexError:
        return 0
