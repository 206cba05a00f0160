"""L7. Functions of `scipy.linalg` whose results are bases, pairs of factors, or follow from them.

A basis of a space, and eigenvectors, are given up to rotations or phases: derivatives are right
for functions that do not depend on them, as those of `svd` and `eig` are.  What LAPACK computes
and has no derivative here (`qz`, `ordqz`, `cossin`, `rsf2csf`) is SciPy's own under `jit` and
`vmap`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.at_indexing import at
from fgrad.numpy.linalg_functions import linear_operands, matrices
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops import checked
from fgrad.ops import decompositions as dc
from fgrad.ops import matrices as mx
from fgrad.ops import matrix_functions as mf
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import check_choice, either, refusal
from fgrad.scipy._linalg_more import _plain_call, plain
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, P, PyTree, R


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _matrix(name: str, a: ArrayLike) -> Value:
    """One matrix; an error for a stack."""
    x = matrices(a)
    if len(x.shape) != 2:
        write = ("write", f"fgrad.vmap({name})    over the further axes")
        raise ShapeError(
            f"scipy.linalg.{name}: an array of shape {x.shape}.", (*user_line(), write)
        )
    return x


# --- bases of spaces


def _rank(name: str, values: Value, shape: tuple[int, ...], rcond: float | None) -> int:
    """How many singular values are not negligible, which must be known."""
    known = concrete(values)
    if known is None:
        why = "its shape depends on values, which are not known yet."
        raise refusal(f"scipy.linalg.{name} under jit or vmap", why, f"{name}(a) outside of jit")
    least = np.finfo(values.dtype).eps * max(shape) if rcond is None else rcond
    numbers = np.asarray(known)
    return int(np.sum(numbers > np.max(numbers, initial=0.0) * least))


@_either
def orth(A: ArrayLike, rcond: float | None = None) -> Value:
    """An orthonormal basis of the columns of a matrix, whose rank must be known while tracing.

    Example:
        >>> orth(np.array([[2.0, 2.0], [0.0, 0.0]])).shape
        (2, 1)
    """
    x = _matrix("orth", A)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    return u[:, : _rank("orth", s, x.shape, rcond)]


@_either
def null_space(
    A: ArrayLike,
    rcond: float | None = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Value:
    """An orthonormal basis of the vectors that a matrix takes to zero; its rank must be known
    while tracing, and derivatives are those at a constant rank.

    Example:
        >>> np.abs(null_space(np.array([[1.0, 0.0]])))
        array([[0.],
               [1.]])
    """
    x = _matrix("null_space", A)
    _, s, vh = np.linalg.svd(x, full_matrices=True)
    return mx.adjoint(vh[_rank("null_space", s, x.shape, rcond) :])


# --- eigenvectors


def _unit(v: Value) -> Value:
    """Columns of length one, whose greatest element is real."""
    size = np.sqrt(np.sum(np.real(v * np.conj(v)), axis=0))
    k = np.argmax(np.abs(stop_gradient(v)), axis=0)
    top = at(v)[k, np.arange(v.shape[1])].get()
    return v * (np.conj(top) / np.abs(top)) / size


def _as_listed(w: Value, a: Value, b: Value) -> Value:
    """In which order SciPy has the eigenvalues of the pencil."""

    def call(w: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left, order = [*range(w.size)], []
        for value in plain.eigvals(a, b):
            order.append(left.pop(int(np.argmin(np.abs(w[left] - value)))))
        return np.array(order, np.int64)

    like = Aval(w.shape, np.dtype(np.int64))
    return pure_callback(call, like, *[stop_gradient(x) for x in (w, a, b)])


@_either
def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> PyTree:
    """Eigenvalues, and left and right eigenvectors if wanted, complex; of the pencil a v = w b v
    for a regular b.

    Example:
        >>> eig(np.diag([1.0, 2.0]))[0]
        array([1.+0.j, 2.+0.j])
    """
    if homogeneous_eigvals:
        what = "scipy.linalg.eig with homogeneous_eigvals"
        raise refusal(what, "it has no traced form.", "eig(a, b)")
    x = _matrix("eig", a)
    y = None
    if b is not None:
        x, y = linear_operands(x, b)
    w, v = dc.eig(x if y is None else np.linalg.solve(y, x))
    if y is not None:
        order = _as_listed(w, x, y)
        w, v = w[order], v[:, order]
    vl = mx.adjoint(np.linalg.inv(v)) if left else None
    if vl is not None:
        vl = _unit(vl if y is None else np.linalg.solve(mx.adjoint(y).astype(vl.dtype), vl))
    found = [w, *([vl] if left else []), *([v] if right else [])]
    return tuple(found) if len(found) > 1 else w


@_either
def cdf2rdf(w: ArrayLike, v: ArrayLike) -> tuple[Value, Value]:
    """Real blocks, and a real basis, of eigenvalues of a real matrix and their eigenvectors; which
    of them are real must be known while tracing.

    Example:
        >>> cdf2rdf(np.array([1j, -1j]), np.array([[1.0, 1.0], [1j, -1j]]))[0] + 0
        array([[ 0.,  1.],
               [-1.,  0.]])
    """
    values, vectors = as_operand(w), as_operand(v)
    n = values.shape[-1] if values.shape else 0
    if vectors.shape != (*values.shape, n):
        raise ShapeError(
            f"scipy.linalg.cdf2rdf: eigenvalues {values.shape}, eigenvectors {vectors.shape}.",
            user_line(),
        )
    known = concrete(values)
    if known is None:
        why = "which eigenvalues are real depends on values, which are not known yet."
        raise refusal("scipy.linalg.cdf2rdf under jit or vmap", why, "cdf2rdf outside of jit")
    is_complex = np.imag(known) != 0
    if np.any(np.sum(is_complex, axis=-1) % 2):
        raise ValueError("expected complex-conjugate pairs of eigenvalues")
    *stack, places = np.nonzero(is_complex)
    j, k = [(*[s[i::2] for s in stack], places[i::2]) for i in (0, 1)]
    beside, turn = np.zeros(vectors.shape), np.zeros(vectors.shape, np.complex128)
    turn[..., range(n), range(n)] = 1
    beside[(*j, k[-1])] = beside[(*k, j[-1])] = 1
    turn[(*j, j[-1])], turn[(*j, k[-1])] = 0.5j, 0.5
    turn[(*k, j[-1])], turn[(*k, k[-1])] = -0.5j, 0.5
    real, imag = np.real(values)[..., None], np.imag(values)[..., None]
    inner = real * np.eye(n, dtype=real.dtype) + imag * beside.astype(real.dtype)
    return inner, np.real(vectors @ turn)


# --- functions of matrices


def _no_equal_ones(w: Value, eps: float) -> None:
    """Refuse equal eigenvalues, at which derivatives of eigenvectors leave out a part of that of a
    function of the matrix."""
    why, write = "its eigenvalues are equal.", "expm(a), logm(a) or sqrtm(a)"
    card = refusal("scipy.linalg.funm of such a matrix", why, write)
    size = np.max(np.abs(w))
    apart = np.min(np.abs(w[:, None] - w) + np.eye(w.shape[0]) * size) > 100 * eps * size
    known = concrete(apart)
    if known is None:
        checked.require(apart, checked.text_of(card))
    elif not known:
        raise card


@_either
def funm(A: ArrayLike, func: Callable[[Value], Value], disp: object = True) -> Value:
    """A function of a matrix whose eigenvalues differ, in its own dtype: NaN for a real one whose
    result is complex.  The function takes a vector of complex eigenvalues.

    Example:
        >>> funm(np.array([[1.0, 3.0], [1.0, 4.0]]), lambda w: w * w)
        array([[ 4., 15.],
               [ 5., 19.]])
    """
    if disp is not True:
        raise refusal("scipy.linalg.funm with disp", "the error is not estimated.", "funm(A, f)")
    x = _matrix("funm", A)
    w, v = dc.eig(x)
    if x.shape[0] > 1:  # the derivative of eigenvectors leaves out what equal ones would add
        _no_equal_ones(w, np.finfo(x.dtype).eps)
    found = (v * user_form(func)(w)) @ np.linalg.inv(v)
    if x.dtype.kind == "c":
        return found.astype(x.dtype)
    large = np.max(np.abs(np.imag(found))) > 1e6 * np.finfo(x.dtype).eps * np.max(np.abs(found))
    return np.where(large, np.nan, np.real(found)).astype(x.dtype)


@_either
def expm_cond(A: ArrayLike, check_finite: bool = True) -> Value:
    """How much larger a relative change of the exponential may be than that of the matrix.

    Example:
        >>> float(expm_cond(np.zeros((2, 2))))
        0.0
    """
    x = _matrix("expm_cond", A)
    n = x.shape[0]
    basis = np.reshape(np.eye(n * n, dtype=x.dtype), (n * n, n, n))
    slopes = mf.frechet("expm", np.broadcast_to(x, basis.shape), basis)
    most: Value = np.linalg.norm(np.reshape(slopes, (n * n, n * n)), 2)  # type: ignore[assignment]
    return most * np.linalg.norm(x) / np.linalg.norm(mf.matrix_function("expm", x))


@_either
def matrix_balance(
    A: ArrayLike,
    permute: bool = True,
    scale: bool = True,
    separate: bool = False,
    overwrite_a: bool = False,
) -> tuple[Value, PyTree]:
    """The matrix after exchanges and scales by powers of two that make its rows and columns alike,
    and these; which do not change with small changes of the matrix.

    Example:
        >>> matrix_balance(np.array([[1.0, 1024.0], [1.0, 1.0]]))[0]
        array([[ 1., 32.],
               [32.,  1.]])
    """
    x = _matrix("matrix_balance", A)
    n = x.shape[0]
    real = np.real(x).dtype

    def call(a: np.ndarray) -> tuple[np.ndarray, ...]:
        whole = plain.matrix_balance(a, permute, scale)[1].real
        factors, order = plain.matrix_balance(a, permute, scale, separate=True)[1]
        inverse = np.where(whole != 0, 1 / np.where(whole != 0, whole, 1), 0).T
        return tuple([
            np.asarray(part, kind)
            for part, kind in ((whole, real), (inverse, real), (factors, real), (order, np.int64))
        ])  # fmt: skip

    like = Aval((n, n), real), Aval((n, n), real), Aval((n,), real), Aval((n,), np.dtype(np.int64))
    whole, inverse, factors, order = pure_callback(call, like, stop_gradient(x))
    found = (inverse @ x @ whole).astype(x.dtype)
    return found, ((factors, order) if separate else whole.astype(x.dtype))


@_either
def fiedler_companion(a: ArrayLike) -> Value:
    """The matrix with five diagonals whose eigenvalues are the roots of a polynomial.

    Example:
        >>> fiedler_companion(np.array([1.0, -3.0, 2.0]))
        array([[ 3., -2.],
               [ 1.,  0.]])
    """
    given = np.atleast_1d(inexact(as_operand(a)))
    if len(given.shape) != 1:
        raise ShapeError(f"scipy.linalg.fiedler_companion: shape {given.shape}.", user_line())
    n = given.shape[0]
    places = -plain.fiedler_companion(np.concatenate([[1.0], np.arange(2.0, n + 1)]))
    of_data = places > 0  # the others are 0 and -1
    monic = given / given[:1]
    picked = -monic[np.where(of_data, places - 1, 0).astype(np.int64)]
    return np.where(of_data, picked, -places.astype(monic.dtype))


# --- factors of a matrix after a change


def _refactored(
    name: str, changed: Value, q: Value, given: tuple[Value, ...], **options: PyTree
) -> tuple[Value, Value]:
    """The factors that SciPy's update finds, of the changed matrix: its own factors, turned so that
    they are SciPy's."""
    m, n = changed.shape
    whole = q.shape[0] == q.shape[1]
    unitary, upper = dc.qr(changed, whole and m > n)
    shape = Aval(unitary.shape, unitary.dtype)

    def call(*plain_args: np.ndarray) -> np.ndarray:
        return np.asarray(getattr(plain, name)(*plain_args, **options)[0], unitary.dtype)

    theirs = pure_callback(call, shape, *[stop_gradient(x) for x in given])
    turn = mx.adjoint(stop_gradient(unitary)) @ theirs
    return unitary @ turn, mx.adjoint(turn) @ upper


