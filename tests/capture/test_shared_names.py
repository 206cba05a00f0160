"""What a branch or a loop gives several names: writing one is seen by the others, or refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import shared_lists_programs
import shared_names_programs

import fgrad
from fgrad.errors import FgradError
from fgrad.trace import Builder

PROGRAMS = [
    f
    for module in (shared_names_programs, shared_lists_programs)
    for f in vars(module).values()
    if getattr(f, "__module__", "") == module.__name__
]
X = np.array([0.3, -0.7, 1.1, 0.2, -1.4, 0.9])
RIGHT = ("h1", "h3", "h13", "p1", "p2", "p3", *[f"q{k}" for k in range(1, 9)])  # at least these run


def loss(f: Callable[..., Any], x: Any, t: Any) -> Any:
    """A number made of all results, which may be one array."""
    found = f(x * 1, t)
    results = found if type(found) is tuple else (found,)
    return sum([np.sum(np.sin(k + 1 + r)) for k, r in enumerate(results)])


def slopes(f: Callable[..., Any], t: float) -> np.ndarray:
    h = 1e-6
    each = h * np.eye(len(X))
    return np.array([(loss(f, X + e, t) - loss(f, X - e, t)) / (2 * h) for e in each])


def runs(f: Callable[..., Any], call: Callable[[], Any], surely: bool = True) -> Any:
    """The result, or None where a card refuses."""
    try:
        return call()
    except (FgradError, ValueError) as error:
        assert not surely or f.__name__ not in RIGHT
        assert isinstance(error, FgradError) or "read-only" in str(error)
        return None


@pytest.mark.parametrize("t", [-1.0, 0.1, 0.7])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_slopes_are_those_of_python(f: Callable[..., Any], t: float) -> None:
    value = loss(f, X, t)
    found = runs(f, lambda: fgrad.jit(loss, static_argnums=0)(f, X, t))
    if found is not None:
        np.testing.assert_allclose(found, value, rtol=1e-10)
    many = runs(f, lambda: fgrad.vmap(lambda t: loss(f, X, t))(np.array([0.7, t, 0.1])), False)
    if many is not None:
        np.testing.assert_allclose(many[1], value, rtol=1e-10)
    slope = runs(f, lambda: fgrad.jit(lambda x: fgrad.grad(lambda y: loss(f, y, t))(x))(X))
    if slope is not None:
        np.testing.assert_allclose(slope, slopes(f, t), rtol=1e-5, atol=1e-6)
    both = runs(f, lambda: fgrad.jit(lambda x, t: fgrad.grad(lambda y: loss(f, y, t))(x))(X, t))
    if both is not None:
        np.testing.assert_allclose(both, slopes(f, t), rtol=1e-5, atol=1e-6)


ASKED: tuple[Callable[..., Any], ...] = (
    lambda x, y: (x is y) * x,
    lambda x, y: x + (1.0 if y is not x else 2.0),
    lambda x, y: np.shares_memory(x, y) * x,
    lambda x, y: np.may_share_memory(x[1:], y[:4]) * x,
    lambda x, y: (x is y is x) * x,
)


@pytest.mark.parametrize("f", ASKED)
def test_whether_arguments_are_one_array_is_asked(f: Callable[..., Any]) -> None:
    jitted = fgrad.jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(X, X + 1), f(X, X + 1))
        with pytest.raises(FgradError, match="asks whether two arguments are one array"):
            jitted(X, X)


def read_alone(x: Any, t: Any) -> Any:
    a, b = [x, x * 2], [x * 3, x * 4]
    if t > 0.3:
        b = a
    return a[0] + b[1]


def test_a_trace_with_shared_lists_is_freed() -> None:
    def alive() -> int:
        gc.collect()
        return sum([isinstance(x, Builder) for x in gc.get_objects()])

    before = alive()
    fgrad.jit(read_alone)(X, 0.7)
    assert alive() <= before
