"""L5. Tiles as LLVM text: two parallel vector loops, one inside the other, without loops in
between.

A tile holds `lanes` rows of vectors along the inner axis.  Accesses that run along the inner axis
are emitted once for each row; accesses that run along the outer axis are emitted with the roles of
the axes exchanged, and a square of vectors is transposed in registers by log2(lanes) rounds of
shuffles.
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.cpu.emit.frame import Axis, Frame, Value
from fgrad.compile.cpu.emit.memory import emit_load, emit_store
from fgrad.compile.kernel.ir import Const, Index, Load, Loop, Op, Statement, Store
from fgrad.compile.kernel.rewrite import only_loop, stride_of
from fgrad.compile.llvm.text import lane_type


class Tile:
    """The body of one tile at a position given by two axes."""

    def __init__(self, frame: Frame, rows: Loop, plain: Callable[[Statement], None]) -> None:
        self.frame = frame
        self.rows, self.columns = rows, only_loop(rows.body)
        self.lanes = rows.lanes
        self.plain = plain
        self.values: dict[int, list[Value]] = {}

    def emit(self, row: Axis, column: Axis) -> None:
        """Emit the body; `row` and `column` are the axes at the tile's corner, without lanes."""
        for s in self.columns.body:
            if isinstance(s, Load) and self._runs_along_rows(s):
                self.values[s.id] = self._turned_load(s, row, column)
            elif isinstance(s, Store) and self._runs_along_rows(s):
                self._turned_store(s, row, column)
            else:
                self._rows(s, row, column)

    def _runs_along_rows(self, s: Load | Store) -> bool:
        indirect = s.gather if isinstance(s, Load) else s.scatter
        along = stride_of(s.index, self.rows.axis), stride_of(s.index, self.columns.axis)
        return (
            along[0] == 1
            and along[1] != 1
            and not indirect
            and s.predicate is None
            and along[1] != 0
        )

    def _place(self, row: Axis, column: Axis) -> None:
        self.frame.axes[self.rows.axis] = row
        self.frame.axes[self.columns.axis] = column

    def _rows(self, s: Statement, row: Axis, column: Axis) -> None:
        """A statement once for each row of the tile, each a vector along the columns."""
        values = self.frame.values
        result = s.id if isinstance(s, (Const, Index, Load, Op)) else None
        made: list[Value] = []
        for k in range(self.lanes):
            for id, rows in self.values.items():
                values[id] = rows[k]
            self._place(row._replace(offset=row.offset + k), column._replace(lanes=self.lanes))
            if result is not None:
                values.pop(result, None)
            self.plain(s)
            if result is not None:
                made.append(values[result])
        if result is not None:
            self.values[result] = made

    def _turned_load(self, s: Load, row: Axis, column: Axis) -> list[Value]:
        columns = []
        for k in range(self.lanes):
            self._place(row._replace(lanes=self.lanes), column._replace(offset=column.offset + k))
            columns.append(emit_load(self.frame, s))
        return self._transpose(columns)

    def _turned_store(self, s: Store, row: Axis, column: Axis) -> None:
        for k, value in enumerate(self._transpose(self._stored(s))):
            self._place(row._replace(lanes=self.lanes), column._replace(offset=column.offset + k))
            self.frame.values[s.value] = value
            emit_store(self.frame, s)

    def _stored(self, s: Store) -> list[Value]:
        return self.values.get(s.value) or [self.frame.values[s.value]] * self.lanes

    def _transpose(self, rows: list[Value]) -> list[Value]:
        """The square of vectors with rows and lanes exchanged: butterflies of growing distance."""
        frame, lanes, dtype = self.frame, self.lanes, rows[0].dtype
        scope, kind = frame.inner, lane_type(rows[0].dtype, lanes)
        texts = [frame.spread(value, lanes) for value in rows]
        function = frame.enter(scope)
        distance = 1
        while distance < lanes:
            orders = butterfly(lanes, distance)
            for k in range(lanes):
                if not k & distance:
                    a, b = texts[k], texts[k + distance]
                    texts[k], texts[k + distance] = [
                        function.emit(f"shufflevector {kind} {a}, {kind} {b}, {order}")
                        for order in orders
                    ]
            distance *= 2
        return [Value(text, lanes, dtype, scope) for text in texts]


def butterfly(lanes: int, distance: int) -> list[str]:
    """The two shuffle masks that exchange blocks of `distance` lanes between two vectors."""
    low = [k if not k & distance else lanes + (k ^ distance) for k in range(lanes)]
    high = [k | distance if not k & distance else lanes + k for k in range(lanes)]
    return [f"<{lanes} x i32> <{', '.join([f'i32 {k}' for k in order])}>" for order in (low, high)]
