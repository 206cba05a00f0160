"""L7. Norms and eigenvalues of sparse matrices whose entries are traced.

Eigenvectors come from SciPy's ARPACK, on the host; their derivatives from A v = w v and v'v = 1,
a system of one more unknown for each pair, which is solved directly.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import convert, user_line
from fgrad.numpy.sparse_matrices import CsrMatrix, Pattern
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import refusal
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.implicit import custom_root
from fgrad.typing import PyTree

plain = lazy_module("scipy.sparse.linalg")
scipy_sparse = lazy_module("scipy.sparse")


def norm(x: PyTree, ord: PyTree = None, axis: PyTree = None) -> PyTree:
    """A norm of a sparse matrix.

    Arguments:
        x: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.
        ord: None or "fro" for the root of the sum of squares; 1 or inf for the largest sum of
            magnitudes of a column or of a row.
        axis: as in SciPy, where nothing is traced.

    Raises:
        UnsupportedNumpyError: another norm of a traced matrix, or norms along an axis.

    Example:
        >>> import fgrad
        >>> norm(fgrad.sparse.csr(np.array([3.0, 4.0]), [0, 1], [0, 1, 2], (2, 2)))
        np.float64(5.0)
    """
    if not isinstance(x, CsrMatrix):
        if has_tracer((x,)):
            raise refusal(
                "scipy.sparse.linalg.norm of a dense matrix",
                "it takes sparse ones.",
                "np.linalg.norm(x)",
            )
        return plain.norm(x, ord, axis)
    if axis is not None or ord not in (None, "fro", "f", 1, np.inf):
        raise refusal(
            f"scipy.sparse.linalg.norm with ord={ord!r}, axis={axis!r}",
            "Frobenius' norm, 1 and inf have a traced form.",
            "np.linalg.norm(A.toarray(), ord, axis)",
        )
    if 0 in x.shape:
        return np.sum(np.abs(x.data))
    entries = x.summed()
    if ord in (None, "fro", "f"):
        return np.linalg.norm(entries.data)
    magnitudes = CsrMatrix(np.abs(entries.data), entries.pattern)
    return np.max(magnitudes.sum(axis=0 if ord == 1 else 1))


def _pairs(
    pattern: Pattern, options: dict[str, PyTree], data: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors, by ARPACK from a start that is always the same."""
    matrix = scipy_sparse.csr_matrix((data, pattern.indices, pattern.indptr), pattern.shape)
    start = np.random.default_rng(0).normal(size=pattern.shape[0])
    options = {"v0": start, **{k: v for k, v in options.items() if v is not None}}
    values, vectors = plain.eigsh(matrix, **options)
    return values.astype(data.dtype), np.ascontiguousarray(vectors.astype(data.dtype))


