"""L7. The ranks of this process, through mpi4py, with any MPI library.

One communicator for each axis of the mesh, which collectives use; one for `control`: agreement,
blocks and files; one for `watch`, which a thread of its own uses.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fgrad.base.lazy_import import load
from fgrad.errors import MissingMpiError, RankError
from fgrad.ir.aval import INT64
from fgrad.tracing import ranks
from fgrad.tracing.ranks import AXES, LIBRARY, NUMBERS, WORDS, Native, Pairs
from fgrad.typing import DType

FUNCTIONS = (
    "MPI_Allreduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Reduce_scatter_block", "MPI_Sendrecv",
)  # fmt: skip


def mpi() -> Any:
    """The module `mpi4py.MPI`, whose import starts MPI."""
    return load("mpi4py.MPI")


class Engine:
    """The process as one of several ranks.

    Arguments:
        sizes: how many places each axis has; their product is the number of ranks.

    Attributes:
        limit: seconds in one collective after which the program is ended; None for ever.
    """

    def __init__(self, names: Sequence[str], sizes: Sequence[int]) -> None:
        world = mpi().COMM_WORLD
        self.world = world.Dup()
        self.world.Set_errhandler(mpi().ERRORS_ARE_FATAL)  # compiled code asks for no codes
        self.control, self.watch = world.Dup(), world.Dup()
        self.rank, self.size = world.rank, world.size
        self.limit: float | None = None
        self.table: Any = (ctypes.c_int64 * WORDS)()
        self.index = tuple([int(k) for k in np.unravel_index(self.rank, tuple(sizes))])
        self.axes = [
            Along(self, k, name, sizes[k], self.index[k], self._along(k, sizes))
            for k, name in enumerate(names)
        ]
        AXES.update({axis.name: axis for axis in self.axes})
        LIBRARY.native = self._native()
        LIBRARY.noted = self.noted

    def _along(self, k: int, sizes: Sequence[int]) -> Any:
        """The communicator of the ranks that differ along one axis alone."""
        others = [*self.index[:k], 0, *self.index[k + 1 :]]
        colour = int(np.ravel_multi_index(others, tuple(sizes)))
        return self.world.Split(colour, self.index[k])

    @contextlib.contextmanager
    def noted(self, what: str, size: int = 0) -> Iterator[None]:
        """Tell the watching thread that this rank waits for others meanwhile."""
        table = self.table
        outer = table[ranks.INSIDE]
        table[ranks.BYTES] = size
        table[ranks.WAITS if what == ranks.DEVICE else ranks.BEGUN] += 1
        table[ranks.INSIDE] = ranks.MEETINGS.index(what)
        try:
            yield
        finally:
            table[ranks.INSIDE] = outer

    def _native(self) -> Native:
        """The library and its handles, for compiled code."""
        library = ctypes.CDLL(mpi().__file__)
        addresses = {
            name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            for name in FUNCTIONS
        }
        words = {ranks.SUM: mpi().SUM, ranks.BYTE: mpi().BYTE}
        words |= {place: _number_type(code) for code, place in NUMBERS.items()}
        words |= {ranks.communicator(axis.number): axis.comm for axis in self.axes}
        for place, handle in words.items():
            self.table[place] = ctypes.c_int64(mpi()._handleof(handle)).value
        self.table[ranks.NOBODY] = mpi().PROC_NULL
        for axis in self.axes:
            self.table[ranks.position(axis.number)] = axis.index
        return Native(addresses, mpi()._sizeof(mpi().Comm), ctypes.addressof(self.table))


def _number_type(code: str) -> Any:
    kind = {"f": "REAL", "i": "INTEGER", "u": "UNSIGNED"}[code[0]]
    if kind == "REAL":
        return mpi().FLOAT if code == "f4" else mpi().DOUBLE
    sign, bits = "U" if kind == "UNSIGNED" else "", 8 * int(code[1:])
    return getattr(mpi(), f"{sign}INT{bits}_T")


class Along:
    """An axis: this rank and those that differ from it along the axis alone."""

    def __init__(
        self, engine: Engine, number: int, name: str, size: int, index: int, comm: Any
    ) -> None:
        self.engine, self.number, self.name = engine, number, name
        self.size, self.index, self.comm = size, index, comm

    def pvary(self, x: np.ndarray) -> np.ndarray:
        """The value itself."""
        return x

    def psum(self, x: np.ndarray) -> np.ndarray:
        """The sum over the ranks; of numbers of 8 and 16 bits in 32 bits."""
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        if x.dtype.itemsize < 4:
            wide = np.int32 if x.dtype.kind in "iu" else np.float32
            return self.psum(x.astype(wide)).astype(x.dtype)
        out, words = np.empty_like(x), _words(x.dtype)
        given, taken = x.reshape(-1).view(words), out.reshape(-1).view(words)
        with self.engine.noted("psum", x.nbytes):
            self.comm.Allreduce(given, taken, mpi().SUM)
        return out

    def pmax(self, x: np.ndarray) -> np.ndarray:
        """The greatest of each element; NaN if there is one."""
        return np.max(self._gathered("pmax", x), 0)

    def pmin(self, x: np.ndarray) -> np.ndarray:
        """The least of each element; NaN if there is one."""
        return np.min(self._gathered("pmin", x), 0)

    def all_gather(self, x: np.ndarray) -> np.ndarray:
        """The arrays of all ranks."""
        return self._gathered("all_gather", x)

    def _gathered(self, name: str, x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        out = np.empty((self.size, *x.shape), x.dtype)
        with self.engine.noted(name, x.nbytes):
            self.comm.Allgather(_bytes(x), _bytes(out))
        return out

    def psum_scatter(self, x: np.ndarray) -> np.ndarray:
        """This rank's item of the sum."""
        return self.psum(x)[self.index]

    def all_to_all(self, x: np.ndarray) -> np.ndarray:
        """The items that the ranks have for this one."""
        x = np.ascontiguousarray(x)
        out = np.empty_like(x)
        with self.engine.noted("all_to_all", x.nbytes):
            self.comm.Alltoall(_bytes(x), _bytes(out))
        return out

    def ppermute(self, x: np.ndarray, perm: Pairs) -> np.ndarray:
        """The array of the rank that sends to this one, or zeros."""
        x = np.ascontiguousarray(x).reshape(np.shape(x))
        out = np.zeros_like(x)
        to, source = {a: b for a, b in perm}, {b: a for a, b in perm}
        dest, origin = to.get(self.index, mpi().PROC_NULL), source.get(self.index, mpi().PROC_NULL)
        with self.engine.noted("ppermute", x.nbytes):
            self.comm.Sendrecv(_bytes(x), dest, 0, _bytes(out), origin, 0)
        return out

    def told(self, x: bytes) -> list[bytes]:
        """What each place along the axis says."""
        with self.engine.noted("agreement"):
            return self.comm.allgather(x)

    def axis_index(self) -> np.ndarray:
        """The place of this rank."""
        return np.asarray(self.index, INT64)[()]


