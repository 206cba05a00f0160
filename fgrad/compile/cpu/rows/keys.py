"""L5. What the sorters share: the task, and keys as unsigned integers in sorting order.

float    sign bit flipped, and all others where it was set; NaN becomes the greatest
int      sign bit flipped
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import INFINITY
from fgrad.compile.tasks.routines import RowSort


def piece_rows(code: Routine, spec: RowSort, piece: str) -> Iterator[str]:
    """The number of the first element of each row of a piece, for a loop that writes its body
    once."""
    first = code.op("mul nsw", "i64", piece, spec.chunk)
    end = code.op("add nsw", "i64", first, spec.chunk)
    end = code.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(spec.rows)))
    with code.count(first, end) as row:
        yield code.op("mul nsw", "i64", row, spec.columns)


class Keys:
    """Writes the conversion of elements to keys and back, for one or more lanes."""

    def __init__(self, code: Routine, dtype: np.dtype) -> None:
        self.code = code
        self.dtype = dtype
        self.size = 8 * dtype.itemsize
        self.kind = f"i{self.size}"
        self.greatest = (1 << self.size - 1) - 1 if dtype.kind == "i" else -1  # the last raw bits

    def lanes(self, lanes: int) -> str:
        """The type of some keys."""
        return self.kind if lanes == 1 else f"<{lanes} x {self.kind}>"

    def number(self, value: int, lanes: int = 1) -> str:
        """A constant, whose bits are those of an unsigned number."""
        value -= (value >> (self.size - 1)) << self.size if value >= 0 else 0
        return str(value) if lanes == 1 else f"splat ({self.kind} {value})"

    def ordered(self, raw: str, lanes: int, equal_zeros: bool) -> tuple[str, str | None]:
        """The keys of raw bits; and an i1 that says where equal elements may differ in bits.

        With `equal_zeros` the keys of -0.0 and 0.0 are equal, else they are neighbours.
        """
        code, kind = self.code, self.lanes(lanes)
        mask = "i1" if lanes == 1 else f"<{lanes} x i1>"
        sign = self.number(1 << (self.size - 1), lanes)
        if self.dtype.kind in "ub":
            return raw, None
        if self.dtype.kind == "i":
            return code.op("xor", kind, raw, sign), None
        magnitude = code.op("and", kind, raw, self.number((1 << (self.size - 1)) - 1, lanes))
        infinity = self.number(INFINITY[self.dtype.itemsize], lanes)
        nan = code.compare("ugt", kind, magnitude, infinity)
        zero = code.compare("eq", kind, raw, sign)
        if equal_zeros:
            raw = code.select(zero, kind, self.number(0, lanes), raw, mask)
        high = code.op("ashr", kind, raw, self.number(self.size - 1, lanes))
        key = code.op("xor", kind, raw, code.op("or", kind, high, sign))
        key = code.select(nan, kind, self.number(-1, lanes), key, mask)
        return key, code.op("or", mask, nan, zero)

    def raw(self, key: str, lanes: int) -> str:
        """The bits of the elements that have these keys."""
        code, kind = self.code, self.lanes(lanes)
        sign = self.number(1 << (self.size - 1), lanes)
        if self.dtype.kind in "ub":
            return key
        if self.dtype.kind == "i":
            return code.op("xor", kind, key, sign)
        high = code.op("ashr", kind, key, self.number(self.size - 1, lanes))
        flipped = code.op("xor", kind, high, self.number(-1, lanes))
        return code.op("xor", kind, key, code.op("or", kind, flipped, sign))
