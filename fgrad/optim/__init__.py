"""L7. Gradient-based optimisation, in the form of composable transformations of gradients.

optimizer = fgrad.optim.adam(1e-3)
state = optimizer.init(params)
gradients = fgrad.grad(loss)(params, batch)
updates, state = optimizer.update(gradients, state, params)
params = fgrad.optim.apply_updates(params, updates)
"""

from __future__ import annotations

from fgrad.optim.base import (
    EmptyState,
    GradientTransformation,
    add_decayed_weights,
    apply_updates,
    chain,
    clip_by_global_norm,
    clip_by_value,
    global_norm,
    identity,
    scale,
    scale_by_learning_rate,
    split_real_and_imaginary,
    stateless,
)
from fgrad.optim.optimizers import (
    adagrad,
    adam,
    adamw,
    rmsprop,
    scale_by_adam,
    scale_by_rms,
    sgd,
    trace_momentum,
)
from fgrad.optim.schedules import (
    constant_schedule,
    cosine_decay,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant,
    warmup_cosine_decay,
)

__all__ = [
    "EmptyState",
    "GradientTransformation",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip_by_global_norm",
    "clip_by_value",
    "constant_schedule",
    "cosine_decay",
    "exponential_decay",
    "global_norm",
    "identity",
    "join_schedules",
    "linear_schedule",
    "piecewise_constant",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_rms",
    "sgd",
    "split_real_and_imaginary",
    "stateless",
    "trace_momentum",
    "warmup_cosine_decay",
]
