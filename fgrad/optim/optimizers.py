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
from fgrad.numpy.promote import as_array
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
    scale_by_learning_rate,
    scaled,
    squares_like,
    zero_updates,
)
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree


class TraceState(NamedTuple):
    """The momentum of `sgd`."""

    trace: Params


class AdamState(NamedTuple):
    """The step number and the running means of gradients and of their squares."""

    count: Value
    mu: Params
    nu: Params


class RmsState(NamedTuple):
    """The running mean of squared gradients, and of gradients if centred."""

    nu: Params
    mu: Params


class SumState(NamedTuple):
    """The sum of squared gradients."""

    total: Params


def moving_average(old: Params, new: Updates, decay: float) -> Params:
    """decay * old + (1 - decay) * new, leaf by leaf."""
    return tree.map(lambda m, g: scaled(m, decay) + scaled(as_array(g), 1.0 - decay), old, new)


def _squares(updates: Updates) -> Updates:
    return tree.map(abs_square, updates)


# --- parts --------------------------------------------------------------------------------------


@pickles_as_call
def trace_momentum(decay: float, nesterov: bool = False) -> GradientTransformation:
    """Momentum: m = decay m + g; the update is m, or g + decay m (Sutskever et al. 2013).

    Example:
        >>> t = trace_momentum(0.5)
        >>> _, state = t.update(1.0, t.init(0.0))
        >>> t.update(1.0, state)[0]
        np.float64(1.5)
    """

    def update(updates: Updates, state: TraceState, params: Params | None = None) -> PyTree:
        def accumulate(m: Value, g: ArrayLike) -> Value:
            return as_array(g) + scaled(m, decay)

        momentum = tree.map(accumulate, state.trace, updates)
        ahead = tree.map(accumulate, momentum, updates) if nesterov else momentum
        return ahead, TraceState(momentum)

    return GradientTransformation(lambda params: TraceState(zero_updates(params)), update)


@pickles_as_call
def scale_by_adam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, nesterov: bool = False
) -> GradientTransformation:
    """The step of Adam without its learning rate (Kingma and Ba 2015, algorithm 1).

    Example:
        >>> t = scale_by_adam()
        >>> bool(abs(t.update(5.0, t.init(0.0))[0] - 1) < 1e-6)
        True
    """

    def init(params: Params) -> AdamState:
        return AdamState(first_count(), zero_updates(params), squares_like(params))

    def update(updates: Updates, state: AdamState, params: Params | None = None) -> PyTree:
        count = state.count + 1
        mu = moving_average(state.mu, updates, b1)
        nu = moving_average(state.nu, _squares(updates), b2)
        v_scale = 1.0 / _bias(b2, count)
        # Nesterov's look-ahead is the next mean: b1 mu, and the present gradient (Dozat 2016).
        m_scale = (b1 if nesterov else 1.0) / _bias(b1, count + 1 if nesterov else count)
        g_scale = (1.0 - b1) / _bias(b1, count) if nesterov else None

        def step(m: Value, v: Value, g: ArrayLike) -> Value:
            mean = scaled(m, m_scale)
            if g_scale is not None:
                mean = mean + scaled(as_array(g), g_scale)
            return mean / (np.sqrt(scaled(v, v_scale)) + eps)

        return tree.map(step, mu, nu, updates), AdamState(count, mu, nu)

    return GradientTransformation(init, update)


def _bias(decay: float, count: ArrayLike) -> Value:
    """1 - decay^count."""
    return 1.0 - pow_(np.float64(decay), convert(as_array(count), FLOAT64))


@pickles_as_call
def scale_by_rms(
    decay: float = 0.9, eps: float = 1e-8, centered: bool = False
) -> GradientTransformation:
    """Divide by the root of the running mean square (Tieleman and Hinton 2012), or by the standard
    deviation if `centered` (Graves 2013, eq. 40).

    Example:
        >>> t = scale_by_rms(0.75, eps=0.0)
        >>> t.update(3.0, t.init(0.0))[0]
        np.float64(2.0)
    """

    def init(params: Params) -> RmsState:
        return RmsState(squares_like(params), zero_updates(params) if centered else None)

    def update(updates: Updates, state: RmsState, params: Params | None = None) -> PyTree:
        nu = moving_average(state.nu, _squares(updates), decay)
        mu = moving_average(state.mu, updates, decay) if centered else None
        spread = tree.map(lambda v, m: v - abs_square(m), nu, mu) if centered else nu
        new = tree.map(lambda g, v: as_array(g) / (np.sqrt(v) + eps), updates, spread)
        return new, RmsState(nu, mu)

    return GradientTransformation(init, update)


# --- optimisers ---------------------------------------------------------------------------------


@pickles_as_call
def sgd(
    learning_rate: ScalarOrSchedule, momentum: float | None = None, nesterov: bool = False
) -> GradientTransformation:
    """Stochastic gradient descent.

    Arguments:
        learning_rate: a number or a schedule.
        momentum: the decay of the momentum, or None.
        nesterov: whether the momentum looks ahead.

    Returns:
        A `GradientTransformation`.

    Example:
        >>> optimizer = sgd(0.1)
        >>> params = np.array([1.0, 2.0])
        >>> updates, state = optimizer.update(2 * params, optimizer.init(params))
        >>> params + updates
        array([0.8, 1.6])
    """
    inner = identity() if momentum is None else trace_momentum(momentum, nesterov)
    return chain(inner, scale_by_learning_rate(learning_rate))


@pickles_as_call
def adam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam (Kingma and Ba 2015); with `nesterov`, NAdam (Dozat 2016).

    Arguments:
        learning_rate: a number or a schedule.
        b1, b2: the decays of the running means of gradients and of their squares.
        eps: added to the root of the mean square.

    Example:
        >>> optimizer = adam(0.1)
        >>> params = np.array([1.0, 2.0])
        >>> updates, state = optimizer.update(2 * params, optimizer.init(params))
        >>> params + updates
        array([0.9, 1.9])
    """
    return chain(scale_by_adam(b1, b2, eps, nesterov), scale_by_learning_rate(learning_rate))


@pickles_as_call
def adamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    mask: PyTree | Callable[[Params], PyTree] = None,
    nesterov: bool = False,
) -> GradientTransformation:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    Arguments are those of `adam` and of `add_decayed_weights`; `update` needs the parameters.

    Example:
        >>> optimizer = adamw(0.1, weight_decay=0.5)
        >>> params = np.array([1.0, 2.0])
        >>> updates, _ = optimizer.update(np.zeros(2), optimizer.init(params), params)
        >>> updates
        array([-0.05, -0.1 ])
    """
    return decoupled(scale_by_adam(b1, b2, eps, nesterov), weight_decay, mask, learning_rate)


@pickles_as_call
def rmsprop(
    learning_rate: ScalarOrSchedule,
    decay: float = 0.9,
    eps: float = 1e-8,
    centered: bool = False,
    momentum: float | None = None,
) -> GradientTransformation:
    """Gradients divided by the root of their running mean square (Tieleman and Hinton 2012).

    Arguments:
        learning_rate: a number or a schedule.
        decay: the decay of the running mean.
        eps: added to the root.
        centered: whether the squared mean is subtracted from the mean square.
        momentum: the decay of a momentum of the result, or None.

    Example:
        >>> optimizer = rmsprop(0.1, decay=0.75, eps=0.0)
        >>> bool(abs(optimizer.update(3.0, optimizer.init(0.0))[0] + 0.2) < 1e-15)
        True
    """
    inner = scale_by_rms(decay, eps, centered)
    after = identity() if momentum is None else trace_momentum(momentum)
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
