"""L4. `np.linalg` of traced arrays: systems, factorisations, eigenvalues; norms are in `norms`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import FLOAT64, INT64
from fgrad.numpy.creation import trace as trace_of
from fgrad.numpy.dispatch import NO_VALUE, implements
from fgrad.numpy.norms import norm
from fgrad.numpy.products import cross as cross_of
from fgrad.numpy.products import matmul
from fgrad.numpy.products import outer as outer_of
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    broadcast_shapes,
    broadcast_to,
    convert,
    promote,
    refuse_argument,
    reshape,
    user_line,
)
from fgrad.numpy.reductions import any_
from fgrad.ops import decompositions as dc
from fgrad.ops import determinants as dt
from fgrad.ops import elementwise as ew
from fgrad.ops import linalg as la
from fgrad.ops import reduce as rd
from fgrad.ops.complex import conj, real
from fgrad.ops.matrices import adjoint
from fgrad.ops.matrices import hermitian as symmetric
from fgrad.ops.shape import permute
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.layouts import mark
from fgrad.typing import ArrayLike, DTypeLike, NormOrder

INEXACT = "fdFD"


def linear_operands(*xs: ArrayLike | None) -> list[Value]:
    """Operands of one dtype that LAPACK knows: integers become float64."""
    values = [as_array(x) for x in xs]
    dtype = values[0].dtype
    if any(x.dtype != dtype for x in values):
        values = promote(values)
        dtype = values[0].dtype
    if dtype.char in INEXACT:
        return values
    if dtype.kind in "biu":
        return [convert(x, FLOAT64) for x in values]
    raise TypeError(f"array type {dtype} is unsupported in linalg")


def matrices(a: ArrayLike, square: bool = False) -> Value:
    """An operand that is a stack of matrices; NumPy's errors if it is not."""
    (x,) = linear_operands(a)
    if len(x.shape) < 2:
        raise np.linalg.LinAlgError(
            f"{len(x.shape)}-dimensional array given. Array must be at least two-dimensional"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return x


# --- systems


@implements("linalg.solve")
def solve(a: ArrayLike, b: ArrayLike) -> Value:
    """x with a x = b; b is one vector if it has one axis, else matrices."""
    x, y = linear_operands(a, b)
    matrices(x, square=True)
    if not y.shape:
        raise ShapeError("solve: the right-hand side is a number.", user_line())
    if len(y.shape) == 1:
        column = reshape(y, (*y.shape, 1))
        out = _solve(x, column)
        return reshape(out, out.shape[:-1])
    return _solve(x, y)


def _solve(a: Value, b: Value) -> Value:
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"solve: shapes {a.shape} and {b.shape} do not fit.")
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if len(a.shape) == 2 and lead:
        return _solve_columns(a, b)
    return la.solve(broadcast_to(a, lead + a.shape[-2:]), broadcast_to(b, lead + b.shape[-2:]))


def _solve_columns(a: Value, b: Value) -> Value:
    """One matrix for many right-hand sides: they are columns of one."""
    k = len(b.shape)
    n, columns = b.shape[-2:]
    lead = b.shape[:-2]
    wide = reshape(permute(b, (k - 2, *range(k - 2), k - 1)), (n, math.prod(lead) * columns))
    out = reshape(la.solve(a, wide), (n, *lead, columns))
    return permute(out, (*range(1, k - 1), 0, k - 1))


@implements("linalg.inv")
def inv(a: ArrayLike) -> Value:
    """The inverse."""
    return la.inv(matrices(a, square=True))


@implements("linalg.det")
def det(a: ArrayLike) -> Value:
    """The determinant; its gradient exists at singular matrices too."""
    return dt.det(matrices(a, square=True))


@implements("linalg.slogdet")
def slogdet(a: ArrayLike) -> tuple[Value, Value]:
    """The sign and the logarithm of the size of the determinant."""
    return _named("slogdet", dt.slogdet(matrices(a, square=True)))


@implements("linalg.cholesky")
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Value:
    """The triangular factor of Hermitian matrices, of which one triangle is read."""
    x = matrices(a, square=True)
    return adjoint(la.cholesky(adjoint(x))) if upper else la.cholesky(x)


# --- factorisations


