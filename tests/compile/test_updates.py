"""Pass `update_in_place`: what is updated where it is read for the last time is not copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.steps import AliasStep

X = np.random.default_rng(0).standard_normal((6, 5))


def rows(x: Any) -> Any:
    y = np.sin(x)
    for i in fgrad.unroll(range(5)):
        y[i] = x[i] * 2
    return y


def products(x: Any) -> Any:
    y = x @ x.T
    for i in fgrad.unroll(range(5)):
        y[i + 1 :, i] = y[i, i + 1 :] = x[i] @ x[i + 1 :].T
    return y


def read_before(x: Any) -> Any:
    y = np.cos(x)
    s = 0.0
    for i in fgrad.unroll(range(5)):
        s = s + np.sum(y @ x.T)
        y[i] = s
    return y


def factors(x: Any) -> Any:
    y = x @ x.T + 9 * fgrad.numpy.eye(6)
    for i in fgrad.unroll(range(1, 4)):
        for j in range(i):
            y[i, j] -= y[i, :j] @ y[:j, j]
            y[i, j] /= y[j, j]
        y[i, i:] -= y[i, :i] @ y[:i, i:]
        y[i] *= 1.5
    return y


def read_after(x: Any) -> Any:
    y = np.cos(x)
    olds = []
    for i in fgrad.unroll(range(5)):
        olds.append(y.copy())
        y[i] = 0.5
    return sum(olds) + y


def moved(x: Any) -> Any:
    y = np.cos(x)
    for i in fgrad.unroll(range(5)):
        y[i + 1] = y[i] * y[i + 1]
        y[:, i] += y[:, i - 1]
    return y


def through_reshapes(x: Any) -> Any:
    y = np.cos(x).reshape(-1)
    for i in fgrad.unroll(range(5)):
        y[i : i + 3] = y[::-1][i : i + 3] * 2
        y.reshape(5, 6)[i] += y.reshape(6, 5).T[0]
    return y, y.reshape(2, 15)


def scattered(x: Any) -> Any:
    y = np.cos(x)
    for i in fgrad.unroll(range(5)):
        y[np.array([0, i, 5]), 2] = x[i, 0]
        y[[1, 2]] *= 3
    return y


def argument(x: Any) -> Any:
    z = x * 2
    for i in fgrad.unroll(range(3)):
        x[i] = 7.0
        z[i] += x[i + 1]
    return z


def returned_twice(x: Any) -> Any:
    y = np.cos(x)
    first = y.copy()
    y[0] = 1
    second = y.copy()
    y[1] = 2
    return first, second, y


def constant(x: Any) -> Any:
    y = fgrad.numpy.array(X)
    y[0] = x[1]
    y[1] = x[0]
    return y + X


PROGRAMS = (
    rows, products, factors, read_before, read_after, moved, through_reshapes, scattered, argument,
    returned_twice, constant,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_values_are_those_of_numpy(f: Callable[..., Any]) -> None:
    given, expected = X.copy(), X.copy()
    found, right = fgrad.jit(f)(given), f(expected)
    for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_array_equal(given, expected)
    value = fgrad.grad(lambda x: sum(np.sum(np.sin(a)) for a in fgrad.tree.leaves(f(x * 1))))
    np.testing.assert_allclose(fgrad.jit(value)(X.copy()), value(X.copy()), rtol=1e-9)


@pytest.mark.parametrize(("f", "least"), [(rows, 4), (products, 9), (factors, 12), (scattered, 4)])
def test_no_copies_are_made_of_what_nobody_reads(f: Callable[..., Any], least: int) -> None:
    stages = compile_program(fgrad.make_program(f)(X)).stages
    (steps,) = [stage.result for stage in stages if stage.name == "update_in_place"]
    assert len([step for step in steps if isinstance(step, AliasStep)]) >= least
