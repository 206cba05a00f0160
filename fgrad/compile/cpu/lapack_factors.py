"""L5. Native QR, SVD and eigendecompositions, by the LAPACK routines that NumPy calls.

Matrices are transposed into work memory, so that LAPACK gets the same input as from NumPy and
vectors have the same signs in compiled programs and in NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu import small_stacks, stack_eigen, stack_qr, stack_svd
from fgrad.compile.cpu.lapack import (
    MESSAGES,
    PREFIX,
    SINGULAR,
    Body,
    Native,
    build_step,
    checked,
    count_from_zero,
    flags,
    in_range,
    noted,
    required,
    routine_address,
    step_code,
)
from fgrad.compile.cpu.stack_block import lanes_of
from fgrad.compile.kernel.machine import LAPACK_CYCLES, LAPACK_CYCLES_OVER_N3
from fgrad.ir.aval import FLOAT64
from fgrad.ops.complex import real_dtype

# LAPACK's time by that of a matrix in each lane.
EIGEN_ROWS = 25  # of matrices up to which LAPACK takes QL steps; it divides larger ones
SPEED_UP = {
    "cholesky": 4,
    "triangular_solve": 4,
    "factor": 4,
    "lu_solve": 4,
    "qr": 8,
    "eigh": 8,
    "svd": 8,
}
# Where a routine returns the size of its workspace.
WORK, PARTS, INTEGERS = "work", "parts", "integers"


class Lengths(NamedTuple):
    """Workspace sizes of a routine, in elements, real numbers and integers."""

    work: int
    parts: int
    integers: int


@lru_cache
def _lengths(routine: str, char: str, *arguments: str | int | None) -> Lengths:
    """All workspace sizes, by a workspace query; None stands for an array argument."""
    work, integers = np.zeros(1, char), np.zeros(1, np.int32)
    parts = np.zeros(1, real_dtype(np.dtype(char)))
    asked = {WORK: work, None: work, PARTS: parts, INTEGERS: integers}
    cells = []
    for x in arguments:
        if x in asked:
            cells.append(asked[x])  # type: ignore[index]
        else:
            cells.append(
                np.array([ord(x)], np.uint8) if isinstance(x, str) else np.array([x], np.int32)
            )
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(cells))(
        routine_address(PREFIX[char] + routine)
    )
    function(*[x.ctypes.data for x in cells])
    found = (work[0].real, parts[0], integers[0])
    return Lengths(*[max(int(length), 1) for length in found])


def eigh(dtype: np.dtype, n: int, batch: int, lower: bool, vectors: bool = True) -> Native:
    """Eigenvalues and eigenvectors.  Buffers: a, w, v (or a, w); range: [0, batch)."""
    b = Body(dtype, batch > 1)
    job, triangle = "V" if vectors else "N", "L" if lower else "U"
    routine = "heevd" if b.is_complex else "syevd"
    parts = (PARTS, -1) if b.is_complex else ()
    ask = (job, triangle, n, None, n, None, WORK, -1, *parts, INTEGERS, -1, 0)
    work, real, whole = _lengths(routine, dtype.char, *ask)
    space, integers = b.memory(work), b.memory(whole, 4)
    reals = (b.parts_memory(real), real) if b.is_complex else ()
    matrix, info = b.memory(n * n), b.cell("i32", "0")
    b.transpose(matrix, "%p0", n, n)
    b.call(routine, job, triangle, n, matrix, n, "%p1", space, work, *reals, integers, whole, info)
    b.check(info)
    if vectors:
        b.transpose("%p2", matrix, n, n)
    strides = [n * n * b.size, n * b.aligned, n * n * b.size][: 2 + vectors]
    spec = (dtype.char, n, lower, vectors, work, real, whole)
    library = step_code("eigh", spec, b, strides, MESSAGES["eigh"], n)
    if n <= EIGEN_ROWS and small_stacks.in_lanes(dtype, n, batch):
        return stack_eigen.eigh(dtype, n, lower, vectors, library)
    return library.built()


def eigvalsh(dtype: np.dtype, n: int, batch: int, lower: bool) -> Native:
    """Eigenvalues.  Buffers: a, w; range: [0, batch)."""
    return eigh(dtype, n, batch, lower, vectors=False)


def svd(dtype: np.dtype, m: int, n: int, batch: int, full: bool, vectors: bool = True) -> Native:
    """Singular values and vectors.  Buffers: a, u, s, vh (or a, s); range: [0, batch)."""
    b = Body(dtype, batch > 1)
    k = min(m, n)
    columns, rows = (m, n) if full else (k, k)
    job = ("A" if full else "S") if vectors else "N"
    parts = (None,) if b.is_complex else ()
    ask = (job, m, n, None, m, None, None, m, None, max(rows, 1), WORK, -1, *parts, None, 0)
    work = _lengths("gesdd", dtype.char, *ask).work
    space, integers = b.memory(work), b.memory(8 * k, 4)
    reals = (b.parts_memory(_gesdd_parts(max(m, n), k)),) if b.is_complex else ()
    matrix, info = b.memory(m * n), b.cell("i32", "0")
    left, right = (b.memory(m * columns), b.memory(rows * n)) if vectors else (matrix, matrix)
    values = "%p2" if vectors else "%p1"
    b.transpose(matrix, "%p0", m, n)
    if vectors:
        _infinite_to_nan(b, matrix, m * n)
    b.call(
        "gesdd", job, m, n, matrix, m, values, left, m, right, rows, space, work, *reals, integers,
        info,
    )  # fmt: skip
    b.check(info)
    if vectors:
        b.transpose("%p1", left, columns, m)
        b.transpose("%p3", right, n, rows)
    strides = [m * n * b.size, k * b.aligned]
    if vectors:
        strides = [m * n * b.size, m * columns * b.size, k * b.aligned, rows * n * b.size]
    spec = (dtype.char, m, n, full, vectors, work)
    library = step_code("svd", spec, b, strides, MESSAGES["svd"], max(m, n))
    if n <= m and 3 * m < 5 * n and n <= EIGEN_ROWS and small_stacks.in_lanes(dtype, m, batch):
        return stack_svd.svd(dtype, m, n, full, vectors, library)
    return library.built()


def _infinite_to_nan(b: Body, matrix: str, count: int) -> None:
    """x + (x - x): gesdd refuses NaN, but does not end where a number is infinite."""
    loop = b.begin(count)
    value = b.load(matrix, loop[2])
    zero = b.emit(f"fsub {b.kind} {value}, {value}")
    b.store(b.emit(f"fadd {b.kind} {value}, {zero}"), matrix, loop[2])
    b.end(loop, count)


def _gesdd_parts(longer: int, k: int) -> int:
    """LRWORK as specified in the documentation of zgesdd."""
    return max(5 * k * k + 5 * k, 2 * longer * k + 2 * k * k + k, 7 * k)


def svdvals(dtype: np.dtype, m: int, n: int, batch: int) -> Native:
    """Singular values.  Buffers: a, s; range: [0, batch)."""
    return svd(dtype, m, n, batch, full=False, vectors=False)


def qr(dtype: np.dtype, m: int, n: int, batch: int, complete: bool) -> Native:
    """Orthonormal and triangular factors.  Buffers: a, q, r; range: [0, batch)."""
    if small_stacks.in_lanes(dtype, max(m, n), batch):
        return stack_qr.qr(dtype, m, n, complete)
    b = Body(dtype, batch > 1)
    k = min(m, n)
    columns = m if complete else k
    second = "ungqr" if b.is_complex else "orgqr"
    factors = _lengths("geqrf", dtype.char, m, n, None, m, None, WORK, -1, 0)
    vectors = _lengths(second, dtype.char, m, columns, k, None, m, None, WORK, -1, 0)
    work = max(factors.work, vectors.work)
    space, tau = b.memory(work), b.memory(k)
    matrix, info = b.memory(m * max(n, columns)), b.cell("i32", "0")
    b.transpose(matrix, "%p0", m, n)
    b.call("geqrf", m, n, matrix, m, tau, space, work, info)
    _upper(b, "%p2", matrix, m, n, columns)
    b.call(second, m, columns, k, matrix, m, tau, space, work, info)
    b.transpose("%p1", matrix, columns, m)
    strides = [size * b.size for size in (m * n, m * columns, columns * n)]
    spec = (dtype.char, m, n, complete, work)
    return build_step("qr", spec, b, strides, MESSAGES["qr"], max(m, n))


def _upper(b: Body, target: str, source: str, m: int, n: int, rows: int) -> None:
    """target[i, j] = source[j, i] for i <= j, else 0: r from the packed columns."""

    def move(i: str, j: str) -> None:
        value = b.load(source, b.emit(f"add i64 {b.emit(f'mul i64 {j}, {m}')}, {i}"))
        inside = b.emit(f"icmp sle i64 {i}, {j}")
        kept = b.emit(f"select i1 {inside}, {b.kind} {value}, {b.kind} {b.zero}")
        place = b.emit(f"add i64 {b.emit(f'mul i64 {i}, {n}')}, {j}")
        b.store(kept, target, place)

    b.in_strips(rows, n, move)


def lu(dtype: np.dtype, m: int, n: int, batch: int) -> Native:
    """Packed factors of a, exchanges from 0, the order of the rows.  Buffers: a, packed, pivots,
    order; range: [0, batch)."""
    b = Body(dtype, batch > 1)
    k = min(m, n)
    matrix, info = b.memory(m * n), b.cell("i32", "0")
    b.transpose(matrix, "%p0", m, n)
    b.call("getrf", m, n, matrix, m, "%p2", info)
    b.transpose("%p1", matrix, n, m)
    count_from_zero(b, "%p2", k)
    _order(b, "%p2", "%p3", m, k)
    strides = [m * n * b.size, m * n * b.size, 4 * k, 8 * m]
    return build_step("lu", (dtype.char, m, n), b, strides, SINGULAR, max(m, n))


def pivots_order(n: int, batch: int) -> Native:
    """The order of the rows.  Buffers: exchanges, order; range: [0, batch)."""
    b = Body(np.dtype(np.float64))
    _order(b, "%p0", "%p1", n, n)
    return build_step("pivots_order", n, b, [4 * n, 8 * n], SINGULAR, n)


def _order(b: Body, pivots: str, order: str, m: int, k: int) -> None:
    """The numbers of m rows after the exchanges of row i with row pivots[i] for i < k; those with
    rows that do not exist are left out."""
    loop = b.begin(m)
    b.line(f"store i64 {loop[2]}, ptr {b.at(order, loop[2], 'i64')}")
    b.end(loop, m)
    loop = b.begin(k)
    given = b.emit(f"sext i32 {b.load(pivots, loop[2], 'i32')} to i64")
    exists = b.emit(f"icmp ult i64 {given}, {m}")
    other = b.emit(f"select i1 {exists}, i64 {given}, i64 {loop[2]}")
    here, there = b.at(order, loop[2], "i64"), b.at(order, other, "i64")
    left, right = b.emit(f"load i64, ptr {here}"), b.emit(f"load i64, ptr {there}")
    b.line(f"store i64 {right}, ptr {here}")
    b.line(f"store i64 {left}, ptr {there}")
    b.end(loop, k)


def together(
    name: str, dtype: np.dtype = FLOAT64, n: int = 1, m: int = 1, batch: int = 1, **_: object
) -> int:
    """How many matrices of a stack are taken at a time."""
    if name not in SPEED_UP or not small_stacks.in_lanes(dtype, max(n, m), batch):
        return 1
    return lanes_of(dtype)


def cycles(
    name: str,
    dtype: np.dtype = FLOAT64,
    n: int = 1,
    m: int = 1,
    k: int = 1,
    batch: int = 1,
    **_: object,
) -> float:
    """The cost of a stack of matrices, for splitting it among threads."""
    if name in ("noted", "flags", "pivots_order", "checked", "in_range", "required"):
        return 0.0
    size = max(n, m)
    each = LAPACK_CYCLES_OVER_N3.get(name, 0.5 * k / size) * size**3
    speed_up = SPEED_UP.get(name, 1) if small_stacks.in_lanes(dtype, size, batch) else 1
    return batch * (each + LAPACK_CYCLES) / speed_up


LAPACK: dict[str, Callable[..., Native]] = {
    "cholesky": small_stacks.cholesky,
    "triangular_solve": small_stacks.triangular_solve,
    "factor": small_stacks.factor,
    "lu_solve": small_stacks.lu_solve,
    "checked": checked,
    "in_range": in_range,
    "required": required,
    "noted": noted,
    "flags": flags,
    "lu": lu,
    "pivots_order": pivots_order,
    "qr": qr,
    "svd": svd,
    "svdvals": svdvals,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
}
