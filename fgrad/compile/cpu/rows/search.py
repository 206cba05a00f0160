"""L5. Native bisection: where in a row in ascending order elements belong, vectors at a time.

    place = n - k + 1 if x[k - 1] comes before v else 0          k: the greatest power of 2 up to n
    place += step     if x[place + step - 1] comes before v      for step = k / 2, k / 4, ... 1

Every probe lies inside the row, and all steps are written out.  Several vectors at a time hide the
time that a gather takes.
"""

from __future__ import annotations

from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import lane_type
from fgrad.compile.tasks.routines import SEARCHED, RowSearch


def row_search(spec: RowSearch) -> int:
    """The address of a step; buffers: table, elements, places; range: pieces."""
    return build_counted(
        [Source(f"search {tuple(spec)}", lambda symbol: emit_search(symbol, spec))]
    )[0]


def emit_search(symbol: str, spec: RowSearch) -> tuple[str, set[str]]:
    """The function; buffers: table, elements, places; range: pieces."""
    code = Routine()
    table, elements, places = (code.buffer(k) for k in range(3))
    kind = lane_type(spec.dtype, 1)
    with code.count("%lo", "%hi") as piece:
        row = code.op("udiv", "i64", piece, spec.parts)
        part = code.op("urem", "i64", piece, spec.parts)
        x = code.at(table, code.op("mul nsw", "i64", row, spec.table), kind)
        start = code.op("mul nsw", "i64", row, spec.columns)
        v, out = code.at(elements, start, kind), code.at(places, start, "i64")
        first = code.op("mul nsw", "i64", part, spec.chunk)
        end = code.op("add nsw", "i64", first, spec.chunk)
        end = code.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(spec.columns)))
        with code.count(first, end, SEARCHED) as i:
            last = ("i64", str(spec.columns - SEARCHED))
            _Block(code, spec, x).write(v, out, code.call("i64", "llvm.smin.i64", ("i64", i), last))
    return code.define(symbol)


class _Block:
    """Writes the search of `SEARCHED` elements in the table at `x`."""

    def __init__(self, code: Routine, spec: RowSearch, x: str) -> None:
        self.code, self.spec, self.x = code, spec, x
        self.size = spec.dtype.itemsize
        self.lanes = 64 // self.size
        self.kind = lane_type(spec.dtype, 1)
        self.vector = lane_type(spec.dtype, self.lanes)
        self.place = f"<{self.lanes} x i{8 * self.size}>"

    def write(self, v: str, out: str, i: str) -> None:
        """The places of elements i ... i + SEARCHED - 1."""
        code, n = self.code, self.spec.table
        starts = [code.op("add nsw", "i64", i, k) for k in range(0, SEARCHED, self.lanes)]
        values = [code.load(self.vector, v, at, self.size, self.kind) for at in starts]
        missing = [self._is_nan(value) for value in values]
        step = 1 << (n.bit_length() - 1)
        middle = code.load(self.kind, self.x, step - 1, self.size)
        middle = code.splat(middle, self.kind, self.lanes)
        found = [
            self._where(self._before(middle, value, nan), n - step + 1)
            for value, nan in zip(values, missing, strict=True)
        ]
        while step > 1:
            step //= 2
            probed = [self._probe(place, step - 1) for place in found]
            ahead = [
                self._where(self._before(at, value, nan), step)
                for at, value, nan in zip(probed, values, missing, strict=True)
            ]
            found = [code.op("add", self.place, *pair) for pair in zip(found, ahead, strict=True)]
        wide = f"<{self.lanes} x i64>"
        for at, place in zip(starts, found, strict=True):
            code.store(wide, code.cast("zext", self.place, place, wide), out, at, 8, "i64")

    def _where(self, condition: str, number: int) -> str:
        """A number where a condition holds, else 0."""
        some = f"splat (i{8 * self.size} {number})"
        return self.code.select(
            condition, self.place, some, "zeroinitializer", f"<{self.lanes} x i1>"
        )

    def _probe(self, place: str, offset: int) -> str:
        """The elements of the table `offset` behind some places."""
        code, lanes = self.code, self.lanes
        suffix = f"v{lanes}{'f' if self.spec.dtype.kind == 'f' else 'i'}{8 * self.size}"
        base = code.at(self.x, offset, self.kind)
        pointers = code.emit(f"getelementptr {self.kind}, ptr {base}, {self.place} {place}")
        return code.call(
            self.vector,
            f"llvm.masked.gather.{suffix}.v{lanes}p0",
            (f"<{lanes} x ptr>", pointers),
            ("i32", str(self.size)),
            (f"<{lanes} x i1>", "splat (i1 true)"),
            (self.vector, "zeroinitializer"),
        )

    def _is_nan(self, value: str) -> str | None:
        if self.spec.dtype.kind != "f":
            return None
        return self.code.emit(f"fcmp uno {self.vector} {value}, {value}")

    def _before(self, at: str, value: str, nan: str | None) -> str:
        """Whether elements of the table come before values; NaN comes after all numbers."""
        code, right = self.code, self.spec.right
        if nan is None:
            sign = "s" if self.spec.dtype.kind == "i" else "u"
            return code.compare(sign + ("le" if right else "lt"), self.vector, at, value)
        mask = f"<{self.lanes} x i1>"
        if right:
            return code.op("or", mask, code.emit(f"fcmp ole {self.vector} {at}, {value}"), nan)
        number = code.emit(f"fcmp ord {self.vector} {at}, {at}")
        return code.op("and", mask, code.emit(f"fcmp ult {self.vector} {at}, {value}"), number)
