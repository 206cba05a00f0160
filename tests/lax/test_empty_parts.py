"""Parts without elements at computed places, in loops: nothing is read or written."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad import lax


def _add(j, A):
    return fgrad.at(A)[0, j].add(A[0, :0] @ A[:0, j])


def _write(j, A):
    A[0, j] -= A[0, :0] @ A[:0, j]
    A[:0, j] += A[0, :0]
    return A


PARTS = {
    "a product": lambda A: lax.fori_loop(0, 18, _add, A * 1.0),
    "a write": lambda A: lax.fori_loop(0, 18, _write, A * 1.0),
    "a sum": lambda A: lax.fori_loop(0, 18, lambda j, s: s + np.sum(A[j, :0]), 0.0),
    "columns": lambda A: lax.fori_loop(0, 18, lambda j, s: s + np.sum(A[:0, j]), 0.0),
    "two": lambda A: lax.fori_loop(0, 18, lambda j, s: s + A[:0, j] @ A[j, :0] + A[j, j], 0.0),
    "a block": lambda A: lax.fori_loop(
        0, 8, lambda j, s: s + np.sum(lax.dynamic_slice(A, (j, 0), (0, 3))) + A[j, j], 0.0
    ),
    "a carry": lambda A: lax.fori_loop(
        0, 8, lambda j, c: (c[0], c[1] + np.sum(c[0][:0, j]) * A[j, 0]), (A * 1.0, 1.0)
    )[1],
}


@pytest.mark.parametrize("n", [24, 40])
@pytest.mark.parametrize("name", PARTS)
def test_values_and_gradients(name, n, rng):
    f, A = PARTS[name], rng.random((n, n))
    np.testing.assert_allclose(fgrad.jit(f)(A), fgrad.vjp(f, A)[0])
    gradient = fgrad.grad(lambda A: np.sum(f(A)))
    np.testing.assert_allclose(fgrad.jit(gradient)(A), gradient(A), atol=1e-12)
