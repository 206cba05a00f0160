"""L5. Native top-k of rows: one vectorised pass and a short sorted list.

A record is the element's key above the complement of its place, so that of equal elements the first
is the greatest.  The list begins with the first elements of the row.  Vectors are compared with the
least key of the list; what is greater is inserted.  In a random row of n elements that happens some
k log(n / k) times.
"""

from __future__ import annotations

from fgrad.compile.cpu.rows.keys import Keys
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.tasks.routines import RowTop

VECTORS = 4  # that are compared at a time


def row_top(spec: RowTop) -> int:
    """The address of a step; buffers: rows, values, places; range: pieces."""
    return build_counted([Source(f"top {tuple(spec)}", lambda symbol: _Top(spec).emit(symbol))])[0]


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
        self.list = code.table(self.record, spec.count)
        self.seen = code.table(self.key, VECTORS * self.lanes)

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
        code, n, k = self.code, self.spec.columns, self.spec.count
        with code.count(0, k) as i:
            self._insert(self._key_at(x, i), i, i)
        least = code.variable(self.key, self._least())
        begin = k
        for vectors in (VECTORS, 1):
            block = vectors * self.lanes
            end = begin + (n - begin) // block * block
            with code.count(begin, end, block) as i:
                self._block(x, i, least, vectors)
            begin = end
        with code.count(begin, n) as i:
            self._offer(self._key_at(x, i), i, least)

    def _key_at(self, x: str, i: str) -> str:
        raw = self.code.load(self.key, x, i, self.size)
        return self.keys.ordered(raw, 1, True)[0]

    def _least(self) -> str:
        """The key of the list's last record."""
        last = self.code.load(self.record, self.list, self.spec.count - 1, self.size)
        key = self.code.op("lshr", self.record, last, self.half)
        return self.code.cast("trunc", self.record, key, self.key)

    def _block(self, x: str, i: str, least: str, vectors: int) -> None:
        """Compare some vectors with the least key, and offer what is greater."""
        code, lanes = self.code, self.lanes
        vector = self.keys.lanes(lanes)
        bound = code.splat(code.get(least), self.key, lanes)
        bits, keys = "0", []
        for v in range(vectors):
            raw = code.load(vector, x, code.op("add nsw", "i64", i, v * lanes), self.size, self.key)
            keys.append(self.keys.ordered(raw, lanes, True)[0])
            mask = code.compare("ugt", vector, keys[-1], bound)
            mask = code.emit(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
            wide = code.op("shl", "i64", code.cast("zext", f"i{lanes}", mask, "i64"), v * lanes)
            bits = code.op("or", "i64", bits, wide)
        left = code.variable("i64", bits)
        with code.when(code.compare("ne", "i64", bits, 0)):
            for v, key in enumerate(keys):
                code.store(vector, key, self.seen, v * lanes, self.size, self.key)
            with code.repeat(lambda: code.compare("ne", "i64", code.get(left), 0)):
                some = code.get(left)
                at = code.call("i64", "llvm.cttz.i64", ("i64", some), ("i1", "true"))
                code.put(left, code.op("and", "i64", some, code.op("sub", "i64", some, 1)))
                key = code.load(self.key, self.seen, at, self.size)
                self._offer(key, code.op("add nsw", "i64", i, at), least)

    def _offer(self, key: str, place: str, least: str) -> None:
        """Insert an element if it is greater than the last one of the list."""
        code = self.code
        with code.when(code.compare("ugt", self.key, key, code.get(least))):
            self._insert(key, place, str(self.spec.count - 1))
            code.put(least, self._least())

    def _insert(self, key: str, place: str, hole: str) -> None:
        """Put a record where it belongs, from a hole downwards; what is in the hole is lost."""
        code, kind = self.code, self.record
        high = code.op("shl", kind, code.cast("zext", self.key, key, kind), self.half)
        low = code.cast("trunc", "i64", code.op("xor", "i64", place, -1), self.key)
        record = code.op("or", kind, high, code.cast("zext", self.key, low, kind))
        at = code.variable("i64", hole)
        test, compare, move, end = code.labels("test", "compare", "move", "end")
        code.line(f"br label %{test}")
        code.label(test)
        j = code.get(at)
        code.branch(code.compare("sgt", "i64", j, 0), compare, end)
        code.label(compare)
        before = code.op("sub", "i64", j, 1)
        other = code.load(kind, self.list, before, self.size)
        code.branch(code.compare("ult", kind, other, record), move, end)
        code.label(move)
        code.store(kind, other, self.list, j, self.size)
        code.put(at, before)
        code.line(f"br label %{test}")
        code.label(end)
        code.store(kind, record, self.list, code.get(at), self.size)

    def _write(self, x: str, values: str, places: str) -> None:
        """The elements of the list and their places, the greatest first."""
        code = self.code
        with code.count(0, self.spec.count) as j:
            record = code.load(self.record, self.list, j, self.size)
            low = code.cast("trunc", self.record, record, self.key)
            place = code.op("xor", self.key, low, -1)
            place = code.cast("zext", self.key, place, "i64")
            code.store(self.key, code.load(self.key, x, place, self.size), values, j, self.size)
            code.store("i64", place, places, j, 8)
