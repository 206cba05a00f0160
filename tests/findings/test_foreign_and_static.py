"""Entries 1.8 and 1.12: labelled and masked containers are refused; static arguments and keys are
told apart by type and bits."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import UnsupportedTypeError

X = np.array([1.0, 2.0, 3.0])


class Labelled:
    """What pandas, polars and xarray have in common: numbers, and a way to a plain array."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values

    def to_numpy(self) -> np.ndarray:
        return self.values


def _pandas() -> Any:
    return pytest.importorskip("pandas").Series(X)


def _xarray() -> Any:
    return pytest.importorskip("xarray").DataArray(X)


def _matrix() -> Any:
    with pytest.warns(PendingDeprecationWarning):
        return np.matrix([[1.0, 2.0, 3.0]])


CONTAINERS: dict[str, Callable[[], Any]] = {
    "labelled": lambda: Labelled(X),
    "pandas": _pandas,
    "xarray": _xarray,
    "masked": lambda: np.ma.masked_array(X, [False, True, False]),
    "matrix": _matrix,
}

TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": fgrad.grad,
    "value_and_grad": fgrad.value_and_grad,
    "vjp": lambda f: lambda x: fgrad.vjp(f, x),
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (X,)),
    "linearize": lambda f: lambda x: fgrad.linearize(f, x),
    "jacrev": fgrad.jacrev,
    "hessian": fgrad.hessian,
    "vmap": fgrad.vmap,
    "jit": fgrad.jit,
    "remat": lambda f: fgrad.grad(fgrad.remat(f)),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_1_8_an_argument_that_is_no_plain_array_is_refused(transform: str, container: str) -> None:
    x = CONTAINERS[container]()
    with pytest.raises(UnsupportedTypeError, match="traces plain arrays") as caught:
        TRANSFORMS[transform](lambda a: np.sum(a * a))(x)
    assert "write" in str(caught.value)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "times": lambda x, c: x * c,
    "matmul": lambda x, c: x @ c,
    "less": lambda x, c: np.where(x < c, x, 0.0),
    "where": lambda x, c: np.where(x > 0, x, c),
    "dot": lambda x, c: np.dot(c, x),
    "concatenate": lambda x, c: np.concatenate([x, np.ravel(x), c]),
    "stack": lambda x, c: np.stack([x, c]),
    "reflected": lambda x, c: c * x,
    "multiply": lambda x, c: np.multiply(c, x),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("transform", ("grad", "jit"))
def test_1_8_a_constant_that_is_no_plain_array_is_refused(
    transform: str, operation: str, container: str
) -> None:
    c = CONTAINERS[container]()
    with pytest.raises(TypeError):
        TRANSFORMS[transform](lambda x: np.sum(OPERATIONS[operation](x, c)))(X)


@dataclasses.dataclass(frozen=True)
class Box:
    value: Any


class Level(enum.IntEnum):
    ONE = 1


Pair = collections.namedtuple("Pair", "a b")

EQUAL = {
    "one": (1, 1.0, True, np.float32(1), np.float64(1), np.int8(1), 1 + 0j, Level.ONE),
    "zero": (0.0, -0.0, 0, False, 0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)),
    "nan": (float("nan"), np.float32("nan")),
}

PLACES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda v: v,
    "tuple": lambda v: (v, (v,)),
    "named tuple": lambda v: Pair(v, 2),
    "dataclass": Box,
    "nested dataclass": lambda v: Box(Box(v)),
    "frozenset": lambda v: frozenset([v]),
    "frozenset of dataclasses": lambda v: frozenset([Box((v,))]),
}


@pytest.mark.parametrize("values", EQUAL.values(), ids=list(EQUAL))
@pytest.mark.parametrize("place", PLACES)
def test_1_12_static_arguments_have_a_trace_for_each_type_and_bits(
    place: str, values: tuple[Any, ...]
) -> None:
    traced = []

    def f(x: Any, static: Any) -> Any:
        traced.append(static)
        return x

    jitted = fgrad.jit(f, static_argnums=1)
    for _ in range(3):
        for value in values:
            jitted(1.0, PLACES[place](value))
    assert [repr(s) for s in traced] == [repr(PLACES[place](value)) for value in values]


def test_1_12_the_keys_one_true_and_one_point_zero_are_three_structures() -> None:
    jitted = fgrad.jit(lambda tree: {key: 2.0 * x for key, x in tree.items()})
    for _ in range(3):
        for key in (1, True, 1.0, np.int64(1)):
            (found,) = jitted({key: 1.0})
            assert type(found) is type(key)
