"""Programs on the device: one native call, graphs, memory, what fails."""

from __future__ import annotations

import ctypes
import gc
import re
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import called, check, compiled
from emulator.driver import StubDriver
from emulator.events import Graph, Launch
from emulator.graphs import StubGraphs
from real_device import stub_device

import fgrad
import fgrad.numpy as fnp
from fgrad.compile.backend import BACKENDS
from fgrad.compile.host.program import Advance, Call, PointAt, Repeat, Swap, While
from fgrad.errors import DeviceError, DeviceMemoryError
from fgrad.lower_cuda import graph as graph_module
from fgrad.lower_cuda import link
from fgrad.lower_cuda.device.array import on_device
from fgrad.lower_cuda.device.driver import use
from fgrad.lower_cuda.emit.calls import (
    Address,
    Calls,
    Check,
    CopyCall,
    FillCall,
    FunctionCall,
    Number,
    Stream,
)
from fgrad.lower_cuda.nodes import Node, flattened

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 40)).astype(np.float32)


@pytest.fixture
def stub() -> Iterator[StubDriver]:
    """A stub in the place of the machine's driver; nothing was written outside of its blocks."""
    with stub_device() as made:
        yield made


def chain(count: int) -> Any:
    """A function of two arrays that is `count` kernels and more."""

    def run(x: Any, y: Any) -> Any:
        for k in range(count - 1):
            x = x - np.max(x, axis=k % 2, keepdims=True) * y
        return x * y

    return run


def graphs(stub: StubDriver) -> list[int]:
    """The nodes of each graph that was launched."""
    return [event.nodes for event in stub.log if isinstance(event, Graph)]


# Results.


@pytest.mark.parametrize(
    "x",
    [
        X,
        X[0],
        np.float32(0.5),
        np.zeros((0, 4), np.float32),
        np.array([[np.nan, np.inf], [-np.inf, -0.0]], np.float32),
        RNG.normal(size=(5, 7)),
        np.arange(12).reshape(3, 4),
        np.arange(7, dtype=np.int8),
        np.array([True, False, True]),
    ],
    ids=lambda x: f"{x.dtype}{list(x.shape)}",
)
def test_results(stub: StubDriver, x: np.ndarray) -> None:
    check(lambda a: (a * 2 + 1, a.sum(), np.maximum(a, 1)), x)


def test_arguments_constants_and_literals_are_results(stub: StubDriver) -> None:
    table = RNG.normal(size=(3, 4))

    def f(x: Any) -> Any:
        y = x + 1
        return x, y, y, x, table, 2.5, np.int32(7), np.zeros((0,)), y.reshape(-1)

    executable = check(f, X)
    assert len(executable.consts) == 4  # two arrays and two numbers


def test_constants_are_uploaded_once(stub: StubDriver) -> None:
    table = RNG.normal(size=X.shape).astype(np.float32)
    executable = compiled(lambda x: x * table, X)
    before = len(stub.log)
    for _ in range(3):
        called(executable, X)
    moves = [e for e in stub.log[before:] if getattr(e, "way", "") == "to device"]
    assert len(moves) == 1 + 3  # and an argument for each call


def test_equal_kernels_are_compiled_once(stub: StubDriver) -> None:
    executable = compiled(chain(9), X, X)
    called(executable, X, X)
    launched = [e for e in stub.log if isinstance(e, Launch)]
    assert len(launched) == 8 and len({e.function for e in launched}) == 3


def test_results_of_other_dtypes_of_the_same_size(stub: StubDriver) -> None:
    z = (X + 1j * X[::-1]).astype(np.complex64)
    check(lambda z: (z * z, np.abs(z), np.conj(z)), z)


def test_a_call_waits_for_nothing(stub: StubDriver) -> None:
    executable = compiled(chain(3), X, X)
    a, b = on_device(X), on_device(X)
    waits: list[str] = []
    stub.fail("cuStreamSynchronize", 1)
    executable([a, b])  # does not meet the failure
    assert not waits
    with pytest.raises(DeviceError):
        stub.synchronize()


