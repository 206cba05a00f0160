"""L5. Copies of parts of matrices in the order that tiles read them, and of tiles at the edge of C.

    lines   rows of the source become rows of the copy: A, either way round
    panels  rows of the source are shared out among panels as wide as a tile: B as it stands
    turn    rows of the source become columns of the copy: B stored the other way round, in squares
            of vectors that are transposed in registers
    merge   the part of a tile that is inside of C
    ahead   nothing is copied, but lines come near

Places of a copy that have no element in the source hold zeros or repeat the last line: tiles
compute with them, and leave the results out.
"""

from __future__ import annotations

from fgrad.compile.cpu.emit.tile import butterfly
from fgrad.compile.cpu.gemm.micro import (
    VECTORS,
    Tiling,
    first_lanes,
    masked_load,
    masked_store,
    prefetch,
)
from fgrad.compile.kernel.machine import PREFETCHED_LINES
from fgrad.compile.llvm.structured import Routine

SQUARE = 8  # lanes of the vectors that are turned: 16 take three times as long to compile
COPIED = 4  # vectors that are copied at a time
LINES = "ptr %to, i64 %to_line, ptr %from, i64 %from_line, i64 %lines, i64 %present, i64 %length"


def emit_lines(symbol: str, tiles: Tiling) -> tuple[str, set[str]]:
    """Copy `lines` lines of `length` elements; those from `present` on repeat the one before.

    Lines are written in whole vectors, zeros behind their elements.
    """
    code = Routine()
    size, kind = tiles.dtype.itemsize, tiles.lane_type
    last = code.op("sub", "i64", "%present", 1)
    step = COPIED * tiles.lanes
    whole = code.op("sub", "i64", "%length", code.op("urem", "i64", "%length", step))
    with code.count(0, "%lines") as line:
        source = _line(code, "%from", "%from_line", line, last)
        target = code.at("%to", code.op("mul", "i64", line, "%to_line"), "i8")
        with code.count(0, whole, step) as i:
            place, copy = (code.at(x, i, f"i{8 * size}") for x in (source, target))
            vectors = [code.load(kind, place, v, size) for v in range(COPIED)]
            for v, value in enumerate(vectors):
                code.store(kind, value, copy, v, size)
        with code.count(whole, "%length", tiles.lanes) as i:
            place = code.at(source, i, f"i{8 * size}")
            mask = first_lanes(code, tiles, code.op("sub", "i64", "%length", i))
            value = masked_load(code, tiles, place, 0, mask, "zeroinitializer")
            code.store(kind, value, target, i, size, f"i{8 * size}")
    return code.define(symbol, LINES, "internal")


PANELS = "ptr %to, i64 %to_panel, ptr %from, i64 %from_line, i64 %depth, i64 %width"


def emit_panels(symbol: str, tiles: Tiling) -> tuple[str, set[str]]:
    """Copy `depth` lines of `width` elements; the last panel is filled up with zeros."""
    code = Routine()
    size, kind, columns = tiles.dtype.itemsize, tiles.lane_type, tiles.columns
    rest = code.op("urem", "i64", "%width", columns)
    whole = code.op("sub", "i64", "%width", rest)
    is_part = code.compare("ne", "i64", rest, 0)
    masks = [first_lanes(code, tiles, rest, v) for v in range(VECTORS)]
    ahead = code.op("mul", "i64", "%from_line", PREFETCHED_LINES)
    with code.count(0, "%depth") as line:
        source = code.at("%from", code.op("mul", "i64", line, "%from_line"), "i8")
        place = code.variable(
            "ptr", code.at("%to", code.op("mul", "i64", line, columns * size), "i8")
        )
        with code.count(0, whole, columns) as j:
            at, target = code.at(source, j, f"i{8 * size}"), code.get(place)
            prefetch(code, code.at(at, ahead, "i8"), columns * size)
            for v in range(VECTORS):
                code.store(kind, code.load(kind, at, v, size), target, v, size)
            code.put(place, code.at(target, "%to_panel", "i8"))
        with code.when(is_part):
            at, target = code.at(source, whole, f"i{8 * size}"), code.get(place)
            for v in range(VECTORS):
                value = masked_load(code, tiles, at, v, masks[v], "zeroinitializer")
                code.store(kind, value, target, v, size)
    return code.define(symbol, PANELS, "internal")


