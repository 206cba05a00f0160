"""Conditions that join parts of several types: only their truth counts, so that loops around them
stay loops, and values are those of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

X = np.random.default_rng(3).standard_normal(40)
CONDITIONS: dict[str, Callable[[Any, int], Any]] = {}


def case(function: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    CONDITIONS[function.__name__] = function
    return function


@case
def a_bit_and_a_comparison(x: Any, i: int) -> Any:
    if i & 1 and x[i] > 0.0:
        return x[i]
    return 0.0


@case
def a_comparison_and_a_bit(x: Any, i: int) -> Any:
    return 2.0 * x[i] if x[i] > 0.0 and i & 2 else x[i]


@case
def a_number_or_a_bit(x: Any, i: int) -> Any:
    if x[i] - x[3] or i % 3:
        return x[i]
    return -1.0


@case
def three_parts(x: Any, i: int) -> Any:
    return x[i] if i and x[i] and x[i] < 0.5 else 0.1


@case
def nested(x: Any, i: int) -> Any:
    return x[i] if (i & 1 or x[i] > 0.3) and not (i & 4 and x[i] < 0.0) else 0.25 * x[i]


@case
def negated(x: Any, i: int) -> Any:
    if not (x[i] > 0.0 or i & 2):
        return x[i] * x[i]
    return 0.5


@case
def a_python_bool_and_an_array_of_one(x: Any, i: int) -> Any:
    return x[i] if i > 5 and x[i : i + 1] else 1.5


@case
def a_while(x: Any, i: int) -> Any:
    k = i
    while k & 7 and x[k] > -1.0:
        k += 1
    return x[k]


@case
def a_break(x: Any, i: int) -> Any:
    total = 0.0
    for k in range(i, 40):
        if k & 4 and x[k] > 0.0:
            break
        total += x[k]
    return total


def summed(condition: Callable[[Any, int], Any], x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total = total + condition(x, i) * (1.0 + i)
    return total


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_loop_stays_one_and_is_right(name: str) -> None:
    def program(x: Any) -> Any:
        return summed(CONDITIONS[name], x)

    assert "unrolled" not in fgrad.explain_capture(program)(X)
    np.testing.assert_allclose(fgrad.jit(program)(X), program(X), rtol=1e-13)
    gradient = fgrad.grad(program)(X)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(program))(X), gradient, rtol=1e-12)
    step = 1e-6 * np.cos(np.arange(40.0))
    slope = (program(X + step) - program(X - step)) / 2
    np.testing.assert_allclose(gradient @ step, slope, rtol=1e-6)


def test_the_value_of_and_is_still_one_of_its_parts() -> None:
    def program(x: Any) -> Any:
        return (x[0] and x[1]) + (x[2] or x[3])

    for x in (np.array([0.0, 2.0, 0.0, 4.0]), np.array([1.0, 2.0, 3.0, 4.0])):
        assert fgrad.jit(program)(x) == program(x)


def test_the_truth_of_an_array_is_a_card_with_numpys_words() -> None:
    def program(x: Any) -> Any:
        return x[0] if x[0] > 0.0 and x else x[1]

    with pytest.raises(fgrad.errors.TracedBoolError, match="ambiguous"):
        fgrad.jit(program)(np.array([1.0, 2.0]))
