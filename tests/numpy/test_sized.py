"""Results whose length depends on values: known values as NumPy, unknown ones with `size=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad.errors import TracedIndexError
from fgrad.trace import Builder, concrete

ARRAYS: dict[str, np.ndarray] = {
    "floats": np.array([3.0, 1.0, np.nan, 2.0, 1.0, np.nan]),
    "integers": np.array([3, 1, 3, 2, 1, 0]),
    "matrix": np.array([[3, 1, 2], [1, 3, 1]]),
    "bools": np.array([True, False, True]),
    "empty": np.zeros(0),
    "one": np.array([2.0]),
}
NEW = np.lib.NumpyVersion(np.__version__) >= "2.3.0"


def _leaves(out: Any) -> list[np.ndarray]:
    parts = out if isinstance(out, tuple) else (out,)
    return [np.asarray(concrete(x)) for x in parts]


def _eager(fun: Callable[..., Any], *args: Any) -> list[np.ndarray]:
    with Builder("grad", "f", eager=True) as builder:
        return _leaves(fun(*[builder.input(x) for x in args]))


def _same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.skipif(not NEW, reason="the shape of the inverse was another one")
def test_unique(name: str) -> None:
    x = ARRAYS[name]
    expected = np.unique(x, True, True, True)
    size = len(expected[0])
    _same(_eager(lambda a: np.unique(a, True, True, True), x), _leaves(expected))
    sized = fgrad.jit(lambda a: fnp.unique(a, True, True, True, size=size))
    _same(_leaves(sized(x)), _leaves(expected))
    values, counts = fnp.unique(x, return_counts=True, size=size + 2, fill_value=0)
    np.testing.assert_array_equal(values[:size], expected[0])
    np.testing.assert_array_equal(counts, [*expected[3], 0, 0])
    cut, counts = fnp.unique(x, return_counts=True, size=max(size - 1, 0))
    np.testing.assert_array_equal(cut, expected[0][: max(size - 1, 0)])
    np.testing.assert_array_equal(counts, expected[3][: max(size - 1, 0)])


@pytest.mark.parametrize("name", ("unique_all", "unique_counts", "unique_inverse"))
def test_array_api_forms(name: str) -> None:
    for x in ARRAYS.values():
        expected = tuple(getattr(np, name)(x))
        _same(_eager(lambda a: tuple(getattr(np, name)(a)), x), _leaves(expected))


OTHERS = [np.array([2, 3, 9, 9]), np.zeros(0, int)]


@pytest.mark.parametrize("name", ("intersect1d", "setdiff1d", "setxor1d", "union1d"))
def test_sets(name: str) -> None:
    function, sized = getattr(np, name), getattr(fnp, name)
    for x in (ARRAYS["integers"], ARRAYS["matrix"], np.zeros(0, int)):
        for y in OTHERS:
            expected = function(x, y)
            _same(_eager(function, x, y), _leaves(expected))
            n = len(expected)
            found = fgrad.jit(lambda a, b, n=n: sized(a, b, size=n))(x, y)
            _same(_leaves(found), _leaves(expected))
            longer = sized(x, y, size=n + 2, fill_value=-1)
            np.testing.assert_array_equal(longer[:n], expected)


@pytest.mark.parametrize("name", ("nonzero", "flatnonzero", "argwhere"))
def test_places(name: str) -> None:
    function, sized = getattr(np, name), getattr(fnp, name)
    for x in (ARRAYS["matrix"] > 1, ARRAYS["integers"], np.zeros((2, 0))):
        expected = function(x)
        n = len(expected[0] if name == "nonzero" else expected)
        _same(_eager(function, x), _leaves(expected))
        _same(_leaves(fgrad.jit(lambda a, n=n: sized(a, size=n))(x)), _leaves(expected))
    np.testing.assert_array_equal(fnp.flatnonzero([0, 5], size=3, fill_value=-1), [1, -1, -1])


def test_compress_and_extract() -> None:
    x, mask = np.arange(8.0).reshape(4, 2), np.array([True, False])
    found = fgrad.jit(lambda c, a: fnp.compress(c, a, axis=1, size=1))(mask, x)
    np.testing.assert_array_equal(found, x[:, :1])
    found = fgrad.jit(lambda a: fnp.extract(a > 2, a, size=6, fill_value=-1.0))(x)
    np.testing.assert_array_equal(found, [3, 4, 5, 6, 7, -1])


def test_counts_of_a_known_length() -> None:
    numbers = np.array([1, 4, 1, 0, 9])
    count = fgrad.jit(lambda i: fnp.bincount(i, length=5))
    np.testing.assert_array_equal(count(numbers), [1, 2, 0, 0, 1])
    weigh = fgrad.grad(lambda w: fnp.bincount(numbers, w, length=5)[1] ** 2)
    np.testing.assert_array_equal(weigh(np.ones(5)), [4, 0, 4, 0, 0])


def test_elements_have_derivatives() -> None:
    gradient = fgrad.jit(fgrad.grad(lambda a: np.sum(fnp.unique(a, size=3) ** 2)))
    np.testing.assert_array_equal(gradient(np.array([3.0, 1.0, 2.0])), [6.0, 2.0, 4.0])


@pytest.mark.parametrize("name", ("nonzero", "unique", "argwhere", "bincount", "setdiff1d"))
def test_the_card_names_the_keyword(name: str) -> None:
    args = (ARRAYS["integers"],) * (2 if name == "setdiff1d" else 1)
    with pytest.raises(TracedIndexError, match=rf"fgrad\.numpy\.{name}\(.*(size|length)=n"):
        fgrad.jit(getattr(np, name))(*args)
