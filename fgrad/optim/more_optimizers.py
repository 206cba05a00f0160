"""L7. Optimisers of optax's list: a rule of `rules.py`, weight decay, and a learning rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import random, tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.numpy.promote import as_array
from fgrad.optim.base import (
    EmptyState,
    GradientTransformation,
    Params,
    ScalarOrSchedule,
    Updates,
    add_decayed_weights,
    apply_updates,
    chain,
    check_structure,
    decoupled,
    first_count,
    global_norm,
    identity,
    scale,
    scale_by_learning_rate,
    scaled,
)
from fgrad.optim.optimizers import adam, scale_by_adam, trace_momentum
from fgrad.optim.rules import (
    scale_by_adadelta,
    scale_by_adamax,
    scale_by_adan,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_lion,
    scale_by_novograd,
    scale_by_optimistic_gradient,
    scale_by_radam,
    scale_by_rprop,
    scale_by_trust_ratio,
    scale_by_yogi,
)
from fgrad.optim.wrappers import masked
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.typing import DTypeLike, PyTree

Mask = PyTree | Callable[[Params], PyTree]


def _decay(weight_decay: float, mask: Mask | None) -> GradientTransformation:
    return add_decayed_weights(weight_decay, mask) if weight_decay else identity()


def _optimizer(name: str, paper: str, make: Callable[..., PyTree], **given: float) -> PyTree:
    """An optimiser by its rule, which `make` makes with `given` and the user's settings."""

    def optimizer(
        learning_rate: ScalarOrSchedule,
        *,
        weight_decay: float = 0.0,
        mask: Mask | None = None,
        **settings: float,
    ) -> GradientTransformation:
        inner = make(**{**given, **settings})
        return chain(inner, _decay(weight_decay, mask), scale_by_learning_rate(learning_rate))

    optimizer.__name__ = optimizer.__qualname__ = name
    optimizer.__doc__ = f"""{paper}

    Arguments:
        learning_rate: a number or a schedule.
        weight_decay: what is added of the parameters before the rate; then `update` needs them.
        mask: where to decay, as for `add_decayed_weights`.
        settings: by name, the arguments of `{make.__name__}`.

    Example:
        >>> optimizer = {name}(0.1)
        >>> state = optimizer.init(np.ones(2))
        >>> updates, state = optimizer.update(np.ones(2), state, np.ones(2))
        >>> bool(np.all(updates < 0))
        True
    """
    return pickles_as_call(optimizer)


adabelief = _optimizer("adabelief", "AdaBelief (Zhuang et al. 2020).", scale_by_belief)
adadelta = _optimizer("adadelta", "Adadelta (Zeiler 2012).", scale_by_adadelta)
adamax = _optimizer("adamax", "AdaMax (Kingma and Ba 2015).", scale_by_adamax)
adan = _optimizer("adan", "Adan (Xie et al. 2022).", scale_by_adan, eps_root=1e-8)
amsgrad = _optimizer("amsgrad", "AMSGrad (Reddi et al. 2018).", scale_by_amsgrad)
radam = _optimizer("radam", "Rectified Adam (Liu et al. 2020).", scale_by_radam)
yogi = _optimizer("yogi", "Yogi (Zaheer et al. 2018).", scale_by_yogi)


@pickles_as_call
def adamaxw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
    mask: Mask | None = None,
) -> GradientTransformation:
    """AdaMax with decoupled weight decay; `update` needs the parameters.

    Example:
        >>> optimizer = adamaxw(0.1, weight_decay=0.5)
        >>> optimizer.update(np.zeros(1), optimizer.init(np.ones(1)), np.ones(1))[0]
        array([-0.05])
    """
    return decoupled(scale_by_adamax(b1, b2, eps), weight_decay, mask, learning_rate)


@pickles_as_call
def nadam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    nesterov: bool = True,
) -> GradientTransformation:
    """Adam that looks ahead (Dozat 2016).

    Arguments:
        mu_dtype: as in `scale_by_adam`.

    Example:
        >>> optimizer = nadam(0.1)
        >>> bool(optimizer.update(1.0, optimizer.init(0.0))[0] < 0)
        True
    """
    return adam(learning_rate, b1, b2, eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)


@pickles_as_call
def nadamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: float = 1e-4,
    mask: Mask | None = None,
    nesterov: bool = True,
) -> GradientTransformation:
    """`nadam` with decoupled weight decay; `update` needs the parameters.

    Arguments:
        mu_dtype: as in `scale_by_adam`.

    Example:
        >>> optimizer = nadamw(0.1, weight_decay=0.5)
        >>> optimizer.update(np.zeros(1), optimizer.init(np.ones(1)), np.ones(1))[0]
        array([-0.05])
    """
    inner = scale_by_adam(b1, b2, eps, eps_root=eps_root, mu_dtype=mu_dtype, nesterov=nesterov)
    return decoupled(inner, weight_decay, mask, learning_rate)


