"""A transformer block trained in float32, bfloat16 and float16 with dynamic loss scaling.

    python examples/mixed_precision.py --steps 200

Parameters, losses and the optimizer are float32; the block computes in 16 bits. The first loss
scale is far too large on purpose: steps whose gradients overflow are skipped until it fits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import fgrad
from fgrad import nn, optim

WORDS, LENGTH, WIDTH, HEADS = 12, 16, 32, 4
PRECISIONS = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
MARGIN = 0.05  # of the loss of float32
FIRST_SCALE = 2.0**24

Params = dict[str, Any]


def first_params(seed: int) -> Params:
    """Matrices of variance 1 / inputs, in float32."""
    key = fgrad.random.key(seed)
    shapes = {
        "words": (WORDS, WIDTH),
        "places": (LENGTH, WIDTH),
        "qkv": (WIDTH, 3 * WIDTH),
        "mixed": (WIDTH, WIDTH),
        "wide": (WIDTH, 4 * WIDTH),
        "narrow": (4 * WIDTH, WIDTH),
        "out": (WIDTH, WORDS),
    }
    keys = fgrad.random.split(key, len(shapes))
    draw = nn.initializers.lecun_normal()
    pairs = zip(keys, shapes.items(), strict=True)
    params = {name: draw(k, shape, np.float32) for k, (name, shape) in pairs}
    return {**params, "norm1": np.ones(WIDTH, np.float32), "norm2": np.ones(WIDTH, np.float32)}


def sentences(step: int) -> np.ndarray:
    """Sentences in which each word is the sum of the two before it, modulo `WORDS`."""
    words = np.zeros((32, LENGTH + 1), int)
    words[:, :2] = np.random.default_rng(step).integers(0, WORDS, (32, 2))
    for t in range(2, LENGTH + 1):
        words[:, t] = (words[:, t - 1] + words[:, t - 2]) % WORDS
    return words


def block(p: Params, words: Any) -> Any:
    """Scores of the next word at each place: attention to what is before, then two layers."""
    x = p["words"][words] + p["places"]
    q, k, v = np.split(nn.rms_norm(x) * p["norm1"] @ p["qkv"], 3, axis=-1)
    parts = [a.reshape(*a.shape[:-1], HEADS, WIDTH // HEADS) for a in (q, k, v)]
    x = x + nn.dot_product_attention(*parts, is_causal=True).reshape(x.shape) @ p["mixed"]
    return (x + nn.silu(nn.rms_norm(x) * p["norm2"] @ p["wide"]) @ p["narrow"]) @ p["out"]


def loss(p: Params, words: Any, dtype: Any) -> Any:
    """The mean cross entropy; the block is computed in `dtype`, the loss in float32."""
    narrow = fgrad.tree.map(lambda w: w.astype(dtype), p)
    scores = block(narrow, words[:, :-1]).astype(np.float32)
    return np.mean(nn.softmax_cross_entropy(scores, words[:, 1:]))


def trainer(dtype: Any, rate: float = 3e-3) -> tuple[Any, Callable[..., Any]]:
    """An optimizer that scales the loss, and its compiled step."""
    optimizer = optim.dynamic_loss_scale(optim.adam(rate), FIRST_SCALE, growth_interval=100)

    @fgrad.jit
    def step(p: Params, state: Any, words: Any) -> Any:
        def scaled(p: Params) -> Any:
            return state.factor * loss(p, words, dtype)

        value, grads = fgrad.value_and_grad(scaled)(p)
        updates, after = optimizer.update(grads, state, p)
        return optim.apply_updates(p, updates), after, value / state.factor

    return optimizer, step


def train(dtype: Any, steps: int) -> tuple[Params, list[float], int]:
    """The parameters, the loss of each step, and how many steps were skipped."""
    optimizer, step = trainer(dtype)
    p = first_params(0)
    state, losses, skipped = optimizer.init(p), [], 0
    for k in range(steps):
        before = state.factor
        p, state, value = step(p, state, sentences(k))
        losses.append(float(value))
        skipped += bool(state.factor < before)
    return p, losses, skipped


def main() -> int:
    """Train in each precision, and compare."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--out", help="not used: there is no figure")
    steps = arguments.parse_args().steps
    last: dict[str, float] = {}
    for name, dtype in PRECISIONS.items():
        _, losses, skipped = train(dtype, steps)
        last[name] = float(np.mean(losses[-10:]))
        print(f"{name:9}  loss {losses[0]:.3f} -> {last[name]:.4f}   steps skipped {skipped}")
    worst = max(abs(value / last["float32"] - 1) for value in last.values())
    print(f"largest difference from float32: {worst:.1%} (at most {MARGIN:.0%})")
    return int(worst > MARGIN)


if __name__ == "__main__":
    sys.exit(main())
