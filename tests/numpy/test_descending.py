"""`descending=True` of sorts: the greatest first, NaN last, equal elements in their old order; what
NumPy 2.5 gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp

NAN = np.nan
ROWS: dict[str, tuple[Any, Any]] = {  # numbers, and the places of the greatest
    "floats": ([3.0, NAN, 1.0, np.inf, NAN, 1.0, -np.inf], [3, 0, 2, 5, 6, 1, 4]),
    "zeros": ([0.0, -0.0, 1.0, 0.0], [2, 0, 1, 3]),
    "integers": ([1, 2, 3, 3], [2, 3, 1, 0]),
    "small": (np.array([-128, 3, 127, 3], np.int8), [2, 1, 3, 0]),
    "unsigned": (np.array([1, 250, 3, 0], np.uint8), [1, 2, 0, 3]),
    "truth": ([True, False, True], [0, 2, 1]),
    "single": (np.array([NAN, 2.0, 5.0], np.float32), [2, 1, 0]),
    "half": (np.array([NAN, 2.0, 5.0], np.float16), [2, 1, 0]),
    "complex": ([1 + 2j, 1 - 1j, complex(NAN, 1), 2j, 3.0], [4, 0, 1, 3, 2]),
}


def in_place(x: Any) -> Any:
    y = x.copy()
    y.sort(descending=True)
    return y


@pytest.mark.parametrize("way", [lambda f: f, fgrad.jit])
@pytest.mark.parametrize("name", ROWS)
def test_order(name: str, way: Callable[..., Any]) -> None:
    x, places = np.asarray(ROWS[name][0]), np.array(ROWS[name][1])
    order = way(lambda x: fnp.argsort(x, stable=True, descending=True))(x)
    np.testing.assert_array_equal(order, places)
    for f in (lambda x: fnp.sort(x, descending=True), fgrad.jit(in_place)):
        found = way(f)(x)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x[places])
    several = way(lambda x: fnp.sort(x, axis=0, descending=True))(np.stack([x, x], axis=1))
    np.testing.assert_array_equal(several[:, 1], x[places])
    if np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        found = way(lambda x: np.sort(x, descending=True))(x)
        np.testing.assert_array_equal(found, np.sort(x, descending=True))


def test_derivative() -> None:
    x, w = np.array([3.0, 1.0, NAN, 2.0]), np.array([1.0, 10.0, 100.0, 1000.0])
    found = fgrad.grad(lambda x: np.sum(w[:3] * fnp.sort(x, descending=True)[:3]))(x)
    np.testing.assert_array_equal(found, [1.0, 100.0, 0.0, 10.0])
