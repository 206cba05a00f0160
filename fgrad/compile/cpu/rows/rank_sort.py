"""L5. Sort of short rows without a branch: each element goes to its rank.

    rank of x[i] = number of j < i with x[j] <= x[i]  +  number of j > i with x[j] < x[i]

A row's keys are in a few vectors; two comparisons of one key with one vector, and the number of
bits of the result, count as many elements as the vector has lanes.
"""

from __future__ import annotations

from fgrad.compile.cpu.rows.keys import Keys, piece_rows
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import memory_type
from fgrad.compile.tasks.routines import RowSort
from fgrad.ir.aval import INT64

VECTORS = 4  # of keys, at most


def _lanes(spec: RowSort) -> int:
    return 64 // spec.dtype.itemsize


def emit_rank_sort(symbol: str, spec: RowSort) -> tuple[str, set[str]]:
    """The function; buffers: inputs, outputs; range: pieces."""
    code = Routine()
    kinds = [memory_type(d) for d in spec.inputs + spec.outputs]
    bufs = [code.buffer(k) for k in range(len(kinds))]
    table = code.table(f"i{8 * spec.dtype.itemsize}", VECTORS * _lanes(spec))
    with code.count("%lo", "%hi") as piece:
        for start in piece_rows(code, spec, piece):
            rows = [code.at(b, start, kind) for b, kind in zip(bufs, kinds, strict=True)]
            _row(code, spec, rows, table)
    return code.define(symbol)


def _row(code: Routine, spec: RowSort, rows: list[str], table: str) -> None:
    """Keys into vectors and a table; then for each element its rank, and all its columns there."""
    keys, lanes, n = Keys(code, spec.dtype), _lanes(spec), spec.columns
    kind, size = keys.lanes(lanes), spec.dtype.itemsize
    vectors = []
    for first in range(0, n, lanes):
        raw = _load(code, keys, rows[0], first, min(lanes, n - first), lanes)
        key, _ = keys.ordered(raw, lanes, True)
        code.store(kind, key, table, first, size, keys.kind)
        vectors.append(key)
    for block in range(len(vectors)):
        with code.count(block * lanes, min(n, (block + 1) * lanes)) as i:
            one = code.splat(code.load(keys.kind, table, i, size), keys.kind, lanes)
            rank = _rank(code, keys, vectors, block, one, i)
            _put(code, spec, rows, i, rank)


def _load(code: Routine, keys: Keys, base: str, first: int, alive: int, lanes: int) -> str:
    """Elements as integers; whatever lies behind the row is not read."""
    kind, size = keys.lanes(lanes), keys.size // 8
    if alive == lanes:
        return code.load(kind, base, first, size, keys.kind)
    bits = ", ".join([f"i1 {'true' if k < alive else 'false'}" for k in range(lanes)])
    return code.call(
        kind,
        f"llvm.masked.load.v{lanes}{keys.kind}.p0",
        ("ptr", code.at(base, first, keys.kind)),
        ("i32", str(size)),
        (f"<{lanes} x i1>", f"<{bits}>"),
        (kind, keys.number(keys.greatest, lanes)),
    )


def _rank(code: Routine, keys: Keys, vectors: list[str], block: int, one: str, i: str) -> str:
    """How many elements come before element `i`, which is in vector number `block`.

    Lanes behind the row have keys that are not less than any.
    """
    lanes = 64 // (keys.size // 8)
    kind, mask = keys.lanes(lanes), f"i{lanes}"
    rank = "0"
    for k, vector in enumerate(vectors):
        less = code.compare("ule" if k < block else "ult", kind, vector, one)
        less = code.emit(f"bitcast <{lanes} x i1> {less} to {mask}")
        if k == block:
            equal = code.compare("eq", kind, vector, one)
            equal = code.emit(f"bitcast <{lanes} x i1> {equal} to {mask}")
            lane = code.op("sub", "i64", i, block * lanes)
            bit = code.op("shl", "i64", 1, lane)
            before = code.cast("trunc", "i64", code.op("sub", "i64", bit, 1), mask)
            less = code.op("or", mask, less, code.op("and", mask, equal, before))
        wide = code.cast("zext", mask, less, "i64")
        rank = code.op("add", "i64", rank, code.call("i64", "llvm.ctpop.i64", ("i64", wide)))
    return rank


def _put(code: Routine, spec: RowSort, rows: list[str], i: str, rank: str) -> None:
    """Element `i` of key and payloads to its rank."""
    inputs, outputs = iter(rows[: len(spec.inputs)]), rows[len(spec.inputs) :]
    keys = next(inputs)
    columns = [(spec.dtype, keys)] * spec.keys_out
    columns += [(p or INT64, None if p is None else next(inputs)) for p in spec.payloads]
    for (dtype, source), target in zip(columns, outputs, strict=True):
        kind, size = memory_type(dtype), dtype.itemsize
        value = i if source is None else code.load(kind, source, i, size)
        code.store(kind, value, target, rank, size)
