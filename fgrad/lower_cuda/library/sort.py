"""L6. Sorting on the device: rows stably and in NumPy's order, greatest elements, bisection.

    raw bits -> (key, place)    keys are unsigned numbers in sorting order; no two pairs are equal
    chunk    bitonic network in shared memory; each block has as many rows as fit
    merge    each element of a run looks for its rank in the run beside it
    gather   elements and payloads by their places

Of long rows chunks are sorted first, then runs are merged in pairs; for the greatest elements only
the first of each chunk are kept, until one chunk is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.text import INFINITY
from fgrad.compile.tasks.routines import RowSearch, RowSort, RowTop
from fgrad.lower_cuda.emit.calls import Address, Call, Calls, KernelCall
from fgrad.lower_cuda.emit.machine import THREADS
from fgrad.lower_cuda.emit.text import BodyText, Pointer

CHUNK = 4096  # pairs that fit into 48 KB of shared memory, whatever their keys
SMALL = 1024  # pairs that a block sorts where rows are short
LAST = 2**31 - 1  # the place of what only fills a chunk


def word(nbytes: int) -> str:
    """The type in which elements are moved."""
    return "<2 x i64>" if nbytes == 16 else f"i{8 * nbytes}"


def ordered_key(body: BodyText, raw: str, dtype: np.dtype) -> str:
    """The number of raw bits in sorting order: -0.0 as 0.0, and NaN as the greatest."""
    size = 8 * dtype.itemsize
    kind, sign = f"i{size}", -(1 << (size - 1))
    if dtype.kind in "ub":
        return raw
    if dtype.kind == "i":
        return body.op("xor", kind, raw, sign)
    magnitude = body.op("and", kind, raw, (1 << (size - 1)) - 1)
    nan = body.compare("ugt", kind, magnitude, INFINITY[dtype.itemsize])
    raw = body.select(body.compare("eq", kind, raw, sign), kind, 0, raw)
    high = body.op("ashr", kind, raw, size - 1)
    key = body.op("xor", kind, raw, body.op("or", kind, high, sign))
    return body.select(nan, kind, -1, key)


# --- calls ----------------------------------------------------------------------------------------


class Task(NamedTuple):
    """What is sorted: `rows` rows of `columns` elements, or with `down` in descending order."""

    dtype: np.dtype
    rows: int
    columns: int
    down: bool = False

    @property
    def key(self) -> str:
        """The type of a key."""
        return f"i{8 * self.dtype.itemsize}"


def sort_calls(spec: RowSort) -> Calls:
    """The calls of a sort.

    Buffers: keys, payloads that are not positions, sorted keys if wanted, sorted payloads.
    """
    task = Task(spec.dtype, spec.rows, spec.columns)
    sources, moved = [Address(0)], []
    target = len(spec.inputs)
    if spec.keys_out:
        moved.append((Address(0), Address(target), spec.dtype.itemsize))
        target += 1
    for payload in spec.payloads:
        if payload is None:
            moved.append((None, Address(target), 8))
        else:
            sources.append(Address(len(sources)))
            moved.append((sources[-1], Address(target), payload.itemsize))
        target += 1
    return _sorted(task, spec.columns, moved, target)


def with_work(spec: RowSort, buffers: int) -> Calls:
    """The calls of a sort whose step has work memory of its own behind its buffers, or not."""
    calls = sort_calls(spec)
    extra = buffers - len(spec.inputs) - len(spec.outputs)
    return _moved_up(calls, len(spec.inputs) + len(spec.outputs), extra) if extra else calls


def _moved_up(calls: Calls, first: int, by: int) -> Calls:
    """The same calls where scratch areas have other numbers."""

    def moved(place: Address) -> Address:
        return place._replace(number=place.number + by) if place.number >= first else place

    kernels = [c for c in calls.calls if isinstance(c, KernelCall)]
    return calls._replace(
        calls=tuple([c._replace(places=tuple(map(moved, c.places))) for c in kernels])
    )


def top_calls(spec: RowTop) -> Calls:
    """The calls of a selection; buffers: rows, values, places."""
    task = Task(spec.dtype, spec.rows, spec.columns, True)
    moved = [(Address(0), Address(1), spec.dtype.itemsize), (None, Address(2), 8)]
    return _sorted(task, spec.count, moved, 3)


Moved = Sequence["tuple[Address | None, Address, int]"]  # from where, to where, bytes of an element


def _sorted(task: Task, count: int, moved: Moved, scratch: int) -> Calls:
    """The first `count` of each row in order; `scratch` is the number of the first scratch area."""
    if task.columns > LAST:
        raise ValueError("rows of 2^31 elements and more are not sorted")
    calls: list[Call] = []
    sizes: list[int] = []

    def pairs(length: int) -> tuple[Address, Address]:
        """Scratch memory for the keys and places of rows of a length."""
        sizes.extend([length * task.rows * task.dtype.itemsize, length * task.rows * 4])
        return Address(scratch + len(sizes) - 2), Address(scratch + len(sizes) - 1)

    source: tuple[Address, ...] = (Address(0),)
    columns = task.columns
    selects = 2 * count <= CHUNK
    while True:
        chunk = min(CHUNK, max(2, 1 << (columns - 1).bit_length()))
        chunks = -(-columns // chunk)
        kept = count if chunks == 1 else (min(count, chunk) if selects else chunk)
        length = kept if chunks == 1 else (chunks * kept if selects else columns)
        target = pairs(length)
        calls.append(_chunk_call(task, columns, chunk, kept, length, source, target))
        source, columns = target, length
        if chunks == 1 or not selects:
            break
    run = CHUNK
    while not selects and run < columns:
        target = pairs(columns) if len(sizes) < 4 else _other(source, scratch)
        calls.append(_merge_call(task, run, source, target))
        source, run = target, 2 * run
    calls.append(_gather_call(task, columns, count, source[1], moved))
    return Calls(tuple(calls), tuple(sizes))


def _other(pairs: tuple[Address, ...], scratch: int) -> tuple[Address, Address]:
    """Of two pairs of scratch areas the other one."""
    first = 2 if pairs[0].number == scratch else 0
    return Address(scratch + first), Address(scratch + first + 1)


# --- chunks ---------------------------------------------------------------------------------------


def _chunk_call(
    task: Task,
    columns: int,
    chunk: int,
    kept: int,
    length: int,
    source: tuple[Address, ...],
    target: tuple[Address, ...],
) -> KernelCall:
    """Sort each chunk of rows of `columns` elements, and keep its first `kept` pairs: in rows of
    `length` pairs."""
    per_block = max(1, SMALL // chunk)
    pairs = per_block * chunk
    threads = max(32, min(512, pairs // 2))
    sorter = _Chunk(task, columns, chunk, kept, length, pairs, threads)
    chunks = task.rows * -(-columns // chunk)
    body = sorter.text(len(source) == 2)
    return KernelCall(body, -(-chunks // per_block), (threads, 1), (*source, *target))


class _Chunk:
    """Writes the sorting of chunks in shared memory."""

    def __init__(
        self,
        task: Task,
        columns: int,
        chunk: int,
        kept: int,
        length: int,
        pairs: int,
        threads: int,
    ) -> None:
        self.task, self.columns, self.chunk = task, columns, chunk
        self.kept, self.length = kept, length
        self.pairs, self.threads = pairs, threads
        self.chunks = -(-columns // chunk)
        self.body = BodyText()
        self.keys = self.body.shared("keys", task.key, pairs)
        self.places = self.body.shared("places", "i32", pairs)

    def text(self, has_places: bool) -> str:
        """The body.  Buffers: elements, or keys and places; then the keys and places to write."""
        body, key = self.body, self.task.key
        inputs = [body.pointer(k, kind) for k, kind in enumerate((key, "i32")[: 1 + has_places])]
        outputs = [body.pointer(len(inputs) + k, kind) for k, kind in enumerate((key, "i32"))]
        self._read(inputs)
        body.barrier()
        self._network()
        self._write(outputs)
        return body.finish(len(inputs) + 2)

    def _place(self, e: str) -> tuple[str, str, str]:
        """Of pair e: the row, the chunk of the row, and the number in the chunk."""
        body = self.body
        own = body.op("udiv", "i32", e, self.chunk)
        item = body.op("mul", "i64", body.wide("%block"), self.pairs // self.chunk)
        item = body.op("add", "i64", item, body.wide(own))
        row = body.op("udiv", "i64", item, self.chunks)
        chunk = body.op("urem", "i64", item, self.chunks)
        return row, chunk, body.wide(body.op("urem", "i32", e, self.chunk))

    def _read(self, inputs: list[Pointer]) -> None:
        """Shared memory := pairs; behind the end of a row are the greatest ones."""
        body, key = self.body, self.task.key
        with body.count("%x", self.pairs, self.threads, "i32") as e:
            row, chunk, number = self._place(e)
            column = body.op("add", "i64", body.op("mul", "i64", chunk, self.chunk), number)
            body.store(-1, self.keys, e, "i32")
            body.store(LAST, self.places, e, "i32")
            inside = body.compare("slt", "i64", column, self.columns)
            has_row = body.compare("slt", "i64", row, self.task.rows)
            with body.when(body.op("and", "i1", inside, has_row)):
                at = body.op("mul", "i64", row, self.columns)
                at = body.op("add", "i64", at, column)
                value = body.load(inputs[0], at)
                if len(inputs) == 1:
                    value = ordered_key(body, value, self.task.dtype)
                    if self.task.down:
                        value = body.op("xor", key, value, -1)
                    place = body.cast("trunc", "i64", column, "i32")
                else:
                    place = body.load(inputs[1], at)
                body.store(value, self.keys, e, "i32")
                body.store(place, self.places, e, "i32")

    def _network(self) -> None:
        """For sizes 2, 4, ... and strides size / 2, ... 1: order pairs that are a stride apart."""
        body = self.body
        size = body.variable("i32", 2)
        with body.repeat(lambda: body.compare("ule", "i32", body.get(size), self.chunk)):
            now = body.get(size)
            stride = body.variable("i32", body.op("lshr", "i32", now, 1))
            with body.repeat(lambda: body.compare("ne", "i32", body.get(stride), 0)):
                with body.count("%x", self.pairs // 2, self.threads, "i32") as p:
                    self._exchange(p, body.get(stride), now)
                body.barrier()
                body.put(stride, body.op("lshr", "i32", body.get(stride), 1))
            body.put(size, body.op("shl", "i32", now, 1))

    def _exchange(self, p: str, stride: str, size: str) -> None:
        """Order the p-th pair of elements."""
        body, key = self.body, self.task.key
        low = body.op("and", "i32", p, body.op("sub", "i32", stride, 1))
        a = body.op("sub", "i32", body.op("shl", "i32", p, 1), low)
        b = body.op("add", "i32", a, stride)
        inside = body.op("and", "i32", a, self.chunk - 1)
        up = body.compare("eq", "i32", body.op("and", "i32", inside, size), 0)
        (ka, pa), (kb, pb) = (
            (body.load(self.keys, e, "i32"), body.load(self.places, e, "i32")) for e in (a, b)
        )
        greater = before(body, key, (kb, pb), (ka, pa))
        with body.when(body.compare("eq", "i1", greater, up)):
            for e, k, place in ((a, kb, pb), (b, ka, pa)):
                body.store(k, self.keys, e, "i32")
                body.store(place, self.places, e, "i32")

    def _write(self, outputs: list[Pointer]) -> None:
        """The first pairs of each chunk."""
        body = self.body
        with body.count("%x", self.pairs, self.threads, "i32") as e:
            row, chunk, number = self._place(e)
            column = body.op("add", "i64", body.op("mul", "i64", chunk, self.kept), number)
            inside = body.compare("slt", "i64", number, self.kept)
            inside = body.op("and", "i1", inside, body.compare("slt", "i64", column, self.length))
            has_row = body.compare("slt", "i64", row, self.task.rows)
            with body.when(body.op("and", "i1", inside, has_row)):
                at = body.op("add", "i64", body.op("mul", "i64", row, self.length), column)
                for shared, out in zip((self.keys, self.places), outputs, strict=True):
                    body.store(body.load(shared, e, "i32"), out, at)


def before(body: BodyText, key: str, a: tuple[str, str], b: tuple[str, str]) -> str:
    """Whether pair a comes before pair b."""
    less = body.compare("ult", key, a[0], b[0])
    same = body.compare("eq", key, a[0], b[0])
    first = body.compare("slt", "i32", a[1], b[1])
    return body.op("or", "i1", less, body.op("and", "i1", same, first))


# --- merging and gathering ------------------------------------------------------------------------


def _merge_call(
    task: Task, run: int, source: tuple[Address, ...], target: tuple[Address, ...]
) -> KernelCall:
    """Merge sorted runs of a length in pairs: an element's place is its number in its run and its
    rank in the other one."""
    body, key, n = BodyText(), task.key, task.columns
    keys, places = body.pointer(0, key), body.pointer(1, "i32")
    keys_out, places_out = body.pointer(2, key), body.pointer(3, "i32")
    number = body.number(THREADS)
    with body.when(body.compare("slt", "i64", number, task.rows * n)):
        row = body.op("mul", "i64", body.op("udiv", "i64", number, n), n)
        column = body.op("sub", "i64", number, row)
        own_run = body.op("udiv", "i64", column, run)
        start = body.op("mul", "i64", body.op("xor", "i64", own_run, 1), run)
        start = body.least("i64", start, n)
        end = body.least("i64", body.op("add", "i64", start, run), n)
        own = body.load(keys, number), body.load(places, number)
        lo, hi = body.variable("i64", start), body.variable("i64", end)
        with body.repeat(lambda: body.compare("slt", "i64", body.get(lo), body.get(hi))):
            middle = body.op("add", "i64", body.get(lo), body.get(hi))
            middle = body.op("lshr", "i64", middle, 1)
            at = body.op("add", "i64", row, middle)
            less = before(body, key, (body.load(keys, at), body.load(places, at)), own)
            after = body.op("add", "i64", middle, 1)
            body.put(lo, body.select(less, "i64", after, body.get(lo)))
            body.put(hi, body.select(less, "i64", body.get(hi), middle))
        # The pair of runs begins at the even one.
        rank = body.op("sub", "i64", body.get(lo), start)
        is_right = body.op("and", "i64", own_run, 1)
        at = body.op("sub", "i64", column, body.op("mul", "i64", is_right, run))
        at = body.op("add", "i64", row, body.op("add", "i64", at, rank))
        body.store(own[0], keys_out, at)
        body.store(own[1], places_out, at)
    grid = -(-task.rows * n // THREADS)
    return KernelCall(body.finish(4), grid, (THREADS, 1), (*source, *target))


def _gather_call(task: Task, length: int, count: int, order: Address, moved: Moved) -> KernelCall:
    """The first `count` elements of each row in order; places are in rows of a length."""
    body = BodyText()
    places = [order]
    numbers = body.pointer(0, "i32")
    e = body.number(THREADS)
    with body.when(body.compare("slt", "i64", e, task.rows * count)):
        row = body.op("udiv", "i64", e, count)
        at = body.op("mul", "i64", row, length)
        at = body.op("add", "i64", at, body.op("urem", "i64", e, count))
        place = body.wide(body.load(numbers, at))
        from_row = body.op("mul", "i64", row, task.columns)
        from_row = body.op("add", "i64", from_row, place)
        for source, target, nbytes in moved:
            kind, align = word(nbytes), min(nbytes, 8)
            value = place
            if source is not None:
                value = body.load(body.pointer(len(places), kind), from_row, align=align)
                places.append(source)
            body.store(value, body.pointer(len(places), kind), e, align=align)
            places.append(target)
    grid = -(-task.rows * count // THREADS)
    return KernelCall(body.finish(len(places)), grid, (THREADS, 1), tuple(places))


# --- bisection ------------------------------------------------------------------------------------


def search_calls(spec: RowSearch) -> Calls:
    """The calls of a search; buffers: table, elements, places."""
    body, kind = BodyText(), f"i{8 * spec.dtype.itemsize}"
    table, elements = body.pointer(0, kind), body.pointer(1, kind)
    e = body.number(THREADS)
    with body.when(body.compare("slt", "i64", e, spec.rows * spec.columns)):
        value = ordered_key(body, body.load(elements, e), spec.dtype)
        row = body.op("udiv", "i64", e, spec.columns)
        own = body.at(table, body.op("mul", "i64", row, spec.table))
        lo, hi = body.variable("i64", 0), body.variable("i64", spec.table)
        with body.repeat(lambda: body.compare("slt", "i64", body.get(lo), body.get(hi))):
            middle = body.op("add", "i64", body.get(lo), body.get(hi))
            middle = body.op("lshr", "i64", middle, 1)
            probed = ordered_key(body, body.load(own, middle), spec.dtype)
            comes = body.compare("ule" if spec.right else "ult", kind, probed, value)
            after = body.op("add", "i64", middle, 1)
            body.put(lo, body.select(comes, "i64", after, body.get(lo)))
            body.put(hi, body.select(comes, "i64", body.get(hi), middle))
        body.store(body.get(lo), body.pointer(2, "i64"), e)
    grid = -(-spec.rows * spec.columns // THREADS)
    places = tuple([Address(k) for k in range(3)])
    return Calls((KernelCall(body.finish(3), grid, (THREADS, 1), places),))
