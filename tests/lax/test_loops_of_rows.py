"""Loops that work on rows: one kernel with vectors at every length, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from tests.lax.test_loop_kernels import kernels, loops

SIZES = (3, 9, 40, 65, 200, 511, 513, 600)


def recurrence(a: Any) -> Any:
    b = np.zeros_like(a)
    b[0] = a[0]
    for i in range(1, a.shape[0]):
        b[i] = a[i] - 0.5 * b[i - 1] * a[i]
    return b


def columns(a: Any) -> Any:
    return recurrence(a.T)


def three(a: Any) -> Any:
    b = np.zeros_like(a)
    for i in range(1, a.shape[0] - 1):
        b[i] = a[i - 1] + a[i] * a[i] + a[i + 1]
    return b


def constants(a: Any) -> Any:
    """Numbers that differ from place to place, and some that do not."""
    weights, bits = np.cos(np.arange(a.shape[1])), np.arange(a.shape[1]) % 3 == 1
    b = a * 1.0
    for i in range(1, a.shape[0]):
        b[i] = np.where(bits, weights * b[i - 1], a[i] * np.full(a.shape[1], 0.5)) + b[i - 1]
    return b


IN_LANES: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (recurrence, columns, three, constants)
}


def compared(f: Callable[[Any], Any], x: np.ndarray) -> None:
    """Value and gradient are those at the prompt."""
    weights = np.random.default_rng(3).normal(size=np.shape(f(x)))
    gradient = fgrad.grad(lambda x: np.sum(weights * f(x)))
    np.testing.assert_allclose(fgrad.jit(f)(x), f(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fgrad.jit(gradient)(x), gradient(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", IN_LANES)
@pytest.mark.parametrize("n", SIZES)
def test_rows_of_any_length(name: str, n: int, rng: np.random.Generator) -> None:
    shape = (n, 12) if name == "columns" else (12, n)
    compared(IN_LANES[name], rng.normal(size=shape))


@pytest.mark.parametrize("name", IN_LANES)
def test_gradients_are_lanes(name: str, rng: np.random.Generator) -> None:
    shape = (50, 12) if name == "columns" else (12, 50)
    found = kernels(fgrad.grad(lambda x: np.sum(IN_LANES[name](x) ** 2)), rng.normal(size=shape))
    (backward,) = [k for k in found if loops(k, "serial") and k.body][-1:]
    assert [loop.lanes > 1 for loop in loops(backward, "parallel")] == [True]
