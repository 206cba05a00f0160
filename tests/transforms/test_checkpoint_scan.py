"""Checkpoints in loops: the same results, less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError

WAYS: list[Any] = [True, "sqrt", "log", 1, 3, 7, 100]


def total(xs: Any, w: Any, checkpoint: Any, reverse: bool = False) -> Any:
    """A recurrence with a constant, a carry of two parts, and results of each step."""

    def step(carry: Any, x: Any) -> Any:
        a, b = carry
        a = np.tanh(w * a + x)
        return (a, b + a * x), np.sin(a) * b

    carry, ys = fgrad.lax.scan(step, (0.1, 0.0), xs, reverse=reverse, checkpoint=checkpoint)
    return carry[0] * carry[1] + np.sum(ys)


@pytest.mark.parametrize("checkpoint", WAYS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 5, 40])
def test_results_and_derivatives(
    checkpoint: Any, reverse: bool, length: int, rng: np.random.Generator
) -> None:
    xs = rng.normal(size=length)
    plain = fgrad.value_and_grad(lambda x, w: total(x, w, False, reverse), (0, 1))(xs, 0.7)
    saved = fgrad.value_and_grad(lambda x, w: total(x, w, checkpoint, reverse), (0, 1))
    for found in (saved(xs, 0.7), fgrad.jit(saved)(xs, 0.7)):
        assert np.isclose(found[0], plain[0], rtol=1e-12)
        assert np.allclose(found[1][0], plain[1][0], rtol=1e-10)
        assert np.isclose(found[1][1], plain[1][1], rtol=1e-10)


def test_other_transforms(rng: np.random.Generator) -> None:
    xs = rng.normal(size=(2, 20))
    f = lambda x: total(x, 0.7, "log")  # noqa: E731
    g = lambda x: total(x, 0.7, False)  # noqa: E731
    assert np.allclose(fgrad.vmap(fgrad.grad(f))(xs), fgrad.vmap(fgrad.grad(g))(xs))
    assert np.allclose(fgrad.jit(fgrad.vmap(fgrad.grad(f)))(xs), fgrad.vmap(fgrad.grad(g))(xs))
    assert np.allclose(fgrad.jvp(f, (xs[0],), (xs[1],))[1], fgrad.jvp(g, (xs[0],), (xs[1],))[1])
    assert np.allclose(fgrad.hessian(f)(xs[0, :5]), fgrad.hessian(g)(xs[0, :5]))


def test_memory_grows_with_the_root_of_the_length() -> None:
    def loss(x: Any, checkpoint: Any) -> Any:
        step = lambda c, _: (np.sin(c) + 0.1 * np.cos(c[::-1]), None)  # noqa: E731
        return np.sum(fgrad.lax.scan(step, x, length=1024, checkpoint=checkpoint)[0])

    x = np.linspace(0.0, 1.0, 1000)
    used = {
        how: fgrad.inspect(fgrad.grad(lambda x, how=how: loss(x, how)))(x).memory.temporaries
        for how in (False, "sqrt", "log")
    }
    assert used["sqrt"] < 0.12 * used[False]
    assert used["log"] < 0.07 * used[False]


def test_card() -> None:
    with pytest.raises(ArgumentError, match="checkpoint='often'"):
        total(np.ones(3), 1.0, "often")
