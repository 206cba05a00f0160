"""Programs for other formats: models, their gradients, loops, indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import lax, nn

RNG = np.random.default_rng(7)


class Model(NamedTuple):
    """A function and arguments."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    checks: bool = True


def _normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def _mlp(params: Any, x: Any, y: Any) -> Any:
    for w, b in params[:-1]:
        x = np.tanh(x @ w + b)
    w, b = params[-1]
    return np.mean((x @ w + b - y) ** 2)


MLP = [(_normal(4, 8), _normal(8)), (_normal(8, 8), _normal(8)), (_normal(8, 2), _normal(2))]


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return np.sum((weights @ v) ** 2)


def _convnet(w1: Any, w2: Any, x: Any) -> Any:
    x = nn.relu(lax.conv_general_dilated(x, w1, (1, 1), "SAME"))
    x = nn.max_pool(x, (2, 2), (2, 2)) if hasattr(nn, "max_pool") else x[..., ::2, ::2]
    x = lax.conv_general_dilated(x, w2, (2, 2), "VALID", rhs_dilation=(1, 1))
    return np.sum(np.tanh(x) ** 2)


def _softmax_regression(w: Any, b: Any, x: Any, labels: Any) -> Any:
    logits = x @ w + b
    return -np.mean(np.take_along_axis(nn.log_softmax(logits), labels[:, None], 1))


