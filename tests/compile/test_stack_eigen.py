"""Eigenvalues and eigenvectors of stacks of small matrices, which take a matrix in each lane."""

from __future__ import annotations

import numpy as np
import pytest
from stack_matrices import DTYPES, adjoint, normal

import fgrad

SIDES = (1, 2, 3, 4, 5, 8, 13, 16, 25, 26)
STACKS = ((8,), (17,), (3, 29))


def hermitian(rng, stack, n, dtype):
    a = normal(rng, (*stack, n, n), dtype)
    return a + adjoint(a)


def graded(rng, stack, n, dtype):
    """Elements of many sizes, the largest anywhere."""
    size = 10.0 ** rng.uniform(-5, 0, (*stack, n, 1))
    return hermitian(rng, stack, n, dtype) * size * adjoint(size)


def clustered(rng, stack, n, dtype):
    """Three values, each for several vectors."""
    q = np.linalg.qr(normal(rng, (*stack, n, n), dtype))[0]
    a = (q * rng.integers(1, 4, (*stack, 1, n))) @ adjoint(q)
    return (a + adjoint(a)) / 2


def diagonal(rng, stack, n, dtype):
    return (rng.integers(-2, 3, (*stack, n, 1)) * np.eye(n)).astype(dtype)


def blocks(rng, stack, n, dtype):
    """Matrices that fall apart."""
    a = hermitian(rng, stack, n, dtype)
    part = rng.integers(0, 3, (*stack, n))
    return a * (part[..., None] == part[..., None, :])


def of_one_vector(rng, stack, n, dtype):
    v = normal(rng, (*stack, n, 1), dtype)
    return v @ adjoint(v)


def kernel(rng, stack, n, dtype):
    x = rng.standard_normal((*stack, n))
    return np.exp(-((x[..., :, None] - x[..., None, :]) ** 2)).astype(dtype)


KINDS = (hermitian, graded, clustered, diagonal, blocks, of_one_vector, kernel)


def check(a, w, v):
    """Residual and orthogonality within a few n eps, values in order."""
    n, eps = a.shape[-1], np.finfo(w.dtype).eps
    size = np.abs(a).max((-1, -2), keepdims=True)
    assert np.all(np.diff(w) >= 0)
    assert np.all(np.abs(a @ v - v * w[..., None, :]) <= 20 * n * eps * size)
    assert np.all(np.abs(adjoint(v) @ v - np.eye(n)) <= 10 * n * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIDES)
def test_vectors_solve(n, kind, dtype, rng):
    for stack, uplo in zip(STACKS, "LUL", strict=True):
        a = kind(rng, stack, n, dtype)
        given = a.copy()
        for at in np.ndindex(stack):  # the other triangle is not read
            given[at] = np.tril(a[at]) if uplo == "L" else np.triu(a[at])
        w, v = fgrad.jit(lambda a, uplo=uplo: tuple(np.linalg.eigh(a, uplo)))(given)
        check(a, w, v)
        alone = fgrad.jit(lambda a, uplo=uplo: np.linalg.eigvalsh(a, uplo))(given)
        size = np.abs(a).max((-1, -2))[..., None] * n * 1e-14
        assert np.all(np.abs(w - np.linalg.eigvalsh(a)) <= size)
        assert np.all(np.abs(alone - w) <= size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_vectors_have_lapacks_signs(n, uplo, dtype, rng):
    """Where rounding does not decide whether an element is small: in all of these."""
    a = normal(rng, (200, n, 2 * n), dtype)
    a = a @ adjoint(a)
    v, right = fgrad.jit(lambda a: np.linalg.eigh(a, uplo)[1])(a), np.linalg.eigh(a, uplo)[1]
    same = np.sum(np.conj(v) * right, -2)
    np.testing.assert_allclose(same, np.ones_like(same), atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e-300, 1e-160, 1e-30, 1e30, 1e160, 1e300])
def test_matrices_of_any_size(scale, dtype, rng):
    a = hermitian(rng, (9,), 5, dtype)
    w, v = fgrad.jit(np.linalg.eigh)(a * scale)
    np.testing.assert_allclose(adjoint(v) @ v, np.broadcast_to(np.eye(5), v.shape), atol=1e-14)
    near = 1e-13 if scale > 1e-310 else 1e-2
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a) * scale, rtol=near, atol=near * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("bad", [0, 7, 8, 18])
def test_what_is_not_finite_is_lapacks(bad, number, n, dtype, rng):
    """The same numbers or the same error, and nothing in the other lanes."""
    a = hermitian(rng, (19,), n, dtype)
    function = fgrad.jit(lambda a: tuple(np.linalg.eigh(a)))
    function(a)
    a[bad, n - 1, 0] = number
    with np.errstate(all="ignore"):
        try:
            right = np.linalg.eigh(a)
        except np.linalg.LinAlgError:
            with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
                function(a)
            return
    found = function(a)
    others = np.arange(19) != bad
    for x, y in zip(found, right, strict=True):
        np.testing.assert_array_equal(x[bad], y[bad])
        np.testing.assert_allclose(x[others], y[others], atol=1e-12)


def test_the_other_triangle_may_hold_anything(rng):
    a = hermitian(rng, (9,), 4, np.float64)
    right = np.linalg.eigvalsh(a)
    a[:, 0, 3] = np.nan
    np.testing.assert_allclose(fgrad.jit(np.linalg.eigvalsh)(a), right, atol=1e-13)


def test_values_of_float32(rng):
    a = hermitian(rng, (33,), 9, np.float32)
    found = fgrad.jit(np.linalg.eigvalsh)(a)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.linalg.eigvalsh(a), atol=2e-5)
    w, v = fgrad.jit(np.linalg.eigh)(a)
    assert w.dtype == v.dtype == np.float32
    np.testing.assert_allclose(np.abs(v), np.abs(np.linalg.eigh(a)[1]), atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives(dtype, rng):
    a, da = (hermitian(rng, (11,), 6, dtype) for _ in range(2))

    def loss(a):
        w, v = np.linalg.eigh(a)
        return np.sum(np.sin(w)) + np.sum(np.abs(v) ** 2 * np.cos(w)[..., None, :] * np.arange(6.0))

    slope = np.sum(np.real(np.conj(fgrad.jit(fgrad.grad(loss))(a)) * np.tril(da)))
    step = 1e-6
    differs = (loss(a + step * da) - loss(a - step * da)) / (2 * step)
    np.testing.assert_allclose(slope, differs, rtol=1e-6)
