"""L7. Sparse systems by SciPy's factorisation SuperLU, on the host, with derivatives.

A dx = db - dA x forwards, and in reverse the transpose of the same factors. The factors of the last
entries of each pattern are kept, so that a value and its gradient factorise once.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable

import numpy as np

from fgrad import tree
from fgrad.base.foreign import is_scipy_sparse
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError, UnsupportedTypeError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_array, as_operand, convert, inexact, user_line
from fgrad.numpy.sparse_matrices import CsrMatrix, Pattern, constant_matrix
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import refusal
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.implicit import custom_linear_solve
from fgrad.typing import PyTree

plain = lazy_module("scipy.sparse.linalg")
scipy_sparse = lazy_module("scipy.sparse")

_LAST: weakref.WeakKeyDictionary[Pattern, tuple[np.ndarray, PyTree]] = weakref.WeakKeyDictionary()


def _factors(pattern: Pattern, data: np.ndarray) -> PyTree:
    """SuperLU's factors of a matrix.

    Raises:
        RuntimeError: it is singular.
    """
    last = _LAST.get(pattern)
    if last is not None and last[0].dtype == data.dtype and np.array_equal(last[0], data):
        return last[1]
    matrix = scipy_sparse.csr_matrix((data, pattern.indices, pattern.indptr), pattern.shape)
    made = plain.splu(matrix.tocsc())
    _LAST[pattern] = data.copy(), made
    return made


def _solve_one(pattern: Pattern, data: np.ndarray, b: np.ndarray, trans: str) -> np.ndarray:
    """The columns x with A x = b; NaN, and SciPy's warning, where A is singular."""
    try:
        return _factors(pattern, data).solve(b, trans)
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        warnings.warn("Matrix is exactly singular", plain.MatrixRankWarning, stacklevel=2)
        return np.full_like(b, np.nan)