@pickles_as_call
@also_takes(mu_dtype=None)
def lion(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.99,
    *,
    weight_decay: float = 1e-3,
    mask: Mask | None = None,
) -> GradientTransformation:
    """Lion (Chen et al. 2023): steps of one length; `update` needs the parameters.

    Example:
        >>> optimizer = lion(0.1, weight_decay=0.0)
        >>> optimizer.update(np.array([5.0]), optimizer.init(np.ones(1)), np.ones(1))[0]
        array([-0.1])
    """
    return decoupled(scale_by_lion(b1, b2), weight_decay, mask, learning_rate)


@pickles_as_call
def lamb(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    *,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mask: Mask | None = None,
) -> GradientTransformation:
    """LAMB (You et al. 2020): Adam with a step of each array in proportion to its parameter.

    Example:
        >>> optimizer = lamb(0.5)
        >>> optimizer.update(np.ones(1), optimizer.init(np.ones(1)), np.array([4.0]))[0].round(5)
        array([-2.])
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root=eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


@pickles_as_call
def lars(
    learning_rate: ScalarOrSchedule,
    weight_decay: float = 0.0,
    weight_decay_mask: Mask | None = True,
    trust_coefficient: float = 0.001,
    eps: float = 0.0,
    trust_ratio_mask: Mask | None = True,
    momentum: float = 0.9,
    nesterov: bool = False,
) -> GradientTransformation:
    """LARS (You, Gitman and Ginsburg 2017): momentum, steps in proportion to the parameters.

    Arguments:
        trust_coefficient: the factor of the ratio of norms.
        weight_decay_mask, trust_ratio_mask: the parameters that are decayed, and those with a
            ratio; see `mask`.

    Example:
        >>> optimizer = lars(1.0)
        >>> optimizer.update(np.array([2.0]), optimizer.init(np.ones(1)), np.array([4.0]))[0]
        array([-0.004])
    """
    return chain(
        add_decayed_weights(weight_decay, None if weight_decay_mask is True else weight_decay_mask),
        _where(scale_by_trust_ratio(0.0, trust_coefficient, eps), trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        trace_momentum(momentum, nesterov),
    )


def _where(inner: GradientTransformation, mask: Mask | None) -> GradientTransformation:
    return inner if mask is None or mask is True else masked(inner, mask)


@pickles_as_call
def novograd(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
) -> GradientTransformation:
    """NovoGrad (Ginsburg et al. 2019); `update` needs the parameters.

    Example:
        >>> optimizer = novograd(0.1)
        >>> optimizer.update(np.ones(1), optimizer.init(np.ones(1)), np.ones(1))[0].round(5)
        array([-0.1])
    """
    inner = scale_by_novograd(b1, b2, eps, eps_root, weight_decay)
    return chain(inner, scale_by_learning_rate(learning_rate))


@pickles_as_call
def rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> GradientTransformation:
    """Rprop (Riedmiller and Braun 1993), for gradients of whole data sets.

    Arguments:
        eta_minus, eta_plus: the factors of a step size where the sign changes, and where it does
            not.
        min_step_size, max_step_size: the limits of step sizes.

    Example:
        >>> optimizer = rprop(0.1)
        >>> optimizer.update(5.0, optimizer.init(1.0))[0]
        np.float64(-0.1)
    """
    inner = scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size)
    return chain(inner, scale(-1.0))


@pickles_as_call
def optimistic_gradient_descent(
    learning_rate: ScalarOrSchedule, alpha: float = 1.0, beta: float = 1.0
) -> GradientTransformation:
    """Steps that count on the next gradient (Mokhtari et al. 2020), for games.

    Arguments:
        alpha, beta: the weights of the gradient, and of its last change.

    Example:
        >>> optimizer = optimistic_gradient_descent(0.1)
        >>> optimizer.update(1.0, optimizer.init(0.0))[0]
        np.float64(-0.1)
    """
    inner = scale_by_optimistic_gradient(alpha, beta)
    return chain(inner, scale_by_learning_rate(learning_rate))


@pickles_as_call
def scale_by_sign() -> GradientTransformation:
    """The sign of each element; of a complex one its direction.

    Example:
        >>> scale_by_sign().update(np.array([-3.0, 2.0]), EmptyState())[0]
        array([-1.,  1.])
    """
    return GradientTransformation(
        lambda params: EmptyState(),
        lambda updates, state, params=None: (tree.map(np.sign, updates), state),
    )


@pickles_as_call
def sign_sgd(learning_rate: ScalarOrSchedule) -> GradientTransformation:
    """Steps by the signs of gradients (Bernstein et al. 2018).

    Example:
        >>> optimizer = sign_sgd(0.1)
        >>> optimizer.update(np.array([-3.0]), optimizer.init(np.ones(1)))[0]
        array([0.1])
    """
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


@pickles_as_call
def fromage(learning_rate: float, min_norm: float = 1e-6) -> GradientTransformation:
    """Fromage (Bernstein et al. 2020): relative steps, after which parameters shrink a little.

    Arguments:
        min_norm: the least norm of parameters that is divided by.

    Example:
        >>> optimizer = fromage(0.1)
        >>> bool(optimizer.update(np.ones(1), optimizer.init(np.ones(1)), np.ones(1))[0] < 0)
        True
    """
    factor = 1.0 / np.sqrt(1.0 + learning_rate**2)
    return chain(
        scale_by_trust_ratio(min_norm),
        scale_by_learning_rate(learning_rate * factor),
        add_decayed_weights(float(factor) - 1.0),
    )


class NoiseState(NamedTuple):
    """The number of steps, and a key."""

    count: Value
    key: Key


@pickles_as_call
@also_takes(seed=None)
def add_noise(eta: float, gamma: float, key: Key) -> GradientTransformation:
    """Normal noise of variance eta / (1 + t)^gamma (Neelakantan et al. 2015).

    Arguments:
        eta, gamma: the first variance, and how fast it falls.
        key: a key of `fgrad.random`, or a seed.

    Example:
        >>> from fgrad import random
        >>> t = add_noise(0.01, 0.55, random.key(0))
        >>> t.update(np.zeros(3), t.init(np.zeros(3)))[0].shape
        (3,)
    """

    def update(updates: Updates, state: NoiseState, params: Params | None = None) -> PyTree:
        leaves, treedef = tree.flatten(updates)
        count = state.count + 1
        following, *keys = random.split(state.key, len(leaves) + 1)
        deviation = np.sqrt(eta / np.power(np.float64(1.0) * count, gamma))
        noisy = [
            x + scaled(random.normal(k, x.shape, x.dtype), deviation)
            for k, x in zip(keys, map(as_array, leaves), strict=True)
        ]
        return treedef.unflatten(noisy), NoiseState(count, following)

    return GradientTransformation(lambda params: NoiseState(first_count(), key), update)


@pickles_as_call
@also_takes(seed=None)
def noisy_sgd(
    learning_rate: ScalarOrSchedule, eta: float = 0.01, gamma: float = 0.55, *, key: Key
) -> GradientTransformation:
    """Gradient descent with `add_noise`.

    Arguments:
        eta, gamma, key: as in `add_noise`.

    Example:
        >>> from fgrad import random
        >>> optimizer = noisy_sgd(0.1, key=random.key(0))
        >>> optimizer.update(np.ones(3), optimizer.init(np.ones(3)))[0].shape
        (3,)
    """
    return chain(add_noise(eta, gamma, key), scale_by_learning_rate(learning_rate))


@pickles_as_call
def sharpness_aware(
    gradient: Callable[..., Updates], optimizer: GradientTransformation, rho: float = 0.05
) -> Callable[..., tuple[Params, PyTree]]:
    """A step of sharpness-aware minimisation (Foret et al. 2021): the gradient is taken where the
    loss is largest at distance `rho`.

    Arguments:
        gradient: a function of parameters and other arguments.
        optimizer: what makes steps of gradients.
        rho: the distance.

    Returns:
        A function of parameters, state and the other arguments; it gives parameters and state.

    Example:
        >>> import fgrad
        >>> from fgrad.optim import sgd
        >>> step = sharpness_aware(fgrad.grad(lambda w: np.sum(w**2)), sgd(0.1))
        >>> w, state = step(np.array([1.0]), sgd(0.1).init(np.array([1.0])))
        >>> w
        array([0.79])
    """

    def step(params: Params, state: PyTree, *args: PyTree) -> tuple[Params, PyTree]:
        slope = gradient(params, *args)
        norm = global_norm(slope)
        factor = rho / np.where(norm > 0, norm, 1.0)
        up = tree.map(lambda g: scaled(as_array(g), factor), slope)
        updates, state = optimizer.update(gradient(apply_updates(params, up), *args), state, params)
        check_structure(updates, params, "sharpness_aware")
        return apply_updates(params, updates), state

    return step
