"""Gradients of nests of loops: compiled and interpreted, and against tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_nests import NESTS, not_read_at_infinity, recurrence

import fgrad
from fgrad.ir.walk import subprograms

SIZES = [1, 2, 5, 24]
Function = Callable[[Any], Any]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("fun", NESTS)
def test_gradients(fun: Function, n: int, dtype: str, rng: np.random.Generator) -> None:
    A = rng.random((n, n)).astype(dtype)
    tolerance = 1e-10 if dtype == "f8" else 2e-3
    with fgrad.config.override(disable_jit=True):
        right = fgrad.grad(fun)(A)
    given = fgrad.jit(fgrad.grad(fun))(A)
    scale = max(float(np.max(np.abs(right))), 1.0)
    np.testing.assert_allclose(given / scale, right / scale, atol=tolerance)
    assert given.dtype == A.dtype


@pytest.mark.parametrize("fun", NESTS)
def test_tangents_agree(fun: Function, rng: np.random.Generator) -> None:
    A, way = rng.random((7, 7)), rng.standard_normal((7, 7))
    pushed = fgrad.jit(lambda A, t: fgrad.jvp(fun, (A,), (t,))[1])(A, way)
    pulled = np.sum(fgrad.jit(fgrad.grad(fun))(A) * way)
    np.testing.assert_allclose(pushed, pulled, rtol=1e-8)


@pytest.mark.parametrize("fun", NESTS)
def test_second_derivatives(fun: Function, rng: np.random.Generator) -> None:
    A, way = rng.random((3, 3)), rng.standard_normal((3, 3))
    second = fgrad.grad(lambda A: np.sum(fgrad.grad(fun)(A) * way))
    scale = float(np.max(np.abs(second(A)))) + 1.0
    np.testing.assert_allclose(fgrad.jit(second)(A) / scale, second(A) / scale, atol=1e-10)


def test_what_no_step_reads_gives_no_nan() -> None:
    A = np.full((4, 4), 2.0)
    A[:, 0] = 0.0
    with np.errstate(divide="ignore"):
        found = fgrad.jit(fgrad.grad(not_read_at_infinity))(A)
    right = np.full((4, 4), 0.5)
    right[:, 0] = 0.0
    np.testing.assert_array_equal(found, right)


def test_residuals_of_a_nest_do_not_grow_by_a_dimension() -> None:
    program = fgrad.make_program(fgrad.jit(fgrad.grad(recurrence)))(np.ones((30, 30)))
    sizes = [v.aval.size for p in subprograms(program) for e in p.eqns for v in e.outputs]
    assert max(sizes) <= 30 * 30
