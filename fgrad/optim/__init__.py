"""L7. Gradient-based optimisation, in the form of composable transformations of gradients.

    optimizer = fgrad.optim.adam(1e-3)
    state = optimizer.init(params)
    gradients = fgrad.grad(loss)(params, batch)
    updates, state = optimizer.update(gradients, state, params)
    params = fgrad.optim.apply_updates(params, updates)

Arguments:
    learning_rate: a number, or a schedule: a function of the number of steps made.
    b1, b2, b3, decay: the decays of running means: of gradients, and of their squares.
    eps, eps_root: added to the root of a mean square, and under the root.
    weight_decay: the multiple of the parameters that is added to updates.
    mask: a tree of booleans like the parameters, or a function that makes it of them: which ones
        the rule is for; None means all.
    momentum, nesterov: the decay of a running sum of updates, and whether the next one is looked
        ahead to.
    initial_accumulator_value: what running sums begin with.
    updates, params, state: trees: gradients or what became of them, parameters, what is kept.
"""

# ruff: noqa: F405  (the names of lists are those of the modules that are loaded later)

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_names
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
    polynomial_schedule,
    sgdr_schedule,
    warmup_constant_schedule,
    warmup_cosine_decay,
    warmup_exponential_decay_schedule,
)

if TYPE_CHECKING:  # else loaded when first used
    from fgrad.optim.adaptive import *  # noqa: F403
    from fgrad.optim.curvature import *  # noqa: F403
    from fgrad.optim.fixed_points import *  # noqa: F403
    from fgrad.optim.minimise import *  # noqa: F403
    from fgrad.optim.more_optimizers import *  # noqa: F403
    from fgrad.optim.rules import *  # noqa: F403
    from fgrad.optim.second_order import *  # noqa: F403
    from fgrad.optim.wrappers import *  # noqa: F403

_PARTS = {
    "fgrad.optim.adaptive": (
        "adafactor", "adaptive_grad_clip", "optimistic_adam", "optimistic_adam_v2", "polyak_sgd",
        "scale_by_distance_over_gradients", "scale_by_factored_rms", "scale_by_polyak",
        "scale_by_sm3", "sm3",
    ),
    "fgrad.optim.curvature": ("scale_by_sophia", "sophia"),
    "fgrad.optim.fixed_points": ("FixedPoint", "fixed_point"),
    "fgrad.optim.minimise": ("Minimum", "minimize"),
    "fgrad.optim.more_optimizers": (
        "adabelief", "adadelta", "adamax", "adamaxw", "adan", "add_noise", "amsgrad", "fromage",
        "lamb", "lars", "lion", "nadam", "nadamw", "noisy_sgd", "novograd",
        "optimistic_gradient_descent", "radam", "rprop", "scale_by_sign", "sharpness_aware",
        "sign_sgd", "yogi",
    ),
    "fgrad.optim.rules": (
        "scale_by_adadelta", "scale_by_adamax", "scale_by_adan", "scale_by_amsgrad",
        "scale_by_belief", "scale_by_lion", "scale_by_novograd", "scale_by_optimistic_gradient",
        "scale_by_param_block_norm", "scale_by_param_block_rms", "scale_by_radam", "scale_by_rprop",
        "scale_by_rss", "scale_by_trust_ratio", "scale_by_yogi",
    ),
    "fgrad.optim.second_order": (
        "lbfgs", "scale_by_backtracking_linesearch", "scale_by_lbfgs", "scale_by_zoom_linesearch",
        "value_and_grad_from_state",
    ),
    "fgrad.optim.wrappers": (
        "LookaheadParams", "all_finite", "apply_if_finite", "centralize", "clip_by_block_rms",
        "dynamic_loss_scale", "ema", "freeze", "incremental_update", "keep_params_nonnegative",
        "lookahead", "masked", "multi_steps", "multi_transform", "named_chain",
        "normalize_by_update_norm", "set_to_zero", "zero_nans",
    ),
}  # fmt: skip
__getattr__, __dir__ = lazy_names(__name__, _PARTS)

__all__ = [
    "EmptyState", "FixedPoint", "GradientTransformation", "LookaheadParams", "Minimum",
    "adabelief", "adadelta",
    "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adan", "adaptive_grad_clip",
    "add_decayed_weights", "add_noise", "all_finite", "amsgrad", "apply_if_finite",
    "apply_updates", "centralize", "chain", "clip_by_block_rms", "clip_by_global_norm",
    "clip_by_value", "constant_schedule", "cosine_decay", "dynamic_loss_scale", "ema",
    "exponential_decay", "fixed_point", "freeze", "fromage", "global_norm", "identity",
    "incremental_update", "join_schedules", "keep_params_nonnegative", "lamb", "lars", "lbfgs",
    "linear_schedule", "lion", "lookahead", "masked", "minimize", "multi_steps", "multi_transform",
    "nadam", "nadamw", "named_chain", "noisy_sgd", "normalize_by_update_norm", "novograd",
    "optimistic_adam",
    "optimistic_adam_v2", "optimistic_gradient_descent", "piecewise_constant", "polyak_sgd",
    "polynomial_schedule", "radam", "rmsprop", "rprop", "scale", "scale_by_adadelta",
    "scale_by_adam", "scale_by_adamax", "scale_by_adan", "scale_by_amsgrad",
    "scale_by_backtracking_linesearch", "scale_by_belief", "scale_by_distance_over_gradients",
    "scale_by_factored_rms", "scale_by_lbfgs", "scale_by_learning_rate", "scale_by_lion",
    "scale_by_novograd", "scale_by_optimistic_gradient", "scale_by_param_block_norm",
    "scale_by_param_block_rms", "scale_by_polyak", "scale_by_radam", "scale_by_rms",
    "scale_by_rprop", "scale_by_rss", "scale_by_sign", "scale_by_sm3", "scale_by_sophia",
    "scale_by_trust_ratio", "scale_by_yogi", "scale_by_zoom_linesearch", "set_to_zero", "sgd",
    "sgdr_schedule", "sharpness_aware", "sign_sgd", "sm3", "sophia", "split_real_and_imaginary",
    "stateless",
    "trace_momentum", "value_and_grad_from_state", "warmup_constant_schedule",
    "warmup_cosine_decay", "warmup_exponential_decay_schedule", "yogi", "zero_nans",
]  # fmt: skip
