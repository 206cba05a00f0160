"""Factors and solutions of stacks of small matrices, which take a matrix in each lane."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import fgrad
from fgrad.compile.cpu import lapack_factors
from fgrad.compile.cpu.small_stacks import LARGEST, in_lanes
from fgrad.compile.llvm import generator, runtime
from fgrad.compile.llvm.text import Target
from fgrad.scipy import linalg as sl

SIDES = (1, 2, 3, 5, 8, 13, 16, 31, LARGEST, LARGEST + 1)
STACKS = ((8,), (16,), (17,), (3, 29))
STEPS = {
    "cholesky": {"n": 5},
    "factor": {"n": 5},
    "lu_solve": {"n": 5, "k": 3, "trans": True},
    "triangular_solve": {"n": 5, "k": 3, "lower": True, "trans": False, "unit": False},
    "qr": {"m": 6, "n": 5, "complete": False},
    "eigh": {"n": 5, "lower": True},
    "svd": {"m": 6, "n": 5, "full": False},
}
SHAPES = ((1, 1), (2, 2), (1, 5), (5, 1), (3, 7), (7, 3), (16, 16), (13, 32), (LARGEST, 4), (33, 2))
DTYPES = (np.float64, np.float32, np.complex128, np.complex64)


def single(dtype):
    return dtype in (np.float32, np.complex64)


def tolerance(dtype):
    return {"rtol": 2e-2, "atol": 2e-2} if single(dtype) else {"rtol": 3e-9, "atol": 1e-9}


def normal(rng, shape, dtype):
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def matrices(rng, stack, n, dtype):
    """Matrices whose pivots are not on the diagonal, each with other ones."""
    return normal(rng, (*stack, n, n), dtype) + np.dtype(dtype).type(0.3)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def positive(rng, stack, n, dtype):
    a = normal(rng, (*stack, n, n), dtype)
    return (a @ adjoint(a) + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("n", SIDES)
def test_factors_are_numpys(n, stack, dtype, rng):
    a, s = matrices(rng, stack, n, dtype), positive(rng, stack, n, dtype)
    near = tolerance(dtype)
    s[..., 0, -1] = 7.0 if n > 1 else s[..., 0, -1]  # the upper triangle is not read
    np.testing.assert_allclose(fgrad.jit(np.linalg.cholesky)(s), np.linalg.cholesky(s), **near)
    found, right = fgrad.jit(np.linalg.slogdet)(a), np.linalg.slogdet(a)
    np.testing.assert_allclose(found[0], right[0], **(near if np.iscomplexobj(a) else {"rtol": 0}))
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
    b = normal(rng, (*stack, n, max(columns, 1)), dtype)
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
    b = normal(rng, (11, n, 3), dtype)

    def solve(a, b):
        return sl.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)

    right = [
        scipy.linalg.solve_triangular(m, r, trans=trans, lower=lower, unit_diagonal=unit)
        for m, r in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(fgrad.jit(solve)(a, b), np.stack(right), **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("m, n", SHAPES)
def test_orthonormal_factors_are_lapacks(m, n, mode, dtype, rng):
    for stack in STACKS:
        a = normal(rng, (*stack, m, n), dtype)
        found, right = fgrad.jit(lambda a: np.linalg.qr(a, mode))(a), np.linalg.qr(a, mode)
        bound = 1e-4 if single(dtype) else 1e-12
        for x, y in zip(found, right, strict=True):
            assert x.shape == y.shape
            assert x.dtype == y.dtype
            # The complement of few columns depends on rounding no more than the columns do.
            np.testing.assert_allclose(x, y, rtol=bound, atol=bound)
        assert np.all(np.tril(found[1], -1) == 0)


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e-20, 1e20, 1e160, 1e300])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_orthonormal_factors_at_any_scale(dtype, scale, rng):
    a = normal(rng, (9, 4, 3), dtype) * scale
    a[3, :, 1] *= 1e-9
    (q, r), (right, upper) = fgrad.jit(np.linalg.qr)(a), np.linalg.qr(a)
    near = 1e-10 if scale > 1e-310 else 1e-2
    np.testing.assert_allclose(adjoint(q) @ q, np.broadcast_to(np.eye(3), (9, 3, 3)), atol=1e-14)
    np.testing.assert_allclose(q[:3], right[:3], atol=near)
    np.testing.assert_allclose(r, upper, rtol=near, atol=near * scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_with_nothing_below_are_left(dtype, rng):
    """There LAPACK's reflection is none, and the diagonal keeps its sign; of complex numbers only
    if it is real."""
    a = normal(rng, (16, 4, 4), dtype)
    a[1], a[2], a[4] = 0, -np.eye(4), np.triu(a[4])
    a[5, 1:, 0] = 1e-30
    a[6, :, 2] = 0
    a[7, :, 2] = a[7, :, 1]
    a[8, 1:, 0] = -0.0
    found, right = fgrad.jit(np.linalg.qr)(a), np.linalg.qr(a)
    bound = 1e-5 if single(dtype) else 1e-13
    good = np.arange(16) != 7  # whose third vector is rounding alone
    for x, y in zip(found, right, strict=True):
        np.testing.assert_allclose(x[good], y[good], atol=bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_orthonormal_factors_of_what_is_not_finite(number, dtype, rng):
    a = normal(rng, (17, 4, 3), dtype)
    a[0, 2, 1] = a[16, 0, 0] = number
    with np.errstate(all="ignore"):
        found, right = fgrad.jit(np.linalg.qr)(a), np.linalg.qr(a)
    for x, y in zip(found, right, strict=True):
        good = np.isfinite(x)
        np.testing.assert_array_equal(good.all((1, 2)), np.isfinite(y).all((1, 2)))
        np.testing.assert_allclose(x[1:16], y[1:16], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("m, n", [(5, 5), (7, 3), (3, 5)])
def test_derivatives_go_through_orthonormal_factors(m, n, dtype, rng):
    a, da = normal(rng, (9, m, n), dtype), normal(rng, (9, m, n), dtype)

    def loss(a):
        q, r = np.linalg.qr(a)
        return np.sum(np.abs(r + 0.3) ** 2 + 0.1 * np.real(r)) + np.sum(np.abs(q - 0.2) ** 4)

    slope = np.sum(np.real(np.conj(fgrad.jit(fgrad.grad(loss))(a)) * da))
    step = 1e-6
    differs = (loss(a + step * da) - loss(a - step * da)) / (2 * step)
    np.testing.assert_allclose(slope, differs, rtol=1e-6)


@pytest.mark.parametrize("bad", [0, 6, 7, 8, 15, 18])
@pytest.mark.parametrize("f", [np.linalg.cholesky, np.linalg.inv], ids=["cholesky", "inv"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_matrix_that_fails_is_noted_in_any_lane(f, dtype, bad, rng):
    a = positive(rng, (19,), 6, dtype)
    fgrad.jit(f)(a)
    a[bad] = -np.eye(6) if f is np.linalg.cholesky else np.ones((6, 6))
    with pytest.raises(np.linalg.LinAlgError):
        fgrad.jit(f)(a)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("number", [0.0, np.nan, np.inf, 1e-300])
def test_singular_and_extreme_matrices_are_numpys(number, dtype, rng):
    a = matrices(rng, (9,), 4, dtype)
    a[2], a[5, 1], a[7, :, 2] = number, number, number
    with np.errstate(all="ignore"):
        right = np.linalg.det(a)
    np.testing.assert_allclose(fgrad.jit(np.linalg.det)(a), right, rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("bad", [0, 7, 8, 18])
def test_nan_in_a_matrix_is_no_failure(bad, dtype, rng):
    """As in NumPy: its factor has NaN, those of the other lanes have not."""
    a = positive(rng, (19,), 5, dtype)
    a[bad, 2, 1] = np.nan
    for f in (np.linalg.cholesky, np.linalg.inv):
        found = np.isnan(fgrad.jit(f)(a))
        np.testing.assert_array_equal(found, np.isnan(f(a)))
        assert np.flatnonzero(found.any((1, 2))).tolist() == [bad]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_subnormal_pivots_are_divided_by(dtype, rng):
    """LAPACK multiplies by what one divided by a pivot is; of 1e-310 that is infinite."""
    a = matrices(rng, (9,), 4, dtype)
    a[7, :, 2] = 1.0
    right = np.linalg.det(a)[7] * 1e-310
    a[7, :, 2] = 1e-310
    np.testing.assert_allclose(fgrad.jit(np.linalg.det)(a)[7], right, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("batch", [8, 40])
def test_derivatives_go_through_stacks(batch, dtype, rng):
    s, b = positive(rng, (batch,), 9, dtype), normal(rng, (batch, 9), dtype)

    def loss(s, b):
        half = np.linalg.cholesky(s)
        solution = np.linalg.solve(s, b[..., None])
        return np.sum(np.abs(solution) ** 2) + np.sum(np.sin(np.real(half)))

    found = fgrad.jit(fgrad.grad(loss, (0, 1)))(s, b)
    right = [fgrad.grad(loss, (0, 1))(s[k : k + 1], b[k : k + 1]) for k in range(batch)]
    for k, x in enumerate(found):
        np.testing.assert_allclose(x, np.concatenate([r[k] for r in right]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_are_code_for_arm(dtype):
    """All of them can be written for it; they run there as they do here."""
    char = np.dtype(dtype)
    with runtime.recording() as recorded:
        for name, sizes in STEPS.items():
            lapack_factors.LAPACK[name](dtype=char, batch=20, **sizes)
    target = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
    for symbol, each in recorded.items():
        assert symbol in generator.assembly(runtime.module_text({symbol: each.source}), target)


def test_what_is_taken_in_lanes():
    assert in_lanes(np.dtype(np.float64), LARGEST, 8)
    assert not in_lanes(np.dtype(np.float64), LARGEST + 1, 8)
    assert not in_lanes(np.dtype(np.float32), 4, 15)
    assert in_lanes(np.dtype(np.complex128), 4, 8)
    assert not in_lanes(np.dtype(np.complex64), 4, 15)
    assert not in_lanes(np.dtype(np.int64), 4, 15)
