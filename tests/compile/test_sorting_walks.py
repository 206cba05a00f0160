"""Running totals and places of extrema along contiguous rows, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad.ops import reduce as rd

SHAPES = [(2,), (15,), (16,), (17,), (100,), (3, 65), (2, 3, 33), (1000, 7), (0, 4), (5, 1)]
CODES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8"]
SCANS = {
    "cumsum": (rd.cumsum, np.add),
    "cumprod": (rd.cumprod, np.multiply),
    "cummax": (rd.cummax, np.maximum),
    "cummin": (rd.cummin, np.minimum),
}


def numbers(code: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers, all exact in float32 as sums."""
    rng = np.random.default_rng(len(shape) + shape[-1])
    return rng.integers(0 if code[0] == "u" else -9, 9, shape).astype(code)


def accumulated(ufunc: np.ufunc, x: np.ndarray, reverse: bool) -> np.ndarray:
    """NumPy's running totals of the last axis."""
    if reverse:
        return ufunc.accumulate(x[..., ::-1], axis=-1, dtype=x.dtype)[..., ::-1]
    return ufunc.accumulate(x, axis=-1, dtype=x.dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", list(SCANS))
@pytest.mark.parametrize("code", CODES)
def test_scans(code: str, name: str, reverse: bool) -> None:
    """Every row, whole vectors and the rest of one."""
    scan, ufunc = SCANS[name]
    for shape in SHAPES:
        x = numbers(code, shape)
        found = fgrad.jit(lambda x: scan(x, len(x.shape) - 1, reverse))(x)
        np.testing.assert_array_equal(found, accumulated(ufunc, x, reverse))


@pytest.mark.parametrize("name", list(SCANS))
def test_scans_of_values_that_are_no_numbers(name: str) -> None:
    """NaN stays from where it is met; a zero keeps its sign in a sum."""
    scan, ufunc = SCANS[name]
    for code in ("f4", "f8"):
        x = numbers(code, (3, 40))
        x[0, 20], x[1, 3], x[1, 17], x[2, 30] = np.nan, np.inf, -np.inf, np.inf
        with np.errstate(invalid="ignore"):
            expected = accumulated(ufunc, x, False)
        np.testing.assert_array_equal(fgrad.jit(lambda x: scan(x, 1, False))(x), expected)
    zeros = fgrad.jit(lambda x: np.cumsum(x))(np.full(20, -0.0))
    assert np.signbit(zeros).all()


def test_products_do_not_overflow_on_their_way() -> None:
    """What has become 0 stays 0, however large the following factors are."""
    x = np.array([1e-300, 1e-300, 1e300, 1e300] * 5)
    np.testing.assert_array_equal(fgrad.jit(lambda x: np.cumprod(x))(x), np.cumprod(x))


def test_running_sums_are_accurate() -> None:
    """Rounding errors are not larger than NumPy's, which adds one element after the other."""
    x = np.random.default_rng(0).standard_normal(200_000).astype("f4")
    exact = np.cumsum(x, dtype="f8")
    error = np.abs(fgrad.jit(lambda x: np.cumsum(x))(x) - exact).max()
    assert error <= np.abs(np.cumsum(x) - exact).max()


def test_running_sums_of_computed_values_and_their_gradient() -> None:
    """A source is computed first; the transpose runs from the end."""
    x = np.random.default_rng(0).standard_normal((4, 50))

    def loss(x: np.ndarray) -> np.ndarray:
        return np.sum(np.cumsum(x * x, axis=1) ** 2)

    np.testing.assert_allclose(fgrad.jit(fgrad.grad(loss))(x), fgrad.grad(loss)(x), rtol=1e-12)


@pytest.mark.parametrize("function", [np.argmax, np.argmin])
@pytest.mark.parametrize("code", CODES)
def test_places_of_extrema(code: str, function: object) -> None:
    """The first of equal elements."""
    for shape in SHAPES:
        x = numbers(code, shape)
        found = fgrad.jit(lambda x: function(x, axis=-1))(x)
        np.testing.assert_array_equal(found, function(x, axis=-1))
        if x.size:
            assert fgrad.jit(lambda x: function(x))(x) == function(x)


@pytest.mark.parametrize("function", [np.argmax, np.argmin])
def test_places_of_nan(function: object) -> None:
    """The first NaN is before all numbers; infinities are numbers."""
    rng = np.random.default_rng(0)
    for code in ("f4", "f8"):
        for n in (2, 3, 16, 50, 333):
            x = rng.standard_normal((40, n)).astype(code)
            x[:10][rng.random((10, n)) < 0.1] = np.nan
            x[10:20] = np.where(x[10:20] < 0, -np.inf, np.inf)
            x[20], x[21] = -np.inf, np.inf
            x[22, -1] = np.nan
            found = fgrad.jit(lambda x: function(x, axis=1))(x)
            np.testing.assert_array_equal(found, function(x, axis=1))
