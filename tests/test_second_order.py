"""L-BFGS and searches along lines: SciPy's minima, complex parameters, jit, vmap and loops."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import fgrad
from fgrad import lax, optim
from fgrad.errors import ArgumentError

RNG = np.random.default_rng(4)
WIDE = RNG.normal(size=(8, 5)) + 1j * RNG.normal(size=(8, 5))
TARGET = WIDE @ (np.arange(5) + 1j)


def valley(w: Any) -> Any:
    return np.sum(100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2)


def distance(z: Any) -> Any:
    return np.sum(np.abs(WIDE @ z - TARGET) ** 2)


def of_tree(p: Any) -> Any:
    return distance(p["z"]) + np.sum((p["x"] - 3) ** 4)


def trained(optimizer: Any, loss: Callable[[Any], Any], w: Any, steps: int) -> tuple[Any, Any]:
    @fgrad.jit
    def step(w: Any, state: Any) -> Any:
        value, grad = fgrad.value_and_grad(loss)(w)
        updates, state = optimizer.update(grad, state, w, value=value, grad=grad, value_fn=loss)
        return optim.apply_updates(w, updates), state, value

    state, values = optimizer.init(w), []
    for _ in range(steps):
        w, state, value = step(w, state)
        values.append(float(value))
    assert all(b <= a for a, b in itertools.pairwise(values))
    return w, state


def test_the_minimum_that_scipy_finds() -> None:
    wanted = scipy.optimize.minimize(valley, np.zeros(6), jac=fgrad.grad(valley)).x
    np.testing.assert_allclose(
        trained(optim.lbfgs(), valley, np.zeros(6), 60)[0], wanted, atol=1e-4
    )


def test_complex_parameters_and_trees() -> None:
    z, _ = trained(optim.lbfgs(), distance, np.zeros(5, complex), 25)
    np.testing.assert_allclose(z, np.arange(5) + 1j, atol=1e-8)
    start = {"z": np.zeros(5, complex), "x": np.zeros(2, np.float32)}
    p, _ = trained(optim.lbfgs(memory_size=5), of_tree, start, 40)
    np.testing.assert_allclose(p["z"], np.arange(5) + 1j, atol=1e-5)
    assert p["x"].dtype == np.float32 and abs(p["x"][0] - 3) < 0.05


def test_backtracking() -> None:
    search = optim.scale_by_backtracking_linesearch(30)
    z, state = trained(optim.chain(optim.sgd(1.0), search), distance, np.zeros(5, complex), 80)
    assert distance(z) < 1e-2 and 0 < state[-1].learning_rate <= 1


@pytest.mark.parametrize("slope", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("strategy", ["one", "keep"])
def test_steps_fulfil_the_conditions(slope: float, strategy: str) -> None:
    search = optim.scale_by_zoom_linesearch(40, initial_guess_strategy=strategy, curv_rtol=0.2)

    def f(w: Any) -> Any:
        return np.cos(w) + 0.01 * (w - 9) ** 2

    w = np.float64(0.5)
    value, grad = fgrad.value_and_grad(f)(w)
    direction = -slope * grad
    state = search.init(w)
    step, state = search.update(direction, state, w, value=value, grad=grad, value_fn=f)
    there, after = fgrad.value_and_grad(f)(w + step)
    assert there <= value + 1e-4 * step * grad and abs(after) <= 0.2 * abs(grad)
    assert (state.value, state.grad) == (there, after)


def test_losses_that_are_no_numbers_are_stepped_back_from() -> None:
    def f(w: Any) -> Any:
        return np.where(w[0] > 0.5, np.nan, np.sum((w - 0.4) ** 2))

    np.testing.assert_allclose(trained(optim.lbfgs(), f, np.zeros(2), 10)[0], 0.4, atol=1e-6)


def test_at_a_minimum_nothing_moves() -> None:
    w, _ = trained(optim.lbfgs(), lambda w: np.sum(w**2), np.zeros(2, np.float32), 3)
    assert w.dtype == np.float32 and not np.any(w)


def test_in_loops_and_batches_with_what_the_search_has_left() -> None:
    optimizer = optim.lbfgs()
    known = optim.value_and_grad_from_state(valley)

    def step(_: Any, carry: Any) -> Any:
        w, state = carry
        value, grad = known(w, state=state)
        updates, state = optimizer.update(grad, state, w, value=value, grad=grad, value_fn=valley)
        return w + updates, state

    def fit(w: Any) -> Any:
        return lax.fori_loop(0, 60, step, (w, optimizer.init(w)))[0]

    found = fgrad.jit(fit)(np.zeros(4))
    np.testing.assert_allclose(found, 1.0, atol=1e-4)
    starts = np.stack([np.zeros(4), np.full(4, 0.5)])
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(fit))(starts), 1.0, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.lbfgs(memory_size=0),
        lambda: optim.lbfgs(linesearch="armijo"),
        lambda: optim.scale_by_zoom_linesearch(5, initial_guess_strategy="two"),
        lambda: optim.value_and_grad_from_state(valley)(np.ones(2), state=()),
        lambda: optim.scale_by_lbfgs().update(1.0, optim.scale_by_lbfgs().init(1.0)),
        lambda: optim.lbfgs().update(1.0, optim.lbfgs().init(1.0), 1.0),
    ],
)
def test_refused(make: Callable[[], Any]) -> None:
    with pytest.raises((ArgumentError, TypeError)):
        make()


def test_pickled() -> None:
    assert pickle.loads(pickle.dumps(optim.lbfgs(0.5, 3))).update
