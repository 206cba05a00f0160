"""L6. Collectives of ranks by NCCL, on the stream of the program; or through the host.

    psum x           ncclAllReduce             all_gather x     ncclAllGather
    psum_scatter x   ncclReduceScatter         axis_index       a kernel that writes the place
    all_to_all x     ncclSend and ncclRecv for each other place, as one group
    ppermute x       one of each at most; zeros where nobody sends

Each axis has a communicator, made when the first program over it is planned: the ranks along it
tell each other by MPI whether NCCL is there and which device they have.  Where one has no NCCL, or
two have one device, operands are copied to the host, MPI combines them, results are copied back.

Requires that extrema are gathered and that sums are of 32 bits or more (pass `collectives`).
"""

from __future__ import annotations

import ctypes

import numpy as np

from fgrad.base.source import warn_user
from fgrad.errors import RankWarning
from fgrad.ir.program import Eqn, Lit
from fgrad.ir.traits import Algorithm
from fgrad.lower_cuda.device.driver import driver
from fgrad.lower_cuda.emit.calls import (
    Address,
    Argument,
    Calls,
    HostCall,
    Number,
    Stream,
)
from fgrad.lower_cuda.library.functions import Functions, UniqueId, functions
from fgrad.lower_cuda.library.plan import Planner
from fgrad.tracing.ranks import AXES, RankAxis

# ncclDataType_t, ncclRedOp_t
DATA_TYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5,
    "float32": 7, "float64": 8,
}  # fmt: skip
BYTES, SUM = 0, 0


def collective_calls(eqn: Eqn, buffers: int) -> Calls:
    """The calls of a collective.  Buffers: the operand, if there is one, and the result."""
    axis = AXES[eqn.params["axis"]]
    if eqn.prim.algorithm is Algorithm.PLACE:
        return _index(axis.index)
    x, out = eqn.inputs[0], eqn.outputs[0].aval
    if out.size == 0:
        return Calls(())
    places = tuple([Address(k) for k in range(buffers)])
    if isinstance(x, Lit):
        return Calls((HostCall(eqn, places),))
    step = _Step(eqn, axis)
    if axis.size == 1:
        step.alone()
    elif step.communicator:
        step.meet()
    else:
        return Calls((HostCall(eqn, places),))
    return step.plan.finish()


def _index(index: int) -> Calls:
    """The place of this rank, where it is known when the program is compiled."""
    plan = Planner(1)
    plan.each(1, lambda body, e: body.store(index, body.pointer(0, "i64"), e), Address(0))
    return plan.finish()


class _Step:
    """A collective of an operand in memory."""

    def __init__(self, eqn: Eqn, axis: RankAxis) -> None:
        self.algorithm, self.axis, aval = eqn.prim.algorithm, axis, eqn.inputs[0].aval
        self.pairs: tuple[tuple[int, int], ...] = eqn.params.get("perm", ())
        self.size, self.dtype = aval.size, aval.dtype
        self.nbytes = aval.size * aval.dtype.itemsize
        self.plan = Planner(2)

    @property
    def communicator(self) -> int:
        """That of the axis; 0 if its ranks meet on the host."""
        return communicator(functions(), self.axis)

    def alone(self) -> None:
        """Along an axis of one place the result is the operand, or zeros."""
        if self.algorithm is Algorithm.PERMUTE and not self.pairs:
            self.plan.fill(Address(1), 0, self.nbytes)
        else:
            self.plan.copy(Address(1), Address(0), self.nbytes)

    def meet(self) -> None:
        """Call NCCL."""
        if self.algorithm in (Algorithm.ALL_REDUCE, Algorithm.REDUCE_SCATTER):
            self._sum()
        elif self.algorithm is Algorithm.ALL_GATHER:
            self._call("ncclAllGather", Address(0), Address(1), _count(self.nbytes), _int(BYTES))
        elif self.algorithm is Algorithm.ALL_TO_ALL:
            self._exchange()
        else:
            self._permute()

    def _sum(self) -> None:
        count = self.size * (2 if self.dtype.kind == "c" else 1)
        name = "ncclAllReduce"
        if self.algorithm is Algorithm.REDUCE_SCATTER:
            name, count = "ncclReduceScatter", count // self.axis.size
        kind = DATA_TYPES[np.real(np.zeros(1, self.dtype)).dtype.name]
        self._call(name, Address(0), Address(1), _count(count), _int(kind), _int(SUM))

    def _exchange(self) -> None:
        part, here = self.nbytes // self.axis.size, self.axis.index
        self.plan.copy(Address(1, here * part), Address(0, here * part), part)
        others = [k for k in range(self.axis.size) if k != here]
        self.plan.call("ncclGroupStart")
        for k in others:
            self._send(Address(0, k * part), part, k)
            self._receive(Address(1, k * part), part, k)
        self.plan.call("ncclGroupEnd")

    def _permute(self) -> None:
        here = self.axis.index
        to = [b for a, b in self.pairs if a == here]
        source = [a for a, b in self.pairs if b == here]
        if not source:
            self.plan.fill(Address(1), 0, self.nbytes)
        if here in to:
            self.plan.copy(Address(1), Address(0), self.nbytes)
            return
        self.plan.call("ncclGroupStart")
        for k in to:
            self._send(Address(0), self.nbytes, k)
        for k in source:
            self._receive(Address(1), self.nbytes, k)
        self.plan.call("ncclGroupEnd")

    def _send(self, place: Address, nbytes: int, to: int) -> None:
        self._call("ncclSend", place, _count(nbytes), _int(BYTES), _int(to))

    def _receive(self, place: Address, nbytes: int, source: int) -> None:
        self._call("ncclRecv", place, _count(nbytes), _int(BYTES), _int(source))

    def _call(self, name: str, *arguments: Argument) -> None:
        """A function, whose last arguments are the communicator and the stream."""
        self.plan.call(name, *arguments, _count(self.communicator), Stream())


def _count(value: int) -> Number:
    return Number("i64", value)


def _int(value: int) -> Number:
    return Number("i32", value)


# --- communicators


def communicator(f: Functions, axis: RankAxis) -> int:
    """The communicator of the ranks along an axis; 0 if they meet on the host.

    All of them must ask: they make it together.
    """
    with f.lock:
        found = f.communicators.get(axis.name)
        if found is None:
            found = f.communicators[axis.name] = _made(f, axis)
    return found


def _made(f: Functions, axis: RankAxis) -> int:
    device = driver()
    told = axis.told(device.identity() if f.has("nccl") else b"")
    why = ""
    if b"" in told:
        why = f"place {told.index(b'')} has no NCCL: pip install 'fgrad[nccl]'"
    elif len(set(told)) < len(told):
        why = "several of its places have one GPU, where NCCL wants one for each"
    if why:
        if axis.index == 0:
            words = f"Collectives over {axis.name!r} pass through the memory of the host: {why}."
            warn_user(words, RankWarning)
        return 0
    device.attach()
    own = UniqueId()
    if axis.index == 0:
        f.call("ncclGetUniqueId", ctypes.addressof(own))
    first = UniqueId.from_buffer_copy(axis.told(bytes(own))[0])
    return f.created("ncclCommInitRank", axis.size, first, axis.index)