@implements("linalg.qr")
def qr(
    a: ArrayLike, mode: Literal["reduced", "complete", "r"] = "reduced"
) -> Value | tuple[Value, ...]:
    """q and r with a = q r; only r for mode "r"."""
    x = matrices(a)
    if mode == "r":
        return dc.qr(x)[1]
    if mode not in ("reduced", "complete"):
        raise refuse_argument(
            "linalg.qr", f"mode={mode!r}", 'np.linalg.qr(a)     or mode="complete"'
        )
    complete = mode == "complete" and x.shape[-2] > x.shape[-1]
    return _named("qr", dc.qr(x, complete))


@implements("linalg.svd")
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Value | tuple[Value, ...]:
    """The singular value decomposition, or the singular values alone."""
    x = matrices(a)
    if hermitian:
        x = symmetric(matrices(x, square=True))
    if not compute_uv:
        return dc.svdvals(x)
    return _named("svd", dc.svd(x, full_matrices and x.shape[-1] != x.shape[-2]))


@implements("linalg.svdvals")
def svdvals(x: ArrayLike, /) -> Value:
    """The singular values, in descending order."""
    return dc.svdvals(matrices(x))


def _lower(uplo: str) -> bool:
    if uplo.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo.upper() == "L"


@implements("linalg.eigh")
def eigh(a: ArrayLike, UPLO: str = "L") -> tuple[Value, Value]:
    """Eigenvalues and eigenvectors of Hermitian matrices, of which one triangle is read."""
    return _named("eigh", dc.eigh(matrices(a, square=True), _lower(UPLO)))


@implements("linalg.eigvalsh")
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Value:
    """The eigenvalues of Hermitian matrices, of which one triangle is read."""
    return dc.eigvalsh(matrices(a, square=True), _lower(UPLO))


@implements("linalg.eig")
def eig(a: ArrayLike) -> tuple[Value, Value]:
    """Eigenvalues and eigenvectors; complex, also where NumPy finds that all are real."""
    x = matrices(a, square=True)
    values, vectors = dc.eig(x)
    if isinstance(vectors, Tracer) and x.dtype.kind == "f":  # NumPy's may be parts of complex ones
        mark(vectors, False)
    return _named("eig", (values, vectors))


@implements("linalg.eigvals")
def eigvals(a: ArrayLike) -> Value:
    """The eigenvalues; complex, also where NumPy finds that all are real."""
    return dc.eigvals(matrices(a, square=True))


# --- least squares and rank


def _tolerance(name: str, given: ArrayLike | None, default: float) -> float:
    """A relative tolerance: a number known while tracing."""
    if given is None or given is NO_VALUE:
        return default
    value = concrete(given)
    if value is None or np.ndim(value):
        raise refuse_argument(
            f"linalg.{name}", "tolerance", "a number that is known, such as 1e-10"
        )
    return float(value)


def _machine(x: Value) -> float:
    """The rounding error of the singular values of a matrix, relative to the largest."""
    return max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)


@implements("linalg.pinv")
def pinv(
    a: ArrayLike,
    rcond: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike = NO_VALUE,
) -> Value:
    """The pseudo-inverse; its derivative is that at constant rank."""
    x = matrices(a)
    if hermitian:
        x = symmetric(matrices(x, square=True))
    default = 1e-15 if rtol is NO_VALUE else _machine(x)
    return dc.pinv(x, _tolerance("pinv", rtol if rcond is None else rcond, default))


@implements("linalg.lstsq")
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None = None
) -> tuple[Value, Value, Value, Value]:
    """The least-squares solution of least norm, sums of squared residuals, rank, singular values.

    Residuals are there if `a` has more rows than columns, as for full rank in NumPy.
    """
    x, y = linear_operands(a, b)
    vector = len(y.shape) == 1
    y = reshape(y, (*y.shape, 1)) if vector else y
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise np.linalg.LinAlgError("lstsq takes two-dimensional arrays")
    m, n = x.shape
    if y.shape[0] != m:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    eps = float(np.finfo(x.dtype).eps)
    tolerance = eps if rcond == -1 else _tolerance("lstsq", rcond, _machine(x))
    solution = matmul(dc.pinv(x, tolerance), y)
    error = ew.sub(y, matmul(x, solution))
    squares = real(ew.mul(conj(error), error))
    residuals = rd.reduce_sum(squares, (0,)) if m > n else np.zeros(0, squares.dtype)
    values = dc.svdvals(x)
    rank = _count_above(values, tolerance)
    if vector:
        solution = reshape(solution, (n,))
    return solution, residuals, rank, values


