"""Numbers of classes derived from Python's are arrays of one number, as for NumPy."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad


class Real(float):
    """A number with a name."""


class Whole(int):
    """A count."""


class Pair(complex):
    """A point of the plane."""


class Level(enum.IntEnum):
    """Members are integers."""

    HIGH = 3


class Rate(float, enum.Enum):
    """Members are floats."""

    FAST = 2.5


NUMBERS = [Real(3.0), Whole(3), Pair(1 + 2j), Level.HIGH, Rate.FAST]
USES: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda x, n: x * n,
    "from the left": lambda x, n: n * x,
    "a ufunc": np.add,
    "power": lambda x, n: x**n,
    "where": lambda x, n: np.where(x > 1, x, n),
    "compared": lambda x, n: x == n,
    "full": lambda x, n: x + np.full(2, n),
    "in a list": lambda x, n: x + np.array([n, 1]),
    "beside an element": lambda x, n: np.array([x[0], n]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("use", USES)
def test_they_are_numbers(use: str, number: Any, dtype: str) -> None:
    fun, x = USES[use], np.array([1, 2], dtype)
    expected = fun(x, number)
    compiled = fgrad.jit(lambda x: fun(x, number))(x)
    for found in (compiled, fgrad.vjp(lambda x: fun(x, number), x)[0]):
        np.testing.assert_allclose(found, expected)
        assert found.dtype == expected.dtype
