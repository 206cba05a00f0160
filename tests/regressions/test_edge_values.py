"""Static arguments that Python calls equal, extreme exponents, and axes that are no integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad


def test_static_arguments_of_other_types_inside_tuples() -> None:
    scaled = fgrad.jit(lambda x, n: x * n[0], static_argnums=1)
    assert scaled(np.int64(3), (1,)).dtype == np.int64
    assert scaled(np.int64(3), (1.0,)).dtype == np.float64


def test_static_zeros_of_both_signs() -> None:
    scaled = fgrad.jit(lambda x, n: x * n, static_argnums=1)
    assert np.signbit(scaled(1.0, -0.0))
    assert not np.signbit(scaled(1.0, 0.0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ldexp_of_extreme_exponents(dtype: Any) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.5, np.inf, np.nan, np.finfo(dtype).max], dtype)
    powers = np.array([0, 1, -1, 60, -60, 1100, -1100, 2**31 - 1, -(2**31)], np.int32)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x[:, None], powers)
        result = fgrad.jit(np.ldexp)(x[:, None], powers)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@pytest.mark.parametrize("axis", [1.0, "0"])
def test_an_axis_is_an_integer(axis: Any) -> None:
    with pytest.raises(TypeError, match="integer"):
        fgrad.jit(lambda x: np.sum(x, axis=axis))(np.ones(3))


@pytest.mark.parametrize("dtype", ("u1", "i4", "i8", "u8"))
@pytest.mark.parametrize("number", (-1, 0, 5, 300, 2**40))
def test_traced_python_integers_compare_exactly(dtype: str, number: int) -> None:
    a = np.array([5, 255, 0], np.uint8).astype(dtype)

    def compare(x: Any, n: Any) -> Any:
        return x == n, x < n, n >= x, x != n

    for found, expected in zip(fgrad.jit(compare)(a, number), compare(a, number), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_masked_division_by_a_constant_zero_has_no_derivative() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 5.0, x / 0.0, 0.0))

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fgrad.grad(f)(np.ones(3)), np.zeros(3))
        np.testing.assert_array_equal(fgrad.jit(fgrad.grad(f))(np.ones(3)), np.zeros(3))
