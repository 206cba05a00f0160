"""Programs that once took far more time or memory than they need."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import peak

import fgrad
from fgrad.ir.aval import aval_of
from fgrad.trace import trace


def test_3_1_a_chain_of_linear_operations_keeps_none_of_its_arrays() -> None:
    def f(x: Any) -> Any:
        for _ in range(50):
            x = np.roll(x, 1) + 1.0
        return np.sum(x)

    x = np.ones(100_000)
    assert peak(lambda: fgrad.grad(f)(x)) < 8 * x.nbytes


def test_7_2_the_pullback_of_twenty_additions_holds_no_array() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = x + 1
        return x

    x = np.ones(100_000)
    kept = []
    assert peak(lambda: kept.append(fgrad.vjp(f, x)[1])) < 6 * x.nbytes
    tracemalloc.start()
    kept = [fgrad.vjp(f, x)[1]]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept and held < 0.1 * x.nbytes


def test_7_2_a_relu_network_keeps_two_arrays_a_layer() -> None:
    layers = 10
    weights = [np.eye(50) for _ in range(layers)]
    x = np.ones((2000, 50))

    def loss(weights: Any) -> Any:
        h = x
        for w in weights:
            h = np.maximum(h @ w + 0.1, 0.0)
        return np.sum(h)

    assert peak(lambda: fgrad.grad(loss)(weights)) < (2 * layers + 3) * x.nbytes


def test_3_2_reads_of_a_diagonal_in_a_loop_are_one_scatter_in_the_gradient() -> None:
    def f(a: Any) -> Any:
        total = 0.0
        for i in fgrad.unroll(range(a.shape[0])):
            total = total + a[i, i] ** 2
        return total

    a = np.random.default_rng(0).normal(size=(30, 30))
    program = trace(lambda a: [fgrad.grad(f)(a)], [aval_of(a)]).program
    assert [eqn.prim.name for eqn in program.eqns].count("scatter") == 1
    np.testing.assert_array_equal(fgrad.jit(fgrad.grad(f))(a), np.diag(2 * np.diag(a)))


def test_3_4_a_carried_array_that_a_loop_does_not_change_is_no_part_of_its_state() -> None:
    def f(a: Any) -> Any:
        return fgrad.lax.fori_loop(0, 10, lambda i, c: (c[0], c[1] * 0.5 + c[0][0]), (a, 1.0))[1]

    a = np.ones(1000)
    program = trace(lambda a: [f(a)], [aval_of(a)]).program
    (loop,) = [eqn for eqn in program.eqns if eqn.prim.name == "scan"]
    assert (1000,) not in [y.aval.shape for y in loop.outputs]
    np.testing.assert_allclose(fgrad.jit(f)(a), f(a))


LINEAR = fgrad.jit(lambda x: (x + x[::-1]) * 0.5 + 1.0)


@fgrad.custom_vjp
def clipped(x: Any) -> Any:
    """The identity, whose cotangents are clipped."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))

STEPS: dict[str, Callable[[Any], Any]] = {
    "jit": LINEAR,
    "scan": lambda x: fgrad.lax.scan(lambda c, _: (c * 0.5 + 1.0, None), x, length=3)[0],
    "while": lambda x: fgrad.lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (0, x)
    )[1],
    "fori": lambda x: fgrad.lax.fori_loop(0, 3, lambda _, c: np.roll(c, 1) * 0.5, x),
    "cond": lambda x: fgrad.lax.cond(True, lambda x: x * 0.5, np.sin, x),
    "custom_vjp": clipped,
    "checkpoint": fgrad.checkpoint(lambda x: np.roll(x, 1) + 1.0),
    "random numbers": lambda x: x + np.random.default_rng(0).normal(size=x.shape),
    "long constants": lambda x: np.concatenate([x[:9], x[9:] - np.arange(x.size - 9.0)]),
}


@pytest.mark.parametrize("step", STEPS)
def test_7_2_linear_steps_of_all_kinds_keep_no_array(step: str) -> None:
    def f(x: Any) -> Any:
        for _ in range(30):
            x = STEPS[step](x)
        return np.sum(x)

    x = np.ones(100_000)
    assert peak(lambda: fgrad.grad(f)(x)) < 12 * x.nbytes


def test_frozen_constants_are_written_again_and_dropped_ones_forgotten() -> None:
    large = np.ones(10_000)

    def f(x: Any) -> Any:
        y = x * large + np.ones(10_000)
        with pytest.raises(ValueError, match="read-only"):
            large[0] = 2.0
        return np.sum(y)

    fgrad.grad(f)(np.ones(10_000))
    large[0] = 2.0


def test_a_chain_of_views_is_looked_through_once() -> None:
    def f(x: Any) -> Any:
        y = np.ones(3) * x
        for _ in range(4000):
            y = y[::-1]
        y[0] = x * x
        return np.sum(y)

    assert fgrad.grad(f)(3.0) == 8.0


def test_long_chains_overflow_no_stack() -> None:
    def f(x: Any) -> Any:
        y = fgrad.numpy.zeros(2) + x
        for _ in range(15_000):
            x = np.where(x > 0, x + 1e-9, -x)
            y[0] = y[1] + x
        return np.sum(y) + x

    assert fgrad.grad(f)(1.0) == 4.0
    y, pull = fgrad.vjp(f, 1.0)
    assert pull(1.0) == (4.0,)
    del y, pull
