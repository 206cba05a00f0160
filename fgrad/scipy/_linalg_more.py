"""L7. Further functions of `scipy.linalg` with derivatives: banded systems, factorisations that
LAPACK computes, equations of matrices, and matrices of known form.

Factors without a derivative (`schur`, `hessenberg`, `ldl`) are SciPy's own under `jit` and `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.lazy_import import lazy_module
from fgrad.errors import MissingRuleError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.linalg_functions import linear_operands, matrices
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops import decompositions as dc
from fgrad.ops import linalg as la
from fgrad.ops import matrices as mx
from fgrad.ops import matrix_functions as mf
from fgrad.ops.complex import conj
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._bands import banded_product, solved_bands, turned_bands
from fgrad.scipy._either import check_choice, either, refusal
from fgrad.scipy._host import implicit
from fgrad.scipy._vectors import vector
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.implicit import custom_linear_solve
from fgrad.transforms.custom.jvp import custom_jvp
from fgrad.typing import ArrayLike, P, PyTree, R

plain = lazy_module("scipy.linalg")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _called(name: str, like: Sequence[Aval], *args: Value, **options: PyTree) -> PyTree:
    """SciPy's function when the program runs."""

    def call(*plain_args: np.ndarray) -> tuple[np.ndarray, ...]:
        found = tree.leaves(getattr(plain, name)(*plain_args, **options))
        return tuple([np.asarray(x, a.dtype) for x, a in zip(found, like, strict=True)])

    return pure_callback(call, tuple(like), *args)


def _plain_call(name: str, like: Sequence[Aval], *args: Value, **options: PyTree) -> PyTree:
    """The same, of factors that have no derivative: a card says so."""

    @custom_jvp
    def called(*operands: Value) -> PyTree:
        return _called(name, like, *operands, **options)

    @called.defjvp
    def _(*_: PyTree) -> PyTree:
        raise MissingRuleError(
            f"There is no derivative of scipy.linalg.{name}.",
            (
                *user_line(),
                ("why", "its factors are LAPACK's, whose choice of them has no formula."),
                ("write", "fgrad.stop_gradient(a) for its operand, if the factors are constants"),
                ("or", "eig, eigh, svd, qr, lu, cholesky or polar, which have derivatives"),
            ),
        )

    return called(*args)


# --- banded matrices


def _from_bands(bands: Value, lower: int, upper: int) -> Value:
    """The matrix whose diagonals are the rows of `bands`, the highest first."""
    n = bands.shape[-1]
    rows, columns = np.arange(n)[:, None], np.arange(n)
    places = upper + rows - columns
    inside = (places >= 0) & (places <= lower + upper)
    picked = bands[np.where(inside, places, 0), np.broadcast_to(columns, (n, n))]
    return np.where(inside, picked, np.zeros((), bands.dtype))


@_either
def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Value:
    """x with a x = b, for a matrix given by its diagonals.

    Example:
        >>> solve_banded((1, 1), np.array([[0.0, 1.0], [2.0, 2.0], [1.0, 0.0]]), np.ones(2))
        array([0.33333333, 0.33333333])
    """
    lower, upper = l_and_u
    bands, right = linear_operands(ab, b)
    if bands.shape[0] != lower + upper + 1 or bands.shape[-1] != right.shape[0]:
        raise ShapeError(
            f"solve_banded: diagonals of shape {bands.shape} for l={lower}, u={upper} and a "
            f"right-hand side of shape {right.shape}.",
            user_line(),
        )
    offsets = range(-lower, upper + 1)

    def product(x: Value) -> Value:
        return banded_product(bands, upper, offsets, x)

    def solve(turned: bool) -> Callable[..., Value]:
        def call(ab: np.ndarray, b: np.ndarray) -> np.ndarray:
            sides = (upper, lower) if turned else (lower, upper)
            diagonals = turned_bands(ab, upper, offsets) if turned else ab
            return solved_bands(sides, diagonals, b, check_finite)

        def solved(_: Callable[[Value], Value], b: Value) -> Value:
            return pure_callback(call, Aval(b.shape, b.dtype), stop_gradient(bands), b)

        return solved

    return custom_linear_solve(product, right, solve(False), solve(True))


