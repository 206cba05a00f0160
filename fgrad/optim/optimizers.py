"""L7. Optimisers: sgd, adam, adamw, rmsprop and others, with the formulas of their papers.

With t = 1, 2, ... the step, g the gradient and r the learning rate:

    sgd      m = b m + g                        u = -r m                (nesterov: g + b m)
    adam     m = b1 m + (1 - b1) g              u = -r m' / (sqrt(v') + eps)
             v = b2 v + (1 - b2) |g|^2          m' = m / (1 - b1^t), v' = v / (1 - b2^t)
    rmsprop  v = d v + (1 - d) |g|^2            u = -r g / (sqrt(v) + eps)
    adagrad  v = v + |g|^2                      u = -r g / (sqrt(v) + eps)

Complex parameters have complex gradients, which point uphill, and real v.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.ir.aval import FLOAT64
from fgrad.numpy.promote import as_array, dtype_of
from fgrad.ops.elementwise import convert, pow_
from fgrad.optim.base import (
    GradientTransformation,
    Params,
    ScalarOrSchedule,
    Updates,
    abs_square,
    chain,
    decoupled,
    first_count,
    identity,
    in_dtype,
    scale_by_learning_rate,
    scaled,
    squares_like,
    zero_updates,
)
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike, PyTree


class TraceState(NamedTuple):
    """The momentum of `sgd`."""

    trace: Params


class AdamState(NamedTuple):
    """The step number and the running means of gradients and of their squares."""

    count: Value
    mu: Params
    nu: Params


class RmsState(NamedTuple):
    """The step number, and the running means of squared gradients, and of gradients if centred."""

    count: Value
    nu: Params
    mu: Params


class SumState(NamedTuple):
    """The sum of squared gradients."""

    total: Params


def moving_average(old: Params, new: Updates, decay: float) -> Params:
    """decay * old + (1 - decay) * new, leaf by leaf."""
    return tree.map(lambda m, g: scaled(m, decay) + scaled(as_array(g), 1.0 - decay), old, new)


def in_dtypes(kept: Params, dtype: DTypeLike | None) -> Params:
    """A tree in the dtype in which it is kept; as it is for None."""
    if dtype is None:
        return kept
    return tree.map(lambda x: in_dtype(x, np.dtype(dtype), "what is kept"), kept)


def like(kept: Params, updates: Updates) -> Params:
    """What was kept, in the dtypes of the updates."""
    return tree.map(lambda x, g: convert(as_array(x), dtype_of(g)), kept, updates)


def _squares(updates: Updates) -> Updates:
    return tree.map(abs_square, updates)


# --- parts --------------------------------------------------------------------------------------


@pickles_as_call
def trace_momentum(
    decay: float, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Momentum: m = decay m + g; the update is m, or g + decay m (Sutskever et al. 2013).

    Arguments:
        accumulator_dtype: the dtype in which m is kept; None for that of parameters.

    Example:
        >>> t = trace_momentum(0.5)
        >>> _, state = t.update(1.0, t.init(0.0))
        >>> t.update(1.0, state)[0]
        np.float64(1.5)
    """

    def update(updates: Updates, state: TraceState, params: Params | None = None) -> PyTree:
        def accumulate(m: Value, g: ArrayLike) -> Value:
            return as_array(g) + scaled(m, decay)

        momentum = tree.map(accumulate, like(state.trace, updates), updates)
        ahead = tree.map(accumulate, momentum, updates) if nesterov else momentum
        return ahead, TraceState(in_dtypes(momentum, accumulator_dtype))

    return GradientTransformation(
        lambda params: TraceState(in_dtypes(zero_updates(params), accumulator_dtype)), update
    )


