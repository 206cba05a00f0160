"""L6. Updates of computed places, which a kernel makes one after the other, for many threads.

    serial u in n: parallel j in m: store y[m*%place + j] add= (load x[m*u + j])

is one of three, all of which give the same result in every run:

    columns   parallel j: serial u: ...           where there are few updates
    atomic    parallel u, j: atomic ...           where the order does not matter: of integers
    sorted    key[u] = place; sort keys with u; parallel p, j: the first of a run of equal keys
              takes the whole run, in order

Sums of floats are atomic only where that is asked for (FGRAD_ATOMICS=1): their last digits then
change from run to run.
"""

from __future__ import annotations

import math

from fgrad.base.named_tuple import NamedTuple
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
    Ref,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import Body, Lines, Names, identity, part_of, row_major, walk
from fgrad.compile.schedule.order import perfect_nest, rebuild
from fgrad.ir.aval import BOOL, INT64
from fgrad.lower_cuda.emit.forms import Piece

FEW = 64  # updates that one thread makes in order
FIRST, LAST = -(2**63), 2**63 - 1  # keys that no place has
_ATOMIC_INTS = ("i4", "i8", "u4", "u8")
_ATOMIC_FLOATS = ("f4", "f8")


class Scatter(NamedTuple):
    """A piece that updates places: for each of `updates`, for each of `columns`, one store."""

    kernel: Kernel
    updates: tuple[Loop, ...]
    scalars: Body  # of the kernel and of each update
    columns: tuple[Loop, ...]
    body: Body  # of each column, without the store
    store: Store

    @property
    def count(self) -> int:
        """The number of updates."""
        return math.prod([loop.extent for loop in self.updates])


class Sorted(NamedTuple):
    """The kernels of the sorted way, and their buffers: what the first one writes; and what the
    second one reads, keys in order and the numbers of their updates."""

    first: Kernel
    second: Kernel
    keys: Buffer
    ordered: Buffer
    numbers: Buffer


def match_scatter(piece: Piece) -> Scatter | None:
    """The scatter that a piece is, if its updates may be taken apart."""
    loops = [s for s in piece.body if isinstance(s, Loop)]
    outside = tuple([s for s in piece.body if not isinstance(s, Loop)])
    if piece.axes or len(loops) != 1 or loops[0].kind != "serial":
        return None
    updates, inner = perfect_nest(loops[0])
    inside = [s for s in inner if isinstance(s, Loop)]
    columns: list[Loop] = []
    body, own = inner, ()
    if inside:
        if inner[-1:] != (inside[0],) or len(inside) > 1 or inside[0].kind != "parallel":
            return None
        columns, body = perfect_nest(inside[0])
        own = inner[:-1]
    stores = [s for s in walk(body) if isinstance(s, Store)]
    if len(stores) != 1 or body[-1] is not stores[0]:
        return None
    rest = body[:-1]
    if not columns:  # all that a store needs is of the update
        own, rest = rest, ()
    found = Scatter(piece.kernel, tuple(updates), (*outside, *own), tuple(columns), rest, stores[0])
    return found if _is_plain(found) and _is_disjoint(found) else None


def _is_plain(found: Scatter) -> bool:
    """Whether updates only compute numbers from memory that none of them writes."""
    every = (*found.scalars, *found.body)
    simple = all([isinstance(s, (Const, Index, Load, Op)) for s in every])
    reads = {s.buffer for s in every if isinstance(s, Load)}
    scratch = any([b.role == "scratch" for b in found.kernel.buffers])
    return simple and not scratch and found.store.buffer not in reads


def _is_disjoint(found: Scatter) -> bool:
    """Whether different columns are different elements whatever the updates, and what decides of an
    update is the same for all its columns."""
    of_update = {s.id for s in found.scalars if isinstance(s, (Const, Index, Load, Op))}
    store = found.store
    decides = [v for v, _ in store.scatter] + ([] if store.predicate is None else [store.predicate])
    strides = dict(store.index.terms)
    own = [(strides.pop(loop.axis, 0), loop.extent) for loop in found.columns]
    reach, step = 0, 1
    for stride, extent in sorted(own):
        if stride < 1 or stride <= reach:
            return False
        reach += stride * (extent - 1)
    step = math.gcd(*strides.values(), *[stride for _, stride in store.scatter])
    return set(decides) <= of_update and (not own or reach < step)


