"""L5. Small rewrites of kernel bodies that the passes share: walking, renaming and moving
indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fgrad.compile.kernel.ir import (
    Affine,
    Break,
    Buffer,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Scalar,
    Statement,
    Store,
    Update,
)

Body = tuple[Statement, ...]


def walk(body: Body) -> Iterator[Statement]:
    """All statements, outer before inner, in order."""
    found: list[Statement] = []
    _collect(body, found)
    return iter(found)


def _collect(body: Body, found: list[Statement]) -> None:
    for s in body:
        found.append(s)
        if type(s) is Loop:
            _collect(s.body, found)


def only_loop(body: Body) -> Loop:
    """The loop that is all of `body`."""
    (loop,) = body
    assert isinstance(loop, Loop)
    return loop


def is_tile(loop: Loop) -> bool:
    """Whether a loop and the only loop in it are a tile: both are vectors."""
    inner = loop.body[0] if len(loop.body) == 1 else None
    return loop.lanes > 1 and isinstance(inner, Loop) and inner.lanes > 1


def part_of(kernel: Kernel, body: Body, more: Iterable[Buffer] = ()) -> Kernel:
    """A kernel of another body: with the buffers that it uses, some of which may be new.  Results
    that are only read there become `in`."""
    used = {s.buffer for s in walk(body) if isinstance(s, (Load, Store))}
    stored = {s.buffer for s in walk(body) if isinstance(s, Store)}
    buffers = [
        b if b.name in stored or b.role == "scratch" else b._replace(role="in")
        for b in (*kernel.buffers, *more)
        if b.name in used
    ]
    return Kernel(kernel.name, tuple(buffers), body)


def map_indices(body: Body, change: Callable[[Affine], Affine]) -> Body:
    """The body with `change` applied to every affine map."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            s = s._replace(body=map_indices(s.body, change))
        elif isinstance(s, (Load, Store, Index)):
            index = change(s.index)
            if index is not s.index:
                s = s._replace(index=index)
        out.append(s)
    return tuple(out)


def indices(body: Body) -> Iterator[Affine]:
    """Every affine map in the body."""
    for s in walk(body):
        if isinstance(s, (Load, Store, Index)):
            yield s.index


def has_sums(body: Body) -> bool:
    """Whether a body adds to memory in any order."""
    return any([isinstance(s, Store) and s.mode == "sum" for s in walk(body)])


def added_in_order(body: Body, vector: bool = False) -> Body:
    """The body with additions one by one outside of vector loops whose lanes are in any order."""
    found: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            inside = vector or (s.lanes > 1 and s.kind == "reduce")
            s = s._replace(body=added_in_order(s.body, inside))
        elif isinstance(s, Store) and s.mode == "sum" and not vector:
            s = s._replace(mode="add")
        found.append(s)
    return tuple(found)


def stride_of(index: Affine, axis: str) -> int:
    """The stride of `axis` in an affine map, 0 if absent."""
    for name, stride in index.terms:
        if name == axis:
            return stride
    return 0


def row_major(axes: Iterable[tuple[str, int]]) -> Affine:
    """The number of an iteration of nested axes and their extents; the last is the fastest."""
    terms, step = [], 1
    for axis, extent in reversed(list(axes)):
        terms.append((axis, step))
        step *= extent
    return Affine(0, tuple(sorted(terms)))


def substitute(index: Affine, axis: str, const: int, terms: tuple[tuple[str, int], ...]) -> Affine:
    """The affine map with `axis := const + sum(stride * axis')`."""
    stride = stride_of(index, axis)
    if stride == 0:
        return index
    sums = {name: step for name, step in index.terms if name != axis}
    for name, step in terms:
        sums[name] = sums.get(name, 0) + step * stride
    kept = sorted([(name, step) for name, step in sums.items() if step])
    return Affine(index.const + const * stride, tuple(kept))


def identity(op: str, dtype: np.dtype) -> Scalar:
    """The value that the accumulator operation `op` leaves everything unchanged by."""
    if op in ("max", "min") and dtype.kind == "f":
        return -np.inf if op == "max" else np.inf
    if op in ("max", "min", "and", "or") and dtype.kind == "b":
        return op in ("min", "and")
    if op in ("max", "min"):
        info = np.iinfo(dtype)
        return int(info.min if op == "max" else info.max)
    if op == "and":
        return -1 if dtype.kind == "i" else int(np.iinfo(dtype).max)
    return {"add": 0, "mul": 1, "or": 0}[op]


def neutral(op: str, dtype: np.dtype) -> Scalar:
    """What changes no bit of another operand: -0.0 for sums of floats, else the `identity`."""
    return -0.0 if (op, dtype.kind) == ("add", "f") else identity(op, dtype)


class Names:
    """Ids, axes and accumulators that a kernel does not use yet."""

    def __init__(self, kernel: Kernel) -> None:
        self.used = {b.name for b in kernel.buffers}
        top = -1
        for s in walk(kernel.body):
            if isinstance(s, (Const, Index, Load, Op, Read)):
                top = s.id if s.id > top else top
            elif isinstance(s, Loop):
                self.used.add(s.axis)
            elif isinstance(s, Init):
                self.used.add(s.acc)
        self.next_id = top + 1

    def id(self) -> int:
        """A value id."""
        self.next_id += 1
        return self.next_id - 1

    def name(self, stem: str) -> str:
        """A name for an axis, an accumulator or a buffer."""
        stem = stem.partition("_")[0]
        number = 0
        while f"{stem}_{number}" in self.used:
            number += 1
        self.used.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def copy(self, body: Body) -> Body:
        """The body with everything that it defines renamed, to stand beside the original."""
        return self.copier().body(body)

    def copier(self) -> Renamer:
        """A renamer that gives new names to definitions, and keeps the others."""
        return Renamer(lambda _: self.id(), self.name, self.name, {})


