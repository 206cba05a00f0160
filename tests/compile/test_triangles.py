"""Systems of matrices that an equation says are triangles are solved without factors."""

from __future__ import annotations

import numpy as np
import pytest
from pass_cases import assert_becomes, body
from stack_matrices import adjoint, normal

import fgrad
from fgrad.compile.passes.triangles import triangles
from fgrad.trace import trace

DTYPES = (np.float64, np.float32, np.complex128)


def by_cholesky(a, b):
    return np.linalg.solve(np.linalg.cholesky(a), b)


def by_turned(a, b):
    return np.linalg.solve(np.swapaxes(np.linalg.cholesky(a), -1, -2), b)


def both(a, b):
    low = np.linalg.cholesky(a)
    return np.linalg.solve(np.swapaxes(low, -1, -2), np.linalg.solve(low, b))


def by_orthonormal_factors(a, b):
    q, r = np.linalg.qr(a)
    return np.linalg.solve(r, np.swapaxes(q, -1, -2) @ b)


def inverse(a, b):
    return np.linalg.inv(np.linalg.cholesky(a)) @ b


def of_another_matrix(a, b):
    return np.linalg.solve(np.linalg.cholesky(a) + 1.0, b)


TRIANGLES = (by_cholesky, by_turned, both, by_orthonormal_factors, inverse)


def matrices(rng, stack, dtype):
    a, b = normal(rng, (*stack, 6, 6), dtype), normal(rng, (*stack, 6, 2), dtype)
    return (a @ adjoint(a) + 6 * np.eye(6)).astype(dtype), b


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack", [(), (3,), (16,), (2, 9)])
@pytest.mark.parametrize("f", [*TRIANGLES, of_another_matrix], ids=lambda f: f.__name__)
def test_values_are_numpys(f, stack, dtype, rng):
    a, b = matrices(rng, stack, dtype)
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype is np.float32 else {"rtol": 1e-10, "atol": 1e-12}
    found = fgrad.jit(f)(a, b)
    assert found.dtype == f(a, b).dtype
    np.testing.assert_allclose(found, f(a, b), **near)


@pytest.mark.parametrize("stack", [(), (16,)])
@pytest.mark.parametrize("f", [*TRIANGLES, of_another_matrix], ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_prompt(f, stack, rng):
    gradient = fgrad.grad(lambda a, b: np.sum(np.sin(f(a, b))), argnums=(0, 1))
    args = matrices(rng, stack, np.float64)
    for x, y in zip(fgrad.jit(gradient)(*args), gradient(*args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stack", [(), (16,)])
def test_a_triangle_with_a_zero_is_singular(stack, rng):
    a = np.zeros((*stack, 4, 4))
    a[..., 0, 0] = a[..., 1, 1] = a[..., 2, 2] = 1.0
    with pytest.raises(np.linalg.LinAlgError):
        fgrad.jit(by_orthonormal_factors)(a, np.ones((*stack, 4, 1)))


def primitives(f, *args):
    program = trace(lambda *xs: [f(*xs)], [fgrad.ir.aval.aval_of(x) for x in args]).program
    return [eqn.prim.name for eqn in triangles(program).eqns]


@pytest.mark.parametrize("f", [by_cholesky, by_turned, both, by_orthonormal_factors])
def test_triangles_are_known_by_their_equations(f, rng):
    names = primitives(f, *matrices(rng, (3,), np.float64))
    assert "lu_solve" not in names
    assert "triangular_solve" in names


def test_other_matrices_are_not(rng):
    assert "lu_solve" in primitives(of_another_matrix, *matrices(rng, (3,), np.float64))


def test_a_turned_triangle_is_solved_as_it_lies():
    arrays = "a: f64[4,4], b: f64[4,2]"
    assert_becomes(
        triangles,
        body(
            arrays,
            "f64[4,2]",
            "l: f64[4,4] = cholesky a",
            "u: f64[4,4] = permute[axes=(1, 0)] l",
            "s: f64[4,4] = stop_gradient u",
            "p: f64[4,4], e: i32[4] = factor s",
            "x: f64[4,2] = lu_solve[trans=False] u p e b",
            "x",
        ),
        body(
            arrays,
            "f64[4,2]",
            "l: f64[4,4] = cholesky a",
            "x: f64[4,2] = triangular_solve[lower=True trans=True unit=False] l b",
            "x",
        ),
    )
