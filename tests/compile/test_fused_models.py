"""Losses of classifiers, their gradients and per-sample gradients: compiled equals evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import nn


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = np.maximum(x @ params["w0"] + params["b0"], 0.0)
    return np.mean(nn.softmax_cross_entropy(hidden @ params["w1"] + params["b1"], y))


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "loss": loss,
    "gradient": fgrad.grad(loss),
    "losses": fgrad.vmap(loss, in_axes=(None, 0, 0)),
    "gradients": fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0, 0)),
    "tangents": lambda p, x, y: fgrad.jvp(lambda p: loss(p, x, y), (p,), (p,)),
    "hessian_product": lambda p, x, y: fgrad.jvp(fgrad.grad(lambda p: loss(p, x, y)), (p,), (p,)),
}


@pytest.mark.parametrize("batch", (1, 6, 17))
@pytest.mark.parametrize("name", TRANSFORMS)
def test_classifier(name: str, batch: int, rng: np.random.Generator) -> None:
    params = {
        "w0": rng.normal(size=(5, 7)),
        "b0": rng.normal(size=7),
        "w1": rng.normal(size=(7, 3)),
        "b1": rng.normal(size=3),
    }
    x, y = rng.normal(size=(batch, 5)), rng.integers(0, 3, batch)
    fun = TRANSFORMS[name]
    got, expected = (fgrad.tree.leaves(f(params, x, y)) for f in (fgrad.jit(fun), fun))
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