@pickles_as_call
def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """The step of Adam without its learning rate (Kingma and Ba 2015, algorithm 1).

    Arguments:
        mu_dtype: the dtype in which the mean of gradients is kept; None for that of parameters.

    Example:
        >>> t = scale_by_adam()
        >>> bool(abs(t.update(5.0, t.init(0.0))[0] - 1) < 1e-6)
        True
    """

    def init(params: Params) -> AdamState:
        mu = in_dtypes(zero_updates(params), mu_dtype)
        return AdamState(first_count(), mu, squares_like(params))

    def update(updates: Updates, state: AdamState, params: Params | None = None) -> PyTree:
        count = state.count + 1
        mu = moving_average(like(state.mu, updates), updates, b1)
        nu = moving_average(state.nu, _squares(updates), b2)
        v_scale = 1.0 / _bias(b2, count)
        # Nesterov's look-ahead is the next mean: b1 mu, and the present gradient (Dozat 2016).
        m_scale = (b1 if nesterov else 1.0) / _bias(b1, count + 1 if nesterov else count)
        g_scale = (1.0 - b1) / _bias(b1, count) if nesterov else None

        def step(m: Value, v: Value, g: ArrayLike) -> Value:
            mean = scaled(m, m_scale)
            if g_scale is not None:
                mean = mean + scaled(as_array(g), g_scale)
            square = scaled(v, v_scale)
            return mean / (np.sqrt(square + eps_root if eps_root else square) + eps)

        new = tree.map(step, mu, nu, updates)
        return new, AdamState(count, in_dtypes(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


def _bias(decay: float, count: ArrayLike) -> Value:
    """1 - decay^count."""
    return 1.0 - pow_(np.float64(decay), convert(as_array(count), FLOAT64))


def _times(kept: Params, factor: Value) -> Params:
    return tree.map(lambda x: scaled(x, factor), kept)


@pickles_as_call
def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    *,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = False,
    bias_correction: bool = False,
    centered: bool = False,
) -> GradientTransformation:
    """Divide by the root of the running mean square (Tieleman and Hinton 2012), or by the standard
    deviation if `centered` (Graves 2013, eq. 40).

    Arguments:
        initial_scale: the first mean square.
        eps_in_sqrt: whether `eps` is added under the root, as optax does it; PyTorch does not.
        bias_correction: whether the mean is divided by the sum of its weights, as Adam does it.
        centered: whether the squared mean is subtracted from the mean square.

    Example:
        >>> t = scale_by_rms(0.75, eps=0.0)
        >>> t.update(3.0, t.init(0.0))[0]
        np.float64(2.0)
    """

    def init(params: Params) -> RmsState:
        nu = tree.map(lambda v: v + v.dtype.type(initial_scale), squares_like(params))
        return RmsState(first_count(), nu, zero_updates(params) if centered else None)

    def update(updates: Updates, state: RmsState, params: Params | None = None) -> PyTree:
        count = state.count + 1
        nu = moving_average(state.nu, _squares(updates), decay)
        mu = moving_average(state.mu, updates, decay) if centered else None
        factor = 1.0 / _bias(decay, count) if bias_correction else None
        first, second = [x if factor is None else _times(x, factor) for x in (mu, nu)]
        spread = tree.map(lambda v, m: v - abs_square(m), second, first) if centered else second

        def root(v: Value) -> Value:
            return np.sqrt(v + eps) if eps_in_sqrt else np.sqrt(v) + eps

        new = tree.map(lambda g, v: as_array(g) / root(v), updates, spread)
        return new, RmsState(count, nu, mu)

    return GradientTransformation(init, update)


# --- optimisers ---------------------------------------------------------------------------------


@pickles_as_call
def sgd(
    learning_rate: ScalarOrSchedule,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """Stochastic gradient descent.

    Arguments:
        learning_rate: a number or a schedule.
        momentum: the decay of the momentum, or None.
        nesterov: whether the momentum looks ahead.
        accumulator_dtype: the dtype in which the momentum is kept; None for that of parameters.

    Returns:
        A `GradientTransformation`.

    Example:
        >>> optimizer = sgd(0.1)
        >>> params = np.array([1.0, 2.0])
        >>> updates, state = optimizer.update(2 * params, optimizer.init(params))
        >>> params + updates
        array([0.8, 1.6])
    """
    kept = accumulator_dtype
    inner = identity() if momentum is None else trace_momentum(momentum, nesterov, kept)
    return chain(inner, scale_by_learning_rate(learning_rate))


@pickles_as_call
def adam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam (Kingma and Ba 2015); with `nesterov`, NAdam (Dozat 2016).

    Arguments:
        learning_rate: a number or a schedule.
        b1, b2: the decays of the running means of gradients and of their squares.
        eps, eps_root: added to the root of the mean square, and under the root.
        mu_dtype: as in `scale_by_adam`.

    Example:
        >>> optimizer = adam(0.1)
        >>> params = np.array([1.0, 2.0])
        >>> updates, state = optimizer.update(2 * params, optimizer.init(params))
        >>> params + updates
        array([0.9, 1.9])
    """
    inner = scale_by_adam(b1, b2, eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)
    return chain(inner, scale_by_learning_rate(learning_rate))


@pickles_as_call
def adamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: float = 1e-2,
    mask: PyTree | Callable[[Params], PyTree] = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    `update` needs the parameters.

    Arguments:
        mu_dtype: as in `scale_by_adam`; others are those of `adam` and of `add_decayed_weights`.

    Example:
        >>> optimizer = adamw(0.1, weight_decay=0.5)
        >>> params = np.array([1.0, 2.0])
        >>> updates, _ = optimizer.update(np.zeros(2), optimizer.init(params), params)
        >>> updates
        array([-0.05, -0.1 ])
    """
    inner = scale_by_adam(b1, b2, eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)
    return decoupled(inner, weight_decay, mask, learning_rate)


@pickles_as_call
def rmsprop(
    learning_rate: ScalarOrSchedule,
    decay: float = 0.9,
    eps: float = 1e-8,
    *,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = False,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Gradients divided by the root of their running mean square (Tieleman and Hinton 2012).

    Arguments:
        learning_rate: a number or a schedule.
        decay: the decay of the running mean.
        eps: added to the root.
        initial_scale, eps_in_sqrt, bias_correction, centered: as in `scale_by_rms`.
        momentum: the decay of a momentum of the result, or None.
        nesterov: whether the momentum looks ahead.

    Example:
        >>> optimizer = rmsprop(0.1, decay=0.75, eps=0.0)
        >>> bool(abs(optimizer.update(3.0, optimizer.init(0.0))[0] + 0.2) < 1e-15)
        True
    """
    inner = scale_by_rms(
        decay,
        eps,
        initial_scale=initial_scale,
        eps_in_sqrt=eps_in_sqrt,
        bias_correction=bias_correction,
        centered=centered,
    )
    after = identity() if momentum is None else trace_momentum(momentum, nesterov)
    return chain(inner, after, scale_by_learning_rate(learning_rate))


@pickles_as_call
def adagrad(learning_rate: ScalarOrSchedule, eps: float = 1e-10) -> GradientTransformation:
    """Gradients divided by the root of the sum of their squares (Duchi, Hazan and Singer 2011).

    Example:
        >>> optimizer = adagrad(0.5, eps=0.0)
        >>> optimizer.update(3.0, optimizer.init(0.0))[0]
        np.float64(-0.5)
    """

    def update(updates: Updates, state: SumState, params: Params | None = None) -> PyTree:
        total = tree.map(lambda s, g: s + abs_square(g), state.total, updates)
        new = tree.map(lambda g, s: as_array(g) / (np.sqrt(s) + eps), updates, total)
        return new, SumState(total)

    inner = GradientTransformation(lambda params: SumState(squares_like(params)), update)
    return chain(inner, scale_by_learning_rate(learning_rate))
