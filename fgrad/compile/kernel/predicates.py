"""L5. Split loops at the constants that their predicates compare the axis with.

    parallel i in 1007:                          parallel i in 3:
      %0 = index i64 -3 + i                        store y[i] 0.0
      %1 = ge bool %0 0                          parallel i in 1000:
      %2 = lt bool %0 1000                ->       %5 = load x[i]
      %3 = and bool %1 %2                          store y[3 + i] %5
      %4 = load x[-3 + i] if %3 else 0           parallel i in 4:
      %5 = select f64 %3 %4 0.0                    store y[1003 + i] 0.0
      store y[i] %5

This removes the predicates of pads and concatenations inside a formula.  Only nests of parallel
loops are split, as the pieces of a sum would be added in another order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from fgrad.base.sizes import is_symbolic
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.fuse_multiply_add import fuse_multiply_add
from fgrad.compile.kernel.ir import (
    Affine,
    Buffer,
    Const,
    Index,
    Kernel,
    Load,
    Loop,
    Op,
    Scalar,
    Statement,
    Store,
)
from fgrad.compile.kernel.machine import LONG_OPERATION
from fgrad.compile.kernel.rewrite import Body, Names, map_indices, only_loop, substitute, walk

MOST_PIECES = 4
LEAST_PIECE = 64  # elements from which on a piece without predicates is worth its code
_BOOL, _INT64 = np.dtype(bool), np.dtype(np.int64)
_COMPARE = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def split_at_predicates(body: Body, names: Names, buffers: Mapping[str, Buffer]) -> Body:
    """The body with loops split where comparisons with their axes change."""
    compared = [s for s in walk(body) if isinstance(s, Op) and s.op in _COMPARE]
    if not compared:
        return body
    consts = {s.id: s.value for s in body if isinstance(s, Const)}
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop) and _may_split(s, buffers):
            out += Splitter(names, buffers, consts).pieces(s, {})
        else:
            out.append(s)
    return tuple(out)


def split_rows(kernel: Kernel) -> Kernel:
    """The kernel of a loop with the loops of vectors inside it split where comparisons with their
    axes change."""
    found = list(walk(kernel.body))
    if not any([isinstance(s, Op) and s.op in _COMPARE for s in found]):
        return kernel
    buffers = {b.name: b for b in kernel.buffers}
    consts = {s.id: s.value for s in found if isinstance(s, Const)}
    names = Names(kernel)

    def rows(body: Body) -> Body:
        out: list[Statement] = []
        for s in body:
            if not isinstance(s, Loop):
                out.append(s)
            elif s.kind == "parallel" and s.lanes > 1 and all(map(_is_short, s.body)):
                out += Splitter(names, buffers, consts).pieces(s, {})
            else:
                out.append(s._replace(body=rows(s.body)))
        return tuple(out)

    body = rows(kernel.body)
    return kernel if body == kernel.body else fuse_multiply_add(kernel._replace(body=body))


def _may_split(loop: Loop, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a loop is a perfect nest of parallel loops around a short formula; beside a long one
    predicates cost little, and copies of it much."""
    if loop.kind != "parallel":
        return False
    if len(loop.body) == 1 and isinstance(loop.body[0], Loop):
        return _may_split(loop.body[0], buffers)
    own = [isinstance(s, (Load, Store)) and buffers[s.buffer].role == "scratch" for s in loop.body]
    return not any(own) and all(map(_is_short, loop.body))


def _is_short(s: Statement) -> bool:
    """Whether a statement may be part of a short formula."""
    return isinstance(s, (Const, Index, Load, Store, Op)) and weight(s) < LONG_OPERATION


