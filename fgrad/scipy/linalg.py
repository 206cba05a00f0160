"""L7. `scipy.linalg` with derivatives: SciPy for plain arrays, traced forms for tracers.

    import fgrad.scipy.linalg as sla
    fgrad.grad(lambda a: sla.expm(a).sum())(np.eye(2))

Matrices may be stacked in leading axes.  Every other name of `scipy.linalg` is there too, and
raises a card when it meets a traced array.  Arguments are those of SciPy's function;
`overwrite_*`, `check_finite` and the choice of a driver mean nothing there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, overload

import numpy as np

import fgrad.numpy as fnp
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.errors import ShapeError
from fgrad.numpy.linalg_functions import linear_operands, matrices
from fgrad.numpy.promote import as_operand
from fgrad.ops import decompositions as dc
from fgrad.ops import determinants as dt
from fgrad.ops import linalg as la
from fgrad.ops import matrices as mx
from fgrad.ops import matrix_functions as mf
from fgrad.ops.complex import conj, is_complex, to_complex
from fgrad.ops.diagonals import diagonal, on_diagonal
from fgrad.scipy._either import check_choice, either, others, refusal, taken
from fgrad.scipy._linalg_bases import (  # noqa: F401
    cdf2rdf,
    cossin,
    eig,
    expm_cond,
    fiedler_companion,
    funm,
    matrix_balance,
    null_space,
    ordqz,
    orth,
    qr_delete,
    qr_insert,
    qr_update,
    qz,
    rsf2csf,
)
from fgrad.scipy._linalg_more import (  # noqa: F401
    by_levinson,
    cho_solve_banded,
    cholesky_banded,
    convolution_matrix,
    diagsvd,
    eig_banded,
    eigh_tridiagonal,
    eigvals_banded,
    eigvalsh_tridiagonal,
    fiedler,
    fractional_matrix_power,
    hessenberg,
    khatri_rao,
    ldl,
    leslie,
    orthogonal_procrustes,
    pinvh,
    qr_multiply,
    rq,
    schur,
    signm,
    solve_banded,
    solve_circulant,
    solve_continuous_are,
    solve_discrete_are,
    solveh_banded,
    subspace_angles,
)
from fgrad.scipy._vectors import vector
from fgrad.trace import Tracer, Value
from fgrad.tracing.layouts import is_line, mark
from fgrad.typing import ArrayLike, NormOrder, Operand, P, R

plain = lazy_module("scipy.linalg")

Trans: TypeAlias = Literal[0, 1, 2, "N", "T", "C"]  # op(a): a, its transpose, its adjoint


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments.

    Which of SciPy's results lie in Fortran's order differs from version to version.
    """

    by_name: Callable[..., R] = traced

    @functools.wraps(traced)
    def function(*args: P.args, **kwargs: P.kwargs) -> R:
        given = taken(getattr(plain, traced.__name__), traced, args, kwargs)
        out = traced(*args, **kwargs) if given is None else by_name(**given)
        for x in out if isinstance(out, tuple) else (out,):
            if isinstance(x, Tracer) and not is_line(x.shape):
                mark(x, False)
        return out

    return either(plain, function)


__getattr__ = others(__name__, plain)


def _columns(b: Value, ndim: int) -> tuple[Value, bool]:
    """A right-hand side as matrices, and whether it was one vector."""
    vector = len(b.shape) == 1 and ndim >= 2
    return (b[:, None] if vector else b), vector


def _stacked(*xs: Value) -> list[Value]:
    """Matrices with common leading axes."""
    lead = np.broadcast_shapes(*[x.shape[:-2] for x in xs])
    return [x if x.shape[:-2] == lead else np.broadcast_to(x, lead + x.shape[-2:]) for x in xs]


def _trans(trans: Trans) -> int:
    check_choice("solve_triangular", "trans", trans, (0, 1, 2, "N", "T", "C"))
    return {"N": 0, "T": 1, "C": 2}[trans] if isinstance(trans, str) else trans


# --- triangular factors


@also_takes("debug")
@_either
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: Trans = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Value:
    """x with op(a) x = b, where op is the transpose (1, "T") or its conjugate (2, "C").

    Example:
        >>> import numpy as np
        >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]), lower=True)
        array([1., 2.])
    """
    x, y = linear_operands(a, b)
    y, vector = _columns(y, len(matrices(x, square=True).shape))
    x, y = _stacked(x, y)
    how = _trans(trans)
    x = conj(x) if how == 2 else x
    out = la.triangular_solve(x, y, bool(lower), how > 0, bool(unit_diagonal))
    return out[..., 0] if vector else out