def test_memory_returns(stub: StubDriver) -> None:
    table = RNG.normal(size=X.shape).astype(np.float32)
    executable = compiled(lambda x, y: chain(6)(x, y) + table, X, X)
    x = on_device(X)
    held: list[int] = []
    for _ in range(5):
        executable([x, x])
        gc.collect()
        held.append(stub.memory.statistics.in_use)
    assert len(set(held)) == 1
    del executable, x
    gc.collect()
    assert stub.memory.statistics.in_use < held[0]


def test_an_executable_is_not_kept_alive(stub: StubDriver) -> None:
    executable = compiled(chain(6), X, X)
    for _ in range(4):
        called(executable, X, X)
    seen = weakref.ref(executable)
    assert stub.library.graphs.executables and stub.library.graphs.graphs
    del executable
    gc.collect()
    assert seen() is None and not stub.library.graphs.executables and not stub.library.graphs.graphs


def test_donated_arguments(stub: StubDriver) -> None:
    executable = compiled(lambda x, y: (np.sin(x) + y, y * 2), X, X, donated=(0,))
    assert executable.image.reuse == ((0, 0),)
    x, y = on_device(X.copy()), on_device(X + 1)
    place = x.pointer
    first, second = executable([x, y])
    assert first.pointer == place and second.pointer != y.pointer and x.given_away
    np.testing.assert_allclose(first.numpy(), np.sin(X) + X + 1, rtol=1e-6, atol=1e-6)
    z = on_device(X.copy())
    first, _ = executable([z, z])  # somebody else reads it too
    assert first.pointer != z.pointer and not z.given_away
    np.testing.assert_allclose(first.numpy(), np.sin(X) + X, rtol=1e-6, atol=1e-6)


