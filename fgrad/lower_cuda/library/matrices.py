"""L6. Kernels that move matrices between the steps of a factorisation: transposes, orders of rows.

A stack of row-major matrices is `batch` matrices, `step` elements apart.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.text import element_type
from fgrad.lower_cuda.emit.calls import Address
from fgrad.lower_cuda.emit.machine import THREADS
from fgrad.lower_cuda.emit.text import BodyText, Pointer
from fgrad.lower_cuda.library.plan import Planner, real_dtype

TILE = 32  # rows and columns that a block transposes
_ROWS = 8  # threads of a block along y
_SHARED_ROWS = 8192  # whose numbers fit into shared memory


class Stack(NamedTuple):
    """Row-major matrices somewhere: `step` elements from one to the next."""

    place: Address
    step: int


def number_kind(dtype: np.dtype) -> str:
    """The type of an element: of a complex one a vector of two parts."""
    if dtype.kind == "c":
        return f"<2 x {element_type(real_dtype(dtype))}>"
    return element_type(dtype)


def transpose(
    plan: Planner, target: Stack, source: Stack, dtype: np.dtype, size: tuple[int, int, int],
    conjugate: bool = False,
) -> None:  # fmt: skip
    """target[b, j, i] := source[b, i, j] for matrices of m x n; size: batch, m, n."""
    batch, m, n = size
    body, kind = BodyText(), number_kind(dtype)
    x, y = (body.pointer(k, kind) for k in range(2))
    tile = body.shared("tile", kind, TILE * (TILE + 1))
    down, across = -(-m // TILE), -(-n // TILE)
    block = body.wide("%block")
    b = body.op("udiv", "i64", block, down * across)
    number = body.op("urem", "i64", block, down * across)
    row = body.op("mul", "i64", body.op("udiv", "i64", number, across), TILE)
    column = body.op("mul", "i64", body.op("urem", "i64", number, across), TILE)

    def moves(
        base: Pointer, step: int, first: str, left: str, rows: int, columns: int
    ) -> list[tuple[str, str, Pointer]]:
        """For each of the thread's elements: whether it exists, its row in the tile, its place."""
        own = body.at(base, body.op("mul", "i64", b, step))
        at_column = body.op("add", "i64", left, body.wide("%x"))
        found = []
        for part in range(0, TILE, _ROWS):
            line = body.op("add", "i32", "%y", part)
            at_row = body.op("add", "i64", first, body.wide(line))
            inside = body.compare("slt", "i64", at_row, rows)
            inside = body.op("and", "i1", inside, body.compare("slt", "i64", at_column, columns))
            at = body.op("add", "i64", body.op("mul", "i64", at_row, columns), at_column)
            found.append((inside, line, body.at(own, at)))
        return found

    for inside, line, place in moves(x, source.step, row, column, m, n):
        with body.when(inside):
            at = body.op("add", "i32", body.op("mul", "i32", line, TILE + 1), "%x")
            body.store(body.load(place), tile, at, "i32")
    body.barrier()
    for inside, line, place in moves(y, target.step, column, row, n, m):
        with body.when(inside):
            at = body.op("add", "i32", body.op("mul", "i32", "%x", TILE + 1), line)
            value = body.load(tile, at, "i32")
            body.store(conjugated(body, value, dtype) if conjugate else value, place)
    grid = batch * down * across
    plan.kernel(body.finish(2), grid, (TILE, _ROWS), source.place, target.place)


def conjugated(body: BodyText, value: str, dtype: np.dtype) -> str:
    """The conjugate of a number."""
    if dtype.kind != "c":
        return value
    kind, part = number_kind(dtype), element_type(real_dtype(dtype))
    imag = body.emit(f"extractelement {kind} {value}, i32 1")
    minus = body.op("fsub", part, "-0.0", imag)
    return body.emit(f"insertelement {kind} {value}, {part} {minus}, i32 1")


def with_parts(
    plan: Planner, target: Address, source: Address, dtype: np.dtype, count: int
) -> None:
    """Real numbers as complex ones."""

    def write(body: BodyText, e: str) -> None:
        part = element_type(dtype)
        pair = f"<2 x {part}>"
        value = body.load(body.pointer(1, part), e)
        value = body.emit(f"insertelement {pair} zeroinitializer, {part} {value}, i32 0")
        body.store(value, body.pointer(0, pair), e)

    plan.each(count, write, target, source)


def row_and_column(body: BodyText, e: str, rows: int, columns: int) -> tuple[str, str, str]:
    """The matrix, the row and the column of element e of a stack."""
    column, rest = body.op("urem", "i64", e, columns), body.op("udiv", "i64", e, columns)
    return body.op("udiv", "i64", rest, rows), body.op("urem", "i64", rest, rows), column


def clear_above(plan: Planner, place: Address, dtype: np.dtype, n: int, batch: int) -> None:
    """Zeros right of the diagonal."""

    def write(body: BodyText, e: str) -> None:
        _, row, column = row_and_column(body, e, n, n)
        with body.when(body.compare("sgt", "i64", column, row)):
            body.store("zeroinitializer", body.pointer(0, number_kind(dtype)), e)

    plan.each(batch * n * n, write, place)


