"""L6. The CUDA driver: the only file that touches the device.

    driver().build(body, arity, threads)    text of a kernel -> a function of the device
    driver().allocate(nbytes)               memory, which is reused in the order of the stream
    driver().addresses["cuLaunchKernel"]    for native host programs

All work runs on one stream, in the order in which it was asked for.  `use` puts another driver in
its place: a stub, for machines without a GPU.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.system import own_lock
from fgrad.config import config
from fgrad.errors import DeviceError, DeviceMemoryError, Row
from fgrad.lower_cuda.device import driver_api as api
from fgrad.lower_cuda.device.memory import Memory
from fgrad.lower_cuda.device.skeleton import padded
from fgrad.tracing import ranks
from fgrad.typing import PyTree

toolchain = lazy_module("fgrad.lower_cuda.device.toolchain")

LIBRARY = "libcuda.so.1"
STAGE_BYTES = 4 << 20  # of each of the two pinned buffers that large copies go through
SMALL_COPY = 32 << 10  # bytes of the pinned buffers that small copies go through
SMALL_COPIES = 64  # that may be under way before one waits


class Library(Protocol):
    """The driver's C functions."""

    def address(self, name: str) -> int:
        """Where a function is, by its exported name; 0 if there is none."""
        ...


class SharedLibrary:
    """The C functions of a shared library of this machine."""

    def __init__(self, file: str) -> None:
        self.library = ctypes.CDLL(file)

    def address(self, name: str) -> int:
        """Where a function is, by its exported name; 0 if there is none."""
        found = getattr(self.library, name, None)
        return 0 if found is None else ctypes.cast(found, ctypes.c_void_p).value or 0


class Function(NamedTuple):
    """A kernel on the device, ready to be launched."""

    handle: int  # CUfunction
    parameters: int  # of the kernel: at least as many as the body has; the others are not read
    threads: int  # that a block has at most


