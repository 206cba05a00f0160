"""Workloads of examples/digits.py: its training step and its per-sample gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Workload
from libraries import Library
from sklearn.datasets import load_digits
from workloads_arrays import Call, jitted
from workloads_models import F32, adam, mlp_loss, mlp_params, one_loss

import fgrad

SIZES = (64, 128, 64, 10)


def batch(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first digits of scikit-learn's bundled set."""
    digits = load_digits()
    return digits.data[:size].astype(F32) / F32(16.0), digits.target[:size].astype(np.int64)


def loss_and_grad(lib: Library) -> Call:
    """Batch 64."""
    return jitted(lib, lib.api.value_and_grad(mlp_loss(lib)), mlp_params(SIZES), *batch(64))


def train_step(lib: Library) -> Call:
    """Gradient and Adam, batch 64."""
    gradient = lib.api.value_and_grad(mlp_loss(lib))

    def step(params: Any, moments: Any, x: Any, y: Any) -> Any:
        value, g = gradient(params, x, y)
        return adam(lib, params, moments, g), value

    zeros = fgrad.tree.map(np.zeros_like, mlp_params(SIZES))
    return jitted(lib, step, mlp_params(SIZES), (zeros, zeros), *batch(64))


def per_sample(lib: Library) -> Call:
    """128 gradients."""
    gradients = lib.api.vmap(lib.api.grad(one_loss(lib)), in_axes=(None, 0, 0))
    return jitted(lib, gradients, mlp_params(SIZES), *batch(128))


def predictions(lib: Library) -> Call:
    """The losses of 1,797 digits one by one, by vmap."""
    losses = lib.api.vmap(one_loss(lib), in_axes=(None, 0, 0))
    return jitted(lib, losses, mlp_params(SIZES), *batch(1797))


DIGITS = (
    Workload("digits: value_and_grad, batch 64", None, loss_and_grad),
    Workload("digits: Adam step, batch 64", 0.6, train_step),
    Workload("digits: per-sample gradients, 128", 0.3, per_sample),
    Workload("digits: losses of all examples", None, predictions),
)