def by_columns(found: Scatter) -> Kernel:
    """parallel columns: serial updates: ..."""
    inner = rebuild(list(found.updates), (*found.scalars, *found.body, found.store))
    body: Body = (rebuild(list(found.columns), (inner,)),) if found.columns else (inner,)
    return found.kernel._replace(body=body)


def is_atomic(found: Scatter, floats: bool) -> bool:
    """Whether the updates may be made in any order by atomic instructions; `floats` says whether
    sums of floats may."""
    dtype = next(b.dtype for b in found.kernel.buffers if b.name == found.store.buffer)
    kind = f"{dtype.kind}{dtype.itemsize}"
    if found.store.mode not in ("add", "min", "max"):
        return False
    if kind in _ATOMIC_FLOATS:
        return found.store.mode == "add" and floats
    return kind in _ATOMIC_INTS


def atomic(found: Scatter) -> Kernel:
    """parallel updates, columns: an atomic store."""
    loops = [loop._replace(kind="parallel") for loop in (*found.updates, *found.columns)]
    body = (*found.scalars, *found.body, found.store)
    return found.kernel._replace(body=(rebuild(loops, body),))


def in_order(found: Scatter) -> Sorted:
    """The kernels before and after the sort of the keys."""
    return _Sorter(found).kernels()


