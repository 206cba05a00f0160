"""The driver, on a device that is not there: memory, copies, launches, graphs and what fails."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from emulator.driver import StubDriver
from emulator.events import Graph, Launch
from real_device import stub_device

from fgrad.errors import CheckError, DeviceError, DeviceMemoryError
from fgrad.lower_cuda.device import driver as driver_module
from fgrad.lower_cuda.device import driver_api as api
from fgrad.lower_cuda.device.driver import Driver, Function, driver, use
from fgrad.lower_cuda.device.memory import SMALLEST, Memory, size_class

# p1[i] = p0[i] + 1 for 256 floats a block
ADD_ONE = """
define void @fgrad_body(i32 %block, i32 %x, i32 %y, i8 addrspace(1)* %p0, i8 addrspace(1)* %p1) {
entry:
  %first = mul i32 %block, 256
  %i = add i32 %first, %x
  %a = bitcast i8 addrspace(1)* %p0 to float addrspace(1)*
  %b = bitcast i8 addrspace(1)* %p1 to float addrspace(1)*
  %from = getelementptr float, float addrspace(1)* %a, i32 %i
  %to = getelementptr float, float addrspace(1)* %b, i32 %i
  %v = load float, float addrspace(1)* %from
  %w = fadd float %v, 1.0
  store float %w, float addrspace(1)* %to
  ret void
}
"""


@pytest.fixture
def stub() -> Iterator[StubDriver]:
    """A stub in the place of the machine's driver; nothing was written outside of its blocks."""
    with stub_device() as made:
        yield made


def launch(device: Driver, function: Function, grid: int, *pointers: int) -> int:
    """Launch as a host program does: through the address, with a table of addresses."""
    values = (ctypes.c_uint64 * function.parameters)(*pointers)
    places = [ctypes.addressof(values) + 8 * k for k in range(len(values))]
    table = (ctypes.c_uint64 * len(places))(*places)
    call = api.prototype("cuLaunchKernel")(device.addresses["cuLaunchKernel"])
    sizes = (grid, 1, 1, function.threads, 1, 1, 0)
    return call(function.handle, *sizes, device.stream, ctypes.addressof(table), None)


def on_device(device: Driver, x: np.ndarray) -> int:
    pointer = device.allocate(x.nbytes)
    device.to_device(pointer, x)
    return pointer


def test_what_a_device_says(stub: StubDriver) -> None:
    assert (stub.name, stub.arch, stub.multiprocessors) == ("stub GPU", "sm_90", 132)


@pytest.mark.parametrize("count", [1, 1000, 20_000, 1 << 20, 5_000_001])
def test_copies_there_and_back(stub: StubDriver, rng: np.random.Generator, count: int) -> None:
    x, y = rng.normal(size=count), np.empty(count)
    pointer = on_device(stub, x)
    other = stub.allocate(x.nbytes)
    stub.copy(other, pointer, x.nbytes)
    stub.to_host(y, other)
    assert np.array_equal(x, y)


def test_many_small_copies(stub: StubDriver, rng: np.random.Generator) -> None:
    xs = rng.normal(size=(200, 50))
    pointers = [on_device(stub, x) for x in xs]
    out = np.empty(50)
    for x, pointer in zip(xs, pointers, strict=True):
        stub.to_host(out, pointer)
        assert np.array_equal(out, x)


def test_functions_of_a_shared_library() -> None:
    library = driver_module.SharedLibrary("libc.so.6")
    assert library.address("memcpy") and not library.address("cuOfTheFuture")


def test_a_kernel_runs(stub: StubDriver, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=512).astype(np.float32), np.empty(512, np.float32)
    source, target = on_device(stub, x), stub.allocate(x.nbytes)
    function = stub.build(ADD_ONE, 2, 256)
    assert launch(stub, function, 2, source, target) == api.SUCCESS
    stub.to_host(y, target)
    assert np.array_equal(y, x + np.float32(1))
    assert stub.build(ADD_ONE, 2, 256) is function
    assert stub.log[-2] == Launch(function.handle, 2, (256, 1), (source, target))


