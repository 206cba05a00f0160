"""L5. Radix sort of long rows: keys as integers in sorting order, one digit at a time.

A row becomes records in work memory: the key, whose bits are changed so that unsigned integers have
the order of the elements, and with payloads the position below it.  Records move, in order, to the
places of a digit, from the last digit that counts to the first: that is stable, with NaN last.

Bits above the first one in which keys differ are left out.  Of the others only as many leading ones
are sorted by as a row of random numbers needs to be nearly in order; insertion does the rest.  It
gives up after a few moves for each element, and then all bits are sorted by.

Without positions equal keys cannot be told apart, except for zeros of both signs and different NaN:
where there are any, these are written once more in the order that they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.compile.cpu.rows.insertion import make_room
from fgrad.compile.cpu.rows.keys import Keys, piece_rows
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import INFINITY, memory_type
from fgrad.compile.tasks.routines import RowSort
from fgrad.ir.aval import INT64

UNROLL = 4
BUDGET = 4  # moves for each element after which insertion gives up
LONG = 1 << 13  # elements from which digits have more than 8 bits


def emit_radix_sort(symbol: str, spec: RowSort) -> tuple[str, set[str]]:
    """The function; buffers: inputs, outputs, work memory; range: rows."""
    return _RadixSort(spec).emit(symbol)


class _RadixSort:
    """Writes the function."""

    def __init__(self, spec: RowSort) -> None:
        self.spec = spec
        self.code = Routine()
        self.keys = Keys(self.code, spec.dtype)
        size, self.bytes = spec.dtype.itemsize, spec.record_bytes
        self.key = self.keys.kind
        self.whole = f"i{8 * min(self.bytes, 8)}"  # the part of a record that is compared
        self.record = "<2 x i64>" if self.bytes == 16 else self.whole
        self.align = min(self.bytes, 8)
        self.shift = 32 if spec.payloads and size < 8 else 0  # of the key in its record
        # Wider digits need fewer walks, but their places outgrow the cache of addresses.
        long_digit = 10 if self.bytes >= 8 else 9
        self.bits = min(8 * size, long_digit if spec.columns >= LONG else 8)

    def emit(self, symbol: str) -> tuple[str, set[str]]:
        """The text: for each row, make records, move them, write out."""
        code, spec = self.code, self.spec
        kinds = [memory_type(d) for d in spec.inputs + spec.outputs]
        bufs = [code.buffer(k) for k in range(len(kinds) + 1)]
        self.tables = [code.table("i32", 1 << self.bits) for _ in range(2)]
        with code.count("%lo", "%hi") as piece:
            first = code.at(bufs[-1], code.op("mul", "i64", piece, spec.piece_bytes), "i8")
            half = code.at(first, spec.piece_bytes // 2, "i8")
            for start in piece_rows(code, spec, piece):
                rows = [code.at(b, start, kind) for b, kind in zip(bufs[:-1], kinds, strict=True)]
                self._row(rows, first, half if spec.payloads else rows[1])
        return code.define(symbol)

    def _row(self, rows: list[str], first: str, second: str) -> None:
        low, span, special = self._extent(rows[0])
        self._records(rows[0], low, first)
        source = self._sort(span, first, second)
        self._write(rows, low, source)
        if special is not None:
            with self.code.when(special):
                self._rewrite_equal(rows[0], rows[1])

    def _leading(self) -> int:
        """How many leading bits are sorted by first."""
        needed = self.spec.columns.bit_length() + 1
        if self.spec.dtype.kind == "f":  # the sign, and an exponent of which few are frequent
            needed += 9 if self.spec.dtype.itemsize > 2 else 6
        return min(-(-needed // self.bits) * self.bits, self.keys.size)

    # The walks over a row.

    @contextmanager
    def _vectors(self, lanes: int) -> Iterator[str]:
        """A walk over the row by vectors, of which the last one overlaps the one before it."""
        n = self.spec.columns
        with self.code.count(0, n, lanes) as i:
            last = ("i64", str(n - lanes))
            yield self.code.call("i64", "llvm.smin.i64", ("i64", i), last)

    def _extent(self, keys: str) -> tuple[str, str, str | None]:
        """The least key, the greatest less it, and whether equal elements have to be written
        again."""
        code, spec = self.code, self.spec
        size = spec.dtype.itemsize
        lanes = VECTOR_BYTES // size
        kind, suffix = f"<{lanes} x {self.key}>", f"v{lanes}{self.key}"
        watched = spec.dtype.kind == "f" and not spec.payloads
        seen = code.variable(kind, "zeroinitializer")
        least = code.variable(kind, f"splat ({self.key} -1)")
        most = code.variable(kind, "zeroinitializer")
        with self._vectors(lanes) as i:
            raw = code.load(kind, keys, i, size, self.key)
            value, special = self.keys.ordered(raw, lanes, bool(spec.payloads))
            for name, variable in (("umin", least), ("umax", most)):
                both = (kind, code.get(variable)), (kind, value)
                code.put(variable, code.call(kind, f"llvm.{name}.{suffix}", *both))
            if watched and special is not None:
                flags = code.cast("sext", f"<{lanes} x i1>", special, kind)
                code.put(seen, code.op("or", kind, code.get(seen), flags))

        def all_lanes(name: str, variable: str) -> str:
            lanes_of = (kind, code.get(variable))
            return code.call(self.key, f"llvm.vector.reduce.{name}.{suffix}", lanes_of)

        low = all_lanes("umin", least)
        span = code.op("sub", self.key, all_lanes("umax", most), low)
        if not watched:
            return low, span, None
        return low, span, code.compare("ne", self.key, all_lanes("or", seen), 0)

    def _records(self, keys: str, low: str, target: str) -> None:
        """Write the records, whose keys begin at 0."""
        code, spec = self.code, self.spec
        if self.bytes != 16:
            self._record_vectors(keys, low, target)
            return
        for i in code.unrolled(0, spec.columns, UNROLL):
            key, _ = self.keys.ordered(code.load(self.key, keys, i, 8), 1, True)
            key = code.op("sub", "i64", key, low)
            pair = code.emit(f"insertelement <2 x i64> poison, i64 {key}, i64 0")
            pair = code.emit(f"insertelement <2 x i64> {pair}, i64 {i}, i64 1")
            code.store(self.record, pair, target, i, 8)

    def _record_vectors(self, keys: str, low: str, target: str) -> None:
        """The same for records of one integer."""
        code, spec = self.code, self.spec
        lanes = VECTOR_BYTES // self.bytes
        kind, wide = f"<{lanes} x {self.key}>", f"<{lanes} x {self.record}>"
        first = code.splat(low, self.key, lanes)
        steps = "<" + ", ".join([f"i64 {k}" for k in range(lanes)]) + ">"
        with self._vectors(lanes) as i:
            raw = code.load(kind, keys, i, spec.dtype.itemsize, self.key)
            value = code.op(
                "sub", kind, self.keys.ordered(raw, lanes, bool(spec.payloads))[0], first
            )
            if spec.payloads:
                value = code.op("shl", wide, code.cast("zext", kind, value, wide), "splat (i64 32)")
                places = code.op("add", wide, code.splat(i, "i64", lanes), steps)
                value = code.op("or", wide, value, places)
            code.store(wide, value, target, i, self.align, self.record)

    def _key_at(self, base: str, i: str) -> str:
        """The integer at the head of a record."""
        if self.bytes == 16:
            return self.code.load("i64", base, i, 8, self.record)
        return self.code.load(self.record, base, i, self.align)

    def _digit(self, record: str, position: str) -> str:
        """A digit of a record's key, from the bit at a position of the record."""
        code = self.code
        shifted = code.op("lshr", self.whole, record, position)
        wide = code.cast("zext", self.whole, shifted, "i64")
        return code.op("and", "i64", wide, (1 << self.bits) - 1)

    def _sort(self, span: str, first: str, second: str) -> str:
        """Sort records with keys up to `span`; the variable that holds where they are."""
        code, size = self.code, self.keys.size
        source, target = code.variable("ptr", first), code.variable("ptr", second)
        name = f"llvm.ctlz.{self.key}"
        zeros = code.call(self.key, name, (self.key, span), ("i1", "false"))
        top = code.op("sub", "i64", size, code.cast("zext", self.key, zeros, "i64"))
        if self._leading() >= size:
            self._by_digits(source, target, "0", top)
            return source
        low = code.op("sub", "i64", top, self._leading())
        low = code.call("i64", "llvm.smax.i64", ("i64", low), ("i64", "0"))
        self._by_digits(source, target, low, top)
        with code.when(code.compare("sgt", "i64", low, 0)):
            budget = self._insert(code.get(source))
            with code.when(code.compare("slt", "i64", budget, 0)):
                self._by_digits(source, target, "0", top)
        return source

    def _by_digits(self, source: str, target: str, low: str, top: str) -> None:
        """Sort by the bits [low, top) of the keys; each walk counts the digits of the next one."""
        code = self.code
        counts, following = (code.variable("ptr", table) for table in self.tables)
        code.clear(self.tables[0], 4 << self.bits)
        first, old = self._position(low), code.get(source)
        for i in code.unrolled(0, self.spec.columns, UNROLL):
            self._count(self.tables[0], self._digit(self._key_at(old, i), first))
        with code.count(low, top, self.bits) as bit:
            upper = code.op("add", "i64", bit, self.bits)
            last = ("i64", str(self.keys.size - 1))
            upper = code.call("i64", "llvm.smin.i64", ("i64", upper), last)
            positions = self._position(bit), self._position(upper)
            places, counted = code.get(counts), code.get(following)
            old, new = code.get(source), code.get(target)
            code.clear(counted, 4 << self.bits)
            self._starts(places)
            for i in code.unrolled(0, self.spec.columns, UNROLL):
                record = code.load(self.record, old, i, self.align)
                key = self._integer(record)
                self._count(counted, self._digit(key, positions[1]))
                where = self._count(places, self._digit(key, positions[0]))
                where = code.cast("zext", "i32", where, "i64")
                code.store(self.record, record, new, where, self.align)
            for a, b in ((source, target), (counts, following)):
                held = code.get(a)
                code.put(a, code.get(b))
                code.put(b, held)

    def _position(self, bit: str) -> str:
        """Where a bit of the key is in a record."""
        position = self.code.op("add", "i64", bit, self.shift)
        if self.whole == "i64":
            return position
        return self.code.cast("trunc", "i64", position, self.whole)

    def _count(self, table: str, digit: str) -> str:
        """Add 1 to a digit's counter; what it was."""
        code = self.code
        place = code.at(table, digit, "i32")
        number = code.load("i32", place, 0, 4)
        code.store("i32", code.op("add", "i32", number, 1), place, 0, 4)
        return number

    def _starts(self, table: str) -> None:
        """Counts -> the place of the first record of each digit."""
        code = self.code
        total = code.variable("i32", "0")
        for i in code.unrolled(0, 1 << self.bits, UNROLL):
            number, before = code.load("i32", table, i, 4), code.get(total)
            code.store("i32", before, table, i, 4)
            code.put(total, code.op("add", "i32", before, number))

    def _integer(self, record: str) -> str:
        """What records are compared by."""
        if self.bytes != 16:
            return record
        return self.code.emit(f"extractelement <2 x i64> {record}, i64 0")

    def _insert(self, base: str) -> str:
        """Insertion sort of records that are nearly in order; negative if it has given up."""
        code, n = self.code, self.spec.columns
        budget, place = code.variable("i64", str(BUDGET * n)), code.variable("i64", "1")

        def goes_on() -> str:
            more = code.compare("slt", "i64", code.get(place), n)
            return code.op("and", "i1", more, code.compare("sge", "i64", code.get(budget), 0))

        hole = code.variable("i64", "0")
        with code.repeat(goes_on):
            i = code.get(place)
            record = code.load(self.record, base, i, self.align)
            key = self._integer(record)
            before = self._key_at(base, code.op("sub", "i64", i, 1))
            with code.when(code.compare("ugt", self.whole, before, key)):
                code.put(hole, i)
                self._make_room(base, hole, key)
                j = code.get(hole)
                code.store(self.record, record, base, j, self.align)
                spent = code.op("sub", "i64", i, j)
                code.put(budget, code.op("sub", "i64", code.get(budget), spent))
            code.put(place, code.op("add", "i64", i, 1))
        return code.get(budget)

    def _make_room(self, base: str, hole: str, key: str) -> None:
        """Move the greater records before a hole one place up."""
        code = self.code
        make_room(
            code, self.record, base, hole, self.align,
            lambda record: code.compare("ugt", self.whole, self._integer(record), key),
        )  # fmt: skip

    # The results.

    def _write(self, rows: list[str], low: str, source: str) -> None:
        """Write keys and payloads of a row."""
        code, spec = self.code, self.spec
        base = code.get(source)
        inputs, outputs = rows[: len(spec.inputs)], rows[len(spec.inputs) :]
        if not spec.payloads:
            self._write_keys(low, base, outputs[0])
            return
        for i in code.unrolled(0, spec.columns, UNROLL):
            if self.bytes == 16:
                place = code.load("i64", code.at(base, i, self.record), 1, 8)
            else:
                place = code.load("i64", base, i, 8)
                place = code.op("and", "i64", place, (1 << 32) - 1)
            given = [(spec.dtype, True)] * spec.keys_out
            given += [(p or INT64, p is not None) for p in spec.payloads]
            sources = iter(inputs if spec.keys_out else inputs[1:])
            for (dtype, is_read), target in zip(given, outputs, strict=True):
                kind, size = memory_type(dtype), dtype.itemsize
                value = code.load(kind, next(sources), place, size) if is_read else place
                code.store(kind, value, target, i, size)

    def _write_keys(self, low: str, base: str, target: str) -> None:
        """Records -> elements; they may be in the same place."""
        code, lanes = self.code, VECTOR_BYTES // self.bytes
        kind, whole = f"<{lanes} x {self.key}>", self.spec.columns // lanes * lanes
        first = code.splat(low, self.key, lanes)
        with code.count(0, whole, lanes) as i:
            keys = code.load(kind, base, i, self.align, self.key)
            keys = code.op("add", kind, keys, first)
            code.store(kind, self.keys.raw(keys, lanes), target, i, self.align, self.key)
        with code.count(whole, self.spec.columns) as i:
            key = code.op("add", self.key, code.load(self.key, base, i, self.align), low)
            code.store(self.key, self.keys.raw(key, 1), target, i, self.align)

    def _rewrite_equal(self, source: str, target: str) -> None:
        """Write zeros and NaN in the order that they came."""
        code, n, size = self.code, self.spec.columns, self.spec.dtype.itemsize
        sign, inf = 1 << (8 * size - 1), INFINITY[size]
        zeros, nans = code.variable("i64", "0"), code.variable("i64", str(n))

        def classes(i: str) -> tuple[str, str, str, str]:
            raw = code.load(self.key, source, i, size)
            magnitude = code.op("and", self.key, raw, sign - 1)
            negative = code.compare("slt", self.key, raw, 0)
            is_zero = code.compare("eq", self.key, magnitude, 0)
            return raw, negative, is_zero, code.compare("ugt", self.key, magnitude, inf)

        with code.count(0, n) as i:
            _, negative, is_zero, is_nan = classes(i)
            neither = code.op("xor", "i1", code.op("or", "i1", is_zero, is_nan), "true")
            below = code.cast("zext", "i1", code.op("and", "i1", negative, neither), "i64")
            code.put(zeros, code.op("add", "i64", code.get(zeros), below))
            step = code.cast("zext", "i1", is_nan, "i64")
            code.put(nans, code.op("sub", "i64", code.get(nans), step))
        with code.count(0, n) as i:
            raw, _, is_zero, is_nan = classes(i)
            for place, chosen in ((zeros, is_zero), (nans, is_nan)):
                with code.when(chosen):
                    at = code.get(place)
                    code.store(self.key, raw, target, at, size)
                    code.put(place, code.op("add", "i64", at, 1))
