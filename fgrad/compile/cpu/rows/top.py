"""L5. Native top-k of rows: two vectorised passes and a short sorted list.

A record is the element's key above the complement of its place, so that of equal elements the first
is the greatest.  The first pass takes the greatest key of each of some more than k groups of
elements; the k-th greatest of these is a bound: k elements reach it, and few more do in a random
row.  The second compares vectors with the bound, and inserts what reaches it into the list; the
full list's least key is a higher bound.  Without the first pass some k log(n / k) elements were
inserted, each with branches that nobody foresees.
"""

from __future__ import annotations

from fgrad.compile.cpu.rows.insertion import make_room
from fgrad.compile.cpu.rows.keys import Keys
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import INFINITY, element_type
from fgrad.compile.tasks.routines import RowTop

VECTORS = 4  # that are compared at a time
MOST_GROUPS = 128
CHAINS = 4  # of comparisons that do not wait for each other
IN_REGISTERS = 32  # records of 64 bits
WORTH = 4  # elements of a group from which on the first pass pays


def row_top(spec: RowTop) -> int:
    """The address of a step; buffers: rows, values, places; range: pieces."""
    return build_counted([Source(f"top {tuple(spec)}", lambda symbol: _Top(spec).emit(symbol))])[0]


class _Memory:
    """A list of records in memory, the greatest first; insertions move what is less."""

    def __init__(self, code: Routine, kind: str, count: int, align: int) -> None:
        self.code, self.kind, self.count, self.align = code, kind, count, align
        self.place = code.table(kind, count)

    def clear(self) -> None:
        """Fill the list with zeros."""
        with self.code.count(0, self.count) as i:
            self.code.store(self.kind, "0", self.place, i, self.align)

    def last(self) -> str:
        """The least record."""
        return self.code.load(self.kind, self.place, self.count - 1, self.align)

    def insert(self, record: str) -> None:
        """Put a record where it belongs, if that is before the last one, which is lost."""
        with self.code.when(self.code.compare("ugt", self.kind, record, self.last())):
            self._insert(record)

    def _insert(self, record: str) -> None:
        code, kind = self.code, self.kind
        at = code.variable("i64", str(self.count - 1))
        make_room(
            code, kind, self.place, at, self.align,
            lambda other: code.compare("ult", kind, other, record),
        )  # fmt: skip
        code.store(kind, record, self.place, code.get(at), self.align)

    def write(self) -> None:
        """It is in memory."""


