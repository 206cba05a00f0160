"""`range` whose start, stop and step may be traced, each or together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fgrad

ENDS, STEPS = (-7, -2, 0, 3, 8), (-9, -3, -2, -1, 1, 2, 3, 9)


def walk(x: Any, a: Any, b: Any, c: Any) -> Any:
    total, last = 0.0, -99
    for i in range(a, b, c):
        total = total + x * i * i
        last = i
    return total, last


def test_each_range_has_the_steps_that_python_has() -> None:
    compiled = fgrad.jit(walk)
    slope = fgrad.jit(fgrad.grad(lambda *args: walk(*args)[0]))
    for bounds in itertools.product(ENDS, ENDS, STEPS):
        assert compiled(1.5, *bounds) == walk(1.5, *bounds)
        assert slope(1.5, *bounds) == sum(i * i for i in range(*bounds))


def test_steps_of_a_batch_are_those_of_each_lane() -> None:
    found = fgrad.jit(fgrad.vmap(lambda c: walk(1.0, 9, -5, c)[0]))(np.array([-1, 2, -3, -20]))
    np.testing.assert_array_equal(found, [walk(1.0, 9, -5, c)[0] for c in (-1, 2, -3, -20)])


@pytest.mark.parametrize("bounds", [(0, 5, 0), (5, 0, 0), (3, 3, 0)])
def test_a_step_of_zero_raises_what_python_raises(bounds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="arg 3 must not be zero"):
        fgrad.jit(walk)(1.0, *bounds)


def test_a_float_is_no_step() -> None:
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        fgrad.jit(lambda c: walk(1.0, 0, 5, c))(2.0)


def sieve(n: Any) -> Any:
    is_prime = np.ones(n + 1, dtype=bool)
    is_prime[:2] = False
    for i in range(2, int(n**0.5) + 1):
        if is_prime[i]:
            for j in range(i * i, n + 1, i):
                is_prime[j] = False
    return is_prime


def test_a_sieve_is_two_loops() -> None:
    np.testing.assert_array_equal(fgrad.jit(sieve)(500), sieve(500))
    text = fgrad.explain_capture(sieve)(500)
    assert text.count("rolled: one loop of the program; carries 1 array\n") == 2
    assert "its integers are constants" in text
