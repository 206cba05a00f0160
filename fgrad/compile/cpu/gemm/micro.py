"""L5. The innermost loops of matrix products: a tile of C in registers, one step of k at a time.

A tile is `rows` x `vectors` vectors of C.  Each step of k loads `vectors` vectors of a row of B and
multiplies them with one element of A for each row.  All strides are given when the code runs: A may
be stored either way round, B has contiguous rows.  Whatever the tile, an element of C is the same
chain of fused products in the order of k, so that its bits do not depend on how C is cut.

    14 x 2 vectors with 32 registers: 28 sums, 2 vectors of B, 2 of repeated elements of A
"""

from __future__ import annotations

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import MEMORY_STEPS, PREFETCHED_STEPS, PRODUCT_ROW_BYTES
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import element_type, lane_type

VECTORS = 2  # of a row of B, in a tile
TABLE = 64  # rows left from which the largest tile is always next
_EDGE_COST = 0.75  # of a tile, in rows
_LEAST_COST = 4  # fewer rows wait for their own sums


class Tiling(NamedTuple):
    """The tiles that suit a machine: vectors of `lanes` elements, and numbers of rows."""

    dtype: np.dtype
    lanes: int
    rows: tuple[int, ...]

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return VECTORS * self.lanes

    @property
    def depth(self) -> int:
        """The most steps of k that a tile goes through at once."""
        return PRODUCT_ROW_BYTES // self.dtype.itemsize

    @property
    def lane_type(self) -> str:
        """The LLVM type of a vector."""
        return lane_type(self.dtype, self.lanes)

    @property
    def suffix(self) -> str:
        """The end of the names of LLVM's intrinsics for a vector."""
        return f"v{self.lanes}f{8 * self.dtype.itemsize}"


