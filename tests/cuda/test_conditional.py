"""Loops and branches that the device decides: conditional nodes, and what is refused."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import called, check, compiled
from emulator.driver import StubDriver
from emulator.events import Graph, Launch
from emulator.graphs import INVALID, NOT_SUPPORTED, StubGraphs
from real_device import real_device_or, stub_device

import fgrad
from fgrad import lax
from fgrad.compile.host.program import Advance, Branch, Call, PointAt, Repeat, Swap, While
from fgrad.errors import CheckError, DeviceError
from fgrad.lower_cuda import backend, condition
from fgrad.lower_cuda.device import driver_api as api
from fgrad.lower_cuda.device import toolchain
from fgrad.lower_cuda.device.array import on_device
from fgrad.lower_cuda.device.driver import use
from fgrad.lower_cuda.executable import CudaExecutable
from fgrad.lower_cuda.graph import MOST_GRAPHS
from fgrad.lower_cuda.nodes import Conditional, Node, flattened

RNG = np.random.default_rng(2)
X = RNG.normal(size=(8, 24)).astype(np.float32)
OLD_DRIVER = 12040


@pytest.fixture(autouse=True)
def bodies_are_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop is one kernel, however short its turns are."""
    monkeypatch.setattr(backend, "PASS_CYCLES", -1.0)


@pytest.fixture
def device() -> Iterator[None]:
    """A stub, or with FGRAD_CUDA_DEVICE=1 the machine's driver."""
    with real_device_or(StubDriver()):
        yield


@pytest.fixture
def stub() -> Iterator[StubDriver]:
    """A stub in the place of the machine's driver; nothing was written outside of its blocks."""
    with stub_device() as made:
        yield made


@pytest.fixture
def old() -> Iterator[StubDriver]:
    """One whose driver is too old for conditional nodes."""
    with stub_device(StubDriver(version=OLD_DRIVER)) as made:
        yield made


def smaller(x: Any) -> Any:
    """A step that is several kernels."""
    return x * np.float32(0.9) - np.max(x, axis=1, keepdims=True) * np.float32(0.1)


def large(x: Any, limit: Any = 1.0) -> Any:
    return np.max(np.abs(x)) > limit


def shrink(x: Any, limit: Any = 1.0) -> Any:
    """A loop whose trips depend on the data, and their number."""
    return lax.while_loop(lambda s: large(s[0], limit), lambda s: (smaller(s[0]), s[1] + 1), (x, 0))


def nested(x: Any) -> Any:
    def outer(s: Any) -> Any:
        inner, trips = shrink(s[0], s[1])
        return smaller(inner), s[1] * 0.7, s[2] + trips

    return lax.while_loop(lambda s: s[1] > 0.4, outer, (x, np.float32(1.5), 0))


def branches_in_a_loop(x: Any) -> Any:
    def step(s: Any) -> Any:
        y = lax.switch(s[1] % 3, [smaller, lambda x: x * 0.5, lambda x: x - x.mean()], s[0])
        return lax.cond(y.max() > 1.2, smaller, lambda x: x + 0, y), s[1] + 1

    return lax.while_loop(lambda s: large(s[0], 0.5), step, (x, 0))


def in_a_scan(x: Any) -> Any:
    return lax.scan(lambda c, t: (lambda r: (smaller(r[0]), r[1]))(shrink(c, t)), x, LIMITS)


def scan_inside(x: Any) -> Any:
    def step(c: Any) -> Any:
        return lax.scan(lambda c, t: (smaller(c), c[0] * t), c, LIMITS)[0]

    return lax.while_loop(lambda c: large(c, 0.3), step, x)


def a_branch_of_loops(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda x: shrink(x, 0.5), lambda x: shrink(x, 1.5), x)


def in_place(x: Any) -> Any:
    def step(s: Any) -> Any:
        row = smaller(s[0])[0]
        return s[0].at[s[1]].set(row), s[1] + 1

    return lax.while_loop(lambda s: (s[1] < 5) & (s[0].sum() < 1e3), step, (x, 0))


def swapped(x: Any) -> Any:
    """Each carry is made of the other."""
    return lax.while_loop(
        lambda s: large(s[0]),
        lambda s: (smaller(s[1]), smaller(s[0]) + s[1][0] * 0.1),
        (x, x[::-1] * 2),
    )


LIMITS = np.array([1.4, 0.8], np.float32)
PROGRAMS = {
    f.__name__: f
    for f in (
        nested, branches_in_a_loop, in_a_scan, scan_inside, a_branch_of_loops, in_place, swapped
    )
}  # fmt: skip


