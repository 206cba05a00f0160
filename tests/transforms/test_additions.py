"""Loops that add to elements: derivatives, errors, and what the loop in reverse carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.ir.program import Program

N, M = 40, 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
ROWS = RNG.normal(size=(N, 3))
PLACES = RNG.integers(-M, M, N)
OTHERS = RNG.integers(0, 3, N)


def added(x: Any, s: Any) -> Any:
    out = np.zeros(M)
    for i in range(N):
        out[s[i]] += x[i]
    return np.sum(out**3)


def added_on_the_left(x: Any, s: Any) -> Any:
    out = np.ones(M)
    for i in range(N):
        out[s[i]] = x[i] ** 2 + out[s[i]]
    return np.sum(out**3)


def subtracted(x: Any, s: Any) -> Any:
    out = np.zeros(M)
    for i in range(N):
        out[s[i]] -= x[i]
    return np.sum(out**3)


def two_indices(x: Any, s: Any) -> Any:
    out = np.zeros((M, 3))
    for i in range(N):
        out[s[i], i % 3] += x[i]
    return np.sum(out**3)


def rows(x: Any, s: Any) -> Any:
    out = np.zeros((M, 3))
    for i in range(N):
        out[s[i]] += x[i] * ROWS[i]
    return np.sum(out**3)


def to_two_arrays(x: Any, s: Any) -> Any:
    out, more = np.zeros(M), np.zeros(M)
    for i in range(N):
        out[s[i]] += x[i]
        more[s[i]] += np.sin(x[i])
    return np.sum(out * more)


def twice(x: Any, s: Any) -> Any:
    out = np.zeros(M)
    for i in range(N):
        out[s[i]] += x[i]
        out[s[i] // 2] += x[i] ** 2
    return np.sum(out**3)


def read_too(x: Any, s: Any) -> Any:
    out, total = np.zeros(M), 0.0
    for i in range(N):
        out[s[i]] += x[i]
        total = total + out[s[i]] * out[0]
    return total


def read_before(x: Any, s: Any) -> Any:
    out, total = np.zeros(M), 0.0
    for i in range(N):
        old = out[s[i]]
        out[s[i]] = old + x[i]
        total = total + old**2
    return total


def at_another_place(x: Any, s: Any) -> Any:
    out = np.ones(M)
    for i in range(N):
        out[s[i]] = out[s[i] // 2] * 0.5 + x[i]
    return np.sum(out**3)


def along_the_array(x: Any, s: Any) -> Any:
    out = np.zeros(N)
    for i in range(1, N):
        out[i] += out[i - 1] * 0.5 + x[i]
    return np.sum(out**3)


def on_a_condition(x: Any, s: Any) -> Any:
    out = np.zeros(M)
    for i in range(N):
        if x[i] > 0:
            out[s[i]] += x[i]
    return np.sum(out**3)


def nested(x: Any, s: Any) -> Any:
    out = np.zeros(M)
    for i in range(N):
        for j in range(3):
            out[s[i] // (j + 1)] += x[i] * j
    return np.sum(out**3)


def numbers_to_rows(x: Any, s: Any) -> Any:
    out = np.zeros((M, 3))
    for i in range(N):
        out[s[i]] += x[i]
    return np.sum(out**3)


def a_known_number_to_rows(x: Any, s: Any) -> Any:
    out = np.zeros((M, 3)) + x[0]
    for i in range(N):
        out[s[i]] += 1.5
    return np.sum(out**3) * x[1]


def a_known_number_from_rows(x: Any, s: Any) -> Any:
    out = x[: 3 * M].reshape(M, 3) * 1.0
    for row in out:
        row -= 0.25
    return np.sum(out**3)


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    f.__name__: f
    for f in (added, added_on_the_left, subtracted, two_indices, rows, to_two_arrays, twice,
              read_too, read_before, at_another_place, along_the_array, on_a_condition, nested,
              numbers_to_rows, a_known_number_to_rows, a_known_number_from_rows)
}  # fmt: skip


def _slopes(f: Callable[..., Any], x: Any) -> np.ndarray:
    step = 1e-6
    each = np.eye(N) * step
    return np.array([(f(x + e, PLACES) - f(x - e, PLACES)) / (2 * step) for e in each])


@pytest.mark.parametrize("name", LOOPS)
def test_gradients(name: str) -> None:
    f = LOOPS[name]
    np.testing.assert_allclose(fgrad.jit(f)(X, PLACES), f(X, PLACES), rtol=1e-12)
    found = fgrad.jit(fgrad.grad(f))(X, PLACES)
    np.testing.assert_allclose(found, _slopes(f, X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fgrad.grad(fgrad.jit(f))(X, PLACES), found, rtol=1e-12)
    turned = fgrad.jit(fgrad.jacfwd(f))(X, PLACES)
    np.testing.assert_allclose(turned, found, rtol=1e-10)
    second = fgrad.jit(fgrad.hessian(f))(X[:N], PLACES) @ np.ones(N)
    ahead = fgrad.jit(fgrad.grad(f))(X + 1e-6, PLACES)
    behind = fgrad.jit(fgrad.grad(f))(X - 1e-6, PLACES)
    np.testing.assert_allclose(second, (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_other_dtypes(dtype: str) -> None:
    def f(x: Any, s: Any) -> Any:
        out = np.zeros(M, dtype)
        for i in range(N):
            out[s[i]] += x[i]
        return np.sum(np.abs(out) ** 2)

    x = X.astype(dtype) * (1 + 0.5j if dtype == "c16" else 1)
    by_at = np.zeros(M, dtype)
    np.add.at(by_at, PLACES, x)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.grad(f))(x, PLACES), 2 * by_at[PLACES], rtol=1e-5, atol=1e-6
    )


def test_a_wider_sum_is_still_cut() -> None:
    def f(x: Any, s: Any) -> Any:
        out = np.zeros(M, np.float32)
        for i in range(N):
            out[s[i]] += x[i] * 1e-3
        return np.sum(out)

    value, gradient = fgrad.jit(fgrad.value_and_grad(f))(X, PLACES)
    assert value.dtype == np.float32
    assert value == f(X, PLACES)
    np.testing.assert_allclose(gradient, np.full(N, 1e-3), rtol=1e-6)


def test_places_outside_are_an_error_in_the_gradient_too() -> None:
    places = PLACES.copy()
    places[7] = M
    with pytest.raises(IndexError, match="out of bounds"):
        fgrad.jit(fgrad.grad(added))(X, places)
    places[7] = -M - 1
    with pytest.raises(IndexError, match="out of bounds"):
        fgrad.jit(fgrad.grad(added))(X, places)


def _bodies(program: Program) -> list[Program]:
    return [eqn.params["body"] for eqn in program.eqns if eqn.prim.name == "scan"]


@pytest.mark.parametrize("name", ["added", "subtracted"])
def test_the_loop_in_reverse_carries_no_array_for_what_is_only_added_to(name: str) -> None:
    stages = fgrad.inspect(fgrad.jit(fgrad.grad(LOOPS[name])))(X, PLACES)
    last = [s.result for s in stages.list if isinstance(s.result, Program)][-1]
    _, behind = _bodies(last)
    written = [eqn for eqn in behind.eqns if eqn.prim.name == "scatter"]
    assert [eqn.outputs[0].aval.shape for eqn in written] == [(N,)]  # the cotangent of x
    assert not [v for v in behind.inputs if v.aval.dtype == bool and v.aval.shape == (M,)]
    # Counters are known to be within the arrays.
    assert not [eqn for eqn in behind.eqns if eqn.prim.name == "clip"]
    assert len([eqn for eqn in behind.eqns if eqn.prim.name == "lt"]) <= 1
