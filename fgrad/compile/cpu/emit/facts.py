"""L5. Analysis of loops before code generation: iteration ranges, and which values vary."""

from __future__ import annotations

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.emit.numbers import Register
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import (
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import stride_of, walk


class Span(NamedTuple):
    """A run of iterations: its bounds as text; and as numbers, where these may be known."""

    start: str
    stop: str
    lanes: int
    unroll: int
    masked: bool
    maybe_empty: bool = False
    is_short: bool = False  # one pass at most
    first: int | Register = 0
    last: int | Register | None = None

    def only_pass(self) -> int | None:
        """The iterations of the only pass; None if there are more, or nobody knows."""
        if type(self.first) is not int or type(self.last) is not int:
            return None
        live = self.last - self.first
        return live if live <= self.lanes * self.unroll else None


class LoopFacts:
    """What the emitter must know about a loop before it walks it."""

    __slots__ = ("stored", "updates", "varying", "weight")

    def __init__(self, loop: Loop) -> None:
        self.stored = frozenset([s.buffer for s in walk(loop.body) if isinstance(s, Store)])
        own = {s.acc for s in walk(loop.body) if isinstance(s, Init)}
        updated = [s.acc for s in walk(loop.body) if isinstance(s, Update) and s.acc not in own]
        self.updates = list(dict.fromkeys(updated))
        self.varying: set[int] = set()  # ids whose value may differ between iterations
        self.weight = _vary(loop.body, frozenset([loop.axis]), self.varying, self.stored)


def _vary(
    body: tuple[Statement, ...], axes: frozenset[str], varying: set[int], stored: frozenset[str]
) -> float:
    """Collect the ids that vary with `axes`; returns the cost of the statements."""
    cost = 0.0
    for s in body:
        cost += weight(s)
        if isinstance(s, Loop):
            cost += _vary(s.body, axes | {s.axis}, varying, stored)
        elif isinstance(s, Op):
            if not varying.isdisjoint(s.args):
                varying.add(s.id)
        elif isinstance(s, Load):
            used = [v for v, _ in s.gather] + ([] if s.predicate is None else [s.predicate])
            moves = any([a in axes for a, _ in s.index.terms])
            if moves or s.buffer in stored or not varying.isdisjoint(used):
                varying.add(s.id)
        elif isinstance(s, Read) or (
            isinstance(s, Index) and any([a in axes for a, _ in s.index.terms])
        ):
            varying.add(s.id)
    return cost


def lane_copies(kernel: Kernel) -> dict[str, int]:
    """Scratch buffers that need a copy for each lane: those that a vector loop stores to at stride
    0 along its axis."""
    scratch = {b.name for b in kernel.buffers if b.role == "scratch"}
    found: dict[str, int] = {}

    def visit(body: tuple[Statement, ...], vector: Loop | None) -> None:
        for s in body:
            if isinstance(s, Loop):
                visit(s.body, s if s.lanes > 1 else vector)
            elif (
                isinstance(s, Store) and vector is not None and not stride_of(s.index, vector.axis)
            ):
                found[s.buffer] = vector.lanes

    if scratch:
        visit(kernel.body, None)
    return {name: lanes for name, lanes in found.items() if name in scratch}
