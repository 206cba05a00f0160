"""L7. Update rules: functions of one parameter's gradient and of what is kept of it.

With t = 1, 2, ... the step, g the gradient, ' a mean divided by 1 - b^t:

    belief    s = b2 s + (1 - b2) |g - m|^2 + root        u = m' / (sqrt(s') + eps)
    yogi      v = v - (1 - b2) sign(v - |g|^2) |g|^2      u = m' / (sqrt(v') + eps)
    adamax    v = max(|g| + eps, b2 v)                    u = m' / v
    amsgrad   w = max(w, v')                              u = m' / (sqrt(w) + eps)
    radam     r^2 = (p-4)(p-2) q / ((q-4)(q-2) p)         u = r m' / (sqrt(v') + eps); m' if p < 5
    adan      d = g - last g, m, v of g, d, n of |g + (1-b2) d|^2      u = (m' + (1-b2) v') / ...
    adadelta  e = r e + (1 - r) |g|^2, x of |u|^2         u = sqrt(x + eps) / sqrt(e + eps) g
    lion      m = b2 m + (1 - b2) g                       u = sign(b1 m + (1 - b1) g)
    novograd  v = b2 v + (1 - b2) |g|^2 summed            m = b1 m + g / (sqrt(v) + eps) + w p

The names and constants are those of optax.  Squares are |g|^2, so complex parameters are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.ir.aval import FLOAT64
from fgrad.numpy.promote import as_array, convert, dtype_of, shape_of
from fgrad.ops.complex import real_dtype
from fgrad.optim.base import (
    GradientTransformation,
    Params,
    Updates,
    abs_square,
    check_structure,
    first_count,
    scaled,
)
from fgrad.trace import Value
from fgrad.typing import PyTree

Step: TypeAlias = Callable[..., PyTree]  # (t, g, p, *kept) -> (update, *kept)
Kept: TypeAlias = tuple[str, float]  # "like" the parameter, "real" or "scalar", and the first value


class RuleState(NamedTuple):
    """The number of steps, and what a rule keeps: a tree like the parameters for each."""

    count: Value
    kept: tuple[Params, ...]


def _first(kept: Kept, p: PyTree) -> Value:
    kind, value = kept
    dtype = dtype_of(p) if kind == "like" else real_dtype(dtype_of(p))
    return np.full(() if kind == "scalar" else shape_of(p), value, dtype)[()]


def rule(
    name: str, kept: Sequence[Kept], step: Step, needs_params: bool = False
) -> GradientTransformation:
    """The transformation that makes a step of each parameter by itself."""

    def init(params: Params) -> RuleState:
        first = [tree.map(lambda p, k=k: _first(k, p), params) for k in kept]
        return RuleState(first_count(), tuple(first))

    def update(updates: Updates, state: RuleState, params: Params | None = None) -> PyTree:
        if needs_params:
            check_structure(updates, params, name)
        leaves, treedef = tree.flatten(updates)
        given = leaves if params is None else treedef.flatten_up_to(params)
        columns = [treedef.flatten_up_to(k) for k in state.kept]
        count = state.count + 1
        t = convert(as_array(count), FLOAT64)
        rows = [
            _settled(step(t, as_array(g), as_array(p), *own), g, own)
            for g, p, *own in zip(leaves, given, *columns, strict=True)
        ]
        parts = [treedef.unflatten([row[k] for row in rows]) for k in range(len(kept) + 1)]
        return parts[0], RuleState(count, tuple(parts[1:]))

    return GradientTransformation(init, update)


def _settled(row: Sequence[Value], g: PyTree, own: Sequence[PyTree]) -> list[Value]:
    """An update and what is kept, in the dtypes of the gradient and of what was kept."""
    return [convert(as_array(x), dtype_of(y))[()] for x, y in zip(row, (g, *own), strict=True)]


def mean(old: Value, new: Value, decay: float) -> Value:
    """decay * old + (1 - decay) * new, in the dtype of what is kept."""
    return scaled(old, decay) + scaled(convert(new, old.dtype), 1.0 - decay)


def unbiased(x: Value, decay: float, t: Value) -> Value:
    """x / (1 - decay^t)."""
    return scaled(x, 1.0 / (1.0 - np.power(np.float64(decay), t)))


def _first_mean(m: Value, g: Value, b1: float, t: Value, nesterov: bool) -> Value:
    """The unbiased mean of gradients, or the next one (Dozat 2016)."""
    if not nesterov:
        return unbiased(m, b1, t)
    return scaled(unbiased(m, b1, t + 1), b1) + scaled(unbiased(g, b1, t), 1.0 - b1)


_LIKE, _REAL = ("like", 0.0), ("real", 0.0)


@pickles_as_call
def scale_by_belief(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """The step of AdaBelief (Zhuang et al. 2020).

    Example:
        >>> t = scale_by_belief()
        >>> bool(t.update(5.0, t.init(0.0))[0] > 0)
        True
    """

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree, s: PyTree) -> PyTree:
        m = mean(m, g, b1)
        s = mean(s, abs_square(g - m), b2) + eps_root
        top = _first_mean(m, g, b1, t, nesterov)
        return top / (np.sqrt(unbiased(s, b2, t)) + eps), m, s

    return rule("scale_by_belief", [_LIKE, _REAL], step)


@pickles_as_call
def scale_by_yogi(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    eps_root: float = 0.0,
    initial_accumulator_value: float = 1e-6,
) -> GradientTransformation:
    """The step of Yogi (Zaheer et al. 2018).

    Example:
        >>> t = scale_by_yogi()
        >>> bool(t.update(5.0, t.init(0.0))[0] > 0)
        True
    """

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree, v: PyTree) -> PyTree:
        m, square = mean(m, g, b1), abs_square(g)
        v = v - scaled(np.sign(v - square) * square, 1.0 - b2)
        bottom = np.sqrt(unbiased(v, b2, t) + eps_root) + eps
        return unbiased(m, b1, t) / bottom, m, v

    start = initial_accumulator_value
    return rule("scale_by_yogi", [("like", start), ("real", start)], step)


@pickles_as_call
def scale_by_adamax(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformation:
    """The step of AdaMax (Kingma and Ba 2015, algorithm 2).

    Example:
        >>> t = scale_by_adamax()
        >>> float(t.update(5.0, t.init(0.0))[0].round(6))
        1.0
    """

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree, v: PyTree) -> PyTree:
        m, v = mean(m, g, b1), np.maximum(np.abs(g) + eps, scaled(v, b2))
        return unbiased(m, b1, t) / v, m, v

    return rule("scale_by_adamax", [_LIKE, _REAL], step)


@pickles_as_call
@also_takes(mu_dtype=None, bias_correction_mu=True, bias_correction_nu=True)
def scale_by_amsgrad(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0
) -> GradientTransformation:
    """The step of AMSGrad (Reddi, Kale and Kumar 2018).

    Example:
        >>> t = scale_by_amsgrad()
        >>> float(t.update(5.0, t.init(0.0))[0].round(6))
        1.0
    """

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree, v: PyTree, w: PyTree) -> PyTree:
        m, v = mean(m, g, b1), mean(v, abs_square(g), b2)
        w = np.maximum(w, unbiased(v, b2, t))
        return unbiased(m, b1, t) / (np.sqrt(w + eps_root) + eps), m, v, w

    return rule("scale_by_amsgrad", [_LIKE, _REAL, _REAL], step)


@pickles_as_call
def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """The step of rectified Adam (Liu et al. 2020).

    Arguments:
        threshold: the length of the running mean from which steps are rectified.

    Example:
        >>> t = scale_by_radam()
        >>> float(t.update(5.0, t.init(0.0))[0].round(6))
        5.0
    """
    longest = 2.0 / (1.0 - b2) - 1.0

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree, v: PyTree) -> PyTree:
        m, v = mean(m, g, b1), mean(v, abs_square(g), b2)
        power = np.power(np.float64(b2), t)
        length = longest - 2.0 * t * power / (1.0 - power)
        rectified = length >= threshold
        q = np.where(rectified, length, longest)
        r = (q - 4.0) * (q - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * q)
        top = _first_mean(m, g, b1, t, nesterov)
        adapted = scaled(top, np.sqrt(r)) / (np.sqrt(unbiased(v, b2, t) + eps_root) + eps)
        return np.where(rectified, adapted, top), m, v

    return rule("scale_by_radam", [_LIKE, _REAL], step)


@pickles_as_call
def scale_by_adan(
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> GradientTransformation:
    """The step of Adan (Xie et al. 2022).

    Example:
        >>> t = scale_by_adan()
        >>> float(t.update(5.0, t.init(0.0))[0].round(6))
        1.0
    """

    def step(
        t: PyTree, g: PyTree, p: PyTree, m: PyTree, v: PyTree, n: PyTree, last: PyTree
    ) -> PyTree:
        change = np.where(t == 1.0, g - g, g - last)
        m, v = mean(m, g, b1), mean(v, change, b2)
        n = mean(n, abs_square(g + scaled(change, 1.0 - b2)), b3)
        top = unbiased(m, b1, t) + scaled(unbiased(v, b2, t), 1.0 - b2)
        return top / (np.sqrt(unbiased(n, b3, t) + eps_root) + eps), m, v, n, g

    return rule("scale_by_adan", [_LIKE, _LIKE, _REAL, _LIKE], step)


@pickles_as_call
def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> GradientTransformation:
    """The step of Adadelta (Zeiler 2012).

    Arguments:
        rho: the decay of both running means.

    Example:
        >>> t = scale_by_adadelta()
        >>> bool(t.update(5.0, t.init(0.0))[0] > 0)
        True
    """

    def step(t: PyTree, g: PyTree, p: PyTree, e: PyTree, x: PyTree) -> PyTree:
        e = mean(e, abs_square(g), rho)
        u = np.sqrt(x + eps) / np.sqrt(e + eps) * g
        return u, e, mean(x, abs_square(u), rho)

    return rule("scale_by_adadelta", [_REAL, _REAL], step)


@pickles_as_call
def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Gradients over the root of the sum of their squares, which starts above zero.

    Example:
        >>> t = scale_by_rss(0.0, eps=0.0)
        >>> t.update(3.0, t.init(0.0))[0]
        np.float64(1.0)
    """

    def step(t: PyTree, g: PyTree, p: PyTree, total: PyTree) -> PyTree:
        total = total + abs_square(g)
        positive = total > 0
        root = np.sqrt(np.where(positive, total, 1) + eps)
        return np.where(positive, g / root, 0).astype(g.dtype), total

    return rule("scale_by_rss", [("real", initial_accumulator_value)], step)


