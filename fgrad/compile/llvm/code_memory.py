"""L5. Memory for machine code: blocks of files in memory, each mapped twice, that are used again.

    memfd  --- mapped to write ---   what is loaded is written here
           --- mapped to execute --  and runs there

An arena takes two maps of the process, whatever the number of functions in it: LLVM's loader takes
two for each object, and a process has 65,530.  A child of a fork shares the arenas with its parent,
so neither writes to them from then on: both take new ones.
"""

from __future__ import annotations

import ctypes
import os
from _thread import RLock
from collections import deque
from collections.abc import Callable

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.system import MACHINE, POSIX, at_fork, c_library

ARENA_BYTES = 32 << 20  # of addresses; memory is taken page by page
_LEAST = 64  # bytes: blocks begin at multiples
_PARTS = 8  # sizes of blocks from one power of two to the next
_EXECUTABLE = 0x10  # MFD_EXEC: some systems refuse to execute other files in memory
_READ, _WRITE, _EXECUTE, _SHARED = 1, 2, 4, 1  # of mmap, as POSIX systems number them
_FAILED = ctypes.c_void_p(-1).value
_PRIVATE_SYNC_CORE, _REGISTER_SYNC_CORE = 32, 64  # commands of membarrier
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}.get(MACHINE, 0)


class CodeMemoryError(OSError):
    """The system does not let memory be executed that was written; never leaves this package."""


class Block(NamedTuple):
    """A part of an arena."""

    arena: Arena
    offset: int
    size: int
    is_fresh: bool  # it has never held code

    @property
    def address(self) -> int:
        """Where it is executed."""
        return self.arena.code + self.offset


class Arena:
    """A file in memory, mapped twice; blocks that were given back are taken again by size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.top = 0
        self.blocks = 0  # in use
        self.frozen = False
        self.free: dict[int, list[int]] = {}
        self.writable, self.code = _mapped_twice(size)

    def take(self, size: int) -> Block | None:
        """A block, if there is room for it."""
        given = self.free.get(size)
        is_fresh = not given
        if given:
            offset = given.pop()
        elif self.top + size <= self.size:
            offset, self.top = self.top, self.top + size
        else:
            return None
        self.blocks += 1
        return Block(self, offset, size, is_fresh)

    def give(self, block: Block) -> None:
        """Take a block back, to be used again unless a forked process may still execute it."""
        self.blocks -= 1
        if not self.frozen:
            self.free.setdefault(block.size, []).append(block.offset)
        elif not self.blocks:
            for start in (self.writable, self.code):
                _LIBC.munmap(start, self.size)


class CodeMemory:
    """The arenas of a process.  Its user holds a lock, but for `give_back`, which needs none."""

    def __init__(self) -> None:
        self.arenas: list[Arena] = []
        self.returned: deque[Block] = deque()  # by any thread, at any time
        self.refused = not (hasattr(os, "memfd_create") and _SYNCHRONISE.get(MACHINE))

    def put(self, size: int) -> Block:
        """A block of at least `size` bytes.

        Raises:
            CodeMemoryError: the system does not allow it.
        """
        self.reclaim()
        if self.refused:
            raise CodeMemoryError
        size = block_size(size)
        for arena in self.arenas:
            block = arena.take(size)
            if block is not None:
                return block
        try:
            self.arenas.append(Arena(max(ARENA_BYTES, size)))
        except OSError as error:
            self.refused = not self.arenas
            raise CodeMemoryError from error
        block = self.arenas[-1].take(size)
        assert block is not None
        return block

    def write(self, block: Block, image: bytes) -> None:
        """Fill a block with what is executed next."""
        ctypes.memmove(block.arena.writable + block.offset, image, len(image))
        _SYNCHRONISE[MACHINE](block.address, len(image), block.is_fresh)

    def give_back(self, block: Block) -> None:
        """Have a block used again, soon."""
        self.returned.append(block)

    def reclaim(self) -> None:
        """Let the blocks that were given back be used again."""
        while self.returned:
            block = self.returned.popleft()
            block.arena.give(block)

    def forking(self) -> None:
        """Two processes execute the arenas from now on: neither writes to them again."""
        for arena in self.arenas:
            arena.frozen = True
        self.arenas.clear()

    def bytes_in_use(self) -> int:
        """The bytes of the blocks that hold code, of the arenas that can be written."""
        return sum([a.top - sum([n * len(x) for n, x in a.free.items()]) for a in self.arenas])


def block_size(size: int) -> int:
    """The size rounded up so that few sizes occur: eight of them up to the double."""
    unit = max(_LEAST, (1 << (max(size, 1) - 1).bit_length()) // (2 * _PARTS))
    return -(-size // unit) * unit


def _libc() -> ctypes.CDLL:
    library = c_library()
    if POSIX:
        library.mmap.restype = ctypes.c_void_p
        numbers = [ctypes.c_int] * 3
        library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers, ctypes.c_ssize_t]
        library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


_LIBC = _libc()


def _mapped_twice(size: int) -> tuple[int, int]:
    """The addresses at which a new file in memory can be written, and executed."""
    try:
        handle = os.memfd_create("fgrad-code", os.MFD_CLOEXEC | _EXECUTABLE)
    except OSError:  # an older system
        handle = os.memfd_create("fgrad-code", os.MFD_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        writable = _mapped(handle, size, _READ | _WRITE)
        try:
            return writable, _mapped(handle, size, _READ | _EXECUTE)
        except OSError:
            _LIBC.munmap(writable, size)
            raise
    finally:
        os.close(handle)


def _mapped(handle: int, size: int, rights: int) -> int:
    address = _LIBC.mmap(None, size, rights, _SHARED, handle, 0)
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return address


def _fetch_again(_start: int, _size: int, is_fresh: bool) -> None:
    """Every thread of the process fetches its next instructions anew, where the system can do it,
    if they may be those of other code.  To ask for it takes 2 to 15 ms, once."""
    if not is_fresh and _MEMBARRIER and _LIBC.syscall(_MEMBARRIER, _PRIVATE_SYNC_CORE, 0, 0) != 0:
        _LIBC.syscall(_MEMBARRIER, _REGISTER_SYNC_CORE, 0, 0)
        _LIBC.syscall(_MEMBARRIER, _PRIVATE_SYNC_CORE, 0, 0)


def _clear_caches() -> Callable[[int, int, bool], None] | None:
    """On AArch64 the instruction cache does not follow the data cache by itself; None if there is
    nobody to do it."""
    if MACHINE != "aarch64":
        return None
    try:
        clear = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        return None

    def synchronise(start: int, size: int, _is_fresh: bool) -> None:
        clear(ctypes.c_void_p(start), ctypes.c_void_p(start + size))
        _fetch_again(start, size, is_fresh=False)

    return synchronise


_SYNCHRONISE = {"x86_64": _fetch_again, "aarch64": _clear_caches()}

MEMORY = CodeMemory()
LOCK = RLock()  # of whoever loads code or is inside of LLVM


def _forking() -> None:
    """A fork waits until no other thread is inside of LLVM, whose locks the child could never
    take."""
    LOCK.acquire()
    MEMORY.forking()


at_fork(before=_forking, in_parent=LOCK.release, in_child=LOCK.release)
