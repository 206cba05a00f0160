"""Workloads that train: networks, per-sample gradients, attention, Jacobians."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Cost, Workload
from libraries import Library
from workloads_arrays import Call, jitted, layer_norm, normal

import fgrad

F32 = np.float32


def cross_entropy(lib: Library, logits: Any, labels: Any) -> Any:
    """The mean over a batch, for integer labels."""
    top = lib.np.max(logits, axis=-1, keepdims=True)
    shifted = logits - top
    normalizer = lib.np.log(lib.np.sum(lib.np.exp(shifted), axis=-1))
    picked = shifted[lib.np.arange(len(labels)), labels]
    return lib.np.mean(normalizer - picked)


def adam(lib: Library, params: Any, moments: Any, gradient: Any) -> Any:
    """One step of Adam without bias correction, as trees."""
    m = fgrad.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradient)
    v = fgrad.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradient)
    new = fgrad.tree.map(lambda p, a, b: p - 1e-3 * a / (lib.np.sqrt(b) + 1e-8), params, m, v)
    return new, (m, v)


# --- the MLP 784-256-128-10 -----------------------------------------------------------------------

SIZES = (784, 256, 128, 10)


def mlp_params(sizes: tuple[int, ...] = SIZES) -> list[dict[str, np.ndarray]]:
    """He's initial weights."""
    return [
        {"w": normal(n, m, dtype=F32, seed=n) * F32((2 / n) ** 0.5), "b": np.zeros(m, F32)}
        for n, m in itertools.pairwise(sizes)
    ]


def mlp(lib: Library, params: Any, x: Any) -> Any:
    """A relu network."""
    *hidden, last = params
    for layer in hidden:
        x = lib.np.maximum(x @ layer["w"] + layer["b"], 0.0)
    return x @ last["w"] + last["b"]