class Addresses(Mapping[str, int]):
    """Exported name -> address; a card if the driver is too old to have the function."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._library.address(name)
        if not found:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in api.FUNCTIONS if name in self])

    def __len__(self) -> int:
        return len(list(iter(self)))


class Driver:
    """One device with its context, its stream and its memory.

    Arguments:
        library: the C functions.
        device: its number; where there are fewer they are counted again, for ranks of one machine.

    Attributes:
        name: of the device.
        arch: what kernels are compiled for: "sm_90".
        memory_bytes: of the device.
        multiprocessors: how many blocks run at one time, at least.
        stream: CUstream: all work is on it.
        conditional: whether graphs may decide on the device what runs.
        addresses: of the C functions, for native host programs.
        memory: statistics and `empty_cache`.
        give_back: `release`, without a step between.
        plain_memory: whether native code may take blocks from the free lists and give them back.
    """

    plain_memory = True

    def __init__(self, library: Library, device: int = 0) -> None:
        self.name = "the device"
        self.number = next(_NUMBERS)
        self.addresses = Addresses(library)
        self.lock = own_lock(self)
        self.process = os.getpid()
        self._attached = threading.local()
        self._functions: dict[tuple[str, int, int], Function] = {}
        self.check(self.call("cuInit", 0), "cuInit")
        self.device = device % self._count()
        self.name = self._text("cuDeviceGetName", self.device)
        self.memory_bytes = self._number("cuDeviceTotalMem_v2", ctypes.c_size_t, self.device)
        self.arch = "sm_{}{}".format(*map(self.attribute, _CAPABILITY))
        self.multiprocessors = self.attribute(api.MULTIPROCESSORS)
        self.shared_bytes = self.attribute(api.SHARED_BYTES_OPTIN)
        self.context = self._handle("cuDevicePrimaryCtxRetain", self.device)
        self.attach()
        self.stream = self._handle("cuStreamCreate", api.STREAM_NON_BLOCKING)
        version = self._number("cuDriverGetVersion", ctypes.c_int)
        self.conditional = version >= api.CONDITIONAL_VERSION
        self._pool = self._new_pool()
        self.memory = Memory(self._reserve, self._unreserve)
        self.give_back = self.memory.release if self.plain_memory else self.release
        self._large: Iterator[_Stage] = itertools.cycle(())  # pinned buffers, in turn
        self._small: Iterator[_Stage] = itertools.cycle(())
        self._pinned = 0

    # Calls.

    def call(self, name: str, *arguments: object) -> int:
        """Call a C function; its CUresult."""
        return _function(self.addresses[name], name)(*arguments)

    def check(self, result: int, what: str, rows: Iterable[Row] = ()) -> None:
        """Raise a card unless a call succeeded."""
        if result != api.SUCCESS:
            raise self._error(result, what, rows)

    def _error(self, result: int, what: str, rows: Iterable[Row]) -> Exception:
        name, text = self._error_text("cuGetErrorName", result), ""
        text = self._error_text("cuGetErrorString", result)
        why: tuple[Row, ...] = (("value", f"{name}: {text}"), *rows)
        if result == api.OUT_OF_MEMORY:
            return DeviceMemoryError(f"{what} found no memory on the device.", why)
        if result in api.FAILED_EARLIER:
            why += (
                (
                    "why",
                    "kernels run after they were launched: this is the fault of an earlier one.",
                ),
                ("write", "CUDA_LAUNCH_BLOCKING=1 python ...     shows the line of the call"),
            )
        return DeviceError(f"{what} failed on {self.name}.", why)

    def _error_text(self, function: str, result: int) -> str:
        text = ctypes.c_char_p()
        self.call(function, result, ctypes.addressof(text))
        return (text.value or b"CUresult %d" % result).decode()

    def _number(self, function: str, kind: Any, *arguments: object) -> int:
        out = kind()
        self.check(self.call(function, ctypes.addressof(out), *arguments), function)
        return int(out.value or 0)

    def _handle(self, function: str, *arguments: PyTree) -> int:
        return self._number(function, ctypes.c_void_p, *arguments)

    def _text(self, function: str, *arguments: PyTree) -> str:
        out = ctypes.create_string_buffer(256)
        self.check(self.call(function, ctypes.addressof(out), 256, *arguments), function)
        return out.value.decode()

    def attribute(self, number: int) -> int:
        """A CUdevice_attribute of the device."""
        return self._number("cuDeviceGetAttribute", ctypes.c_int, number, self.device)

    def identity(self) -> bytes:
        """What tells the device from all others, on all machines."""
        out = ctypes.create_string_buffer(16)
        at = ctypes.addressof(out)
        self.check(self.call("cuDeviceGetUuid_v2", at, self.device), "cuDeviceGetUuid_v2")
        return out.raw

    def _count(self) -> int:
        found = self._number("cuDeviceGetCount", ctypes.c_int)
        if not found:
            raise DeviceError(
                "There is no CUDA device.",
                (
                    ("value", "the driver is there, but it shows no GPU"),
                    ("write", "nvidia-smi                     lists the GPUs of the machine"),
                    ("write", "unset CUDA_VISIBLE_DEVICES     if it hides them"),
                ),
            )
        return found

    def attach(self) -> None:
        """Make this thread use the device: before C functions are called by address."""
        process = os.getpid()
        if getattr(self._attached, "process", 0) == process:
            return
        if process != self.process:
            raise DeviceError(
                "The GPU was used before this process was forked.",
                (
                    ("why", "a CUDA context works only in the process that created it."),
                    ("write", 'multiprocessing.get_context("spawn")'),
                ),
            )
        self.check(self.call("cuCtxSetCurrent", self.context), "cuCtxSetCurrent")
        self._attached.process = process

    # Kernels.

    def build(self, body: str, arity: int, threads: int) -> Function:
        """The function of a body text (see `toolchain`): compiled, loaded, once."""
        key = body, arity, threads
        found = self._functions.get(key)
        if found is None:
            with self.lock:
                found = self._functions.get(key)
                if found is None:
                    found = self._functions[key] = self._build(body, arity, threads)
        return found

    def _build(self, body: str, arity: int, threads: int) -> Function:
        cubin = toolchain.compile_body(body, arity, threads, self.arch)
        handle = self.load(cubin.image, cubin.entry)
        return Function(handle, padded(arity), threads)

    def load(self, image: bytes, entry: str) -> int:
        """The CUfunction of a compiled kernel."""
        self.attach()
        text = ctypes.create_string_buffer(image, len(image))
        module = self._handle("cuModuleLoadData", ctypes.addressof(text))
        return self._handle("cuModuleGetFunction", module, entry.encode())

    def allow_shared(self, function: int, nbytes: int) -> None:
        """Let launches of a function ask for more than 48 KB of dynamic shared memory."""
        rows = (("value", f"{nbytes:,} bytes asked for, at most {self.shared_bytes:,}"),)
        result = self.call(
            "cuFuncSetAttribute", function, api.FUNCTION_DYNAMIC_SHARED_BYTES, nbytes
        )
        self.check(result, "cuFuncSetAttribute", rows)

    # Memory.

    def _new_pool(self) -> int:
        properties = api.PoolProperties(allocation=1, location=1, device=self.device)
        pool = self._handle("cuMemPoolCreate", ctypes.addressof(properties))
        threshold = ctypes.c_uint64(2**64 - 1)
        at = ctypes.addressof(threshold)
        result = self.call("cuMemPoolSetAttribute", pool, api.POOL_RELEASE_THRESHOLD, at)
        self.check(result, "cuMemPoolSetAttribute")
        return pool

    def _reserve(self, nbytes: int) -> int:
        out = ctypes.c_uint64()
        self.attach()
        at = ctypes.addressof(out)
        result = self.call("cuMemAllocFromPoolAsync", at, nbytes, self._pool, self.stream)
        if result == api.OUT_OF_MEMORY:
            return 0
        self.check(result, "cuMemAllocFromPoolAsync", (("value", f"{nbytes:,} bytes asked for"),))
        return out.value

    def _unreserve(self, pointer: int) -> None:
        self.attach()
        self.check(self.call("cuMemFreeAsync", pointer, self.stream), "cuMemFreeAsync")

    def allocate(self, nbytes: int) -> int:
        """Memory of at least `nbytes`, with anything in it; 0 for none."""
        pointer = self.memory.allocate(nbytes)
        if not pointer and nbytes:
            raise self.no_memory(nbytes)
        return pointer

    def no_memory(self, nbytes: int) -> DeviceMemoryError:
        """The card for `nbytes` that are not there."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total))
        memory = self.memory.statistics
        return DeviceMemoryError(
            f"{self.name} has no {_megabytes(nbytes)} left.",
            (
                ("value", f"{_megabytes(free.value)} of {_megabytes(total.value)} are free"),
                ("value", f"{_megabytes(memory.in_use)} are in arrays of fgrad"),
                ("write", "del x                                    arrays that are done with"),
                ("write", "fgrad.jit(f, donate_argnums=...)         results take their memory"),
                ("write", 'fgrad.grad(f, memory="2GB")              residuals computed again'),
            ),
        )

    def release(self, pointer: int, nbytes: int) -> None:
        """Give back what `allocate(nbytes)` gave; work on the stream may still use it."""
        self.memory.release(pointer, nbytes)

    def empty_cache(self) -> int:
        """Give memory that nobody uses back to the device, for other programs; its bytes."""
        freed = self.memory.empty_cache()
        self.synchronize()
        self.check(self.call("cuMemPoolTrimTo", self._pool, 0), "cuMemPoolTrimTo")
        return freed

    # Copies.

    def to_device(self, pointer: int, array: np.ndarray) -> None:
        """Copy a C-contiguous array to the device; it may be changed when this returns."""
        self.attach()
        at, left = array.ctypes.data, array.nbytes
        with self.lock:
            for stage in self._stages(left):
                size = min(left, STAGE_BYTES)
                stage.wait()
                ctypes.memmove(stage.pointer, at, size)
                result = self.call(
                    "cuMemcpyHtoDAsync_v2", pointer, stage.pointer, size, self.stream
                )
                self.check(result, "a copy to the device", _sizes(size))
                stage.mark()
                pointer, at, left = pointer + size, at + size, left - size

    def to_host(self, array: np.ndarray, pointer: int) -> None:
        """Fill a C-contiguous array from the device, after all work before it."""
        self.attach()
        at, left = array.ctypes.data, array.nbytes
        if left <= SMALL_COPY:
            if left:
                result = self.call("cuMemcpyDtoHAsync_v2", at, pointer, left, self.stream)
                self.check(result, "a copy from the device", _sizes(left))
            self.synchronize()
            return
        with self.lock:
            ready: list[tuple[_Stage, int, int]] = []
            for stage in self._stages(left):
                if len(ready) == 2:
                    _empty(*ready.pop(0))
                size = min(left, STAGE_BYTES)
                result = self.call(
                    "cuMemcpyDtoHAsync_v2", stage.pointer, pointer, size, self.stream
                )
                self.check(result, "a copy from the device", _sizes(size))
                stage.mark()
                ready.append((stage, at, size))
                pointer, at, left = pointer + size, at + size, left - size
            for full in ready:
                _empty(*full)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Copy on the device."""
        self.attach()
        if nbytes:
            result = self.call("cuMemcpyDtoDAsync_v2", to, source, nbytes, self.stream)
            self.check(result, "a copy on the device", _sizes(nbytes))

    def _stages(self, nbytes: int) -> Iterable[_Stage]:
        """Pinned buffers for each piece of `nbytes`: the two large ones in turn, or a small one."""
        if not self._pinned:
            size = 2 * STAGE_BYTES + SMALL_COPIES * SMALL_COPY
            first = self._pinned = self._handle("cuMemHostAlloc", size, 0)
            small = first + 2 * STAGE_BYTES
            self._large = itertools.cycle([_Stage(self, first + k * STAGE_BYTES) for k in (0, 1)])
            stages = [_Stage(self, small + k * SMALL_COPY) for k in range(SMALL_COPIES)]
            self._small = itertools.cycle(stages)
        count = -(-nbytes // STAGE_BYTES)
        return itertools.islice(self._small if nbytes <= SMALL_COPY else self._large, count)

    # Order.

    def synchronize(self) -> None:
        """Wait until all work is done; what failed in it is raised."""
        self.attach()
        with ranks.waiting(ranks.DEVICE):
            self.check(self.call("cuStreamSynchronize", self.stream), "The work on the device")

    def event(self, stream: int | None = None) -> int:
        """A mark behind all work until now: on our stream, or on another one."""
        self.attach()
        event = self._handle("cuEventCreate", api.EVENT_DISABLE_TIMING)
        where = self.stream if stream is None else stream
        self.check(self.call("cuEventRecord", event, where), "cuEventRecord")
        return event

    def wait(self, event: int, stream: int | None = None) -> None:
        """Let later work, on our stream or on another one, begin after an event; forget it."""
        where = self.stream if stream is None else stream
        self.check(self.call("cuStreamWaitEvent", where, event, 0), "cuStreamWaitEvent")
        self.check(self.call("cuEventDestroy_v2", event), "cuEventDestroy")


_NUMBERS = itertools.count(1)
_CAPABILITY = (api.CAPABILITY_MAJOR, api.CAPABILITY_MINOR)


class _Stage:
    """A pinned buffer, and the event after which it is free again."""

    def __init__(self, driver: Driver, pointer: int) -> None:
        self.driver = driver
        self.pointer = pointer
        self.event = driver._handle("cuEventCreate", api.EVENT_DISABLE_TIMING)

    def mark(self) -> None:
        """The copy that was just asked for is the last that uses it."""
        result = self.driver.call("cuEventRecord", self.event, self.driver.stream)
        self.driver.check(result, "cuEventRecord")

    def wait(self) -> None:
        """Wait until that copy is done."""
        with ranks.waiting(ranks.DEVICE):
            self.driver.check(self.driver.call("cuEventSynchronize", self.event), "a copy")


def _empty(stage: _Stage, at: int, size: int) -> None:
    """Copy what arrived in a buffer to where it belongs."""
    stage.wait()
    ctypes.memmove(at, stage.pointer, size)


def _sizes(nbytes: int) -> tuple[Row, ...]:
    return (("value", f"{nbytes:,} bytes"),)


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.1f} MB"


@lru_cache
def _function(address: int, name: str) -> Callable[..., int]:
    return api.prototype(name)(address)


# The driver of the process.


class _Chosen:
    """The driver that is in use, and the lock for the first use."""

    def __init__(self) -> None:
        self.lock = own_lock(self)
        self.driver: Driver | None = None


_CHOSEN = _Chosen()


def driver() -> Driver:
    """The driver of this machine, loaded at the first call.

    Raises:
        DeviceError: there is no driver, or no device.
    """
    found = _CHOSEN.driver
    if found is None:
        with _CHOSEN.lock:
            found = _CHOSEN.driver
            if found is None:
                found = _CHOSEN.driver = Driver(_shared_library(), ranks.LIBRARY.local)
    return found


def use(driver: Driver | None) -> Driver | None:
    """Use another driver from now on, such as a stub; None: the machine's own.  The one before."""
    before, _CHOSEN.driver = _CHOSEN.driver, driver
    config.driver = 0 if driver is None else driver.number
    return before


def _shared_library() -> SharedLibrary:
    try:
        return SharedLibrary(LIBRARY)
    except OSError as error:
        raise DeviceError(
            "There is no CUDA driver on this machine.",
            (
                ("value", f"{LIBRARY} cannot be loaded: {error}"),
                ("write", 'device_put(x, "cpu"), jit(f)          without a GPU'),
                ("write", "nvidia-smi                            says whether a driver is there"),
            ),
        ) from None