def _rnn(w: Any, u: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = np.tanh(w @ h + u @ x)
        return h, np.sum(h)

    h, ys = lax.scan(step, h, xs)
    return np.sum(h**2) + np.sum(ys * np.arange(len(ys)))


def _captured_sum(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0:  # noqa: SIM108
            total = total + np.sin(x[i]) * (1 + total)
        else:
            total = total - x[i] ** 2
    return total


def _newton(a: Any) -> Any:
    x, steps = a, 0
    while abs(x * x - a) > 1e-12 and steps < 50:
        x = 0.5 * (x + a / x)
        steps += 1
    return x


def _written(x: Any) -> Any:
    out = np.zeros(5)
    for i in range(5):
        out[i] = x[i] * (out[i - 1] if i > 0 else 1.0)
    return np.sum(out**2)


def _nested(x: Any) -> Any:
    best = -np.inf
    for i in range(len(x)):
        acc = 0.0
        for j in range(len(x)):
            if j == i:
                continue
            acc += x[i] * x[j]
        best = np.maximum(best, acc)
    return best


def _branches(k: Any, x: Any) -> Any:
    return lax.switch(k, [np.sin, np.cos, lambda x: x * 2.0], x)


def _reversed_scan(xs: Any) -> Any:
    return lax.scan(lambda c, x: (c * 0.5 + x, c * x), np.zeros(2), xs, reverse=True)


def _grouped(x: Any, w: Any) -> Any:
    return np.sum(
        lax.conv_general_dilated(
            x, w, (2, 1), [(1, 0), (-1, 2)], lhs_dilation=(2, 1), feature_group_count=2
        )
        ** 2
    )


def _dropout(key: Any, x: Any) -> Any:
    return np.where(fgrad.random.bernoulli(key, 0.5, x.shape), x, 0.0)


FLAT = _normal(6)
IMAGES = _normal(2, 2, 8, 8)
HEADS = (_normal(2, 5, 3), _normal(2, 5, 3), _normal(2, 5, 3))
WITH_LABELS = (_normal(4, 3), _normal(3), _normal(6, 4), np.array([0, 2, 1, 1, 0, 2]))
SEQUENCE = (_normal(3, 3), _normal(3, 2), _normal(3), _normal(5, 2))
KEYS = np.array([3, 1, 3, 0, -1, 9])
TABLE = _normal(7, 3)
SPECIAL = np.array([np.nan, 1.0, -np.inf, 0.0, -0.0, np.inf, -2.5, 3.0])
WHOLE = np.array([-7, 7, 0, 5, -5])
DIVISORS = np.array([2, -2, 3, 0, -3])

MODELS: dict[str, Model] = {
    "mlp": Model(_mlp, (MLP, _normal(6, 4), _normal(6, 2))),
    "mlp gradient": Model(fgrad.value_and_grad(_mlp), (MLP, _normal(6, 4), _normal(6, 2))),
    "attention": Model(_attention, HEADS),
    "attention gradient": Model(fgrad.grad(_attention, argnums=(0, 1, 2)), HEADS),
    "convnet": Model(_convnet, (_normal(3, 2, 3, 3), _normal(2, 3, 2, 2), IMAGES)),
    "convnet gradient": Model(
        fgrad.grad(_convnet, argnums=(0, 1)), (_normal(3, 2, 3, 3), _normal(2, 3, 2, 2), IMAGES)
    ),
    "grouped convolution": Model(_grouped, (_normal(2, 4, 5, 6), _normal(6, 2, 3, 2))),
    "grouped convolution gradient": Model(
        fgrad.grad(_grouped, argnums=(0, 1)), (_normal(2, 4, 5, 6), _normal(6, 2, 3, 2))
    ),
    "convnet in single precision": Model(
        fgrad.value_and_grad(_convnet, argnums=(0, 1)),
        tuple([x.astype(np.float32) for x in (_normal(3, 2, 3, 3), _normal(2, 3, 2, 2), IMAGES)]),
    ),
    "grouped convolution in single precision": Model(
        fgrad.value_and_grad(_grouped, argnums=(0, 1)),
        tuple([x.astype(np.float32) for x in (_normal(2, 4, 5, 6), _normal(6, 2, 3, 2))]),
    ),
    "softmax regression": Model(_softmax_regression, WITH_LABELS, checks=False),
    "softmax regression gradient": Model(
        fgrad.grad(_softmax_regression, argnums=(0, 1)), WITH_LABELS, checks=False
    ),
    "rnn": Model(_rnn, SEQUENCE),
    "rnn gradient": Model(fgrad.grad(_rnn, argnums=(0, 1, 2, 3)), SEQUENCE),
    "captured loop": Model(_captured_sum, (FLAT,)),
    "captured loop gradient": Model(fgrad.grad(_captured_sum), (FLAT,)),
    "captured while": Model(_newton, (2.0,), checks=False),
    "captured while of a batch": Model(
        fgrad.vmap(_newton), (np.array([2.0, 9.0, 0.25]),), checks=False
    ),
    "captured while forward": Model(
        lambda a: fgrad.jvp(_newton, (a,), (1.0,)), (2.0,), checks=False
    ),
    "written loop": Model(_written, (FLAT,), checks=False),
    "written loop gradient": Model(fgrad.grad(_written), (FLAT,), checks=False),
    "nested loops": Model(_nested, (FLAT,)),
    "nested loops gradient": Model(fgrad.grad(_nested), (FLAT,)),
    "branch 0": Model(_branches, (0, FLAT)),
    "branch of a number too large": Model(_branches, (9, FLAT)),
    "branch of a negative number": Model(_branches, (-4, FLAT)),
    "scan backwards": Model(_reversed_scan, (_normal(4, 2),)),
    "scan of nothing": Model(_reversed_scan, (np.zeros((0, 2)),)),
    "per-example gradients": Model(
        fgrad.vmap(fgrad.grad(lambda w, x: np.tanh(w @ x)), in_axes=(None, 0)),
        (_normal(3), _normal(4, 3)),
    ),
    "hessian": Model(fgrad.hessian(lambda x: np.sum(np.sin(x) * x[::-1])), (_normal(3),)),
    "rows": Model(lambda t, k: t[k], (TABLE, np.array([3, 1, 3, 0])), checks=False),
    "rows, clipped": Model(lambda t, k: fgrad.at(t)[k].get(mode="clip"), (TABLE, KEYS)),
    "rows, filled": Model(
        lambda t, k: fgrad.at(t)[k].get(mode="fill", fill_value=0.0), (TABLE, KEYS)
    ),
    "rows set, the last wins": Model(
        lambda t, k: fgrad.at(t)[k].set(np.arange(18.0).reshape(6, 3), mode="drop"), (TABLE, KEYS)
    ),
    "rows added": Model(lambda t, k: fgrad.at(t)[k].add(1.0, mode="drop"), (TABLE, KEYS)),
    "rows multiplied": Model(lambda t, k: fgrad.at(t)[k].mul(2.0, mode="drop"), (TABLE, KEYS)),
    "rows least": Model(lambda t, k: fgrad.at(t)[k].min(0.0, mode="drop"), (TABLE, KEYS)),
    "block": Model(lambda t, i: lax.dynamic_slice(t, (i, 0), (2, 3)), (TABLE, 6)),
    "block written": Model(
        lambda t, i: lax.dynamic_update_slice(t, np.ones((2, 2)), (i, 1)), (TABLE, 6)
    ),
    "NaN in extrema": Model(
        lambda x: (np.max(x), np.min(x), np.argmax(x), np.maximum(x, 0.0), np.sign(x)), (SPECIAL,)
    ),
    "NaN in sorts": Model(lambda x: (np.sort(x), np.argsort(x, kind="stable")), (SPECIAL,)),
    "NaN in running extrema": Model(
        lambda x: (np.maximum.accumulate(x), lax.cummin(x, reverse=True)), (SPECIAL,)
    ),
    "infinities": Model(
        lambda x: (np.isfinite(x), np.isinf(x), np.isnan(x), np.trunc(x), np.exp(x), np.log1p(x)),
        (SPECIAL,),
    ),
    "small numbers": Model(
        lambda x: (np.expm1(x), np.log1p(x), np.cbrt(x)), (np.array([1e-12, -3e-9, 0.3, -0.2]),)
    ),
    "angles": Model(
        lambda y, x: np.arctan2(y, x),
        (np.array([0.0, -0.0, 1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, 3.0, np.nan, -2.0]),
         np.array([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, -np.inf, np.inf, -2.0, 1.0, -np.inf])),
    ),
    "quotients": Model(lambda a, b: (a // b, a % b), (SPECIAL, np.full(8, -2.0))),
    "whole quotients": Model(
        lambda a, b: (a // b, a % b, np.fmod(a, b)), (WHOLE, DIVISORS), checks=False
    ),
    "greatest": Model(lambda x: lax.top_k(x, 3), (np.array([1.0, 5.0, 5.0, -1.0, 2.0]),)),
    "places in order": Model(
        lambda x, v: np.searchsorted(x, v, side="right"), (np.array([0.0, 1.0, 1.0, 2.0]), SPECIAL)
    ),
    "windows": Model(
        lambda x: np.sum(np.lib.stride_tricks.sliding_window_view(x, 3) ** 2, -1), (FLAT,)
    ),
    "windows gradient": Model(
        fgrad.grad(
            lambda x: np.sum(np.lib.stride_tricks.sliding_window_view(x, (2, 2)) ** 3)
        ),
        (_normal(4, 5),),
    ),
    "float32": Model(
        fgrad.grad(lambda x: np.sum(np.exp(-x * x) * np.float32(3))), (FLAT.astype(np.float32),)
    ),
    "truth values": Model(
        lambda x: (x > 0) & ~(x > 1) | (x < -1) ^ (x == 0), (SPECIAL,)
    ),
    "nothing": Model(lambda x: (np.sum(x, 0), x * 2, np.concatenate([x, x])), (np.zeros((0, 3)),)),
    "checkpoint": Model(fgrad.grad(fgrad.checkpoint(lambda x: np.sum(np.sin(np.sin(x))))), (FLAT,)),
    "constant from outside": Model(lambda x: TABLE @ x, (_normal(3),)),
}  # fmt: skip

# What StableHLO has and ONNX has not.
COMPLEX = {
    "random": Model(_dropout, (fgrad.random.key(3), FLAT)),
    "fft": Model(lambda x: np.fft.fft2(x * (1 + 2j)), (_normal(4, 3),)),
    "rfft gradient": Model(fgrad.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2)), (FLAT,)),
    "cholesky": Model(lambda a: np.linalg.cholesky(a @ a.T + np.eye(3)), (_normal(3, 3),)),
    "cholesky gradient": Model(
        fgrad.grad(lambda a: np.sum(np.linalg.cholesky(a @ a.T + np.eye(3)))), (_normal(3, 3),)
    ),
    "complex numbers": Model(lambda z: (np.exp(z) * z.conj(), abs(z)), (FLAT + 1j,)),
    "erf": Model(lambda x: lax.erf(x) + lax.lgamma(x * x) + lax.erfc(x), (FLAT,)),
}
