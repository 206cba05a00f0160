"""L7. Functions of sparse matrices whose entries are traced: their patterns are constant too.

The inverse and the exponential are sums of powers: an entry is there for each path between nodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.foreign import is_scipy_sparse
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.lax.loops import while_loop
from fgrad.numpy.promote import as_array, as_operand, convert, inexact, user_line
from fgrad.numpy.sparse_matrices import CsrMatrix, Pattern, by_rows, constant_matrix
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy import linalg as dense
from fgrad.scipy._either import refusal
from fgrad.scipy._host import Untraced, inside
from fgrad.scipy.sparse._direct import solved
from fgrad.scipy.sparse._operators import LinearOperator, OfMatrix, aslinearoperator, host_form
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import PyTree

plain = lazy_module("scipy.sparse.linalg")
scipy_sparse = lazy_module("scipy.sparse")

_TERMS = 18  # of the series, whose rest is then below the rounding error
_MOST_STEPS = 1000


def _paths(pattern: Pattern) -> Pattern:
    """Where some power of a matrix may have an entry, the diagonal included."""
    n = pattern.shape[0]
    there = np.ones(len(pattern.indices), np.float64), pattern.indices, pattern.indptr
    reached = scipy_sparse.csr_array(there, pattern.shape) + scipy_sparse.eye_array(n)
    count = -1
    while reached.nnz != count:
        count = reached.nnz
        reached = (reached @ reached).tocsr()
        reached.data[:] = 1.0
    rows, columns = reached.tocoo().coords
    order = np.lexsort((columns, rows))
    return by_rows(rows[order], columns[order], pattern.shape)


def _at(matrix: Value, pattern: Pattern) -> CsrMatrix:
    return CsrMatrix(matrix[pattern.rows, pattern.indices], pattern)


def _square(name: str, a: CsrMatrix) -> int:
    if a.shape[0] != a.shape[1]:
        raise ShapeError(f"scipy.sparse.linalg.{name}: a matrix of shape {a.shape}.", user_line())
    return a.shape[0]


def _entries(name: str, a: PyTree) -> CsrMatrix | None:
    """A matrix of traced entries; None for what SciPy takes, a card for a dense traced one."""
    if isinstance(a, CsrMatrix):
        return a
    if inside(a) and not is_scipy_sparse(a) and hasattr(a, "aval"):
        write = (
            f"fgrad.scipy.linalg.{name}(A)" if name != "matrix_power" else "np.linalg.matrix_power"
        )
        raise refusal(
            f"scipy.sparse.linalg.{name} of a dense matrix", "it takes sparse ones.", write
        )
    return None


def inv(A: PyTree) -> PyTree:
    """The inverse of a sparse matrix.

    Arguments:
        A: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.

    Returns:
        A sparse matrix of the same kind; NaN, with SciPy's warning, where `A` is singular.

    Raises:
        ShapeError: the matrix is not square.
        UnsupportedNumpyError: a dense traced matrix.

    Example:
        >>> import fgrad
        >>> inv(fgrad.sparse.csr(np.array([2.0, 4.0]), [0, 1], [0, 1, 2], (2, 2))).toarray()
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
    """
    a = _entries("inv", A)
    if a is None:
        return plain.inv(A)
    one = np.eye(_square("inv", a), dtype=np.result_type(a.dtype, np.float32))
    return _at(solved("inv", a, one), _paths(a.pattern))


def expm(A: PyTree) -> PyTree:
    """The exponential of a sparse matrix; its entries come from the dense matrix.

    Arguments:
        A: what SciPy takes, or a matrix whose entries are traced, of `fgrad.sparse.csr`.

    Returns:
        A sparse matrix of the same kind.

    Raises:
        ShapeError: the matrix is not square.
        UnsupportedNumpyError: a dense traced matrix.

    Example:
        >>> import fgrad
        >>> expm(fgrad.sparse.csr(np.array([1.0]), [1], [0, 1, 1], (2, 2))).toarray()
        array([[1., 1.],
               [0., 1.]])
    """
    a = _entries("expm", A)
    if a is None:
        return plain.expm(A)
    _square("expm", a)
    whole = CsrMatrix(convert(a.data, np.result_type(a.dtype, np.float32)), a.pattern)
    return _at(dense.expm(whole.toarray()), _paths(a.pattern))


def matrix_power(A: PyTree, power: int) -> PyTree:
    """A sparse matrix times itself, `power` times.

    Arguments:
        A: a sparse matrix of SciPy, or one whose entries are traced, of `fgrad.sparse.csr`.
        power: 0, 1, ...

    Raises:
        ShapeError: the matrix is not square.
        ArgumentError: the power is negative, or no integer.
        UnsupportedNumpyError: a dense traced matrix.

    Example:
        >>> import fgrad
        >>> a = fgrad.sparse.csr(np.array([2.0, 3.0]), [1, 0], [0, 1, 2], (2, 2))
        >>> matrix_power(a, 2).toarray()
        array([[6., 0.],
               [0., 6.]])
    """
    a = _entries("matrix_power", A)
    if a is None:
        return plain.matrix_power(A, power)
    n = _square("matrix_power", a)
    if power < 0 or int(power) != power:
        raise ArgumentError(f"scipy.sparse.linalg.matrix_power: power={power!r}.", user_line())
    found: PyTree = None
    for bit in bin(int(power))[:1:-1]:
        if bit == "1":
            found = a if found is None else found @ a
        a = a @ a if power > 1 else a
        power //= 2
    if found is None:
        return constant_matrix(scipy_sparse.eye_array(n, dtype=a.dtype, format="csr"))
    return found


def onenormest(
    A: PyTree, t: int = 2, itmax: int = 5, compute_v: bool = False, compute_w: bool = False
) -> PyTree:
    """A lower bound of the 1-norm of an operator, as `scipy.sparse.linalg.onenormest`.

    Arguments:
        A: an array, a sparse matrix, or a `LinearOperator`; derivatives are those of the column
            that was found to have the greatest sum of magnitudes.
        t, itmax: as in SciPy.
        compute_v, compute_w: whether to return also v with norm 1, and w = A v.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.grad(onenormest)(np.array([[1.0, -2.0], [0.5, 4.0]])) + 0.0
        array([[ 0., -1.],
               [ 0.,  1.]])
    """
    ours = isinstance(A, (CsrMatrix, LinearOperator))
    if not ours and not inside(A):
        return plain.onenormest(A, t, itmax, compute_v, compute_w)
    op = aslinearoperator(A)
    n = op.shape[0]
    if op.shape != (n, n):
        raise ShapeError(f"scipy.sparse.linalg.onenormest: shape {op.shape}.", user_line())
    form = host_form(op, op.dtype)

    def call(values: PyTree) -> np.ndarray:
        before = np.random.get_state()  # SciPy draws from it; the same value gives the same norm
        np.random.seed(0)
        try:
            with Untraced():
                a = plain.aslinearoperator(form.made(values))
                return plain.onenormest(a, t, itmax, compute_v=True)[1].astype(np.float64)
        finally:
            np.random.set_state(before)

    v = pure_callback(call, Aval((n,), np.dtype(np.float64)), form.values)
    w = op.matvec(v if not isinstance(op, OfMatrix) else convert(v, op.dtype))
    found = (np.sum(np.abs(w)), *([v] * compute_v), *([w] * compute_w))
    return found if len(found) > 1 else found[0]


def _of_norm(a: LinearOperator) -> Value:
    """A bound of the 1-norm of an operator, which has no derivative."""
    matrix = a.matrix if isinstance(a, OfMatrix) else None
    if isinstance(matrix, CsrMatrix):
        sums = CsrMatrix(np.abs(stop_gradient(matrix.data)), matrix.pattern).sum(axis=0)
        return np.max(sums)
    if matrix is not None:
        return np.max(np.sum(np.abs(stop_gradient(matrix)), axis=0))
    return 2.0 * stop_gradient(onenormest(a))


def _exponential(a: LinearOperator, t: PyTree, norm: Value, b: Value) -> Value:
    """exp(t A) b by Taylor's series in steps for which the norm of t A is 1 or less."""
    steps = np.maximum(np.ceil(np.abs(t) * norm), 1.0)
    width = t / steps

    def step(carry: tuple[Value, Value]) -> tuple[Value, Value]:
        k, x = carry
        term = total = x
        for order in range(1, _TERMS + 1):
            term = a.dot(term) * (width / order)
            total = total + term
        return k + 1, total.astype(x.dtype)

    most = int(concrete(steps)) if concrete(steps) is not None else _MOST_STEPS
    k, found = while_loop(lambda c: c[0] < steps, step, (np.float64(0.0), b), most)
    return np.where(k == steps, found, np.nan)