@pickles_as_call
@also_takes(mu_dtype=None, mode="hard", smooth_beta=1.0)
def scale_by_lion(b1: float = 0.9, b2: float = 0.99) -> GradientTransformation:
    """The step of Lion (Chen et al. 2023).

    Example:
        >>> t = scale_by_lion()
        >>> t.update(-5.0, t.init(0.0))[0]
        np.float64(-1.0)
    """

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree) -> PyTree:
        return np.sign(mean(m, g, b1)), mean(m, g, b2)

    return rule("scale_by_lion", [_LIKE], step)


@pickles_as_call
@also_takes(mu_dtype=None)
def scale_by_novograd(
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
) -> GradientTransformation:
    """The step of NovoGrad (Ginsburg et al. 2019): one mean square for each parameter array.

    Example:
        >>> t = scale_by_novograd()
        >>> t.update(np.array([3.0, 4.0]), t.init(np.zeros(2)), np.zeros(2))[0].round(6)
        array([0.6, 0.8])
    """

    def step(t: PyTree, g: PyTree, p: PyTree, m: PyTree, v: PyTree) -> PyTree:
        square = np.sum(abs_square(g))
        v = np.where(t == 1.0, square, mean(v, square, b2))
        change = g / (np.sqrt(v + eps_root) + eps) + scaled(convert(p, g.dtype), weight_decay)
        m = np.where(t == 1.0, change, scaled(m, b1) + change)
        return m, m, v

    return rule("scale_by_novograd", [_LIKE, ("scalar", 0.0)], step, needs_params=True)


