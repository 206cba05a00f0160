"""L6. A host program -> the nodes of a graph: calls with their addresses, and conditional nodes.

    Repeat(2, (launch f (1, 2), Advance(1, 64)))   ->   f (1, 2), f (1 + 64 bytes, 2)
    While((test, fetch flag), flag, body)          ->   test, while flag: body, test
    (fetch index, Branch(index, (a, b)))           ->   switch index: a, b

Each node knows its addresses by the slots that the caller gives.  A `Repeat` is unrolled, so that
addresses may move with its steps.  The body of a `While` has the same addresses in every turn, or
there is no graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.host.program import Advance, Branch, Call, PointAt, Repeat, Step, Swap, While

LEAST_NODES = 4
MOST_NODES = 1024

At: TypeAlias = tuple[int, int]  # a slot that the caller gives, and an offset
_Slots: TypeAlias = dict[int, At]


class Node(NamedTuple):
    """A call, and where each of its addresses is."""

    call: Call
    places: tuple[At, ...]


class Conditional(NamedTuple):
    """A body that runs as long as the byte at a place is not 0 ("while"), or that one of several
    bodies whose number, clamped to the valid ones, is the int64 there ("switch")."""

    kind: Literal["while", "switch"]
    place: At
    bodies: tuple[tuple[GraphNode, ...], ...]


GraphNode: TypeAlias = Node | Conditional


def flattened(
    steps: Sequence[Step], given: int, known: Collection[int], fetch: int = 0
) -> tuple[GraphNode, ...] | None:
    """The nodes of a program in order; None if the host takes part in it or it is too long.

    Arguments:
        steps: the program.
        given: how many slots the caller gives; the last one is the state.
        known: the addresses of the functions that may be part of a graph, and of the records of
            those of libraries.
        fetch: that of the function whose number the next loop or branch looks at; 0 where the
            device cannot look at it.
    """
    try:
        nodes = _Walk(known, fetch).nodes(steps, {k: (k, 0) for k in range(given)})
    except _NotForGraphsError:
        return None
    return nodes if len(nodes) >= LEAST_NODES or any(map(is_conditional, nodes)) else None


def is_conditional(node: GraphNode) -> bool:
    """Whether a node decides on the device what runs."""
    return isinstance(node, Conditional)


def count(nodes: Sequence[GraphNode]) -> int:
    """How many nodes there are, with those of bodies and those that set handles."""
    total = len(nodes)
    for node in nodes:
        if isinstance(node, Conditional):
            total += sum(map(count, node.bodies)) + (2 if node.kind == "while" else 1)
    return total


class _NotForGraphsError(Exception):
    """A step that cannot be part of a graph."""


class _Walk:
    """Walks steps, with the slots as they are at each of them."""

    def __init__(self, known: Collection[int], fetch: int) -> None:
        self.known, self.fetch = known, fetch
        self.left = MOST_NODES
        self.fetched: At | None = None  # where the number is that a loop or branch looks at

    def nodes(self, steps: Sequence[Step], slots: _Slots) -> tuple[GraphNode, ...]:
        """The nodes of steps, which change the slots."""
        return tuple([node for step in steps for node in self.step(step, slots)])

    def step(self, step: Step, slots: _Slots) -> Iterator[GraphNode]:
        if isinstance(step, PointAt):
            base, offset = slots[step.base]
            slots[step.slot] = base, offset + step.offset
        elif isinstance(step, Advance):
            base, offset = slots[step.slot]
            slots[step.slot] = base, offset + step.size
        elif isinstance(step, Swap):
            slots[step.a], slots[step.b] = slots[step.b], slots[step.a]
        elif isinstance(step, Repeat):
            for _ in range(step.count):
                yield from self.nodes(step.body, slots)
        elif isinstance(step, Call):
            yield from self.call(step, slots)
        elif isinstance(step, While):
            yield from self.loop(step, slots)
        elif isinstance(step, Branch):
            yield self.branch(step, slots)
        else:
            raise _NotForGraphsError

    def call(self, step: Call, slots: _Slots) -> Iterator[Node]:
        self.left -= 1
        if step.address == self.fetch:
            self.fetched = slots[step.slots[-1]]
        elif self.left >= 0 and (step.address in self.known or step.lo in self.known):
            yield Node(step, tuple([slots[k] for k in step.slots[1:]]))
        else:
            raise _NotForGraphsError

    def looked_at(self) -> At:
        if self.fetched is None:
            raise _NotForGraphsError
        return self.fetched

    def loop(self, step: While, slots: _Slots) -> Iterator[GraphNode]:
        yield from self.nodes(step.condition, slots)
        place = self.looked_at()
        body = self.inside((*step.body, *step.condition), slots)
        if self.looked_at() != place:
            raise _NotForGraphsError
        yield Conditional("while", place, (body,))

    def branch(self, step: Branch, slots: _Slots) -> Conditional:
        place = self.looked_at()
        return Conditional("switch", place, tuple([self.inside(b, slots) for b in step.branches]))

    def inside(self, steps: Sequence[Step], slots: _Slots) -> tuple[GraphNode, ...]:
        """The nodes of a body, after which all slots are as they were."""
        own = dict(slots)
        nodes = self.nodes(steps, own)
        if any([own[k] != at for k, at in slots.items()]):
            raise _NotForGraphsError
        return nodes