class _Registers(_Memory):
    """A list of records of 64 bits in registers: new[j] = max(old[j], min(old[j - 1], record))."""

    def __init__(self, code: Routine, kind: str, count: int, align: int) -> None:
        super().__init__(code, kind, count, align)
        self.lanes = -(-count // 8) * 8
        self.vector = f"<{self.lanes} x {kind}>"
        self.place = code.table(kind, self.lanes)
        self.held = code.variable(self.vector, "zeroinitializer")

    def clear(self) -> None:
        """Fill the list with zeros."""
        self.code.put(self.held, "zeroinitializer")

    def last(self) -> str:
        """The least record."""
        held = self.code.get(self.held)
        return self.code.emit(f"extractelement {self.vector} {held}, i64 {self.count - 1}")

    def insert(self, record: str) -> None:
        """Put a record where it belongs; one that is less than the last one changes nothing."""
        code, vector, lanes = self.code, self.vector, self.lanes
        old, one = code.get(self.held), code.splat(record, self.kind, lanes)
        endless = f"splat ({self.kind} -1)"
        order = [lanes, *range(lanes - 1)]
        before = code.shuffled(old, endless, order, vector)
        name = f"v{lanes}{self.kind}"
        kept = code.call(vector, f"llvm.umin.{name}", (vector, before), (vector, one))
        code.put(self.held, code.call(vector, f"llvm.umax.{name}", (vector, old), (vector, kept)))

    def write(self) -> None:
        """Write the list into memory."""
        held = self.code.get(self.held)
        self.code.store(self.vector, held, self.place, 0, self.align, self.kind)


class _Top:
    """Writes the function."""

    def __init__(self, spec: RowTop) -> None:
        self.spec = spec
        self.code = code = Routine()
        self.size = spec.dtype.itemsize
        self.lanes = 64 // self.size
        self.keys = Keys(code, spec.dtype)
        self.key, self.record = self.keys.kind, f"i{16 * self.size}"
        self.half = 8 * self.size
        small = self.record == "i64" and spec.count <= IN_REGISTERS
        self.list = (_Registers if small else _Memory)(code, self.record, spec.count, self.size)
        self.kind = element_type(spec.dtype)
        self.vector = f"<{self.lanes} x {self.kind}>"
        self.groups = -(-3 * spec.count // (2 * self.lanes)) * self.lanes
        self.tops = code.table(self.key, self.groups)

    def emit(self, symbol: str) -> tuple[str, set[str]]:
        """The text: for each row the list, and what is in it."""
        code, spec = self.code, self.spec
        rows, values, places = (code.buffer(k) for k in range(3))
        chunk = -(-spec.rows // spec.pieces)
        end = code.op("mul nsw", "i64", "%hi", chunk)
        end = code.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(spec.rows)))
        with code.count(code.op("mul nsw", "i64", "%lo", chunk), end) as row:
            start = code.op("mul nsw", "i64", row, spec.columns)
            x = code.at(rows, start, self.key)
            self._find(x)
            first = code.op("mul nsw", "i64", row, spec.count)
            self._write(x, code.at(values, first, self.key), code.at(places, first, "i64"))
        return code.define(symbol)

    def _find(self, x: str) -> None:
        """Fill the list with the greatest elements of a row."""
        code, n = self.code, self.spec.columns
        self.list.clear()  # zeros are less than any record
        pays = self.groups <= MOST_GROUPS and n >= WORTH * self.groups
        bound = code.variable(self.kind, self._element(self._bound(x) if pays else "0"))
        begin = 0
        for vectors in (VECTORS, 1):
            block = vectors * self.lanes
            end = begin + (n - begin) // block * block
            with code.count(begin, end, block) as i:
                self._block(x, i, bound, vectors)
            begin = end
        with code.count(begin, n) as i:
            self._offer(x, i, bound)
        self.list.write()

    def _elements(self, x: str, i: str, vector: int) -> str:
        """A vector of elements, which begin a number of vectors behind one."""
        at = self.code.op("add nsw", "i64", i, vector * self.lanes)
        return self.code.load(self.vector, x, at, self.size, self.kind)

    def _element(self, key: str) -> str:
        """The element that has a key; infinity for NaN, which is as great in `_test`."""
        if self.spec.dtype.kind == "f":
            most = self.keys.number(INFINITY[self.size] | 1 << (8 * self.size - 1))
            key = self.code.call(
                self.key, f"llvm.umin.{self.key}", (self.key, key), (self.key, most)
            )
        return self.code.cast("bitcast", self.key, self.keys.raw(key, 1), self.kind)

    def _test(self, condition: str, a: str, b: str) -> str:
        """A comparison of vectors: gt, or ge; NaN is as great as any number there."""
        if self.spec.dtype.kind == "f":
            order = "ogt" if condition == "gt" else "uge"
            return self.code.emit(f"fcmp {order} {self.vector} {a}, {b}")
        sign = "s" if self.spec.dtype.kind == "i" else "u"
        return self.code.compare(sign + condition, self.vector, a, b)

    def _greater(self, a: str, b: str) -> str:
        """The greater elements; `b` where one is NaN."""
        mask = f"<{self.lanes} x i1>"
        return self.code.select(self._test("gt", a, b), self.vector, a, b, mask)

    def _bound(self, x: str) -> str:
        """A key that `count` elements of a row reach: of a great one of each group that which has
        so many as great.  Where a group has NaN that need not be its greatest."""
        code, lanes, vectors = self.code, self.lanes, self.groups // self.lanes
        keys, count = self.keys.lanes(lanes), -(-CHAINS // vectors) * vectors
        parts = [code.variable(self.vector, self._elements(x, "0", v)) for v in range(count)]
        step = count * lanes
        with code.count(step, self.spec.columns // step * step, step) as i:
            for v, part in enumerate(parts):
                code.put(part, self._greater(code.get(part), self._elements(x, i, v)))
        tops = [code.get(part) for part in parts[:vectors]]
        for v, part in enumerate(parts[vectors:]):
            tops[v % vectors] = self._greater(tops[v % vectors], code.get(part))
        found: list[str] = []
        for v, top in enumerate(tops):
            raw = code.cast("bitcast", self.vector, top, keys)
            found.append(self.keys.ordered(raw, lanes, True)[0])
            code.store(keys, found[-1], self.tops, v * lanes, self.size, self.key)
        bound = code.variable(self.key, "-1")
        with code.count(0, self.groups) as g:
            key = code.load(self.key, self.tops, g, self.size)
            same, greater = code.splat(key, self.key, lanes), "0"
            for each in found:
                bits = self._bits(code.compare("ugt", keys, each, same))
                count = code.call("i64", "llvm.ctpop.i64", ("i64", bits))
                greater = code.op("add", "i64", greater, count)
            among = code.compare("ult", "i64", greater, self.spec.count)
            pair = (self.key, key), (self.key, code.get(bound))
            least = code.call(self.key, f"llvm.umin.{self.key}", *pair)
            code.put(bound, code.select(among, self.key, least, code.get(bound)))
        return code.get(bound)

    def _bits(self, mask: str) -> str:
        """The truth values of lanes as a number."""
        bits = self.code.emit(f"bitcast <{self.lanes} x i1> {mask} to i{self.lanes}")
        return self.code.cast("zext", f"i{self.lanes}", bits, "i64")

    def _block(self, x: str, i: str, bound: str, vectors: int) -> None:
        """Compare some vectors with the bound, and offer what reaches it."""
        code, lanes = self.code, self.lanes
        least, bits = code.splat(code.get(bound), self.kind, lanes), "0"
        for v in range(vectors):
            reach = self._bits(self._test("ge", self._elements(x, i, v), least))
            bits = code.op("or", "i64", bits, code.op("shl", "i64", reach, v * lanes))
        left = code.variable("i64", bits)
        with code.repeat(lambda: code.compare("ne", "i64", code.get(left), 0)):
            some = code.get(left)
            at = code.call("i64", "llvm.cttz.i64", ("i64", some), ("i1", "true"))
            code.put(left, code.op("and", "i64", some, code.op("sub", "i64", some, 1)))
            self._offer(x, code.op("add nsw", "i64", i, at), bound)

    def _offer(self, x: str, place: str, bound: str) -> None:
        """Insert an element if it is greater than the last one of the list."""
        code, kind = self.code, self.record
        key = self.keys.ordered(code.load(self.key, x, place, self.size), 1, True)[0]
        high = code.op("shl", kind, code.cast("zext", self.key, key, kind), self.half)
        low = code.cast("trunc", "i64", code.op("xor", "i64", place, -1), self.key)
        record = code.op("or", kind, high, code.cast("zext", self.key, low, kind))
        self.list.insert(record)
        self._raise(bound)

    def _raise(self, bound: str) -> None:
        """Let the bound be above the last record, if the list is full: a later element with that
        key comes after it."""
        code, kind = self.code, self.record
        last = self.list.last()
        key = code.cast("trunc", kind, code.op("lshr", kind, last, self.half), self.key)
        above = code.call(self.key, f"llvm.uadd.sat.{self.key}", (self.key, key), (self.key, "1"))
        full = code.compare("ne", kind, last, 0)
        code.put(bound, code.select(full, self.kind, self._element(above), code.get(bound)))

    def _write(self, x: str, values: str, places: str) -> None:
        """The elements of the list and their places, the greatest first."""
        code = self.code
        with code.count(0, self.spec.count) as j:
            record = code.load(self.record, self.list.place, j, self.size)
            low = code.cast("trunc", self.record, record, self.key)
            place = code.op("xor", self.key, low, -1)
            place = code.cast("zext", self.key, place, "i64")
            code.store(self.key, code.load(self.key, x, place, self.size), values, j, self.size)
            code.store("i64", place, places, j, 8)