@_either
def qr_delete(
    Q: ArrayLike,
    R: ArrayLike,
    k: int,
    p: int = 1,
    which: str = "row",
    overwrite_qr: bool = False,
    check_finite: bool = True,
) -> tuple[Value, Value]:
    """The factors of Q R without p rows or columns from the k-th on, of a matrix of full rank.

    Example:
        >>> q, r = qr_delete(np.eye(2), np.eye(2), 0)
        >>> np.abs(q @ r)
        array([[0., 1.]])
    """
    check_choice("qr_delete", "which", which, ("row", "col"))
    q, r = linear_operands(Q, np.triu(as_operand(R)))
    axis = 0 if which == "row" else 1
    size = (q.shape[0], r.shape[1])[axis]
    if not -size <= k <= size - p or p < 1:
        raise ValueError("'k' must reference a row or column and 'p' must be in range")
    first = k % size
    kept = np.delete(np.arange(size), np.s_[first : first + p])
    changed = np.take(q @ r, kept, axis=axis)
    return _refactored("qr_delete", changed, q, (q, r), k=k, p=p, which=which)


@_either
def qr_insert(
    Q: ArrayLike,
    R: ArrayLike,
    u: ArrayLike,
    k: int,
    which: str = "row",
    rcond: float | None = None,
    overwrite_qru: bool = False,
    check_finite: bool = True,
) -> tuple[Value, Value]:
    """The factors of Q R with rows or columns u before the k-th, of a matrix of full rank.

    Example:
        >>> q, r = qr_insert(np.eye(2), np.eye(2), np.array([3.0, 4.0]), 0)
        >>> (q @ r).round(9)[0]
        array([3., 4.])
    """
    check_choice("qr_insert", "which", which, ("row", "col"))
    if rcond is not None:
        raise refusal("scipy.linalg.qr_insert with rcond", "it has no traced form.", "no rcond")
    q, r, new = linear_operands(Q, np.triu(as_operand(R)), u)
    axis = 0 if which == "row" else 1
    old = q @ r
    if not -old.shape[axis] <= k <= old.shape[axis]:
        raise ValueError(f"'k' is not a valid index: {k}")
    first = k % old.shape[axis] if k < 0 else k
    rows = np.expand_dims(new, axis) if len(new.shape) == 1 else new
    head, tail = np.split(old, [first], axis=axis)
    changed = np.concatenate([head, rows, tail], axis=axis)
    return _refactored("qr_insert", changed, q, (q, r, new), k=k, which=which)


