"""L7. Optimisers that find their own rate, or keep less than a number for each parameter.

With g the gradient, p the parameters and t = 1, 2, ... the step:

    factored  r = mean over columns of |g|^2, c = mean over rows    u = g / sqrt(r c / mean(r))
    sm3       a = |g|^2 + min over axes of m, m = max of a along the other axes    u = g / sqrt(a)
    polyak    u = g min((f - f_min) / |g|^2, most)
    distance  u = g max |p - p_0| / sqrt(sum of |g|^2)

The names and constants are those of optax.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.keywords import REFUSED, also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError, GradDtypeError
from fgrad.ir.aval import FLOAT64
from fgrad.numpy.promote import as_array, convert, dtype_of, shape_of
from fgrad.ops.complex import real_dtype
from fgrad.optim.base import (
    EmptyState,
    GradientTransformation,
    Params,
    ScalarOrSchedule,
    Updates,
    abs_square,
    add_decayed_weights,
    chain,
    check_structure,
    first_count,
    scale,
    scale_by_learning_rate,
    scaled,
    stateless,
    zero_updates,
)
from fgrad.optim.optimizers import moving_average, scale_by_adam, sgd
from fgrad.optim.rules import (
    norm_of,
    scale_by_optimistic_gradient,
    scale_by_param_block_rms,
)
from fgrad.optim.wrappers import clip_by_block_rms, ema
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, DTypeLike, PyTree

Mask = PyTree | Callable[[Params], PyTree]

# --- less memory --------------------------------------------------------------------------------


class FactoredState(NamedTuple):
    """The number of steps, and for each array the means that stand for its mean squares."""

    count: Value
    means: PyTree


def _largest(shape: Sequence[int], factored: bool, least: int) -> tuple[int, int] | None:
    """The two longest axes, the longest last; None if the second is shorter than `least`."""
    order = [int(k) for k in np.argsort(shape)]
    if not factored or len(shape) < 2 or shape[order[-2]] < least:
        return None
    return order[-2], order[-1]


@pickles_as_call
@also_takes(decay_rate_fn=REFUSED)
def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
) -> GradientTransformation:
    """Gradients over the root of their mean square, kept as means of rows and of columns (Shazeer
    and Stern 2018).

    Arguments:
        factored: whether to keep means alone, of arrays with two long axes.
        decay_rate: the mean square decays by 1 - t^-decay_rate in step t.
        step_offset: is subtracted from the number of the step.
        min_dim_size_to_factor: how long the two axes must be.
        epsilon: added to the squares.

    Example:
        >>> t = scale_by_factored_rms(min_dim_size_to_factor=2)
        >>> w = np.outer([1.0, 2.0], [3.0, -4.0])
        >>> t.update(w, t.init(w), w)[0].round(6)
        array([[ 1., -1.],
               [ 1., -1.]])
    """

    def first(p: PyTree) -> tuple[Value, ...]:
        shape, dtype = shape_of(p), real_dtype(dtype_of(p))
        axes = _largest(shape, factored, min_dim_size_to_factor)
        if axes is None:
            return (np.zeros(shape, dtype)[()],)
        return tuple([np.zeros(_without(shape, a), dtype) for a in reversed(axes)])

    def step(g: Value, means: tuple[Value, ...], decay: Value) -> tuple[Value, tuple[Value, ...]]:
        square = abs_square(g) + epsilon
        axes = _largest(g.shape, factored, min_dim_size_to_factor)

        def new(old: Value, found: Value) -> Value:
            return scaled(old, decay) + scaled(convert(found, old.dtype), 1.0 - decay)

        if axes is None:
            kept = new(means[0], square)
            return scaled_by(g, 1.0 / np.sqrt(kept)), (kept,)
        short, long = axes
        rows = new(means[0], np.mean(square, axis=long))
        columns = new(means[1], np.mean(square, axis=short))
        whole = np.mean(rows, axis=short - (short > long), keepdims=True)
        by_row = np.expand_dims(1.0 / np.sqrt(rows / whole), long)
        by_column = np.expand_dims(1.0 / np.sqrt(columns), short)
        return scaled_by(scaled_by(g, by_row), by_column), (rows, columns)

    def update(updates: Updates, state: FactoredState, params: Params | None = None) -> PyTree:
        check_structure(updates, params, "scale_by_factored_rms")
        leaves, treedef = tree.flatten(updates)
        t = convert(as_array(state.count - step_offset + 1), FLOAT64)
        decay = 1.0 - np.power(t, -decay_rate)
        kept: list[PyTree] = treedef.flatten_up_to(state.means)
        rows = [step(as_array(g), m, decay) for g, m in zip(leaves, kept, strict=True)]
        new, means = [treedef.unflatten([row[k] for row in rows]) for k in (0, 1)]
        return new, FactoredState(state.count + 1, means)

    return GradientTransformation(
        lambda params: FactoredState(first_count(), tree.map(first, params)), update
    )


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def scaled_by(x: Value, factors: Value) -> Value:
    """`x` times an array of real numbers, in the dtype of `x`."""
    return x * convert(as_array(factors), x.dtype)


@pickles_as_call
def adafactor(
    learning_rate: ScalarOrSchedule | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    *,
    dtype_momentum: DTypeLike | None = None,
    weight_decay_rate: float | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: Mask | None = None,
) -> GradientTransformation:
    """Adafactor (Shazeer and Stern 2018); `update` needs the parameters.

    Arguments:
        learning_rate: a number or a schedule, relative to the size of the parameters if
            `multiply_by_parameter_scale`; 1 if None.
        min_dim_size_to_factor, decay_rate, decay_offset, eps, factored: see
            `scale_by_factored_rms`.
        clipping_threshold: the largest root of the mean square of a step of an array.
        momentum, dtype_momentum: the decay of a mean of steps, or None, and its dtype.
        weight_decay_rate, weight_decay_mask: what is added of the parameters, and where.

    Example:
        >>> optimizer = adafactor(0.1)
        >>> w = np.array([3.0, 4.0])
        >>> optimizer.update(w, optimizer.init(w), w)[0].round(6)
        array([-0.353553, -0.353553])
    """
    parts = [scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts += [scale_by_learning_rate(learning_rate), scale(-1.0)]
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*parts, scale(-1.0))


class Sm3State(NamedTuple):
    """For each array the largest sums along each axis, and the mean of steps."""

    mu: PyTree
    nu: Params


@pickles_as_call
def scale_by_sm3(b1: float = 0.9, b2: float = 1.0, eps: float = 1e-8) -> GradientTransformation:
    """The step of SM3 (Anil et al. 2019), with a number for each row and column; of real numbers.

    Raises:
        GradDtypeError: if parameters are complex.

    Example:
        >>> t = scale_by_sm3(b1=0.0, eps=0.0)
        >>> t.update(np.array([[3.0, -4.0]]), t.init(np.zeros((1, 2))))[0]
        array([[ 1., -1.]])
    """

    def first(p: PyTree) -> tuple[Value, ...]:
        if dtype_of(p).kind == "c":
            raise GradDtypeError(
                "optim.scale_by_sm3: the parameters are complex, and squares have no order.",
                (("write", "optim.split_real_and_imaginary(optim.sm3(rate))"),),
            )
        return tuple([np.zeros(n, dtype_of(p)) for n in shape_of(p)])

    def total(g: Value, along: tuple[Value, ...]) -> Value:
        rank = len(g.shape)
        wide = [np.reshape(v, (-1, *[1] * (rank - 1 - k))) for k, v in enumerate(along)]
        least = functools.reduce(np.minimum, wide) if rank > 1 else wide[0] if rank else 0 * g
        new = g * g if b2 == 1.0 else (1.0 - b2) * g * g
        return new + scaled(least, b2)

    def largest(a: Value) -> tuple[Value, ...]:
        rank = len(a.shape)
        axes = [tuple([j for j in range(rank) if j != k]) for k in range(rank)]
        return tuple([np.max(a, axis=rest, initial=0) if rest else a for rest in axes])

    def update(updates: Updates, state: Sm3State, params: Params | None = None) -> PyTree:
        leaves, treedef = tree.flatten(updates)
        kept: list[PyTree] = treedef.flatten_up_to(state.mu)
        sums = [total(as_array(g), m) for g, m in zip(leaves, kept, strict=True)]
        steps = [as_array(g) * _inverse_root(a, eps) for g, a in zip(leaves, sums, strict=True)]
        nu = moving_average(state.nu, treedef.unflatten(steps), b1)
        return nu, Sm3State(treedef.unflatten([largest(a) for a in sums]), nu)

    return GradientTransformation(
        lambda params: Sm3State(tree.map(first, params), zero_updates(params)), update
    )


def _inverse_root(a: Value, eps: float) -> Value:
    """1 / sqrt(a + eps), and 0 where a is 0."""
    some = a > 0
    return np.where(some, 1 / np.sqrt(np.where(some, a, 1) + eps), 0).astype(a.dtype)[()]


@pickles_as_call
def sm3(learning_rate: float, momentum: float = 0.9) -> GradientTransformation:
    """SM3 (Anil et al. 2019).

    Example:
        >>> optimizer = sm3(0.1, momentum=0.0)
        >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
        array([-0.1])
    """
    return chain(scale_by_sm3(momentum), scale(-learning_rate))


# --- rates that are found -----------------------------------------------------------------------


@pickles_as_call
def scale_by_polyak(
    f_min: float = 0.0,
    max_learning_rate: float = 1.0,
    eps: float = 0.0,
    variant: str = "sps",
) -> GradientTransformation:
    """Updates times Polyak's rate, (value - f_min) / |g|^2, `max_learning_rate` at the most.

    `update` takes the value of the loss by name: `update(gradients, state, params, value=loss)`.

    Arguments:
        f_min: the least value of the loss.
        max_learning_rate: the largest rate.
        eps: added to the squared norm.
        variant: "sps", or "sps+", of which no rate is negative.

    Raises:
        ArgumentError: if `variant` is none of these.

    Example:
        >>> scale_by_polyak().update(np.array([3.0, 4.0]), EmptyState(), value=5.0)[0]
        array([0.6, 0.8])
    """
    if variant not in ("sps", "sps+"):
        raise ArgumentError(
            f"optim.scale_by_polyak: variant={variant!r}.", (("write", "'sps' or 'sps+'"),)
        )

    def update(
        updates: Updates, state: EmptyState, params: Params | None = None, *, value: ArrayLike
    ) -> PyTree:
        leaves = [as_array(u) for u in tree.leaves(updates)]
        square = sum([np.sum(abs_square(u)) for u in leaves]) + eps
        gap = as_array(value) - f_min
        gap = np.maximum(gap, 0) if variant == "sps+" else gap
        still = square <= np.finfo(np.float64).eps
        rate = np.minimum(gap / np.where(still, 1, square), max_learning_rate)
        rate = np.where(still, 0, rate)
        return tree.map(lambda u: scaled(as_array(u), rate), updates), state

    return GradientTransformation(lambda params: EmptyState(), update)


@pickles_as_call
def polyak_sgd(
    max_learning_rate: float = 1.0,
    scaling: ScalarOrSchedule = 1.0,
    f_min: float = 0.0,
    eps: float = 0.0,
    variant: str = "sps",
) -> GradientTransformation:
    """Gradient descent at Polyak's rate; `update` takes `value=`, see `scale_by_polyak`.

    Arguments:
        max_learning_rate, f_min, eps, variant: as in `scale_by_polyak`.
        scaling: a factor of the rate, or a schedule.

    Example:
        >>> optimizer = polyak_sgd()
        >>> w = np.array([3.0, 4.0])
        >>> optimizer.update(w, optimizer.init(w), w, value=5.0)[0]
        array([-0.6, -0.8])
    """
    return chain(sgd(scaling), scale_by_polyak(f_min, max_learning_rate, eps, variant))


@pickles_as_call
@also_takes(param_dtype=None)
def scale_by_distance_over_gradients(
    reps_rel: float = 1e-6, eps: float = 1e-8, *, global_scale: float = 1.0
) -> GradientTransformation:
    """Each array times how far its parameter has come, over the norm of all its gradients so far
    (Ivgi, Hinder and Carmon 2023).

    Arguments:
        reps_rel: the first distance, relative to the norm of the parameter.
        global_scale: a factor of all steps.

    Example:
        >>> t = scale_by_distance_over_gradients(reps_rel=0.1, eps=0.0)
        >>> w = np.array([3.0, 4.0])
        >>> t.update(w, t.init(w), w)[0].round(6)
        array([0.36, 0.48])
    """

    def init(params: Params) -> DistanceState:
        return DistanceState(
            tree.map(lambda p: reps_rel * (1 + norm_of(as_array(p))), params),
            tree.map(lambda p: np.zeros((), real_dtype(dtype_of(p)))[()], params),
            params,
        )

    def update(updates: Updates, state: DistanceState, params: Params | None = None) -> PyTree:
        check_structure(updates, params, "scale_by_distance_over_gradients")
        furthest = tree.map(
            lambda d, p, q: np.maximum(d, norm_of(as_array(p) - q)),
            state.max_dist, params, state.init_params,
        )  # fmt: skip
        sums = tree.map(lambda s, g: s + np.sum(abs_square(g)), state.grad_sum_of_squares, updates)
        new = tree.map(
            lambda g, d, s: scaled(as_array(g), global_scale * d / np.sqrt(s + eps)),
            updates, furthest, sums,
        )  # fmt: skip
        return new, DistanceState(furthest, sums, state.init_params)

    return GradientTransformation(init, update)


class DistanceState(NamedTuple):
    """How far each array has come, the sum of its squared gradients, and where it began."""

    max_dist: PyTree
    grad_sum_of_squares: PyTree
    init_params: Params


@pickles_as_call
def adaptive_grad_clip(
    clipping: float, eps: float = 1e-3, axis: Axis = None
) -> GradientTransformation:
    """Updates of each unit at most `clipping` times its parameters (Brock et al. 2021).

    Arguments:
        clipping: the largest ratio of norms.
        eps: the norm of parameters that are smaller.
        axis: over which axes the norms are; None for those of a layer's inputs: all of a vector, 0
            of a matrix or of three axes, all but the last of filters.

    Raises:
        ArgumentError: if it is not known which axes of an array are inputs.

    Example:
        >>> adaptive_grad_clip(0.5).update(np.array([3.0, 4.0]), (), np.array([0.0, 2.0]))[0]
        array([0.6, 0.8])
    """

    def size(x: Value) -> Value:
        rank = len(x.shape)
        axes: Axis = axis
        if axis is None and sum([n > 1 for n in x.shape]) > 1:
            if rank > 5:
                raise ArgumentError(
                    f"optim.adaptive_grad_clip: an array of {rank} axes.",
                    (("write", "adaptive_grad_clip(c, axis=...)    the axes of a unit"),),
                )
            axes = 0 if rank < 4 else tuple(range(rank - 1))
        return np.sqrt(np.sum(abs_square(x), axis=axes, keepdims=True))

    def clip(g: Value, p: Value) -> Value:
        g, p = as_array(g), as_array(p)
        own, most = size(g), clipping * np.maximum(size(p), eps)
        shrunk = scaled_by(g, most / np.maximum(own, 1e-6))
        return np.where(own < most, g, shrunk)[()]

    def clipped(updates: Updates, params: Params | None) -> Updates:
        check_structure(updates, params, "adaptive_grad_clip")
        return tree.map(clip, updates, params)

    return stateless(clipped)


# --- optimism -----------------------------------------------------------------------------------


@pickles_as_call
def optimistic_adam(
    learning_rate: float,
    optimism: float | None = None,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    nesterov: bool = True,
) -> GradientTransformation:
    """`optimistic_adam_v2` with alpha = `learning_rate` and beta = `optimism`, and rate 1.

    Arguments:
        mu_dtype: as in `scale_by_adam`.

    Example:
        >>> optimizer = optimistic_adam(0.1, nesterov=False)
        >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
        array([-0.1])
    """
    beta = learning_rate if optimism is None else optimism
    inner = scale_by_adam(b1, b2, eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)
    return chain(
        inner, scale_by_optimistic_gradient(learning_rate, beta), scale_by_learning_rate(1.0)
    )


@pickles_as_call
def optimistic_adam_v2(
    learning_rate: ScalarOrSchedule,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    nesterov: bool = True,
) -> GradientTransformation:
    """Adam that counts on the next gradient (Daskalakis et al. 2018), for games.

    Arguments:
        alpha, beta: the weights of the gradient, and of its last change.
        mu_dtype: as in `scale_by_adam`.

    Example:
        >>> optimizer = optimistic_adam_v2(0.1, nesterov=False)
        >>> optimizer.update(np.array([3.0]), optimizer.init(np.zeros(1)))[0].round(6)
        array([-0.1])
    """
    inner = scale_by_adam(b1, b2, eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)
    return chain(
        inner,
        scale_by_optimistic_gradient(alpha, beta),
        scale_by_learning_rate(learning_rate),
    )
