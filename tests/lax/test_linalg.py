"""`fgrad.lax.linalg`: JAX's arguments; systems with three diagonals, also where pivots vanish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax, testing
from fgrad.errors import ArgumentError, ShapeError


def dense(low: Any, diagonal: Any, high: Any) -> Any:
    """The matrix of three diagonals."""
    return np.diag(diagonal) + np.diag(low[1:], -1) + np.diag(high[:-1], 1)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_three_diagonals(rng: np.random.Generator, dtype: Any, n: int, zeros: bool) -> None:
    parts = rng.normal(size=(2, 3, n)) @ np.eye(n)
    low, diagonal, high = (parts[0] + (1j * parts[1] if dtype is np.complex128 else 0)).astype(
        dtype
    )
    if zeros and n % 2 == 0:
        diagonal = 0 * diagonal  # without exchanges of rows the first pivot would be 0
    b = rng.normal(size=(n, 2)).astype(dtype)
    a = dense(low, diagonal, high)
    for f in (lax.linalg.tridiagonal_solve, fgrad.jit(lax.linalg.tridiagonal_solve)):
        np.testing.assert_allclose(a @ f(low, diagonal, high, b), b, atol=1e-9)


def test_derivatives_and_batches_of_three_diagonals(rng: np.random.Generator) -> None:
    low, high, b = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(4, 1))
    diagonal = 4 + rng.normal(size=4)
    solve = lax.linalg.tridiagonal_solve
    testing.check_grads(solve, (low, diagonal, high, b), order=1)
    many = np.stack([b, 2 * b])
    x = fgrad.vmap(solve, in_axes=(None, None, None, 0))(low, diagonal, high, many)
    np.testing.assert_allclose(x[1], 2 * x[0], rtol=1e-12)
    stacked = [np.stack([y, y]) for y in (low, diagonal, high)]
    np.testing.assert_allclose(solve(*stacked, many), x, rtol=1e-12)
    assert solve(np.ones(0), np.ones(0), np.ones(0), np.ones((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangles(
    rng: np.random.Generator, left: bool, lower: bool, transpose: bool, unit: bool
) -> None:
    a = rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    b = rng.normal(size=(2, 3, 3)) + 0j
    x = lax.linalg.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=transpose, conjugate_a=True,
        unit_diagonal=unit,
    )  # fmt: skip
    t = np.conj(np.tril(a) if lower else np.triu(a))
    if unit:
        t = t * (1 - np.eye(3)) + np.eye(3)
    t = np.swapaxes(t, 1, 2) if transpose else t
    np.testing.assert_allclose(t @ x if left else x @ t, b, atol=1e-10)


def test_decompositions(rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 4, 4))
    s = a @ np.swapaxes(a, 1, 2) + np.eye(4)
    low = lax.linalg.cholesky(s + np.triu(a, 1), symmetrize_input=False)
    np.testing.assert_allclose(low @ np.swapaxes(low, 1, 2), s, rtol=1e-10)
    v, w = lax.linalg.eigh(s + np.triu(a, 1), symmetrize_input=False)
    np.testing.assert_allclose(v * w[:, None] @ np.swapaxes(v, 1, 2), s, rtol=1e-10)
    u, w, vh = lax.linalg.svd(a, full_matrices=False)
    np.testing.assert_allclose(u * w[:, None] @ vh, a, atol=1e-12)
    q, r = lax.linalg.qr(a[:, :, :2], full_matrices=True)
    np.testing.assert_allclose(q @ r, a[:, :, :2], atol=1e-12)
    packed, _, order = lax.linalg.lu(a[0])
    np.testing.assert_allclose((np.tril(packed, -1) + np.eye(4)) @ np.triu(packed), a[0][order])


def test_symmetric_gradient_of_cholesky(rng: np.random.Generator) -> None:
    a = rng.normal(size=(3, 3))
    s = a @ a.T + np.eye(3)
    g = fgrad.grad(lambda x: np.sum(lax.linalg.cholesky(x)))(s)
    np.testing.assert_allclose(g, g.T, atol=1e-12)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "square": (lambda: lax.linalg.cholesky(np.ones((2, 3))), ShapeError),
    "pivoting": (lambda: lax.linalg.qr(np.ones((2, 3)), pivoting=True), ArgumentError),
    "triangle": (lambda: lax.linalg.triangular_solve(np.eye(2), np.ones((3, 3))), ShapeError),
    "diagonals": (
        lambda: lax.linalg.tridiagonal_solve(np.ones(2), np.ones(3), np.ones(3), np.ones((3, 1))),
        ShapeError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error = REFUSED[name]
    with pytest.raises(error):
        call()