def is_decided(nodes: Any) -> bool:
    return any(isinstance(node, Conditional) for node in nodes or ())


def made(executable: CudaExecutable) -> int:
    """How many graphs a program has."""
    assert executable.resident is not None and executable.resident.graphs is not None
    return len(executable.resident.graphs.found)


def graphs(stub: StubDriver) -> int:
    return sum([isinstance(event, Graph) for event in stub.log])


def watched(monkeypatch: pytest.MonkeyPatch, stub: StubDriver) -> Counter[str]:
    """How often the C functions are called from now on."""
    seen: Counter[str] = Counter()
    entry = stub.library._guarded

    def guarded(name: str) -> Any:
        function = entry(name)

        def counted(*arguments: Any) -> int:
            seen[name] += 1
            return function(*arguments)

        return counted

    monkeypatch.setattr(stub.library, "_guarded", guarded)
    return seen


# Results.


@pytest.mark.parametrize("limit", [100.0, 3.0, 0.2])
def test_a_loop_of_no_step_of_few_of_many(device: None, limit: float) -> None:
    executable = check(lambda x: shrink(x, limit), X, calls=3)
    assert is_decided(executable.nodes) and made(executable) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(device: None, name: str) -> None:
    executable = check(PROGRAMS[name], X, calls=2, rtol=1e-4)
    assert is_decided(executable.nodes) and made(executable) == 1
    assert "refused" not in executable.describe()


@pytest.mark.parametrize("name", ["nested", "branches_in_a_loop", "swapped"])
def test_programs_on_an_older_driver(old: StubDriver, name: str) -> None:
    executable = check(PROGRAMS[name], X, calls=2, rtol=1e-4)
    assert executable.nodes is None and graphs(old) == 0


@pytest.mark.parametrize("which", [-3, 0, 2, 9])
def test_a_number_outside_of_the_branches(device: None, which: int) -> None:
    def f(k: Any, x: Any) -> Any:
        return lax.switch(k, [smaller, lambda x: np.exp(x) * 2, lambda x: x[::-1] + x.sum()], x)

    assert made(check(f, np.int64(which), X, calls=1, atol=1e-4)) == 1


def test_both_branches_of_one_graph(device: None) -> None:
    f = lambda x: lax.cond(x.sum() > 0, smaller, lambda x: x, x)  # noqa: E731
    executable = compiled(f, X)
    for x in (np.abs(X), -np.abs(X), np.abs(X)):
        np.testing.assert_allclose(called(executable, x)[0], f(x), rtol=1e-5, atol=1e-6)
    assert made(executable) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_predicates_of_no_number(device: None, value: float) -> None:
    x = X.copy()
    x[1, 2] = value
    step = lambda s: (smaller(s[0]), s[1] + 1)  # noqa: E731
    f = lambda x: lax.while_loop(lambda s: large(s[0]) & (s[1] < 3), step, (x, 0))  # noqa: E731
    with np.errstate(invalid="ignore"):
        check(f, x, calls=2)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_dtypes(device: None, dtype: Any) -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda s: abs(s[0]).max() < 90, lambda s: (s[0] + s[0][::-1], s[1] + 1), (x, 0)
        )

    assert made(check(f, (X * 3 + 1).astype(dtype), calls=1, rtol=1e-2)) == 1


def test_empty_arrays(device: None) -> None:
    f = lambda x: lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * 2, s[1] + 1), (x, 0))  # noqa: E731
    check(f, np.zeros((0, 4), np.float32), calls=2)


def test_a_batch(device: None) -> None:
    f = lambda x: lax.while_loop(  # noqa: E731
        lambda s: large(s[0]), lambda s: (smaller(s[0]), s[1] + 1), (x, 0)
    )
    assert made(check(fgrad.vmap(f), np.stack([X, X * 3, X * 0.1]), calls=2)) == 1


@pytest.mark.parametrize("steps", [None, 24])
def test_gradients(device: None, steps: int | None) -> None:
    def loss(x: Any) -> Any:
        y = lax.while_loop(lambda y: large(y, 1.5), smaller, x, max_steps=steps)
        return (y * y).sum()

    executable = check(fgrad.value_and_grad(loss), X[:6], calls=2, rtol=1e-3, atol=1e-5)
    assert is_decided(executable.nodes) and made(executable) == 1


def test_gradients_of_branches(device: None) -> None:
    def loss(x: Any) -> Any:
        y = lax.cond(x.sum() > 0, smaller, lambda x: np.sin(x) * x.max(), x)
        return (y * y).sum()

    for x in (np.abs(X), -np.abs(X)):
        check(fgrad.value_and_grad(loss), x, calls=2, rtol=1e-4, atol=1e-5)


