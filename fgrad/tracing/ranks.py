"""L2. Named axes whose places are processes: what runs a collective outside of a trace.

    AXES["data"].psum(x)        communicates with the ranks along the axis

`fgrad.distributed.init` fills the table, once in a process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from fgrad.base.named_tuple import NamedTuple

Pairs = tuple[tuple[int, int], ...]


class RankAxis(Protocol):
    """An axis along which this process is one place; each method is the collective of its name."""

    name: str
    number: int  # among the axes of the mesh
    size: int
    index: int  # of this process

    def pvary(self, x: np.ndarray) -> np.ndarray: ...
    def psum(self, x: np.ndarray) -> np.ndarray: ...
    def pmax(self, x: np.ndarray) -> np.ndarray: ...
    def pmin(self, x: np.ndarray) -> np.ndarray: ...
    def all_gather(self, x: np.ndarray) -> np.ndarray: ...
    def psum_scatter(self, x: np.ndarray) -> np.ndarray: ...
    def all_to_all(self, x: np.ndarray) -> np.ndarray: ...
    def ppermute(self, x: np.ndarray, perm: Pairs) -> np.ndarray: ...
    def axis_index(self) -> np.ndarray: ...
    def told(self, x: bytes) -> list[bytes]: ...  # what each place says


AXES: dict[str, RankAxis] = {}


class Native(NamedTuple):
    """The library that communicates, as compiled code calls it.

    functions: the addresses of its functions, by name.
    handle: the bytes of a communicator, a datatype or an operation, which are in `table`.
    table: the address of words of 64 bits, see `WORDS`.
    """

    functions: dict[str, int]
    handle: int
    table: int


class Library:
    """The library that is there, once ranks are."""

    native: Native | None = None
    local: int = 0  # the number of this rank on its machine, which is that of its device
    noted: Callable[[str], AbstractContextManager[None]] | None = None
    agreed: Callable[[str], None] | None = None  # refuses what not all ranks do at one time


LIBRARY = Library()

# The places of the words that compiled code reads, and those where it says what it does.  They are
# the same for all libraries, so that code from the disk finds the handles of this process.
BEGUN, INSIDE, BYTES, SUM, BYTE, NOBODY, WAITS = range(7)
NUMBERS = {
    code: 8 + k for k, code in enumerate(["f4", "f8", *[f"{c}{n}" for c in "iu" for n in (4, 8)]])
}
FIRST_AXIS = 32
STATUS = 64  # where the library writes what nobody reads
WORDS = 128
MEETINGS = (  # what the word INSIDE says: where this rank waits for others
    "", "psum", "pmax", "pmin", "all_gather", "psum_scatter", "all_to_all", "ppermute",
    "agreement", "broadcast", "gather", "save", "load", "end", "the work of the device",
)  # fmt: skip
DEVICE = "the work of the device"
_NOTHING = contextlib.nullcontext()


def waiting(what: str) -> AbstractContextManager[None]:
    """A context in which this rank waits for others, as the thread that watches is told."""
    return _NOTHING if LIBRARY.noted is None else LIBRARY.noted(what)


def communicator(axis: int) -> int:
    """The place of the communicator along an axis of the mesh."""
    return FIRST_AXIS + 2 * axis


def position(axis: int) -> int:
    """The place of the index of this rank along an axis of the mesh."""
    return FIRST_AXIS + 2 * axis + 1
