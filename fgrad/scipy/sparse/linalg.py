"""L7. `scipy.sparse.linalg` with derivatives: linear systems solved by products alone, or directly.

    import fgrad.scipy.sparse.linalg as ssl
    fgrad.grad(lambda p: ssl.cg(lambda x: p * x, b)[0].sum())(2.0)

The matrix may be an array, a sparse matrix of SciPy or of `fgrad.sparse.csr`, a `LinearOperator`,
or a function that is linear; then the right-hand side may be a pytree.  What is traced is solved by
the same iterations, under `jit` and `vmap` too, and differentiated by the system: A dx = db - dA x,
and reverse with the transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

import fgrad.numpy as fnp
from fgrad import lax
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import lazy_module, names_shown
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress, Told
from fgrad.errors import ArgumentError
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import user_line
from fgrad.ops.complex import conj
from fgrad.scipy._either import others, refusal
from fgrad.scipy._told import counting, steps_of, told_loop
from fgrad.scipy.sparse._direct import factorized as factorized
from fgrad.scipy.sparse._direct import splu as splu
from fgrad.scipy.sparse._direct import spsolve as spsolve
from fgrad.scipy.sparse._direct import spsolve_triangular as spsolve_triangular
from fgrad.scipy.sparse._functions import expm as expm
from fgrad.scipy.sparse._functions import expm_multiply as expm_multiply
from fgrad.scipy.sparse._functions import funm_multiply_krylov as funm_multiply_krylov
from fgrad.scipy.sparse._functions import inv as inv
from fgrad.scipy.sparse._functions import matrix_power as matrix_power
from fgrad.scipy.sparse._functions import onenormest as onenormest
from fgrad.scipy.sparse._krylov import Matrix, System, needs_rules
from fgrad.scipy.sparse._krylov import bicg as bicg
from fgrad.scipy.sparse._krylov import cgs as cgs
from fgrad.scipy.sparse._krylov import gcrotmk as gcrotmk
from fgrad.scipy.sparse._krylov import lgmres as lgmres
from fgrad.scipy.sparse._krylov import lsmr as lsmr
from fgrad.scipy.sparse._krylov import lsqr as lsqr
from fgrad.scipy.sparse._krylov import minres as minres
from fgrad.scipy.sparse._krylov import qmr as qmr
from fgrad.scipy.sparse._krylov import tfqmr as tfqmr
from fgrad.scipy.sparse._operators import LinearOperator as LinearOperator
from fgrad.scipy.sparse._operators import Product
from fgrad.scipy.sparse._operators import aslinearoperator as aslinearoperator
from fgrad.scipy.sparse._spectra import eigs as eigs
from fgrad.scipy.sparse._spectra import eigsh as eigsh
from fgrad.scipy.sparse._spectra import lobpcg as lobpcg
from fgrad.scipy.sparse._spectra import norm as norm
from fgrad.scipy.sparse._spectra import svds as svds
from fgrad.trace import Value
from fgrad.transforms.custom.implicit import custom_linear_solve
from fgrad.typing import PyTree

plain = lazy_module("scipy.sparse.linalg")

__getattr__ = others(__name__, plain)

_RESTART = 20


class _Limits(NamedTuple):
    """When iterations end, the norm of the residual and their number, and what tells of them."""

    tolerance: Value
    most: int
    told: Told


class _Settings(NamedTuple):
    """The settings that the solvers share."""

    rtol: float
    atol: float
    maxiter: int | None
    restart: int
    told: Told


Iterations: TypeAlias = Callable[[Product, Product, Value, Value, _Limits, _Settings], PyTree]


def _solved(
    name: str, a: Matrix, b: PyTree, x0: PyTree, m: Matrix | None, by: _Settings, how: Iterations
) -> tuple[PyTree, Value]:
    """The solution by some iterations, with its derivatives, and how they ended."""
    _check(name, rtol=by.rtol, atol=by.atol, maxiter=by.maxiter)
    system = System(name, a, b, x0)
    matrix = system.matrix
    before = LinearOperator(matrix.shape, lambda x: x) if m is None else system.operator(m)
    most = 10 * system.size if by.maxiter is None else int(by.maxiter)

    def solver(start: Value, precondition: Product) -> Callable[[Product, Value], PyTree]:
        def solve(product: Product, y: Value) -> PyTree:
            norm = _norm(y)
            limits = _Limits(np.maximum(by.rtol * norm, by.atol).astype(norm.dtype), most, by.told)
            first = np.where(norm > 0, start, start * 0)
            return how(product, precondition, y, first, limits, by)

        return solve

    def back(product: Product, y: Value) -> PyTree:
        reverse = before if m is None else before.T
        return solver(system.guess * 0, reverse.matvec)(product, y)

    start = solver(system.guess, before.matvec)
    x, info = custom_linear_solve(matrix.matvec, system.right, start, back, has_aux=True)
    return system.of(x), info


def _dot(x: Value, y: Value) -> Value:
    return np.sum(conj(x) * y)


def _norm(x: Value) -> Value:
    return np.sqrt(np.sum((conj(x) * x).real))


def _repeated(
    step: Callable[..., PyTree], x: Value, r: Value, rest: PyTree, limits: _Limits
) -> tuple[Value, Value]:
    """The last x of `step`, which takes and gives (x, residual, broken, rest), and SciPy's code:
    0, the number of steps where they did not suffice, or -10 where a divisor vanished."""

    def going(state: PyTree) -> Value:
        (_x, r, broken, _rest), count = state
        open_ = np.logical_and(_norm(r) > limits.tolerance, count < limits.most)
        return np.logical_and(open_, np.logical_not(broken))

    start = ((x, r, np.bool_(False), rest), np.int64(0))
    (x, r, broken, _), count = told_loop(
        going, lambda s: (step(*s[0]), s[1] + 1), start, lambda s: s[1], limits.told
    )
    left = _norm(r)
    lost = np.logical_not(np.isfinite(left))
    failed = np.where(broken, -10, np.where(lost, limits.most, count))
    x = np.where(lost, np.full_like(x, np.nan), x)
    done = np.logical_and(left <= limits.tolerance, np.logical_not(lost))
    return x, np.where(done, 0, failed)[()]


def _conjugate_gradients(
    a: Product, m: Product, b: Value, x: Value, limits: _Limits, by: _Settings
) -> PyTree:
    """Hestenes and Stiefel 1952, with a preconditioner."""

    def step(x: Value, r: Value, broken: Value, rest: PyTree) -> PyTree:
        p, rho = rest
        q = a(p)
        alpha = _over(rho, _dot(p, q))
        x, r = x + alpha * p, r - alpha * q
        z = m(r)
        after = _dot(r, z)
        return x, r, broken, (z + _over(after, rho) * p, after)

    r = b - a(x)
    z = m(r)
    return _repeated(step, x, r, (z, _dot(r, z)), limits)


def _stabilised(
    a: Product, m: Product, b: Value, x: Value, limits: _Limits, by: _Settings
) -> PyTree:
    """BiCGSTAB (van der Vorst 1992); it ends where a divisor vanishes."""
    shadow = b - a(x)

    def step(x: Value, r: Value, broken: Value, rest: PyTree) -> PyTree:
        p, v, rho, alpha, omega = rest
        after = _dot(shadow, r)
        beta = _over(after, rho) * _over(alpha, omega)
        p = r + beta * (p - omega * v)
        p_hat = m(p)
        v = a(p_hat)
        below = _dot(shadow, v)
        stuck = np.logical_or(np.logical_or(after == 0, omega == 0), below == 0)
        alpha = _over(after, below)
        s = r - alpha * v
        s_hat = m(s)
        t = a(s_hat)
        omega = _over(_dot(t, s), _dot(t, t))
        new = (x + alpha * p_hat + omega * s_hat, s - omega * t)
        x, r = [np.where(stuck, old, moved) for old, moved in zip((x, r), new, strict=True)]
        return x, r, stuck, (p, v, after, alpha, omega)

    one = b.dtype.type(1)
    return _repeated(step, x, shadow, (x * 0, x * 0, one, one, one), limits)


def _over(x: Value, y: Value) -> Value:
    """x / y, and 0 where y is 0."""
    none = y == 0
    return np.where(none, x * 0, x / np.where(none, y + 1, y))


def _minimal_residuals(
    a: Product, m: Product, b: Value, x: Value, limits: _Limits, by: _Settings
) -> PyTree:
    """GMRES (Saad and Schultz 1986): the least residual in a space of `restart` dimensions, again
    and again."""
    size = b.shape[0]
    count = max(1, min(by.restart, size))

    def cycle(x: Value, r: Value, broken: Value, rest: PyTree) -> PyTree:
        norm = _norm(r)
        basis = fnp.zeros((count + 1, size), b.dtype)
        basis[0] = r / np.where(norm > 0, norm, 1)

        def grow(basis: Value, k: Value) -> tuple[Value, Value]:
            w = a(m(at(basis)[k].get()))
            long = _norm(w)
            column = conj(basis) @ w  # rows that are not made yet are 0
            w = w - column @ basis
            more = conj(basis) @ w
            w, column = w - more @ basis, column + more
            left = _norm(w)
            whole = left > np.finfo(b.dtype).eps * long
            w = np.where(whole, w / np.where(whole, left, 1), w * 0)
            column = at(column)[k + 1].set(np.where(whole, left, 0).astype(column.dtype))
            return at(basis)[k + 1].set(w), column

        basis, columns = lax.scan(grow, basis, np.arange(count))
        target = fnp.zeros(count + 1, b.dtype)
        target[0] = norm
        y = np.linalg.lstsq(columns.T, target)[0]
        x = x + m(y @ basis[:count])
        return x, b - a(x), broken, rest

    return _repeated(cycle, x, b - a(x), (), limits)


def _refuse(name: str, **given: object) -> None:
    for option, value in given.items():
        if value is not None:
            raise refusal(
                f"scipy.sparse.linalg.{name} with {option}",
                "the iterations are compiled, and call nothing between.",
                f"{name}(A, b, maxiter=n)    the solution after n iterations",
            )


def _check(name: str, **given: float | None) -> None:
    for what, value in given.items():
        if value is not None and value < 0:
            raise ArgumentError(f"scipy.sparse.linalg.{name}: {what}={value!r}.", user_line())


@also_takes(aliases={"tol": "rtol"})
def cg(
    A: Matrix,
    b: PyTree,
    x0: PyTree = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Matrix | None = None,
    callback: Callable[[Value], object] | None = None,
    progress: bool | Progress = False,
) -> tuple[PyTree, Value]:
    """x with A x = b for a Hermitian positive definite A, and 0 if the iterations converged.

    Arguments:
        A: an array, a sparse matrix of SciPy, or a linear function of pytrees like `b`.
        b: the right-hand side, a vector; a pytree if `A` is a function.
        x0: where to start.
        rtol, atol: the residual is at most max(rtol |b|, atol).
        maxiter: the most iterations, 10 for each unknown if None.
        M: an approximate inverse of `A`, of the same kinds.
        callback: as in SciPy, of plain arrays alone.
        progress: whether to tell on stderr how many steps were made, or a function of that number
            and None.

    Example:
        >>> cg(lambda x: 4.0 * x, np.array([2.0, 8.0]))
        (array([0.5, 2. ]), np.int64(0))
    """
    told = steps_of(progress, "cg")
    if not needs_rules(A, b, x0, M):
        with told:
            return plain.cg(
                A, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M,
                callback=counting(told, callback),
            )  # fmt: skip
    _refuse("cg", callback=callback)
    return _solved("cg", A, b, x0, M, _Settings(rtol, atol, maxiter, 0, told), _conjugate_gradients)


@also_takes(aliases={"tol": "rtol"})
def bicgstab(
    A: Matrix,
    b: PyTree,
    x0: PyTree = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Matrix | None = None,
    callback: Callable[[Value], object] | None = None,
    progress: bool | Progress = False,
) -> tuple[PyTree, Value]:
    """x with A x = b for any invertible A, and 0 if the iterations converged; see `cg`.

    Example:
        >>> x, info = bicgstab(lambda x: np.array([[2.0, 1.0], [0.0, 1.0]]) @ x, np.ones(2))
        >>> bool(np.allclose(x, [0.0, 1.0])), int(info)
        (True, 0)
    """
    told = steps_of(progress, "bicgstab")
    if not needs_rules(A, b, x0, M):
        with told:
            return plain.bicgstab(
                A, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M,
                callback=counting(told, callback),
            )  # fmt: skip
    _refuse("bicgstab", callback=callback)
    return _solved("bicgstab", A, b, x0, M, _Settings(rtol, atol, maxiter, 0, told), _stabilised)


@also_takes("solve_method", aliases={"tol": "rtol"})
def gmres(
    A: Matrix,
    b: PyTree,
    x0: PyTree = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Matrix | None = None,
    callback: Callable[[Value], object] | None = None,
    callback_type: str | None = None,
    progress: bool | Progress = False,
) -> tuple[PyTree, Value]:
    """x with A x = b for any invertible A, and 0 if the iterations converged; see `cg`.

    Arguments:
        restart: after how many products the space is made anew, 20 if None.
        maxiter: the most restarts.

    Example:
        >>> x, info = gmres(lambda x: np.array([[2.0, 1.0], [0.0, 1.0]]) @ x, np.ones(2))
        >>> bool(np.allclose(x, [0.0, 1.0])), int(info)
        (True, 0)
    """
    told = steps_of(progress, "gmres")
    if not needs_rules(A, b, x0, M):
        kind = "pr_norm" if progress and callback is None else callback_type
        with told:
            return plain.gmres(
                A, b, x0, rtol=rtol, atol=atol, restart=restart, maxiter=maxiter, M=M,
                callback=counting(told, callback), callback_type=kind,
            )  # fmt: skip
    _refuse("gmres", callback=callback, callback_type=callback_type)
    dimensions = _RESTART if restart is None else int(restart)
    return _solved(
        "gmres", A, b, x0, M, _Settings(rtol, atol, maxiter, dimensions, told), _minimal_residuals
    )


__dir__ = names_shown(__name__)
