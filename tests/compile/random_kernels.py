"""Random kernels of six kinds: their loops, layouts, dtypes and sizes are drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from kernel_oracle import fill, row_major

from fgrad.compile.kernel.ir import (
    Affine,
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
    Store,
    Update,
)

DTYPES = [np.dtype(c) for c in ("f4", "f8", "f4", "f8", "i4", "i8", "u1", "i2", "bool", "u4", "f2")]
EXTENTS = [1, 2, 3, 5, 8, 16, 17, 31, 33, 100]
STATES = [1, 2, 3, 4, 5, 6, 9]  # numbers of state variables
BOOL, I64 = np.dtype(bool), np.dtype("i8")


class Maker:
    """Draws the parts of a random kernel."""

    def __init__(
        self,
        seed: int,
        extents: Sequence[int] = EXTENTS,
        limit: int = 3000,
        states: Sequence[int] = STATES,
    ) -> None:
        self.extents, self.limit, self.states = extents, limit, states
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.next = 0
        self.buffers: list[Buffer] = []
        self.arrays: list[np.ndarray] = []

    def id(self) -> int:
        self.next += 1
        return self.next - 1

    def shape(self, rank: int, limit: int | None = None) -> list[int]:
        while True:
            shape = [self.rng.choice(self.extents) for _ in range(rank)]
            if np.prod(shape) <= (limit or self.limit):
                return shape

    def buffer(self, dtype: np.dtype, size: int, role: str) -> str:
        name = f"b{len(self.buffers)}"
        self.buffers.append(Buffer(name, dtype, size, role))
        self.arrays.append(fill(self.data, size, dtype))
        return name

    def layout(self, axes: list[tuple[str, int]], disjoint: bool) -> tuple[Affine, int]:
        """A random affine map of the axes and the size of the buffer that it needs."""
        order = self.rng.sample(range(len(axes)), len(axes)) if self.rng.random() < 0.5 else None
        order = order or list(range(len(axes)))
        pad = self.rng.choice([1, 1, 1, 2])
        sizes = [axes[k][1] for k in order]
        strides = [s * pad for s in row_major(tuple(sizes))]
        const, high, terms = self.rng.choice([0, 0, 3]), 0, []
        for k, stride in zip(order, strides, strict=True):
            name, extent = axes[k]
            if not disjoint and self.rng.random() < 0.2:
                continue
            reach = stride * (extent - 1)
            high += reach
            if self.rng.random() < 0.15:
                stride, const = -stride, const + reach
            terms.append((name, stride))
        size = high + 1 + (const if not any(s < 0 for _, s in terms) else 0) + 3
        return Affine(const, tuple(sorted(terms))), size

    def load(self, axes: list[tuple[str, int]], dtype: np.dtype) -> Load:
        index, size = self.layout(axes, False)
        return Load(self.id(), self.buffer(dtype, size, "in"), index)

    def ops(self, pool: dict[int, np.dtype], count: int) -> list:
        """Random operations on the values in `pool`, which they join."""
        out = []
        for _ in range(count):
            a = self.rng.choice(list(pool))
            dtype = pool[a]
            same = [v for v, d in pool.items() if d == dtype]
            b = self.rng.choice(same)
            if dtype.kind == "f":
                names = ["add", "mul", "sub", "max", "min", "neg", "abs", "lt", "convert", "isnan"]
            elif dtype.kind == "b":
                names = ["and", "or", "xor", "not", "convert", "eq"]
            else:
                names = ["add", "mul", "max", "min", "and", "xor", "le", "convert"]
            op, args, result = self.rng.choice(names), (a, b), dtype
            if op in ("neg", "abs", "not", "convert", "isnan"):
                args = (a,)
            if op == "convert":
                targets = [d for d in DTYPES if dtype.kind != "f" or d.kind == "f"]
                result = self.rng.choice(targets)
            if op in ("lt", "le", "eq", "isnan"):
                result = BOOL
            bools = [v for v, d in pool.items() if d == BOOL]
            if bools and self.rng.random() < 0.2:
                op, args, result = "select", (self.rng.choice(bools), a, b), dtype
            new = Op(self.id(), op, args, result)
            out.append(new)
            pool[new.id] = result
        return out

    def values(self, axes: list[tuple[str, int]], count: int) -> tuple[list, dict[int, np.dtype]]:
        """Loads, constants, indices and operations on them."""
        body, pool = [], {}
        for _ in range(count):
            s = self.load(axes, self.rng.choice(DTYPES))
            body.append(s)
            pool[s.id] = self.buffers[-1].dtype
        if self.rng.random() < 0.4:
            dtype = self.rng.choice(DTYPES)
            body.append(Const(self.id(), dtype.type(2).item(), dtype))
            pool[body[-1].id] = dtype
        if self.rng.random() < 0.3:
            index, _ = self.layout(axes, False)
            dtype = self.rng.choice([I64, np.dtype("i4"), np.dtype("f4")])
            body.append(Index(self.id(), index, dtype))
            pool[body[-1].id] = dtype
        if self.rng.random() < 0.3:
            body += self.predicated(axes, pool)
        body += self.ops(pool, self.rng.randrange(1, 8))
        return body, pool

    def predicated(self, axes: list[tuple[str, int]], pool: dict[int, np.dtype]) -> list:
        """A load that leaves its buffer where its predicate is false."""
        axis, extent = self.rng.choice(axes)
        dtype = self.rng.choice(DTYPES)
        where = Index(self.id(), Affine(0, ((axis, 1),)), I64)
        limit = Const(self.id(), max(1, extent // 2), I64)
        predicate = Op(self.id(), "lt", (where.id, limit.id), BOOL)
        name = self.buffer(dtype, max(1, extent // 2), "in")
        load = Load(
            self.id(), name, Affine(0, ((axis, 1),)), (), predicate.id, dtype.type(1).item()
        )
        pool[load.id] = dtype
        return [where, limit, predicate, load]

    def store(self, axes: list[tuple[str, int]], value: int, dtype: np.dtype) -> Store:
        index, size = self.layout(axes, True)
        return Store(self.buffer(dtype, size, "out"), index, value)

    def finish(self, body: list) -> Kernel:
        return Kernel("k", tuple(self.buffers), tuple(body))


def nest(axes: list[tuple[str, int]], kind: str, body: list) -> list:
    for axis, extent in reversed(axes):
        body = [Loop(axis, extent, kind, tuple(body))]
    return body


def elementwise(m: Maker) -> Kernel:
    axes = list(zip("ijk", m.shape(m.rng.randrange(1, 4)), strict=False))
    body, pool = m.values(axes, m.rng.randrange(1, 4))
    for value in m.rng.sample(list(pool), min(len(pool), 2)):
        body.append(m.store(axes, value, pool[value]))
    return m.finish(nest(axes, "parallel", body))


def reduction(m: Maker) -> Kernel:
    shape = m.shape(m.rng.randrange(1, 4))
    axes = list(zip("ijk", shape, strict=False))
    reduced = [a for a in axes if m.rng.random() < 0.6] or axes[-1:]
    kept = [a for a in axes if a not in reduced]
    body, pool = m.values(axes, m.rng.randrange(1, 3))
    before, updates, after = [], [], []
    for k in range(m.rng.randrange(1, 3)):
        value = m.rng.choice(list(pool))
        dtype = pool[value]
        ops = ["and", "or"] if dtype.kind == "b" else ["add", "max", "min"]
        start = dtype.type(m.rng.choice([0, 0, 1])).item()
        before.append(Init(f"s{k}", m.rng.choice(ops), dtype, start))
        updates.append(Update(f"s{k}", value))
        after.append(Read(m.id(), f"s{k}"))
        after.append(m.store(kept, after[-1].id, dtype))
    inner = nest(reduced, "reduce", body + updates)
    return m.finish(nest(kept, "parallel", before + inner + after))


def scan(m: Maker) -> Kernel:
    """A serial loop with carries inside parallel loops, its states stored on the way."""
    kept = list(zip("ij", m.shape(m.rng.randrange(0, 3), 100), strict=False))
    time = ("t", m.rng.choice([1, 3, 17]))
    dtype = m.rng.choice([np.dtype("f4"), np.dtype("f8"), np.dtype("i4")])
    load = m.load([*kept, time], dtype)
    state, half = Read(m.id(), "c"), Const(m.id(), dtype.type(0.5).item(), dtype)
    new = Op(m.id(), "mul", (state.id, half.id), dtype)
    total = Op(m.id(), "add", (new.id, load.id), dtype)
    step = [
        load,
        state,
        half,
        new,
        total,
        Update("c", total.id),
        m.store([*kept, time], total.id, dtype),
    ]
    start = Const(m.id(), dtype.type(1).item(), dtype)
    last = Read(m.id(), "c")
    body = [start, Init("c", "carry", dtype, Ref(start.id)), *nest([time], "serial", step)]
    body += [last, m.store(kept, last.id, dtype)]
    return m.finish(nest(kept, "parallel", body))


def gather_scatter(m: Maker) -> Kernel:
    n, table, width = m.rng.choice(m.extents), 11, m.rng.choice([1, 3, 16, 20])
    dtype = m.rng.choice(DTYPES)
    rows = m.buffer(I64, n, "in")
    m.arrays[-1][:] = m.data.integers(0, table, n)
    source, target = m.buffer(dtype, table * width, "in"), m.buffer(dtype, table * width, "inout")
    out = m.buffer(dtype, n * width, "out")
    row = Load(m.id(), rows, Affine(0, (("i", 1),)))
    taken = Load(m.id(), source, Affine(0, (("j", 1),)), ((row.id, width),))
    index = Affine(0, (("i", width), ("j", 1)))
    mode = m.rng.choice(["set", "add", "max"]) if dtype.kind != "b" else "set"
    body = [row, taken, Store(out, index, taken.id)]
    take = nest([("i", n), ("j", width)], "parallel", body)
    again = Load(m.id(), rows, Affine(0, (("i", 1),)))
    value = Load(m.id(), out, index)
    put = Store(target, Affine(0, (("j", 1),)), value.id, ((again.id, width),), mode)
    put_all = nest([("i", n)], "serial", nest([("j", width)], "parallel", [again, value, put]))
    return m.finish(take + put_all)


def passes_over_scratch(m: Maker) -> Kernel:
    """Rows are read, kept in a private scratch row, reduced and written: as softmax does."""
    rows, columns = m.rng.choice([1, 2, 9, 40]), m.rng.choice(m.extents)
    dtype = m.rng.choice([np.dtype("f4"), np.dtype("f8"), np.dtype("i4")])
    axes = [("i", rows), ("j", columns)]
    source = m.load(axes, dtype)
    m.buffers.append(Buffer("tmp", dtype, columns, "scratch"))
    keep = Store("tmp", Affine(0, (("j", 1),)), source.id)
    first = [source, keep, Update("s", source.id)]
    total, again = Read(m.id(), "s"), Load(m.id(), "tmp", Affine(0, (("k", 1),)))
    shared = Load(m.id(), "tmp", Affine(m.rng.randrange(columns)))
    some = Op(m.id(), "add", (total.id, shared.id), dtype)
    shifted = Op(m.id(), "sub", (again.id, some.id), dtype)
    store = m.store([("i", rows), ("k", columns)], shifted.id, dtype)
    body = [
        Init("s", "max", dtype, dtype.type(-3).item()),
        *nest([("j", columns)], "reduce", first),
    ]
    body += [total, *nest([("k", columns)], "parallel", [again, shared, some, shifted, store])]
    return m.finish(nest([("i", rows)], "parallel", body))


def small_state(m: Maker) -> Kernel:
    """A serial loop over a few state variables in scratch memory, as small solvers make."""
    size = m.rng.choice(m.states)
    dtype = m.rng.choice([np.dtype("f4"), np.dtype("f8"), np.dtype("i4"), np.dtype("bool")])
    source = m.buffer(dtype, size, "in")
    m.buffers += [Buffer(n, dtype, size, "scratch") for n in ("old", "new")]

    def copy(axis: str, target: str, origin: str) -> Loop:
        index = Affine(0, ((axis, 1),))
        load = Load(m.id(), origin, index)
        return Loop(axis, size, "parallel", (load, Store(target, index, load.id)))

    begin = copy("a", "old", source)
    i, reverse = ("i", 1), ("i", -1)
    loads = [
        Load(m.id(), "old", Affine(0, (i,))),
        Load(m.id(), "old", Affine(size - 1, (reverse,))),
        Load(m.id(), "old", Affine(m.rng.randrange(size), ())),
    ]
    pool = {s.id: dtype for s in loads}
    ops = m.ops(pool, 5)
    value = m.rng.choice([v for v, d in pool.items() if d == dtype])
    index = m.rng.choice([Affine(0, (i,)), Affine(size - 1, (reverse,))])
    step = Loop("i", size, "parallel", (*loads, *ops, Store("new", index, value)))
    back = copy("b", "old", "new")
    out = m.buffer(dtype, size * 7, "out")
    last = Load(m.id(), "new", Affine(0, (("c", 1),)))
    keep = Store(out, Affine(0, (("c", 1), ("t", size))), last.id)
    log = Loop("c", size, "parallel", (last, keep))
    return m.finish([begin, Loop("t", 7, "serial", (step, back, log))])


KINDS: dict[str, Callable[[Maker], Kernel]] = {
    "elementwise": elementwise,
    "reduction": reduction,
    "scan": scan,
    "gather_scatter": gather_scatter,
    "passes_over_scratch": passes_over_scratch,
    "small_state": small_state,
}
