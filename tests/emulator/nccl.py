"""NCCL without a device: memory of the host, exchanged by MPI or by what a test puts in its place.

Calls are done in the order of the stream.  Within a group sends and receives are collected, and
done together at its end, as NCCL does.  What the library would refuse, or what would hang or give
garbage there, is refused: places that are none, sizes and types that differ between ranks, sends
that nobody receives.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from emulator.cublaslt import enqueue, require
from fgrad.lower_cuda.library import nccl
from fgrad.lower_cuda.library.functions import C_TYPES, SIGNATURES, UniqueId

ARGUMENT, USAGE, FAILED = 4, 5, 3  # ncclResult_t
NUMBERS = {number: np.dtype(name) for name, number in nccl.DATA_TYPES.items()}


class Ranks(Protocol):
    """How the ranks of a communicator reach each other; mpi4py's communicators are such."""

    rank: int
    size: int

    def allgather(self, x: Any) -> list[Any]: ...


class Mirror:
    """Ranks that all do what this one does.

    Arguments:
        rank: that of this process.
        size: how many there are.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def allgather(self, x: Any) -> list[Any]:
        return [x] * self.size


class Called(NamedTuple):
    """A call that was made: of a function, with the bytes that it sends or receives."""

    name: str
    nbytes: int = 0
    peer: int = -1


class _Message(NamedTuple):
    """A send or a receive of a group."""

    receives: bool
    place: int
    nbytes: int
    peer: int
    comm: int
    stream: int


class NcclStub:
    """The C functions, by the part of their names after `nccl`.

    Arguments:
        join: the ranks of a communicator: of this many, with this number, of this identity.

    Attributes:
        log: what was called, but for communicators.
        errors: what went wrong in a function that failed.
    """

    def __init__(self, join: Callable[[int, int, bytes], Ranks]) -> None:
        self.join = join
        self.log: list[Called] = []
        self.errors: list[Exception] = []
        self._comms: list[Ranks | None] = [None]
        self._depth = 0
        self._messages: list[_Message] = []
        self._callbacks: dict[str, Any] = {}

    def address(self, name: str) -> int:
        """Where a function is."""
        if name not in self._callbacks:
            types = [C_TYPES[letter] for letter in SIGNATURES[name]]
            method = getattr(self, name.removeprefix("nccl"))
            self._callbacks[name] = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._guarded(method))
        return ctypes.cast(self._callbacks[name], ctypes.c_void_p).value or 0

    def _guarded(self, method: Callable[..., None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            try:
                method(*[0 if x is None else x for x in arguments])
            except Exception as error:
                self.errors.append(error)
                return getattr(error, "status", FAILED)
            return 0

        return call

    def _ranks(self, comm: int) -> Ranks:
        require(0 < comm < len(self._comms), "no communicator", ARGUMENT)
        found = self._comms[comm]
        assert found is not None
        return found

    # Communicators.

    def GetUniqueId(self, out: int) -> None:
        UniqueId.from_address(out).words[0] = (os.getpid() << 6 | len(self._comms)) % (1 << 30)

    def CommInitRank(self, out: int, size: int, identity: UniqueId, rank: int) -> None:
        require(0 <= rank < size, "rank", ARGUMENT)
        require(identity.words[0] > 0, "no identity", ARGUMENT)
        ranks = self.join(size, rank, bytes(identity))
        require((ranks.rank, ranks.size) == (rank, size), "other ranks", USAGE)
        ctypes.c_uint64.from_address(out).value = len(self._comms)
        self._comms.append(ranks)

    # Collectives.

    def AllReduce(
        self, source: int, target: int, count: int, kind: int, op: int, comm: int, stream: int
    ) -> None:
        self._sum("AllReduce", source, target, count, count, kind, op, comm, stream)

    def ReduceScatter(
        self, source: int, target: int, count: int, kind: int, op: int, comm: int, stream: int
    ) -> None:
        size = self._ranks(comm).size
        self._sum("ReduceScatter", source, target, size * count, count, kind, op, comm, stream)

    def _sum(
        self, name: str, source: int, target: int, given: int, made: int, kind: int, op: int,
        comm: int, stream: int,
    ) -> None:  # fmt: skip
        ranks, dtype = self._ranks(comm), NUMBERS[kind]
        require(op == nccl.SUM and not self._depth, "a sum, outside of groups", ARGUMENT)
        self.log.append(Called(name, given * dtype.itemsize))

        def work() -> None:
            x = _memory(source, given * dtype.itemsize).view(dtype)
            every = self._gathered(ranks, name, x)
            total = np.sum(every, 0, dtype=dtype).reshape(-1, made)
            _memory(target, made * dtype.itemsize).view(dtype)[:] = total[
                ranks.rank if made < given else 0
            ]

        enqueue(work, stream)

    def AllGather(
        self, source: int, target: int, count: int, kind: int, comm: int, stream: int
    ) -> None:
        ranks, nbytes = self._ranks(comm), count * NUMBERS[kind].itemsize
        require(not self._depth, "outside of groups", ARGUMENT)
        self.log.append(Called("AllGather", nbytes))

        def work() -> None:
            every = self._gathered(ranks, "AllGather", _memory(source, nbytes))
            _memory(target, ranks.size * nbytes)[:] = np.concatenate(every)

        enqueue(work, stream)

    def _gathered(self, ranks: Ranks, name: str, x: np.ndarray) -> Sequence[np.ndarray]:
        told = ranks.allgather((name, x.dtype.str, x.copy()))
        for other, dtype, y in told:
            same = (other, dtype, len(y)) == (name, x.dtype.str, len(x))
            require(same, f"{name} of {x.dtype}[{len(x)}] meets {other} of {dtype}[{len(y)}]")
        return [y for _, _, y in told]

    # Messages.

    def GroupStart(self) -> None:
        self._depth += 1

    def GroupEnd(self) -> None:
        require(self._depth > 0, "no group", USAGE)
        self._depth -= 1
        if self._depth:
            return
        messages, self._messages = self._messages, []
        for comm, stream in dict.fromkeys([(m.comm, m.stream) for m in messages]):
            own = [m for m in messages if (m.comm, m.stream) == (comm, stream)]
            enqueue(lambda own=own, comm=comm: self._exchange(own, self._ranks(comm)), stream)

    def Send(self, place: int, count: int, kind: int, peer: int, comm: int, stream: int) -> None:
        self._message("Send", place, count, kind, peer, comm, stream)

    def Recv(self, place: int, count: int, kind: int, peer: int, comm: int, stream: int) -> None:
        self._message("Recv", place, count, kind, peer, comm, stream)

    def _message(
        self, name: str, place: int, count: int, kind: int, peer: int, comm: int, stream: int
    ) -> None:
        ranks, nbytes = self._ranks(comm), count * NUMBERS[kind].itemsize
        require(0 <= peer < ranks.size and peer != ranks.rank, "peer", ARGUMENT)
        require(self._depth > 0, "a message alone may wait for ever", USAGE)
        self.log.append(Called(name, nbytes, peer))
        self._messages.append(_Message(name == "Recv", place, nbytes, peer, comm, stream))

    def _exchange(self, messages: Sequence[_Message], ranks: Ranks) -> None:
        sent = {m.peer: _memory(m.place, m.nbytes).copy() for m in messages if not m.receives}
        wanted = {m.peer: m for m in messages if m.receives}
        told = ranks.allgather((sent, list(wanted)))
        for peer in sent:
            require(ranks.rank in told[peer][1] or told[peer][0] is sent, "nobody receives", USAGE)
        for peer, m in wanted.items():
            found = told[peer][0].get(ranks.rank)
            if told[peer][0] is sent:  # a mirror
                found = np.zeros(m.nbytes, np.uint8)
            require(found is not None and len(found) == m.nbytes, "nobody sends this", USAGE)
            _memory(m.place, m.nbytes)[:] = found


def _memory(address: int, nbytes: int) -> np.ndarray:
    """Bytes in memory."""
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)
