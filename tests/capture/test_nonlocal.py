"""Functions that change a variable of an enclosing function, called in loops and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

X = np.arange(1.0, 16.0).reshape(3, 5) / 7.0


def called_in_a_loop(x: Any) -> Any:
    total = 0.0

    def add(v: Any) -> None:
        nonlocal total
        total += v

    for v in x:
        add(v * v)
    return total


def two_deep(x: Any) -> Any:
    total = 0.0

    def outer(w: Any) -> None:
        def add(v: Any) -> None:
            nonlocal total
            total = total * 0.5 + v

        for v in w:
            add(v * v)

    outer(x)
    outer(x)
    return total


def accumulator() -> Callable[[Any], Any]:
    n = 0.0

    def step(v: Any) -> Any:
        nonlocal n
        n += v
        return n

    return step


def of_another_function(x: Any) -> Any:
    step, t = accumulator(), 0.0
    for v in x:
        t += step(v) * v
    return t


def in_each_step_a_new_one(x: Any) -> Any:
    t = 0.0
    for v in x:
        step = accumulator()
        t += step(v) + step(v * v)
    return t


def of_a_parameter(x: Any) -> Any:
    def run(start: Any) -> Any:
        def step(v: Any) -> None:
            nonlocal start
            start = start * 0.5 + v

        for v in x:
            step(v)
        return start

    return run(x[0])


def called_in_a_branch(x: Any) -> Any:
    total = x[0]

    def add(v: Any) -> None:
        nonlocal total
        if v > 0.5:
            total += v

    for v in x:
        add(v * v)
    return total


def with_a_loop_of_its_own(x: Any) -> Any:
    total = 0.0

    def add_all(w: Any) -> None:
        nonlocal total
        for v in w:
            total += v * v

    add_all(x)
    add_all(x * 2)
    return total


PROGRAMS = [
    called_in_a_loop,
    two_deep,
    of_another_function,
    in_each_step_a_new_one,
    of_a_parameter,
    called_in_a_branch,
    with_a_loop_of_its_own,
]
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": fgrad.vmap,
    "vmap(jit)": lambda f: fgrad.vmap(fgrad.jit(f)),
    "jit(vmap)": lambda f: fgrad.jit(fgrad.vmap(f)),
    "jit": lambda f: lambda xs: [fgrad.jit(f)(x) for x in xs],
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_are_those_of_python(program: Callable[..., Any], name: str) -> None:
    np.testing.assert_allclose(TRANSFORMS[name](program)(X), [program(x) for x in X])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_of_lanes(program: Callable[..., Any]) -> None:
    each = fgrad.grad(lambda xs: np.sum(fgrad.vmap(program)(xs)))(X)
    np.testing.assert_allclose(each, [fgrad.grad(program)(x) for x in X])
