"""L7. Linear algebra by the names of `jax.lax.linalg`, for stacks of matrices in the last axes.

`np.linalg` and `fgrad.scipy.linalg` have the same algorithms; here are their arguments in JAX.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import names_shown
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.lax import loops
from fgrad.lax.arrays import move_axes
from fgrad.numpy.promote import broadcast_shapes, inexact, promote, user_line
from fgrad.ops import decompositions as dec
from fgrad.ops import elementwise as ew
from fgrad.ops import linalg as la
from fgrad.ops.matrices import LAPACK_DTYPES
from fgrad.trace import Value
from fgrad.tracing.device_tracing import lowered
from fgrad.typing import ArrayLike, PyTree


def _matrix(name: str, x: ArrayLike, square: bool = True) -> Value:
    a = inexact(x)
    if len(a.shape) < 2 or (square and a.shape[-1] != a.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeError(f"lax.linalg.{name} takes {kind}, not shape {a.shape}.", user_line())
    if np.dtype(a.dtype).char not in LAPACK_DTYPES:
        raise DtypeError(
            f"lax.linalg.{name} does not take {a.dtype} operands.",
            (*user_line(), ("write", "x.astype(np.float32)")),
        )
    return a


def _transposed(a: PyTree) -> Value:
    return np.swapaxes(a, -1, -2)


def _symmetric(a: Value) -> Value:
    return (a + np.conj(_transposed(a))) / 2


@lowered
def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Value:
    """The lower triangle L with L L' = x.

    Arguments:
        x: positive definite matrices.
        symmetrize_input: whether (x + x') / 2 is decomposed, and not the lower triangle.

    Example:
        >>> from fgrad import lax
        >>> lax.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]])
    """
    a = _matrix("cholesky", x)
    return la.cholesky(_symmetric(a) if symmetrize_input else a)


@lowered
@also_takes("sort_eigenvalues", "implementation", subset_by_index=None)
def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True) -> tuple[Value, Value]:
    """Eigenvectors and ascending eigenvalues of Hermitian matrices, in this order.

    Arguments:
        x: Hermitian matrices.
        lower: which triangle counts, if the input is not made symmetric.
        symmetrize_input: whether (x + x') / 2 is decomposed.

    Example:
        >>> from fgrad import lax
        >>> lax.linalg.eigh(np.diag([2.0, 1.0]))[1]
        array([1., 2.])
    """
    a = _matrix("eigh", x)
    values, vectors = dec.eigh(_symmetric(a), True) if symmetrize_input else dec.eigh(a, lower)
    return vectors, values


@lowered
@also_takes("use_magma")
def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Value, Value]:
    """Q with orthonormal columns and a triangle R with Q R = x.

    Arguments:
        x: matrices.
        pivoting: refused; `fgrad.scipy.linalg.qr` has it for known matrices.
        full_matrices: whether Q is square.

    Raises:
        ArgumentError: for pivoting.

    Example:
        >>> from fgrad import lax
        >>> lax.linalg.qr(np.ones((3, 2)))[0].shape
        (3, 3)
    """
    a = _matrix("qr", x, square=False)
    if pivoting:
        raise ArgumentError(
            "lax.linalg.qr: pivoting has no traced form.",
            (*user_line(), ("write", "lax.linalg.qr(x)")),
        )
    return dec.qr(a, full_matrices)


@lowered
@also_takes("algorithm", subset_by_index=None)
def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True) -> PyTree:
    """U, descending singular values and V' with U diag(s) V' = x; or the values alone.

    Arguments:
        full_matrices: whether U and V are square.
        compute_uv: whether U and V' are wanted.

    Example:
        >>> from fgrad import lax
        >>> lax.linalg.svd(np.diag([1.0, 2.0]), compute_uv=False)
        array([2., 1.])
    """
    a = _matrix("svd", x, square=False)
    return dec.svd(a, full_matrices) if compute_uv else dec.svdvals(a)


@lowered
def lu(x: ArrayLike) -> tuple[Value, Value, Value]:
    """Both triangles in one matrix, the pivots of LAPACK from 0, and the order of the rows.

    Arguments:
        x: matrices (..., m, n).

    Example:
        >>> from fgrad import lax
        >>> lax.linalg.lu(np.array([[0.0, 1.0], [2.0, 0.0]]))[2]
        array([1, 0])
    """
    return la.lu(_matrix("lu", x, square=False))


@lowered
def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Value:
    """The solution of op(a) x = b, or of x op(a) = b.

    Arguments:
        a: triangular matrices.
        b: matrices.
        left_side: whether `a` stands to the left of x.
        lower: which triangle of `a` counts.
        transpose_a, conjugate_a: whether op transposes or conjugates.
        unit_diagonal: whether the diagonal of `a` counts as 1.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> from fgrad import lax
        >>> a, b = np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[2.0], [3.0]])
        >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
        array([[1.],
               [2.]])
    """
    a, b = promote([_matrix("triangular_solve", a), _matrix("triangular_solve", b, square=False)])
    a = np.conj(a) if conjugate_a else a
    b = b if left_side else _transposed(b)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"lax.linalg.triangular_solve: shapes {a.shape} and {b.shape}.", user_line()
        )
    # x op(a) = b transposed is op(a)' x' = b'
    if transpose_a == left_side:
        a, lower = _transposed(a), not lower
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = [np.broadcast_to(y, (*lead, *y.shape[-2:])) for y in (a, b)]
    x = la.triangular_solve(a, b, lower, False, unit_diagonal)
    return x if left_side else _transposed(x)


@also_takes(perturb_singular=False)
def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Value:
    """The solution of a system with three diagonals, by rotations: stable for any such matrix.

    Arguments:
        dl: (..., n), the diagonal below; its first element does not count.
        d: (..., n), the diagonal.
        du: (..., n), the diagonal above; its last element does not count.
        b: (..., n, k), the right sides.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> from fgrad import lax
        >>> one, two = np.ones(3), np.full(3, 2.0)
        >>> lax.linalg.tridiagonal_solve(one, two, one, np.array([[4.0], [8.0], [8.0]])).ravel()
        array([1., 2., 3.])
    """
    low, diagonal, high, right = promote([inexact(x) for x in (dl, d, du, b)])
    shape = diagonal.shape
    if not shape or low.shape != shape or high.shape != shape or right.shape[:-1] != shape:
        raise ShapeError(
            f"lax.linalg.tridiagonal_solve: diagonals of shapes {low.shape}, {shape} and "
            f"{high.shape}, right sides of shape {right.shape}.",
            user_line(),
        )
    if not shape[-1]:
        return right
    axis = len(shape) - 1
    below, on, above, rows = [move_axes(x, axis, 0) for x in (low, diagonal, high, right)]
    found = _solved(below[..., None], on[..., None], above[..., None], rows)
    return move_axes(found, 0, axis)


def _solved(low: PyTree, diagonal: PyTree, high: PyTree, right: PyTree) -> PyTree:
    """Rows (n, ..., 1) of the diagonals, (n, ..., k) of the right sides: R x = Q' b."""
    zero = ew.mul(high[:1], ew.lit(high[:1], 0))
    high = np.concatenate([high[:-1], zero])

    def rotate(row: PyTree, following: PyTree) -> PyTree:
        d, u, b = row
        below, d1, u1, b1 = following
        r = np.sqrt(np.real(d * np.conj(d)) + np.real(below * np.conj(below)))
        c, s = d / r, below / r
        kept = (
            r,
            np.conj(c) * u + np.conj(s) * d1,
            np.conj(s) * u1,
            np.conj(c) * b + np.conj(s) * b1,
        )
        return (c * d1 - s * u, c * u1, c * b1 - s * b), kept

    first = (diagonal[0], high[0], right[0])
    (d, _, b), kept = loops.scan(rotate, first, (low[1:], diagonal[1:], high[1:], right[1:]))

    def back(state: PyTree, row: PyTree) -> PyTree:
        x1, x2 = state
        r, s, t, y = row
        x = (y - s * x1 - t * x2) / r
        return (x, x1), x

    last = b / d
    _, xs = loops.scan(back, (last, last - last), kept, reverse=True)
    return np.concatenate([xs, last[None]])


__dir__ = names_shown(__name__)