def by_levinson(c: ArrayLike, r: ArrayLike | None, b: ArrayLike) -> Value:
    """The solution of a system whose matrix has a first column c, and a first row r or conj(c)."""
    column, right = linear_operands(vector("solve_toeplitz", c), b)
    row = conj(column) if r is None else vector("solve_toeplitz", r)
    column, row, right = linear_operands(column, row, right)
    n = column.shape[0]
    if row.shape != (n,) or right.shape[:1] != (n,):
        raise ShapeError(
            f"solve_toeplitz: a column of shape {column.shape}, a row of {row.shape} and a "
            f"right-hand side of shape {right.shape}.",
            user_line(),
        )
    places = np.arange(n)[::-1, None] + np.arange(n)
    matrix = np.concatenate([column[::-1], row[1:]])[places]

    def call(column: np.ndarray, row: np.ndarray, b: np.ndarray) -> np.ndarray:
        try:
            return plain.solve_toeplitz((column, row), b).astype(b.dtype)
        except np.linalg.LinAlgError:  # a leading minor is zero
            return np.linalg.solve(plain.toeplitz(column, row), b)

    def solve(turned: bool) -> Callable[..., Value]:
        other = np.concatenate([column[:1], row[1:]])
        ends = [stop_gradient(v) for v in ((other, column) if turned else (column, row))]
        return lambda _, b: pure_callback(call, Aval(b.shape, b.dtype), *ends, b)

    return custom_linear_solve(lambda x: matrix @ x, right, solve(False), solve(True))


def _hermitian_bands(ab: Value, lower: bool) -> Value:
    count = ab.shape[0] - 1
    half = _from_bands(ab, count, 0) if lower else _from_bands(ab, 0, count)
    return mx.hermitian(half, lower)


@_either
def solveh_banded(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Value:
    """x with a x = b, for a positive definite matrix given by its upper or lower diagonals."""
    bands, right = linear_operands(ab, b)
    return np.linalg.solve(_hermitian_bands(bands, lower), right)


@_either
def eig_banded(
    a_band: ArrayLike,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,
    select: str = "a",
    select_range: object = None,
    max_ev: int = 0,
    check_finite: bool = True,
) -> PyTree:
    """Eigenvalues and eigenvectors of a Hermitian matrix given by its diagonals."""
    if select not in ("a", "all") or select_range is not None:
        raise refusal("scipy.linalg.eig_banded with select", "it gives all.", "eig_banded(a)")
    whole = _hermitian_bands(inexact(as_operand(a_band)), lower)
    return dc.eigvalsh(whole, lower) if eigvals_only else dc.eigh(whole, lower)


@_either
def eigvals_banded(
    a_band: ArrayLike,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: str = "a",
    select_range: object = None,
    check_finite: bool = True,
) -> Value:
    """Eigenvalues of a Hermitian matrix given by its diagonals."""
    return eig_banded(a_band, lower, True, select=select, select_range=select_range)


def _tridiagonal(d: ArrayLike, e: ArrayLike) -> Value:
    diagonal, off = [inexact(vector("eigh_tridiagonal", x)) for x in (d, e)]
    return np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)


@_either
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: object = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> PyTree:
    """Eigenvalues and eigenvectors of a real symmetric tridiagonal matrix."""
    if select not in ("a", "all") or select_range is not None:
        what = "scipy.linalg.eigh_tridiagonal with select"
        raise refusal(what, "it gives all.", "eigh_tridiagonal(d, e)")
    whole = _tridiagonal(d, e)
    return dc.eigvalsh(whole, True) if eigvals_only else dc.eigh(whole, True)


