"""Factors and solutions of stacks of small matrices, which take a matrix in each lane."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import fgrad
from fgrad.compile.cpu.small_stacks import LARGEST, in_lanes
from fgrad.scipy import linalg as sl

SIDES = (1, 2, 3, 5, 8, 13, 16, 31, LARGEST, LARGEST + 1)
STACKS = ((8,), (16,), (17,), (3, 29))
DTYPES = (np.float64, np.float32)


def tolerance(dtype):
    return {"rtol": 3e-9, "atol": 1e-9} if dtype is np.float64 else {"rtol": 2e-2, "atol": 2e-2}


def matrices(rng, stack, n, dtype):
    """Matrices whose pivots are not on the diagonal, each with other ones."""
    return (rng.standard_normal((*stack, n, n)) + 0.3).astype(dtype)


def positive(rng, stack, n, dtype):
    a = rng.standard_normal((*stack, n, n))
    return (a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("n", SIDES)
def test_factors_are_numpys(n, stack, dtype, rng):
    a, s = matrices(rng, stack, n, dtype), positive(rng, stack, n, dtype)
    near = tolerance(dtype)
    s[..., 0, -1] = 7.0 if n > 1 else s[..., 0, -1]  # the upper triangle is not read
    np.testing.assert_allclose(fgrad.jit(np.linalg.cholesky)(s), np.linalg.cholesky(s), **near)
    found, right = fgrad.jit(np.linalg.slogdet)(a), np.linalg.slogdet(a)
    np.testing.assert_array_equal(found[0], right[0])
    np.testing.assert_allclose(found[1], right[1], **near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("n", SIDES)
def test_exchanges_are_lapacks(n, stack, dtype, rng):
    a = matrices(rng, stack, n, dtype)
    packed, pivots = fgrad.jit(sl.lu_factor)(a)
    for at in np.ndindex(stack):
        right, order = scipy.linalg.lu_factor(a[at])
        np.testing.assert_array_equal(pivots[at], order)
        np.testing.assert_allclose(packed[at], right, **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [0, 1, 4, LARGEST, LARGEST + 1])
@pytest.mark.parametrize("n", SIDES)
def test_solutions_solve(n, columns, dtype, rng):
    stack = (21,)
    a = matrices(rng, stack, n, dtype) + 3 * n * np.eye(n, dtype=dtype)[::-1]
    b = rng.standard_normal((*stack, n, max(columns, 1))).astype(dtype)
    b = b[..., 0] if not columns else b
    near = tolerance(dtype)

    def solve(a, b):
        return np.linalg.solve(a, b) if columns else np.linalg.solve(a, b[..., None])[..., 0]

    np.testing.assert_allclose(fgrad.jit(solve)(a, b), solve(a, b), **near)
    turned = np.swapaxes(a, -1, -2)
    found = fgrad.jit(lambda a, b: solve(np.swapaxes(a, -1, -2), b))(a, b)
    np.testing.assert_allclose(found, solve(turned, b), **near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("n", [2, 5, 8, 31])
def test_triangles_solve(n, lower, unit, trans, dtype, rng):
    a = matrices(rng, (11,), n, dtype) / n + 2 * np.eye(n, dtype=dtype)
    b = rng.standard_normal((11, n, 3)).astype(dtype)

    def solve(a, b):
        return sl.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)

    right = [
        scipy.linalg.solve_triangular(m, r, trans=trans, lower=lower, unit_diagonal=unit)
        for m, r in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(fgrad.jit(solve)(a, b), np.stack(right), **tolerance(dtype))


@pytest.mark.parametrize("bad", [0, 6, 7, 8, 15, 18])
@pytest.mark.parametrize("f", [np.linalg.cholesky, np.linalg.inv], ids=["cholesky", "inv"])
def test_a_matrix_that_fails_is_noted_in_any_lane(f, bad, rng):
    a = positive(rng, (19,), 6, np.float64)
    fgrad.jit(f)(a)
    a[bad] = -np.eye(6) if f is np.linalg.cholesky else np.ones((6, 6))
    with pytest.raises(np.linalg.LinAlgError):
        fgrad.jit(f)(a)


@pytest.mark.parametrize("number", [0.0, np.nan, np.inf, 1e-300])
def test_singular_and_extreme_matrices_are_numpys(number, rng):
    a = matrices(rng, (9,), 4, np.float64)
    a[2], a[5, 1], a[7, :, 2] = number, number, number
    with np.errstate(all="ignore"):
        right = np.linalg.det(a)
    np.testing.assert_allclose(fgrad.jit(np.linalg.det)(a), right, rtol=1e-9, atol=0)


@pytest.mark.parametrize("bad", [0, 7, 8, 18])
def test_nan_in_a_matrix_is_no_failure(bad, rng):
    """As in NumPy: its factor has NaN, those of the other lanes have not."""
    a = positive(rng, (19,), 5, np.float64)
    a[bad, 2, 1] = np.nan
    for f in (np.linalg.cholesky, np.linalg.inv):
        found = np.isnan(fgrad.jit(f)(a))
        np.testing.assert_array_equal(found, np.isnan(f(a)))
        assert np.flatnonzero(found.any((1, 2))).tolist() == [bad]


def test_subnormal_pivots_are_divided_by(rng):
    """LAPACK multiplies by what one divided by a pivot is; of 1e-310 that is infinite."""
    a = matrices(rng, (9,), 4, np.float64)
    a[7, :, 2] = 1.0
    right = np.linalg.det(a)[7] * 1e-310
    a[7, :, 2] = 1e-310
    np.testing.assert_allclose(fgrad.jit(np.linalg.det)(a)[7], right, rtol=1e-6)


@pytest.mark.parametrize("batch", [8, 40])
def test_derivatives_go_through_stacks(batch, rng):
    s, b = positive(rng, (batch,), 9, np.float64), rng.standard_normal((batch, 9))

    def loss(s, b):
        half = np.linalg.cholesky(s)
        return np.sum(np.linalg.solve(s, b[..., None]) ** 2) + np.sum(np.sin(half))

    found = fgrad.jit(fgrad.grad(loss, (0, 1)))(s, b)
    right = [fgrad.grad(loss, (0, 1))(s[k : k + 1], b[k : k + 1]) for k in range(batch)]
    for k, x in enumerate(found):
        np.testing.assert_allclose(x, np.concatenate([r[k] for r in right]), rtol=1e-8, atol=1e-10)


def test_what_is_taken_in_lanes():
    assert in_lanes(np.dtype(np.float64), LARGEST, 8)
    assert not in_lanes(np.dtype(np.float64), LARGEST + 1, 8)
    assert not in_lanes(np.dtype(np.float32), 4, 15)
    assert not in_lanes(np.dtype(np.complex128), 4, 100)
