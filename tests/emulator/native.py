"""The C functions of a driver without a device, as Python functions of the same names.

Handles of functions and of executable graphs are addresses of a counter; that of a stream is the
address of two numbers: whether it captures a graph, and the function that captures a launch.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from emulator.events import Event, Fill, Launch, Move, Work
from emulator.graphs import INVALID, StubGraphs
from emulator.run import Emulated
from fgrad.compile.llvm import runtime
from fgrad.errors import CheckError
from fgrad.lower_cuda.device import driver_api as api

POISON = 0xFF  # the byte of a NaN, and of what nobody wrote
GUARD = 256  # bytes on each side of a block
LAUNCH_FAILED = 719
MOST_THREADS = 1024
ATTRIBUTES = {
    api.CAPABILITY_MAJOR: 9,
    api.CAPABILITY_MINOR: 0,
    api.MULTIPROCESSORS: 132,
    api.SHARED_BYTES_OPTIN: 232448,
}
ERRORS = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    801: ("CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
}


class _Kernel:
    """What a handle stands for."""

    def __init__(self, body: str, arity: int, threads: int) -> None:
        self.body, self.arity, self.threads = body, arity, threads
        self.emulated: Emulated | None = None

    def run(self, launch: Launch, bounds: list[tuple[int, int]] | None) -> None:
        """Run it; with bounds, each access is checked to be inside of an array."""
        if self.emulated is None:
            self.emulated = Emulated(self.body, self.arity)
        self.emulated.run(launch.grid, launch.block, launch.pointers, bounds=bounds)


class StubLibrary:
    """See `StubDriver`; each method is the driver's C function of its name."""

    def __init__(self, execute: bool, memory_bytes: int, checks: bool, version: int) -> None:
        self.execute = execute
        self.version = version
        self.checks = checks
        self.memory_bytes = memory_bytes
        self.log: list[Event] = []
        self.failures: dict[str, list[int]] = {}
        self.raised: BaseException | None = None
        self.identity = bytes(16)  # of the device
        self.used = 0
        self._blocks: dict[int, np.ndarray] = {}
        self._starts: list[int] = []  # of the blocks, sorted
        self._lent: dict[int, int] = {}  # block -> bytes that were asked for
        self._cells: dict[int, np.ndarray] = {}  # handle -> counter
        self._kernels: dict[int, _Kernel] = {}
        self._kept: list[Any] = []
        self._entries: dict[str, Any] = {}
        self._handles = iter(range(1 << 12, 1 << 40, 16))
        self._texts = {code: [t.encode() for t in texts] for code, texts in ERRORS.items()}
        self._streams: dict[int, np.ndarray] = {}
        self._launcher = 0
        self.graphs = StubGraphs(
            self._streams,
            lambda: next(self._handles),
            self._cell,
            self._launch_at,
            self._happen,
            self.log,
        )

    def address(self, name: str) -> int:
        """Where a function is; 0 if there is none."""
        if not self.execute and name in _NATIVE:
            self._launcher = self._entry("cuLaunchKernel")
            for words in self._streams.values():
                words[1] = self._launcher
            return runtime.build([_NATIVE[name]])[0]
        return self._entry(name) if name in api.FUNCTIONS else 0

    def _entry(self, name: str) -> int:
        found = self._entries.get(name)
        if found is None:
            found = self._entries[name] = api.prototype(name)(self._guarded(name))
        return ctypes.cast(found, ctypes.c_void_p).value or 0

    def _guarded(self, name: str) -> Any:
        """A method as a C function: no exception leaves it, and failures are made on demand."""
        method = getattr(self.graphs if hasattr(self.graphs, name) else self, name)

        def entry(*arguments: Any) -> int:
            planned = self.failures.get(name)
            if planned is not None:
                if planned[0] == 0:
                    del self.failures[name]
                    return planned[1]
                planned[0] -= 1
            try:
                return method(*[0 if a is None else a for a in arguments]) or api.SUCCESS
            except Exception as error:  # there is no caller in Python to raise it to
                self.raised = error
                return LAUNCH_FAILED

        return entry

    def kernel(self, body: str, arity: int, threads: int) -> int:
        """The handle of a kernel."""
        handle = self._cell()
        self._kernels[handle] = _Kernel(body, arity, threads)
        return handle

    def counted(self) -> int:
        """How many launches were counted natively."""
        return sum([int(self._cells[handle][0]) for handle in self._kernels])

    def _cell(self) -> int:
        cell = np.zeros(1, np.int64)
        self._cells[cell.ctypes.data] = cell
        return cell.ctypes.data

    # The device.

    def cuInit(self, flags: int) -> None: ...

    def cuDriverGetVersion(self, out: int) -> None:
        _write(out, ctypes.c_int, self.version)

    def cuGetErrorName(self, result: int, out: int) -> int:
        return self._error_text(result, out, 0)

    def cuGetErrorString(self, result: int, out: int) -> int:
        return self._error_text(result, out, 1)

    def _error_text(self, result: int, out: int, which: int) -> int:
        if result not in self._texts:
            return INVALID
        text = ctypes.c_char_p(self._texts[result][which])
        self._kept.append(text)
        _write(out, ctypes.c_void_p, ctypes.cast(text, ctypes.c_void_p).value)
        return api.SUCCESS

    def cuDeviceGetCount(self, out: int) -> None:
        _write(out, ctypes.c_int, 1)

    def cuDeviceGet(self, out: int, ordinal: int) -> None:
        _write(out, ctypes.c_int, ordinal)

    def cuDeviceGetName(self, out: int, length: int, device: int) -> None:
        ctypes.memmove(out, b"stub GPU\0", 9)

    def cuDeviceGetUuid_v2(self, out: int, device: int) -> None:
        ctypes.memmove(out, self.identity, 16)

    def cuDeviceTotalMem_v2(self, out: int, device: int) -> None:
        _write(out, ctypes.c_size_t, self.memory_bytes)

    def cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        _write(out, ctypes.c_int, ATTRIBUTES.get(attribute, 1))

    def cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        _write(out, ctypes.c_void_p, self.graphs.context)

    def cuCtxSetCurrent(self, context: int) -> None: ...

    def cuStreamCreate(self, out: int, flags: int) -> None:
        words = np.array([0, self._launcher])
        self._streams[words.ctypes.data] = words
        _write(out, ctypes.c_void_p, words.ctypes.data)

    def cuStreamDestroy_v2(self, stream: int) -> None:
        del self._streams[stream]

    def cuStreamSynchronize(self, stream: int) -> int:
        return INVALID if self._streams[stream][0] else api.SUCCESS

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None: ...

    def cuEventCreate(self, out: int, flags: int) -> None:
        self._new(out)

    def cuEventRecord(self, event: int, stream: int) -> None: ...

    def cuEventSynchronize(self, event: int) -> None: ...

    def cuEventElapsedTime(self, out: int, start: int, end: int) -> None:
        _write(out, ctypes.c_float, 1.0)

    def cuEventDestroy_v2(self, event: int) -> None: ...

    def _new(self, out: int) -> None:
        """Write a handle of something that is not looked at."""
        _write(out, ctypes.c_void_p, next(self._handles))

    # Memory.

    def cuMemPoolCreate(self, out: int, properties: int) -> None:
        self._new(out)

    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None: ...

    def cuMemPoolTrimTo(self, pool: int, nbytes: int) -> None: ...

    def cuMemAllocFromPoolAsync(self, out: int, nbytes: int, pool: int, stream: int) -> int:
        if self.used + nbytes > self.memory_bytes:
            return api.OUT_OF_MEMORY
        raw = np.empty(nbytes + 3 * GUARD, np.uint8)
        start = -(-(raw.ctypes.data + GUARD) // GUARD) * GUARD
        if self.execute:
            raw[...] = POISON
        self.used += nbytes
        self._blocks[start] = raw
        bisect.insort(self._starts, start)
        _write(out, ctypes.c_uint64, start)
        return api.SUCCESS

    def cuMemFreeAsync(self, pointer: int, stream: int) -> int:
        if pointer not in self._blocks:
            return INVALID
        if self.execute:
            self._require_clean(pointer)
        self.used -= self._blocks.pop(pointer).size - 3 * GUARD
        self._starts.remove(pointer)
        return api.SUCCESS

    def cuMemGetInfo_v2(self, free: int, total: int) -> None:
        _write(free, ctypes.c_size_t, self.memory_bytes - self.used)
        _write(total, ctypes.c_size_t, self.memory_bytes)

    def cuMemHostAlloc(self, out: int, nbytes: int, flags: int) -> None:
        self._kept.append(np.empty(nbytes, np.uint8))
        _write(out, ctypes.c_void_p, self._kept[-1].ctypes.data)

    def cuMemFreeHost(self, pointer: int) -> None: ...

    def lend(self, pointer: int, nbytes: int) -> None:
        """A block is somebody's from now on, who asked for `nbytes`."""
        self._whole(pointer)[...] = POISON
        self._lent[pointer] = nbytes

    def take_back(self, pointer: int) -> None:
        """Nobody may read or write a block from now on."""
        self._require_clean(pointer)
        self._lent.pop(pointer)
        self._whole(pointer)[...] = POISON

    def overruns(self) -> list[int]:
        """The blocks outside of whose bytes something was written."""
        return [p for p in self._blocks if self.checks and not self._is_clean(p)]

    def bytes_at(self, pointer: int, nbytes: int) -> np.ndarray:
        """The bytes at an address."""
        return np.ctypeslib.as_array((ctypes.c_ubyte * nbytes).from_address(pointer))

    def _whole(self, pointer: int) -> np.ndarray:
        """All bytes of a block and around it."""
        return self._blocks[pointer]

    def _is_clean(self, pointer: int) -> bool:
        raw = self._blocks[pointer]
        first = pointer - raw.ctypes.data
        after = raw[first + self._lent.get(pointer, 0) :]
        return bool((raw[:first] == POISON).all() and (after == POISON).all())

    def _require_clean(self, pointer: int) -> None:
        if not self._is_clean(pointer):
            raise CheckError(f"memory outside of the block at {pointer:#x} was written.")

    def _room(self, pointer: int) -> int:
        """The bytes behind an address that belong to the same array."""
        k = bisect.bisect_right(self._starts, pointer) - 1
        start = self._starts[k] if k >= 0 else 0
        return max(start + self._lent.get(start, 0) - pointer, 0)

    def _require_inside(self, pointer: int, nbytes: int) -> None:
        """Raise unless all of these bytes belong to one array, or there are none."""
        if self.execute and self.checks and nbytes > self._room(pointer):
            raise CheckError(f"{nbytes} bytes at {pointer:#x} are not in memory of the device.")

    # Copies and fills.

    def cuMemcpyHtoDAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._move(Move("to device", to, source, nbytes), stream)

    def cuMemcpyDtoHAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._move(Move("from device", to, source, nbytes), stream)

    def cuMemcpyDtoDAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._move(Move("on device", to, source, nbytes), stream)

    def cuMemsetD8Async(self, pointer: int, value: int, count: int, stream: int) -> None:
        self._do(Fill(pointer, bytes([value]), count), stream)

    def cuMemsetD32Async(self, pointer: int, value: int, count: int, stream: int) -> None:
        self._do(Fill(pointer, value.to_bytes(4, "little"), count), stream)

    def _move(self, move: Move, stream: int) -> None:
        if self.graphs.captures() and move.way != "on device":
            raise CheckError("a copy to or from the host is part of a graph.")
        self._do(move, stream)

    # Kernels.

    def cuModuleLoadData(self, out: int, image: int) -> None:
        self._new(out)

    def cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        self._new(out)

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> int:
        return INVALID if value > ATTRIBUTES[api.SHARED_BYTES_OPTIN] else api.SUCCESS

    def cuLaunchKernel(
        self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int,
        shared: int, stream: int, parameters: int, extra: int,
    ) -> int:  # fmt: skip
        kernel = self._kernels.get(function)
        threads = bx * by * bz
        if kernel is None or stream not in self._streams or (gy, gz, bz) != (1, 1, 1):
            return INVALID
        if not 0 < threads <= min(kernel.threads, MOST_THREADS) or not 0 < gx < 1 << 31:
            return INVALID
        launch = Launch(function, gx, (bx, by), _pointers(parameters, kernel.arity))
        self._do(launch, stream)
        return api.SUCCESS

    def enqueue(self, work: Callable[[], None], stream: int) -> None:
        """What a function of a library does, in the order of a stream."""
        self._do(Work(work), stream)

    def _do(self, event: Event, stream: int) -> None:
        """Keep what was asked for, if the stream captures a graph; else do it."""
        if self._streams[stream][0]:
            self.graphs.capture(event)
        else:
            self._happen(event)

    def _happen(self, event: Event) -> None:
        """Do it now, and note that it was done."""
        self.log.append(event)
        self._run(event)

    def _run(self, event: Event) -> None:
        if isinstance(event, Launch):
            if self.execute:
                bounds = [(p, self._room(p)) for p in event.pointers] if self.checks else None
                self._kernels[event.function].run(event, bounds)
            else:
                self._cells[event.function][0] += 1
        elif isinstance(event, Work):
            if self.execute:
                event.do()
        elif isinstance(event, Fill):
            nbytes = event.count * len(event.word)
            self._require_inside(event.pointer, nbytes)
            self.bytes_at(event.pointer, nbytes)[...] = np.frombuffer(
                event.word * event.count, np.uint8
            )
        elif isinstance(event, Move):
            if event.way != "from device":
                self._require_inside(event.to, event.nbytes)
            if event.way != "to device":
                self._require_inside(event.source, event.nbytes)
            ctypes.memmove(event.to, event.source, event.nbytes)

    def _launch_at(self, values: int) -> Launch | None:
        """What a kernel node does, by the parameters at an address."""
        given = api.KernelNode.from_address(values)
        kernel = self._kernels.get(given.function)
        if kernel is None:
            return None
        pointers = _pointers(given.parameters, kernel.arity)
        return Launch(given.function, given.grid[0], tuple(given.block[:2]), pointers)


def _write(at: int, kind: Any, value: Any) -> None:
    kind.from_address(at).value = value


def _pointers(parameters: int, count: int) -> tuple[int, ...]:
    """The arguments of a launch, from where the driver reads them: an address of each."""
    places = (ctypes.c_uint64 * count).from_address(parameters)
    return tuple([ctypes.c_uint64.from_address(place).value for place in places])


# Launches that are counted, unless they are captured.

_COUNT = """  %count = load i64, ptr %what
  %next = add i64 %count, 1
  store i64 %next, ptr %what
  ret i32 0
"""


def _count_launch(symbol: str) -> tuple[str, set[str]]:
    numbers = ", ".join([f"i32 %n{k}" for k in range(7)])
    arguments = f"ptr %what, {numbers}, ptr %stream, ptr %parameters, ptr %extra"
    text = f"""define i32 @{symbol}({arguments}) {{
  %state = load i64, ptr %stream
  %captures = icmp ne i64 %state, 0
  br i1 %captures, label %capture, label %count_it
capture:
  %place = getelementptr i64, ptr %stream, i64 1
  %function = load ptr, ptr %place
  %result = call i32 %function({arguments})
  ret i32 %result
count_it:
{_COUNT}}}
"""
    return text, set()


def _count_graph(symbol: str) -> tuple[str, set[str]]:
    return f"define i32 @{symbol}(ptr %what, ptr %stream) {{\n{_COUNT}}}\n", set()


def _set_nothing(symbol: str) -> tuple[str, set[str]]:
    return f"define i32 @{symbol}(ptr %what, ptr %node, ptr %values) {{\n  ret i32 0\n}}\n", set()


_NATIVE = {
    "cuLaunchKernel": runtime.Source("stub: count a launch", _count_launch),
    "cuGraphLaunch": runtime.Source("stub: count a graph", _count_graph),
    "cuGraphExecKernelNodeSetParams_v2": runtime.Source("stub: set nothing", _set_nothing),
}
