"""L6. Walks along contiguous rows on the device: running totals, the place of an extremum.

    scan      a team of threads takes a chunk of a row at a time and carries the total on
    extremum  each thread finds the best of every n-th element, then the team of its threads
    ordered   products of floats, one by one as NumPy's: another order may overflow on its way

Few long rows are cut into strips: totals of strips, a scan of those, and a scan of each strip that
begins with what is before it.  Nothing depends on the order in which threads run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.rewrite import neutral
from fgrad.compile.llvm.text import FunctionText, element_type, literal
from fgrad.compile.tasks.routines import RowWalk
from fgrad.lower_cuda.emit.calls import Address, Calls, KernelCall
from fgrad.lower_cuda.emit.machine import MANY_TEAMS, THREADS
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA
from fgrad.lower_cuda.emit.team_text import Values, block_fold, block_scan
from fgrad.lower_cuda.emit.text import BodyText, Pointer

SHORT = 1024  # columns up to which a row is a warp's
STRIP = 4096  # the least columns of a strip
TILE = 64  # columns that `ordered` has in shared memory

INT64 = np.dtype(np.int64)


class Team(NamedTuple):
    """Who walks: `threads` for each of `strips` strips of `length` columns in each row."""

    threads: int
    strips: int
    length: int


def team_of(rows: int, columns: int) -> Team:
    """The team for rows of this length."""
    threads = 32 if columns <= SHORT else THREADS
    strips = min(columns // STRIP, MANY_TEAMS // max(rows, 1))
    if strips < 2:
        return Team(threads, 1, columns)
    chunk = 4 * threads
    length = -(-columns // (strips * chunk)) * chunk
    return Team(threads, -(-columns // length), length)


def walk_calls(spec: RowWalk) -> Calls:
    """The calls of a walk; buffers: input, output."""
    if spec.op.startswith("arg"):
        return _extremum_calls(spec)
    if spec.op == "mul" and spec.dtype.kind == "f":
        return _ordered_calls(spec)
    return _scan_calls(spec)


def _launch(body: str, team: Team, items: int, *places: Address) -> KernelCall:
    """A launch with a team for each item."""
    if team.threads == THREADS:
        return KernelCall(body, items, (THREADS, 1), places)
    per_block = THREADS // team.threads
    return KernelCall(body, -(-items // per_block), (team.threads, per_block), places)


@contextmanager
def _item(body: BodyText, team: Team, items: int) -> Iterator[str]:
    """What the team does for its item, whose number is the context's value."""
    if team.threads == THREADS:
        yield body.wide("%block")
        return
    per_block = THREADS // team.threads
    first = body.op("mul", "i64", body.wide("%block"), per_block)
    item = body.op("add", "i64", first, body.wide("%y"))
    with body.when(body.compare("slt", "i64", item, items)):
        yield item


# --- running totals -------------------------------------------------------------------------------


def _scan_calls(spec: RowWalk) -> Calls:
    team, items = team_of(spec.rows, spec.columns), spec.rows
    if team.strips == 1:
        return Calls((_launch(_scan_text(spec, team), team, items, Address(0), Address(1)),))
    items *= team.strips
    totals = spec._replace(columns=team.strips, reverse=False)
    second = team_of(spec.rows, team.strips)
    sums, before = Address(2), Address(3)
    calls = (
        _launch(_scan_text(spec, team, writes="totals"), team, items, Address(0), sums),
        _launch(_scan_text(totals, second), second, spec.rows, sums, before),
        _launch(
            _scan_text(spec, team, begins=True),
            team,
            items,
            Address(0),
            Address(1),
            before,
        ),
    )
    return Calls(calls, (items * spec.dtype.itemsize,) * 2)


def _first(op: str, dtype: np.dtype) -> str:
    """What changes nothing when it comes first: of sums -0.0."""
    if op == "add" and dtype.kind == "f":
        return literal(-0.0, dtype)
    return literal(neutral(op, dtype), dtype)