@_either
def eigvalsh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    select: str = "a",
    select_range: object = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Value:
    """Eigenvalues of a real symmetric tridiagonal matrix."""
    return eigh_tridiagonal(d, e, True, select, select_range)


@_either
def cholesky_banded(
    ab: ArrayLike, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True
) -> Value:
    """The diagonals of the triangular factor of a matrix given by its diagonals."""
    bands = inexact(as_operand(ab))
    count, n = bands.shape[0] - 1, bands.shape[1]
    factor = la.cholesky(_hermitian_bands(bands, lower))
    factor = factor if lower else mx.adjoint(factor)
    rows = np.arange(count + 1)[:, None] - (0 if lower else count) + np.arange(n)
    inside = (rows >= 0) & (rows < n)
    picked = factor[np.where(inside, rows, 0), np.broadcast_to(np.arange(n), rows.shape)]
    return np.where(inside, picked, np.zeros((), bands.dtype))


@_either
def cho_solve_banded(
    cb_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Value:
    """x with a x = b, by the diagonals of the triangular factor of a."""
    bands, right = linear_operands(cb_and_lower[0], b)
    count, low = bands.shape[0] - 1, bool(cb_and_lower[1])
    factor = _from_bands(bands, count, 0) if low else _from_bands(bands, 0, count)
    factor = factor if low else mx.adjoint(factor)
    return np.linalg.solve(mx.adjoint(factor), np.linalg.solve(factor, right))


# --- factors


@_either
def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: object = None,
    check_finite: bool = True,
) -> tuple[Value, Value]:
    """t and z with a = z t z^H, under `jit` and `vmap`; they have no derivative.

    Example:
        >>> schur(np.diag([2.0, 1.0]))[0]
        array([[2., 0.],
               [0., 1.]])
    """
    if sort is not None:
        why = "how many come first depends on values."
        raise refusal("scipy.linalg.schur with sort", why, "schur(a)")
    x = matrices(a, square=True)
    dtype = np.result_type(x.dtype, np.complex64) if output in ("complex", "c") else x.dtype
    like = Aval(x.shape, dtype)
    return _plain_call("schur", (like, like), x, output=output)


@_either
def hessenberg(
    a: ArrayLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> PyTree:
    """The form of Hessenberg, and q with a = q h q^H; without derivative."""
    x = matrices(a, square=True)
    like = Aval(x.shape, x.dtype)
    found = _plain_call("hessenberg", (like, like) if calc_q else (like,), x, calc_q=calc_q)
    return found if calc_q else found[0]


@_either
def ldl(
    A: ArrayLike,
    lower: bool = True,
    hermitian: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
) -> tuple[Value, Value, Value]:
    """l, d and the exchanges of rows with a = l d l^H; without derivative."""
    x = matrices(A, square=True)
    like, order = Aval(x.shape, x.dtype), Aval(x.shape[-1:], np.dtype(np.int64))
    return _plain_call("ldl", (like, like, order), x, lower=lower, hermitian=hermitian)


@_either
def rq(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    check_finite: bool = True,
) -> PyTree:
    """r and q with a = r q, for square matrices."""
    x = matrices(a, square=True)
    q, r = dc.qr(mx.adjoint(x[..., ::-1, :]), False)
    check_choice("scipy.linalg.rq", "mode", mode, ("full", "r", "economic"))
    r = mx.adjoint(r)[..., ::-1, ::-1]
    return r if mode == "r" else (r, mx.adjoint(q)[..., ::-1, :])


@_either
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Value, Value]:
    """q c (or c q) and r, of the factors of a."""
    if pivoting:
        what = "scipy.linalg.qr_multiply with pivoting"
        raise refusal(what, "it depends on values.", "qr_multiply(a, c)")
    check_choice("scipy.linalg.qr_multiply", "mode", mode, ("left", "right"))
    x, y = linear_operands(a, c)
    q, r = dc.qr(x, False)
    q = conj(q) if conjugate else q
    if mode == "left":
        k = q.shape[-1]
        return q @ (y if y.shape[0] == k else y[:k]), r
    return y @ q, r


