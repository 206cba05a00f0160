"""The larger models of tests/test_seed_examples.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad import grad, nn, value_and_grad

# PyTorch's, in 64 bits.
DIGIT_LOSSES = np.array(
    [2.306814941712, 1.588067990784, 1.182459182081, 0.877197987569, 0.662755660606]
)


def scalar_net(p: dict[str, Any]) -> Any:
    """Two layers of one neuron each, at the input (1.5, -2) and the target 1."""
    hidden = nn.relu(p["w1"] * 1.5 + p["w2"] * -2.0 + p["b1"])
    return (p["w3"] * hidden + p["b2"] - 1.0) ** 2


def initial_weights() -> list[np.ndarray]:
    """The network 784-256-10 of an article, from its own seed."""
    random = np.random.RandomState(3721)
    return [random.randn(n, m) / np.sqrt(n) for n, m in ((784, 256), (256, 10))]


def digit_weights() -> Any:
    """The first weights of both layers."""
    w0, w1 = initial_weights()
    return w0[0, :3], w1[0, :3]


def cross_entropy(params: Any, x: Any, y: Any) -> Any:
    """A relu network's mean loss on integer labels."""
    w0, b0, w1, b1 = params
    logits = nn.relu(x @ w0 + b0) @ w1 + b1
    return np.mean(nn.softmax_cross_entropy(logits, y))


def digit_losses() -> Any:
    """The losses before each of five steps of gradient descent at rate 0.1."""
    w0, w1 = initial_weights()
    params = [w0, np.zeros(256), w1, np.zeros(10)]
    x, y = np.random.RandomState(0).rand(8, 784), np.arange(8) % 10
    losses = []
    for _ in range(5):
        loss, gradient = value_and_grad(cross_entropy)(params, x, y)
        params = [p - 0.1 * g for p, g in zip(params, gradient, strict=True)]
        losses.append(loss)
    return np.stack(losses)


def penalty_gradient(w: Any, real: Any, fake: Any, alpha: Any) -> Any:
    """The gradient penalty of WGAN-GP: a derivative of a function of a derivative."""

    def penalty(w: Any) -> Any:
        mixed = (1.0 - alpha) * real + alpha * fake
        slopes = grad(lambda x: np.sum(np.tanh(x @ w)))(mixed)
        return np.mean((np.sqrt(np.sum(slopes**2, axis=1)) - 1.0) ** 2)

    return value_and_grad(penalty)(w)
