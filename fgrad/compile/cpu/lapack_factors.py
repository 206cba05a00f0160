"""L5. Native QR, singular values and eigenvalues, by the routines that NumPy calls.

Matrices are transposed into work memory, so that LAPACK sees what NumPy shows it and the signs of
vectors are the same in compiled programs and in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.compile.cpu.lapack import (
    Body,
    Native,
    build_step,
    cholesky,
    factor,
    lu_solve,
    triangular_solve,
)
from fgrad.lazy import lazy_module

lapack: Any = lazy_module("scipy.linalg.lapack")


@lru_cache
def _work(dtype: str, routine: str, *arguments: int) -> tuple[int, ...]:
    """The lengths of work memory that a routine asks for."""
    query = getattr(lapack, {"f": "s", "d": "d"}[dtype] + routine + "_lwork")
    *lengths, _info = query(*arguments)
    return tuple([int(x) for x in lengths])


def eigh(dtype: np.dtype, n: int, batch: int, lower: bool, vectors: bool = True) -> Native:
    """Eigenvalues and eigenvectors.  Buffers: a, w, v (or a, w); range: [0, batch)."""
    b = Body(dtype)
    work, whole = _work(dtype.char, "syevd", n, vectors, lower)
    space, integers = b.memory(work), b.memory(whole, 4)
    matrix, info = b.memory(n * n), b.cell("i32", "0")
    b.transpose(matrix, "%p0", n, n)
    job, triangle = "V" if vectors else "N", "L" if lower else "U"
    b.call("syevd", job, triangle, n, matrix, n, "%p1", space, work, integers, whole, info)
    b.check(info)
    if vectors:
        b.transpose("%p2", matrix, n, n)
    strides = [n * n * b.size, n * b.size, n * n * b.size][: 2 + vectors]
    spec = (dtype.char, n, lower, vectors, work, whole)
    return build_step("eigh", spec, b, strides, "Eigenvalues did not converge")


def eigvalsh(dtype: np.dtype, n: int, batch: int, lower: bool) -> Native:
    """Eigenvalues.  Buffers: a, w; range: [0, batch)."""
    return eigh(dtype, n, batch, lower, vectors=False)


def svd(dtype: np.dtype, m: int, n: int, batch: int, full: bool, vectors: bool = True) -> Native:
    """Singular values and vectors.  Buffers: a, u, s, vh (or a, s); range: [0, batch)."""
    b = Body(dtype)
    k = min(m, n)
    columns, rows = (m, n) if full else (k, k)
    (work,) = _work(dtype.char, "gesdd", m, n, vectors, full)
    space, integers = b.memory(work), b.memory(8 * k, 4)
    matrix, info = b.memory(m * n), b.cell("i32", "0")
    left, right = (b.memory(m * columns), b.memory(rows * n)) if vectors else (matrix, matrix)
    values = "%p2" if vectors else "%p1"
    job = ("A" if full else "S") if vectors else "N"
    b.transpose(matrix, "%p0", m, n)
    b.call(
        "gesdd", job, m, n, matrix, m, values, left, m, right, rows, space, work, integers, info
    )  # fmt: skip
    b.check(info)
    if vectors:
        b.transpose("%p1", left, columns, m)
        b.transpose("%p3", right, n, rows)
    sizes = [m * n, m * columns, k, rows * n] if vectors else [m * n, k]
    spec = (dtype.char, m, n, full, vectors, work)
    message = "SVD did not converge"
    return build_step("svd", spec, b, [size * b.size for size in sizes], message)


def svdvals(dtype: np.dtype, m: int, n: int, batch: int) -> Native:
    """Singular values.  Buffers: a, s; range: [0, batch)."""
    return svd(dtype, m, n, batch, full=False, vectors=False)


def qr(dtype: np.dtype, m: int, n: int, batch: int, complete: bool) -> Native:
    """Orthonormal and triangular factors.  Buffers: a, q, r; range: [0, batch)."""
    b = Body(dtype)
    k = min(m, n)
    columns = m if complete else k
    work = max(*_work(dtype.char, "geqrf", m, n), 64 * columns)
    space, tau = b.memory(work), b.memory(k)
    matrix, info = b.memory(m * max(n, columns)), b.cell("i32", "0")
    b.transpose(matrix, "%p0", m, n)
    b.call("geqrf", m, n, matrix, m, tau, space, work, info)
    _upper(b, "%p2", matrix, m, n, columns)
    b.call("orgqr", m, columns, k, matrix, m, tau, space, work, info)
    b.transpose("%p1", matrix, columns, m)
    strides = [size * b.size for size in (m * n, m * columns, columns * n)]
    return build_step("qr", (dtype.char, m, n, complete, work), b, strides, "QR did not succeed")


def _upper(b: Body, target: str, source: str, m: int, n: int, rows: int) -> None:
    """target[i, j] = source[j, i] for i <= j, else 0: r from the packed columns."""
    outer = b.begin(rows)
    inner = b.begin(n)
    i, j = outer[2], inner[2]
    value = b.load(source, b.emit(f"add i64 {b.emit(f'mul i64 {j}, {m}')}, {i}"))
    kept = b.emit(f"select i1 {b.emit(f'icmp sle i64 {i}, {j}')}, {b.kind} {value}, {b.kind} 0.0")
    place = b.emit(f"add i64 {b.emit(f'mul i64 {i}, {n}')}, {j}")
    b.line(f"store {b.kind} {kept}, ptr {b.at(target, place)}")
    b.end(inner, n)
    b.end(outer, rows)


LAPACK: dict[str, Callable[..., Native]] = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "factor": factor,
    "lu_solve": lu_solve,
    "qr": qr,
    "svd": svd,
    "svdvals": svdvals,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
}
