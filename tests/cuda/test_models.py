"""Whole programs on a device that is not there: training steps, as jitted functions of trees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from emulator.driver import StubDriver
from emulator.events import Graph
from real_device import stub_device

import fgrad
from fgrad import lax, nn

RNG = np.random.default_rng(5)
F32 = np.float32


@pytest.fixture(autouse=True, params=[True, False], ids=["checked", "plain"])
def stub(request: pytest.FixtureRequest) -> Iterator[StubDriver]:
    """A stub with watched memory, and one with memory that native code takes blocks from."""
    with stub_device(StubDriver(checks=request.param)) as made:
        yield made


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(F32) * F32(shape[0] ** -0.5)


def trained(step: Any, params: Any, *data: Any, steps: int = 4) -> None:
    """Some steps on both devices, the parameters of one being those of the next."""
    host, device = fgrad.jit(step), fgrad.jit(step)
    p, q = params, fgrad.device_put(params)
    given = fgrad.device_put(data)
    for _ in range(steps):
        p, first = host(p, *data)
        q, second = device(q, *given)
        np.testing.assert_allclose(second.numpy(), first, rtol=2e-4, atol=1e-5)
    for a, b in zip(fgrad.tree.leaves(p), fgrad.tree.leaves(q), strict=True):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-3, atol=1e-4)


def sgd(loss: Any) -> Any:
    """A step that returns parameters and the loss."""

    def step(p: Any, *data: Any) -> Any:
        value, g = fgrad.value_and_grad(loss)(p, *data)
        return fgrad.tree.map(lambda p, g: p - 0.1 * g, p, g), value

    return step


def mlp(p: Any, x: Any) -> Any:
    for w, b in p[:-1]:
        x = np.tanh(x @ w + b)
    return x @ p[-1][0] + p[-1][1]


def layers(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(normal(a, b), normal(b)) for a, b in itertools.pairwise(sizes)]


def cross_entropy(logits: Any, y: Any) -> Any:
    logits = logits - np.max(logits, axis=-1, keepdims=True)
    picked = np.take_along_axis(logits, y[:, None], axis=1)[:, 0]
    return np.mean(np.log(np.sum(np.exp(logits), axis=-1)) - picked)


def test_mlp(stub: StubDriver) -> None:
    x, y = normal(16, 12), RNG.integers(0, 5, 16)
    step = sgd(lambda p, x, y: cross_entropy(mlp(p, x), y))
    trained(step, layers(12, 16, 8, 5), x, y, steps=6)
    assert any([isinstance(event, Graph) for event in stub.log])


def test_per_sample_gradients() -> None:
    x, y = normal(8, 6), RNG.integers(0, 3, 8)

    def loss(p: Any, x: Any, y: Any) -> Any:
        return cross_entropy(mlp(p, x[None]), y[None])

    def step(p: Any, x: Any, y: Any) -> Any:
        each = fgrad.vmap(fgrad.grad(loss), in_axes=(None, 0, 0))(p, x, y)
        norms = np.sqrt(sum([np.sum(g.reshape(8, -1) ** 2, 1) for g in fgrad.tree.leaves(each)]))
        scale = np.minimum(1.0, 1.0 / norms)
        clipped = fgrad.tree.map(lambda g: np.tensordot(scale, g, 1) / 8, each)
        return fgrad.tree.map(lambda p, g: p - 0.5 * g, p, clipped), norms

    trained(step, layers(6, 7, 3), x, y, steps=3)


def test_convolutions() -> None:
    images, y = normal(3, 8, 8, 1), RNG.integers(0, 4, 3)
    params = {"k": normal(3, 3, 1, 4), "w": normal(64, 4), "b": np.zeros(4, F32)}

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = nn.relu(nn.conv(x, p["k"], padding="SAME", layout="NHWC"))
        h = h.reshape(3, 4, 2, 4, 2, 4).max(axis=(2, 4))
        return cross_entropy(h.reshape(3, -1) @ p["w"] + p["b"], y)

    trained(sgd(loss), params, images, y, steps=3)


def test_attention() -> None:
    x = normal(2, 6, 8)
    params = {name: normal(8, 8) for name in ("q", "k", "v", "o")} | {"g": np.ones(8, F32)}

    def loss(p: Any, x: Any) -> Any:
        h = nn.layer_norm(x, p["g"])
        q, k, v = [(h @ p[name]).reshape(2, 6, 2, 4).swapaxes(1, 2) for name in "qkv"]
        scores = q @ k.swapaxes(-1, -2) * 0.5
        e = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (e / e.sum(-1, keepdims=True)) @ v
        y = x + mixed.swapaxes(1, 2).reshape(2, 6, 8) @ p["o"]
        return np.mean(nn.gelu(y) ** 2)

    trained(sgd(loss), params, x, steps=3)


def test_recurrence() -> None:
    xs = normal(5, 4, 6)
    params = {"w": normal(6, 24), "u": normal(24, 24)}

    def loss(p: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = np.tanh(x @ p["w"] + h @ p["u"])
            return h, h.mean()

        h, means = lax.scan(cell, np.zeros((4, 24), F32), xs)
        return np.mean(h**2) + means.sum()

    trained(sgd(loss), params, xs, steps=3)


def test_a_failing_factorisation_raises() -> None:
    f = fgrad.jit(lambda a: np.linalg.cholesky(a) * 2)
    good = np.eye(4, dtype=F32) * 2
    try:
        found = f(fgrad.device_put(good)).numpy()
    except fgrad.errors.FgradError as error:  # cuSOLVER is not installed, and says so
        assert "cuSOLVER" in str(error)
        return
    np.testing.assert_allclose(found, np.linalg.cholesky(good) * 2, rtol=1e-6)
    with pytest.raises(np.linalg.LinAlgError):
        f(fgrad.device_put(-good))
