"""Arrays of other libraries are arguments and operands; what they do not give away is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentWriteError, UnsupportedTypeError

X = np.array([1.0, 2.0, 3.0])


class Exported:
    """What all array libraries have in common: memory that others may see."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **given: Any) -> Any:
        return self.values.__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


class Converted(Exported):
    """With `__array__`, as torch and JAX have it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


class Elsewhere(Exported):
    """On a device, from where nothing is copied by itself."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("use x.get() to copy it")


TAKEN: dict[str, Callable[[Any], Any]] = {
    "jit": lambda x: fgrad.jit(lambda x: x * 2)(x),
    "grad": lambda x: fgrad.grad(lambda x: np.sum(x * x))(x),
    "vmap": lambda x: fgrad.vmap(lambda x: x * 2)(x),
    "tree": lambda x: fgrad.jit(lambda d: d["x"] * 2)({"x": x}),
    "operand": lambda x: fgrad.grad(lambda y: np.sum(y * x))(X) * 2,
    "left operand": lambda x: fgrad.grad(lambda y: np.sum(x * y))(X) * 2,
    "function": lambda x: fgrad.grad(lambda y: np.sum(np.multiply(x, y)))(X) * 2,
    "product": lambda x: fgrad.grad(lambda y: x @ y)(X) * 2,
    "closed over": lambda x: fgrad.jit(lambda y: y * x)(np.full(3, 2.0)),
}


@pytest.mark.parametrize("kind", [Exported, Converted])
@pytest.mark.parametrize("name", TAKEN)
def test_arrays_of_others_are_arrays(name: str, kind: type[Exported]) -> None:
    found = TAKEN[name](kind(X.copy()))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, 2 * X)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_not_given_away_is_refused_with_the_librarys_words(name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"use x.get\(\) to copy it"):
        TAKEN[name](Elsewhere(X))


@pytest.mark.parametrize("kind", [Exported, Converted])
def test_memory_outside_is_as_it_is_at_each_call(kind: type[Exported]) -> None:
    x = kind(X.copy())
    f = fgrad.jit(lambda y: y + x)
    np.testing.assert_array_equal(f(X), 2 * X)
    x.values += 1
    np.testing.assert_array_equal(f(X), 2 * X + 1)


def test_a_write_into_one_is_refused() -> None:
    def write(x: Any) -> Any:
        x[0] = 9.0
        return x

    with pytest.raises(ArgumentWriteError):
        fgrad.jit(write)(Converted(X.copy()))


def test_results_are_exported() -> None:
    y = fgrad.jit(lambda x: x * 2)(X)
    seen = np.from_dlpack(y)
    assert np.shares_memory(seen, y)


def test_a_keyword_argument_is_named() -> None:
    with pytest.raises(UnsupportedTypeError, match="b is a str"):
        fgrad.jit(lambda *, c, b, a: c)(c=1.0, b="s", a=2.0)
