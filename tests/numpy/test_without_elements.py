"""Arrays without elements, and integers without a positive counterpart: results and errors are
NumPy's, with values that are known or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

INTEGERS, FLOATS = np.zeros(0, np.int64), np.zeros((0, 0))

RESULTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "power of an exponent": (lambda x: x**-1, (INTEGERS,)),
    "power of a traced exponent": (lambda x, n: x**n, (INTEGERS, np.int64(-1))),
    "power of exponents": (lambda x, n: x**n, (INTEGERS, np.array([-1]))),
    "np.power": (lambda x: np.power(x, -2), (INTEGERS,)),
    "take": (lambda x: np.take(x, 0, axis=1, mode="wrap"), (FLOATS,)),
    "take by places": (lambda x: np.take(x, [0, 1], axis=0, mode="clip"), (FLOATS,)),
}
ERRORS: dict[str, tuple[Callable[..., Any], Any, type[Exception]]] = {
    "insert": (lambda x: np.insert(x, 1, x), np.zeros(0), IndexError),
    "insert before": (lambda x: np.insert(x, -1, x), np.zeros(0), IndexError),
    "insert in an axis": (lambda x: np.insert(x, 3, x[:, :0], axis=1), np.ones((2, 2)), IndexError),
    "initial": (lambda x: np.max(x, initial=-1), np.zeros((0, 3), np.uint32), OverflowError),
    "packbits": (lambda x: np.packbits(x, axis=()), np.zeros(0, bool), TypeError),
    "average of an axis": (lambda x: np.average(x, axis=-1), FLOATS, ZeroDivisionError),
    "lengths of axes": (lambda x: np.fft.ifftn(x, (8, 7, 5)), np.ones((3, 3)), ValueError),
    "lengths of real axes": (lambda x: np.fft.irfftn(x, (8, 1, 3)), np.ones((2, 3)), ValueError),
}


def batched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a batch of one."""
    return lambda *args: fgrad.vmap(function)(*[np.asarray(x)[None] for x in args])[0]


WAYS = [fgrad.jit, batched]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RESULTS)
def test_result(name: str, way: Callable[..., Any]) -> None:
    function, args = RESULTS[name]
    expected = function(*args)
    found = way(function)(*args)
    assert found.dtype == expected.dtype and found.shape == expected.shape


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy, of lengths without axes
def test_error(name: str, way: Callable[..., Any]) -> None:
    function, x, error = ERRORS[name]
    with pytest.raises(error):
        function(x)
    with pytest.raises(error):
        way(function)(x)


@pytest.mark.parametrize("way", WAYS)
def test_the_least_integer_is_its_own_size_in_unwrap(way: Callable[..., Any]) -> None:
    x = np.array([[-128, 0, 0, 64], [-128, 0, -96, 0]], np.int8)
    unwrap = lambda x: np.unwrap(x, 4)  # noqa: E731
    np.testing.assert_allclose(way(unwrap)(x), unwrap(x), atol=1e-12)