class Splitter:
    """Splits one nest, given the numbers that are known outside of it.

    Of the pieces of a loop, only the longest are split further inside, so that their number grows
    with the sum of the loops and not with the product.
    """

    def __init__(
        self, names: Names, buffers: Mapping[str, Buffer], consts: dict[int, Scalar]
    ) -> None:
        self.names, self.buffers, self.consts = names, buffers, consts

    def pieces(self, loop: Loop, extents: dict[str, int]) -> Body:
        """The loops that replace a loop; `extents` are those of the loops around it."""
        cuts = self._cuts(loop)
        if not cuts:
            return self._inside(loop, extents)
        ranges = list(zip((0, *cuts), (*cuts, loop.extent), strict=True))
        longest = max([stop - start for start, stop in ranges])
        out: list[Statement] = []
        for start, stop in ranges:
            piece = self._piece(loop, start, stop, extents)
            out += self._inside(piece, extents) if stop - start == longest else (piece,)
        return tuple(out)

    def _piece(self, loop: Loop, start: int, stop: int, extents: dict[str, int]) -> Loop:
        """A loop over the iterations from `start` to `stop`, with its predicates folded."""
        terms = ((loop.axis, 1),)
        body = map_indices(loop.body, lambda i: substitute(i, loop.axis, start, terms))
        piece = loop._replace(extent=stop - start, body=body)
        folded = self._folded(piece, {**extents, loop.axis: stop - start})
        return only_loop(self.names.copy((folded,)))

    def _inside(self, loop: Loop, extents: dict[str, int]) -> Body:
        """A loop that is not split itself, with the loops inside it split."""
        if not loop.body or not isinstance(loop.body[0], Loop):
            return (loop,)
        around = {**extents, loop.axis: loop.extent}
        return (loop._replace(body=self.pieces(loop.body[0], around)),)

    def _cuts(self, loop: Loop) -> list[int]:
        """Where to split a loop: everywhere that a comparison changes, if that is at few places,
        else around the longest piece; nowhere if no piece is long."""
        found = sorted(self._changes(loop))
        edges = [0, *found, loop.extent]
        long = max(range(len(edges) - 1), key=lambda k: edges[k + 1] - edges[k])
        if not found or (edges[long + 1] - edges[long]) * _inner(loop) < LEAST_PIECE:
            return []
        if len(found) < MOST_PIECES:
            return found
        return [x for x in edges[long : long + 2] if 0 < x < loop.extent]

    def _changes(self, loop: Loop) -> set[int]:
        """The iterations at which a comparison of the loop's axis with a constant changes."""
        found: set[int] = set()
        indices: dict[int, Affine] = {}
        consts = dict(self.consts)
        for s in walk(loop.body):
            if isinstance(s, Const):
                consts[s.id] = s.value
            elif isinstance(s, Index) and s.dtype == _INT64:
                indices[s.id] = s.index
            elif isinstance(s, Op) and s.op in _COMPARE:
                index, number = indices.get(s.args[0]), consts.get(s.args[1])
                if index is None or number is None or [a for a, _ in index.terms] != [loop.axis]:
                    continue
                if is_symbolic((number, loop.extent, index.const)):
                    continue  # it changes elsewhere for another length
                change = _change(s.op, index, number, loop.extent)
                if change < loop.extent:
                    found.add(change)
        return found

    def _folded(self, loop: Loop, extents: dict[str, int]) -> Loop:
        """The nest without the comparisons that have one value in all its iterations."""
        inner = loop.body[0]
        if isinstance(inner, Loop):
            return loop._replace(body=(self._folded(inner, {**extents, inner.axis: inner.extent}),))
        return loop._replace(body=Folder(self.buffers, self.consts, extents).body(loop.body))


def _inner(loop: Loop) -> int:
    """How many times the loops inside a nest run for one iteration of it."""
    return math.prod([s.extent for s in walk(loop.body) if isinstance(s, Loop)])


def _change(op: str, index: Affine, number: Scalar, extent: int) -> int:
    """The first iteration in which a comparison of `const + stride * axis` is not that of
    iteration 0."""
    ((_, stride),) = index.terms
    compare = _COMPARE[op]
    first = compare(index.const, number)
    return bisect_left(
        range(extent), True, key=lambda k: compare(index.const + stride * k, number) != first
    )


