"""What known arrays take instead of the general rule gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.ops import kept
from fgrad.ops.sort import FAST


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
@pytest.mark.parametrize("zero_first", [False, True])
@pytest.mark.parametrize("layout", ["plain", "number", "repeated", "strided"])
def test_long_selections(
    dtype: str, zero_first: bool, layout: str, rng: np.random.Generator
) -> None:
    n = kept.LONG + 7
    cond = rng.normal(size=n) > 0
    x: Any = (10 * rng.normal(size=2 * n)).astype(dtype)
    if dtype[0] == "f":
        x[:6:2] = np.nan, np.inf, -0.0
    x = {
        "plain": x[:n],
        "number": x[6],
        "repeated": np.broadcast_to(x[6], n),
        "strided": x[::2],
    }[layout]
    zero = np.dtype(dtype).type(0)
    pair = (zero, x) if zero_first else (x, zero)
    found, expected = kept.select(cond, *pair), np.where(cond, *pair)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("special", [None, 0.0, np.inf, np.nan, 1e-320, 1e200])
def test_products(axis: int | None, special: float | None, rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 1.5, (4, 5))
    if special is not None:
        x[1, 2] = special

    def f(x: Any) -> Any:
        return np.sum(np.prod(x, axis=axis) * np.arange(1.0, 5.0)[: 4 if axis == 1 else 1])

    with np.errstate(all="ignore"):
        expected = fgrad.jit(fgrad.grad(f))(x)
        np.testing.assert_allclose(fgrad.grad(f)(x), expected, rtol=1e-13, atol=1e-315)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [5, FAST + 3])
def test_sorts(ties: bool, n: int, rng: np.random.Generator) -> None:
    x = rng.permutation(n).astype(float)
    if ties:
        x = np.round(x / 3) - 1
        x[::5] *= -1
        x[1] = np.nan
    weights = np.arange(1.0, n + 1)
    gradient = fgrad.grad(lambda x: np.nansum(weights * np.sort(x)))(x)
    expected = np.empty(n)
    expected[np.argsort(x, kind="stable")] = weights
    np.testing.assert_array_equal(gradient[~np.isnan(x)], expected[~np.isnan(x)])
    found = fgrad.vjp(np.sort, x)[0]
    assert found.tobytes() == np.sort(x, kind="stable").tobytes()


@pytest.mark.parametrize(("name", "base"), [("logaddexp", np.e), ("logaddexp2", 2.0)])
def test_sums_of_powers_in_logarithms(name: str, base: float) -> None:
    f = getattr(np, name)
    x = np.array([0.0, 1.0, -700.0, np.inf, np.inf, -np.inf, -np.inf, 5.0])
    y = np.array([0.0, -2.0, 700.0, np.inf, 1.0, -np.inf, 1.0, np.inf])
    slope = np.array([0.5, 1 / (1 + base**-3), 0.0, 0.5, 1.0, 0.5, 0.0, 0.0])
    for pair, expected in (((x, y), slope), ((y, x), 1 - slope)):
        value, pullback = fgrad.vjp(lambda a, b: f(a, b), *pair)
        np.testing.assert_allclose(value, f(*pair))
        np.testing.assert_allclose(pullback(np.ones(8))[0], expected, rtol=1e-14, atol=1e-300)
        compiled = fgrad.jit(fgrad.grad(lambda a, b: np.sum(f(a, b)[:3])))(*pair)
        np.testing.assert_allclose(compiled[:3], expected[:3], rtol=1e-14, atol=1e-300)


def test_lengths() -> None:
    x = np.array([3.0, 0.0, 1e200, -2.0, np.inf, np.nan])
    y = np.array([4.0, 0.0, 1e200, 0.0, 1.0, 1.0])
    ones = np.ones(6)
    half = np.sqrt(0.5)
    for transform in (lambda f: f, fgrad.jit):
        found = transform(lambda x, y: fgrad.vjp(np.hypot, x, y)[1](ones))(x, y)
        np.testing.assert_allclose(found[0], [0.6, 0.0, half, -1.0, 0.0, np.nan])
        np.testing.assert_allclose(found[1], [0.8, 0.0, half, 0.0, 0.0, np.nan])
        np.testing.assert_allclose(transform(np.hypot)(x, y), np.hypot(x, y))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_long_arrays_of_short_sums(name: str, axis: int, rng: np.random.Generator) -> None:
    shape = [9, 50, 60]
    shape[axis] = 3
    x = rng.normal(size=shape)
    found = fgrad.vjp(lambda x: getattr(np, name)(x, axis=axis), np.repeat(x, 3, axis - 1))[0]
    expected = getattr(np, name)(np.repeat(x, 3, axis - 1), axis=axis)
    np.testing.assert_array_equal(found, expected)
