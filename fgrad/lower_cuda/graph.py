"""L6. A host program as a CUDA graph: one call of the driver for all of its launches.

    Repeat(2, (launch f (1, 2), Advance(1, 64)))   ->   f (1, 2) -> f (1 + 64 bytes, 2)

Loops are unrolled, so that each node knows its addresses by the slots that the caller gives.  On a
call whose addresses are not those of the last one, the nodes with changed addresses are set anew;
a launch is set as it is, anything else is captured once more as a graph of its own.  There may be
several graphs of a program, for callers that use buffers in turn.  All of a call is native.

The rule: a program of `LEAST_NODES` to `MOST_NODES` calls has a graph from its third run on.  The
graph with the fewest changed nodes is used, unless those are more than half of all (one that is
captured counts as `CAPTURED`), or another thread is about to launch it: then the calls are made one
by one.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from fgrad.compile.cpu.host import Advance, Call, Place, Repeat, Step, Swap
from fgrad.lower_cuda.driver import Driver
from fgrad.lower_cuda.driver_api import (
    CAPTURE_THREAD_LOCAL,
    FUNCTIONS,
    STREAM_NON_BLOCKING,
    KernelNode,
)
from fgrad.lower_cuda.graph_native import (
    COUNT,
    EXECUTABLE,
    HANDLE,
    LAST,
    LIMIT,
    MEMBERS,
    NODES,
    SIDE,
    STARTS,
    WEIGHTS,
    attempt_address,
)
from fgrad.lower_cuda.host import ERROR, MISSED, WORD, LaunchRecord, state

LEAST_NODES = 4
MOST_NODES = 1024
MOST_GRAPHS = 4  # of one program
CAPTURED = 3  # nodes that a captured one counts for

_StepFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Node(NamedTuple):
    """A call, and for each of its addresses the slot that the caller gives and an offset."""

    call: Call
    places: tuple[tuple[int, int], ...]


def flattened(steps: Sequence[Step], given: int, known: Collection[int]) -> tuple[Node, ...] | None:
    """The calls of a program in order; None if the host takes part in it or it is too long.

    Arguments:
        steps: the program.
        given: how many slots the caller gives; the last one is the state.
        known: the addresses of the functions that may be part of a graph.
    """
    nodes: list[Node] = []
    slots = {k: (k, 0) for k in range(given)}
    fits = _walk(steps, slots, known, nodes)
    return tuple(nodes) if fits and len(nodes) >= LEAST_NODES else None


def _walk(
    steps: Sequence[Step],
    slots: dict[int, tuple[int, int]],
    known: Collection[int],
    nodes: list[Node],
) -> bool:
    for step in steps:
        if isinstance(step, Place):
            base, offset = slots[step.base]
            slots[step.slot] = base, offset + step.offset
        elif isinstance(step, Advance):
            base, offset = slots[step.slot]
            slots[step.slot] = base, offset + step.size
        elif isinstance(step, Swap):
            slots[step.a], slots[step.b] = slots[step.b], slots[step.a]
        elif isinstance(step, Repeat):
            if not all([_walk(step.body, slots, known, nodes) for _ in range(step.count)]):
                return False
        elif isinstance(step, Call) and step.address in known and len(nodes) < MOST_NODES:
            nodes.append(Node(step, tuple([slots[k] for k in step.slots[1:]])))
        else:
            return False
    return True


class Graphs:
    """The graphs of one program.

    Arguments:
        driver: of the device.
        nodes: what `flattened` gave.
        launch: the address of the function that launches kernels.
    """

    def __init__(self, driver: Driver, nodes: Sequence[Node], launch: int) -> None:
        self.driver, self.nodes, self.launch = driver, nodes, launch
        self.found: list[_Graph] = []
        # count, the answer where no graph is near, the graphs
        self.table = np.array([0, MISSED, *[0] * MOST_GRAPHS], np.int64)
        self.attempt = attempt_address()

    def add(self, pointers: Sequence[int]) -> None:
        """A graph for the addresses of a call, if there is room for one."""
        count = len(self.found)
        if count == MOST_GRAPHS:
            return
        graph = _Graph(self.driver, self.nodes, self.launch, pointers)
        self.found.append(graph)
        self.table[2 + count] = graph.record.ctypes.data
        self.table[0] = count + 1
        self.table[1] = MISSED if count + 1 < MOST_GRAPHS else 1


class _Graph:
    """An executable graph with the addresses that it was last launched with."""

    def __init__(
        self, driver: Driver, nodes: Sequence[Node], launch: int, pointers: Sequence[int]
    ) -> None:
        self.driver, self.launch, self.pointers = driver, launch, pointers
        self.kept: list[Any] = []
        self.side = _side_stream(driver)
        self.graph = _handle(driver, "cuGraphCreate", 0)
        records: list[np.ndarray] = []
        for node in nodes:
            records.append(self.node(node, int(records[-1][HANDLE]) if records else 0))
        executable = _handle(driver, "cuGraphInstantiateWithFlags", self.graph, 0)
        self.record = self.described(nodes, executable, [r.ctypes.data for r in records])
        # The graph stays too: its nodes are named when those of the executable are set.
        weakref.finalize(self, _destroy, driver, executable, self.graph).atexit = False

    def described(
        self, nodes: Sequence[Node], executable: int, records: Sequence[int]
    ) -> np.ndarray:
        """The record of the graph: for each slot the nodes that use it, and their weight."""
        users: list[list[int]] = [[] for _ in self.pointers]
        weights, whole = [0] * len(users), 0
        for k, node in enumerate(nodes):
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
            NODES: self.words(records),
            SIDE: self.side,
        }
        self.words([words.get(k, 0) for k in range(SIDE + 1)])
        return self.kept[-1]

    def words(self, words: Any) -> int:
        """The address of words, which stays."""
        self.kept.append(np.array(words, np.int64))
        return self.kept[-1].ctypes.data

    def node(self, node: Node, before: int) -> np.ndarray:
        """The record of a node behind another one."""
        values = self.words([0, *[self.pointers[slot] + at for slot, at in node.places]])
        call = node.call
        if call.address == self.launch:
            at = self.parameters(call.lo, values)
            added = "cuGraphAddKernelNode_v2", at
            called = 0, at, 0
        else:
            added = "cuGraphAddChildGraphNode", self.captured(call, values)
            called = call
        after = (ctypes.c_void_p * 1)(before)
        place = ctypes.addressof(after)
        handle = _handle(self.driver, added[0], self.graph, place, int(before != 0), added[1])
        if called is call:
            self.driver.check(self.driver.call("cuGraphDestroy", added[1]), "cuGraphDestroy")
        places = self.words(node.places)
        self.words([called[0], handle, len(node.places), places, values, *called[1:3], 0])
        return self.kept[-1]

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
        own = np.array(state(driver.addresses, self.side), np.int64)
        ctypes.c_int64.from_address(values).value = own.ctypes.data
        begun = driver.call("cuStreamBeginCapture_v2", self.side, CAPTURE_THREAD_LOCAL)
        driver.check(begun, "cuStreamBeginCapture")
        _StepFunction(call.address)(values, call.lo, call.hi)
        child = _handle(driver, "cuStreamEndCapture", self.side)
        driver.check(int(own[ERROR]), "a call that was made part of a graph")
        return child


def _destroy(driver: Driver, executable: int, graph: int) -> None:
    driver.call("cuGraphExecDestroy", executable)
    driver.call("cuGraphDestroy", graph)


def _handle(driver: Driver, function: str, *arguments: int) -> int:
    """What a C function writes to an address among its arguments."""
    out = ctypes.c_void_p()
    at = FUNCTIONS[function].index("o")
    given = (*arguments[:at], ctypes.addressof(out), *arguments[at:])
    driver.check(driver.call(function, *given), function)
    return out.value or 0


_SIDE: WeakKeyDictionary[Driver, int] = WeakKeyDictionary()


def _side_stream(driver: Driver) -> int:
    """A stream that only captures."""
    found = _SIDE.get(driver)
    if found is None:
        found = _SIDE[driver] = _handle(driver, "cuStreamCreate", STREAM_NON_BLOCKING)
    return found