def _solve_all(
    pattern: Pattern, trans: str, axes: int, data: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """The solutions for arrays with further axes in front; those of one matrix all at once."""
    lead = np.broadcast_shapes(data.shape[:-1], b.shape[: b.ndim - axes])
    rows = np.broadcast_to(b, (*lead, *b.shape[b.ndim - axes :]))
    if not rows.size:
        return rows.copy()
    rows = rows.reshape(-1, pattern.shape[0], int(np.prod(rows.shape[len(lead) + 1 :])))
    if data.size == data.shape[-1]:
        columns = np.moveaxis(rows, 1, 0)
        flat = columns.reshape(len(columns), -1)
        one = data.reshape(-1)[: data.shape[-1]]
        found = _solve_one(pattern, one, flat, trans)
        out = np.moveaxis(found.reshape(columns.shape), 0, 1)
    else:
        many = np.broadcast_to(data, (*lead, data.shape[-1])).reshape(-1, data.shape[-1])
        pairs = zip(many, rows, strict=True)
        out = np.stack([_solve_one(pattern, d, y, trans) for d, y in pairs])
    return np.ascontiguousarray(out).reshape(*lead, *b.shape[b.ndim - axes :])


def _by_host(matrix: CsrMatrix, b: Value, trans: str) -> Value:
    solve = functools.partial(_solve_all, matrix.pattern, trans, len(b.shape))
    data = stop_gradient(matrix.data)
    return pure_callback(solve, b, data, b, vmap_method="expand_dims")


_TURNED = {"N": "T", "T": "N"}


def solved(name: str, matrix: CsrMatrix, b: PyTree, trans: str = "N") -> Value:
    """The solution for right-hand sides that are a vector, or columns of a matrix."""
    size = matrix.shape[0]
    right = inexact(as_array(as_operand(b)))
    if matrix.shape != (size, size) or len(right.shape) not in (1, 2) or right.shape[0] != size:
        raise ShapeError(
            f"scipy.sparse.linalg.{name}: a matrix of shape {matrix.shape} and a right-hand side "
            f"of shape {right.shape}.",
            user_line(),
        )
    if trans not in ("N", "T", "H"):
        raise ArgumentError(
            f"scipy.sparse.linalg.{name}: trans={trans!r}.", (("write", "'N', 'T' or 'H'"),)
        )
    if trans == "H":
        matrix, trans = matrix.conj(), "T"
    dtype = np.result_type(right.dtype, matrix.dtype, np.float32)
    matrix, right = CsrMatrix(convert(matrix.data, dtype), matrix.pattern), convert(right, dtype)
    taken = matrix if trans == "N" else matrix.T
    return custom_linear_solve(
        lambda x: taken @ x,
        right,
        lambda _, y: _by_host(matrix, y, trans),
        lambda _, y: _by_host(matrix, y, _TURNED[trans]),
    )


def _matrix(name: str, a: PyTree) -> CsrMatrix:
    if isinstance(a, CsrMatrix):
        return a
    if not is_scipy_sparse(a):
        raise UnsupportedTypeError(
            f"scipy.sparse.linalg.{name} takes a sparse matrix.",
            (
                *user_line(),
                ("write", "np.linalg.solve(A, b)    of a dense one"),
                ("or", "fgrad.sparse.csr(data, indices, indptr, shape)    where they are known"),
            ),
        )
    return constant_matrix(a)


def spsolve(
    A: PyTree, b: PyTree, permc_spec: str | None = None, use_umfpack: bool = True
) -> PyTree:
    """x with A x = b for a square sparse matrix, by a factorisation.

    Arguments:
        A: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.
        b: the right-hand side, a vector or a matrix; one column gives a vector, as in SciPy.
        permc_spec, use_umfpack: as in SciPy, where nothing is traced.

    Returns:
        The solution; NaN, with SciPy's `MatrixRankWarning`, where the matrix is singular.

    Raises:
        ShapeError: the shapes do not fit together.
        UnsupportedTypeError: a dense matrix.

    Example:
        >>> import fgrad, numpy as np
        >>> def f(data):
        ...     a = fgrad.sparse.csr(data, [0, 1, 1], [0, 2, 3], (2, 2))
        ...     return np.sum(spsolve(a, np.array([3.0, 4.0])))
        >>> fgrad.grad(f)(np.array([1.0, 2.0, 4.0]))
        array([-1. , -1. ,  0.25])
    """
    if not isinstance(A, CsrMatrix) and not has_tracer(tree.leaves(b)):
        return plain.spsolve(A, b, permc_spec=permc_spec, use_umfpack=use_umfpack)
    right = as_array(as_operand(b))
    if len(right.shape) == 2 and right.shape[1] == 1:
        right = np.reshape(right, -1)
    return solved("spsolve", _matrix("spsolve", A), right)


def spsolve_triangular(
    A: PyTree,
    b: PyTree,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> PyTree:
    """x with A x = b for a triangular sparse matrix.

    Arguments:
        A: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.
        b: the right-hand side, a vector or a matrix.
        lower: whether the entries lie on and below the diagonal, else on and above it.
        overwrite_A, overwrite_b: as in SciPy, where nothing is traced.
        unit_diagonal: whether the diagonal counts as ones.

    Returns:
        The solution; NaN, with SciPy's `MatrixRankWarning`, where the diagonal has a zero.

    Raises:
        ShapeError: the shapes do not fit together.
        ArgumentError: the matrix has entries on the other side of the diagonal.
        UnsupportedTypeError: a dense matrix.

    Example:
        >>> import fgrad, numpy as np
        >>> a = fgrad.sparse.csr(np.array([2.0, 1.0, 4.0]), [0, 0, 1], [0, 1, 3], (2, 2))
        >>> spsolve_triangular(a, np.array([2.0, 9.0]))
        array([1., 2.])
    """
    if not isinstance(A, CsrMatrix) and not has_tracer(tree.leaves(b)):
        return plain.spsolve_triangular(A, b, lower, overwrite_A, overwrite_b, unit_diagonal)
    matrix = _matrix("spsolve_triangular", A)
    rows, columns = matrix.pattern.rows, matrix.indices
    if np.any(columns > rows if lower else columns < rows):
        raise ArgumentError(
            f"scipy.sparse.linalg.spsolve_triangular: lower={lower}, but the matrix is not.",
            (*user_line(), ("write", "spsolve(A, b)    of any matrix")),
        )
    if unit_diagonal:
        rest = CsrMatrix(np.where(rows == columns, 0, matrix.data), matrix.pattern)
        ones = scipy_sparse.eye_array(matrix.shape[0], dtype=matrix.dtype, format="csr")
        matrix = rest + ones
    return solved("spsolve_triangular", matrix, b)


class Factors:
    """The factors of a matrix, as `splu` gives them: `solve(b, trans)`, of traced arrays too.

    Of a constant matrix it has what SciPy's `SuperLU` has: `L`, `U`, `perm_r`, `perm_c`.
    """

    def __init__(self, matrix: CsrMatrix, made: PyTree) -> None:
        self.matrix, self.made, self.shape = matrix, made, matrix.shape

    def __getattr__(self, name: str) -> PyTree:
        if name.startswith("__") or name in ("matrix", "made"):
            raise AttributeError(name)
        if self.made is None:
            raise refusal(f"splu(A).{name}", "the entries are traced.", "splu(A).solve(b)")
        return getattr(self.made, name)

    def solve(self, rhs: PyTree, trans: str = "N") -> PyTree:
        """x with A x = rhs; of the transpose with trans="T", of the conjugate one with "H"."""
        if self.made is not None and not has_tracer(tree.leaves(rhs)):
            return self.made.solve(rhs, trans)
        return solved("splu", self.matrix, rhs, trans)


def splu(A: PyTree, **options: PyTree) -> Factors:
    """The factors of a square sparse matrix, whose `solve(b)` has derivatives.

    Arguments:
        A: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.
        options: SciPy's, of matrices that are not traced.

    Raises:
        UnsupportedNumpyError: options for a traced matrix.
        RuntimeError: a constant matrix is singular.

    Example:
        >>> import scipy.sparse
        >>> solve = splu(scipy.sparse.csc_array([[2.0, 0.0], [0.0, 4.0]])).solve
        >>> solve(np.array([2.0, 2.0]))
        array([1. , 0.5])
    """
    if not isinstance(A, CsrMatrix):
        made = plain.splu(A, **options)
        return Factors(
            constant_matrix(A if is_scipy_sparse(A) else scipy_sparse.csr_array(A)), made
        )
    if options:
        raise refusal(
            f"scipy.sparse.linalg.splu with {next(iter(options))}",
            "the matrix is factorised when its entries are known.",
            "splu(A)",
        )
    return Factors(A, None)


def factorized(A: PyTree) -> Callable[[PyTree], PyTree]:
    """The function b -> x with A x = b of a square sparse matrix; see `splu`.

    Arguments:
        A: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.

    Example:
        >>> import scipy.sparse
        >>> factorized(scipy.sparse.csc_array([[2.0, 0.0], [0.0, 4.0]]))(np.array([2.0, 2.0]))
        array([1. , 0.5])
    """
    return splu(A).solve