def test_products_of_a_library(device: None) -> None:
    w = RNG.normal(size=(96, 96)).astype(np.float32)

    def f(w: Any, x: Any) -> Any:
        def step(s: Any) -> Any:
            y = w @ s[0]
            y = y / np.abs(y).max()
            return y, np.abs(y - s[0]).max(), s[2] + 1

        return lax.while_loop(lambda s: (s[1] > 0.01) & (s[2] < 4), step, (x, np.float32(1), 0))

    executable = check(f, w, w[:, :80], calls=3, rtol=1e-3, atol=1e-4)
    assert "cublasLt" in executable.describe() and made(executable) == 1


def test_a_donated_carry(device: None) -> None:
    executable = compiled(lambda x: shrink(x, 0.5), X, donated=(0,))
    wanted = shrink(X, 0.5)
    for _ in range(3):
        x = on_device(X.copy())
        found, trips = executable([x])
        np.testing.assert_allclose(found.numpy(), wanted[0], rtol=1e-5, atol=1e-6)
        assert trips.numpy() == wanted[1]
    assert made(executable) == 1


# Calls of one program.


def test_host_calls_of_a_hundred_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    step = lambda s: (smaller(s[0]) + 1, s[1] + 1)  # noqa: E731
    f = lambda x, k: lax.while_loop(lambda s: s[1] < 100, step, (x, k))  # noqa: E731
    counts: dict[int, Counter[str]] = {}
    for version in (13000, OLD_DRIVER):
        stub = StubDriver(version=version)
        seen = watched(monkeypatch, stub)
        before = use(stub)
        x, k = X[:2], np.int64(0)
        executable, args = compiled(f, x, k), [on_device(x), on_device(k)]
        for _ in range(3 if version != OLD_DRIVER else 1):
            executable(args)  # until its results have the same addresses again
        gc.collect()
        seen.clear()
        _, trips = executable(args)
        counts[version] = seen.copy()
        use(before)
        assert trips.numpy() == 100
    assert counts[13000] == {"cuGraphLaunch": 1}
    host = counts[OLD_DRIVER]
    assert host["cuStreamSynchronize"] == host["cuMemcpyDtoHAsync_v2"] == 101
    assert host["cuLaunchKernel"] >= 300