def _words(dtype: DType) -> DType:
    """The real numbers of which an array consists."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _bytes(x: np.ndarray) -> list[Any]:
    return [x.reshape(-1).view(np.uint8), mpi().BYTE]


ENGINES: dict[str, Engine] = {}  # by name: one, once ranks are there


def engine_here() -> Engine:
    """The engine of this process.

    Raises:
        RankError: it has none, though it was given a mesh of ranks.
    """
    if not ENGINES:
        raise RankError(
            "A mesh of ranks in a process that is none of them.",
            (
                ("why", "the mesh was sent here, to a worker of a pool, say."),
                ("write", "dist.init(...)         in each process that mpiexec starts"),
                ("write", "dist.simulate(data=4)  for all places in one process"),
            ),
        )
    return ENGINES["mpi"]


def world_size() -> int:
    """The number of ranks.

    Raises:
        MissingMpiError: mpi4py or an MPI library is missing.
    """
    try:
        return mpi().COMM_WORLD.size
    except (ImportError, RuntimeError) as error:
        raise MissingMpiError(
            "dist.init('mpi') needs mpi4py and an MPI library.",
            (
                ("why", f"{type(error).__name__}: {error}".splitlines()[0]),
                ("write", "pip install 'fgrad[mpi]'        mpi4py and MPICH, on one machine"),
                ("write", "pip install mpi4py              on a cluster, which has an MPI"),
            ),
        ) from None
