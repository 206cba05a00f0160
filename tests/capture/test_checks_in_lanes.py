"""A batch raises what Python raises for one of its examples, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

X = np.arange(1.0, 6.0)


def along(x: Any, n: Any) -> Any:
    s, k = 0.0, 0
    while k < n:
        s += x[k]
        k += 1
    return s


def one_of(x: Any, n: Any) -> Any:
    return x[n] if n < 5 else -1.0


def loop_in_a_branch(x: Any, n: Any) -> Any:
    s = 0.0
    if n < 3:
        for k in range(3):
            s += x[n + k] ** 2
    return s


def branch_in_a_loop(x: Any, n: Any) -> Any:
    s = 0.0
    for k in range(9):
        if k < n:
            s += x[k] * k
        else:
            s += 1.0
    return s


def loop_in_a_loop(x: Any, n: Any) -> Any:
    s, k = 0.0, 0
    while k < n:
        j = 0
        while x[j] < 3.0:
            s += x[k] * x[j]
            j += 1
        k += 1
    return s


PROGRAMS = (along, one_of, loop_in_a_branch, branch_in_a_loop, loop_in_a_loop)


@pytest.mark.parametrize("transform", [fgrad.jit, lambda f: f], ids=["jit", "prompt"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_lanes_that_do_nothing_do_not_fail(
    function: Callable[..., Any], transform: Callable[..., Any]
) -> None:
    counts = np.array([5, 0, 2, 1])
    if function in (one_of, loop_in_a_branch):
        counts = np.array([0, 7, 2, 100])
    found = transform(fgrad.vmap(function, (None, 0)))(X, counts)
    np.testing.assert_allclose(found, [function(X, n) for n in counts])
    slopes = transform(fgrad.vmap(fgrad.grad(function), (None, 0)))(X, counts)
    right = [fgrad.jit(fgrad.grad(function))(X, int(n)) for n in counts]
    np.testing.assert_allclose(slopes, right)


@pytest.mark.parametrize("function", [along, branch_in_a_loop, loop_in_a_loop])
def test_a_lane_that_does_fails(function: Callable[..., Any]) -> None:
    with pytest.raises(IndexError):
        fgrad.vmap(function, (None, 0))(X, np.array([2, 6, 1]))