def _bordered(
    pattern: Pattern,
    data: np.ndarray,
    values: np.ndarray,
    vectors: np.ndarray,
    right: np.ndarray,
    below: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """dv and dw of A dv - w dv - dw v = right, -v'dv = below, for each pair; NaN where an
    eigenvalue is double."""
    n = pattern.shape[0]
    matrix = scipy_sparse.csr_matrix((data, pattern.indices, pattern.indptr), pattern.shape)
    found = np.full((n + 1, len(values)), np.nan, data.dtype)
    for k, value in enumerate(values):
        column = scipy_sparse.csr_matrix(-vectors[:, k : k + 1])
        shifted = matrix - value * scipy_sparse.identity(n, data.dtype, "csr")
        whole = scipy_sparse.bmat([[shifted, column], [column.T, None]], "csc")
        try:
            found[:, k] = plain.splu(whole).solve(np.append(right[:, k], below[k]))
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            text = "eigsh: a double eigenvalue has no derivative"
            warnings.warn(text, plain.MatrixRankWarning, stacklevel=2)
    return found[:n], found[n]


def eigsh(
    A: PyTree,
    k: int = 6,
    M: PyTree = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: PyTree = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    **others: PyTree,
) -> PyTree:
    """Some eigenvalues, and eigenvectors, of a symmetric sparse matrix.

    Arguments:
        A: what SciPy takes, or a real symmetric matrix whose entries are traced, of
            `fgrad.sparse.csr`; it is not checked that it is symmetric.
        k: how many.
        sigma, which, ncv, maxiter, tol: as in SciPy.
        v0: where to start, constant; the same at each call if None.
        return_eigenvectors: whether to give `(values, vectors)`, not the values alone.
        M, others: as in SciPy, where nothing is traced.

    Returns:
        The values, or the values and the vectors, as columns. Derivatives of double eigenvalues
        and of their vectors are NaN.

    Raises:
        UnsupportedNumpyError: a traced matrix that is dense or complex, or with `M` or `others`.
        ShapeError: the matrix is not square.
        ArgumentError: k is not in 1, ..., n - 1.

    Example:
        >>> import fgrad
        >>> def lowest(data):
        ...     a = fgrad.sparse.csr(data, [0, 1, 2], [0, 1, 2, 3], (3, 3))
        ...     return eigsh(a, 1, which="SA", return_eigenvectors=False)[0]
        >>> fgrad.grad(lowest)(np.array([3.0, 1.0, 2.0])).round(6) + 0.0
        array([0., 1., 0.])
    """
    options: dict[str, PyTree] = {
        "k": k, "sigma": sigma, "which": which, "v0": v0,
        "ncv": ncv, "maxiter": maxiter, "tol": tol,
    }  # fmt: skip
    if not isinstance(A, CsrMatrix):
        if has_tracer((A, M, *options.values())):
            write = "np.linalg.eigh(A), or fgrad.sparse.csr(...) of its entries"
            raise refusal("scipy.sparse.linalg.eigsh of a dense matrix", "it is sparse.", write)
        return plain.eigsh(A, M=M, return_eigenvectors=return_eigenvectors, **options, **others)
    traced = {name: x for name, x in options.items() if has_tracer((x,))}
    for what in [name for name, x in {"M": M, **others, **traced}.items() if x is not None]:
        raise refusal(
            f"scipy.sparse.linalg.eigsh with {what}", "it has no traced form.", "eigsh(A, k)"
        )
    if A.dtype.kind == "c":
        write = "np.linalg.eigh(A.toarray())"
        raise refusal("scipy.sparse.linalg.eigsh", "the matrix is complex.", write)
    n = A.shape[0]
    if A.shape != (n, n):
        raise ShapeError(f"scipy.sparse.linalg.eigsh: a matrix of shape {A.shape}.", user_line())
    if not 0 < k < n:
        raise ArgumentError(f"scipy.sparse.linalg.eigsh: k={k} of {n} eigenvalues.", user_line())
    values, vectors = _traced_pairs(A, k, options)
    return (values, vectors) if return_eigenvectors else values


def _traced_pairs(matrix: CsrMatrix, k: int, options: dict[str, PyTree]) -> tuple[Value, Value]:
    n, dtype = matrix.shape[0], np.result_type(matrix.dtype, np.float32)
    matrix = CsrMatrix(convert(matrix.data, dtype), matrix.pattern)
    data = stop_gradient(matrix.data)
    like = Aval((k,), dtype), Aval((n, k), dtype)
    values, vectors = pure_callback(functools.partial(_pairs, matrix.pattern, options), like, data)

    def residual(pair: tuple[Value, Value]) -> tuple[Value, Value]:
        v, w = pair
        return matrix @ v - v * w, (1 - np.sum(v * v, axis=0)) / 2

    def tangents(_linear: object, y: tuple[Value, Value]) -> tuple[Value, Value]:
        solve = functools.partial(_bordered, matrix.pattern)
        shapes = Aval((n, k), dtype), Aval((k,), dtype)
        return pure_callback(solve, shapes, data, values, vectors, *y)

    v, w = custom_root(residual, (vectors, values), lambda _, pair: pair, tangents)
    return w, v
