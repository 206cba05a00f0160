"""np.linalg and scipy.linalg on traced arrays: NumPy's values, derivatives, compiled code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import fgrad
import fgrad.numpy
import fgrad.scipy.linalg as sla
from fgrad.errors import UnsupportedNumpyError
from fgrad.ir.aval import aval_of
from fgrad.testing import check_grads
from fgrad.trace import run, trace

L = np.linalg
RNG = np.random.default_rng(7)
A = RNG.standard_normal((4, 4))
B = RNG.standard_normal((4, 2))
V = RNG.standard_normal(4)
P = A @ A.T + np.eye(4)
TALL = RNG.standard_normal((5, 3))
WIDE = TALL.T.copy()
FIRST = np.array([9.0, 0.0, 0.0, 0.0])
STACK = RNG.standard_normal((2, 3, 4, 4))

Case = tuple[Callable[..., Any], tuple[Any, ...]]

NUMPY: dict[str, Case] = {
    "solve.vector": (L.solve, (A, V)),
    "solve.matrix": (L.solve, (A, B)),
    "solve.stack": (L.solve, (STACK, B)),
    "solve.shared": (L.solve, (A, STACK)),
    "inv": (L.inv, (STACK,)),
    "det": (L.det, (STACK,)),
    "slogdet": (lambda a: L.slogdet(a).logabsdet, (STACK,)),
    "cholesky": (L.cholesky, (P,)),
    "cholesky.upper": (lambda a: L.cholesky(a, upper=True), (P,)),
    "qr": (lambda a: tuple(L.qr(a)), (TALL,)),
    "qr.wide": (lambda a: tuple(L.qr(a)), (WIDE,)),
    "qr.r": (lambda a: L.qr(a, "r"), (TALL,)),
    "qr.complete": (lambda a: L.qr(a, mode="complete").R, (TALL,)),
    "svd": (lambda a: tuple(L.svd(a)), (A,)),
    "svd.thin": (lambda a: tuple(L.svd(a, full_matrices=False)), (TALL,)),
    "svd.values": (lambda a: L.svd(a, compute_uv=False), (WIDE,)),
    "svdvals": (L.svdvals, (TALL,)),
    "eigh": (lambda a: tuple(L.eigh(a)), (P,)),
    "eigh.upper": (lambda a: L.eigh(a, UPLO="U").eigenvalues, (A,)),
    "eigvalsh": (L.eigvalsh, (P,)),
    "pinv": (L.pinv, (TALL,)),
    "pinv.hermitian": (lambda a: L.pinv(a, hermitian=True), (P,)),
    "pinv.rtol": (lambda a: L.pinv(a, rtol=1e-10), (WIDE,)),
    "lstsq": (lambda a, b: L.lstsq(a, b)[:2], (TALL, RNG.standard_normal(5))),
    "lstsq.many": (lambda a, b: L.lstsq(a, b)[:2], (TALL, RNG.standard_normal((5, 2)))),
    "lstsq.wide": (lambda a, b: L.lstsq(a, b)[0], (WIDE, RNG.standard_normal(3))),
    "cond": (L.cond, (A,)),
    "cond.-2": (lambda a: L.cond(a, -2), (A,)),
    "cond.1": (lambda a: L.cond(a, 1), (A,)),
    "cond.fro": (lambda a: L.cond(a, "fro"), (STACK,)),
    "norm": (L.norm, (A,)),
    "norm.nuclear": (lambda a: L.norm(a, "nuc"), (TALL,)),
    "norm.2": (lambda a: L.norm(a, 2, axis=(0, 1)), (STACK[0],)),
    "norm.-2": (lambda a: L.norm(a, -2, axis=(-2, -1), keepdims=True), (STACK,)),
    "matrix_norm": (lambda a: L.matrix_norm(a, ord=2), (STACK,)),
    "vector_norm": (lambda a: L.vector_norm(a, axis=1, ord=3), (TALL,)),
    "matrix_power.-2": (lambda a: L.matrix_power(a, -2), (A,)),
    "multi_dot": (lambda a, b: L.multi_dot([a, b, a.T]), (TALL, A[:3, :3])),
    "tensorsolve": (L.tensorsolve, (A.reshape(2, 2, 4), B[:, 0].reshape(2, 2))),
    "tensorinv": (lambda a: L.tensorinv(a, 1), (A.reshape(4, 2, 2),)),
    "trace": (L.trace, (STACK,)),
    "trace.offset": (lambda a: L.trace(a, offset=1), (STACK,)),
    "diagonal": (lambda a: L.diagonal(a, offset=-1), (STACK,)),
    "outer": (L.outer, (V, V[:3])),
    "cross": (L.cross, (TALL, TALL[::-1])),
    "vecdot": (L.vecdot, (A, B.T.repeat(2, 0))),
    "matmul": (L.matmul, (A, B)),
    "matrix_transpose": (L.matrix_transpose, (STACK,)),
}

SCIPY: dict[str, Case] = {
    "solve_triangular": (lambda a, b: sla.solve_triangular(a, b, lower=True), (P, V)),
    "solve_triangular.T": (lambda a, b: sla.solve_triangular(a, b, trans="T"), (P, B)),
    "solve_triangular.unit": (
        lambda a, b: sla.solve_triangular(a, b, trans=1, lower=True, unit_diagonal=True),
        (P, B),
    ),
    "cholesky": (sla.cholesky, (P,)),
    "cho_solve": (lambda a, b: sla.cho_solve(sla.cho_factor(a), b), (P, V)),
    "cho_solve.lower": (lambda a, b: sla.cho_solve(sla.cho_factor(a, lower=True), b), (P, B)),
    "lu": (lambda a: sla.lu(a)[1:], (A,)),
    "lu.tall": (lambda a: sla.lu(a)[1:], (TALL,)),
    "lu.wide": (lambda a: sla.lu(a)[1:], (WIDE,)),
    "lu.permuted": (lambda a: sla.lu(a, permute_l=True), (TALL,)),
    "lu_factor": (lambda a: sla.lu_factor(a)[0], (A,)),
    "lu_solve": (lambda a, b: sla.lu_solve(sla.lu_factor(a), b), (A, V)),
    "lu_solve.T": (lambda a, b: sla.lu_solve(sla.lu_factor(a), b, trans=1), (A, B)),
    "solve.pos": (lambda a, b: sla.solve(a, b, assume_a="pos"), (P, V)),
    "inv": (sla.inv, (A,)),
    "det": (sla.det, (A,)),
    "norm": (sla.norm, (A,)),
    "qr": (lambda a: sla.qr(a, mode="economic"), (TALL,)),
    "svd": (lambda a: sla.svd(a, full_matrices=False), (TALL,)),
    "svdvals": (sla.svdvals, (TALL,)),
    "eigh": (lambda a: sla.eigh(a)[0], (P,)),
    "eigh.pencil": (lambda a, b: sla.eigh(a, b)[0], (A, P)),
    "eigvalsh": (sla.eigvalsh, (P,)),
    "pinv": (sla.pinv, (TALL,)),
    "expm": (sla.expm, (A,)),
    "logm": (sla.logm, (P,)),
    "cosm": (sla.cosm, (A,)),
    "sinm": (sla.sinm, (A,)),
    "tanm": (sla.tanm, (A / 4,)),
    "coshm": (sla.coshm, (A,)),
    "sinhm": (sla.sinhm, (A,)),
    "tanhm": (sla.tanhm, (A / 4,)),
    "expm_frechet": (sla.expm_frechet, (A, P)),
    "sqrtm": (sla.sqrtm, (P,)),
    "solve_sylvester": (sla.solve_sylvester, (P, P, A)),
    "lyapunov": (sla.solve_continuous_lyapunov, (P, A)),
    "lyapunov.discrete": (sla.solve_discrete_lyapunov, (A / 8, A)),
    "polar": (sla.polar, (TALL,)),
    "polar.left": (lambda a: sla.polar(a, "left"), (WIDE,)),
    "lstsq": (lambda a, b: sla.lstsq(a, b)[0], (TALL, RNG.standard_normal(5))),
    "hankel": (sla.hankel, (V,)),
    "hankel.row": (sla.hankel, (V, V[:3] * 2)),
    "circulant": (sla.circulant, (V,)),
    "companion": (sla.companion, (V,)),
    "solve_toeplitz": (lambda c, b: sla.solve_toeplitz(c, b), (V + FIRST, V)),
    "solve_toeplitz.row": (
        lambda c, r, b: sla.solve_toeplitz((c, r), b),
        (V + FIRST, V, B),
    ),
    "block_diag": (lambda a, b: sla.block_diag(a, b, 2.0), (A, V)),
    "toeplitz": (sla.toeplitz, (V,)),
    "toeplitz.row": (lambda c, r: sla.toeplitz(c, r), (V, V[:3])),
}

CASES = {**{f"np.{k}": v for k, v in NUMPY.items()}, **{f"scipy.{k}": v for k, v in SCIPY.items()}}


def _leaves(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    """Traced and compiled, a function agrees with itself on plain arrays: NumPy and SciPy."""
    fun, args = CASES[name]
    expected = [np.asarray(x) for x in _leaves(fun(*args))]
    program = trace(lambda *xs: _leaves(fun(*xs)), [aval_of(x) for x in args]).program
    for got in (run(program, args), _leaves(fgrad.jit(fun)(*args))):
        for x, y in zip(got, expected, strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    fun, args = CASES[name]
    check_grads(lambda *xs: tuple(_leaves(fun(*xs))), args, order=2)


def test_lower_precision() -> None:
    for fun in (L.inv, L.cholesky, L.eigvalsh, L.det, L.cond, lambda a: L.qr(a).R, sla.expm):
        got, expected = fgrad.jit(fun)(P.astype("f")), fun(P.astype("f"))
        assert got.dtype == expected.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", ["f", "d", "F", "D"])
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_singular_values_of_infinite_matrices_are_an_error(kind: str, wrong: float) -> None:
    """LAPACK's search for them, and so NumPy, does not end."""
    a = np.ones((5, 4), kind) + np.eye(5, 4, dtype=kind)
    a[1, 2] = wrong
    for fun in (L.svd, L.pinv, lambda a: L.lstsq(a, np.ones(5, a.dtype)), sla.polar):
        for form in (fgrad.jit(fun), lambda a, fun=fun: fgrad.vjp(fun, a)):
            with pytest.raises((np.linalg.LinAlgError, ValueError)):
                form(a)