def test_threads(stub: StubDriver) -> None:
    executable = compiled(chain(6), X, X)
    called(executable, X, X)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=X.shape).astype(np.float32)
        for _ in range(4):
            (found,) = called(executable, x, X)
            if not np.allclose(found, chain(6)(x, X), rtol=1e-5, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Graphs.


def test_flattened() -> None:
    launch, other = Call(7, 1, 0, (2, 0)), Call(7, 2, 0, (2, 3, 4))
    loop = Repeat(2, (launch, other, Advance(4, 64), Swap(0, 3)))
    nodes = flattened((PointAt(3, 1, 16), PointAt(4, 1, 32), loop), 3, {7})
    assert nodes == (
        Node(launch, ((0, 0),)),
        Node(other, ((1, 16), (1, 32))),
        Node(launch, ((1, 16),)),
        Node(other, ((0, 0), (1, 96))),
    )
    assert flattened((launch,) * 3, 3, {7}) is None
    assert flattened((launch,) * 4, 3, {8}) is None
    assert flattened((Repeat(2000, (launch,)),), 3, {7}) is None
    assert flattened((*(launch,) * 4, While((), 0, ())), 3, {7}) is None


def test_a_graph_from_the_third_call_on(stub: StubDriver) -> None:
    executable = compiled(chain(6), X, X)
    a, b = on_device(X), on_device(X)
    expected = chain(6)(X, X)
    for k in range(5):
        np.testing.assert_allclose(executable([a, b])[0].numpy(), expected, rtol=1e-5, atol=1e-5)
        assert graphs(stub) == [6] * max(k - 1, 0)
    check(chain(3), X, X)
    assert len(graphs(stub)) == 3  # too few launches for one


def test_nodes_of_changed_addresses_alone_are_set(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates: list[int] = []
    original = StubGraphs.cuGraphExecKernelNodeSetParams_v2

    def counted(self: StubGraphs, executable: int, node: int, values: int) -> int:
        updates.append(node)
        return original(self, executable, node, values)

    monkeypatch.setattr(StubGraphs, "cuGraphExecKernelNodeSetParams_v2", counted)
    executable = compiled(chain(12), X, X)
    x, y = on_device(X), on_device(X)
    for _ in range(3):
        executable([x, y])
    assert graphs(stub) and not updates
    for k in range(3):
        z = RNG.normal(size=X.shape).astype(np.float32)
        (out,) = executable([on_device(z), y])
        np.testing.assert_allclose(out.numpy(), chain(12)(z, X), rtol=1e-4, atol=1e-4)
        del out
        assert 0 < len(updates) <= 5 * (k + 1)  # of x and of the result, at both ends
    assert len(graphs(stub)) == 4


def test_a_graph_is_not_used_where_most_nodes_change(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "MOST_GRAPHS", 1)
    f = lambda x: [np.sum(x * k) for k in range(1, 7)]  # noqa: E731
    executable = compiled(f, X)
    x = on_device(X)
    kept = [executable([x]) for _ in range(3)]
    before = len(graphs(stub))
    y = RNG.normal(size=X.shape).astype(np.float32)
    kept.append(executable([on_device(y)]))
    assert len(graphs(stub)) == before
    for a, b in zip(kept[-1], f(y), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-4)


def test_copies_are_nodes(stub: StubDriver) -> None:
    def f(x: Any, y: Any) -> Any:
        z = chain(6)(x, y)
        return z, x, y, z

    executable = check(f, X, X)
    assert executable.nodes is not None and len(executable.nodes) == 9
    kept = [called(executable, X + k, X) for k in range(5)]
    for k, found in enumerate(kept):
        np.testing.assert_array_equal(found[1], X + k)
        np.testing.assert_allclose(found[3], chain(6)(X + k, X), rtol=1e-5, atol=1e-4)
    assert 9 in graphs(stub)


def test_a_graph_that_cannot_be_set_is_not_used_again(stub: StubDriver) -> None:
    executable = compiled(chain(12), X, X)
    x, y = on_device(X), on_device(X)
    kept = [executable([x, y]) for _ in range(4)]
    stub.fail("cuGraphExecKernelNodeSetParams_v2", 1)
    z = RNG.normal(size=X.shape).astype(np.float32)
    for _ in range(3):
        kept.append(executable([on_device(z), y]))
        np.testing.assert_allclose(kept[-1][0].numpy(), chain(12)(z, X), rtol=1e-4, atol=1e-4)


# What fails.


def test_a_launch_that_fails_names_the_line(stub: StubDriver) -> None:
    executable = compiled(lambda x: np.sum(np.tanh(x), axis=0) * 2, X)
    stub.fail("cuLaunchKernel", 719)
    with pytest.raises(DeviceError) as caught:
        called(executable, X)
    text = str(caught.value)
    assert "test_runtime.py" in text and "np.tanh(x)" in text and "grid" in text
    (found,) = called(executable, X)
    np.testing.assert_allclose(found, np.sum(np.tanh(X), axis=0) * 2, rtol=1e-5, atol=1e-5)


def test_later_steps_are_not_run_after_a_failure(stub: StubDriver) -> None:
    executable = compiled(chain(9), X, X)
    stub.fail("cuLaunchKernel", 719, after=2)
    with pytest.raises(DeviceError):
        called(executable, X, X)
    assert stub.launches == 2


def test_a_failing_graph(stub: StubDriver) -> None:
    executable = compiled(chain(9), X, X)
    a, b = on_device(X), on_device(X)
    for _ in range(3):
        executable([a, b])
    stub.fail("cuGraphLaunch", 719)
    with pytest.raises(DeviceError, match="a graph"):
        executable([a, b])
    assert np.isfinite(executable([a, b])[0].numpy()).all()


def test_no_memory_left() -> None:
    before = use(StubDriver(memory_bytes=10_000))
    try:
        executable = compiled(chain(9), X, X)
        with pytest.raises(DeviceMemoryError, match="has no"):
            called(executable, X, X)
    finally:
        use(before)


# The table of devices, the report.


def test_the_backend_is_found_by_its_name() -> None:
    assert "cuda" in BACKENDS and "tpu" not in BACKENDS and list(BACKENDS) == ["cpu", "cuda"]
    assert len(BACKENDS) == 2 and not BACKENDS["cuda"].threads
    with pytest.raises(KeyError):
        BACKENDS["tpu"]


def test_description(stub: StubDriver) -> None:
    text = compiled(chain(6), X, X).describe()
    first, *lines = text.splitlines()
    assert "in 6 launches, 0 other calls" in first and "graph of 6 nodes" in first
    assert len(lines) == 6 and all(re.search(r"grid \d+ of \(\d+, \d+\)", x) for x in lines)
    assert "test_runtime.py" in lines[0]


def test_gradients(stub: StubDriver) -> None:
    w = RNG.normal(size=(40, 8)).astype(np.float32) * 0.1

    def loss(w: Any, x: Any) -> Any:
        h = fnp.tanh(x[:, :, None] * w).sum(1)
        return fnp.mean((h - 1.0) ** 2)

    check(fgrad.value_and_grad(loss), w, X, rtol=1e-4)


# Functions of libraries.


class Library:
    """A C function that copies on the stream it is given, in the place of products."""

    def __init__(self, stub: StubDriver, name: str, result: int = 0) -> None:
        self.stub, self.name, self.result = stub, name, result
        self.seen: list[tuple[Any, ...]] = []
        self.stream = Library.PROTOTYPE(self.copy)

    PROTOTYPE = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int32, ctypes.c_double, ctypes.c_uint64, ctypes.c_float,
        ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64,
    )  # fmt: skip

    def copy(self, *arguments: Any) -> int:
        number, alpha, source, beta, nbytes, stream, target = arguments
        self.seen.append((number, alpha, beta, nbytes))
        self.stub.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, stream)
        return self.result

    def calls(self, step: Any, _loc: Any = None) -> Calls:
        assert step.name == "gemm"
        half = X.nbytes // 2
        arguments = (
            Number("i32", -3), Number("double", 0.1), Address(0, 0, half), Number("float", -2.5),
            Number("i64", half), Stream(), Address(3, 0, half),
        )  # fmt: skip
        address = ctypes.cast(self.stream, ctypes.c_void_p).value or 0
        call = FunctionCall(self.name, address, arguments, 2, (self,))
        return Calls((call, CopyCall(Address(2), Address(3), X.nbytes)), (X.nbytes,))


