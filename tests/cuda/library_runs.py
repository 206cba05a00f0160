"""Runs the calls of library steps on host memory: kernels are emulated, functions are called."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from emulator.run import Emulated

from fgrad.lower_cuda.device.driver import driver
from fgrad.lower_cuda.device.toolchain import compile_body
from fgrad.lower_cuda.emit import calls as lc

C_TYPES = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


class Failed(Exception):
    """A check found that a matrix failed."""


class Memory:
    """The buffers of a step and its scratch areas, which begin as noise."""

    def __init__(self, calls: lc.Calls, buffers: Sequence[np.ndarray]) -> None:
        self.arrays = list(buffers)
        self.arrays += [np.full(max(n, 1) + 16, 0xFF, np.uint8) for n in calls.scratch]
        assert all([x.flags.c_contiguous for x in self.arrays])

    def address(self, place: lc.Address, repetition: int = 0) -> int:
        start = self.arrays[place.number].ctypes.data
        if self.arrays[place.number].dtype == np.uint8:
            start = -(-start // 16) * 16 if place.number >= len(self.arrays) else start
        return start + place.offset + repetition * place.step

    def bounds(self) -> list[tuple[int, int]]:
        return [(x.ctypes.data, x.nbytes) for x in self.arrays]


def run(calls: lc.Calls, *buffers: np.ndarray, seed: int | None = 0) -> None:
    """Make all calls."""
    memory = Memory(calls, buffers)
    order = random.Random(seed) if seed is not None else None
    for call in calls.calls:
        _make(call, memory, order)


def _make(call: Any, memory: Memory, order: random.Random | None) -> None:
    if isinstance(call, lc.KernelCall):
        pointers = [memory.address(place) for place in call.places]
        bounds = memory.bounds()
        Emulated(call.body, call.arity).run(call.grid, call.block, pointers, order, True, bounds)
    elif isinstance(call, lc.FunctionCall):
        _function(call, memory, driver().stream)
    elif isinstance(call, lc.CopyCall):
        ctypes.memmove(memory.address(call.target), memory.address(call.source), call.nbytes)
    elif isinstance(call, lc.FillCall):
        ctypes.memset(memory.address(call.target), call.value, call.nbytes)
    elif isinstance(call, lc.Check):
        flags = (ctypes.c_int32 * call.count).from_address(memory.address(call.flags))
        if any(flags):
            raise Failed(call.message)
    else:
        raise AssertionError(f"no way to make {call}")


def _function(call: lc.FunctionCall, memory: Memory, stream: int) -> None:
    """Call through the address, as the host program does."""
    if call.setter:
        handle = call.arguments[0]
        assert isinstance(handle, lc.Number)
        set_stream = ctypes.CFUNCTYPE(ctypes.c_int32, C_TYPES[handle.kind], ctypes.c_int64)
        assert set_stream(call.setter)(handle.value, stream) == 0
    for repetition in range(call.count):
        types: list[Any] = []
        values: list[Any] = []
        for argument in call.arguments:
            if isinstance(argument, lc.Address):
                types.append(ctypes.c_int64)
                values.append(memory.address(argument, repetition))
            elif isinstance(argument, lc.Number):
                types.append(C_TYPES[argument.kind])
                values.append(argument.value)
            else:
                types.append(ctypes.c_int64)
                values.append(stream)
        status = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(call.address)(*values)
        assert status == 0, (call.name, status)


def compiled(calls: lc.Calls, stack: int = 0) -> None:
    """All kernels of the calls become cubins that spill nothing."""
    for call in calls.calls:
        if isinstance(call, lc.KernelCall):
            threads = call.block[0] * call.block[1]
            found = compile_body(call.body, call.arity, threads).resources
            assert found.spill_bytes == 0 and found.stack_bytes <= stack, found
            assert found.shared_bytes <= 49 << 10, found  # 1 KB is the system's