def test_other_addresses(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[int] = []
    original = StubGraphs.cuGraphExecKernelNodeSetParams_v2

    def counted(self: StubGraphs, executable: int, node: int, values: int) -> int:
        updates.append(original(self, executable, node, values))
        return updates[-1]

    monkeypatch.setattr(StubGraphs, "cuGraphExecKernelNodeSetParams_v2", counted)
    executable = compiled(branches_in_a_loop, X)
    kept = []
    for k in range(5):
        x = X * (1 + k)
        kept.append(executable([on_device(x)]))
        for a, b in zip(kept[-1], branches_in_a_loop(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-4, atol=1e-5)
    assert updates and not any(updates)
    assert graphs(stub) == 5 and made(executable) == 1


def test_bodies_that_cannot_be_set_anew(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = compiled(lambda x: shrink(x, 2.0), X)
    monkeypatch.setattr(StubGraphs, "cuGraphExecKernelNodeSetParams_v2", lambda *_: NOT_SUPPORTED)
    wanted, kept = shrink(X, 2.0), []
    for _ in range(MOST_GRAPHS + 2):
        kept.append(executable([on_device(X)]))
        np.testing.assert_allclose(kept[-1][0].numpy(), wanted[0], rtol=1e-5, atol=1e-6)
    assert made(executable) == MOST_GRAPHS


@pytest.mark.parametrize(
    "function",
    ["cuGraphAddNode_v2", "cuGraphConditionalHandleCreate", "cuGraphInstantiateWithFlags"],
)
def test_a_graph_that_is_refused(stub: StubDriver, function: str) -> None:
    executable = compiled(lambda x: shrink(x, 0.5), X)
    stub.fail(function, NOT_SUPPORTED)
    for _ in range(3):
        np.testing.assert_allclose(called(executable, X)[0], shrink(X, 0.5)[0], rtol=1e-5)
    assert graphs(stub) == 0 and f"refused: {function}" in executable.describe()
    gc.collect()
    assert not stub.library.graphs.graphs and not stub.library.graphs.handles


def test_a_failure_in_a_body(stub: StubDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = compiled(lambda x: shrink(x, 0.2), X)
    turns: list[int] = []
    run = stub.library._run

    def broken(event: Any) -> None:
        turns.append(1)
        if len(turns) == 20:
            raise CheckError("a thread touches what is not there")
        run(event)

    x = on_device(X)
    monkeypatch.setattr(stub.library, "_run", broken)
    with pytest.raises(CheckError, match="not there"):
        executable([x])
    found = executable([x])[0].numpy()
    np.testing.assert_allclose(found, shrink(X, 0.2)[0], rtol=1e-5, atol=1e-6)
    stub.fail("cuGraphLaunch", 719)
    with pytest.raises(DeviceError, match="a graph"):
        executable([x])


def test_threads(stub: StubDriver) -> None:
    executable = compiled(lambda x: shrink(x, 1.5), X)
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(2):
            found = called(executable, X * k)[0]
            if not np.allclose(found, shrink(X * k, 1.5)[0], rtol=1e-4, atol=1e-5):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_is_kept(stub: StubDriver) -> None:
    executable = compiled(nested, X)
    called(executable, X)
    held = stub.library.graphs
    assert held.executables and held.graphs and held.handles and held.bodies
    del executable
    gc.collect()
    assert not (held.executables or held.graphs or held.handles or held.bodies or held.used)


def test_a_callback_in_a_loop_stays_with_the_host(stub: StubDriver) -> None:
    seen: list[float] = []

    def step(c: Any) -> Any:
        fgrad.io_callback(lambda v: seen.append(float(v)), None, c.max())
        return smaller(c)

    executable = check(lambda x: lax.while_loop(lambda c: large(c), step, x), X, calls=1)
    assert executable.nodes is None and seen


# Nodes of steps.


def test_nodes_of_loops_and_branches() -> None:
    test, step, fetch = Call(7, 1, 0, (2, 3)), Call(7, 2, 0, (2, 3, 0)), Call(9, 1, 0, (2, 4, 3))
    place = PointAt(3, 1, 16)
    loop = While((place, test, fetch), 4, (step,))
    first, second = Node(test, ((1, 16),)), Node(step, ((1, 16), (0, 0)))
    assert flattened((PointAt(4, 2, 8), loop), 3, {7}, 9) == (
        first,
        Conditional("while", (1, 16), ((second, first),)),
    )
    branch = Branch(4, ((step,), (), (PointAt(5, 0, 8), Call(7, 1, 0, (2, 5)))))
    assert flattened((PointAt(4, 2, 8), place, fetch, branch), 3, {7}, 9) == (
        Conditional("switch", (1, 16), ((second,), (), (Node(Call(7, 1, 0, (2, 5)), ((0, 8),)),))),
    )


@pytest.mark.parametrize("end", [Swap(0, 1), Advance(0, 8), Call(8, 0, 0, (2, 0))])
def test_bodies_that_are_no_graph(end: Any) -> None:
    fetch = Call(9, 1, 0, (2, 1, 0))
    loop = While((fetch,), 1, (Call(7, 1, 0, (2, 0)), end))
    assert flattened((loop,), 3, {7}, 9) is None
    assert flattened((Repeat(2, (loop,)),), 3, {7}, 9) is None
    assert flattened((fetch, Branch(1, ((end,), ()))), 3, {7}, 9) is None


def test_without_conditional_nodes_there_is_no_graph() -> None:
    fetch = Call(9, 1, 0, (2, 1, 0))
    loop = While((fetch,), 1, (Call(7, 1, 0, (2, 0)),))
    assert flattened((loop,), 3, {7}) is None and flattened((loop,), 3, {7, 9}) is None
    assert flattened((loop,), 3, {7}, 9) is not None


# The kernels that set a handle.


@pytest.mark.parametrize("kind", ["WHILE", "SWITCH"])
def test_cubins_leave_one_function_to_the_driver(kind: str) -> None:
    text, arity = getattr(condition, kind), {"WHILE": 2, "SWITCH": 3}[kind]
    image = toolchain.compile_body(text, arity, 1).image
    assert b"cudaGraphSetConditional" in image and len(image) < 8192


# What the stub refuses, as the driver does.


class Builder:
    """Calls of the C functions, and what they answer."""

    def __init__(self, stub: StubDriver) -> None:
        self.stub = stub
        self.graph = self.made("cuGraphCreate", 0)[1]

    def made(self, function: str, *arguments: Any, out: int = 0) -> tuple[int, int]:
        place = ctypes.c_void_p()
        given = list(arguments)
        given.insert(out, ctypes.addressof(place))
        return self.stub.call(function, *given), place.value or 0

    def handle(self, graph: int = 0, context: int = 0, flags: int = 0) -> tuple[int, int]:
        where = graph or self.graph, context or self.stub.context
        return self.made("cuGraphConditionalHandleCreate", *where, 1, flags)

    def node(self, handle: int, **changed: Any) -> tuple[int, list[int]]:
        fields = {"kind": api.WHILE_NODE, "size": 1, "type": api.CONDITIONAL_NODE} | changed
        graph = fields.pop("graph", self.graph)
        params = api.ConditionalNode(handle=handle, context=self.stub.context, **fields)
        answer, _ = self.made("cuGraphAddNode_v2", graph, 0, 0, 0, ctypes.addressof(params))
        if answer:
            return answer, []
        return answer, list((ctypes.c_uint64 * params.size).from_address(params.bodies or 0))

    def instantiate(self, graph: int = 0) -> int:
        return self.made("cuGraphInstantiateWithFlags", graph or self.graph, 0)[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"type": 0},
        {"size": 2},
        {"kind": 3},
        {"kind": api.IF_NODE, "size": 3},
        {"kind": api.SWITCH_NODE, "size": 0},
        {"reserved": (ctypes.c_int * 3)(0, 1, 0)},
    ],
    ids=lambda changed: " ".join(changed),
)
def test_nodes_that_are_refused(stub: StubDriver, changed: dict[str, Any]) -> None:
    build = Builder(stub)
    handle = build.handle()[1]
    assert build.node(handle, **changed)[0] in (INVALID, NOT_SUPPORTED)
    assert build.instantiate() == INVALID  # the handle has no node
    answer, (body,) = build.node(handle)
    assert answer == 0 and build.stub.call("cuGraphDestroy", body) == INVALID
    assert build.node(handle)[0] == INVALID  # it has one
    assert build.instantiate(body) == INVALID
    assert build.instantiate() == 0 and build.instantiate() == INVALID  # one at a time


def test_handles_that_are_refused(stub: StubDriver) -> None:
    build = Builder(stub)
    other = build.made("cuGraphCreate", 0)[1]
    assert build.handle(context=5)[0] == build.handle(graph=5)[0] == INVALID
    assert build.handle(flags=2)[0] == INVALID
    assert build.node(build.handle(other)[1])[0] == INVALID
    assert build.node(12345)[0] == INVALID


def test_graphs_with_conditional_nodes_are_no_children(stub: StubDriver) -> None:
    build = Builder(stub)
    build.node(build.handle()[1])
    other = build.made("cuGraphCreate", 0)[1]
    assert build.made("cuGraphAddChildGraphNode", other, 0, 0, build.graph)[0] == INVALID


def test_a_handle_that_nobody_set(stub: StubDriver) -> None:
    build = Builder(stub)
    build.node(build.handle()[1])
    executable = build.made("cuGraphInstantiateWithFlags", build.graph, 0)[1]
    with pytest.raises(CheckError, match="no kernel has set"):
        stub.check(stub.call("cuGraphLaunch", executable, stub.stream), "a graph")


def test_a_capture_is_of_one_stream_and_thread(stub: StubDriver) -> None:
    build, x = Builder(stub), on_device(X)
    side, other = build.made("cuStreamCreate", 1)[1], build.made("cuStreamCreate", 1)[1]
    fill = lambda stream: stub.call("cuMemsetD8Async", x.pointer, 0, 4, stream)  # noqa: E731
    assert stub.call("cuStreamBeginCapture_v2", side, 1) == 0
    assert stub.call("cuStreamBeginCapture_v2", side, 1) == INVALID
    answers: list[int] = []

    def elsewhere() -> None:
        answers.append(stub.call("cuStreamBeginCapture_v2", side, 1))
        answers.append(fill(stub.stream))
        answers.append(stub.call("cuStreamBeginCapture_v2", other, 1))
        answers.append(build.made("cuStreamEndCapture", other, out=1)[0])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert answers == [INVALID, 0, 0, 0] and fill(side) == 0
    _, graph = build.made("cuStreamEndCapture", side, out=1)
    assert len(stub.library.graphs.graphs[graph]) == 1 and x.numpy()[0, 0] == 0


def test_launches_of_bodies_are_counted(stub: StubDriver) -> None:
    executable = compiled(lambda x: shrink(x, 0.5), X)
    nodes = executable.nodes or ()
    (inside,) = [node.bodies[0] for node in nodes if isinstance(node, Conditional)]
    assert f"graph of {len(nodes) + len(inside) + 2} nodes" in executable.describe()
    (_, trips) = called(executable, X)
    launches = [event for event in stub.log if isinstance(event, Launch)]
    assert (len(launches) - 2) % trips == 0 and len(launches) > 3 * trips