def mlp_data(batch: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels."""
    return normal(batch, 784, dtype=F32), np.arange(batch) % 10


def mlp_loss(lib: Library) -> Callable[..., Any]:
    """Of a batch."""
    return lambda params, x, y: cross_entropy(lib, mlp(lib, params, x), y)


def mlp_sgd(lib: Library) -> Call:
    """Gradient and update."""
    loss = mlp_loss(lib)

    def step(params: Any, x: Any, y: Any) -> Any:
        gradient = lib.api.grad(loss)(params, x, y)
        return fgrad.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    return jitted(lib, step, mlp_params(), *mlp_data())


def mlp_adam(lib: Library) -> Call:
    """Gradient, moments and update."""
    loss = mlp_loss(lib)

    def step(params: Any, moments: Any, x: Any, y: Any) -> Any:
        return adam(lib, params, moments, lib.api.grad(loss)(params, x, y))

    zeros = fgrad.tree.map(np.zeros_like, mlp_params())
    return jitted(lib, step, mlp_params(), (zeros, zeros), *mlp_data())


def one_loss(lib: Library) -> Callable[..., Any]:
    """Of one example."""
    loss = mlp_loss(lib)
    return lambda params, x, y: loss(params, x[None], y[None])


def mlp_per_sample(lib: Library) -> Call:
    """A gradient for each of 128 examples."""
    gradients = lib.api.vmap(lib.api.grad(one_loss(lib)), in_axes=(None, 0, 0))
    return jitted(lib, gradients, mlp_params(), *mlp_data())


def mlp_private(lib: Library) -> Call:
    """Per-sample gradients, clipped and summed, and an update."""
    gradient_of_one = lib.api.grad(one_loss(lib))

    def clipped(params: Any, x: Any, y: Any) -> Any:
        gradient = gradient_of_one(params, x, y)
        norm = lib.np.sqrt(sum(lib.np.sum(g * g) for g in fgrad.tree.leaves(gradient)))
        scale = lib.np.minimum(1.0, 1.0 / (norm + 1e-12))
        return fgrad.tree.map(lambda g: g * scale, gradient)

    def step(params: Any, x: Any, y: Any) -> Any:
        gradients = lib.api.vmap(clipped, in_axes=(None, 0, 0))(params, x, y)
        return fgrad.tree.map(
            lambda p, g: p - 0.1 / 128.0 * lib.np.sum(g, axis=0), params, gradients
        )

    return jitted(lib, step, mlp_params(), *mlp_data())


# --- convolutions ---------------------------------------------------------------------------------


def lenet_params() -> dict[str, np.ndarray]:
    """Two convolutions and two dense layers for 28x28 images."""
    shapes = {"c1": (8, 1, 5, 5), "c2": (16, 8, 5, 5), "d1": (256, 64), "d2": (64, 10)}
    return {name: normal(*s, dtype=F32) * F32(0.1) for name, s in shapes.items()}


def pooled(lib: Library, x: Any) -> Any:
    """The largest of every 2x2 pixels."""
    n, c, h, w = x.shape
    return lib.np.max(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=(3, 5))


def lenet_loss(lib: Library) -> Callable[..., Any]:
    """Of a batch of images."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        x = pooled(lib, lib.np.maximum(lib.conv(x, p["c1"]), 0.0))
        x = pooled(lib, lib.np.maximum(lib.conv(x, p["c2"]), 0.0))
        x = lib.np.maximum(x.reshape(len(x), -1) @ p["d1"], 0.0)
        return cross_entropy(lib, x @ p["d2"], y)

    return loss


def images() -> tuple[np.ndarray, np.ndarray]:
    """A batch of 64."""
    return normal(64, 1, 28, 28, dtype=F32), np.arange(64) % 10


def lenet_step(lib: Library) -> Call:
    """Gradient and update."""
    loss = lenet_loss(lib)

    def step(params: Any, x: Any, y: Any) -> Any:
        gradient = lib.api.grad(loss)(params, x, y)
        return fgrad.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    return jitted(lib, step, lenet_params(), *images())


def lenet_per_sample(lib: Library) -> Call:
    """A gradient for each of 64 images."""
    loss = lenet_loss(lib)
    one = lib.api.grad(lambda p, x, y: loss(p, x[None], y[None]))
    return jitted(lib, lib.api.vmap(one, in_axes=(None, 0, 0)), lenet_params(), *images())


# --- attention ------------------------------------------------------------------------------------


def block_params(d: int = 256) -> dict[str, np.ndarray]:
    """One transformer block."""
    shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
    params = {name: normal(*s, dtype=F32) * F32(s[0] ** -0.5) for name, s in shapes.items()}
    norms = {f"{kind}{k}": np.full(d, float(kind == "g"), F32) for kind in "gb" for k in (1, 2)}
    return params | norms


def block(lib: Library, p: Any, x: Any, heads: int = 8) -> Any:
    """Self-attention and a network, each on normalised rows, each added to its input."""
    batch, length, d = x.shape
    h = layer_norm(lib, x, p["g1"], p["b1"]) @ p["qkv"]
    h = h.reshape(batch, length, 3, heads, d // heads)
    h = lib.np.transpose(h, (2, 0, 3, 1, 4))
    scores = h[0] @ h[1].swapaxes(-1, -2) * (d // heads) ** -0.5
    e = lib.np.exp(scores - lib.np.max(scores, axis=-1, keepdims=True))
    mixed = e / lib.np.sum(e, axis=-1, keepdims=True) @ h[2]
    mixed = lib.np.transpose(mixed, (0, 2, 1, 3)).reshape(batch, length, d)
    x = x + mixed @ p["out"]
    h = layer_norm(lib, x, p["g2"], p["b2"]) @ p["up"]
    h = 0.5 * h * (1.0 + lib.np.tanh(0.7978845608 * (h + 0.044715 * h * h * h)))
    return x + h @ p["down"]


def block_step(lib: Library) -> Call:
    """Gradient and update, batch 8, 128 positions."""

    def loss(p: Any, x: Any) -> Any:
        return lib.np.mean(block(lib, p, x) ** 2)

    def step(p: Any, x: Any) -> Any:
        return fgrad.tree.map(lambda p, g: p - 0.1 * g, p, lib.api.grad(loss)(p, x))

    return jitted(lib, step, block_params(), normal(8, 128, 256, dtype=F32))


# --- matrices of derivatives ----------------------------------------------------------------------


def jacobian(mode: str) -> Callable[[Library], Call]:
    """Of a network with 50 inputs and 50 outputs."""

    def make(lib: Library) -> Call:
        def f(x: Any, w1: Any, w2: Any) -> Any:
            return lib.np.tanh(lib.np.tanh(x @ w1) @ w2)

        args = (normal(50), normal(50, 50, seed=1) / 7.0, normal(50, 50, seed=2) / 7.0)
        return jitted(lib, getattr(lib.api, mode)(f), *args)

    return make


def hessian(lib: Library) -> Call:
    """Of a logistic loss in 100 dimensions."""
    x, y = normal(500, 100), np.sign(normal(500, seed=1))

    def f(w: Any, x: Any, y: Any) -> Any:
        return lib.np.mean(lib.np.log1p(lib.np.exp(-y * (x @ w))))

    return jitted(lib, lib.api.hessian(f), normal(100, seed=2) / 10.0, x, y)


# --- the eager workloads of benchmarks/eager.py, compiled -----------------------------------------


def rosenbrock_gradient(lib: Library) -> Call:
    """Ten dimensions."""

    def f(x: Any) -> Any:
        total = 0.0
        for i in range(9):
            total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    return jitted(lib, lib.api.grad(f), np.linspace(-1.0, 1.0, 10))


def logistic_gradient(lib: Library) -> Call:
    """One gradient of 500 examples in 20 dimensions."""
    x, y = normal(500, 20), np.sign(normal(500, seed=1))

    def f(w: Any, x: Any, y: Any) -> Any:
        return lib.np.mean(lib.np.log1p(lib.np.exp(-y * (x @ w))))

    return jitted(lib, lib.api.grad(f), normal(20, seed=2), x, y)


# What workloads must do at least; products in a step forward, and back to weights and inputs.
WEIGHTS = sum([(n + 1) * m for n, m in itertools.pairwise(SIZES)])
MLP_STEP = 2 * 128 * (2 * 784 * 256 + 3 * 256 * 128 + 3 * 128 * 10)
LENET_STEP = 64 * 2 * (2 * 24 * 24 * 8 * 25 + 3 * (8 * 8 * 16 * 200 + 256 * 64 + 640))
SHORT = "products of 25 x 8 and 200 x 16 numbers, fewer than a product runs fast for"
BLOCK_STEP = 3 * (2 * 1024 * 12 * 256**2 + 4 * 8 * 128 * 128 * 256)

MODELS = (
    Workload(
        "MLP 784-256-128-10, batch 128, SGD step",
        0.75,
        mlp_sgd,
        torch=True,
        cost=Cost(4 * WEIGHTS, 4 * WEIGHTS, flops=MLP_STEP, single=True),
    ),
    Workload(
        "the same, Adam step",
        0.6,
        mlp_adam,
        torch=True,
        cost=Cost(12 * WEIGHTS, 12 * WEIGHTS, flops=MLP_STEP, divisions=2 * WEIGHTS, single=True),
    ),
    Workload(
        "per-sample gradients of that MLP",
        0.08,
        mlp_per_sample,
        torch=True,
        cost=Cost(4 * WEIGHTS, 512 * WEIGHTS, flops=MLP_STEP, single=True),
    ),
    Workload(
        "DP-SGD step of that MLP",
        0.02,
        mlp_private,
        torch=True,
        cost=Cost(4 * WEIGHTS, 4 * WEIGHTS, flops=MLP_STEP, single=True),
    ),
    Workload(
        "LeNet train step, batch 64",
        0.35,
        lenet_step,
        torch=True,
        cost=Cost(flops=LENET_STEP, single=True, reason=SHORT),
    ),
    Workload(
        "per-sample gradients of LeNet, batch 64",
        0.3,
        lenet_per_sample,
        torch=True,
        cost=Cost(
            writes=64 * 4 * 20_424,
            flops=LENET_STEP,
            single=True,
            reason=SHORT,
        ),
    ),
    Workload(
        "transformer block train step, 8x128x256",
        0.65,
        block_step,
        torch=True,
        cost=Cost(flops=BLOCK_STEP, functions=2 * 1024**2, single=True),
    ),
    Workload(
        "jacrev of a 50-50 net",
        0.25,
        jacobian("jacrev"),
        cost=Cost(4e4, 2e4, flops=2 * 50**3, functions=100),
    ),
    Workload(
        "jacfwd of a 50-50 net",
        0.25,
        jacobian("jacfwd"),
        cost=Cost(4e4, 2e4, flops=2 * 50**3, functions=100),
    ),
    Workload(
        "Hessian of a 100-d logistic loss",
        0.4,
        hessian,
        cost=Cost(4e5, 8e4, flops=500 * 100 * 101, functions=500),
    ),
    Workload("jitted gradient, Rosenbrock 10-d", 0.1, rosenbrock_gradient),
    Workload(
        "jitted gradient, logistic regression 500x20",
        0.3,
        logistic_gradient,
        cost=Cost(
            8e4,
            flops=4e4,
            functions=500,
            divisions=500,
            reason="the limit has 500 exponentials and sums of 20 at the rates of large arrays",
        ),
    ),
)