@pickles_as_call
def scale_by_rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> GradientTransformation:
    """The step of Rprop (Riedmiller and Braun 1993): it depends on signs alone; of real parameters.

    Arguments:
        eta_minus, eta_plus: the factors of a step size where the sign changes, and where it does
            not.
        min_step_size, max_step_size: the limits of step sizes.

    Example:
        >>> t = scale_by_rprop(0.5)
        >>> t.update(-5.0, t.init(0.0))[0]
        np.float64(-0.5)
    """

    def step(t: PyTree, g: PyTree, p: PyTree, size: PyTree, last: PyTree) -> PyTree:
        same = g * last
        factor = np.where(same > 0, eta_plus, eta_minus)
        grown = np.clip(size * factor, min_step_size, max_step_size)
        size = np.where(same == 0, size, grown).astype(size.dtype)
        u = np.where(same < 0, 0, size * np.sign(g)).astype(g.dtype)
        return u, size, u

    return rule("scale_by_rprop", [("like", learning_rate), _LIKE], step)


@pickles_as_call
def scale_by_optimistic_gradient(alpha: float = 1.0, beta: float = 1.0) -> GradientTransformation:
    """(alpha + beta) g - beta last g (Mokhtari et al. 2020).

    Example:
        >>> t = scale_by_optimistic_gradient()
        >>> t.update(2.0, t.init(0.0))[0]
        np.float64(2.0)
    """

    def step(t: PyTree, g: PyTree, p: PyTree, last: PyTree) -> PyTree:
        before = np.where(t == 1.0, g, last)
        return scaled(g, alpha + beta) - scaled(before, beta), g

    return rule("scale_by_optimistic_gradient", [_LIKE], step)