def emit_turn(symbol: str, tiles: Tiling) -> tuple[str, set[str]]:
    """Copy lines of `length` elements to columns; `lines` is rounded up to whole vectors, and so is
    `length`: the copy has room for that."""
    tiles = tiles._replace(lanes=min(tiles.lanes, SQUARE))
    code = Routine()
    size, lanes, kind = tiles.dtype.itemsize, tiles.lanes, tiles.lane_type
    element = f"i{8 * size}"
    last = code.op("sub", "i64", "%present", 1)
    with code.count(0, "%lines", lanes) as first:
        sources = [
            _line(code, "%from", "%from_line", code.op("add", "i64", first, k), last)
            for k in range(lanes)
        ]
        column = code.at("%to", first, element)
        with code.count(0, "%length", lanes) as i:
            mask = first_lanes(code, tiles, code.op("sub", "i64", "%length", i))
            rows = [
                masked_load(code, tiles, code.at(x, i, element), 0, mask, "zeroinitializer")
                for x in sources
            ]
            target = code.at(column, code.op("mul", "i64", i, "%to_line"), "i8")
            for value in _turned(code, kind, rows):
                code.store(kind, value, target, 0, size)
                target = code.at(target, "%to_line", "i8")
    return code.define(symbol, LINES, "internal")


MERGED = "ptr %c, i64 %c_row, ptr %tile, i64 %tile_row, i64 %rows, i64 %columns, i1 %add"


def emit_merge(symbol: str, tiles: Tiling) -> tuple[str, set[str]]:
    """Write the first rows and columns of a tile to C, or add them.

    C is read only if it has to be: what was just written in part is slow to read again.
    """
    code = Routine()
    kind, size, lanes = tiles.lane_type, tiles.dtype.itemsize, tiles.lanes
    vectors = code.op("udiv", "i64", code.op("add", "i64", "%columns", lanes - 1), lanes)
    for adds in (True, False):
        chosen = "%add" if adds else code.op("xor", "i1", "%add", "true")
        with code.when(chosen), code.count(0, vectors) as v:
            mask = first_lanes(code, tiles, "%columns", v)
            with code.count(0, "%rows") as row:
                c = code.at("%c", code.op("mul", "i64", row, "%c_row"), "i8")
                tile = code.at("%tile", code.op("mul", "i64", row, "%tile_row"), "i8")
                value = code.load(kind, tile, v, size)
                if adds:
                    old = masked_load(code, tiles, c, v, mask, "zeroinitializer")
                    value = code.op("fadd", kind, value, old)
                masked_store(code, tiles, value, c, v, mask)
    return code.define(symbol, MERGED, "internal")


def emit_ahead(symbol: str) -> tuple[str, set[str]]:
    """Ask for `lines` lines of `size` bytes."""
    code = Routine()
    with code.count(0, "%lines") as line:
        place = code.at("%from", code.op("mul", "i64", line, "%from_line"), "i8")
        with code.count(0, "%size", 64) as i:
            prefetch(code, code.at(place, i, "i8"), 64, level=2)
    return code.define(symbol, "ptr %from, i64 %from_line, i64 %lines, i64 %size", "internal")


def _line(code: Routine, base: str, step: str, line: str, last: str) -> str:
    """The address of a line, or of the last one if there are fewer."""
    number = code.call("i64", "llvm.smin.i64", ("i64", line), ("i64", last))
    return code.at(base, code.op("mul", "i64", number, step), "i8")


def _turned(code: Routine, kind: str, rows: list[str]) -> list[str]:
    """A square of vectors with rows and lanes exchanged."""
    lanes, distance = len(rows), 1
    while distance < lanes:
        orders = butterfly(lanes, distance)
        for k in range(lanes):
            if not k & distance:
                a, b = rows[k], rows[k + distance]
                rows[k], rows[k + distance] = [
                    code.emit(f"shufflevector {kind} {a}, {kind} {b}, {order}") for order in orders
                ]
        distance *= 2
    return rows
