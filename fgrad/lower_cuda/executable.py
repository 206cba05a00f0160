"""L6. A compiled program on the device: its calls are made by a native host program.

The slots of the program are its inputs, its constants, its outputs, the arena and the state of the
call; the rest are places in these.  A call enqueues its work and returns: memory that is given back
meanwhile is used again behind that work, since all is on one stream.

    jit(f, device="cuda")(x)     addresses of x, new outputs and an arena -> one native call
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import NoReturn

from fgrad.compile.host.program import HostProgram, raise_if_stopped
from fgrad.compile.tasks.plan import Plan
from fgrad.errors import CheckError, DeviceError
from fgrad.ir.aval import Aval
from fgrad.ir.program import Lit, Program
from fgrad.lower_cuda.device.array import DeviceArray
from fgrad.lower_cuda.device.driver import Driver, driver
from fgrad.lower_cuda.graph import Graphs
from fgrad.lower_cuda.host import MISSED, Caller, functions, state
from fgrad.lower_cuda.library.functions import SIGNATURES, status_text
from fgrad.lower_cuda.link import Image, Origin, linked
from fgrad.lower_cuda.native_call import NativeCall, is_possible
from fgrad.lower_cuda.nodes import GraphNode, flattened
from fgrad.lower_cuda.report import described, rows
from fgrad.tracing import ranks


def link(program: Program, plan: Plan) -> CudaExecutable:
    """The form of a planned program that a device runs."""
    device = driver()
    return CudaExecutable(linked(program, plan, device), device)


class CudaExecutable:
    """Runs a planned program on arrays of the device.

    Attributes:
        in_avals, out_avals: of the arguments and results.
        consts: arrays that it needs besides, on the device from the first call on.
        arena_bytes: of temporaries, which are one block.
        host: the calls as a program of the host.
        meets: whether it waits for other ranks on the device.
    """

    def __init__(self, image: Image, device: Driver) -> None:
        self.image = image
        self.device = device
        self.in_avals = image.in_avals
        self.out_avals = image.out_avals
        self.consts = image.consts
        self.literals: list[tuple[int, Lit]] = []  # they are constants here
        self.arena_bytes = image.arena_bytes
        self.host = HostProgram(image.steps, image.given, image.callbacks)
        self.resident: _Resident | None = None
        self.meets = any([origin.name.startswith("nccl") for origin in image.origins.values()])
        self.made = [(a.shape, a.dtype, a.size * a.dtype.itemsize) for a in image.out_avals]

    def seen_as(self, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> CudaExecutable:
        """The same for arguments and results of other dtypes of the same sizes."""
        image = self.image._replace(in_avals=tuple(in_avals), out_avals=tuple(out_avals))
        return CudaExecutable(image, self.device)

    def __call__(self, args: Sequence[DeviceArray]) -> list[DeviceArray]:
        """The results, which are computed when the work before them is done."""
        device = self.device
        device.attach()
        resident = self.resident or self._load()
        given = [x.pointer for x in args]
        lent = self._lent(args) if self.image.reuse else None
        outs = []
        for k, (shape, dtype, nbytes) in enumerate(self.made):
            out = lent.get(k) if lent else None
            if out is None:
                out = DeviceArray(shape, dtype, device.allocate(nbytes), nbytes, device)
            outs.append(out)
            given.append(out.pointer)
        arena = device.allocate(self.arena_bytes)
        code = (
            self._watched(resident.call, given, arena)
            if self.meets
            else resident.call(*given, arena)
        )
        device.give_back(arena, self.arena_bytes)
        if code:
            self._answered(code, given, arena)
        if resident.calls_python:
            raise_if_stopped()
            for callback in self.image.callbacks:
                callback.reraise()
        return outs

    def _watched(self, call: Callable[..., int], given: Sequence[int], arena: int) -> int:
        """A call in which the host may wait for a number that others have a part in."""
        with ranks.waiting(ranks.DEVICE):
            return call(*given, arena)

    def _load(self) -> _Resident:
        """What calls need: the constants on the device, and the native entry."""
        with self.device.lock:
            if self.resident is None:
                self.resident = _Resident(self)
        return self.resident

    def _lent(self, args: Sequence[DeviceArray]) -> dict[int, DeviceArray]:
        """The outputs that take the memory of an argument: one that no other one shares."""
        starts = sorted([(x.pointer, x.nbytes, i) for i, x in enumerate(args)])
        shared: set[int] = set()
        reach, holder = -1, -1
        for start, nbytes, i in starts:
            if start < reach:
                shared |= {i, holder}
            if start + nbytes > reach:
                reach, holder = start + nbytes, i
        lent = {}
        for k, i in self.image.reuse:
            out = None if i in shared else args[i].donate(self.out_avals[k])
            if out is not None:
                lent[k] = out
        return lent

    def _answered(self, code: int, given: Sequence[int], arena: int) -> None:
        """A call that failed is raised; one for which no graph was near gets one."""
        assert self.resident is not None
        if code & (MISSED - 1):
            origin = self.image.origins.get(code >> 32, Origin("a graph"))
            if origin.name in SIGNATURES:
                words = status_text(origin.name, code & (MISSED - 1))
                raise DeviceError(words, rows(origin))
            self.device.check(code & (MISSED - 1), origin.name, rows(origin))
        self.resident.add_graph(given, arena)

    def native_call(self) -> NativeCall | None:
        """The same without Python, for this thread and these settings; None if Python takes part.

        Requires an earlier call.
        """
        resident = self.resident
        if resident is None or resident.calls_python or self.image.reuse or self.meets:
            return None
        if not (self.device.plain_memory and is_possible()):
            return None
        return NativeCall(
            resident.caller,
            self.device,
            self.in_avals,
            self.out_avals,
            self.arena_bytes,
            resident.far,
        )

    def failed(self, code: int) -> NoReturn:
        """Raise the error of a failed native call."""
        self._answered(code, (), 0)
        raise CheckError(f"a call on the device answered {code:#x}, which is no failure.")

    @property
    def nodes(self) -> tuple[GraphNode, ...] | None:
        """The nodes of the program's graph; None if it has none."""
        image = self.image
        fetch = functions().fetch if self.device.conditional else 0
        return flattened(image.steps, image.given, image.graphable, fetch)

    def describe(self) -> str:
        """The calls of the program, with grids, blocks and bytes, and what they need."""
        graphs = None if self.resident is None else self.resident.graphs
        return described(self.image, self.nodes, "" if graphs is None else graphs.refused)


