"""L6. The nodes of a program as CUDA graphs: one call of the driver for all of its launches.

On a call whose addresses are not those of the last one, the nodes with changed addresses are set
anew; a launch is set as it is, anything else is captured once more as a graph of its own.  There
may be several graphs of a program, for callers that use buffers in turn.  All of a call is native.

The rule: a program of `LEAST_NODES` to `MOST_NODES` calls has a graph from its third run on.  The
graph with the fewest changed nodes is used, unless those are more than half of all (one that is
captured counts as `CAPTURED`), or another thread is about to launch it: then the calls are made one
by one.

A program with loops or branches that look at the device has a graph from its first run on, which is
used whatever has changed, since the host would wait for each number.  Its conditional nodes read a
handle, which a kernel sets (`condition.py`):

    test, set handle, while handle: { body, test, set handle }

A graph that the driver refuses is not asked for again: the calls are made one by one.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compile.host.program import Call
from fgrad.errors import DeviceError
from fgrad.lower_cuda import condition
from fgrad.lower_cuda.device.driver import Driver
from fgrad.lower_cuda.device.driver_api import (
    CAPTURE_THREAD_LOCAL,
    CONDITIONAL_NODE,
    FUNCTIONS,
    STREAM_NON_BLOCKING,
    SWITCH_NODE,
    WHILE_NODE,
    ConditionalNode,
    KernelNode,
)
from fgrad.lower_cuda.graph_native import (
    COUNT,
    EXECUTABLE,
    LAST,
    LIMIT,
    MEMBERS,
    NODES,
    SIDE,
    STARTS,
    WEIGHTS,
    attempt_address,
)
from fgrad.lower_cuda.host import ERROR, MISSED, WORD, LaunchRecord, launch_record, state
from fgrad.lower_cuda.nodes import Conditional, GraphNode, Node, is_conditional

MOST_GRAPHS = 4  # of one program
CAPTURED = 3  # nodes that a captured one counts for

_StepFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Graphs:
    """The graphs of one program.

    Arguments:
        driver: of the device.
        nodes: what `flattened` gave.
        launch: the address of the function that launches kernels.
    """

    def __init__(self, driver: Driver, nodes: Sequence[GraphNode], launch: int) -> None:
        self.driver, self.nodes, self.launch = driver, nodes, launch
        self.conditional = any(map(is_conditional, nodes))
        self.found: list[_Graph] = []
        self.refused = ""  # why there are no more
        # count, the answer where no graph is near, the graphs
        self.table = np.array([0, MISSED, *[0] * MOST_GRAPHS], np.int64)
        self.attempt = attempt_address()

    def add(self, pointers: Sequence[int]) -> None:
        """A graph for the addresses of a call, if there is room for one."""
        count = len(self.found)
        if count == MOST_GRAPHS or self.refused:
            return
        try:
            graph = _Graph(self.driver, self.nodes, self.launch, pointers)
        except DeviceError as error:
            self.refused, self.table[1] = error.headline, 1
            return
        if self.conditional:
            graph.use_always()
        self.found.append(graph)
        self.table[2 + count] = graph.record.ctypes.data
        self.table[0] = count + 1
        self.table[1] = MISSED if count + 1 < MOST_GRAPHS else 1


class _Graph:
    """An executable graph with the addresses that it was last launched with."""

    def __init__(
        self, driver: Driver, nodes: Sequence[GraphNode], launch: int, pointers: Sequence[int]
    ) -> None:
        self.driver, self.launch, self.pointers = driver, launch, pointers
        self.kept: list[Any] = []
        self.calls: list[Node] = []
        self.records: list[int] = []
        self.side = 0  # a stream that only captures, where there is something to capture
        graph = _handle(driver, "cuGraphCreate", 0)
        # The graph stays too: its nodes are named when those of the executable are set.
        weakref.finalize(self, _destroy, driver, "cuGraphDestroy", graph).atexit = False
        self.chain(graph, nodes)
        executable = _handle(driver, "cuGraphInstantiateWithFlags", graph, 0)
        weakref.finalize(self, _destroy, driver, "cuGraphExecDestroy", executable).atexit = False
        self.record = self.described(executable)

    def described(self, executable: int) -> np.ndarray:
        """The record of the graph: for each slot the nodes that use it, and their weight."""
        users: list[list[int]] = [[] for _ in self.pointers]
        weights, whole = [0] * len(users), 0
        for k, node in enumerate(self.calls):
            weight = 1 if node.call.address == self.launch else CAPTURED
            whole += weight
            for slot in {slot for slot, _ in node.places}:
                users[slot].append(k)
                weights[slot] += weight
        words = {
            EXECUTABLE: executable,
            COUNT: len(users),
            LAST: self.words(self.pointers),
            WEIGHTS: self.words(weights),
            LIMIT: whole // 2,
            STARTS: self.words(np.cumsum([0, *map(len, users)])),
            MEMBERS: self.words([k for user in users for k in user]),
            NODES: self.words(self.records),
            SIDE: self.side,
        }
        self.words([words.get(k, 0) for k in range(SIDE + 1)])
        return self.kept[-1]

    def use_always(self) -> None:
        """Be near enough whatever has changed."""
        self.record[LIMIT] = 2**62 - 1

    def chain(self, graph: int, nodes: Sequence[GraphNode], before: int = 0) -> int:
        """Add nodes behind each other; the last of them."""
        for node in nodes:
            if isinstance(node, Conditional):
                before = self.conditional(graph, node, before)
            else:
                before = self.node(graph, node, before)
        return before

    def conditional(self, graph: int, node: Conditional, before: int) -> int:
        """A node that decides, behind the kernel that tells it how."""
        handle = _handle(
            self.driver, "cuGraphConditionalHandleCreate", graph, self.driver.context, 0, 0
        )
        before = self.condition(graph, node, handle, before)
        params = ConditionalNode(
            type=CONDITIONAL_NODE,
            handle=handle,
            kind=WHILE_NODE if node.kind == "while" else SWITCH_NODE,
            size=len(node.bodies),
            context=self.driver.context,
        )
        added = self.added("cuGraphAddNode_v2", graph, before, ctypes.addressof(params), edges=True)
        graphs = (ctypes.c_void_p * params.size).from_address(params.bodies)
        for inner, body in zip(graphs, node.bodies, strict=True):
            last = self.chain(inner, body)
            if node.kind == "while":
                self.condition(inner, node, handle, last)
        return added

    def condition(self, graph: int, node: Conditional, handle: int, before: int) -> int:
        """The kernel that sets the handle of a conditional node."""
        numbers = [ctypes.c_int64(handle).value]
        text = condition.WHILE
        if node.kind == "switch":
            text = condition.SWITCH
            numbers.append(len(node.bodies) - 1)
        arity = 1 + len(numbers)
        function = self.driver.build(text, arity, 1)
        launch = LaunchRecord(function.handle, 1, 1, 1, 0, arity, function.parameters, 0)
        self.kept.append(launch_record(launch))
        call = Call(self.launch, self.kept[-1].ctypes.data, 0, ())
        return self.node(graph, Node(call, (node.place,)), before, numbers)

    def words(self, words: object) -> int:
        """The address of words, which stays."""
        self.kept.append(np.array(words, np.int64))
        return self.kept[-1].ctypes.data

    def node(self, graph: int, node: Node, before: int, numbers: Sequence[int] = ()) -> int:
        """A call behind another node; a launch may take numbers after its addresses."""
        places = [self.pointers[slot] + at for slot, at in node.places]
        values = self.words([0, *places, *numbers])
        call = node.call
        if call.address == self.launch:
            at = self.parameters(call.lo, values)
            handle = self.added("cuGraphAddKernelNode_v2", graph, before, at)
            called = 0, at, 0
        else:
            child = self.captured(call, values)
            handle = self.added("cuGraphAddChildGraphNode", graph, before, child)
            self.driver.check(self.driver.call("cuGraphDestroy", child), "cuGraphDestroy")
            called = call[:3]
        places = self.words(node.places)
        words = [called[0], handle, len(node.places), places, values, *called[1:3], 0]
        self.records.append(self.words(words))
        self.calls.append(node)
        return handle

    def added(self, function: str, graph: int, before: int, what: int, edges: bool = False) -> int:
        """A new node behind another one, if there is one before; `edges` where they have data."""
        after = (ctypes.c_void_p * 1)(before)
        place = (ctypes.addressof(after), 0) if edges else (ctypes.addressof(after),)
        return _handle(self.driver, function, graph, *place, int(before != 0), what)

    def parameters(self, record: int, values: int) -> int:
        """The address of a launch as a node has it."""
        count = len(LaunchRecord._fields)
        launch = LaunchRecord(*(ctypes.c_int64 * count).from_address(record))
        used = [1 + k if k < launch.count else 0 for k in range(launch.parameters)]
        node = KernelNode(
            function=launch.function,
            grid=(launch.grid, 1, 1),
            block=(launch.x, launch.y, 1),
            shared_bytes=launch.shared_bytes,
            parameters=self.words([values + WORD * k for k in used]),
        )
        self.kept.append(node)
        return ctypes.addressof(node)

    def captured(self, call: Call, values: int) -> int:
        """The graph of what any other call does."""
        driver = self.driver
        if not self.side:
            self.side = _handle(driver, "cuStreamCreate", STREAM_NON_BLOCKING)
            weakref.finalize(self, _destroy, driver, "cuStreamDestroy_v2", self.side).atexit = False
        own = np.array(state(driver.addresses, self.side), np.int64)
        ctypes.c_int64.from_address(values).value = own.ctypes.data
        begun = driver.call("cuStreamBeginCapture_v2", self.side, CAPTURE_THREAD_LOCAL)
        driver.check(begun, "cuStreamBeginCapture")
        _StepFunction(call.address)(values, call.lo, call.hi)
        child = _handle(driver, "cuStreamEndCapture", self.side)
        driver.check(int(own[ERROR]), "a call that was made part of a graph")
        return child


def _destroy(driver: Driver, function: str, handle: int) -> None:
    driver.call(function, handle)


def _handle(driver: Driver, function: str, *arguments: int) -> int:
    """What a C function writes to an address among its arguments."""
    out = ctypes.c_void_p()
    at = FUNCTIONS[function].index("o")
    given = (*arguments[:at], ctypes.addressof(out), *arguments[at:])
    driver.check(driver.call(function, *given), function)
    return out.value or 0
