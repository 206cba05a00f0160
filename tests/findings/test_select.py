"""Derivatives at points that a selection avoids, and at kinks of powers and extrema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from fgrad import grad, jit, jvp

AT_ZERO = {
    "x log x": (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0),
    "sqrt": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0),
    "sin(x) / x": (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), 0.0),
}


@pytest.mark.parametrize("what", AT_ZERO)
@np.errstate(all="ignore")
def test_1_13_the_branch_that_is_not_taken_has_no_part_in_a_gradient(what: str) -> None:
    f, right = AT_ZERO[what]
    for g in (grad(f), jit(grad(f)), grad(jit(f)), grad(grad(f)), jit(grad(grad(f)))):
        assert g(0.0) == right
    assert jvp(f, (0.0,), (1.0,))[1] == right


@pytest.mark.parametrize("extremum", [np.min, np.max])
def test_1_11_the_gradient_of_an_extremum_that_is_nan_is_nan(
    extremum: Callable[[Any], Any],
) -> None:
    x = np.array([1.0, np.nan, 2.0])
    assert np.isnan(grad(extremum)(x)).all() and np.isnan(jit(grad(extremum))(x)).all()
    assert np.isnan(jvp(extremum, (x,), (np.ones(3),))[1])


@np.errstate(all="ignore")
def test_1_11_the_slope_of_x_to_the_x_at_zero_is_minus_infinity() -> None:
    def f(x: Any) -> Any:
        return x**x

    assert grad(f)(0.0) == jit(grad(f))(0.0) == jvp(f, (0.0,), (1.0,))[1] == -np.inf


def test_6_the_slope_of_the_entropy_at_zero_is_infinite() -> None:
    entr = scipy.special.entr
    assert jvp(entr, (0.0,), (1.0,))[1] == grad(entr)(0.0) == jit(grad(entr))(0.0) == np.inf