def test_an_access_outside_of_an_array_is_an_error(stub: StubDriver) -> None:
    source, target = stub.allocate(1000), stub.allocate(2048)
    function = stub.build(ADD_ONE, 2, 256)
    result = launch(stub, function, 2, source, target)
    with pytest.raises(Exception, match="outside of the arrays"):
        stub.check(result, "a launch")


@pytest.mark.parametrize("grid, threads", [(0, 256), (1, 512), (1, 0)])
def test_a_launch_of_a_wrong_size(stub: StubDriver, grid: int, threads: int) -> None:
    function = stub.build(ADD_ONE, 2, 256)._replace(threads=threads)
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE: invalid argument"):
        stub.check(launch(stub, function, grid, 0, 0), "a launch")


def test_a_graph_of_launches(stub: StubDriver) -> None:
    x, y = np.arange(256, dtype=np.float32), np.empty(256, np.float32)
    a, b, c = on_device(stub, x), stub.allocate(1024), stub.allocate(1024)
    function = stub.build(ADD_ONE, 2, 256)
    graph, executable, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    stub.check(stub.call("cuStreamBeginCapture_v2", stub.stream, 1), "capture")
    assert launch(stub, function, 1, a, b) == launch(stub, function, 1, b, c) == api.SUCCESS
    stub.check(stub.call("cuStreamEndCapture", stub.stream, ctypes.addressof(graph)), "capture")
    out = ctypes.addressof(executable)
    stub.check(stub.call("cuGraphInstantiateWithFlags", out, graph.value, 0), "graph")
    assert stub.launches == 0
    stub.check(stub.call("cuGraphLaunch", executable.value, stub.stream), "graph")
    stub.to_host(y, c)
    assert np.array_equal(y, x + 2) and stub.launches == 2 and Graph(2) in stub.log

    stub.call("cuGraphGetNodes", graph.value, None, ctypes.addressof(count))
    nodes = (ctypes.c_uint64 * count.value)()
    stub.call("cuGraphGetNodes", graph.value, ctypes.addressof(nodes), ctypes.addressof(count))
    node = api.KernelNode()
    stub.check(
        stub.call("cuGraphKernelNodeGetParams_v2", nodes[1], ctypes.addressof(node)), "graph"
    )
    values = (ctypes.c_uint64 * 2)(a, c)
    table = (ctypes.c_uint64 * 2)(ctypes.addressof(values), ctypes.addressof(values) + 8)
    node.parameters = ctypes.addressof(table)
    update = "cuGraphExecKernelNodeSetParams_v2"
    stub.check(stub.call(update, executable.value, nodes[1], ctypes.addressof(node)), "graph")
    stub.check(stub.call("cuGraphLaunch", executable.value, stub.stream), "graph")
    stub.to_host(y, c)
    assert np.array_equal(y, x + 1)


def test_launches_are_counted_natively() -> None:
    device = StubDriver(execute=False)
    function = device.build(ADD_ONE, 2, 256)
    for _ in range(5):
        assert launch(device, function, 1, 0, 0) == api.SUCCESS
    assert device.launches == 5
    device.call("cuStreamBeginCapture_v2", device.stream, 1)
    assert launch(device, function, 1, 0, 0) == api.SUCCESS
    assert device.launches == 5, "a launch that is captured does not run"


# Memory.


@pytest.mark.parametrize("nbytes", [1, 256, 257, 4096, 4097, 5000, 1 << 20, (1 << 20) + 1, 10**9])
def test_size_classes_waste_little(nbytes: int) -> None:
    size = size_class(nbytes)
    assert nbytes <= size <= max(SMALLEST, nbytes * 1.125 + 256)
    assert size % 256 == 0 and size_class(size) == size


def test_blocks_are_used_again(stub: StubDriver) -> None:
    a = stub.allocate(5000)
    stub.release(a, 5000)
    assert stub.allocate(5001) == a
    statistics = stub.memory.statistics
    assert statistics == (5120, 0, 5120, 1, 1)
    stub.release(a, 5001)
    assert stub.empty_cache() == 5120 and stub.library.used == 0