def expm_multiply(
    A: PyTree,
    B: PyTree,
    start: PyTree = None,
    stop: PyTree = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: PyTree = None,
) -> PyTree:
    """exp(A) @ B without the exponential, or exp(t A) @ B for times t at equal distances.

    Arguments:
        A: an array, a sparse matrix, or a `LinearOperator`.
        B: vectors, shape (n,) or (n, k).
        start, stop, num, endpoint: the times, as of `np.linspace`; derivatives flow to both ends.
        traceA: as in SciPy, outside of transforms; it changes no result.

    Returns:
        An array like B, or one for each time, stacked. Inside of `jit` it is NaN where the 1-norm
        of the traced t A is above 1,000.

    Raises:
        ShapeError: the shapes do not fit.

    Example:
        >>> import fgrad
        >>> a = np.array([[0.0, 1.0], [0.0, 0.0]])
        >>> fgrad.grad(lambda p: expm_multiply(p * a, np.ones(2)).sum())(1.0).round(9)
        np.float64(1.0)
    """
    ours = isinstance(A, (CsrMatrix, LinearOperator))
    if not ours and not inside(A, B, start, stop):
        return plain.expm_multiply(A, B, start, stop, num, endpoint, traceA)
    a, b = aslinearoperator(A), inexact(as_array(as_operand(B)))
    if a.shape[0] != a.shape[1] or b.shape[:1] != a.shape[:1]:
        raise ShapeError(
            f"scipy.sparse.linalg.expm_multiply: shapes {a.shape} and {b.shape}.", user_line()
        )
    b = convert(b, np.result_type(b.dtype, a.dtype))
    norm = _of_norm(a)
    if start is None and stop is None and num is None and endpoint is None:
        return _exponential(a, np.float64(1.0), norm, b)
    ends = [inexact(as_operand(e)) for e in (start, stop)]
    count = 50 if num is None else num
    times = np.linspace(ends[0], ends[1], count, endpoint=endpoint is not False)
    found = []
    for k in range(int(times.shape[0])):  # from one time to the next
        width = times[0] if k == 0 else times[k] - times[k - 1]
        found.append(_exponential(a, width, norm, found[-1] if k else b))
    return np.stack(found)