def test_integers_become_floats() -> None:
    assert fgrad.jit(L.inv)(np.array([[2, 1], [1, 1]])).dtype == np.float64
    with pytest.raises(TypeError, match="float16"):
        fgrad.jit(L.inv)(np.eye(2, dtype=np.float16))


def test_named_results() -> None:
    value = fgrad.grad(lambda a: L.eigh(a).eigenvalues[0] + L.svd(a).S[0] + L.qr(a).R[0, 0])(P)
    assert value.shape == (4, 4)


def test_ranks() -> None:
    low = TALL[:, :1] @ TALL[:1, :]
    for x in (A, low, np.zeros((3, 3)), np.ones(3), STACK):
        assert np.all(fgrad.jit(L.matrix_rank)(x) == L.matrix_rank(x))
    assert fgrad.jit(lambda a: L.matrix_rank(a, 1e3))(A) == 0
    x, residuals, rank, values = fgrad.jit(lambda a, b: L.lstsq(a, b))(TALL, np.ones(5))
    assert rank == 3 and residuals.shape == (1,) and values.shape == x.shape == (3,)


def test_eigenvalues_are_complex() -> None:
    got = fgrad.jit(L.eigvals)(P)
    assert got.dtype == np.complex128
    np.testing.assert_allclose(np.sort(got.real), L.eigvalsh(P))
    slope = fgrad.grad(lambda a: np.real(np.sum(L.eigvals(a) ** 3)))(A)
    np.testing.assert_allclose(slope, 3 * (A @ A).T, atol=1e-10)
    w, v = fgrad.jit(lambda a: tuple(L.eig(a)))(A)
    np.testing.assert_allclose(A @ v, v * w, atol=1e-12)