def upper(
    plan: Planner,
    target: Address,
    source: Stack,
    dtype: np.dtype,
    size: tuple[int, int, int, int],
) -> None:
    """target[b, i, j] := source[b, j, i] for i <= j, else 0; size: batch, rows and columns of the
    target, and the length of the source's rows."""
    batch, rows, columns, length = size

    def write(body: BodyText, e: str) -> None:
        kind = number_kind(dtype)
        b, i, j = row_and_column(body, e, rows, columns)
        value = body.variable(kind, "zeroinitializer")
        with body.when(body.compare("sle", "i64", i, j)):
            at = body.op("mul", "i64", b, source.step)
            at = body.op("add", "i64", at, body.op("mul", "i64", j, length))
            at = body.op("add", "i64", at, i)
            body.put(value, body.load(body.pointer(1, kind), at))
        body.store(body.get(value), body.pointer(0, kind), e)

    plan.each(batch * rows * columns, write, target, source.place)


def zero_diagonals(plan: Planner, place: Address, dtype: np.dtype, n: int, batch: int) -> Address:
    """An int32 for each matrix: 1 if an element of its diagonal is 0."""
    flags = plan.scratch(4 * batch)
    plan.fill(flags, 0, 4 * batch)
    part = element_type(real_dtype(dtype))

    def write(body: BodyText, e: str) -> None:
        b, row = body.op("udiv", "i64", e, n), body.op("urem", "i64", e, n)
        at = body.op("mul", "i64", b, n * n)
        at = body.op("add", "i64", at, body.op("mul", "i64", row, n + 1))
        value = body.load(body.pointer(0, number_kind(dtype)), at)
        parts = [value]
        if dtype.kind == "c":
            kind = number_kind(dtype)
            parts = [body.emit(f"extractelement {kind} {value}, i32 {k}") for k in range(2)]
        zeros = [body.emit(f"fcmp oeq {part} {x}, 0.0") for x in parts]
        both = zeros[0] if len(zeros) == 1 else body.op("and", "i1", *zeros)
        with body.when(both):
            flag = body.at(body.pointer(1, "i32"), b)
            body.emit(f"atomicrmw or {flag.type} {flag.name}, i32 1 monotonic")

    plan.each(batch * n, write, place, flags)
    return flags


def addresses(plan: Planner, place: Address, step: int, batch: int) -> Address:
    """The addresses of matrices that are `step` bytes apart, as batched routines take them."""
    table = plan.scratch(8 * batch)

    def write(body: BodyText, e: str) -> None:
        first = body.emit("ptrtoint i8 addrspace(1)* %p0 to i64")
        address = body.op("add", "i64", first, body.op("mul", "i64", e, step))
        body.store(address, body.pointer(1, "i64"), e)

    plan.each(batch, write, place, table)
    return table


def count_from_zero(plan: Planner, pivots: Address, count: int) -> None:
    """Fortran's numbers of rows as ours."""

    def write(body: BodyText, e: str) -> None:
        base = body.pointer(0, "i32")
        body.store(body.op("sub", "i32", body.load(base, e), 1), base, e)

    plan.each(count, write, pivots)


def order_of(plan: Planner, order: Address, pivots: Address, size: tuple[int, int, int]) -> None:
    """The numbers (int64) of m rows after the exchanges of row i with row pivots[i] for i < k;
    those with rows that do not exist are left out; size: batch, m, k."""
    batch, m, k = size
    body = BodyText()
    exchanges, out = body.pointer(0, "i32"), body.pointer(1, "i64")
    block = body.wide("%block")
    own = body.at(exchanges, body.op("mul", "i64", block, k))
    result = body.at(out, body.op("mul", "i64", block, m))
    shared = m <= _SHARED_ROWS
    rows = body.shared("rows", "i32", m) if shared else result
    with body.count("%x", m, THREADS, "i32") as i:
        body.store(i if shared else body.wide(i), rows, i, "i32")
    body.barrier()
    with body.when(body.compare("eq", "i32", "%x", 0)), body.count(0, k, kind="i32") as i:
        other = body.load(own, i, "i32")
        exists = body.compare("ult", "i32", other, m)
        other = body.select(exists, "i32", other, i)
        a, b = body.load(rows, i, "i32"), body.load(rows, other, "i32")
        body.store(b, rows, i, "i32")
        body.store(a, rows, other, "i32")
    if shared:
        body.barrier()
        with body.count("%x", m, THREADS, "i32") as i:
            body.store(body.wide(body.load(rows, i, "i32")), result, i, "i32")
    plan.kernel(body.finish(2), batch, (THREADS, 1), pivots, order)


def reorder(
    plan: Planner, target: Address, source: Address, order: Address, dtype: np.dtype,
    size: tuple[int, int, int], back: bool = False,
) -> None:  # fmt: skip
    """target[b, i] := source[b, order[b, i]], or the other way round; size: batch, rows and the
    elements of a row."""
    batch, n, k = size

    def write(body: BodyText, e: str) -> None:
        kind = number_kind(dtype)
        b, row, column = row_and_column(body, e, n, k)
        first = body.op("mul", "i64", b, n)
        number = body.load(body.pointer(2, "i64"), body.op("add", "i64", first, row))
        other = body.op("mul", "i64", body.op("add", "i64", first, number), k)
        other = body.op("add", "i64", other, column)
        to, at = (other, e) if back else (e, other)
        body.store(body.load(body.pointer(1, kind), at), body.pointer(0, kind), to)

    plan.each(batch * n * k, write, target, source, order)