@_either
def cholesky(a: ArrayLike, lower: bool = False) -> Value:
    """The triangular factor of Hermitian matrices, of which one triangle is read."""
    x = matrices(a, square=True)
    return la.cholesky(x) if lower else mx.adjoint(la.cholesky(mx.adjoint(x)))


@_either
def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Value, bool]:
    """The factor for `cho_solve`, and which triangle it is; zeros in the other."""
    return cholesky(a, lower=lower), lower


@_either
def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Value:
    """x with a x = b, by the Cholesky factor of a."""
    factor, low = c_and_lower
    y = solve_triangular(factor, b, trans=0 if low else "C", lower=low)
    return solve_triangular(factor, y, trans="C" if low else 0, lower=low)


# --- lu


@_either
def lu_factor(a: ArrayLike) -> tuple[Value, Value]:
    """The packed factors and the exchanges of rows, for `lu_solve`."""
    packed, pivots, _order = la.lu(matrices(a))
    return packed, pivots


@_either
def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: Trans = 0) -> Value:
    """x with op(a) x = b, by the packed factors of a."""
    packed, y = linear_operands(lu_and_piv[0], b)
    y, vector = _columns(y, len(packed.shape))
    if packed.shape[-1] != y.shape[-2]:
        raise ShapeError(f"lu_solve: factors of shape {packed.shape}, right side of {y.shape}.")
    order = la.pivots_order(as_operand(lu_and_piv[1]))
    how = _trans(trans)
    packed, y = _stacked(packed, y)
    order = np.broadcast_to(order, packed.shape[:-1])
    packed = conj(packed) if how == 2 else packed
    if how:
        y = la.triangular_solve(packed, y, False, True)
        y = la.triangular_solve(packed, y, True, True, unit=True)
        out = la.permute_rows(y, np.argsort(order, axis=-1))
    else:
        y = la.triangular_solve(packed, la.permute_rows(y, order), True, unit=True)
        out = la.triangular_solve(packed, y, False)
    return out[..., 0] if vector else out


@_either
def lu(a: ArrayLike, permute_l: bool = False, p_indices: bool = False) -> tuple[Value, ...]:
    """p, l, u with a = p l u; p l and u if `permute_l`; p as indices of rows if `p_indices`."""
    packed, _pivots, order = la.lu(matrices(a))
    m, n = packed.shape[-2:]
    k = min(m, n)
    low = np.tril(packed[..., :, :k], -1) + np.eye(m, k, dtype=packed.dtype)
    up = np.triu(packed[..., :k, :])
    back = np.argsort(order, axis=-1)
    if permute_l:
        return la.permute_rows(low, back), up
    if p_indices:
        return back.astype(np.int32), low, up
    eye = np.broadcast_to(np.eye(m, dtype=np.real(packed).dtype), (*packed.shape[:-2], m, m))
    return la.permute_rows(eye, back), low, up


# --- as in numpy.linalg


def _assumed(x: Value, what: str | None, lower: bool) -> Value:
    """The matrix that `solve` is to take a matrix for, of which it reads a part."""
    known = (None, "general", "gen", "banded", *_PARTS)
    check_choice("solve", "assume_a", what, known)
    part = _PARTS.get(what or "", "")
    if part == "one triangle":
        return mx.hermitian(x, lower)
    if part == "symmetric":
        rest = np.tril(x, -1) if lower else np.triu(x, 1)
        return rest + mx.transposed(rest) + on_diagonal(diagonal(x))
    if part == "diagonal":
        return on_diagonal(diagonal(x))
    x = np.triu(x, -1 if part == "band" else 0) if part in ("upper", "band") else x
    return np.tril(x, 1 if part == "band" else 0) if part in ("lower", "band") else x


_PARTS = {
    **dict.fromkeys(("pos", "positive definite", "her", "hermitian"), "one triangle"),
    **dict.fromkeys(("sym", "symmetric"), "symmetric"),
    "diagonal": "diagonal",
    "tridiagonal": "band",
    "upper triangular": "upper",
    "lower triangular": "lower",
}


@also_takes("debug")
@_either
def solve(
    a: ArrayLike, b: ArrayLike, lower: bool = False, assume_a: str | None = None,
    transposed: bool = False,
) -> Value:  # fmt: skip
    """x with a x = b; `assume_a` says which part of a is read: one triangle for "sym" and "her"."""
    x, y = linear_operands(a, b)
    x = _assumed(x, assume_a, lower)
    y, vector = _columns(y, len(x.shape))
    x, y = _stacked(mx.transposed(x) if transposed else x, y)
    out = la.solve(x, y)
    return out[..., 0] if vector else out