def test_vmap() -> None:
    for fun in (L.inv, L.cholesky, lambda a: L.slogdet(a).logabsdet, sla.expm):
        stack = np.stack([P, 2 * P])
        np.testing.assert_allclose(fgrad.vmap(fun)(stack), np.stack([fun(x) for x in stack]))
    out = fgrad.vmap(L.solve, in_axes=(None, 1))(A, B)
    np.testing.assert_allclose(out, L.solve(A, B).T)


def test_norm_has_slope_zero_at_zero() -> None:
    for order in (None, 2, "nuc", "fro"):
        slope = fgrad.grad(lambda a, order=order: L.norm(a, order))(np.zeros((2, 2)))
        if order != "nuc":
            assert np.isfinite(slope).all()
    assert not fgrad.grad(L.norm)(np.zeros(3)).any()


def test_errors_are_those_of_numpy() -> None:
    for fun, args in (
        (L.inv, (TALL,)),
        (L.inv, (V,)),
        (L.inv, (np.zeros((2, 2)),)),
        (L.cholesky, (-P,)),
        (L.tensorsolve, (A.reshape(2, 8), V[:2])),
    ):
        for form in (fun, fgrad.jit(fun), lambda *xs, fun=fun: fgrad.jvp(fun, xs, xs)):
            with pytest.raises(np.linalg.LinAlgError):
                form(*args)
    with pytest.raises(ValueError):
        fgrad.jit(L.solve)(A, V[:3])