class _Sorter:
    """Writes the kernels of the sorted way."""

    def __init__(self, found: Scatter) -> None:
        self.found = found
        self.names = Names(found.kernel)
        n = found.count
        self.keys = Buffer(self.names.name("keys"), INT64, n, "out")
        self.ordered = Buffer(self.names.name("ordered"), INT64, n, "in")
        self.numbers = Buffer(self.names.name("numbers"), INT64, n, "in")

    def kernels(self) -> Sorted:
        """Both of them."""
        first, second = self._keys(), self._runs()
        return Sorted(first, second, self.keys, self.ordered, self.numbers)

    def _kernel(self, loops: list[Loop], body: Body, more: tuple[Buffer, ...]) -> Kernel:
        return part_of(self.found.kernel, (rebuild(loops, body),), more)

    # --- keys

    def _keys(self) -> Kernel:
        """parallel updates: store the first place that it updates, or LAST if it does not."""
        store, updates = self.found.store, self.found.updates
        own = self._of_columns(store.index)
        terms = tuple([t for t in store.index.terms if t not in own])
        out = Lines(self.names, self.found.scalars)
        key = out.index(Affine(store.index.const, terms), INT64)
        key = self._plus(out, key, store.scatter)
        if store.predicate is not None:
            key = out.op("select", (store.predicate, key, out.number(LAST, INT64)), INT64)
        place = row_major([(loop.axis, loop.extent) for loop in updates])
        out.body.append(Store(self.keys.name, place, key))
        loops = [loop._replace(kind="parallel") for loop in updates]
        return self._kernel(loops, tuple(out.body), (self.keys,))

    def _of_columns(self, index: Affine) -> tuple[tuple[str, int], ...]:
        """The terms of the columns in an index."""
        own = {loop.axis for loop in self.found.columns}
        return tuple([t for t in index.terms if t[0] in own])

    def _plus(self, out: Lines, total: int, terms: tuple[tuple[int, int], ...]) -> int:
        """total + sum(stride * value)"""
        for value, stride in terms:
            part = out.op("mul", (value, out.number(stride, INT64)), INT64)
            total = out.op("add", (total, part), INT64)
        return total

    # --- runs of equal keys

    def _runs(self) -> Kernel:
        """parallel position, columns: where a run of keys begins, all its updates in order."""
        found, ordered = self.found, self.ordered.name
        axis = self.names.name("position")
        place = Affine(0, ((axis, 1),))
        out = Lines(self.names)
        key, at = out.load(ordered, place), out.index(place, INT64)
        is_later = out.op("gt", (at, out.number(0, INT64)), BOOL)
        before = out.load(ordered, Affine(-1, ((axis, 1),)), (), is_later, FIRST)
        real = out.op("lt", (key, out.number(LAST, INT64)), BOOL)
        head = out.op("ne", (key, before), BOOL)
        head = out.op("and", (head, real), BOOL)
        total = self._walk(out, key, at, head)
        store = found.store._replace(
            index=Affine(0, self._of_columns(found.store.index)),
            value=total,
            scatter=((key, 1),),
            predicate=head,
        )
        loops = [Loop(axis, found.count, "parallel", ()), *found.columns]
        return self._kernel(loops, (*out.body, store), (self.ordered, self.numbers))

    def _walk(self, out: Lines, key: int, at: int, head: int) -> int:
        """A loop over a run; returns the id of what its updates come to."""
        found, names = self.found, self.names
        dtype = next(b.dtype for b in found.kernel.buffers if b.name == found.store.buffer)
        mode = found.store.mode
        total, here = names.name("total"), names.name("here")
        start = 0 if mode == "set" else identity(mode, dtype)
        out.body.append(Init(total, "carry" if mode == "set" else mode, dtype, start))
        out.body.append(Init(here, "carry", INT64, Ref(at)))
        end, one = out.number(found.count, INT64), out.number(1, INT64)
        turn = Lines(names)
        now = turn.read(here)
        inside = turn.op("lt", (now, end), BOOL)
        same = turn.load(self.ordered.name, Affine(0), ((now, 1),), inside, FIRST)
        goes = turn.op("and", (turn.op("eq", (same, key), BOOL), head), BOOL)
        turn.body.append(Break(turn.op("not", (goes,), BOOL)))
        number = turn.load(self.numbers.name, Affine(0), ((now, 1),))
        turn.body.append(Update(total, self._update(turn, number)))
        turn.body.append(Update(here, turn.op("add", (now, one), INT64)))
        out.body.append(Loop(names.name("run"), 1, "while", tuple(turn.body)))
        return out.read(total)

    def _update(self, out: Lines, number: int) -> int:
        """What the update of a number does in a column; returns the id of what it stores."""
        places = self._places(out, number)
        copier = self.names.copier()
        for s in copier.body((*self.found.scalars, *self.found.body)):
            if isinstance(s, Load):
                index, extra = _without(s.index, places)
                s = s._replace(index=index, gather=(*s.gather, *extra))
            elif isinstance(s, Index):
                s = self._index(out, s, places)
            out.body.append(s)
        return copier.use(self.found.store.value)

    def _places(self, out: Lines, number: int) -> dict[str, int]:
        """The value of each axis of the updates, for the update of a number."""
        places: dict[str, int] = {}
        updates, step = self.found.updates, 1
        for k, loop in reversed(list(enumerate(updates))):
            value = number
            if step > 1:
                value = out.op("floor_divide", (value, out.number(step, INT64)), INT64)
            if k:
                value = out.op("remainder", (value, out.number(loop.extent, INT64)), INT64)
            places[loop.axis] = value
            step *= loop.extent
        return places

    def _index(self, out: Lines, s: Index, places: dict[str, int]) -> Statement:
        """An index as a sum, where it depends on the update."""
        index, extra = _without(s.index, places)
        if not extra:
            return s
        total = self._plus(out, out.index(index, INT64), extra)
        return Op(s.id, "convert", (total,), s.dtype)


def _without(index: Affine, places: dict[str, int]) -> tuple[Affine, tuple[tuple[int, int], ...]]:
    """An index without the axes of the updates, and the terms that stand for them."""
    kept = tuple([t for t in index.terms if t[0] not in places])
    return Affine(index.const, kept), tuple([(places[a], n) for a, n in index.terms if a in places])