@_either
def inv(a: ArrayLike) -> Value:
    """The inverse."""
    return la.inv(matrices(a, square=True))


@_either
def det(a: ArrayLike) -> Value:
    """The determinant."""
    return dt.det(matrices(a, square=True))


@_either
def norm(
    a: ArrayLike,
    ord: NormOrder = None,
    axis: int | tuple[int, int] | None = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Value:
    """The norm of a vector or matrix."""
    return np.linalg.norm(as_operand(a), ord, axis, keepdims)


@_either
def qr(
    a: ArrayLike,
    mode: Literal["full", "economic", "r"] = "full",
    pivoting: bool = False,
) -> tuple[Value, ...]:
    """q and r; `mode` is "full", "economic" or "r", all without pivoting."""
    if pivoting:
        raise refusal("scipy.linalg.qr with pivoting", "it depends on values.", "qr(a)")
    check_choice("qr", "mode", mode, ("full", "economic", "r"))
    x = matrices(a)
    q, r = dc.qr(x, mode in ("full", "r") and x.shape[-2] > x.shape[-1])
    return (r,) if mode == "r" else (q, r)


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True
) -> tuple[Value, Value, Value]: ...
@overload
def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False]) -> Value: ...
@_either
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True
) -> Value | tuple[Value, ...]:
    """The singular value decomposition, or the singular values alone."""
    x = matrices(a)
    return tuple(np.linalg.svd(x, full_matrices)) if compute_uv else svdvals(x)


@_either
def svdvals(a: ArrayLike) -> Value:
    """The singular values."""
    return np.linalg.svd(matrices(a), compute_uv=False)


@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: Literal[False] = False,
) -> tuple[Value, Value]: ...
@overload
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: Literal[True],
) -> Value: ...
@also_takes("turbo", eigvals=None)
@_either
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
) -> Value | tuple[Value, Value]:
    """Eigenvalues and eigenvectors of a Hermitian matrix; of the pencil a v = w b v with `b`."""
    x = matrices(a, square=True)
    if b is None:
        return dc.eigvalsh(x, lower) if eigvals_only else dc.eigh(x, lower)
    x, y = linear_operands(x, b)
    factor = la.cholesky(mx.hermitian(y, lower))
    half = la.solve_lower(factor, mx.hermitian(x, lower))
    w, v = dc.eigh(la.solve_lower(factor, mx.adjoint(half)))
    return w if eigvals_only else (w, la.triangular_solve(conj(factor), v, True, True))


@_either
def eigvalsh(a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True) -> Value:
    """The eigenvalues of a Hermitian matrix, or pencil."""
    return eigh(a, b, lower=lower, eigvals_only=True)


@_either
def eigvals(a: ArrayLike) -> Value:
    """The eigenvalues, complex."""
    return np.linalg.eigvals(matrices(a))


@_either
def pinv(a: ArrayLike, *, rtol: ArrayLike | None = None) -> Value:
    """The pseudo-inverse."""
    inverse: Any = np.linalg.pinv
    return inverse(a, rtol=rtol)


# --- functions of matrices


def _function(name: str) -> Callable[[ArrayLike], Value]:
    def function(A: ArrayLike) -> Value:
        return mf.matrix_function(name, matrices(A, square=True))

    function.__name__ = name
    function.__doc__ = f"`scipy.linalg.{name}` of square matrices, in their own dtype."
    return _either(function)


expm = also_takes(upper_triangular=False, max_squarings=16)(_function("expm"))
logm = _function("logm")
cosm = _function("cosm")
sinm = _function("sinm")
tanm = _function("tanm")
coshm = _function("coshm")
sinhm = _function("sinhm")
tanhm = _function("tanhm")


@_either
def expm_frechet(
    A: ArrayLike,
    E: ArrayLike,
    method: str | None = None,
    compute_expm: bool = True,
) -> Value | tuple[Value, Value]:
    """The exponential of A, and its derivative in the direction E."""
    check_choice("expm_frechet", "method", method, (None, "SPS", "blockEnlarge"))
    a, e = linear_operands(A, E)
    slope = mf.frechet("expm", a, e)
    return (mf.matrix_function("expm", a), slope) if compute_expm else slope


@_either
def sqrtm(A: ArrayLike) -> Value:
    """The principal square root, in the dtype of A: NaN for real A whose root is complex."""
    return mf.sqrtm(matrices(A, square=True))


