"""Values that compiled loops compute twice have the same bits both times.

The derivative of a maximum compares each element with it.  Where the element was computed again by
another loop, with a fused multiply-add or with its sum in another order, no element was equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fgrad

RNG = np.random.default_rng(0)
SHAPES = [(3, 4), (5,), (7, 8)]


def _agree(loss: Callable[..., np.ndarray], shape: tuple[int, ...]) -> None:
    compiled = fgrad.jit(fgrad.grad(loss))
    for _ in range(40):
        x = RNG.normal(size=shape) * 2
        np.testing.assert_allclose(compiled(x), fgrad.grad(loss)(x), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_maximum_of_a_product_and_a_sum(shape: tuple[int, ...]) -> None:
    c, d = RNG.normal(size=shape), RNG.normal(size=shape)
    _agree(lambda x: np.max(x * c + d) + np.sum(np.sin(x * c)), shape)
    _agree(lambda x: np.sum(np.max(x * c + d, axis=-1) ** 2) + np.sum(x * c), shape)


def test_maximum_of_inner_products() -> None:
    def largest(x: np.ndarray) -> np.ndarray:
        squares = np.einsum("...i,...i->...", x, x)
        return np.max(squares) - np.min(squares) + np.sum(np.sin(squares))

    _agree(largest, (3, 4))
    _agree(lambda x: np.max(np.einsum("ij,ij->i", x, x)), (3, 8))


def test_mask_from_sums_that_are_read_twice() -> None:
    def kept(x: np.ndarray) -> np.ndarray:
        s = np.einsum("ij,ij->i", x, x)
        return np.sum(np.where(s >= np.max(s), s * s, 0.0))

    _agree(kept, (3, 4))


@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise_arithmetic_has_the_bits_of_numpy(shape: tuple[int, ...]) -> None:
    x, y, z = (RNG.normal(size=shape) for _ in range(3))
    np.testing.assert_array_equal(fgrad.jit(lambda a, b, c: a * b - c)(x, y, z), x * y - z)