def product(x: Any, y: Any) -> Any:
    return chain(4)(x @ y, x)


@pytest.mark.parametrize("name", ["cublasLtMatmul", "cusolverDnSgetrf"])
def test_functions_of_libraries(
    stub: StubDriver, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    library = Library(stub, name)
    monkeypatch.setattr(link, "calls_of", library.calls)
    eye = np.eye(40, dtype=np.float32)
    executable = compiled(product, X, eye)
    kept = []
    for _ in range(6):
        x = RNG.normal(size=X.shape).astype(np.float32)
        kept.append(executable([on_device(x), on_device(eye)]))
        np.testing.assert_allclose(kept[-1][0].numpy(), chain(4)(x, x), rtol=1e-4, atol=1e-4)
    assert set(library.seen) == {(-3, 0.1, -2.5, X.nbytes // 2)}
    assert bool(graphs(stub)) == name.startswith("cublas")
    assert name in executable.describe()


def test_a_failing_function_of_a_library(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(stub, "cusolverDnSgetrf", result=7)
    monkeypatch.setattr(link, "calls_of", library.calls)
    executable = compiled(product, X, np.eye(40, dtype=np.float32))
    with pytest.raises(DeviceError, match="cusolverDnSgetrf") as caught:
        called(executable, X, np.eye(40, dtype=np.float32))
    assert "x @ y" in str(caught.value) and len(library.seen) == 2


def test_checks(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    eye = np.eye(40, dtype=np.float32)

    def calls(step: Any, _loc: Any = None) -> Calls:
        copy = CopyCall(Address(2), Address(0), X.nbytes)
        return Calls((copy, FillCall(Address(3), 0, 64), Check("singular", Address(1), 40 * 40)))

    monkeypatch.setattr(link, "calls_of", lambda *a: calls(*a)._replace(scratch=(64,)))
    executable = compiled(lambda x, y: (x @ y) * 2, X, eye)
    (found,) = called(executable, X, eye * 0)  # no flag is set
    np.testing.assert_array_equal(found, X * 2)
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            called(executable, X, eye)