def test_nothing_is_no_memory(stub: StubDriver) -> None:
    assert stub.allocate(0) == 0
    stub.release(0, 0)
    assert stub.memory.statistics.in_use == 0


def test_memory_that_nobody_wrote_is_nan(stub: StubDriver) -> None:
    pointer = stub.allocate(800)
    assert np.isnan(stub.view(pointer, (100,), float)).all()
    stub.to_device(pointer, np.zeros(100))
    stub.release(pointer, 800)
    assert np.isnan(stub.view(pointer, (100,), float)).all()


def test_writes_outside_of_a_block_are_found(stub: StubDriver) -> None:
    pointer = stub.allocate(100)
    stub.view(pointer, (101,), np.uint8)[100] = 0
    with pytest.raises(CheckError, match="outside"):
        stub.check_memory()
    stub.view(pointer, (101,), np.uint8)[100] = 0xFF


def test_free_blocks_of_other_sizes_make_room() -> None:
    device = StubDriver(memory_bytes=1 << 20)
    pointers = [device.allocate(1 << 18) for _ in range(4)]
    for pointer in pointers:
        device.release(pointer, 1 << 18)
    assert device.allocate(1 << 20)


def test_no_memory_left_is_a_card() -> None:
    device = StubDriver(memory_bytes=1 << 20)
    device.allocate(1 << 19)
    with pytest.raises(DeviceMemoryError) as info:
        device.allocate(3 << 20)
    text = str(info.value)
    assert "stub GPU has no 3.0 MB left" in text and "0.5 MB of 1.0 MB are free" in text
    assert "0.5 MB are in arrays" in text
    assert isinstance(info.value, MemoryError)


def test_blocks_are_nobody_elses_in_many_threads() -> None:
    fresh = itertools.count(256, 256)
    memory = Memory(lambda _: next(fresh), lambda _: None)
    taken: list[set[int]] = [set() for _ in range(8)]

    def work(mine: set[int]) -> None:
        for k in range(2000):
            pointer = memory.allocate(1000)
            assert not any([pointer in held for held in taken])
            mine.add(pointer)
            if k % 3:
                mine.discard(pointer)
                memory.release(pointer, 1000)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set.union(*taken)) == sum(map(len, taken)) == 8 * 667


# Errors.


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "LIBRARY", "libcuda_of_nobody.so.1")
    before = use(None)
    try:
        with pytest.raises(DeviceError, match="There is no CUDA driver on this machine") as info:
            driver()
    finally:
        use(before)
    assert "libcuda_of_nobody.so.1" in str(info.value) and "nvidia-smi" in str(info.value)


def test_a_machine_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(self: Any, out: int) -> None:
        ctypes.c_int.from_address(out).value = 0

    monkeypatch.setattr("emulator.native.StubLibrary.cuDeviceGetCount", nobody)
    with pytest.raises(DeviceError, match="There is no CUDA device"):
        StubDriver()


def test_a_call_that_fails(stub: StubDriver) -> None:
    pointer = stub.allocate(100)
    stub.fail("cuMemcpyHtoDAsync_v2", 700)
    with pytest.raises(DeviceError) as info:
        stub.to_device(pointer, np.zeros(10))
    text = str(info.value)
    assert "a copy to the device failed on stub GPU" in text and "80 bytes" in text
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text and "CUDA_LAUNCH_BLOCKING=1" in text


def test_an_unknown_result_is_shown_as_a_number(stub: StubDriver) -> None:
    with pytest.raises(DeviceError, match="CUresult 4242"):
        stub.check(4242, "something")


def test_a_function_that_the_driver_has_not(stub: StubDriver) -> None:
    with pytest.raises(KeyError):
        stub.addresses["cuOfTheFuture"]


def test_a_forked_process_is_told(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stub, "process", -1)
    stub._attached = threading.local()
    with pytest.raises(DeviceError, match="before this process was forked"):
        stub.allocate(100)
