"""Cotangents that the steps of a loop add to one element are summed over the lanes of a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad


def product(A: Any, B: Any) -> Any:
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = s
    return C


def columns_first(A: Any, B: Any) -> Any:
    C = np.zeros((A.shape[0], B.shape[1]))
    for j in range(B.shape[1]):
        for i in range(A.shape[0]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
    return C


def distances(A: Any, B: Any) -> Any:
    D = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += (A[i, k] - B[k, j]) ** 2
            D[i, j] = np.sqrt(s + 1.0)
    return D


def chosen(A: Any, B: Any) -> Any:
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j] if A[i, k] > 0.5 else B[k, j]
            C[i, j] = s
    return C


def one_element(A: Any, B: Any) -> Any:
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = A[i, 0] * B[0, j] * A[0, 0]
    return C


def reversed_columns(A: Any, B: Any) -> Any:
    n = B.shape[1]
    C = np.zeros((A.shape[0], n))
    for i in range(A.shape[0]):
        for j in range(n):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, n - 1 - j]
            C[i, j] = s
    return C


PROGRAMS = (product, columns_first, distances, chosen, one_element, reversed_columns)
SIZES = ((3, 4, 16), (5, 17, 33), (18, 18, 18), (20, 3, 40), (2, 40, 70), (1, 1, 64), (17, 0, 20))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_those_of_the_prompt(
    program: Callable[..., Any], size: tuple[int, int, int], dtype: type
) -> None:
    if program is one_element and not size[1]:
        return
    rng = np.random.default_rng(sum(size))
    n, m, p = size
    A, B, W = (rng.random(s).astype(dtype) for s in ((n, m), (m, p), (n, p)))

    def loss(A: Any, B: Any) -> Any:
        return np.sum(W * program(A, B))

    compiled = fgrad.jit(fgrad.grad(loss, argnums=(0, 1)))(A, B)
    tolerance = 200 * float(np.finfo(dtype).eps)
    for found, expected in zip(compiled, fgrad.grad(loss, argnums=(0, 1))(A, B), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_array_read_twice(program: Callable[..., Any]) -> None:
    A, W = np.random.default_rng(0).random((2, 35, 35))

    def loss(A: Any) -> Any:
        return np.sum(W * program(A, A))

    found = fgrad.jit(fgrad.grad(loss))(A)
    np.testing.assert_allclose(found, fgrad.grad(loss)(A), rtol=1e-12)
    batch = fgrad.jit(fgrad.vmap(fgrad.grad(loss)))(np.stack([A, A.T]))
    np.testing.assert_allclose(batch[0], found, rtol=1e-12)


def test_a_loop_of_the_user_keeps_its_order() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 64)) * 10.0 ** rng.integers(-8, 8, (40, 64))

    def sums(x: Any) -> Any:
        h = np.zeros(40)
        for j in range(x.shape[1]):
            for k in range(x.shape[0]):
                h[k] += x[k, j]
        return h

    np.testing.assert_array_equal(fgrad.jit(sums)(x), sums(x))
