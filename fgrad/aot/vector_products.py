"""L7. Products of matrices and vectors for C, where there may be no BLAS: y = M x.

M's rows are contiguous       a result is the sum of one row's products, by lanes along the row
M's columns are contiguous    lanes are results; each takes the products of its row in order
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu.library import VectorWords
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import element_type

LANES = 8
COLUMNS_FIRST = ord("N")  # the flag of M whose columns are contiguous


def vector_product(symbol: str, dtype: np.dtype) -> tuple[str, set[str]]:
    """`void f(ptr bufs, i64 lo, i64 hi)`: cells of products; the table is that for BLAS."""
    code = Routine()
    kind = element_type(dtype)
    a, b, c, table = [code.buffer(k) for k in range(4)]
    word = {name: code.load("i64", table, k, 8) for k, name in enumerate(VectorWords._fields)}
    turned = code.compare("ne", "i64", word["turned"], 0)
    is_columns = code.compare("eq", "i64", word["flag"], COLUMNS_FIRST)
    with code.count("%lo", "%hi") as i:
        which = code.op("udiv", "i64", i, word["cells"])
        cell = code.op("urem", "i64", i, word["cells"])
        moved = [
            code.at(base, code.op("mul", "i64", which, word[name]), kind)
            for base, name in ((a, "a"), (b, "b"), (c, "c"))
        ]
        first = code.op("mul", "i64", cell, word["cell_results"])
        rest = code.op("sub", "i64", word["results"], first)
        count = code.call("i64", "llvm.smin.i64", ("i64", rest), ("i64", word["cell_results"]))
        whole = code.select(turned, "ptr", moved[1], f"{moved[0]}")
        vector = code.select(turned, "ptr", moved[0], f"{moved[1]}")
        matrix = code.at(whole, code.op("mul", "i64", first, word["next"]), kind)
        result = code.at(moved[2], code.op("mul", "i64", first, word["result_step"]), kind)
        places = _Places(code, kind, dtype.itemsize, matrix, vector, result, word, count)
        with code.when(is_columns):
            places.columns()
        with code.when(code.op("xor", "i1", is_columns, "true")):
            places.rows()
    return code.define(symbol)


class _Places:
    """The operands of one cell, and the two loops over it."""

    def __init__(
        self,
        code: Routine,
        kind: str,
        size: int,
        matrix: str,
        vector: str,
        result: str,
        word: dict[str, str],
        count: str,
    ) -> None:
        self.code, self.kind, self.size = code, kind, size
        self.matrix, self.vector, self.result = matrix, vector, result
        self.word, self.count = word, count
        self.lanes = f"<{LANES} x {kind}>"

    def _operand(self, k: str) -> str:
        """Element k of the vector."""
        place = self.code.op("mul", "i64", k, self.word["step"])
        return self.code.load(self.kind, self.vector, place, self.size)

    def _put(self, value: str, r: str) -> None:
        place = self.code.op("mul", "i64", r, self.word["result_step"])
        self.code.store(self.kind, value, self.result, place, self.size)

    def _add_product(self, total: str, kind: str, a: str, b: str) -> None:
        product = self.code.op("fmul contract", kind, a, b)
        self.code.put(total, self.code.op("fadd contract", kind, self.code.get(total), product))

    def columns(self) -> None:
        """Lanes of results, then the results that are left one by one."""
        code = self.code
        left = code.op("urem", "i64", self.count, LANES)
        whole = code.op("sub", "i64", self.count, left)
        with code.count(0, whole, LANES) as r:
            total = code.variable(self.lanes, "zeroinitializer")
            column = code.at(self.matrix, r, self.kind)
            with code.count(0, self.word["k"]) as k:
                place = code.op("mul", "i64", k, self.word["ld"])
                numbers = code.load(self.lanes, column, place, self.size, self.kind)
                factor = code.splat(self._operand(k), self.kind, LANES)
                self._add_product(total, self.lanes, numbers, factor)
            found = code.get(total)
            for lane in range(LANES):
                value = code.emit(f"extractelement {self.lanes} {found}, i64 {lane}")
                self._put(value, code.op("add", "i64", r, lane))
        with code.count(whole, self.count) as r:
            self._single(code.at(self.matrix, r, self.kind), self.word["ld"], 0, r, "0.0")

    def rows(self) -> None:
        """Each row by lanes, where the vector is contiguous, then its rest."""
        code = self.code
        near = code.compare("eq", "i64", self.word["step"], 1)
        left = code.op("urem", "i64", self.word["k"], LANES)
        whole = code.select(near, "i64", code.op("sub", "i64", self.word["k"], left), 0)
        with code.count(0, self.count) as r:
            row = code.at(self.matrix, code.op("mul", "i64", r, self.word["ld"]), self.kind)
            total = code.variable(self.lanes, "zeroinitializer")
            with code.count(0, whole, LANES) as k:
                numbers = code.load(self.lanes, row, k, self.size, self.kind)
                factors = code.load(self.lanes, self.vector, k, self.size, self.kind)
                self._add_product(total, self.lanes, numbers, factors)
            name = f"llvm.vector.reduce.fadd.v{LANES}f{8 * self.size}"
            start = f"{self.kind} -0.0"
            code.declare(f"declare {self.kind} @{name}({self.kind}, {self.lanes})")
            summed = code.emit(
                f"call reassoc {self.kind} @{name}({start}, {self.lanes} {code.get(total)})"
            )
            self._single(row, "1", whole, r, summed)

    def _single(self, row: str, step: str, lo: str | int, r: str, start: str) -> None:
        """A result whose products from `lo` on are added one by one."""
        code = self.code
        total = code.variable(self.kind, start)
        with code.count(lo, self.word["k"]) as k:
            place = code.op("mul", "i64", k, step)
            self._add_product(
                total, self.kind, code.load(self.kind, row, place, self.size), self._operand(k)
            )
        self._put(code.get(total), r)