def tiling(dtype: np.dtype, triple: str, features: str) -> Tiling:
    """The tiles for a processor: as many sums as there are registers for."""
    present = features.split(",")
    if "+avx512f" in present:
        return Tiling(dtype, 64 // dtype.itemsize, (14, 8, 4))
    if triple.startswith(("aarch64", "arm64")):
        return Tiling(dtype, 16 // dtype.itemsize, (12, 8, 4))  # of 14 rows LLVM moves registers
    width = 32 if "+avx" in present else 16
    return Tiling(dtype, width // dtype.itemsize, (6, 4))


def next_tile(tiles: Tiling) -> list[int]:
    """For 0 .. TABLE rows that are left, the position in `tiles.rows` of the tile to take next.

    The last tile may reach beyond the end: 13 rows take as long as 14, less than 8 + 8.
    """
    cost, chosen = [0.0], [0]
    for left in range(1, TABLE + 1):
        totals = [
            max(rows, _LEAST_COST) + _EDGE_COST + (cost[left - rows] if rows < left else 0.0)
            for rows in tiles.rows
        ]
        cost.append(min(totals))
        chosen.append(totals.index(cost[-1]))
    return chosen


PARAMETERS = (
    "ptr %a, i64 %a_row, i64 %a_step, ptr %b, i64 %b_step, ptr %c, i64 %c_row, "
    "ptr %old, i64 %old_row, i64 %depth"
)


def emit_tile(symbol: str, tiles: Tiling, rows: int, vectors: int) -> tuple[str, set[str]]:
    """The function of one whole tile, with `PARAMETERS`: C = old + A @ B over `depth` steps of k.

    Strides are in bytes.
    """
    code = Routine()
    sums = [
        [code.variable(tiles.lane_type, "zeroinitializer") for _ in range(vectors)]
        for _ in range(rows)
    ]
    with code.when(code.compare("sgt", "i64", "%depth", MEMORY_STEPS)):
        place = "%c"
        for _ in range(rows):
            prefetch(code, place, vectors * tiles.lanes * tiles.dtype.itemsize)
            place = code.at(place, "%c_row", "i8")
    _sum_products(code, tiles, sums)
    kind, size = tiles.lane_type, tiles.dtype.itemsize
    place, old = "%c", "%old"
    for totals in sums:
        for v, total in enumerate(totals):
            value = code.op("fadd", kind, code.get(total), code.load(kind, old, v, size))
            code.store(kind, value, place, v, size)
        place, old = code.at(place, "%c_row", "i8"), code.at(old, "%old_row", "i8")
    return code.define(symbol, PARAMETERS, "internal")


def _sum_products(code: Routine, tiles: Tiling, sums: list[list[str]]) -> None:
    """Add the products of all steps of k.

    Rows are addressed by odd multiples of the stride, which x86 takes times 1, 2, 4 or 8.
    """
    multiples = {1: "%a_row"}
    for odd in range(3, len(sums), 2):
        multiples[odd] = code.op("mul", "i64", "%a_row", odd)
    kind, element, size = tiles.lane_type, element_type(tiles.dtype), tiles.dtype.itemsize
    ahead = code.op("mul", "i64", "%b_step", PREFETCHED_STEPS)
    at_a, at_b = code.variable("ptr", "%a"), code.variable("ptr", "%b")
    with code.count(0, "%depth"):
        a, b = code.get(at_a), code.get(at_b)
        vectors = [code.load(kind, b, v, size) for v in range(len(sums[0]))]
        prefetch(code, code.at(b, ahead, "i8"), len(vectors) * tiles.lanes * size)
        for r, totals in enumerate(sums):
            power = (r & -r).bit_length() - 1
            offset = multiples[r >> power] if r else "0"
            offset = code.op("shl", "i64", offset, power) if power > 0 else offset
            x = code.load(element, code.at(a, offset, "i8"), 0, size)
            x = code.splat(x, element, tiles.lanes)
            for total, y in zip(totals, vectors, strict=True):
                terms = (kind, x), (kind, y), (kind, code.get(total))
                code.put(total, code.call(kind, f"llvm.fmuladd.{tiles.suffix}", *terms))
        code.put(at_a, code.at(a, "%a_step", "i8"))
        code.put(at_b, code.at(b, "%b_step", "i8"))


def prefetch(code: Routine, place: str, size: int, level: int = 1) -> None:
    """Ask for memory that is used soon, if there is such memory, in a level of the cache."""
    code.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for offset in range(0, size, 64):
        line = code.at(place, offset, "i8")
        code.line(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 {4 - level}, i32 1)")


# Parts of vectors.


def first_lanes(code: Routine, tiles: Tiling, count: str, vector: int | str = 0) -> str:
    """A mask of the lanes of vector number `vector` that are among the first `count` elements."""
    lanes = tiles.lanes
    numbers = "<" + ", ".join([f"i32 {k}" for k in range(lanes)]) + ">"
    left = code.op("sub", "i64", count, code.op("mul", "i64", vector, lanes))
    left = code.splat(code.cast("trunc", "i64", left, "i32"), "i32", lanes)
    return code.compare("slt", f"<{lanes} x i32>", numbers, left)


def masked_load(
    code: Routine, tiles: Tiling, base: str, vector: int | str, mask: str, other: str
) -> str:
    """The lanes of a vector in a mask, `other` in the rest, which are not touched in memory."""
    kind, flags = tiles.lane_type, f"<{tiles.lanes} x i1>"
    name = f"llvm.masked.load.{tiles.suffix}.p0"
    place = code.at(base, vector, kind)
    align = ("i32", str(tiles.dtype.itemsize))
    return code.call(kind, name, ("ptr", place), align, (flags, mask), (kind, other))


def masked_store(
    code: Routine, tiles: Tiling, value: str, base: str, vector: int | str, mask: str
) -> None:
    """Write the lanes of a vector that are in a mask."""
    kind, flags = tiles.lane_type, f"<{tiles.lanes} x i1>"
    name = f"llvm.masked.store.{tiles.suffix}.p0"
    place = code.at(base, vector, kind)
    code.declare(f"declare void @{name}({kind}, ptr, i32, {flags})")
    align = tiles.dtype.itemsize
    code.line(f"call void @{name}({kind} {value}, ptr {place}, i32 {align}, {flags} {mask})")