@pickles_as_call
def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> GradientTransformation:
    """Each array times the ratio of its parameter's norm and its own (You et al. 2020).

    Arguments:
        min_norm: the least norm that counts.
        trust_coefficient: the factor of the ratio.

    Example:
        >>> t = scale_by_trust_ratio()
        >>> t.update(np.array([3.0, 4.0]), t.init(np.zeros(2)), np.array([0.0, 10.0]))[0]
        array([6., 8.])
    """

    def step(t: PyTree, g: PyTree, p: PyTree) -> PyTree:
        size, own = np.maximum(norm_of(p), min_norm), np.maximum(norm_of(g), min_norm)
        none = np.logical_or(size == 0, own == 0)
        ratio = trust_coefficient * size / np.where(none, 1, own + eps)
        return (scaled(g, np.where(none, 1, ratio)),)

    return rule("scale_by_trust_ratio", [], step, needs_params=True)


def norm_of(x: Value) -> Value:
    """The Euclidean norm of an array, with derivative 0 at 0."""
    total = np.sum(abs_square(x))
    return np.where(total > 0, np.sqrt(np.where(total > 0, total, 1)), 0)


def _block(name: str, what: str, size: Callable[[PyTree], PyTree]) -> PyTree:
    """A rule that multiplies each array by a number that follows from its parameter."""

    def make(min_scale: float = 1e-3) -> GradientTransformation:
        def step(t: PyTree, g: PyTree, p: PyTree) -> PyTree:
            return (scaled(g, np.maximum(size(p), min_scale)),)

        return rule(name, [], step, needs_params=True)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Each array times {what} of its parameter, `min_scale` at the least.

    Example:
        >>> t = {name}()
        >>> t.update(np.ones(1), t.init(np.zeros(1)), np.array([3.0]))[0]
        array([3.])
    """
    return pickles_as_call(make)


scale_by_param_block_norm = _block("scale_by_param_block_norm", "the norm", norm_of)
scale_by_param_block_rms = _block(
    "scale_by_param_block_rms",
    "the root of the mean square",
    lambda p: norm_of(p) / math.sqrt(max(p.size, 1)),
)
