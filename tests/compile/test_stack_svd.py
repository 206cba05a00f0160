"""Singular values and vectors of stacks of small matrices, which take a matrix in each lane."""

from __future__ import annotations

import numpy as np
import pytest
from stack_matrices import DTYPES, adjoint, normal

import fgrad

SHAPES = ((1, 1), (2, 2), (3, 2), (3, 3), (4, 3), (5, 5), (8, 8), (13, 10), (16, 16), (25, 25))
SHAPES = (*SHAPES, (3, 5), (9, 2), (26, 26))  # which LAPACK does
STACKS = ((8,), (17,), (3, 29))


def graded(rng, shape, dtype):
    """Rows and columns of many sizes, the largest anywhere."""
    rows = 10.0 ** rng.uniform(-4, 0, (*shape[:-1], 1))
    columns = 10.0 ** rng.uniform(-4, 0, (*shape[:-2], 1, shape[-1]))
    return normal(rng, shape, dtype) * rows * columns


def of_low_rank(rng, shape, dtype):
    m, n = shape[-2:]
    return normal(rng, (*shape[:-2], m, 1), dtype) @ normal(rng, (*shape[:-2], 1, n), dtype)


def of_equal_values(rng, shape, dtype):
    """Orthonormal rows or columns."""
    u, _, vh = np.linalg.svd(normal(rng, shape, dtype), full_matrices=False)
    return u @ vh


def diagonal(rng, shape, dtype):
    return (rng.integers(-2, 3, (*shape[:-1], 1)) * np.eye(*shape[-2:])).astype(dtype)


def blocks(rng, shape, dtype):
    """Matrices that fall apart, with rows and columns of zeros."""
    rows, columns = rng.integers(0, 4, shape[:-1]), rng.integers(0, 4, (*shape[:-2], shape[-1]))
    return normal(rng, shape, dtype) * (rows[..., :, None] == columns[..., None, :])


def nothing(rng, shape, dtype):
    return np.zeros(shape, dtype)


def integers(rng, shape, dtype):
    return rng.integers(-1, 2, shape).astype(dtype)


KINDS = (
    normal, graded, of_low_rank, of_equal_values, diagonal, blocks, nothing, integers
)  # fmt: skip


def check(a, u, s, vh):
    """Residual and orthogonality within a few n eps, values in order."""
    k, size = min(a.shape[-2:]), np.abs(a).max((-1, -2), keepdims=True)
    near = 20 * max(a.shape[-2:]) * np.finfo(s.dtype).eps
    assert np.all(s >= 0)
    assert np.all(np.diff(s) <= 0)
    assert np.all(np.abs((u[..., :k] * s[..., None, :]) @ vh[..., :k, :] - a) <= near * size)
    assert np.all(np.abs(adjoint(u) @ u - np.eye(u.shape[-1])) <= near)
    assert np.all(np.abs(vh @ adjoint(vh) - np.eye(vh.shape[-2])) <= near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m, n", SHAPES)
def test_vectors_make_the_matrix(m, n, kind, dtype, rng):
    for stack, full in zip(STACKS, (False, True, False), strict=True):
        a = kind(rng, (*stack, m, n), dtype)
        u, s, vh = fgrad.jit(lambda a, full=full: tuple(np.linalg.svd(a, full)))(a)
        right = np.linalg.svd(a, full)
        assert (u.shape, s.shape, vh.shape) == tuple(x.shape for x in right)
        check(a, u, s, vh)
        near = np.abs(a).max((-1, -2))[..., None] * max(m, n) * 1e-14
        assert np.all(np.abs(s - right[1]) <= near)
        values = fgrad.jit(lambda a: np.linalg.svd(a, compute_uv=False))(a)
        assert np.all(np.abs(values - s) <= near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(2, 2), (3, 3), (4, 3), (5, 5), (8, 8)])
def test_vectors_have_lapacks_signs(m, n, dtype, rng):
    """Where rounding does not decide whether an element is small: in all of these."""
    a = normal(rng, (200, m, n), dtype)
    found, right = fgrad.jit(np.linalg.svd)(a), np.linalg.svd(a)
    for x, y, axis in ((found[0], right[0], -2), (found[2], right[2], -1)):
        same = np.sum(np.conj(x) * y, axis)
        np.testing.assert_allclose(same, np.ones_like(same), atol=1e-7)


def test_small_values_of_bidiagonal_matrices_are_right(rng):
    """Relatively, as LAPACK's: a step has no shift there."""
    n = 6
    d = 10.0 ** rng.uniform(-12, 0, (40, n))
    a = np.zeros((40, n, n))
    a[:, range(n), range(n)] = d
    a[:, range(n - 1), range(1, n)] = d[:, :-1] * rng.uniform(0.1, 1, (40, n - 1))
    found = fgrad.jit(lambda a: np.linalg.svd(a, compute_uv=False))(a)
    np.testing.assert_allclose(found, np.linalg.svd(a, compute_uv=False), rtol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e-30, 1e30, 1e160, 1e300])
def test_matrices_of_any_size(scale, dtype, rng):
    a = normal(rng, (9, 5, 4), dtype)
    u, s, vh = fgrad.jit(lambda a: tuple(np.linalg.svd(a, False)))(a * scale)
    np.testing.assert_allclose(adjoint(u) @ u, np.broadcast_to(np.eye(4), vh.shape), atol=1e-14)
    np.testing.assert_allclose(adjoint(vh) @ vh, np.broadcast_to(np.eye(4), vh.shape), atol=1e-14)
    near = 1e-12 if scale > 1e-310 else 1e-2
    right = np.linalg.svd(a, compute_uv=False) * scale
    np.testing.assert_allclose(s, right, rtol=near, atol=near * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("bad", [0, 7, 8, 18])
def test_what_is_not_finite_raises(bad, number, vectors, dtype, rng):
    """As for one matrix."""
    a = normal(rng, (19, 3, 3), dtype)
    function = fgrad.jit(lambda a: tuple(np.linalg.svd(a)) if vectors else np.linalg.svd(a)[1])
    function(a)
    a[bad, 1, 0] = number
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        function(a[bad : bad + 1])
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        function(a)


def test_values_of_float32(rng):
    a = normal(rng, (33, 9, 8), np.float32)
    found = fgrad.jit(lambda a: np.linalg.svd(a, compute_uv=False))(a)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.linalg.svd(a, compute_uv=False), atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(5, 5), (6, 4)])
def test_derivatives(m, n, dtype, rng):
    a, da = (normal(rng, (11, m, n), dtype) for _ in range(2))

    def loss(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        weights = np.arange(float(n))
        share = np.abs(u) ** 2 * np.cos(s)[..., None, :] * weights
        return np.sum(np.sin(s)) + np.sum(share) + np.sum(np.abs(vh) ** 4 * weights)

    slope = np.sum(np.real(np.conj(fgrad.jit(fgrad.grad(loss))(a)) * da))
    step = 1e-6
    differs = (loss(a + step * da) - loss(a - step * da)) / (2 * step)
    np.testing.assert_allclose(slope, differs, rtol=1e-5)