def _scan_text(spec: RowWalk, team: Team, writes: str = "elements", begins: bool = False) -> str:
    """The body of a scan.  Buffers: rows, and running totals or the total of each strip; with
    `begins` also the running totals of the strips."""
    return _Scan(spec, team, writes == "totals").text(begins)


class _Scan:
    """Writes a scan."""

    def __init__(self, spec: RowWalk, team: Team, totals: bool) -> None:
        self.spec, self.team, self.totals = spec, team, totals
        self.body = BodyText()
        self.kind = element_type(spec.dtype)
        self.items = min(4, 16 // spec.dtype.itemsize)  # neighbours that a thread takes
        if spec.columns % self.items:
            self.items = 1
        self.vector = self.kind if self.items == 1 else f"<{self.items} x {self.kind}>"

    def text(self, begins: bool) -> str:
        """The whole body."""
        body, spec, team = self.body, self.spec, self.team
        x, y = (body.pointer(k, self.kind) for k in range(2))
        with _item(body, team, spec.rows * team.strips) as item:
            row = body.op("udiv", "i64", item, team.strips)
            strip = body.op("urem", "i64", item, team.strips)
            start = body.op("mul", "i64", strip, team.length)
            end = body.op("add", "i64", start, team.length)
            end = body.least("i64", end, spec.columns)
            base = body.op("mul", "i64", row, spec.columns)
            self.carry = body.variable(self.kind, _first(spec.op, spec.dtype))
            if begins:
                self._begin(item, strip)
            with body.count(start, end, team.threads * self.items) as first:
                own = body.op("mul", "i64", body.wide("%x"), self.items)
                self._chunk(
                    body.at(x, base), body.at(y, base), body.op("add", "i64", first, own), end
                )
            if self.totals:
                with body.when(body.compare("eq", "i32", "%x", 0)):
                    body.store(body.get(self.carry), y, item)
        return body.finish(3 if begins else 2)

    def _begin(self, item: str, strip: str) -> None:
        """Carry what the strips before hold."""
        body = self.body
        with body.when(body.compare("ne", "i64", strip, 0)):
            before = body.op("sub", "i64", item, 1)
            body.put(self.carry, body.load(body.pointer(2, self.kind), before))

    def _chunk(self, x: Pointer, y: Pointer, at: str, end: str) -> None:
        """The team's elements, of which `at` is the first of the own ones."""
        body = self.body
        inside = body.compare("slt", "i64", at, end)
        running = self._own(x, at, inside)
        empty = (_first(self.spec.op, self.spec.dtype),)
        dtypes, threads = (self.spec.dtype,), self.team.threads
        (before,), (total,) = block_scan(
            body, "scan", self._combined, (running[-1],), dtypes, threads, empty
        )
        carry = body.get(self.carry)
        body.put(self.carry, self._plus(carry, total))
        if self.totals:
            return
        before = self._plus(carry, before)
        with body.when(inside):
            self._write(y, at, [self._plus(before, value) for value in running])

    def _own(self, x: Pointer, at: str, inside: str) -> list[str]:
        """The running totals of the thread's own elements."""
        body, empty = self.body, _first(self.spec.op, self.spec.dtype)
        cells = [body.variable(self.kind, empty) for _ in range(self.items)]
        with body.when(inside):
            place = body.view(body.at(x, self._memory(at)), self.vector)
            loaded = body.load(place, align=self.items * self.spec.dtype.itemsize)
            for k, cell in enumerate(self._ordered(cells)):
                value = loaded
                if self.items > 1:
                    value = body.emit(f"extractelement {self.vector} {loaded}, i32 {k}")
                body.put(cell, value)
        running = [body.get(cells[0])]
        for cell in cells[1:]:
            running.append(self._plus(running[-1], body.get(cell)))
        return running

    def _write(self, y: Pointer, at: str, values: list[str]) -> None:
        body = self.body
        result = values[0]
        if self.items > 1:
            result = "undef"
            for k, value in enumerate(self._ordered(values)):
                new = f"insertelement {self.vector} {result}, {self.kind} {value}, i32 {k}"
                result = body.emit(new)
        place = body.view(body.at(y, self._memory(at)), self.vector)
        body.store(result, place, align=self.items * self.spec.dtype.itemsize)

    def _ordered(self, values: list[str]) -> list[str]:
        """Elements in the order of memory."""
        return values[::-1] if self.spec.reverse else values

    def _memory(self, at: str) -> str:
        """Where in its row the first of the own elements is in memory."""
        if not self.spec.reverse:
            return at
        return self.body.op("sub", "i64", self.spec.columns - self.items, at)

    def _plus(self, a: str, b: str) -> str:
        return self._combined(self.body, (a,), (b,))[0]

    def _combined(self, text: FunctionText, a: Values, b: Values) -> Values:
        dtype = self.spec.dtype
        return (SCALAR_CUDA[self.spec.op](text, (*a, *b), dtype, dtype),)


# --- products in order ----------------------------------------------------------------------------


def _ordered_calls(spec: RowWalk) -> Calls:
    rows = min(32, spec.rows)
    body = _ordered_text(spec, rows)
    return Calls((KernelCall(body, -(-spec.rows // rows), (THREADS, 1), (Address(0), Address(1))),))


def _ordered_text(spec: RowWalk, rows: int) -> str:
    """The body of products in order: tiles of `rows` rows, one thread for each."""
    body, dtype = BodyText(), spec.dtype
    kind = element_type(dtype)
    x, y = (body.pointer(k, kind) for k in range(2))
    tile = body.shared("tile", kind, rows * (TILE + 1))
    first_row = body.op("mul", "i64", body.wide("%block"), rows)
    carry = body.variable(kind, literal(1.0, dtype))

    def each(start: str, do: Callable[[str, str], None]) -> None:
        """For elements of the tile: their place in memory and in the tile."""
        with body.count("%x", rows * TILE, THREADS, "i32") as e:
            r, c = body.op("udiv", "i32", e, TILE), body.op("urem", "i32", e, TILE)
            row = body.op("add", "i64", first_row, body.wide(r))
            column = body.op("add", "i64", start, body.wide(c))
            inside = body.op(
                "and", "i1",
                body.compare("slt", "i64", row, spec.rows),
                body.compare("slt", "i64", column, spec.columns),
            )  # fmt: skip
            with body.when(inside):
                if spec.reverse:
                    column = body.op("sub", "i64", spec.columns - 1, column)
                at = body.op("add", "i64", body.op("mul", "i64", row, spec.columns), column)
                do(at, body.op("add", "i32", body.op("mul", "i32", r, TILE + 1), c))

    with body.count(0, spec.columns, TILE) as start:
        each(start, lambda at, own: body.store(body.load(x, at), tile, own, "i32"))
        body.barrier()
        with body.when(body.compare("slt", "i32", "%x", rows)):
            left = body.op("sub", "i64", spec.columns, start)
            count = body.cast("trunc", "i64", body.least("i64", left, TILE), "i32")
            own = body.at(tile, body.op("mul", "i32", "%x", TILE + 1), "i32")
            with body.count(0, count, kind="i32") as c:
                value = body.load(own, c, "i32")
                body.put(carry, body.op("fmul", kind, body.get(carry), value))
                body.store(body.get(carry), own, c, "i32")
        body.barrier()
        each(start, lambda at, own: body.store(body.load(tile, own, "i32"), y, at))
    return body.finish(2)


# --- argmax, argmin -------------------------------------------------------------------------------

_UNROLLED = 4  # elements that a thread has under way


def _extremum_calls(spec: RowWalk) -> Calls:
    team, items = team_of(spec.rows, spec.columns), spec.rows
    if team.strips == 1:
        return Calls((_launch(_extremum_text(spec, team), team, items, Address(0), Address(1)),))
    items *= team.strips
    first = _extremum_text(spec, team, partial=True)
    second = team_of(spec.rows, team.strips)
    last = _extremum_text(spec._replace(columns=team.strips), second, placed=True)
    best, places = Address(2), Address(3)
    calls = (
        _launch(first, team, items, Address(0), places, best),
        _launch(last, second, spec.rows, best, Address(1), places),
    )
    return Calls(calls, (items * spec.dtype.itemsize, items * 8))


def _extremum_text(spec: RowWalk, team: Team, partial: bool = False, placed: bool = False) -> str:
    """The body of a search for the extremum.

    Buffers: elements, places; with `partial` the extremum of each strip is written to a third one;
    with `placed` the places of the elements are read from there.
    """
    body, kind = BodyText(), element_type(spec.dtype)
    x, places = body.pointer(0, kind), body.pointer(1, "i64")
    numbers = body.pointer(2, "i64") if placed else None
    with _item(body, team, spec.rows * team.strips) as item:
        row = body.op("udiv", "i64", item, team.strips)
        strip = body.op("urem", "i64", item, team.strips)
        start = body.op("mul", "i64", strip, team.length)
        end = body.least("i64", body.op("add", "i64", start, team.length), spec.columns)
        base = body.op("mul", "i64", row, spec.columns)

        def element(at: str) -> Values:
            own = body.op("add", "i64", base, at)
            return body.load(x, own), (body.load(numbers, own) if numbers else at)

        value, number = element(start)
        best, place = body.variable(kind, value), body.variable("i64", number)
        own = body.op("add", "i64", start, body.wide("%x"))
        last = body.op("sub", "i64", end, 1)
        with body.count(own, end, _UNROLLED * team.threads) as i:
            ats = [body.op("add", "i64", i, k * team.threads) for k in range(_UNROLLED)]
            for new in [element(body.least("i64", at, last)) for at in ats]:
                values = _better(spec)(body, (body.get(best), body.get(place)), new)
                body.put(best, values[0])
                body.put(place, values[1])
        dtypes = (spec.dtype, INT64)
        found = (body.get(best), body.get(place))
        found = block_fold(body, "best", _better(spec), found, dtypes, team.threads)
        with body.when(body.compare("eq", "i32", "%x", 0)):
            body.store(found[1], places, item)
            if partial:
                body.store(found[0], body.pointer(2, kind), item)
    return body.finish(3 if partial or placed else 2)


def _better(spec: RowWalk) -> Callable[[FunctionText, Values, Values], Values]:
    """Of two elements and their places the better one: NaN before numbers, then the first."""
    kind, up = element_type(spec.dtype), spec.op == "argmax"

    def combine(text: FunctionText, a: Values, b: Values) -> Values:
        earlier = text.emit(f"icmp slt i64 {b[1]}, {a[1]}")
        if spec.dtype.kind == "f":
            condition = "ogt" if up else "olt"
            wins = text.emit(f"fcmp {condition} {kind} {b[0]}, {a[0]}")
            same = text.emit(f"fcmp oeq {kind} {b[0]}, {a[0]}")
            nans = [text.emit(f"fcmp uno {kind} {x}, {x}") for x in (a[0], b[0])]
            only = text.emit(f"and i1 {nans[1]}, {text.emit(f'xor i1 {nans[0]}, true')}")
            wins = text.emit(f"or i1 {wins}, {only}")
            same = text.emit(f"or i1 {same}, {text.emit(f'and i1 {nans[0]}, {nans[1]}')}")
        else:
            sign = "s" if spec.dtype.kind == "i" else "u"
            wins = text.emit(f"icmp {sign}{'gt' if up else 'lt'} {kind} {b[0]}, {a[0]}")
            same = text.emit(f"icmp eq {kind} {b[0]}, {a[0]}")
        first = text.emit(f"and i1 {same}, {earlier}")
        takes = text.emit(f"or i1 {wins}, {first}")
        return (
            text.emit(f"select i1 {takes}, {kind} {b[0]}, {kind} {a[0]}"),
            text.emit(f"select i1 {takes}, i64 {b[1]}, i64 {a[1]}"),
        )

    return combine
