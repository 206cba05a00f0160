"""Plain arrays at places that are traced: known ones by themselves, unknown ones by `at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import TracedArrayError

TABLE = np.arange(12.0).reshape(4, 3) ** 2
X = np.array([0.3, -0.2, 0.9, 0.1])

KNOWN: dict[str, Callable[[Any], Any]] = {
    "order": lambda x: np.sum(TABLE[np.argsort(x), 1] * x),
    "mask": lambda x: np.sum(TABLE[x > 0][:, 0] * x[x > 0]),
    "integers": lambda x: np.sum(TABLE[np.floor(3 * np.abs(x)).astype(int)] * x[:, None]),
    "an array of them": lambda x: np.sum(np.asarray(np.argsort(x), dtype=float) * x),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_places_in_a_plain_array(name: str) -> None:
    f = KNOWN[name]
    value, gradient = fgrad.value_and_grad(f)(X)
    assert value == f(X)
    for k in range(len(X)):
        step = 1e-6 * np.eye(len(X))[k]
        np.testing.assert_allclose(gradient[k], (f(X + step) - f(X - step)) / 2e-6, rtol=1e-6)


def test_an_array_of_known_integers_is_a_copy() -> None:
    def f(x: Any) -> Any:
        order = np.argsort(x)
        np.asarray(order)[:] = 0
        return np.sum(x[order] * np.arange(4.0))

    with fgrad.config.override(capture=False):
        assert fgrad.value_and_grad(f)(X)[0] == np.sum(np.sort(X) * np.arange(4.0))
    assert fgrad.value_and_grad(f)(X)[0] == f(X)  # captured, `np.asarray` gives the array itself


def test_unknown_integers_are_no_plain_array() -> None:
    with fgrad.config.override(capture=False):
        with pytest.raises(TracedArrayError):
            fgrad.jit(lambda x: TABLE[np.argsort(x)])(X)
        with pytest.raises(TracedArrayError):
            fgrad.vmap(lambda x: TABLE[np.argsort(x)])(X[None])


def test_captured_functions_read_plain_arrays_at_unknown_integers() -> None:
    def f(x: Any) -> Any:
        return TABLE[np.argsort(x)]

    np.testing.assert_array_equal(fgrad.jit(f)(X), f(X))
    np.testing.assert_array_equal(fgrad.vmap(f)(X[None]), f(X)[None])


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "row": lambda t, i: t[i[0]],
    "rows": lambda t, i: t[i],
    "elements": lambda t, i: t[i, i - 1],
    "column": lambda t, i: t[:, i[1]],
    "new axis": lambda t, i: t[None, i, 1:],
    "ellipsis": lambda t, i: t[..., i],
}


@pytest.mark.parametrize("name", PLACES)
def test_at_reads_a_plain_array_at_traced_places(name: str) -> None:
    class Reader:
        def __getitem__(self, index: Any) -> Any:
            return fgrad.at(TABLE)[index].get()

    take, places = PLACES[name], np.array([1, 2])
    expected = take(TABLE, places)
    read = lambda i: take(Reader(), i)  # noqa: E731
    np.testing.assert_array_equal(read(places), expected)
    np.testing.assert_array_equal(fgrad.jit(read)(places), expected)
    np.testing.assert_array_equal(fgrad.vmap(read)(places[None])[0], expected)