@also_takes("method", "tol", aliases={"A": "a", "B": "b", "C": "q"})
@_either
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Value:
    """x with a x + x b = q."""
    return mf.solve_sylvester(*_stacked(*linear_operands(a, b, q)))


@_either
def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Value:
    """x with a x + x a^H = q."""
    x, y = _stacked(*linear_operands(a, q))
    return mf.solve_sylvester(x, mx.adjoint(x), y)


@_either
def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> Value:
    """x with a x a^H - x + q = 0, as a linear system for the elements of x."""
    check_choice("solve_discrete_lyapunov", "method", method, (None, "direct", "bilinear"))
    x, y = linear_operands(a, q)
    n = matrices(x, square=True).shape[-1]
    system = np.eye(n * n) - np.kron(x, conj(x))
    return np.reshape(la.solve(system, np.reshape(y, (n * n, 1))), (n, n))


@also_takes("method", "eps", "max_iterations")
@_either
def polar(a: ArrayLike, side: str = "right") -> tuple[Value, Value]:
    """u and p with a = u p (or p u): u has orthonormal columns or rows, p is Hermitian."""
    check_choice("polar", "side", side, ("right", "left"))
    u, s, vh = dc.svd(matrices(a))
    s = to_complex(s) if is_complex(u) else s
    if side == "right":
        return mx.matmul(u, vh), mx.matmul(mx.scale_columns(mx.adjoint(vh), s), vh)
    return mx.matmul(u, vh), mx.matmul(mx.scale_columns(u, s), mx.adjoint(u))


@_either
def lstsq(a: ArrayLike, b: ArrayLike, cond: float | None = None) -> tuple[Operand, ...]:
    """The least-squares solution, residuals, rank and singular values."""
    x, y = as_operand(a), as_operand(b)
    limit = float(np.finfo(np.float64).eps) if cond is None else cond
    x, residuals, rank, values = np.linalg.lstsq(x, y, limit)
    return x, residuals[0] if y.ndim == 1 and residuals.size else residuals, rank, values


# --- special matrices


@_either
def block_diag(*arrs: ArrayLike) -> Value:
    """The matrix with given blocks on the diagonal, and zeros elsewhere.

    Example:
        >>> import numpy as np
        >>> block_diag(np.eye(1), 2 * np.eye(1))
        array([[1., 0.],
               [0., 2.]])
    """
    blocks = [np.atleast_2d(a) for a in arrs]
    if any(len(b.shape) != 2 for b in blocks):
        raise ValueError("arguments in the following positions have dimension greater than 2")
    width = sum([b.shape[1] for b in blocks])
    rows, left = [], 0
    for b in blocks:
        right = width - left - b.shape[1]
        rows.append(np.pad(b, ((0, 0), (left, right))))
        left += b.shape[1]
    return np.concatenate(rows, 0)


@_either
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Value:
    """The matrix with constant diagonals, of a first column and a first row."""
    column = vector("toeplitz", c)
    row = conj(column) if r is None else vector("toeplitz", r)
    values = fnp.concatenate([column[::-1], row[1:]])
    m, n = column.shape[0], row.shape[0]
    return values[np.arange(m)[::-1, None] + np.arange(n)]


@_either
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Value:
    """The matrix with constant antidiagonals, of a first column and a last row."""
    column = vector("hankel", c)
    row = column * 0 if r is None else vector("hankel", r)
    values = fnp.concatenate([column, row[1:]])
    return values[np.arange(column.shape[0])[:, None] + np.arange(row.shape[0])]


@_either
def circulant(c: ArrayLike) -> Value:
    """The matrix whose columns are rotations of the first."""
    column = vector("circulant", c)
    n = column.shape[0]
    return column[(np.arange(n)[:, None] - np.arange(n)) % n]


@_either
def companion(a: ArrayLike) -> Value:
    """The companion matrix of a polynomial, given by its coefficients."""
    given = vector("companion", a)
    first = -given[1:] / given[0]
    return np.concatenate([first[None], np.eye(first.shape[0])[:-1]], 0)


@_either
def solve_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], b: ArrayLike, check_finite: bool = True
) -> Value:
    """x with toeplitz(c, r) x = b, by Levinson's recursion on the host."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return by_levinson(c, r, b)


@_either
def matmul_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike],
    x: ArrayLike,
    check_finite: bool = False,
    workers: int | None = None,
) -> Value:
    """toeplitz(c, r) @ x, as a general product."""
    pair = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)
    return toeplitz(*pair) @ as_operand(x)


solve_lyapunov = solve_continuous_lyapunov


__dir__ = names_shown(__name__)
