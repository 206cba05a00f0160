"""Activations, losses, attention, convolutions, layers written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import CUBE, K, M, N, P, X, Y, numbers

IMAGES, FILTERS = numbers(2, 3, 6, 6), numbers(4, 3, 3, 3)
SERIES, TAPS = numbers(2, 3, 9), numbers(5, 3, 4)
QUERIES = numbers(2, 5, 4, 3).astype(np.float32)  # batch, time, heads, features


def layer_norm(J: Any, x: Any, scale: Any, shift: Any) -> Any:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * J.lax.rsqrt(var + 1e-6) * scale + shift


def batch_norm(J: Any, x: Any) -> Any:
    return (x - x.mean(0)) / J.np.sqrt(x.var(0) + 1e-5)


def attention(J: Any, q: Any, k: Any, v: Any) -> Any:
    scores = J.np.einsum("td,sd->ts", q, k) / np.sqrt(q.shape[-1])
    mask = J.np.tril(J.np.ones(scores.shape, bool))
    return J.nn.softmax(J.np.where(mask, scores, -1e30)) @ v


def cross_entropy(J: Any, w: Any) -> Any:
    return -J.np.take_along_axis(J.nn.log_softmax(M @ w), (K % 3)[:, None], 1).mean()


def lstm(J: Any, w: Any, xs: Any) -> Any:
    def cell(c: Any, x: Any) -> Any:
        h, s = c
        gates = J.np.concatenate([x, h]) @ w
        i, f, o, g = J.np.split(gates, 4)
        s = J.nn.sigmoid(f) * s + J.nn.sigmoid(i) * J.np.tanh(g)
        h = J.nn.sigmoid(o) * J.np.tanh(s)
        return (h, s), h

    return J.lax.scan(cell, (np.zeros(2), np.zeros(2)), xs)[1]


def activation(name: str, *args: Any) -> Callable[[Any], Any]:
    """A function's values, and its slopes."""

    def program(J: Any) -> Any:
        def f(x: Any) -> Any:
            return getattr(J.nn, name)(x, *args)

        return J.jit(f)(X), J.vmap(J.grad(f))(X)

    return program


NAMES = (
    "relu", "relu6", "sigmoid", "silu", "swish", "softplus", "soft_sign", "log_sigmoid", "gelu",
    "elu", "celu", "selu", "leaky_relu", "hard_tanh", "hard_sigmoid", "hard_silu", "hard_swish",
    "mish", "squareplus", "sparse_plus", "sparse_sigmoid", "tanh", "identity",
)  # fmt: skip

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    **{name: activation(name) for name in NAMES},
    "gelu exact": activation("gelu", False),
    "leaky_relu of a slope": activation("leaky_relu", 0.3),
    "softmax": lambda J: J.nn.softmax(M),
    "softmax axis": lambda J: J.nn.softmax(M, axis=0),
    "softmax where": lambda J: J.nn.softmax(M, where=M > -1, axis=-1),
    "log_softmax": lambda J: J.jacrev(J.nn.log_softmax)(X),
    "logsumexp": lambda J: J.nn.logsumexp(M, axis=1),
    "logsumexp weights": lambda J: J.nn.logsumexp(X, b=P),
    "glu": lambda J: J.nn.glu(X),
    "one_hot": lambda J: J.nn.one_hot(K, 5),
    "one_hot outside": lambda J: J.nn.one_hot(np.array([-1, 2, 7]), 4),
    "standardize": lambda J: J.nn.standardize(M),
    "layer norm": lambda J: J.grad(lambda s: (layer_norm(J, M, s, 0.1) ** 2).sum())(np.ones(5)),
    "batch norm": lambda J: J.grad(lambda x: (batch_norm(J, x) * Y[:5]).sum())(M),
    "attention": lambda J: J.jit(lambda q: attention(J, q, q, q))(M),
    "attention gradient": lambda J: J.grad(lambda q: (attention(J, q, q, q) ** 2).sum())(M),
    "dot_product_attention": lambda J: J.nn.dot_product_attention(QUERIES, QUERIES, QUERIES),
    "causal attention": lambda J: J.nn.dot_product_attention(
        QUERIES, QUERIES, QUERIES, is_causal=True),
    "attention scale": lambda J: J.nn.dot_product_attention(
        QUERIES, QUERIES, QUERIES, scale=0.1),
    "cross entropy": lambda J: cross_entropy(J, N),
    "cross entropy gradient": lambda J: J.jit(J.grad(lambda w: cross_entropy(J, w)))(N),
    "lstm": lambda J: lstm(J, numbers(5, 8), numbers(4, 3)),
    "lstm gradient": lambda J: J.grad(lambda w: lstm(J, w, numbers(4, 3)).sum())(numbers(5, 8)),
    "conv": lambda J: J.lax.conv(IMAGES, FILTERS, (1, 1), "SAME"),
    "conv stride": lambda J: J.lax.conv(IMAGES, FILTERS, (2, 2), "VALID"),
    "conv gradient": lambda J: J.grad(
        lambda w: (J.lax.conv(IMAGES, w, (1, 1), "SAME") ** 2).sum())(FILTERS),
    "conv dilated": lambda J: J.lax.conv_general_dilated(
        IMAGES, FILTERS, (1, 1), "SAME", rhs_dilation=(2, 2)),
    "conv of series": lambda J: J.lax.conv_general_dilated(
        SERIES, TAPS, (2,), [(1, 2)], dimension_numbers=("NCH", "OIH", "NCH")),
    "conv groups": lambda J: J.lax.conv_general_dilated(
        IMAGES, numbers(6, 1, 3, 3), (1, 1), "SAME", feature_group_count=3),
    "conv last": lambda J: J.lax.conv_general_dilated(
        numbers(2, 6, 6, 3), numbers(3, 3, 3, 4), (1, 1), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC")),
    "max pool": lambda J: J.lax.reduce_window(
        IMAGES, -np.inf, J.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    "mean pool": lambda J: J.lax.reduce_window(
        IMAGES, 0.0, J.lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID") / 4,
    "embedding": lambda J: J.grad(lambda e: (e[K] ** 2).sum())(M),
    "residual": lambda J: J.grad(lambda w: ((M + J.nn.relu(M @ w)) ** 2).mean())(numbers(5, 5)),
    "initializers": lambda J: [float(n) for n in J.nn.initializers.he_normal()(
        J.random.key(0), (3, 4), np.float32).shape],
    "zeros and ones": lambda J: (
        J.nn.initializers.zeros(J.random.key(0), (2,), np.float32),
        J.nn.initializers.ones(J.random.key(0), (2,), np.float32)),
    "huber": lambda J: J.np.where(J.np.abs(X) < 1, 0.5 * X**2, J.np.abs(X) - 0.5).mean(),
    "kl": lambda J: (J.nn.softmax(X) * (J.nn.log_softmax(X) - J.nn.log_softmax(Y))).sum(),
    "einsum heads": lambda J: J.np.einsum("bthd,bshd->bhts", QUERIES, QUERIES),
    "float32 stays": lambda J: J.nn.gelu(X.astype(np.float32)),
    "cube": lambda J: J.nn.softmax(CUBE, axis=(1, 2)),
}  # fmt: skip
