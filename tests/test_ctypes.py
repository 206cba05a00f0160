"""Functions of `ctypes` that are given traced values: right, or a card."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.base.system import c_library

HALF = c_library()["ldexp"]
HALF.restype, HALF.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_int]


def halved(x: Any) -> Any:
    return HALF(x, -1)


@pytest.mark.parametrize(
    ("transformed", "x", "words"),
    [
        (fgrad.jit(halved), 3.0, "pure_callback"),
        (fgrad.jit(halved), np.ones(2), "pure_callback"),
        (fgrad.vmap(halved), np.ones(2), "number"),
        (fgrad.grad(halved), 3.0, "is differentiated"),
        (fgrad.grad(lambda x: np.sum(x * halved(x))), np.ones(2), "plain array"),
    ],
    ids=["jit", "jit of an array", "vmap", "grad", "grad of an array"],
)
def test_a_value_that_is_not_there_or_loses_its_derivative(
    transformed: Any, x: Any, words: str
) -> None:
    with pytest.raises(ctypes.ArgumentError, match=words):
        transformed(x)


def test_a_value_that_is_known_and_constant() -> None:
    assert fgrad.grad(lambda x: x * halved(fgrad.stop_gradient(x)))(3.0) == 1.5