@_either
def qr_update(
    Q: ArrayLike,
    R: ArrayLike,
    u: ArrayLike,
    v: ArrayLike,
    overwrite_qruv: bool = False,
    check_finite: bool = True,
) -> tuple[Value, Value]:
    """The factors of Q R + u v^H, of full rank.

    Example:
        >>> q, r = qr_update(np.eye(2), np.eye(2), np.ones(2), np.ones(2))
        >>> (q @ r).round(9)
        array([[2., 1.],
               [1., 2.]])
    """
    q, r, left, right = linear_operands(Q, np.triu(as_operand(R)), u, v)
    columns = [x[:, None] if len(x.shape) == 1 else x for x in (left, right)]
    changed = q @ r + columns[0] @ mx.adjoint(columns[1])
    return _refactored("qr_update", changed, q, (q, r, left, right))


# --- factors without a derivative


@_either
def qz(
    A: ArrayLike,
    B: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    sort: object = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> tuple[Value, Value, Value, Value]:
    """aa, bb, q and z with a = q aa z^H and b = q bb z^H; without derivative.

    Example:
        >>> qz(np.eye(1), 2 * np.eye(1))[1]
        array([[2.]])
    """
    x, like = _pencil(A, B, output)
    if sort is not None:
        raise refusal("scipy.linalg.qz with sort", "SciPy's has none either.", "ordqz(A, B, sort)")
    return _plain_call("qz", (like,) * 4, *x, output=output)


def _pencil(a: ArrayLike, b: ArrayLike, output: str) -> tuple[list[Value], Aval]:
    check_choice("qz", "output", output, ("real", "complex", "r", "c"))
    pair = linear_operands(a, b)
    x = matrices(pair[0], square=True)
    is_complex = output in ("complex", "c") or x.dtype.kind == "c"
    dtype = np.result_type(x.dtype, np.complex64) if is_complex else x.dtype
    return [x, pair[1]], Aval(x.shape, dtype)


@_either
def ordqz(
    A: ArrayLike,
    B: ArrayLike,
    sort: str | Callable[..., PyTree] = "lhp",
    output: str = "real",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> tuple[Value, ...]:
    """aa, bb, alpha, beta, q and z as of `qz`, with some eigenvalues first; without derivative.

    Example:
        >>> ordqz(np.eye(1), 2 * np.eye(1))[1]
        array([[2.]])
    """
    x, like = _pencil(A, B, output)
    values = Aval(like.shape[-1:], np.result_type(like.dtype, np.complex64))
    scales = Aval(like.shape[-1:], like.dtype)
    outs = (like, like, values, scales, like, like)
    return _plain_call("ordqz", outs, *x, sort=sort, output=output)


@_either
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Value, Value]:
    """The complex form of Schur of a real one; without derivative.

    Example:
        >>> rsf2csf(np.diag([1.0, 2.0]), np.eye(2))[0].real
        array([[1., 0.],
               [0., 2.]])
    """
    t, z = linear_operands(T, Z)
    like = Aval(matrices(t, square=True).shape, np.result_type(t.dtype, np.complex64))
    return _plain_call("rsf2csf", (like, like), t, z)


@_either
def cossin(
    X: ArrayLike,
    p: int | None = None,
    q: int | None = None,
    separate: bool = False,
    swap_sign: bool = False,
    compute_u: bool = True,
    compute_vh: bool = True,
) -> tuple[PyTree, ...]:
    """The factors of a unitary matrix by cosines and sines of angles; without derivative.

    Example:
        >>> cossin(np.eye(2), 1, 1)[1] + 0
        array([[1., 0.],
               [0., 1.]])
    """
    if not (compute_u and compute_vh) or isinstance(X, (tuple, list)):
        what = "scipy.linalg.cossin of blocks, or of the angles alone"
        raise refusal(what, "it has no traced form.", "cossin(X, p, q)")
    x = matrices(X, square=True)
    m, p, q = x.shape[0], p or 0, q or 0
    if not (1 <= p < m and 1 <= q < m):
        raise ValueError(f"invalid p={p} or q={q}: 0 < p, q < {m} must hold")
    if not separate:
        like = Aval(x.shape, x.dtype)
        cosines = Aval(x.shape, np.real(x).dtype)
        return _plain_call("cossin", (like, cosines, like), x, p=p, q=q, swap_sign=swap_sign)
    sizes = [Aval((k, k), x.dtype) for k in (p, m - p, q, m - q)]
    angles = Aval((min(p, m - p, q, m - q),), np.real(x).dtype)
    likes, given = (*sizes[:2], angles, *sizes[2:]), {"separate": True, "swap_sign": swap_sign}
    u1, u2, theta, v1, v2 = _plain_call("cossin", likes, x, p=p, q=q, **given)
    return (u1, u2), theta, (v1, v2)
