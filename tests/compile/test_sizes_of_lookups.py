"""Sizes as symbols where programs count, look up and take parts: each length has the bits that its
own trace gives, and an index out of bounds is refused at lengths that were never traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

LENGTHS = (7, 9, 12, 17, 23, 40)


def counted(x: Any, y: Any) -> Any:
    return np.sum(x.T * np.arange(len(y)), axis=1)


def chosen(x: Any, y: Any) -> Any:
    return x[np.arange(len(y)), y]


def along(x: Any, y: Any) -> Any:
    return np.take_along_axis(x, y[:, None], 1)


def differences(x: Any, y: Any) -> Any:
    return (x[1:] - x[:-1]) * x[0]


def cross_entropy(x: Any, y: Any) -> Any:
    x = x - x.max(axis=1, keepdims=True)
    logs = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))
    return -np.mean(logs[np.arange(len(y)), y])


def in_order(x: Any, y: Any) -> Any:
    return x[np.arange(len(x))[::-1]] * len(x)


PROGRAMS = [counted, chosen, along, differences, cross_entropy, in_order]


def _gradient(program: Callable[..., Any]) -> Callable[..., Any]:
    return fgrad.grad(lambda x, y: np.sum(program(x, y) ** 2))


def _arguments(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 4)), rng.integers(0, 4, n)


@pytest.mark.parametrize("transform", [lambda f: f, _gradient], ids=["value", "gradient"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_lengths_need_no_trace(program: Callable[..., Any], transform: Any) -> None:
    shared = fgrad.jit(transform(program), dynamic="auto")
    for n in LENGTHS:
        args = _arguments(n)
        np.testing.assert_array_equal(shared(*args), fgrad.jit(transform(program))(*args))
    assert "needed no trace" in str(fgrad.explain_retrace(shared))


@pytest.mark.parametrize("program", [chosen, along, cross_entropy])
def test_an_index_out_of_bounds_is_refused_at_all_lengths(program: Callable[..., Any]) -> None:
    shared = fgrad.jit(program, dynamic="auto")
    for n in LENGTHS:
        x, y = _arguments(n)
        shared(x, y)
        y[n // 2] = 4
        with pytest.raises(IndexError, match="out of bounds for axis 1 with size 4"):
            shared(x, y)
        shared(*_arguments(n))  # what was raised is forgotten


MASK = np.array([True, False, True, True])
AT_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: x[[0, 2]],
    "array": lambda x: x[np.array([0, 2])],
    "narrow": lambda x: x[np.array([0, 2], np.int32)],
    "from the end": lambda x: x[[-1, 0]],
    "all from the end": lambda x: x[np.array([-1, -2])] * 2.0,
    "grid": lambda x: x[[[0, -1], [1, 2]]],
    "pairs": lambda x: x[[0, -1], [1, 3]],
    "other axis": lambda x: x[:, [0, 2]],
    "other axis from the end": lambda x: x[:, [0, -1]],
    "mask of the other axis": lambda x: x[:, MASK],
    "slice and list": lambda x: x[1:, [0, 2]],
    "take": lambda x: np.take(x, [0, -2], axis=0),
}


@pytest.mark.parametrize("transform", ["value", "gradient"])
@pytest.mark.parametrize("name", AT_CONSTANTS)
def test_constant_places_keep_a_length(name: str, transform: str) -> None:
    """Longer arrays have these places too; shorter ones raise as for any length."""
    program = AT_CONSTANTS[name]
    function = program
    if transform == "gradient":
        function = fgrad.grad(lambda x: np.sum(program(x) ** 2))
    shared = fgrad.jit(function, dynamic="auto")
    for n in (9, 12, 101, 103, 117, 131, 3):
        x = np.random.default_rng(n).normal(size=(n, 4))
        np.testing.assert_array_equal(shared(x), fgrad.jit(function)(x))
    assert "needed no trace" in str(fgrad.explain_retrace(shared))
    if name in ("list", "array", "narrow", "grid"):
        with pytest.raises(IndexError):
            shared(np.ones((2, 4)))