@pytest.mark.parametrize("name", ["null_space", "orth", "bandwidth", "ishermitian"])
def test_what_has_no_traced_form_says_so(name: str) -> None:
    fun = getattr(sla, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, expected = fun(P), getattr(scipy.linalg, name)(P)
    for x, y in zip(_leaves(plain), _leaves(expected), strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(UnsupportedNumpyError, match=name):
        fgrad.jit(fun)(P)


COMPOSED: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda a, b: L.solve(a, b).sum() ** 2,
    "cholesky": lambda a, b: (L.cholesky(a) @ b).sum() ** 3,
    "eigh": lambda a, b: (L.eigh(a).eigenvectors ** 4 @ b).sum(),
    "qr": lambda a, b: (L.qr(a).Q @ b).sum(),
    "slogdet": lambda a, b: L.slogdet(a).logabsdet * b.sum(),
    "expm": lambda a, b: (sla.expm(a / 5) @ b).sum(),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_transforms_compose(name: str) -> None:
    """Whatever the order of grad, vmap and jit, the gradients of a stack are the same."""
    f = COMPOSED[name]
    a = STACK[0] @ STACK[0].transpose(0, 2, 1) + np.eye(4)
    b = STACK[0, :, 0]
    expected = np.stack([fgrad.grad(f)(x, y) for x, y in zip(a, b, strict=True)])
    forms = [
        fgrad.vmap(fgrad.grad(f)),
        fgrad.jit(fgrad.vmap(fgrad.grad(f))),
        fgrad.vmap(fgrad.jit(fgrad.grad(f))),
        fgrad.vmap(fgrad.grad(fgrad.jit(f))),
        fgrad.grad(lambda a, b: fgrad.vmap(f)(a, b).sum()),
        fgrad.jit(fgrad.grad(lambda a, b: fgrad.vmap(f)(a, b).sum())),
        fgrad.vmap(fgrad.jacfwd(f)),
    ]
    for form in forms:
        np.testing.assert_allclose(form(a, b), expected, rtol=1e-8, atol=1e-10)
    slopes = fgrad.jit(fgrad.hessian(f))(a[0], b[0])
    np.testing.assert_allclose(
        slopes, fgrad.jacrev(fgrad.grad(f))(a[0], b[0]), rtol=1e-7, atol=1e-9
    )