def funm_multiply_krylov(
    f: Callable[[PyTree], PyTree],
    A: PyTree,
    b: PyTree,
    *,
    assume_a: str = "general",
    t: PyTree = 1.0,
    atol: float = 0.0,
    rtol: float = 1e-6,
    restart_every_m: int | None = None,
    max_restarts: int = 20,
) -> PyTree:
    """f(t A) @ b for a function of matrices; what is traced comes from the dense matrix.

    Arguments:
        f: a function of dense matrices, such as `fgrad.scipy.linalg.expm`.
        A: an array, a sparse matrix, or a `LinearOperator`.
        b: a vector.
        t: a factor.
        assume_a, atol, rtol, restart_every_m, max_restarts: as in SciPy; what is traced is exact.

    Raises:
        ShapeError: the matrix is not square.

    Example:
        >>> import fgrad
        >>> from fgrad.scipy.linalg import expm
        >>> a = np.array([[0.0, 1.0], [0.0, 0.0]])
        >>> fgrad.grad(lambda p: funm_multiply_krylov(expm, a, np.ones(2), t=p)[0])(1.0).round(9)
        np.float64(1.0)
    """
    ours = isinstance(A, (CsrMatrix, LinearOperator))
    if not ours and not inside(A, b, t):
        return plain.funm_multiply_krylov(
            f, A, b, assume_a=assume_a, t=t, atol=atol, rtol=rtol,
            restart_every_m=restart_every_m, max_restarts=max_restarts,
        )  # fmt: skip
    a = aslinearoperator(A)
    if a.shape[0] != a.shape[1]:
        what = f"scipy.sparse.linalg.funm_multiply_krylov: shape {a.shape}."
        raise ShapeError(what, user_line())
    return user_form(f)(t * a.matmat(np.eye(a.shape[0]))) @ as_operand(b)
