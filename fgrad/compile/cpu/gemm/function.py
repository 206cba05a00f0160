"""L5. Matrix products: one function for each type of numbers, compiled once per machine.

    for blocks of columns of C, as many as B's part for them fits into the L2 cache:
      for blocks of k:
        copy B's part into panels as wide as a tile     (left out where B is small as it stands)
        for rows of C, as many as a tile has:
          copy these rows of A                          (left out where the L1 cache holds them)
          for panels: a tile of C                       (micro.py)

Sizes and strides come in a table when the function runs, so that a new shape costs no compilation.
The blocks of k depend on k alone and each tile adds its products in their order: an element of C
has the same bits whatever range of rows or columns a thread is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.compile.cpu.gemm.layout import Layout
from fgrad.compile.cpu.gemm.micro import (
    TABLE,
    VECTORS,
    Tiling,
    emit_tile,
    next_tile,
)
from fgrad.compile.cpu.gemm.pack import emit_ahead, emit_lines, emit_merge, emit_panels, emit_turn
from fgrad.compile.kernel.machine import LINE_BYTES, PRODUCT_ROW_BYTES
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import element_type, literal

_LINE = PRODUCT_ROW_BYTES + LINE_BYTES  # between rows of a copy of A: on other cache sets


_WORDS = {name: k for k, name in enumerate(Layout._fields)}


def emit_product(symbol: str, tiles: Tiling) -> tuple[str, set[str]]:
    """`void f(ptr bufs, i64 lo, i64 hi, ptr table)` with all the functions that it calls."""
    helpers = (
        ("lines", emit_lines),
        ("panels", emit_panels),
        ("turn", emit_turn),
        ("merge", emit_merge),
    )
    parts = [emit(f"{symbol}_{name}", tiles) for name, emit in helpers]
    names: list[str] = []
    for rows, vectors in [(tiles.rows[0], 1), *[(rows, VECTORS) for rows in tiles.rows]]:
        names.append(f"{symbol}_{rows}x{vectors}")
        parts.append(emit_tile(names[-1], tiles, rows, vectors))
    parts.append(emit_ahead(f"{symbol}_ahead"))
    parts += [_emit_block(symbol, tiles), _emit_range(symbol)]
    pointers = ", ".join([f"ptr @{name}" for name in names])
    chosen = ", ".join([f"i64 {k}" for k in next_tile(tiles)])
    heights = ", ".join([f"i64 {rows}" for rows in tiles.rows])
    tables = [
        f"@{symbol}_tiles = internal constant [{len(names)} x ptr] [{pointers}]",
        f"@{symbol}_next = internal constant [{TABLE + 1} x i64] [{chosen}]",
        f"@{symbol}_rows = internal constant [{len(tiles.rows)} x i64] [{heights}]",
    ]
    declared: set[str] = set().union(*[declarations for _, declarations in parts])
    return "\n".join([*tables, *[text for text, _ in parts]]), declared


def _words(code: Routine, *names: str) -> list[str]:
    return [code.load("i64", "%table", _WORDS[name], 8) for name in names]


def _smaller(code: Routine, a: str, b: str | int) -> str:
    return code.call("i64", "llvm.smin.i64", ("i64", a), ("i64", str(b)))


def _emit_range(symbol: str) -> tuple[str, set[str]]:
    """The products of a batch, or parts of them, that a range of cells is."""
    code = Routine()
    bases = [code.buffer(k) for k in range(3)]
    m, n, cells, down, rows, columns = _words(
        code, "m", "n", "cells", "cells_down", "cell_rows", "cell_columns"
    )
    steps = _words(code, "a_next", "b_next", "c_next")
    cell = code.variable("i64", "%lo")
    with code.repeat(lambda: code.compare("slt", "i64", code.get(cell), "%hi")):
        at = code.get(cell)
        number = code.op("udiv", "i64", at, cells)
        inside = code.op("urem", "i64", at, cells)
        left = code.op("sub", "i64", cells, inside)
        left = _smaller(code, code.op("sub", "i64", "%hi", at), left)
        strip, first = (code.op(name, "i64", inside, down) for name in ("udiv", "urem"))
        is_top = code.compare("eq", "i64", first, 0)
        whole = code.op("and", "i1", is_top, code.compare("sge", "i64", left, down))
        strips = code.select(whole, "i64", code.op("udiv", "i64", left, down), "1")
        last = _smaller(code, code.op("add", "i64", first, left), down)
        taken = code.op("mul", "i64", strips, code.op("sub", "i64", last, first))
        bounds = [
            code.op("mul", "i64", first, rows),
            _smaller(code, code.op("mul", "i64", last, rows), m),
            code.op("mul", "i64", strip, columns),
        ]
        end = code.op("mul", "i64", code.op("add", "i64", strip, strips), columns)
        bounds.append(_smaller(code, end, n))
        places = [
            code.at(base, code.op("mul", "i64", number, step), "i8")
            for base, step in zip(bases, steps, strict=True)
        ]
        arguments = [f"ptr {place}" for place in places] + [f"i64 {bound}" for bound in bounds]
        code.line(f"call void @{symbol}_block({', '.join(arguments)}, ptr %table)")
        code.put(cell, code.op("add", "i64", at, taken))
    return code.define(symbol, "ptr %bufs, i64 %lo, i64 %hi, ptr %table")


_BLOCK = (
    "ptr %a, ptr %b, ptr %c, i64 %row_lo, i64 %row_hi, i64 %column_lo, i64 %column_hi, ptr %table"
)


def _emit_block(symbol: str, tiles: Tiling) -> tuple[str, set[str]]:
    """A part of one product: columns in blocks, k in blocks, rows of tiles."""
    code = Routine()
    return _Block(code, symbol, tiles).define()


class _Block:
    """Writes the loops around the tiles."""

    def __init__(self, code: Routine, symbol: str, tiles: Tiling) -> None:
        self.code, self.symbol, self.tiles = code, symbol, tiles
        self.size = tiles.dtype.itemsize
        self.element = f"i{8 * self.size}"
        wide = (tiles.rows[0] + tiles.lanes - 1) // tiles.lanes * tiles.lanes
        self.step = wide * self.size  # bytes from one step of k to the next, in a copy of A'
        self.panel = tiles.columns * self.size  # bytes of a row of a panel
        self.word = dict(zip(Layout._fields, _words(code, *Layout._fields), strict=True))

    def define(self) -> tuple[str, set[str]]:
        code, tiles, columns = self.code, self.tiles, self.tiles.columns
        self.copied_a = code.table("i8", max(tiles.rows[0] * _LINE, tiles.depth * self.step))
        self.edge = code.table("i8", tiles.rows[0] * self.panel)
        self.memory = code.variable("ptr", "null")
        self.nothing = self._negative_zeros()
        depth = self._rounded_up(self.word["depth"], tiles.lanes)
        self.panel_bytes = code.op("mul", "i64", depth, tiles.lanes * self.panel)
        one_panel = code.table("i8", (tiles.depth + tiles.lanes) * self.panel)
        self.copied_b = code.variable("ptr", one_panel)
        lo, hi = "%column_lo", "%column_hi"
        k = code.call("i64", "llvm.smax.i64", ("i64", self.word["k"]), ("i64", "1"))
        most = self._most_columns(lo, hi)
        self.copies = code.compare("ne", "i64", self.word["copy_b"], 0)
        with code.when(self.copies):
            panels = code.op("udiv", "i64", most, columns)
            space = code.op("mul", "i64", panels, self.panel_bytes)
            code.declare("declare ptr @malloc(i64)")
            code.declare("declare void @free(ptr)")
            space = code.op("add", "i64", space, 64)
            memory = code.emit(f"call ptr @malloc(i64 {space})")
            code.put(self.memory, memory)
            code.put(self.copied_b, self._aligned(memory))
        with self._blocks(lo, hi, most) as (column, width):
            start = code.variable("i64", "0")
            with code.repeat(lambda: code.compare("slt", "i64", code.get(start), k)):
                first = code.get(start)
                left = code.op("sub", "i64", self.word["k"], first)
                depth = _smaller(code, left, self.word["depth"])
                self._panels(column, width, first, depth)
                code.put(start, code.op("add", "i64", first, self.word["depth"]))
        with code.when(self.copies):
            code.line(f"call void @free(ptr {code.get(self.memory)})")
        return code.define(f"{self.symbol}_block", _BLOCK, "internal")

    def _most_columns(self, lo: str, hi: str) -> str:
        """The columns of equal blocks of whole panels, as few as there have to be."""
        code, columns = self.code, self.tiles.columns
        span = code.op("sub", "i64", hi, lo)
        count = self._rounded_up(span, self.word["block"])
        count = code.call("i64", "llvm.smax.i64", ("i64", count), ("i64", "1"))
        panels = self._rounded_up(self._rounded_up(span, count), columns)
        return code.op("mul", "i64", panels, columns)

    def _aligned(self, place: str) -> str:
        """The first address from here on that begins a cache line."""
        number = self.code.cast("ptrtoint", "ptr", place, "i64")
        above = self.code.op("and", "i64", self.code.op("sub", "i64", 0, number), 63)
        return self.code.at(place, above, "i8")

    @contextmanager
    def _blocks(self, lo: str, hi: str, width: str) -> Iterator[tuple[str, str]]:
        """The first column and the width of each block."""
        code = self.code
        column = code.variable("i64", lo)
        with code.repeat(lambda: code.compare("slt", "i64", code.get(column), hi)):
            at = code.get(column)
            yield at, _smaller(code, code.op("sub", "i64", hi, at), width)
            code.put(column, code.op("add", "i64", at, width))

    def _rounded_up(self, a: str, b: str | int) -> str:
        """The quotient, rounded up."""
        less = self.code.op("sub", "i64", b, 1)
        return self.code.op("udiv", "i64", self.code.op("add", "i64", a, less), b)

    def _negative_zeros(self) -> str:
        """A row of a tile that is 0 when it is added, whatever it is added to."""
        code, tiles = self.code, self.tiles
        row = code.table("i8", self.panel)
        value = f"splat ({element_type(tiles.dtype)} {literal(-0.0, tiles.dtype)})"
        for v in range(VECTORS):
            code.store(tiles.lane_type, value, row, v, 64)
        return row

    def _place(self, base: str, *terms: tuple[str, str | int]) -> str:
        for index, step in terms:
            base = self.code.at(base, self.code.op("mul", "i64", index, step), "i8")
        return base

    def _panels(self, column: str, width: str, first: str, depth: str) -> None:
        """Columns [column, column + width) and steps [first, first + depth) of k."""
        code, word = self.code, self.word
        b = self._place("%b", (column, word["b_column"]), (first, word["b_step"]))
        part = code.op("urem", "i64", width, self.tiles.columns)
        whole = code.op("sub", "i64", width, part)
        begin = code.select(self.copies, "i64", "0", whole)
        self._copy_b(b, begin, width, depth)
        row = code.variable("i64", "%row_lo")
        with code.repeat(lambda: code.compare("slt", "i64", code.get(row), "%row_hi")):
            i = code.get(row)
            left = code.op("sub", "i64", "%row_hi", i)
            chosen = _smaller(code, left, TABLE)
            kind = code.load("i64", f"@{self.symbol}_next", chosen, 8)
            height = code.load("i64", f"@{self.symbol}_rows", kind, 8)
            rows = _smaller(code, left, height)
            self.whole_rows = code.compare("eq", "i64", rows, height)
            a = self._rows_of_a(i, height, rows, first, depth)
            c = self._place("%c", (i, word["c_row"]), (column, self.size))
            add = code.compare("sgt", "i64", first, 0)
            with code.count(0, width, self.tiles.columns) as j:
                is_whole = code.compare("slt", "i64", j, whole)
                direct = code.op("and", "i1", is_whole, code.op("xor", "i1", self.copies, "true"))
                self._tile(kind, a, (b, j, width, direct), c, (depth, rows, add))
            code.put(row, code.op("add", "i64", i, height))

    def _copied_panel(self, j: str) -> str:
        """Where a panel's copy is; if only the last panel is copied, there is room for one."""
        number = self.code.op("udiv", "i64", j, self.tiles.columns)
        number = self.code.select(self.copies, "i64", number, "0")
        return self._place(self.code.get(self.copied_b), (number, self.panel_bytes))

    def _copy_b(self, b: str, begin: str, width: str, depth: str) -> None:
        """Copy columns [begin, width) of B to panels, the last one filled up."""
        code, columns = self.code, self.tiles.columns
        column = self.word["b_column"]
        turned = code.compare("ne", "i64", column, self.size)
        with code.when(turned), code.count(begin, width, columns) as j:
            present = _smaller(code, code.op("sub", "i64", width, j), columns)
            code.line(
                f"call void @{self.symbol}_turn(ptr {self._copied_panel(j)}, i64 {self.panel}, "
                f"ptr {self._place(b, (j, column))}, i64 {column}, i64 {columns}, i64 {present}, "
                f"i64 {depth})"
            )
        with code.when(code.op("xor", "i1", turned, "true")):
            code.line(
                f"call void @{self.symbol}_panels(ptr {self._copied_panel(begin)}, "
                f"i64 {self.panel_bytes}, ptr {code.at(b, begin, self.element)}, "
                f"i64 {self.word['b_step']}, i64 {depth}, "
                f"i64 {code.op('sub', 'i64', width, begin)})"
            )

    def _rows_of_a(
        self, i: str, height: str, rows: str, first: str, depth: str
    ) -> tuple[str, str, str]:
        """The address and the strides of rows of A: copied if asked for, or if there are fewer
        than the tile has."""
        code, word = self.code, self.word
        source = self._place("%a", (i, word["a_row"]), (first, word["a_step"]))
        by_rows = code.compare("eq", "i64", word["a_step"], self.size)
        with code.when(code.compare("ne", "i64", word["ahead"], 0)):
            line = code.select(by_rows, "i64", word["a_row"], word["a_step"])
            lines = code.select(by_rows, "i64", height, depth)
            length = code.select(by_rows, "i64", depth, height)
            length = code.op("mul", "i64", length, self.size)
            following = self._place(source, (height, word["a_row"]))
            call = f"ptr {following}, i64 {line}, i64 {lines}, i64 {length}"
            code.line(f"call void @{self.symbol}_ahead({call})")
        place = code.variable("ptr", source)
        row, step = code.variable("i64", word["a_row"]), code.variable("i64", word["a_step"])
        copies = code.compare("ne", "i64", word["copy_a"], 0)
        few = code.compare("slt", "i64", rows, height)
        turned = code.compare("ne", "i64", word["a_step"], self.size)
        with code.when(code.op("or", "i1", copies, few)):
            code.put(place, self.copied_a)
            with code.when(turned):
                call = f"ptr {self.copied_a}, i64 {self.step}, ptr {source}, i64 {word['a_step']}"
                call += f", i64 {depth}, i64 {depth}, i64 {rows}"
                code.line(f"call void @{self.symbol}_lines({call})")
                code.put(row, str(self.size))
                code.put(step, str(self.step))
            with code.when(code.op("xor", "i1", turned, "true")):
                call = f"ptr {self.copied_a}, i64 {_LINE}, ptr {source}, i64 {word['a_row']}"
                call += f", i64 {height}, i64 {rows}, i64 {depth}"
                code.line(f"call void @{self.symbol}_lines({call})")
                code.put(row, str(_LINE))
                code.put(step, str(self.size))
        return code.get(place), code.get(row), code.get(step)

    def _tile(
        self,
        kind: str,
        a: tuple[str, str, str],
        b: tuple[str, str, str, str],
        c: str,
        extent: tuple[str, str, str],
    ) -> None:
        """One tile of C."""
        code, lanes = self.code, self.tiles.lanes
        base, j, width, direct = b
        depth, rows, add = extent
        columns = _smaller(code, code.op("sub", "i64", width, j), self.tiles.columns)
        source = code.at(base, j, self.element)
        panel = code.select(direct, "ptr", source, self._copied_panel(j))
        step = code.select(direct, "i64", self.word["b_step"], str(self.panel))
        narrow = code.compare("sle", "i64", columns, lanes)
        narrow = code.op("and", "i1", narrow, code.compare("eq", "i64", kind, 0))
        number = code.select(narrow, "i64", "0", code.op("add", "i64", kind, 1))
        function = code.load("ptr", f"@{self.symbol}_tiles", number, 8)
        width = code.select(narrow, "i64", str(lanes), str(self.tiles.columns))
        whole = code.op("and", "i1", self.whole_rows, code.compare("eq", "i64", columns, width))
        target = code.at(c, j, self.element)
        c_row = self.word["c_row"]
        to = code.select(whole, "ptr", target, self.edge)
        to_row = code.select(whole, "i64", c_row, str(self.panel))
        adds = code.op("and", "i1", whole, add)
        old = code.select(adds, "ptr", target, self.nothing)
        old_row = code.select(adds, "i64", c_row, "0")
        place, row, a_step = a
        code.line(
            f"call void {function}(ptr {place}, i64 {row}, i64 {a_step}, ptr {panel}, i64 {step}, "
            f"ptr {to}, i64 {to_row}, ptr {old}, i64 {old_row}, i64 {depth})"
        )
        with code.when(code.op("xor", "i1", whole, "true")):
            code.line(
                f"call void @{self.symbol}_merge(ptr {target}, i64 {c_row}, ptr {self.edge}, "
                f"i64 {self.panel}, i64 {rows}, i64 {columns}, i1 {add})"
            )
