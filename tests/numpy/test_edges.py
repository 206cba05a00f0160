"""Derivatives at ties, zeros and infinities: the conventions of fgrad."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

SLOPES: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "relu": (lambda x: np.where(x > 0, x, 0.0), 0.0, 0.0),
    "maximum": (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
    "minimum": (lambda x: np.minimum(x, 0.0), 0.0, 0.5),
    "clip low": (lambda x: np.clip(x, 0.0, 1.0), 0.0, 1.0),
    "clip high": (lambda x: np.clip(x, 0.0, 1.0), 1.0, 1.0),
    "clip one side": (lambda x: np.clip(x, 0.0, None), 0.0, 1.0),
    "clip outside": (lambda x: np.clip(x, 0.0, 1.0), 1.5, 0.0),
    "clip to a point": (lambda x: np.clip(x, 1.0, 1.0), 1.0, 0.0),
    "clip by itself": (lambda x: np.clip(2.0, x, x), 2.0, 1.0),
    "clip by itself, above": (lambda x: np.clip(2.0, x, x), 3.0, 1.0),
    "clip by itself, below": (lambda x: np.clip(2.0, x, x), 1.0, 1.0),
    "abs": (np.abs, 0.0, 0.0),
    "sqrt": (np.sqrt, 0.0, math.inf),
    "safe where": (lambda x: np.where(x < 1, x, np.sqrt(x)), 0.0, 1.0),
    "safe log": (lambda x: np.where(x > 0, np.log(x), x), 0.0, 1.0),
    "zeroth power": (lambda x: x**0.0, 0.0, 0.0),
    "square": (lambda x: x**2, 0.0, 0.0),
    "power": (lambda x: np.power(x, 3.0), 0.0, 0.0),
    "norm": (lambda x: np.linalg.norm(x * np.ones(3)), 0.0, 0.0),
    "norm.3": (lambda x: np.linalg.norm(x * np.ones(3), 3), 0.0, 0.0),
    "hypot": (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
    "std": (lambda x: np.std(x * np.ones(3)), 2.0, 0.0),
    "sinc": (np.sinc, 0.0, 0.0),
    "logaddexp tie": (lambda x: np.logaddexp(x, 2.0), 2.0, 0.5),
    "logaddexp both -inf": (lambda x: np.logaddexp(x, -math.inf), -math.inf, 0.5),
    "logaddexp one -inf": (lambda x: np.logaddexp(x, 1.0), -math.inf, 0.0),
    "logaddexp other -inf": (lambda x: np.logaddexp(x, -math.inf), 1.0, 1.0),
    "logaddexp large": (lambda x: np.logaddexp(x, 0.0), 1e4, 1.0),
    "logaddexp far": (lambda x: np.logaddexp(x, 0.0), -1e4, 0.0),
    "nan_to_num": (np.nan_to_num, math.inf, 0.0),
    "heaviside": (lambda x: np.heaviside(x, 0.5), 0.0, 0.0),
    "nansum": (lambda x: np.nansum(np.stack([x, math.nan])), 2.0, 1.0),
    "nanmean": (lambda x: np.nanmean(np.stack([x, math.nan, x])), 2.0, 1.0),
    "median": (lambda x: np.median(np.stack([x, 5.0 * x, 3.0 * x])), 1.0, 3.0),
    "sum where": (lambda x: np.sum(np.log(np.stack([x, 0 * x])), where=[True, False]), 2.0, 0.5),
}


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_slope(name: str) -> None:
    fun, x, slope = SLOPES[name]
    assert fgrad.grad(fun)(x) == pytest.approx(slope, abs=1e-15)
    assert fgrad.jvp(fun, (x,), (1.0,))[1] == pytest.approx(slope, abs=1e-15)


CURVATURES: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "logaddexp tie": (lambda x: np.logaddexp(x, 2.0), 2.0, 0.25),
    "sinc": (np.sinc, 0.0, -(math.pi**2) / 3),
    "hypot": (lambda x: np.hypot(x, 3.0), 3.0, 1 / (6 * math.sqrt(2))),
    "square": (lambda x: x**2, 0.0, 2.0),
    "cube": (lambda x: x**3, 0.0, 0.0),
}


@pytest.mark.parametrize("name", CURVATURES)
def test_curvature(name: str) -> None:
    fun, x, expected = CURVATURES[name]
    assert fgrad.grad(fgrad.grad(fun))(x) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_ties_of_reductions_share() -> None:
    x = np.array([1.0, 3.0, 3.0])
    np.testing.assert_array_equal(fgrad.grad(np.max)(x), [0, 0.5, 0.5])
    np.testing.assert_array_equal(fgrad.grad(np.ptp)(x), [-1, 0.5, 0.5])
    np.testing.assert_array_equal(fgrad.grad(lambda x: np.maximum(x[1], x[2]))(x), [0, 0.5, 0.5])


def test_products_with_zeros() -> None:
    x = np.array([2.0, 0.0, 3.0])
    np.testing.assert_array_equal(fgrad.grad(np.prod)(x), [0, 6, 0])
    np.testing.assert_array_equal(fgrad.grad(lambda x: np.cumprod(x)[-1])(x), [0, 6, 0])


def test_exponent_of_a_negative_base_is_not_asked_for() -> None:
    assert fgrad.grad(lambda x: (-x) ** 2)(3.0) == 6.0
    assert fgrad.grad(lambda x: np.power(x, 2))(-3.0) == -6.0
