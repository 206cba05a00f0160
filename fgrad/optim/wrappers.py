"""L7. Transformations of transformations: of some parameters, at some steps, averaged, guarded.

    masked(inner, mask)             only where the mask is true
    multi_transform({...}, labels)  another one for each label
    multi_steps(inner, k)           one step for the mean of k gradients
    apply_if_finite(inner, n)       steps with NaN or infinity are left out
    dynamic_loss_scale(inner)       16-bit gradients of a scaled loss, skipped where they overflow

The steps at which something happens are decided by selection, so all of them go through `jit`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError
from fgrad.ir.aval import FLOAT32
from fgrad.numpy.promote import as_array, convert, dtype_of
from fgrad.ops.complex import real_dtype
from fgrad.optim.base import (
    GradientTransformation,
    Params,
    State,
    Updates,
    abs_square,
    check_structure,
    check_taken,
    chosen_parts,
    first_count,
    global_norm,
    handing_on,
    scaled,
    stateless,
    taken,
    zero_updates,
)
from fgrad.optim.optimizers import in_dtypes, like, moving_average
from fgrad.trace import Value
from fgrad.typing import DTypeLike, PyTree

Mask = PyTree | Callable[[Params], PyTree]


def chosen(which: Value, first: PyTree, second: PyTree) -> PyTree:
    """One of two trees, by a scalar."""
    return tree.map(lambda x, y: np.where(which, x, y)[()], first, second)


def all_finite(updates: Updates) -> Value:
    """Whether no element of a tree is NaN or infinite.

    Example:
        >>> all_finite({"a": np.array([1.0, np.inf])})
        np.False_
    """
    found: PyTree = np.bool_(True)
    for x in tree.leaves(updates):
        found = np.logical_and(found, np.all(np.isfinite(x)))
    return found


# --- some parameters ----------------------------------------------------------------------------


@pickles_as_call
@also_takes(mask_compatible_extra_args=False)
def masked(inner: GradientTransformation, mask: Mask) -> GradientTransformation:
    """A transformation of some of the parameters; updates of the others stay as they are.

    Arguments:
        inner: the transformation, which sees a tree with None in the place of the others.
        mask: a tree of bools that is a prefix of the parameters, or a function of them.

    Raises:
        ArgumentError: the mask is no prefix of the parameters.

    Example:
        >>> from fgrad.optim import scale
        >>> t = masked(scale(0.5), {"w": True, "b": False})
        >>> t.update({"w": 2.0, "b": 2.0}, t.init({"w": 1.0, "b": 1.0}))[0]
        {'w': np.float64(1.0), 'b': 2.0}
    """

    def parts(x: PyTree, of: PyTree) -> tuple[PyTree, PyTree]:
        return chosen_parts(x, mask(of) if callable(mask) else mask)

    def update(
        updates: Updates, state: State, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        of = updates if params is None else params
        wanted, rest = parts(updates, of)
        own = None if params is None else parts(params, of)[0]
        new, state = inner.update(wanted, state, own, **extra)
        return tree.combine(new, rest), state

    return GradientTransformation(
        lambda params: inner.init(parts(params, params)[0]), handing_on(update, [inner])
    )


@pickles_as_call
def set_to_zero() -> GradientTransformation:
    """Updates that are 0: parameters stay as they are.

    Example:
        >>> set_to_zero().update(2.0, ())[0]
        np.float64(0.0)
    """
    return stateless(lambda updates, _: zero_updates(updates))


@pickles_as_call
def freeze(mask: Mask) -> GradientTransformation:
    """Updates that are 0 where a mask is true.

    Example:
        >>> t = freeze({"w": True, "b": False})
        >>> t.update({"w": 2.0, "b": 2.0}, t.init({"w": 1.0, "b": 1.0}))[0]
        {'w': np.float64(0.0), 'b': 2.0}
    """
    return masked(set_to_zero(), mask)


@pickles_as_call
@also_takes(mask_compatible_extra_args=False)
def multi_transform(
    transforms: Mapping[Hashable, GradientTransformation],
    param_labels: PyTree | Callable[[Params], PyTree],
) -> GradientTransformation:
    """Another transformation for each label of parameters.

    Arguments:
        transforms: for each label a transformation.
        param_labels: a tree of labels that is a prefix of the parameters, or a function of them.

    Raises:
        ArgumentError: there is a label without a transformation.

    Example:
        >>> from fgrad.optim import scale
        >>> t = multi_transform({"a": scale(0.5), "b": set_to_zero()}, {"w": "a", "v": "b"})
        >>> t.update({"w": 2.0, "v": 2.0}, t.init({"w": 1.0, "v": 1.0}))[0]
        {'w': np.float64(1.0), 'v': np.float64(0.0)}
    """

    def mask_of(label: Hashable, of: PyTree) -> PyTree:
        labels = param_labels(of) if callable(param_labels) else param_labels
        unknown = [x for x in tree.leaves(labels) if x not in transforms]
        if unknown:
            raise ArgumentError(
                f"optim.multi_transform: no transformation for the label {unknown[0]!r}.",
                (("write", f"one of {', '.join(map(repr, transforms))}"),),
            )
        return tree.map(lambda x: x == label, labels)

    parts = {
        label: masked(inner, lambda of, label=label: mask_of(label, of))
        for label, inner in transforms.items()
    }

    def update(
        updates: Updates, state: State, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        check_taken("multi_transform", parts.values(), extra)
        states = {}
        of = params if params is not None else updates
        for label, part in parts.items():
            more = taken(part, extra)
            updates, states[label] = part.update(updates, state[label], of, **more)
        return updates, states

    return GradientTransformation(
        lambda params: {label: part.init(params) for label, part in parts.items()},
        handing_on(update, parts.values()),
    )


# --- some steps ---------------------------------------------------------------------------------


class MultiStepsState(NamedTuple):
    """How many gradients were seen of the present step, their mean, and the inner state."""

    seen: Value
    mean: Params
    inner: State


@pickles_as_call
def multi_steps(inner: GradientTransformation, every: int) -> GradientTransformation:
    """One step for the mean of `every` gradients, as of a batch that is so much larger.

    Updates of the calls between are 0; optax calls it MultiSteps.

    Arguments:
        inner: the optimizer that makes the step.
        every: how many gradients are averaged.

    Raises:
        ArgumentError: if `every` is not positive.

    Example:
        >>> from fgrad.optim import scale
        >>> t = multi_steps(scale(-1.0), 2)
        >>> first, state = t.update(1.0, t.init(0.0))
        >>> first, t.update(3.0, state)[0]
        (np.float64(0.0), np.float64(-2.0))
    """
    if every < 1:
        raise ArgumentError(f"optim.multi_steps: every={every} must be 1 or more.")

    def init(params: Params) -> MultiStepsState:
        return MultiStepsState(first_count(), zero_updates(params), inner.init(params))

    def update(
        updates: Updates, state: MultiStepsState, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        seen = state.seen + 1
        part = 1.0 / (1.0 * seen)
        mean = tree.map(lambda m, g: m + scaled(as_array(g) - m, part), state.mean, updates)
        new, after = inner.update(mean, state.inner, params, **extra)
        last = seen == every
        kept = MultiStepsState(
            np.where(last, 0, seen)[()],
            chosen(last, zero_updates(mean), mean),
            chosen(last, after, state.inner),
        )
        return chosen(last, new, zero_updates(updates)), kept

    return GradientTransformation(init, handing_on(update, [inner]))


class FiniteState(NamedTuple):
    """How many steps in a row were left out, how many in all, whether the last one was taken."""

    notfinite_count: Value
    last_finite: PyTree
    total_notfinite: Value
    inner: State


@pickles_as_call
def apply_if_finite(
    inner: GradientTransformation, max_consecutive_errors: int
) -> GradientTransformation:
    """A transformation whose steps with NaN or infinity are left out.

    Arguments:
        inner: the transformation.
        max_consecutive_errors: after so many steps in a row that are left out one is taken.

    Example:
        >>> from fgrad.optim import scale
        >>> t = apply_if_finite(scale(-1.0), 5)
        >>> t.update(np.nan, t.init(0.0))[0]
        np.float64(0.0)
    """

    def init(params: Params) -> FiniteState:
        return FiniteState(first_count(), np.bool_(True), first_count(), inner.init(params))

    def update(
        updates: Updates, state: FiniteState, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        finite = all_finite(updates)
        failed = np.where(finite, 0, state.notfinite_count + 1)[()]
        takes = np.logical_or(finite, failed > max_consecutive_errors)
        new, after = inner.update(updates, state.inner, params, **extra)
        kept = FiniteState(
            failed,
            finite,
            state.total_notfinite + np.where(finite, 0, 1)[()],
            chosen(takes, after, state.inner),
        )
        return chosen(takes, new, zero_updates(updates)), kept

    return GradientTransformation(init, handing_on(update, [inner]))


class LossScaleState(NamedTuple):
    """The factor of the loss, the steps since it changed, and the inner state."""

    factor: PyTree
    good_steps: Value
    inner: State


@pickles_as_call
def dynamic_loss_scale(
    inner: GradientTransformation,
    initial: float = 2.0**15,
    growth_interval: int = 2000,
    factor: float = 2.0,
) -> GradientTransformation:
    """A transformation of the gradients of `state.factor * loss`, for 16-bit numbers.

    Gradients are divided by the factor; where one is not finite, the step is left out and the
    factor halved; after `growth_interval` good steps it doubles (Micikevicius et al. 2018).

    Arguments:
        inner: what makes steps of the true gradients.
        initial: the first factor.
        growth_interval: after how many good steps it grows.
        factor: by how much it grows and shrinks.

    Example:
        >>> from fgrad.optim import scale
        >>> t = dynamic_loss_scale(scale(-1.0), initial=8.0)
        >>> state = t.init(0.0)
        >>> updates, state = t.update(state.factor * 3.0, state)
        >>> updates, t.update(np.inf, state)[1].factor
        (np.float32(-3.0), np.float32(4.0))
    """

    def init(params: Params) -> LossScaleState:
        return LossScaleState(np.float32(initial), first_count(), inner.init(params))

    def update(
        updates: Updates, state: LossScaleState, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        like = updates if params is None else params
        true = tree.map(lambda g, p: _unscaled(g, state.factor, p), updates, like)
        finite = all_finite(updates)
        safe = chosen(finite, true, zero_updates(true))
        new, after = inner.update(safe, state.inner, params, **extra)
        good = state.good_steps + 1
        grows = good >= growth_interval
        larger = np.where(grows, state.factor * np.float32(factor), state.factor)
        smaller = np.maximum(state.factor / np.float32(factor), np.float32(1.0))
        kept = LossScaleState(
            np.where(finite, larger, smaller)[()],
            np.where(np.logical_and(finite, np.logical_not(grows)), good, 0)[()],
            chosen(finite, after, state.inner),
        )
        return chosen(finite, new, zero_updates(new)), kept

    return GradientTransformation(init, handing_on(update, [inner]))


def _unscaled(g: PyTree, factor: Value, p: PyTree) -> Value:
    """A gradient over a factor, divided in 32 bits at least, in the dtype of its parameter."""
    given, g, dtype = g, as_array(g), dtype_of(p)
    wide = convert(g, FLOAT32) if g.dtype.itemsize < 4 else g
    narrow = dtype.itemsize < 4 and p is given  # without parameters the gradient stays wide
    return convert(wide / convert(factor, real_dtype(wide.dtype)), wide.dtype if narrow else dtype)


# --- averages -----------------------------------------------------------------------------------


class EmaState(NamedTuple):
    """The number of steps and the running mean."""

    count: Value
    ema: Params


@pickles_as_call
def ema(
    decay: float, debias: bool = True, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """The running mean of what it is given, of updates or of parameters.

    Arguments:
        debias: whether the mean is divided by the sum of its weights, as Adam does.
        accumulator_dtype: the dtype in which the mean is kept; None for that of what is given.

    Example:
        >>> t = ema(0.9)
        >>> float(t.update(2.0, t.init(0.0))[0].round(9))
        2.0
    """

    def update(updates: Updates, state: EmaState, params: Params | None = None) -> PyTree:
        count = state.count + 1
        mean = moving_average(like(state.ema, updates), updates, decay)
        factor = 1.0 / (1.0 - np.power(np.float64(decay), 1.0 * count)) if debias else 1.0
        kept = in_dtypes(mean, accumulator_dtype)
        return tree.map(lambda m: scaled(m, factor), mean), EmaState(count, kept)

    return GradientTransformation(
        lambda p: EmaState(first_count(), in_dtypes(zero_updates(p), accumulator_dtype)), update
    )


def incremental_update(new_tensors: PyTree, old_tensors: PyTree, step_size: float) -> PyTree:
    """step_size * new + (1 - step_size) * old: Polyak's average of parameters.

    Arguments:
        new_tensors, old_tensors: trees of one structure.
        step_size: the weight of the new ones.

    Example:
        >>> incremental_update({"w": 1.0}, {"w": 0.0}, 0.25)
        {'w': np.float64(0.25)}
    """

    def between(new: Value, old: Value) -> Value:
        old = as_array(old)
        return scaled(as_array(new), step_size) + scaled(old, 1.0 - step_size)

    return tree.map(between, new_tensors, old_tensors)


class LookaheadParams(NamedTuple):
    """The parameters that are trained, and those that follow."""

    fast: Params
    slow: Params


class LookaheadState(NamedTuple):
    """The state of the fast optimiser and the steps since the last synchronisation."""

    fast: State
    steps: Value


@pickles_as_call
def lookahead(
    fast_optimizer: GradientTransformation,
    sync_period: int,
    slow_step_size: float,
    reset_state: bool = False,
) -> GradientTransformation:
    """Slow parameters go a part of the way of `sync_period` fast steps (Zhang et al. 2019).

    `init` takes `LookaheadParams(params, params)`, `update` the gradient by the fast ones and such
    a pair as `params`, and gives updates of both.

    Arguments:
        fast_optimizer: the optimizer of the fast parameters.
        sync_period: its steps between two slow ones.
        slow_step_size: the part of the way that slow ones go.
        reset_state: whether the state of `fast_optimizer` begins anew then.

    Raises:
        ArgumentError: if `update` is given no pair of parameters.

    Example:
        >>> from fgrad.optim import scale
        >>> t = lookahead(scale(-1.0), 1, 0.5)
        >>> pair = LookaheadParams(1.0, 1.0)
        >>> t.update(1.0, t.init(pair), pair)[0]
        LookaheadParams(fast=np.float64(-0.5), slow=np.float64(-0.5))
    """

    def init(params: LookaheadParams) -> LookaheadState:
        return LookaheadState(fast_optimizer.init(params.fast), first_count())

    def update(
        updates: Updates, state: LookaheadState, params: PyTree = None, **extra: PyTree
    ) -> PyTree:
        if not isinstance(params, LookaheadParams):
            raise ArgumentError(
                "optim.lookahead needs both parameters.",
                (("write", "optimizer.update(gradients, state, LookaheadParams(fast, slow))"),),
            )
        new, fast = fast_optimizer.update(updates, state.fast, params.fast, **extra)
        steps = state.steps + 1
        syncs = steps == sync_period
        ahead = tree.map(lambda f, s, u: f + u - s, params.fast, params.slow, new)
        slow = tree.map(lambda d: scaled(as_array(d), slow_step_size), ahead)
        both = tree.map(lambda s, d, f: s + d - f, params.slow, slow, params.fast)
        again = fast_optimizer.init(params.fast) if reset_state else fast
        kept = LookaheadState(chosen(syncs, again, fast), np.where(syncs, 0, steps)[()])
        moved = LookaheadParams(
            chosen(syncs, both, new), chosen(syncs, slow, zero_updates(params.slow))
        )
        return moved, kept

    return GradientTransformation(init, handing_on(update, [fast_optimizer]))


# --- of gradients -------------------------------------------------------------------------------


@pickles_as_call
def centralize() -> GradientTransformation:
    """Gradients of matrices less their means over all axes but the first (Yong et al. 2020).

    Example:
        >>> centralize().update(np.array([[1.0, 3.0]]), ())[0]
        array([[-1.,  1.]])
    """

    def one(g: Value) -> Value:
        g = as_array(g)
        axes = tuple(range(1, len(g.shape)))
        return g - np.mean(g, axis=axes, keepdims=True) if axes and g.size else g

    return stateless(lambda updates, _: tree.map(one, updates))


@pickles_as_call
def zero_nans() -> GradientTransformation:
    """Updates with 0 in the place of NaN.

    Example:
        >>> zero_nans().update(np.array([np.nan, 1.0]), ())[0]
        array([0., 1.])
    """
    return stateless(
        lambda updates, _: tree.map(lambda u: np.where(np.isnan(u), 0, u)[()], updates)
    )


@pickles_as_call
def clip_by_block_rms(threshold: float) -> GradientTransformation:
    """Each array shrunk so that the root of its mean square is at most `threshold`.

    Example:
        >>> clip_by_block_rms(1.0).update(np.array([2.0, 2.0]), ())[0]
        array([1., 1.])
    """

    def one(u: Value) -> Value:
        u = as_array(u)
        if not u.size:
            return u
        square = np.mean(abs_square(u)) / threshold**2
        large = square > 1.0
        return u / np.where(large, np.sqrt(np.where(large, square, 1)), 1)

    return stateless(lambda updates, _: tree.map(one, updates))


@pickles_as_call
def normalize_by_update_norm(
    scale_factor: float = 1.0, eps: float = 1e-6
) -> GradientTransformation:
    """Updates divided by their global norm.

    Arguments:
        scale_factor: the norm afterwards.

    Example:
        >>> normalize_by_update_norm(eps=0.0).update(np.array([3.0, 4.0]), ())[0]
        array([0.6, 0.8])
    """

    def normalized(updates: Updates, _: Params | None) -> Updates:
        factor = scale_factor / (global_norm(updates) + eps)
        return tree.map(lambda u: scaled(as_array(u), factor), updates)

    return stateless(normalized)


@pickles_as_call
def keep_params_nonnegative() -> GradientTransformation:
    """Updates that leave parameters at 0 which they would make negative.

    Example:
        >>> keep_params_nonnegative().update(np.array([-3.0]), (), np.array([1.0]))[0]
        array([-1.])
    """

    def kept(updates: Updates, params: Params | None) -> Updates:
        check_structure(updates, params, "keep_params_nonnegative")
        return tree.map(lambda u, p: np.where(p + u < 0, -p, u)[()], updates, params)

    return stateless(kept)


@pickles_as_call
def named_chain(*pairs: tuple[str, GradientTransformation]) -> GradientTransformation:
    """Transformations one after the other; the state is a dictionary by their names.

    Arguments:
        pairs: (name, transformation).

    Example:
        >>> from fgrad.optim import scale
        >>> t = named_chain(("half", scale(0.5)), ("negative", scale(-1.0)))
        >>> t.update(2.0, t.init(0.0))
        (np.float64(-1.0), {'half': EmptyState(), 'negative': EmptyState()})
    """

    def update(
        updates: Updates, state: State, params: Params | None = None, **extra: PyTree
    ) -> PyTree:
        check_taken("named_chain", [part for _, part in pairs], extra)
        states = {}
        for name, part in pairs:
            more = taken(part, extra)
            updates, states[name] = part.update(updates, state[name], params, **more)
        return updates, states

    return GradientTransformation(
        lambda params: {name: part.init(params) for name, part in pairs},
        handing_on(update, [part for _, part in pairs]),
    )
