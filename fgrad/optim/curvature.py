"""L7. Sophia: steps over an estimate of the diagonal of the Hessian (Liu et al. 2023).

    optimizer = sophia(1e-3)
    updates, state = optimizer.update(gradient, state, params, obj_fn=loss)

With random signs s, H s * s has the diagonal of H as its mean (Hutchinson).  Every few steps it
goes into a running mean h, and with the running mean m of gradients the step is

    clip(m / max(gamma h, eps), -clip_threshold, clip_threshold)

Real and imaginary parts of complex parameters are parameters of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import lax, random, tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError
from fgrad.ir.aval import FLOAT32
from fgrad.numpy.promote import as_array, convert
from fgrad.ops.complex import real_dtype
from fgrad.optim.base import (
    GradientTransformation,
    Params,
    ScalarOrSchedule,
    Updates,
    check_structure,
    decoupled,
    first_count,
    scaled,
    zero_updates,
)
from fgrad.optim.optimizers import moving_average
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.transforms.core.linearize import jvp
from fgrad.transforms.grad import grad
from fgrad.typing import PyTree

Loss = Callable[[Params], PyTree]
Mask = PyTree | Callable[[Params], PyTree]


class SophiaState(NamedTuple):
    """The number of steps, the means of gradients and of the diagonal, the key of the signs."""

    count: Value
    mu: Params
    nu: Params
    key: Key


def _by_parts(f: Callable[..., Value], *xs: Value) -> Value:
    """`f` of real arrays, or of the real and of the imaginary parts of complex ones."""
    if xs[0].dtype.kind != "c":
        return f(*xs)
    return f(*[np.real(x) for x in xs]) + 1j * f(*[np.imag(x) for x in xs])


def _signs(key: Key, params: Params) -> Params:
    """1 or -1 for each number, and for each part of a complex one."""
    leaves, treedef = tree.flatten(params)
    keys = random.split(key, 2 * len(leaves))

    def draw(key: Key, p: Value) -> Value:
        return convert(random.rademacher(key, p.shape), real_dtype(p.dtype))

    found = []
    for k, leaf in enumerate(leaves):
        p = as_array(leaf)
        s = draw(keys[2 * k], p)
        found.append(s + 1j * draw(keys[2 * k + 1], p) if p.dtype.kind == "c" else s)
    return tree.unflatten(treedef, found)


def _diagonal(loss: Loss, params: Params, key: Key) -> Params:
    """An estimate of the diagonal of the Hessian of `loss`, without bias."""
    signs = _signs(key, params)
    product = jvp(grad(loss), (params,), (signs,))[1]
    return tree.map(lambda h, s: _by_parts(lambda a, b: a * b, as_array(h), s), product, signs)


@pickles_as_call
def scale_by_sophia(
    b1: float = 0.965,
    b2: float = 0.99,
    eps: float = 1e-8,
    gamma: float = 0.01,
    clip_threshold: float | None = 1.0,
    update_interval: int = 10,
    key: Key | None = None,
) -> GradientTransformation:
    """The step of Sophia without its learning rate.

    `update` takes the loss by name: `update(gradients, state, params, obj_fn=loss)`.

    Arguments:
        gamma: the factor of the diagonal: the larger, the fewer numbers are clipped.
        clip_threshold: the largest number of a step; None clips none.
        update_interval: after how many steps the diagonal is estimated again.
        key: of the random signs.

    Raises:
        ArgumentError: `update_interval` is not positive; `update` is not given the parameters.

    Example:
        >>> w = np.array([2.0, 2.0])
        >>> loss = lambda w: np.sum(np.array([1.0, 4.0]) * w**2)
        >>> t = scale_by_sophia(b1=0.0, b2=0.0, gamma=1.0)
        >>> _, state = t.update(np.zeros(2), t.init(w), w, obj_fn=loss)
        >>> t.update(np.array([1.0, 2.0]), state, w, obj_fn=loss)[0]
        array([0.5 , 0.25])
    """
    if update_interval < 1:
        raise ArgumentError(f"optim.scale_by_sophia: update_interval={update_interval}.")

    def init(params: Params) -> SophiaState:
        first = random.key(0) if key is None else key
        return SophiaState(first_count(), zero_updates(params), zero_updates(params), first)

    def step(m: Value, h: Value) -> Value:
        dtype = m.dtype
        if dtype.itemsize < 4:  # in which eps may be 0
            m, h = convert(m, FLOAT32), convert(h, FLOAT32)
        long = m / np.maximum(scaled(h, gamma), eps)
        if clip_threshold is not None:
            long = np.clip(long, -clip_threshold, clip_threshold)
        return convert(long, dtype)

    def update(
        updates: Updates, state: SophiaState, params: Params | None = None, *, obj_fn: Loss
    ) -> PyTree:
        check_structure(updates, params, "scale_by_sophia")
        count = state.count + 1
        mu = moving_average(state.mu, updates, b1)
        unbias = 1.0 / (1.0 - np.power(np.float64(b1), 1.0 * count))
        new = tree.map(lambda m, h: _by_parts(step, scaled(m, unbias), h), mu, state.nu)

        def again(nu: Params, key: Key) -> tuple[Params, Key]:
            key, own = random.split(key)
            mean = moving_average(nu, _diagonal(obj_fn, params, own), b2)
            return tree.map(lambda x, n: convert(x, n.dtype), mean, nu), key

        due = state.count % update_interval == 0
        nu, kept = lax.cond(due, again, lambda nu, key: (nu, key), state.nu, state.key)
        return new, SophiaState(count, mu, nu, kept)

    return GradientTransformation(init, update)


@pickles_as_call
def sophia(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.965,
    b2: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
    mask: Mask | None = None,
    gamma: float = 0.01,
    clip_threshold: float | None = 1.0,
    update_interval: int = 10,
    key: Key | None = None,
) -> GradientTransformation:
    """Sophia with decoupled weight decay; `update` takes `obj_fn=`, see `scale_by_sophia`.

    Arguments:
        gamma, clip_threshold, update_interval, key: as in `scale_by_sophia`.

    Example:
        >>> optimizer = sophia(0.1, weight_decay=0.0)
        >>> w = np.array([1.0, -2.0])
        >>> optimizer.update(2 * w, optimizer.init(w), w, obj_fn=lambda w: np.sum(w**2))[0]
        array([-0.1,  0.1])
    """
    rule = scale_by_sophia(b1, b2, eps, gamma, clip_threshold, update_interval, key)
    return decoupled(rule, weight_decay, mask, learning_rate)