class Folder:
    """Folds the constants of straight-line statements inside loops of known extents: comparisons
    with one value in all iterations become constants, and so selects and predicates fall away."""

    def __init__(
        self, buffers: Mapping[str, Buffer], consts: dict[int, Scalar], extents: dict[str, int]
    ) -> None:
        self.buffers, self.extents = buffers, extents
        self.consts = dict(consts)
        self.indices: dict[int, Affine] = {}
        self.replacements: dict[int, int] = {}  # removed value -> the value to use instead

    def body(self, body: Body) -> Body:
        """The statements that remain of `body`."""
        made = [self._statement(self._renamed(s)) for s in body]
        return _used([s for s in made if s is not None])

    def _replaced(self, id: int) -> int:
        return self.replacements.get(id, id)

    def _renamed(self, s: Statement) -> Statement:
        if isinstance(s, Op):
            return s._replace(args=tuple([self._replaced(a) for a in s.args]))
        if isinstance(s, Load):
            return s._replace(gather=tuple([(self._replaced(v), step) for v, step in s.gather]))
        if isinstance(s, Store):
            scatter = tuple([(self._replaced(v), step) for v, step in s.scatter])
            return s._replace(value=self._replaced(s.value), scatter=scatter)
        return s

    def _statement(self, s: Statement) -> Statement | None:
        if isinstance(s, Const):
            self.consts[s.id] = s.value
        elif isinstance(s, Index) and s.dtype == _INT64:
            self.indices[s.id] = s.index
        elif isinstance(s, Op):
            return self._op(s)
        elif isinstance(s, (Load, Store)) and s.predicate is not None:
            predicate = self._replaced(s.predicate)
            truth = self.consts.get(predicate)
            if truth is None:
                return s._replace(predicate=predicate)
            return s._replace(predicate=None) if truth else self._never(s)
        return s

    def _never(self, s: Load | Store) -> Statement | None:
        """What replaces a load or a store whose predicate is false: its default, or nothing."""
        if isinstance(s, Store):
            return None
        return self._constant(s.id, s.other, self.buffers[s.buffer].dtype)

    def _constant(self, id: int, value: Scalar, dtype: np.dtype) -> Const:
        self.consts[id] = value
        return Const(id, dtype.type(value).item(), dtype)

    def _op(self, s: Op) -> Statement | None:
        known = [self.consts.get(a) for a in s.args]
        if s.op in _COMPARE and s.args[0] in self.indices and known[1] is not None:
            low, high = self._bounds(self.indices[s.args[0]])
            truth = _COMPARE[s.op](low, known[1])
            if truth == _COMPARE[s.op](high, known[1]):
                return self._constant(s.id, truth, _BOOL)
        elif s.op == "select" and known[0] is not None:
            self.replacements[s.id] = s.args[1] if known[0] else s.args[2]
            return None
        elif s.op in ("and", "or") and s.dtype == _BOOL:
            for k in (0, 1):
                if known[k] is not None:
                    decided = bool(known[k]) == (s.op == "or")
                    self.replacements[s.id] = s.args[k] if decided else s.args[1 - k]
                    return None
        return s

    def _bounds(self, index: Affine) -> tuple[int, int]:
        """The least and the greatest value of an affine map."""
        ends = [sorted((0, step * (self.extents[axis] - 1))) for axis, step in index.terms]
        low, high = [sum(end) for end in zip(*ends, strict=True)] if ends else (0, 0)
        return index.const + low, index.const + high


def _used(body: list[Statement]) -> Body:
    """The stores, and the statements whose values are used."""
    needed: set[int] = set()
    kept: list[Statement] = []
    for s in reversed(body):
        if isinstance(s, (Const, Index, Load, Op)) and s.id not in needed:
            continue
        kept.append(s)
        if isinstance(s, Op):
            needed.update(s.args)
        elif isinstance(s, (Load, Store)):
            terms = s.gather if isinstance(s, Load) else (*s.scatter, (s.value, 1))
            needed.update([v for v, _ in terms])
            needed.update(() if s.predicate is None else (s.predicate,))
    return tuple(reversed(kept))
