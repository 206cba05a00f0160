"""Optimisers by name, what makes them, and the trees that they are run on; steps are optax's.

`python benchmarks/optax_values.py` runs them by optax and writes tests/golden/optax.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = 6
RATE = 0.1
Case = tuple[Callable[[Any], Any], bool]  # makes the optimiser of a library; complex trees too
CASES: dict[str, Case] = {
    "adabelief": (lambda o: o.adabelief(RATE), True),
    "adadelta": (lambda o: o.adadelta(RATE), False),
    "adam": (lambda o: o.adam(RATE), True),
    "adam_nesterov": (lambda o: o.adam(RATE, nesterov=True), True),
    "adam_eps_root": (lambda o: o.adam(RATE, eps_root=1e-3), True),
    "adam_mean_dtype": (lambda o: o.adam(RATE, mu_dtype="float32"), False),
    "adamw_eps_root": (lambda o: o.adamw(RATE, eps_root=1e-3, weight_decay=0.1), True),
    "lamb_eps_root": (lambda o: o.lamb(RATE, eps_root=1e-3, weight_decay=0.1), True),
    "nadamw_eps_root": (lambda o: o.nadamw(RATE, eps_root=1e-3, weight_decay=0.1), True),
    "nadam_plain": (lambda o: o.nadam(RATE, eps_root=1e-3, nesterov=False), True),
    "optimistic_adam_eps_root": (
        lambda o: o.optimistic_adam_v2(RATE, alpha=0.7, beta=0.4, eps_root=1e-3),
        True,
    ),
    "rms_of_optax": (
        lambda o: o.rmsprop(RATE, eps_in_sqrt=True, initial_scale=0.5, nesterov=True, momentum=0.9),
        True,
    ),
    "rms_unbiased": (lambda o: o.rmsprop(RATE, eps_in_sqrt=False, bias_correction=True), True),
    "rms_centered": (
        lambda o: o.rmsprop(RATE, eps_in_sqrt=True, initial_scale=0.5, centered=True),
        False,
    ),
    "sgd_accumulator": (
        lambda o: o.sgd(RATE, momentum=0.9, nesterov=True, accumulator_dtype="float32"),
        False,
    ),
    "ema_accumulator": (lambda o: o.ema(0.9, accumulator_dtype="float32"), False),
    "ascent": (lambda o: o.scale_by_learning_rate(RATE, flip_sign=False), True),
    "adamax": (lambda o: o.adamax(RATE), True),
    "adamaxw": (lambda o: o.adamaxw(RATE, weight_decay=0.1), True),
    "adafactor": (
        lambda o: o.adafactor(RATE, min_dim_size_to_factor=2, momentum=0.9, weight_decay_rate=0.01),
        False,
    ),
    "adafactor_whole": (lambda o: o.adafactor(RATE, factored=False), False),
    "factored": (lambda o: o.scale_by_factored_rms(min_dim_size_to_factor=2), True),
    "adaptive_clip": (
        lambda o: o.chain(o.sgd(RATE), o.adaptive_grad_clip(0.02, eps=1e-2)),
        True,
    ),
    "distance": (
        lambda o: o.chain(o.scale_by_distance_over_gradients(0.1), o.scale(-1.0)),
        False,
    ),
    "optimistic_adam": (
        lambda o: o.optimistic_adam_v2(RATE, alpha=0.7, beta=0.4, nesterov=False),
        True,
    ),
    "sm3": (lambda o: o.sm3(RATE), False),
    "adamw": (lambda o: o.adamw(RATE, weight_decay=0.1), True),
    "adan": (lambda o: o.adan(RATE), True),
    "amsgrad": (lambda o: o.amsgrad(RATE), True),
    "fromage": (lambda o: o.fromage(RATE), True),
    "lamb": (lambda o: o.lamb(RATE, weight_decay=0.1), True),
    "lars": (lambda o: o.lars(RATE, weight_decay=0.1), True),
    "lbfgs": (lambda o: o.lbfgs(RATE, memory_size=3, linesearch=None), True),
    "lion": (lambda o: o.lion(RATE), True),
    "nadam": (lambda o: o.nadam(RATE), True),
    "nadamw": (lambda o: o.nadamw(RATE, weight_decay=0.1), True),
    "novograd": (lambda o: o.novograd(RATE, weight_decay=0.1), True),
    "optimistic": (lambda o: o.optimistic_gradient_descent(RATE), True),
    "radam": (lambda o: o.radam(RATE, b2=0.9), True),
    "rss": (lambda o: o.chain(o.scale_by_rss(), o.scale_by_learning_rate(RATE)), True),
    "sgd": (lambda o: o.sgd(RATE, momentum=0.9, nesterov=True), True),
    "sign_sgd": (lambda o: o.sign_sgd(RATE), True),
    "yogi": (lambda o: o.yogi(RATE), False),
    "trust_ratio": (lambda o: o.scale_by_trust_ratio(), True),
    "block_norm": (lambda o: o.scale_by_param_block_norm(), False),
    "block_rms": (lambda o: o.scale_by_param_block_rms(), False),
    "block_clip": (lambda o: o.clip_by_block_rms(0.1), True),
    "centralize": (lambda o: o.centralize(), False),
    "ema": (lambda o: o.ema(0.9), True),
    "clip": (lambda o: o.clip_by_global_norm(0.5), True),
    "update_norm": (lambda o: o.normalize_by_update_norm(), False),
    "nonnegative": (lambda o: o.keep_params_nonnegative(), False),
    "masked": (lambda o: o.masked(o.adam(RATE), {"w": True, "b": False}), True),
    "freeze": (lambda o: o.chain(o.sgd(RATE), o.freeze({"w": False, "b": True})), True),
    "by_label": (
        lambda o: o.multi_transform(
            {"a": o.adam(RATE), "z": o.set_to_zero()}, {"w": "a", "b": ("z", "a")}
        ),
        True,
    ),
}
# What optax computes with float32 inside.
SINGLE = (
    "adafactor", "adafactor_whole", "factored", "distance", "adam_mean_dtype", "sgd_accumulator",
    "ema_accumulator",
)  # fmt: skip
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "linear_begin": lambda o: o.linear_schedule(1.0, 0.1, 5, 3),
    "exponential_begin": lambda o: o.exponential_decay(1.0, 3, 0.5, transition_begin=2),
    "exponential_stairs": lambda o: o.exponential_decay(
        1.0, 3, 0.5, transition_begin=1, staircase=True, end_value=0.2
    ),
    "exponential_growth": lambda o: o.exponential_decay(1.0, 3, 1.5, end_value=2.0),
    "warmup_exponential_end": lambda o: o.warmup_exponential_decay_schedule(
        0.1, 1.0, 3, 4, 0.5, transition_begin=2, end_value=0.4
    ),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2.0, 7, 2),
    "warmup_constant": lambda o: o.warmup_constant_schedule(0.1, 1.0, 4),
    "warmup_exponential": lambda o: o.warmup_exponential_decay_schedule(0.1, 1.0, 3, 4, 0.5),
    "sgdr": lambda o: o.sgdr_schedule(
        [dict(init_value=0.0, peak_value=p, decay_steps=5, warmup_steps=2) for p in (1.0, 0.5)]
    ),
}


def params(dtype: str) -> dict[str, Any]:
    """A tree of parameters."""
    numbers = np.sin(np.arange(1, 13)) + (1j * np.cos(np.arange(12)) if "c" in dtype else 0)
    numbers = numbers.astype(dtype)
    return {"w": numbers[:6].reshape(3, 2), "b": (numbers[6:8], numbers[8:])}


def gradient(p: Any, step: int) -> Any:
    """The gradient of a bowl that moves."""
    return (p - np.asarray(np.cos(1.7 * step), p.dtype)) * np.asarray(0.5 + step, p.dtype)
