"""L5. Native library steps that walk along contiguous rows by vectors: running totals, and the
place of the greatest or least element.

    scan      16 elements at a time: after adding lanes 1, 2, 4 and 8 places before, each lane holds
              the total up to it; the total of all that came before is added last
    extremum  one walk for the value, one up to the first element that is equal

The rows and columns are a table, the last buffer of a call: all sizes share the code.  Totals of
many short rows have code for their length.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.machine import MASKED_BYTES, VECTOR_BYTES
from fgrad.compile.kernel.rewrite import neutral
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import constant, element_type, lane_type, memory_type
from fgrad.compile.llvm.vector.scalar_llvm import SCALAR_LLVM
from fgrad.compile.tasks.routines import RowWalk

SHORT_ROW = 64  # columns of many rows below which a mask that is known is worth code of its own
CHAINS = 4  # vectors of extrema, so that comparisons need not wait for each other


class Walk(NamedTuple):
    """A step: buffers input, output, table; range: pieces."""

    address: int
    table: tuple[int, ...]


def row_walk(spec: RowWalk) -> Walk:
    """The code of a step, and its table."""
    arg = spec.op.startswith("arg")
    lanes = _extremum_lanes(spec) if arg else spec.lanes
    emit = _emit_extremum if arg else _emit_scan
    content = f"walk {spec.op} {spec.dtype.str} {spec.reverse} {lanes} {_length(spec)}"
    source = Source(content, lambda symbol: emit(symbol, spec, lanes))
    chunk = -(-spec.rows // spec.pieces)
    return Walk(build_counted([source])[0], (spec.rows, spec.columns, chunk))


def _length(spec: RowWalk) -> int | None:
    """The columns that are part of the code."""
    short = spec.rows > 1 and spec.columns < SHORT_ROW and not spec.op.startswith("arg")
    return spec.columns if short else None


class _Sizes(NamedTuple):
    """What the table says."""

    rows: str
    columns: str
    chunk: str


def _sizes(code: Routine) -> _Sizes:
    table = code.buffer(2)
    return _Sizes(*[code.load("i64", table, k, 8) for k in range(3)])


def _rows(code: Routine, sizes: _Sizes) -> Iterator[str]:
    """The numbers of the rows of a call, for a loop that writes its body once."""
    first = code.op("mul nsw", "i64", "%lo", sizes.chunk)
    end = code.op("mul nsw", "i64", "%hi", sizes.chunk)
    end = code.call("i64", "llvm.smin.i64", ("i64", end), ("i64", sizes.rows))
    with code.count(first, end) as row:
        yield row


def _multiple(code: Routine, n: str, step: int) -> str:
    """The largest multiple of `step` that is not beyond `n`."""
    return code.op("sub nsw", "i64", n, code.op("urem", "i64", n, step))


def _suffix(dtype: np.dtype, lanes: int) -> str:
    return f"v{lanes}{dtype.kind if dtype.kind == 'f' else 'i'}{8 * dtype.itemsize}"


# --- scans ----------------------------------------------------------------------------------------


def _emit_scan(symbol: str, spec: RowWalk, lanes: int) -> tuple[str, set[str]]:
    """For each row: whole vectors, then the rest."""
    code, dtype = Routine(), spec.dtype
    kind, element = lane_type(dtype, lanes), element_type(dtype)
    source, target = code.buffer(0), code.buffer(1)
    empty = constant(neutral(spec.op, dtype), dtype, lanes)
    sizes, length = _sizes(code), _length(spec)
    n = sizes.columns if length is None else str(length)
    whole = _multiple(code, n, lanes)
    last = code.op("sub nsw", "i64", n, lanes)
    alive = code.op("sub nsw", "i64", n, whole)
    ragged = code.compare("ne", "i64", alive, 0)
    for row in _rows(code, sizes):
        start = code.op("mul nsw", "i64", row, n)
        x, y = (code.at(base, start, element) for base in (source, target))
        carry = code.variable(kind, empty)
        with code.count(0, whole, lanes) as i:
            at = code.op("sub nsw", "i64", last, i) if spec.reverse else i
            values = code.load(kind, x, at, dtype.itemsize, element)
            values = _running(code, spec, values, carry)
            code.store(kind, values, y, at, dtype.itemsize, element)
        if lanes == 1 or (length is not None and length % lanes == 0):
            continue
        with code.when(ragged):
            at = "0" if spec.reverse else whole
            rest = [code.at(base, at, element) for base in (x, y)]
            if dtype.itemsize >= MASKED_BYTES:
                mask = _leading(code, alive if length is None else length % lanes, lanes)
                _masked_rest(code, spec, rest, carry, mask)
            else:
                _copied_rest(code, spec, rest, carry, alive)
    return code.define(symbol)


def _leading(code: Routine, alive: str | int, lanes: int) -> str:
    """The mask of the first lanes, `alive` of them."""
    if isinstance(alive, int):
        return "<" + ", ".join([f"i1 {str(k < alive).lower()}" for k in range(lanes)]) + ">"
    numbers = "<" + ", ".join([f"i32 {k}" for k in range(lanes)]) + ">"
    bound = code.splat(code.cast("trunc", "i64", alive, "i32"), "i32", lanes)
    return code.emit(f"icmp slt <{lanes} x i32> {numbers}, {bound}")


def _masked_rest(code: Routine, spec: RowWalk, rest: list[str], carry: str, mask: str) -> None:
    """The last elements, fewer than a vector has, by masks."""
    dtype, lanes = spec.dtype, spec.lanes
    kind, bits, name = lane_type(dtype, lanes), f"<{lanes} x i1>", _suffix(dtype, lanes)
    empty = (kind, constant(neutral(spec.op, dtype), dtype, lanes))
    size = ("i32", str(dtype.itemsize))
    values = code.call(
        kind, f"llvm.masked.load.{name}.p0", ("ptr", rest[0]), size, (bits, mask), empty
    )
    values = _running(code, spec, values, carry)
    code.declare(f"declare void @llvm.masked.store.{name}.p0({kind}, ptr, i32, {bits})")
    code.line(
        f"call void @llvm.masked.store.{name}.p0({kind} {values}, ptr {rest[1]}, i32 {size[1]}, "
        f"{bits} {mask})"
    )


def _copied_rest(code: Routine, spec: RowWalk, rest: list[str], carry: str, alive: str) -> None:
    """The same for elements that have no masks, in a vector of their own."""
    dtype, kind = spec.dtype, lane_type(spec.dtype, spec.lanes)
    spare = code.table(element_type(dtype), spec.lanes)
    size = code.op("mul nsw", "i64", alive, dtype.itemsize)
    empty = constant(neutral(spec.op, dtype), dtype, spec.lanes)
    code.store(kind, empty, spare, 0, dtype.itemsize)
    code.copy(spare, rest[0], size)
    values = _running(code, spec, code.load(kind, spare, 0, dtype.itemsize), carry)
    code.store(kind, values, spare, 0, dtype.itemsize)
    code.copy(rest[1], spare, size)


def _running(code: Routine, spec: RowWalk, values: str, carry: str) -> str:
    """The running totals of a vector; `carry` holds the total before it and then after it."""
    dtype, lanes = spec.dtype, spec.lanes
    kind = lane_type(dtype, lanes)
    empty = constant(neutral(spec.op, dtype), dtype, lanes)

    def combined(a: str, b: str) -> str:
        return SCALAR_LLVM[spec.op](code, lanes, (a, b), dtype, dtype)

    def shuffled(x: str, order: list[int]) -> str:
        lane_numbers = ", ".join([f"i32 {k}" for k in order])
        return code.emit(
            f"shufflevector {kind} {x}, {kind} {empty}, <{lanes} x i32> <{lane_numbers}>"
        )

    if lanes == 1:
        total = combined(code.get(carry), values)
        code.put(carry, total)
        return total
    step = 1
    while step < lanes:
        sources = [k + step if spec.reverse else k - step for k in range(lanes)]
        before = shuffled(values, [k if 0 <= k < lanes else lanes for k in sources])
        values = combined(before, values)
        step *= 2
    total = shuffled(values, [0 if spec.reverse else lanes - 1] * lanes)
    before = code.get(carry)
    code.put(carry, combined(before, total))
    return combined(before, values)


# --- argmax, argmin -------------------------------------------------------------------------------


class _Line(NamedTuple):
    """The elements of a row, and where its last vector begins."""

    start: str
    columns: str
    last: str


def _extremum_lanes(spec: RowWalk) -> int:
    return min(VECTOR_BYTES // spec.dtype.itemsize, 1 << (spec.columns.bit_length() - 1))


def _emit_extremum(symbol: str, spec: RowWalk, lanes: int) -> tuple[str, set[str]]:
    """For each row: the extremum and whether there is a NaN, then the place."""
    code, element = Routine(), memory_type(spec.dtype)
    source, target = code.buffer(0), code.buffer(1)
    sizes = _sizes(code)
    n, last = sizes.columns, code.op("sub nsw", "i64", sizes.columns, lanes)
    for row in _rows(code, sizes):
        x = _Line(code.at(source, code.op("mul nsw", "i64", row, n), element), n, last)
        best, nan = _best(code, spec, x, lanes)
        code.store("i64", _place(code, spec, x, best, nan, lanes), target, row, 8)
    return code.define(symbol)


def _compare(code: Routine, spec: RowWalk, how: str, lanes: int, a: str, b: str) -> str:
    """A comparison of vectors: "better", "same" or, of floats, "nan"."""
    kind, up = memory_type(spec.dtype), spec.op == "argmax"
    vector = kind if lanes == 1 else f"<{lanes} x {kind}>"
    if spec.dtype.kind == "f":
        condition = {"better": "ogt" if up else "olt", "same": "oeq", "nan": "uno"}[how]
        return code.emit(f"fcmp {condition} {vector} {a}, {b}")
    sign = "s" if spec.dtype.kind == "i" else "u"
    condition = {"better": f"{sign}{'gt' if up else 'lt'}", "same": "eq"}[how]
    return code.compare(condition, vector, a, b)


def _best(code: Routine, spec: RowWalk, x: _Line, lanes: int) -> tuple[str, str | None]:
    """The extremum of a row, as a scalar, and an i1 that says whether there is a NaN."""
    kind, size = memory_type(spec.dtype), spec.dtype.itemsize
    vector, mask = _vector(kind, lanes), _vector("i1", lanes)
    first = code.load(vector, x.start, 0, size, kind)
    chains = [code.variable(vector, first) for _ in range(CHAINS)]
    wild = code.variable(_vector(f"i{8 * size}", lanes), "zeroinitializer" if lanes > 1 else "0")

    def take(chain: str, at: str) -> None:
        value, old = code.load(vector, x.start, at, size, kind), code.get(chain)
        better = _compare(code, spec, "better", lanes, value, old)
        code.put(chain, code.select(better, vector, value, old, mask))
        if spec.dtype.kind == "f":
            nan = _compare(code, spec, "nan", lanes, value, value)
            nan = code.cast("sext", mask, nan, _vector(f"i{8 * size}", lanes))
            code.put(wild, code.op("or", _vector(f"i{8 * size}", lanes), code.get(wild), nan))

    block = CHAINS * lanes
    main = _multiple(code, x.columns, block)
    with code.count(0, main, block) as i:
        for k, chain in enumerate(chains):
            take(chain, code.op("add nsw", "i64", i, k * lanes))
    with code.count(main, x.columns, lanes) as i:
        take(chains[0], code.call("i64", "llvm.smin.i64", ("i64", i), ("i64", x.last)))
    found, width = [code.get(chain) for chain in chains], lanes
    for a in found[1:]:
        better = _compare(code, spec, "better", lanes, a, found[0])
        found[0] = code.select(better, vector, a, found[0], mask)
    best = found[0]
    while width > 1:  # fold the upper half onto the lower one
        half = width // 2
        lower, upper = (_lanes_of(code, kind, best, width, s, half) for s in (0, half))
        better = _compare(code, spec, "better", half, upper, lower)
        best = code.select(better, _vector(kind, half), upper, lower, _vector("i1", half))
        width = half
    if spec.dtype.kind != "f":
        return best, None
    bits = _vector(f"i{8 * size}", lanes)
    any_nan = code.get(wild)
    if lanes > 1:
        name = f"llvm.vector.reduce.or.v{lanes}i{8 * size}"
        any_nan = code.call(f"i{8 * size}", name, (bits, any_nan))
    return best, code.compare("ne", f"i{8 * size}", any_nan, 0)


def _vector(kind: str, lanes: int) -> str:
    return kind if lanes == 1 else f"<{lanes} x {kind}>"


def _lanes_of(code: Routine, kind: str, x: str, lanes: int, start: int, count: int) -> str:
    """Neighbouring lanes of a vector."""
    if count == 1:
        return code.emit(f"extractelement <{lanes} x {kind}> {x}, i64 {start}")
    order = ", ".join([f"i32 {start + k}" for k in range(count)])
    vector = f"<{lanes} x {kind}>"
    return code.emit(f"shufflevector {vector} {x}, {vector} poison, <{count} x i32> <{order}>")


def _place(code: Routine, spec: RowWalk, x: _Line, best: str, nan: str | None, lanes: int) -> str:
    """The first place of the extremum, or of a NaN."""
    place = code.variable("i64", "0")
    wanted = best if lanes == 1 else code.splat(best, memory_type(spec.dtype), lanes)
    if nan is None:
        code.put(place, _first(code, spec, x, "same", wanted, lanes))
        return code.get(place)
    with code.when(nan):
        code.put(place, _first(code, spec, x, "nan", None, lanes))
    with code.when(code.op("xor", "i1", nan, "true")):
        code.put(place, _first(code, spec, x, "same", wanted, lanes))
    return code.get(place)


def _first(code: Routine, spec: RowWalk, x: _Line, how: str, wanted: str | None, lanes: int) -> str:
    """The first place of an element that compares with what is wanted, or with itself."""
    kind, size = memory_type(spec.dtype), spec.dtype.itemsize
    vector, bits = _vector(kind, lanes), f"i{lanes}"
    found, at = code.variable(bits, "0"), code.variable("i64", str(-lanes))
    with code.repeat(lambda: code.compare("eq", bits, code.get(found), 0)):
        after = code.op("add nsw", "i64", code.get(at), lanes)
        code.put(at, code.call("i64", "llvm.smin.i64", ("i64", after), ("i64", x.last)))
        value = code.load(vector, x.start, code.get(at), size, kind)
        hit = _compare(code, spec, how, lanes, value, wanted or value)
        code.put(found, hit if lanes == 1 else code.emit(f"bitcast <{lanes} x i1> {hit} to {bits}"))
    lane = code.call(bits, f"llvm.cttz.{bits}", (bits, code.get(found)), ("i1", "true"))
    lane = code.cast("zext" if lanes < 64 else "bitcast", bits, lane, "i64")
    return code.op("add nsw", "i64", code.get(at), lane)