class Lines:
    """Statements in the order in which they are appended; what makes a value returns its id."""

    def __init__(self, names: Names, body: Body = ()) -> None:
        self.names = names
        self.body = list(body)

    def value(self, s: Const | Index | Load | Op | Read) -> int:
        """Append a statement that makes a value."""
        self.body.append(s)
        return s.id

    def number(self, value: Scalar, dtype: np.dtype) -> int:
        """Append a constant."""
        return self.value(Const(self.names.id(), value, dtype))

    def index(self, index: Affine, dtype: np.dtype) -> int:
        """Append the value of an affine map."""
        return self.value(Index(self.names.id(), index, dtype))

    def load(
        self,
        buffer: str,
        index: Affine,
        gather: tuple[tuple[int, int], ...] = (),
        predicate: int | None = None,
        other: Scalar = 0,
    ) -> int:
        """Append a load."""
        return self.value(Load(self.names.id(), buffer, index, gather, predicate, other))

    def op(self, name: str, args: tuple[int, ...], dtype: np.dtype) -> int:
        """Append an operation."""
        return self.value(Op(self.names.id(), name, args, dtype))

    def read(self, acc: str) -> int:
        """Append the value of an accumulator."""
        return self.value(Read(self.names.id(), acc))


class Renamer:
    """Copies statements in order; what they define is renamed by three functions of the old
    name."""

    def __init__(
        self,
        new_id: Callable[[int], int],
        new_acc: Callable[[str], str],
        new_axis: Callable[[str], str],
        buffers: dict[str, str],
    ) -> None:
        self.new_id, self.new_acc, self.new_axis = new_id, new_acc, new_axis
        self.buffers = buffers
        self.axes: dict[str, str] = {}
        self.accs: dict[str, str] = {}
        self.ids: dict[int, int] = {}

    def body(self, body: Body) -> Body:
        """The copies of some statements."""
        return tuple([_RENAMERS[type(s)](self, s) for s in body])

    def fresh(self, id: int) -> int:
        """The new id of a value that is defined now."""
        new = self.ids[id] = self.new_id(id)
        return new

    def affine(self, index: Affine) -> Affine:
        """An index with the axes renamed."""
        terms = sorted([(self.axes.get(a, a), s) for a, s in index.terms])
        return Affine(index.const, tuple(terms))

    def use(self, id: int) -> int:
        """The id of a value that is used now."""
        return self.ids.get(id, id)

    def maybe(self, id: int | None) -> int | None:
        """The same for a predicate."""
        return None if id is None else self.use(id)

    def indirect(self, terms: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """Indirect index terms with the values renamed."""
        return tuple([(self.use(v), s) for v, s in terms])

    def load(self, s: Load) -> Load:
        """A copy of a load."""
        predicate, buffer = self.maybe(s.predicate), self.buffers.get(s.buffer, s.buffer)
        index, gather = self.affine(s.index), self.indirect(s.gather)
        return Load(self.fresh(s.id), buffer, index, gather, predicate, s.other)

    def store(self, s: Store) -> Store:
        """A copy of a store."""
        predicate, buffer = self.maybe(s.predicate), self.buffers.get(s.buffer, s.buffer)
        index, scatter = self.affine(s.index), self.indirect(s.scatter)
        return Store(buffer, index, self.use(s.value), scatter, s.mode, predicate)

    def op(self, s: Op) -> Op:
        """A copy of an operation."""
        args = tuple([self.use(a) for a in s.args])
        return Op(self.fresh(s.id), s.op, args, s.dtype)

    def init(self, s: Init) -> Init:
        """A copy of an accumulator."""
        start = Ref(self.use(s.start.id)) if isinstance(s.start, Ref) else s.start
        acc = self.accs[s.acc] = self.new_acc(s.acc)
        return s._replace(acc=acc, start=start)

    def read(self, s: Read) -> Read:
        """A copy of a read."""
        return Read(self.fresh(s.id), self.accs.get(s.acc, s.acc))

    def update(self, s: Update) -> Update:
        """A copy of an update."""
        return Update(self.accs.get(s.acc, s.acc), self.use(s.value))

    def loop(self, s: Loop) -> Loop:
        """A copy of a loop."""
        axis = self.axes[s.axis] = self.new_axis(s.axis)
        return s._replace(axis=axis, body=self.body(s.body))


_RENAMERS: dict[type, Callable[[Renamer, Any], Statement]] = {
    Const: lambda r, s: s._replace(id=r.fresh(s.id)),
    Index: lambda r, s: Index(r.fresh(s.id), r.affine(s.index), s.dtype),
    Load: Renamer.load,
    Op: Renamer.op,
    Read: Renamer.read,
    Init: Renamer.init,
    Update: Renamer.update,
    Store: Renamer.store,
    Break: lambda r, s: Break(r.use(s.value)),
    Loop: Renamer.loop,
}