@_either
def pinvh(
    a: ArrayLike,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Value:
    """The pseudo-inverse of a Hermitian matrix."""
    if return_rank or atol is not None:
        what = "scipy.linalg.pinvh with atol or return_rank"
        raise refusal(what, "it has no traced form.", "pinvh(a)")
    x = mx.hermitian(matrices(a, square=True), lower)
    given = x.shape[-1] * float(np.finfo(x.dtype).eps) if rtol is None else rtol
    return np.linalg.pinv(x, rcond=given, hermitian=True)


@_either
def subspace_angles(A: ArrayLike, B: ArrayLike) -> Value:
    """The angles between the spaces of the columns of two matrices, the greatest first."""
    x, y = linear_operands(A, B)
    p, q = dc.qr(x, False)[0], dc.qr(y, False)[0]
    if p.shape[1] < q.shape[1]:
        p, q = q, p
    both = mx.adjoint(p) @ q
    cosines = np.linalg.svd(both, compute_uv=False)
    sines = np.linalg.svd(q - p @ both, compute_uv=False)
    small = (cosines**2)[::-1] >= 0.5  # where sines say more
    by_sine = np.arcsin(np.clip(np.where(small, sines, 0.0), -1.0, 1.0))
    by_cosine = np.arccos(np.clip(np.where(small, 0.0, cosines[::-1]), -1.0, 1.0))
    return np.where(small, by_sine, by_cosine)


@_either
def orthogonal_procrustes(
    A: ArrayLike, B: ArrayLike, check_finite: bool = True
) -> tuple[Value, Value]:
    """The unitary r that makes a r nearest to b, and the sum of the singular values of a^H b."""
    x, y = linear_operands(A, B)
    u, s, vh = dc.svd(mx.adjoint(mx.adjoint(y) @ x))
    return u @ vh, np.sum(s)


# --- functions of matrices


@_either
def fractional_matrix_power(A: ArrayLike, t: float) -> Value:
    """A to a real power, as exp(t log A); t is a constant."""
    log = mf.matrix_function("logm", matrices(A, square=True))
    return mf.matrix_function("expm", t * log)


@_either
def signm(A: ArrayLike, disp: object = None) -> Value:
    """The sign of a matrix without imaginary eigenvalues, as A (A^2)^(-1/2)."""
    x = matrices(A, square=True)
    return np.linalg.solve(mf.sqrtm(x @ x), x)


# --- equations of matrices


@_either
def solve_continuous_are(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Value:
    """x with a^H x + x a - x b r^-1 b^H x + q = 0, the one that stabilises."""
    _no_general("solve_continuous_are", e, s)
    a, b, q, r = linear_operands(a, b, q, r)
    start = _start("solve_continuous_are", a, b, q, r, balanced=balanced)

    def residual(x: Value) -> Value:
        gain = x @ b
        quadratic = gain @ np.linalg.solve(r, mx.adjoint(b) @ x)
        return mx.adjoint(a) @ x + x @ a - quadratic + q

    return implicit(residual, start)


@_either
def solve_discrete_are(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Value:
    """x with a^H x a - x - a^H x b (r + b^H x b)^-1 b^H x a + q = 0, the one that stabilises."""
    _no_general("solve_discrete_are", e, s)
    a, b, q, r = linear_operands(a, b, q, r)
    start = _start("solve_discrete_are", a, b, q, r, balanced=balanced)

    def residual(x: Value) -> Value:
        left = mx.adjoint(a) @ x
        inner = r + mx.adjoint(b) @ x @ b
        return left @ a - x - left @ b @ np.linalg.solve(inner, mx.adjoint(b) @ x @ a) + q

    return implicit(residual, start)


def _no_general(name: str, e: object, s: object) -> None:
    if e is not None or s is not None:
        what = f"scipy.linalg.{name} with e or s"
        raise refusal(what, "it has no traced form.", f"{name}(a, b, q, r)")


def _start(name: str, *operands: Value, **options: PyTree) -> Value:
    if operands[0].dtype.kind == "c":
        what = f"scipy.linalg.{name} of complex matrices"
        raise refusal(what, "it has no traced form.", "the system of real and imaginary parts")
    like = Aval(operands[2].shape, operands[2].dtype)
    return _called(name, (like,), *[stop_gradient(x) for x in operands], **options)[0]


# --- matrices of known form


@_either
def khatri_rao(a: ArrayLike, b: ArrayLike) -> Value:
    """The products of Kronecker of the columns of two matrices."""
    x, y = as_operand(a), as_operand(b)
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[1] != y.shape[1]:
        raise ValueError("The number of columns for both arrays should be equal.")
    return np.reshape(x[:, None, :] * y[None, :, :], (-1, x.shape[1]))


@_either
def solve_circulant(
    c: ArrayLike,
    b: ArrayLike,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Value:
    """x with circulant(c) x = b, by Fourier's transform; c is a vector."""
    if singular != "raise" or tol is not None or (caxis, baxis, outaxis) != (-1, 0, 0):
        what = "scipy.linalg.solve_circulant with singular, tol or axes"
        raise refusal(what, "it has no traced form.", "solve_circulant(c, b)")
    x, y = linear_operands(c, b)
    if len(x.shape) != 1:
        raise refusal("scipy.linalg.solve_circulant of stacks", "c is a vector.", "fgrad.vmap")
    spectrum = np.fft.fft(x)
    spectrum = spectrum if len(y.shape) == 1 else spectrum[:, None]
    found = np.fft.ifft(np.fft.fft(y, axis=0) / spectrum, axis=0)
    return found if "c" in (x.dtype.kind, y.dtype.kind) else np.real(found)


@_either
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Value:
    """The matrix of the convolution of vectors of n numbers with a."""
    x = vector("convolution_matrix", a)
    m = x.shape[0]
    if n <= 0 or m == 0:
        raise ValueError("n must be a positive integer.")
    rows = np.arange(m + n - 1)[:, None] - np.arange(n)
    inside = (rows >= 0) & (rows < m)
    whole = np.where(inside, x[np.where(inside, rows, 0)], np.zeros((), x.dtype))
    if mode == "full":
        return whole
    if mode == "same":
        first = (min(n, m) - 1) // 2
        return whole[first : first + max(n, m)]
    if mode == "valid":
        first = min(n, m) - 1
        return whole[first : first + max(n, m) - min(n, m) + 1]
    raise ValueError("'mode' argument must be one of ('full', 'valid', 'same')")


@_either
def leslie(f: ArrayLike, s: ArrayLike) -> Value:
    """The matrix of Leslie of fecundities and survivals."""
    births, lives = vector("leslie", f), vector("leslie", s)
    if births.shape[0] != lives.shape[0] + 1:
        raise ValueError("The length of s must be one less than the length of f.")
    below = np.concatenate([np.diag(lives), np.zeros((lives.shape[0], 1), lives.dtype)], axis=1)
    return np.concatenate([births[None], below], axis=0)


@_either
def fiedler(a: ArrayLike) -> Value:
    """The matrix of the distances of numbers to each other."""
    x = vector("fiedler", a)
    return np.abs(x[:, None] - x[None, :])


@_either
def diagsvd(s: ArrayLike, M: int, N: int) -> Value:
    """The matrix of the singular values, of a shape."""
    x = vector("diagsvd", s)
    if x.shape[0] not in (M, N):
        raise ValueError("Length of s must be M or N.")
    square = np.diag(x)
    if x.shape[0] == M:
        return np.concatenate([square, np.zeros((M, N - M), x.dtype)], axis=1)
    return np.concatenate([square, np.zeros((M - N, N), x.dtype)], axis=0)
