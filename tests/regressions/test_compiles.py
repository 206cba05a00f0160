"""Programs that once could not be compiled."""

from __future__ import annotations

import numpy as np

import fgrad

RNG = np.random.default_rng(0)


def test_product_with_a_result_in_another_layout() -> None:
    """The transposed operand is kept for the derivative, as a buffer that is no matrix."""
    x, w = RNG.normal(size=(8, 16, 17)), RNG.normal(size=(16, 17))

    def product(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moved = np.swapaxes(np.cumprod(x, axis=0), -1, -2)
        return w @ moved, moved

    for result, expected in zip(fgrad.jit(product)(x), product(x), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    loss = lambda x: np.sum(np.sin(product(x)[0]))  # noqa: E731
    np.testing.assert_allclose(fgrad.grad(fgrad.jit(loss))(x), fgrad.grad(loss)(x), atol=1e-9)


def test_empty_loops_inside_of_others() -> None:
    x = np.ones((17, 5, 0), np.float32)

    def loss(x: np.ndarray) -> np.ndarray:
        return np.sum(x[:, np.array([-3, -3, 0, -2]), :]) + np.sum(np.minimum(2, x))

    assert fgrad.jit(fgrad.grad(loss))(x).shape == x.shape


def test_loops_around_empty_loops_only() -> None:
    x = np.zeros((4, 0))

    def sums(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        joined = np.concatenate([x, np.ones((4, 2))], axis=1)
        return joined, np.sum(x, axis=1), np.sum(x)

    for result, expected in zip(fgrad.jit(sums)(x), sums(x), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_sums_of_two_products() -> None:
    a, b = np.random.default_rng(3).normal(size=(2, 16, 16))

    def f(s: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (s + a.T @ b) + a @ b

    np.testing.assert_allclose(fgrad.jit(f)(2.0, a, b), f(2.0, a, b), rtol=1e-12)
