"""Switches by one number become one, where nothing between them needs what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.compile.loops.join_branches import join_branches
from fgrad.compile.passes.cse import cse
from fgrad.ir.program import Program
from fgrad.trace import run


def apart(i: Any, x: Any) -> Any:
    y = lax.switch(i, [np.sin, np.cos], x)
    z = lax.switch(i, [lambda x: 2 * x, np.exp], x)
    return y + z


def chained(i: Any, x: Any) -> Any:
    y = lax.switch(i, [np.sin, np.cos], x)
    return lax.switch(i, [lambda x: 2 * x, np.exp], y)


def of_several(i: Any, x: Any) -> Any:
    y = lax.switch(i, [np.sin, np.cos], x)
    z = lax.switch(i + 1, [np.sin, np.cos, np.tan], x)
    w = lax.switch(i, [np.cos, np.sin], x)
    return y * z + w


def with_one_function(i: Any, x: Any) -> Any:
    c, y = np.arange(3.0), 2 * x
    branches = [lambda x: x + c, lambda x: x * c]
    return lax.switch(i, branches, x) - lax.switch(i, branches, y)


def read_between(i: Any, x: Any) -> Any:
    y = lax.switch(i, [np.sin, np.cos], x)
    z = np.sqrt(x)
    return y + lax.switch(i, [np.cos, np.sin], x) + z


def switches(program: Program) -> int:
    return sum([eqn.prim.name == "switch" for eqn in program.eqns])


@pytest.mark.parametrize(
    ("fun", "count"),
    [(apart, 1), (chained, 2), (of_several, 3), (with_one_function, 1), (read_between, 2)],
)
def test_joined(fun: Callable[..., Any], count: int, rng: np.random.Generator) -> None:
    x = rng.random(3)
    program = fgrad.make_program(fun)(1, x)
    joined = join_branches(cse(program))
    assert switches(joined) == count
    for i in (0, 1):
        for given, right in zip(run(joined, [np.int64(i), x]), [fun(i, x)], strict=True):
            np.testing.assert_array_equal(given, right)
