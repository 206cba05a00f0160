"""Factors of stacks that only solutions read, which stay in lanes; all others are as before."""

from __future__ import annotations

import numpy as np
import pytest
from stack_matrices import normal

import fgrad
from fgrad.compile import pipeline
from fgrad.compile.tasks.routines import MatrixRoutine
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.scipy import linalg as sl
from fgrad.trace import trace

DTYPES = (np.float64, np.float32, np.complex128, np.complex64)


def solve(a, b):
    return np.linalg.solve(a, b)


def twice(a, b):
    return np.linalg.solve(a, np.linalg.solve(a, b))


def turned(a, b):
    return np.linalg.solve(a, b) + np.linalg.solve(np.swapaxes(a, -1, -2), b)


def inverse(a, b):
    return np.linalg.inv(a) @ b


def factors_too(a, b):
    packed, pivots = sl.lu_factor(a)
    return sl.lu_solve((packed, pivots), b) + packed @ b + pivots[..., None]


def determinant_too(a, b):
    return np.linalg.solve(a, b) * np.linalg.det(a)[..., None, None]


def in_a_loop(a, b):
    return fgrad.lax.fori_loop(0, 3, lambda _, x: np.linalg.solve(a, x) + b, b)


FUNCTIONS = (solve, twice, turned, inverse, factors_too, determinant_too, in_a_loop)


def matrices(rng, batch, n, dtype, pivots):
    """Matrices whose pivots are on the diagonal, off it, or either in lanes of one block."""
    a = normal(rng, (batch, n, n), dtype)
    near = 2 * n * np.eye(n, dtype=dtype)
    if pivots == "mixed":
        return a + np.where(np.arange(batch)[:, None, None] % 3 == 0, near[::-1], near)
    return a + (near if pivots == "diagonal" else near[::-1])


@pytest.mark.parametrize("pivots", ["diagonal", "off", "mixed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch, n, k", [(16, 5, 1), (32, 16, 3), (24, 9, 8), (13, 6, 2)])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_are_numpys(f, batch, n, k, dtype, pivots, rng):
    a, b = matrices(rng, batch, n, dtype, pivots), normal(rng, (batch, n, k), dtype)
    single = np.dtype(dtype).char in "fF"
    wide = np.promote_types(dtype, np.float64)
    expected = np.asarray(f(a.astype(wide), b.astype(wide)))
    bound = (3e-3 if single else 1e-9) * np.max(np.abs(expected))
    found = fgrad.jit(f)(a, b)
    assert found.dtype == f(a, b).dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_prompt(f, rng):
    a, b = matrices(rng, 16, 6, np.float64, "mixed"), normal(rng, (16, 6, 2), np.float64)
    gradient = fgrad.grad(lambda a, b: np.sum(f(a, b) ** 2), argnums=(0, 1))
    for x, y in zip(fgrad.jit(gradient)(a, b), gradient(a, b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12 * np.max(np.abs(y)))


def test_pieces_of_threads_are_whole_blocks(rng, monkeypatch):
    monkeypatch.setattr(fgrad.config, "num_threads", 7)
    a, b = matrices(rng, 1000, 16, np.float64, "mixed"), normal(rng, (1000, 16, 1), np.float64)
    np.testing.assert_allclose(fgrad.jit(solve)(a, b), solve(a, b), rtol=1e-9, atol=1e-12)


def test_a_singular_matrix_is_noted(rng):
    a, b = matrices(rng, 16, 4, np.float64, "off"), normal(rng, (16, 4, 1), np.float64)
    a[11] = 1.0
    with pytest.raises(np.linalg.LinAlgError):
        fgrad.jit(solve)(a, b)


def in_lanes(f, *args):
    """Which routines of a compiled function have factors in lanes, by name."""
    program = trace(lambda *xs: [f(*xs)], [fgrad.ir.aval.aval_of(x) for x in args]).program
    stages = pipeline.compile_program(program).stages
    steps = next(stage.result for stage in stages if stage.name == "routines")
    routines = [s.routine for s in steps if type(s) is LibraryStep]
    found = [r for r in routines if type(r) is MatrixRoutine and dict(r.params).get("lanes")]
    return [routine.name for routine in found]


@pytest.mark.parametrize("f, batch, names", [
    (solve, 16, ["factor", "lu_solve"]),
    (twice, 16, ["factor", "lu_solve", "lu_solve"]),
    (solve, 17, []),
    (factors_too, 16, []),
    (determinant_too, 16, []),
])  # fmt: skip
def test_only_private_factors_of_whole_blocks_lie_so(f, batch, names, rng):
    a, b = matrices(rng, batch, 6, np.float64, "mixed"), normal(rng, (batch, 6, 1), np.float64)
    assert in_lanes(f, a, b) == names
