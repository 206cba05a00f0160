"""Branches and loops in a loop that updates arrays in place: what one overwrites, the next reads as
it was."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad import lax


def bounded(A):
    """Loops of at most so many steps, whose gradients have several branches on one array."""
    n = A.shape[0]

    def cell(i, c):
        j, B = c
        B[i, j] = 0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j]
        return j + 1, B

    def row(i, B):
        return lax.while_loop(lambda c: c[0] < i, lambda c: cell(i, c), (1, B), max_steps=n)[1]

    return np.sum(lax.fori_loop(1, n, row, 0.0 * A) * A)


def two_branches(A):
    """Two branches that both write, and read, one array."""

    def step(i, B):
        up = lax.cond(A[i, 0] > 0.5, lambda B: fgrad.at(B)[i].add(B[i - 1]), lambda B: B, B)
        down = lax.cond(A[i, 1] > 0.5, lambda B: fgrad.at(B)[i].mul(0.5), lambda B: B, B)
        return up + 0.25 * down

    return np.sum(lax.fori_loop(1, A.shape[0], step, A * 1.0) ** 2)


@pytest.mark.parametrize("n", [3, 6, 24, 40])
@pytest.mark.parametrize("fun", [bounded, two_branches])
def test_values_and_gradients(fun, n, rng):
    A = rng.random((n, n))
    value, pull = fgrad.vjp(fun, A)
    (right,) = pull(1.0)
    np.testing.assert_allclose(fgrad.jit(fun)(A), value)
    scale = float(np.max(np.abs(right)))
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(fun))(A) / scale, right / scale, atol=1e-12)
