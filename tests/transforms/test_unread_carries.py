"""What a loop carries and no result reads has no cotangent: neither numbers that are not finite in
it nor its derivatives reach a gradient.  Python's own loops at the prompt say what is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {}


def case(program: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    PROGRAMS[program.__name__] = program
    return program


@case
def a_sum_beside(x: Any, t: Any) -> Any:
    s, e = x.copy(), np.sum(x * x)
    for k in range(8):
        s[k % 4] = s[k % 4] * 0.5 + t[k]
        e = e + s[k % 4] * s[k % 4]
    return np.sum(s)


@case
def in_a_branch(x: Any, t: Any) -> Any:
    s, e = x.copy(), np.sum(x * x)
    for k in range(8):
        new = s[k % 4] + t[k]
        if new < 0.5:
            e += new * new - s[k % 4]
            s[k % 4] = new
    return np.sum(s)


@case
def in_a_nest(x: Any, t: Any) -> Any:
    s, e, f = x.copy(), np.sum(x * x), x[1] * 1.0
    for k in range(8):
        for j in range(4):
            s[j] = s[j] + 0.1 * t[k]
            e = e * s[j]
        f = f + e
    return np.sum(s)


@case
def in_a_while(x: Any, t: Any) -> Any:
    s, e, k = x.copy(), np.sum(x * x), 0
    while t[k] < 0.5:
        s[k % 4] = s[k % 4] * 0.5
        e = e * s[k % 4] + x[1]
        k = k + 1
    return np.sum(s)


@case
def two_that_read_each_other(x: Any, t: Any) -> Any:
    s, e, f = x.copy(), x[1] * x[1], x[1] + 1.0
    for k in range(8):
        e, f = f * t[k], e + s[k % 4]
        s[k % 4] = s[k % 4] + t[k]
    return np.sum(s)


@case
def one_that_is_read_late(x: Any, t: Any) -> Any:
    s, e, f = x[0] * 1.0, x[2] * 1.0, x[1] * x[1]
    for k in range(8):
        s, e, f = s + e, e * t[k], f * s
    return s


@case
def of_a_scan(x: Any, t: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        s, e = carry
        return (s * 0.5 + v, e * e * s[1]), e * s[0]

    (s, _), _ = lax.scan(step, (x, x[1] * x[1]), t)
    return np.sum(s)


@case
def of_a_while_loop(x: Any, t: Any) -> Any:
    def step(state: Any) -> Any:
        k, s, e = state
        return k + 1, s * 0.5, e * e * s[1]

    return np.sum(lax.while_loop(lambda state: state[1][0] > 0.01, step, (0, x, x[1] * x[1]))[1])


X, T = np.array([1.0, 2.0, 0.1, -1.0]), np.linspace(-1.0, 1.0, 8)


def gradients(program: Callable[[Any, Any], Any], x: Any) -> list[Any]:
    """At the prompt, compiled, as a batch, and forwards."""
    gradient = fgrad.grad(program)
    batched = fgrad.vmap(gradient, in_axes=(0, None))
    return [
        gradient(x, T),
        fgrad.jit(gradient)(x, T),
        fgrad.jit(batched)(np.stack([x, X]), T)[0],
        fgrad.jit(fgrad.jacfwd(program))(x, T),
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_ways_agree(name: str) -> None:
    ways = gradients(PROGRAMS[name], X)
    step = 1e-6 * np.cos(np.arange(4.0))
    slope = (PROGRAMS[name](X + step, T) - PROGRAMS[name](X - step, T)) / 2
    np.testing.assert_allclose(ways[0] @ step, slope, rtol=1e-6)
    for way in ways[1:]:
        np.testing.assert_allclose(way, ways[0], rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_finite_stays_outside(name: str, bad: float) -> None:
    x = X.copy()
    x[1] = bad
    with np.errstate(all="ignore"):
        for way in gradients(PROGRAMS[name], x):
            assert np.isfinite(way).all(), way


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives(name: str) -> None:
    def slope(x: Any) -> Any:
        return np.sum(fgrad.grad(PROGRAMS[name])(x, T) * np.arange(1.0, 5.0))

    whole = fgrad.hessian(lambda x: PROGRAMS[name](x, T))(X)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.grad(slope))(X), whole @ np.arange(1.0, 5.0), rtol=1e-10, atol=1e-12
    )
