"""L5. Native library steps that walk along contiguous rows by vectors: running totals, and the
place of the greatest or least element.

    scan      16 elements at a time: after adding lanes 1, 2, 4 and 8 places before, each lane holds
              the total up to it; the total of all that came before is added last
    extremum  one walk for the value, one up to the first element that is equal
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.kernel.rewrite import neutral
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import constant, element_type, lane_type, memory_type
from fgrad.compile.llvm.vector.scalar_llvm import SCALAR_LLVM
from fgrad.compile.tasks.routines import RowWalk

CHAINS = 4  # vectors of extrema, so that comparisons need not wait for each other


def row_walk(spec: RowWalk) -> int:
    """The address of a step; buffers: input, output; range: pieces."""
    emit = _emit_extremum if spec.op.startswith("arg") else _emit_scan
    return build_counted([Source(f"walk {tuple(spec)}", lambda symbol: emit(symbol, spec))])[0]


def _rows(code: Routine, spec: RowWalk) -> Iterator[str]:
    """The numbers of the rows of a call, for a loop that writes its body once."""
    chunk = -(-spec.rows // spec.pieces)
    first = code.op("mul nsw", "i64", "%lo", chunk)
    end = code.op("mul nsw", "i64", "%hi", chunk)
    end = code.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(spec.rows)))
    with code.count(first, end) as row:
        yield row


def _mask(lanes: int, alive: int) -> str:
    return "<" + ", ".join([f"i1 {'true' if k < alive else 'false'}" for k in range(lanes)]) + ">"


def _suffix(dtype: np.dtype, lanes: int) -> str:
    return f"v{lanes}{dtype.kind if dtype.kind == 'f' else 'i'}{8 * dtype.itemsize}"


# --- scans ----------------------------------------------------------------------------------------


def _emit_scan(symbol: str, spec: RowWalk) -> tuple[str, set[str]]:
    """For each row: whole vectors, then the rest under a mask."""
    code, dtype, n = Routine(), spec.dtype, spec.columns
    lanes = spec.lanes
    kind, whole = lane_type(dtype, lanes), n // lanes * lanes
    source, target = code.buffer(0), code.buffer(1)
    empty = constant(neutral(spec.op, dtype), dtype, lanes)
    for row in _rows(code, spec):
        start = code.op("mul nsw", "i64", row, n)
        x = code.at(source, start, element_type(dtype))
        y = code.at(target, start, element_type(dtype))
        carry = code.variable(kind, empty)
        with code.count(0, whole, lanes) as i:
            at = code.op("sub nsw", "i64", n - lanes, i) if spec.reverse else i
            values = code.load(kind, x, at, dtype.itemsize, element_type(dtype))
            values = _running(code, spec, values, carry)
            code.store(kind, values, y, at, dtype.itemsize, element_type(dtype))
        if whole < n:
            at = 0 if spec.reverse else whole
            _scan_rest(code, spec, (x, y), at, carry, n - whole)
    return code.define(symbol)


def _scan_rest(
    code: Routine, spec: RowWalk, rows: tuple[str, str], at: int, carry: str, alive: int
) -> None:
    """The last elements, fewer than a vector has."""
    dtype = spec.dtype
    lanes = spec.lanes
    kind, element = lane_type(dtype, lanes), element_type(dtype)
    name, mask = _suffix(dtype, lanes), (f"<{lanes} x i1>", _mask(lanes, alive))
    empty = (kind, constant(neutral(spec.op, dtype), dtype, lanes))
    size = ("i32", str(dtype.itemsize))
    x, y = (("ptr", code.at(base, at, element)) for base in rows)
    values = code.call(kind, f"llvm.masked.load.{name}.p0", x, size, mask, empty)
    values = _running(code, spec, values, carry)
    code.declare(f"declare void @llvm.masked.store.{name}.p0({kind}, ptr, i32, {mask[0]})")
    code.line(
        f"call void @llvm.masked.store.{name}.p0({kind} {values}, ptr {y[1]}, i32 {size[1]}, "
        f"{mask[0]} {mask[1]})"
    )


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


def _emit_extremum(symbol: str, spec: RowWalk) -> tuple[str, set[str]]:
    """For each row: the extremum and whether there is a NaN, then the place."""
    code, dtype, n = Routine(), spec.dtype, spec.columns
    lanes = min(VECTOR_BYTES // dtype.itemsize, 1 << (n.bit_length() - 1))
    source, target = code.buffer(0), code.buffer(1)
    element = memory_type(dtype)
    for row in _rows(code, spec):
        x = code.at(source, code.op("mul nsw", "i64", row, n), element)
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


def _best(code: Routine, spec: RowWalk, x: str, lanes: int) -> tuple[str, str | None]:
    """The extremum of a row, as a scalar, and an i1 that says whether there is a NaN."""
    kind, n, size = memory_type(spec.dtype), spec.columns, spec.dtype.itemsize
    vector, mask = _vector(kind, lanes), _vector("i1", lanes)
    first = code.load(vector, x, 0, size, kind)
    chains = [code.variable(vector, first) for _ in range(CHAINS)]
    wild = code.variable(_vector(f"i{8 * size}", lanes), "zeroinitializer" if lanes > 1 else "0")

    def take(chain: str, at: str) -> None:
        value, old = code.load(vector, x, at, size, kind), code.get(chain)
        better = _compare(code, spec, "better", lanes, value, old)
        code.put(chain, code.select(better, vector, value, old, mask))
        if spec.dtype.kind == "f":
            nan = _compare(code, spec, "nan", lanes, value, value)
            nan = code.cast("sext", mask, nan, _vector(f"i{8 * size}", lanes))
            code.put(wild, code.op("or", _vector(f"i{8 * size}", lanes), code.get(wild), nan))

    block = CHAINS * lanes
    with code.count(0, n // block * block, block) as i:
        for k, chain in enumerate(chains):
            take(chain, code.op("add nsw", "i64", i, k * lanes))
    with code.count(n // block * block, n, lanes) as i:
        last = ("i64", str(n - lanes))
        take(chains[0], code.call("i64", "llvm.smin.i64", ("i64", i), last))
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


def _place(code: Routine, spec: RowWalk, x: str, best: str, nan: str | None, lanes: int) -> str:
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


def _first(code: Routine, spec: RowWalk, x: str, how: str, wanted: str | None, lanes: int) -> str:
    """The first place of an element that compares with what is wanted, or with itself."""
    kind, n, size = memory_type(spec.dtype), spec.columns, spec.dtype.itemsize
    vector, bits = _vector(kind, lanes), f"i{lanes}"
    found, at = code.variable(bits, "0"), code.variable("i64", str(-lanes))
    with code.repeat(lambda: code.compare("eq", bits, code.get(found), 0)):
        after = code.op("add nsw", "i64", code.get(at), lanes)
        code.put(at, code.call("i64", "llvm.smin.i64", ("i64", after), ("i64", str(n - lanes))))
        value = code.load(vector, x, code.get(at), size, kind)
        hit = _compare(code, spec, how, lanes, value, wanted or value)
        code.put(found, hit if lanes == 1 else code.emit(f"bitcast <{lanes} x i1> {hit} to {bits}"))
    lane = code.call(bits, f"llvm.cttz.{bits}", (bits, code.get(found)), ("i1", "true"))
    lane = code.cast("zext" if lanes < 64 else "bitcast", bits, lane, "i64")
    return code.op("add nsw", "i64", code.get(at), lane)