def _count_above(values: Value, tolerance: float) -> Value:
    """How many of the last axis are larger than `tolerance` times the largest."""
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1], np.int64)[()]
    last = len(values.shape) - 1
    largest = rd.reduce_max(values, (last,))
    limit = ew.mul(largest, ew.lit(values, tolerance))
    limit = broadcast_to(reshape(limit, (*limit.shape, 1)), values.shape)
    return rd.reduce_sum(convert(ew.gt(values, limit), INT64), (last,))


@implements("linalg.matrix_rank")
def matrix_rank(
    A: ArrayLike,
    tol: ArrayLike | None = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike | None = None,
) -> Value:
    """The number of singular values above a tolerance: absolute `tol` or relative `rtol`."""
    (x,) = linear_operands(A)
    if len(x.shape) < 2:
        return convert(any_(ew.ne(x, ew.lit(x, 0))), INT64)
    if hermitian:
        x = symmetric(matrices(x, square=True))
    values = dc.svdvals(x)
    if tol is None:
        return _count_above(values, _tolerance("matrix_rank", rtol, _machine(x)))
    limit = convert(as_array(tol), values.dtype)
    limit = reshape(limit, (*limit.shape, 1)) if len(limit.shape) else limit
    above = ew.gt(*broadcast((values, limit)))
    return rd.reduce_sum(convert(above, INT64), (len(above.shape) - 1,))


@implements("linalg.cond")
def cond(x: ArrayLike, p: NormOrder = None) -> Value:
    """The condition number: the ratio of singular values, or norm(x) norm(inv(x))."""
    a = matrices(x)
    if p in (None, 2, -2):
        values = dc.svdvals(a)
        first, last = values[..., 0], values[..., -1]
        return ew.div(last, first) if p == -2 else ew.div(first, last)
    a = matrices(a, square=True)
    axes = (-2, -1)
    return ew.mul(norm(a, p, axes), norm(la.inv(a), p, axes))


# --- tensors, and what differs from the functions of the same name outside of linalg


@implements("linalg.tensorsolve")
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Value:
    """x with tensordot(a, x, x.ndim) = b."""
    x, y = linear_operands(a, b)
    if axes is not None:
        kept = [i for i in range(len(x.shape)) if i not in axes]
        x = permute(x, (*kept, *axes))
    shape = x.shape[len(y.shape) :]
    size = math.prod(shape)
    if size != math.prod(y.shape):
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement "
            "prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    flat = solve(reshape(x, (size, size)), reshape(y, (size,)))
    return reshape(flat, shape)


@implements("linalg.tensorinv")
def tensorinv(a: ArrayLike, ind: int = 2) -> Value:
    """The inverse of a tensor whose first `ind` axes are the rows of a square matrix."""
    (x,) = linear_operands(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    rows, columns = x.shape[:ind], x.shape[ind:]
    square = reshape(x, (math.prod(rows), math.prod(columns)))
    return reshape(inv(square), (*columns, *rows))


@implements("linalg.diagonal")
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Value:
    """The diagonals of matrices."""
    return np.diagonal(x, offset, -2, -1)


@implements("linalg.trace")
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Value:
    """The sums of the diagonals of matrices."""
    return trace_of(x, offset, -2, -1, dtype)


@implements("linalg.outer")
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Value:
    """All products of the elements of two vectors."""
    if len(as_array(x1).shape) != 1 or len(as_array(x2).shape) != 1:
        raise ValueError("Input arrays must be one-dimensional.")
    return outer_of(x1, x2)


@implements("linalg.cross")
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Value:
    """The vector product, in three dimensions alone."""
    sizes = [as_array(x).shape[axis] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ArgumentError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{sizes[0]} and {sizes[1]} dimensional instead."
        )
    return cross_of(x1, x2, axis=axis)


@lru_cache
def _result_kind(name: str) -> Any:
    return type(getattr(np.linalg, name)(np.eye(1)))


def _named(name: str, values: tuple[Value, ...]) -> Any:
    """Several results in the named tuple that NumPy returns them in."""
    return _result_kind(name)(*values)
