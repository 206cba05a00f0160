"""Reverse mode through loops and branches: twice where bodies keep factors, and in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

MATRIX = np.array([[2.0, 0.3, -0.1], [0.2, 1.5, 0.4], [-0.3, 0.1, 1.8]])

# What `solve` and `det` keep are factors, by which no derivative passes.
KEPT: dict[str, Callable[[Any], Any]] = {
    "solve": lambda a: np.linalg.solve(a, a[0]),
    "det": lambda a: np.linalg.det(a) * a[0],
    "slogdet": lambda a: np.linalg.slogdet(a)[1] * a[0],
    "inv": lambda a: np.linalg.inv(a)[0],
}


def scanned(body: Callable[[Any], Any], a: Any) -> Any:
    step = lambda c, x: (np.tanh(body(a + x * c)), c)  # noqa: E731
    last, rows = lax.scan(step, a[0], np.full((3, 3, 3), 0.1))
    return np.sum(last) + np.sum(rows**2)


def looped(body: Callable[[Any], Any], a: Any) -> Any:
    go, step = (lambda s: s[1] < 3), (lambda s: (np.tanh(body(a * 1.3 + s[0])), s[1] + 1))
    return np.sum(lax.while_loop(go, step, (a[0], 0))[0] ** 2)


def branched(body: Callable[[Any], Any], a: Any) -> Any:
    return np.sum(lax.cond(a[0, 0] > 0, lambda a: body(a) ** 2, lambda a: a[0], a))


@pytest.mark.parametrize("around", [scanned, looped, branched])
@pytest.mark.parametrize("name", KEPT)
def test_reverse_over_reverse_is_forward_over_reverse(
    name: str, around: Callable[..., Any]
) -> None:
    gradient = fgrad.grad(lambda a: around(KEPT[name], a))
    direction = np.cos(np.arange(9.0)).reshape(3, 3)
    twice = fgrad.grad(lambda a: np.sum(gradient(a) * direction))(MATRIX)
    pushed = fgrad.jvp(gradient, (MATRIX,), (direction,))[1]
    np.testing.assert_allclose(twice, pushed, rtol=1e-9)


@pytest.mark.parametrize("lanes", [2, 3, 5])
def test_batches_of_loops_with_sines_of_their_state(lanes: int) -> None:
    """Lanes beyond the last one take no rare path of the sine."""

    def f(y: Any) -> Any:
        return np.sum(lax.fori_loop(0, 3, lambda i, c: np.sin(c) * 0.9 + 0.1 * i * y, y))

    rows = np.random.default_rng(0).normal(size=(lanes, 3))
    both = fgrad.vmap(fgrad.value_and_grad(f))
    compiled = fgrad.jit(both)
    for _ in range(3):
        for found, expected in zip(compiled(rows), both(rows), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