class _Resident:
    """What an executable has on the device."""

    def __init__(self, executable: CudaExecutable) -> None:
        device, image = executable.device, executable.image
        self.device = device
        self.inputs = len(image.in_avals)
        self.consts = [device.allocate(x.nbytes) for x in image.consts]
        sizes = [x.nbytes for x in image.consts]
        weakref.finalize(self, _release, device, self.consts, sizes).atexit = False
        for pointer, array in zip(self.consts, image.consts, strict=True):
            device.to_device(pointer, array)
        words = state(device.addresses, device.stream)
        self.others = len(image.out_avals) + 1
        table = executable.host.address
        self.caller = Caller(table, self.inputs, self.consts, self.others, words)
        self.calls_python = bool(image.callbacks)
        self.graphs: Graphs | None = None
        nodes = executable.nodes
        if nodes is not None:
            self.graphs = Graphs(device, nodes, functions().launch)
        self.call: Callable[..., int] = self.first_call

    def first_call(self, *pointers: int) -> int:
        """A call before there are graphs: many programs run once.  Those with conditional nodes
        have one already, for nobody knows how often the host would wait."""
        self.call = self.caller.call
        if self.graphs is None:
            return self.caller.call(*pointers)
        if self.graphs.conditional:
            self.add_graph(pointers[:-1], pointers[-1])
            self.caller.offer(self.graphs.table, self.graphs.attempt)
            return self.caller.call(*pointers)
        answer = self.caller.call(*pointers)
        self.caller.offer(self.graphs.table, self.graphs.attempt)
        return answer

    def add_graph(self, given: Sequence[int], arena: int) -> None:
        """Have a graph for the addresses of a call: of inputs, outputs and the arena."""
        self._add([*given[: self.inputs], *self.consts, *given[self.inputs :], arena])

    def far(self, slots: int) -> None:
        """Have a graph for the addresses in a table of slots."""
        count = self.inputs + len(self.consts) + self.others
        self._add((ctypes.c_int64 * count).from_address(slots)[:])

    def _add(self, pointers: list[int]) -> None:
        assert self.graphs is not None
        with self.device.lock:
            self.graphs.add(pointers)


def _release(device: Driver, pointers: Sequence[int], sizes: Sequence[int]) -> None:
    for pointer, nbytes in zip(pointers, sizes, strict=True):
        device.release(pointer, nbytes)
