"""L7. Norms and eigenvalues of sparse matrices whose entries are traced.

Eigenvectors come from SciPy, on the host; their derivatives from A v = w v and v^H v = 1, a system
of one more unknown for each pair, which is solved directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import convert, user_line
from fgrad.numpy.sparse_matrices import CsrMatrix, gathered
from fgrad.ops.complex import conj
from fgrad.scipy._either import refusal
from fgrad.scipy.sparse._direct import solved
from fgrad.scipy.sparse._operators import as_scipy
from fgrad.trace import Value, concrete
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.typing import PyTree

plain = lazy_module("scipy.sparse.linalg")


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


Found: TypeAlias = Callable[[PyTree], tuple[np.ndarray, np.ndarray]]


def _start(n: int, options: Mapping[str, PyTree]) -> dict[str, PyTree]:
    """Options for ARPACK, from a start that is always the same."""
    start = np.random.default_rng(0).normal(size=n)
    return {"v0": start, **{k: v for k, v in options.items() if v is not None}}


def _bordered(a: CsrMatrix, value: Value, vector: Value) -> CsrMatrix:
    """[[A - w, -v], [-v^H, 0]], which gives dv and dw; singular where an eigenvalue is double."""
    n = a.shape[0]
    each, last = np.arange(n), np.full(n, n)
    rows = np.concatenate([a.pattern.rows, each, each, last])
    columns = np.concatenate([a.indices, each, last, each])
    data = np.concatenate([a.data, np.zeros(n, a.dtype) - value, -vector, -conj(vector)])
    return gathered(rows * np.int64(n + 1) + columns, data, (n + 1, n + 1))


def _traced_pairs(matrix: CsrMatrix, k: int, dtype: np.dtype, find: Found) -> tuple[Value, Value]:
    """Eigenvalues and vectors of a square matrix; `find` gives those of a matrix of SciPy.

    A dv - w dv - v dw = -dA v,  v^H dv = 0
    """
    pattern, n = matrix.pattern, matrix.shape[0]

    def on_host(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = find(as_scipy(pattern, data))
        return values.astype(dtype), np.ascontiguousarray(vectors.astype(dtype))

    @CustomJvp
    def pairs(data: Value) -> tuple[Value, Value]:
        return pure_callback(on_host, (Aval((k,), dtype), Aval((n, k), dtype)), data)

    @pairs.defjvp
    def _(primals: tuple[Value], tangents: tuple[Value]) -> PyTree:
        values, vectors = pairs(*primals)
        a = CsrMatrix(convert(primals[0], dtype), pattern)
        moved = CsrMatrix(convert(tangents[0], dtype), pattern) @ vectors
        columns = []
        for j in range(k):
            right = np.concatenate([-moved[:, j], np.zeros(1, dtype)])
            columns.append(solved("eigs", _bordered(a, values[j], vectors[:, j]), right))
        both = np.stack(columns, axis=1)
        return (values, vectors), (both[n], both[:n])

    pairs.__name__ = pairs.name = "eigs"
    return pairs(convert(matrix.data, np.result_type(matrix.dtype, np.float32)))


def _check(name: str, a: CsrMatrix, k: int, most: int, write: str) -> None:
    if name != "svds" and a.shape[0] != a.shape[1]:
        raise ShapeError(f"scipy.sparse.linalg.{name}: a matrix of shape {a.shape}.", user_line())
    if not 0 < k <= most:
        raise ArgumentError(f"scipy.sparse.linalg.{name}: k={k}, at most {most}.", user_line())
    if a.dtype.kind == "c" and name != "eigs":
        raise refusal(f"scipy.sparse.linalg.{name}", "the matrix is complex.", write)


def _refuse(name: str, given: Mapping[str, PyTree]) -> None:
    """A card for the first argument that is given, or that is traced."""
    for what in [option for option, x in given.items() if x is not None]:
        raise refusal(
            f"scipy.sparse.linalg.{name} with {what}", "it has no traced form.", f"{name}(A, k)"
        )


def _known(options: Mapping[str, PyTree]) -> dict[str, PyTree]:
    """Arrays that the traced function makes of plain numbers are plain."""
    return {name: concrete(x) if has_tracer((x,)) else x for name, x in options.items()}


def _traced(options: Mapping[str, PyTree]) -> dict[str, PyTree]:
    """The options whose values are not known while tracing."""
    return {name: x for name, x in options.items() if x is not None and concrete(x) is None}


def _refuse_dense(name: str, given: tuple[PyTree, ...], dense: str) -> None:
    if has_tracer(given):
        write = f"{dense}, or fgrad.sparse.csr(...) of its entries"
        raise refusal(f"scipy.sparse.linalg.{name} of a dense matrix", "it is sparse.", write)


def _arpack(
    name: str,
    A: PyTree,
    vectors: bool,
    options: dict[str, PyTree],
    more: dict[str, PyTree],
) -> PyTree:
    """`eigs` or `eigsh`; `more` has no traced form."""
    dense, most, least = {
        "eigsh": ("np.linalg.eigh", 1, np.float32),
        "eigs": ("np.linalg.eig", 2, np.complex64),
    }[name]
    if not isinstance(A, CsrMatrix):
        _refuse_dense(name, (A, more["M"], *options.values()), f"{dense}(A)")
        return getattr(plain, name)(A, return_eigenvectors=vectors, **options, **more)
    _refuse(name, {**more, **_traced(options)})
    (n, _), k = A.shape, options["k"]
    _check(name, A, k, n - most, f"{dense}(A.toarray())")
    given = _start(n, _known(options))
    dtype = np.result_type(A.dtype, least)
    found = _traced_pairs(A, k, dtype, lambda a: getattr(plain, name)(a, **given))
    return found if vectors else found[0]


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
    return _arpack("eigsh", A, return_eigenvectors, options, {"M": M, **others})


def eigs(
    A: PyTree,
    k: int = 6,
    M: PyTree = None,
    sigma: complex | None = None,
    which: str = "LM",
    v0: PyTree = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    **others: PyTree,
) -> PyTree:
    """Some eigenvalues, and eigenvectors, of a square sparse matrix, which are complex.

    Arguments:
        A: what SciPy takes, or a matrix whose entries are traced, of `fgrad.sparse.csr`.
        k: how many.
        sigma, which, ncv, maxiter, tol: as in SciPy.
        v0: where to start, constant; the same at each call if None.
        return_eigenvectors: whether to give `(values, vectors)`, not the values alone.
        M, others: as in SciPy, where nothing is traced.

    Returns:
        The values, or the values and the vectors, as columns of norm 1, whose phase is ARPACK's.
        Derivatives of double eigenvalues and of their vectors are NaN.

    Raises:
        UnsupportedNumpyError: a traced matrix that is dense, or with `M` or `others`.
        ShapeError: the matrix is not square.
        ArgumentError: k is not in 1, ..., n - 2.

    Example:
        >>> import fgrad
        >>> def largest(data):
        ...     a = fgrad.sparse.csr(data, [0, 1, 2, 3], [0, 1, 2, 3, 4], (4, 4))
        ...     return eigs(a, 1, return_eigenvectors=False)[0].real
        >>> fgrad.grad(largest)(np.array([3.0, 1.0, 2.0, 5.0])).round(6) + 0.0
        array([0., 0., 0., 1.])
    """
    options: dict[str, PyTree] = {
        "k": k, "sigma": sigma, "which": which, "v0": v0,
        "ncv": ncv, "maxiter": maxiter, "tol": tol,
    }  # fmt: skip
    return _arpack("eigs", A, return_eigenvectors, options, {"M": M, **others})


def lobpcg(
    A: PyTree,
    X: PyTree,
    B: PyTree = None,
    M: PyTree = None,
    Y: PyTree = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    **others: PyTree,
) -> PyTree:
    """The greatest, or the least, eigenvalues of a symmetric matrix and their vectors.

    Arguments:
        A: what SciPy takes, or a real symmetric matrix whose entries are traced, of
            `fgrad.sparse.csr`.
        X: where to start, constant, shape (n, k).
        M, tol, maxiter, largest: as in SciPy; `M` is constant.
        B, Y, others: as in SciPy, where nothing is traced.

    Returns:
        The values and the vectors, as columns; derivatives are as for `eigsh`.

    Raises:
        UnsupportedNumpyError: a traced matrix that is dense or complex, or with `B` or `Y`.
        ShapeError: the matrix is not square.

    Example:
        >>> import fgrad
        >>> def largest(data):
        ...     a = fgrad.sparse.csr(data, range(9), range(10), (9, 9))
        ...     return lobpcg(a, np.ones((9, 1)), tol=1e-9, maxiter=99)[0][0]
        >>> fgrad.grad(largest)(np.arange(9.0)).round(6)[7:] + 0.0
        array([0., 1.])
    """
    options: dict[str, PyTree] = {"M": M, "tol": tol, "maxiter": maxiter, "largest": largest}
    if not isinstance(A, CsrMatrix):
        _refuse_dense("lobpcg", (A, X, B, Y, *options.values()), "np.linalg.eigh(A)")
        return plain.lobpcg(A, X, B, Y=Y, **options, **others)
    _refuse("lobpcg", {"B": B, "Y": Y, **others, **_traced({"X": X, **options})})
    start, options = np.array(concrete(X)), _known(options)
    _check("lobpcg", A, start.shape[1], A.shape[0], "np.linalg.eigh(A.toarray())")
    dtype = np.result_type(A.dtype, np.float32)

    def find(a: PyTree) -> tuple[np.ndarray, np.ndarray]:
        return plain.lobpcg(a, start.copy(), **options)[:2]

    return _traced_pairs(A, start.shape[1], dtype, find)


def svds(
    A: PyTree,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: PyTree = None,
    maxiter: int | None = None,
    return_singular_vectors: bool | str = True,
    solver: str = "arpack",
    **others: PyTree,
) -> PyTree:
    """Some singular values of a sparse matrix, rising, and their vectors, as SciPy's `svds`.

    Arguments:
        A: what SciPy takes, or a real matrix whose entries are traced, of `fgrad.sparse.csr`.
        k: how many.
        ncv, tol, which, maxiter, solver: as in SciPy.
        v0: where to start, constant; the same at each call if None.
        return_singular_vectors: True for `(u, s, vh)`, False for s alone, "u" or "vh" for these
            with None for the other.
        others: as in SciPy, where nothing is traced.

    Returns:
        As SciPy; derivatives of double or zero singular values are NaN.

    Raises:
        UnsupportedNumpyError: a traced matrix that is dense or complex, or with `others`.
        ArgumentError: k is not in 1, ..., min(m, n) - 1.

    Example:
        >>> import fgrad
        >>> def largest(data):
        ...     a = fgrad.sparse.csr(data, [0, 1, 2], [0, 1, 2, 3], (3, 3))
        ...     return svds(a, 1, return_singular_vectors=False)[0]
        >>> fgrad.grad(largest)(np.array([3.0, -4.0, 2.0])).round(6) + 0.0
        array([ 0., -1.,  0.])
    """
    options: dict[str, PyTree] = {"k": k, "ncv": ncv, "tol": tol, "which": which, "v0": v0,
               "maxiter": maxiter, "solver": solver}  # fmt: skip
    if not isinstance(A, CsrMatrix):
        _refuse_dense("svds", (A, *options.values()), "np.linalg.svd(A)")
        return plain.svds(A, return_singular_vectors=return_singular_vectors, **options, **others)
    _refuse("svds", {**others, **_traced(options)})
    m, n = A.shape
    _check("svds", A, k, min(m, n) - 1, "np.linalg.svd(A.toarray())")

    given = _start(min(m, n), _known(options))

    def find(both: PyTree) -> tuple[np.ndarray, np.ndarray]:
        u, s, vh = plain.svds(both[:m, m:], **given)
        return s, np.concatenate([u, vh.T]) / np.sqrt(2.0)

    dtype = np.result_type(A.dtype, np.float32)
    s, vectors = _traced_pairs(_symmetric(A), k, dtype, find)
    root = np.sqrt(dtype.type(2.0))
    u, vh = vectors[:m] * root, vectors[m:].T * root
    if not return_singular_vectors:
        return s
    kept = return_singular_vectors
    return (None if kept == "vh" else u), s, (None if kept == "u" else vh)


def _symmetric(a: CsrMatrix) -> CsrMatrix:
    """[[0, A], [A', 0]], whose eigenvectors are both singular vectors."""
    m, n = a.shape
    rows, columns = a.pattern.rows, a.indices + m
    places = np.concatenate([rows * np.int64(m + n) + columns, columns * np.int64(m + n) + rows])
    return gathered(places, np.concatenate([a.data, a.data]), (m + n, m + n))
