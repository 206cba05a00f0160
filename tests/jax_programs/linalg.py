"""Products, factorisations, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import CUBE, SPD, M, N, P, S, X, Y, numbers

B4, STACK = numbers(4, 2), np.stack([SPD, SPD + np.eye(4)])
LOW = np.tril(S) + 3 * np.eye(4)
COMPLEX = S + 1j * numbers(4, 4, start=90)


def signs(v: np.ndarray) -> np.ndarray:
    """Columns with a positive element of largest size: eigenvectors have any sign."""
    v = np.asarray(v)
    largest = np.take_along_axis(v, np.argmax(np.abs(v), -2)[..., None, :], -2)
    return v / (largest / np.abs(largest))


def gaussian_process(J: Any, scale: Any) -> Any:
    d = X[:, None] - X[None]
    k = J.np.exp(-0.5 * (d / scale) ** 2) + 0.1 * np.eye(6)
    low = J.np.linalg.cholesky(k)
    alpha = J.scipy.linalg.cho_solve((low, True), Y)
    return 0.5 * Y @ alpha + J.np.log(J.np.diagonal(low)).sum()


def least_squares(J: Any, ridge: Any) -> Any:
    return J.np.linalg.solve(M.T @ M + ridge * np.eye(5), M.T @ np.ones(4))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda J: J.np.matmul(M, N),
    "matmul batch": lambda J: J.np.matmul(CUBE, CUBE.transpose(0, 2, 1)),
    "dot": lambda J: J.np.dot(X, Y),
    "vdot": lambda J: J.np.vdot(COMPLEX, COMPLEX),
    "outer": lambda J: J.np.outer(X, Y),
    "inner": lambda J: J.np.inner(M, M),
    "kron": lambda J: J.np.kron(S[:2, :2], SPD[:2, :2]),
    "tensordot": lambda J: J.np.tensordot(CUBE, CUBE, ((1, 2), (1, 2))),
    "dot_general": lambda J: J.lax.dot_general(CUBE, CUBE, (((2,), (2,)), ((0,), (0,)))),
    "multi_dot": lambda J: J.np.linalg.multi_dot([M, N, N.T]),
    "matrix_power": lambda J: J.np.linalg.matrix_power(S, 3),
    "matrix_power negative": lambda J: J.np.linalg.matrix_power(SPD, -2),
    "norm": lambda J: J.np.linalg.norm(M),
    "norm 1": lambda J: J.np.linalg.norm(M, 1),
    "norm of rows": lambda J: J.np.linalg.norm(M, axis=1),
    "norm nuclear": lambda J: J.np.linalg.norm(M, "nuc"),
    "norm inf": lambda J: J.np.linalg.norm(X, np.inf),
    "trace": lambda J: J.grad(lambda a: J.np.trace(a @ a))(S),
    "det": lambda J: J.value_and_grad(J.np.linalg.det)(SPD),
    "slogdet": lambda J: J.np.linalg.slogdet(SPD),
    "slogdet gradient": lambda J: J.grad(lambda a: J.np.linalg.slogdet(a)[1])(SPD),
    "inv": lambda J: J.np.linalg.inv(SPD),
    "inv gradient": lambda J: J.grad(lambda a: J.np.linalg.inv(a).sum())(SPD),
    "inv batch": lambda J: J.np.linalg.inv(STACK),
    "solve": lambda J: J.np.linalg.solve(SPD, B4),
    "solve gradient": lambda J: J.grad(
        lambda a, b: (J.np.linalg.solve(a, b) ** 2).sum(), (0, 1))(SPD, B4),
    "solve vmap": lambda J: J.vmap(J.np.linalg.solve)(STACK, np.stack([B4, B4])),
    "cholesky": lambda J: J.np.linalg.cholesky(SPD),
    "cholesky upper": lambda J: J.scipy.linalg.cholesky(SPD),
    "cholesky gradient": lambda J: J.grad(lambda a: J.np.linalg.cholesky(a).sum())(SPD),
    "cholesky of symmetric": lambda J: J.grad(
        lambda a: J.np.linalg.cholesky((a + a.T) / 2).sum())(SPD),
    "qr": lambda J: (lambda q, r: (np.abs(q), np.abs(r)))(*J.np.linalg.qr(M)),
    "qr product": lambda J: J.jit(lambda a: (lambda q, r: q @ r)(*J.np.linalg.qr(a)))(M),
    "eigh values": lambda J: J.np.linalg.eigvalsh(SPD),
    "eigh vectors": lambda J: signs(J.np.linalg.eigh(SPD)[1]),
    "eigh gradient": lambda J: J.grad(lambda a: J.np.linalg.eigh(a)[0][-1])(SPD),
    "eigvals": lambda J: np.sort_complex(np.asarray(J.np.linalg.eigvals(S))),
    "svd values": lambda J: J.np.linalg.svd(M, compute_uv=False),
    "svd gradient": lambda J: J.grad(
        lambda a: J.np.linalg.svd(a, compute_uv=False)[0])(M),
    "svd product": lambda J: (lambda u, s, v: (u * s) @ v)(
        *J.np.linalg.svd(M, full_matrices=False)),
    "pinv": lambda J: J.np.linalg.pinv(M),
    "pinv gradient": lambda J: J.grad(lambda a: (J.np.linalg.pinv(a) ** 2).sum())(M),
    "lstsq": lambda J: J.np.linalg.lstsq(M.T, np.ones(5))[0],
    "matrix_rank": lambda J: J.np.linalg.matrix_rank(M),
    "cond": lambda J: J.np.linalg.cond(SPD),
    "solve_triangular": lambda J: J.scipy.linalg.solve_triangular(LOW, B4, lower=True),
    "solve_triangular gradient": lambda J: J.grad(
        lambda a: J.scipy.linalg.solve_triangular(a, B4, lower=True).sum())(LOW),
    "lu": lambda J: (lambda p, low, up: p @ low @ up)(*J.scipy.linalg.lu(SPD)),
    "lu_solve": lambda J: J.scipy.linalg.lu_solve(J.scipy.linalg.lu_factor(SPD), B4),
    "cho_solve": lambda J: J.scipy.linalg.cho_solve((J.np.linalg.cholesky(SPD), True), B4),
    "expm": lambda J: J.scipy.linalg.expm(S / 4),
    "expm gradient": lambda J: J.grad(lambda a: J.scipy.linalg.expm(a).sum())(S / 4),
    "sqrtm": lambda J: np.real(np.asarray(J.scipy.linalg.sqrtm(SPD))),
    "block_diag": lambda J: J.scipy.linalg.block_diag(S[:2, :2], SPD[:3, :3]),
    "toeplitz": lambda J: J.scipy.linalg.toeplitz(X[:3], Y[:4]),
    "cov": lambda J: J.np.cov(M),
    "corrcoef": lambda J: J.np.corrcoef(M),
    "cross": lambda J: J.np.cross(X[:3], Y[:3]),
    "gaussian process": lambda J: J.value_and_grad(lambda s: gaussian_process(J, s))(0.8),
    "least squares": lambda J: J.jacfwd(lambda r: least_squares(J, r))(0.1),
    "determinant by matrix": lambda J: J.hessian(lambda t: J.np.log(J.np.linalg.det(
        SPD + t * np.eye(4))))(0.3),
    "mahalanobis": lambda J: J.grad(lambda v: v @ J.np.linalg.solve(SPD, v))(P[:4]),
    "vander": lambda J: J.np.vander(X[:4], 3),
    "fft": lambda J: J.np.fft.fft(X),
    "rfft back": lambda J: J.np.fft.irfft(J.np.fft.rfft(X) * 2),
    "fft gradient": lambda J: J.grad(lambda x: J.np.abs(J.np.fft.fft(x) ** 2).sum())(X),
    "convolve": lambda J: J.np.convolve(X, Y[:3], mode="same"),
    "polyfit": lambda J: J.np.polyfit(np.arange(6.0), X, 2),
    "polyval": lambda J: J.np.polyval(X[:3], Y),
}  # fmt: skip
