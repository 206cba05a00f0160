"""The C functions for graphs of a driver without a device: captured, built, set anew, launched.

Graphs are chains: each node stands behind the last one.  The handle of a node is that of its graph
and its place in it.  A conditional handle is the address of a number, which kernels write through
`cudaGraphSetConditional` (`device.py`) and conditional nodes read when their turn comes.  What the
real driver refuses is refused: a handle that no node uses, one of another graph or context, a graph
with conditional nodes as a child or with two executables, bodies that copy from or to the host.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from emulator.events import Event, Fill, Graph, Launch, Move, Work
from fgrad.errors import CheckError
from fgrad.lower_cuda.device import driver_api as api

INVALID = 1  # CUDA_ERROR_INVALID_VALUE
NOT_SUPPORTED = 801
KERNEL_NODE, COPY_NODE, FILL_NODE, GRAPH_NODE = 0, 1, 2, 4
PLACES = 20  # bits of a node's place in its graph
UNSET = -1  # the number of a handle that nobody has set since the graph was launched


class Conditional(NamedTuple):
    """A node that decides which of its graphs run."""

    handle: int
    kind: int
    bodies: tuple[int, ...]


Node: TypeAlias = "Event | Conditional | list[Node]"  # a list is a graph as a node


class _Handle(NamedTuple):
    """A number that conditional nodes read; `default` is what it is at first, if it has one."""

    cell: np.ndarray
    graph: int
    default: int


class _Executable(NamedTuple):
    """A graph, and the nodes of it and of all bodies as they were when it was instantiated."""

    root: int
    nodes: dict[int, list[Node]]


class StubGraphs:
    """The methods are the driver's C functions of their names.

    Arguments:
        streams: the first word of each says whether it captures.
        new: gives a handle.
        counter: gives the handle of an executable, the address of a number.
        launch_at: the launch whose parameters are at an address; None if there is no such kernel.
        run: does what a node asks for.
        log: of events.
    """

    def __init__(
        self,
        streams: dict[int, np.ndarray],
        new: Callable[[], int],
        counter: Callable[[], int],
        launch_at: Callable[[int], Launch | None],
        run: Callable[[Event], None],
        log: list[Event],
    ) -> None:
        self.streams, self.new, self.counter = streams, new, counter
        self.launch_at, self.run, self.log = launch_at, run, log
        self.context = new()
        self._captured: dict[int, list[Node]] = {}  # of the thread that captures
        self.graphs: dict[int, list[Node]] = {}
        self.bodies: set[int] = set()  # graphs that belong to conditional nodes
        self.handles: dict[int, _Handle] = {}
        self.used: set[int] = set()  # handles that belong to nodes
        self.executables: dict[int, _Executable] = {}
        self._kept: list[object] = []

    # Made.

    def cuStreamBeginCapture_v2(self, stream: int, mode: int) -> int:
        if self.streams[stream][0] or self.captures():
            return INVALID
        self.streams[stream][0] = 1
        self._captured[threading.get_ident()] = []
        return api.SUCCESS

    def cuStreamEndCapture(self, stream: int, out: int) -> int:
        if not self.streams[stream][0] or not self.captures():
            return INVALID
        self.streams[stream][0] = 0
        write(out, self._graph(self._captured.pop(threading.get_ident())))
        return api.SUCCESS

    def captures(self) -> bool:
        """Whether this thread captures: all that it asks for then is for the stream that does."""
        return threading.get_ident() in self._captured

    def capture(self, event: Event) -> None:
        """Keep what was asked for."""
        self._captured[threading.get_ident()].append(event)

    def cuGraphCreate(self, out: int, flags: int) -> None:
        write(out, self._graph([]))

    def _graph(self, nodes: list[Node]) -> int:
        handle = self.new()
        self.graphs[handle] = nodes
        return handle

    def cuGraphAddKernelNode_v2(
        self, out: int, graph: int, before: int, count: int, values: int
    ) -> int:
        launch = self.launch_at(values)
        return INVALID if launch is None else self._add(out, graph, before, count, launch)

    def cuGraphAddChildGraphNode(
        self, out: int, graph: int, before: int, count: int, child: int
    ) -> int:
        nodes = list(self.graphs[child])
        if any([isinstance(node, Conditional) for node in nodes]):
            return INVALID
        return self._add(out, graph, before, count, nodes)

    def cuGraphConditionalHandleCreate(
        self, out: int, graph: int, context: int, default: int, flags: int
    ) -> int:
        if graph not in self.graphs or context != self.context or flags > 1:
            return INVALID
        cell = np.full(1, UNSET, np.int64)
        self.handles[cell.ctypes.data] = _Handle(cell, graph, default if flags else UNSET)
        write(out, cell.ctypes.data)
        return api.SUCCESS

    def cuGraphAddNode_v2(
        self, out: int, graph: int, before: int, edges: int, count: int, params: int
    ) -> int:
        given = api.ConditionalNode.from_address(params)
        if given.type != api.CONDITIONAL_NODE:
            return NOT_SUPPORTED
        sizes = {api.IF_NODE: (1, 2), api.WHILE_NODE: (1,)}.get(given.kind)
        wrong = given.size not in sizes if sizes else given.size < 1
        known = self.handles.get(given.handle)
        if wrong or given.kind > api.SWITCH_NODE or any(given.reserved) or any(given.padding):
            return INVALID
        if known is None or known.graph != graph or given.handle in self.used:
            return INVALID
        if given.context != self.context:
            return INVALID
        bodies = tuple([self._graph([]) for _ in range(given.size)])
        node = Conditional(given.handle, given.kind, bodies)
        if self._add(out, graph, before, count, node):
            return INVALID
        self.used.add(given.handle)
        self.bodies |= set(bodies)
        self._kept.append((ctypes.c_uint64 * len(bodies))(*bodies))
        given.bodies = ctypes.addressof(self._kept[-1])  # type: ignore[arg-type]
        return api.SUCCESS

    def _add(self, out: int, graph: int, before: int, count: int, node: Node) -> int:
        """A node behind the last one."""
        held = self.graphs[graph]
        last = [ctypes.c_uint64.from_address(before).value] if count else []
        if last != [(graph << PLACES) + len(held) - 1][: len(held)]:
            return INVALID
        write(out, (graph << PLACES) + len(held))
        held.append(node)
        return api.SUCCESS

    def cuGraphDestroy(self, graph: int) -> int:
        if graph in self.bodies:
            return INVALID
        for each in list(self._all(graph)):
            del self.graphs[each]
            self.bodies.discard(each)
            for handle in [h for h, known in list(self.handles.items()) if known.graph == each]:
                del self.handles[handle]
                self.used.discard(handle)
        return api.SUCCESS

    def _all(self, graph: int) -> Iterator[int]:
        """A graph and the bodies in it."""
        yield graph
        for node in self.graphs[graph]:
            if isinstance(node, Conditional):
                for body in node.bodies:
                    yield from self._all(body)

    # Looked at.

    def cuGraphGetNodes(self, graph: int, nodes: int, count: int) -> None:
        held = self.graphs[graph]
        if nodes:
            for k in range(len(held)):
                write(nodes + 8 * k, (graph << PLACES) + k)
        write(count, len(held))

    def cuGraphNodeGetType(self, node: int, out: int) -> None:
        kinds = {
            Launch: KERNEL_NODE,
            Work: KERNEL_NODE,
            Move: COPY_NODE,
            Fill: FILL_NODE,
            list: GRAPH_NODE,
            Conditional: api.CONDITIONAL_NODE,
        }
        ctypes.c_int.from_address(out).value = kinds[type(self._node(node))]

    def _node(self, node: int) -> Node:
        return self.graphs[node >> PLACES][node % (1 << PLACES)]

    def cuGraphKernelNodeGetParams_v2(self, node: int, out: int) -> int:
        launch = self._node(node)
        if not isinstance(launch, Launch):
            return INVALID
        values = (ctypes.c_uint64 * max(len(launch.pointers), 1))(*launch.pointers)
        table = (ctypes.c_uint64 * len(values))(
            *[ctypes.addressof(values) + 8 * k for k in range(len(values))]
        )
        self._kept += [values, table]
        found = api.KernelNode.from_address(out)
        found.function, found.parameters = launch.function, ctypes.addressof(table)
        found.grid[:], found.block[:] = (launch.grid, 1, 1), (*launch.block, 1)
        found.shared_bytes, found.extra, found.kernel = 0, None, None
        return api.SUCCESS

    # Executables.

    def cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        every = set(self._all(graph))
        handles = {h for h, known in list(self.handles.items()) if known.graph in every}
        if graph in self.bodies or handles - self.used:
            return INVALID
        if handles and any([e.root == graph for e in list(self.executables.values())]):
            return INVALID
        inside = [node for body in every - {graph} for node in leaves(self.graphs[body])]
        if any([isinstance(node, Move) and node.way != "on device" for node in inside]):
            return NOT_SUPPORTED
        handle = self.counter()
        self.executables[handle] = _Executable(graph, {g: list(self.graphs[g]) for g in every})
        write(out, handle)
        return api.SUCCESS

    def cuGraphExecKernelNodeSetParams_v2(self, executable: int, node: int, values: int) -> int:
        nodes, place = self._place(executable, node)
        launch = self.launch_at(values)
        if launch is None or not isinstance(nodes[place], Launch):
            return INVALID
        nodes[place] = launch
        return api.SUCCESS

    def cuGraphExecChildGraphNodeSetParams(self, executable: int, node: int, child: int) -> int:
        nodes, place = self._place(executable, node)
        before, after = nodes[place], list(self.graphs[child])
        if not isinstance(before, list) or list(map(type, before)) != list(map(type, after)):
            return INVALID
        nodes[place] = after
        return api.SUCCESS

    def _place(self, executable: int, node: int) -> tuple[list[Node], int]:
        """Where an executable has a node."""
        return self.executables[executable].nodes[node >> PLACES], node % (1 << PLACES)

    def cuGraphExecDestroy(self, executable: int) -> None:
        del self.executables[executable]

    def cuGraphLaunch(self, executable: int, stream: int) -> None:
        found = self.executables[executable]
        for known in list(self.handles.values()):
            if known.graph in found.nodes:
                known.cell[0] = known.default
        self.log.append(Graph(len(found.nodes[found.root])))
        self._launch(found, found.nodes[found.root])

    def _launch(self, executable: _Executable, nodes: list[Node]) -> None:
        for node in nodes:
            if isinstance(node, list):
                self._launch(executable, node)
            elif isinstance(node, Conditional):
                self._decide(executable, node)
            else:
                self.run(node)

    def _decide(self, executable: _Executable, node: Conditional) -> None:
        bodies = [executable.nodes[body] for body in node.bodies]
        number = self._number(node)
        if node.kind == api.WHILE_NODE:
            while self._number(node):
                self._launch(executable, bodies[0])
            return
        if node.kind == api.IF_NODE:
            number = 0 if number else 1
        if number < len(bodies):
            self._launch(executable, bodies[number])

    def _number(self, node: Conditional) -> int:
        """What a kernel has set a handle to."""
        number = int(self.handles[node.handle].cell[0])
        if number == UNSET:
            raise CheckError("a conditional node reads a handle that no kernel has set.")
        return number


def leaves(nodes: list[Node]) -> Iterator[Node]:
    """Nodes, with those of children in the place of these."""
    for node in nodes:
        if isinstance(node, list):
            yield from leaves(node)
        else:
            yield node


def write(at: int, value: int) -> None:
    """Write a handle to an address."""
    ctypes.c_void_p.from_address(at).value = value
