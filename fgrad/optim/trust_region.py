"""L7. Newton's method within a trust region, whose steps are those of conjugate gradients.

    rho = (f(x) - f(x + z)) / (m(0) - m(z))     m(z) = f + g.z + z.H z / 2

The region shrinks where rho is small and grows where the model was good up to its edge; a step is
taken if it leads lower (Nocedal and Wright 2006, algorithms 4.1 and 7.2).
"""

from __future__ import annotations

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.optim.base import first_count
from fgrad.optim.conjugate import conjugate_gradients
from fgrad.optim.problem import Found, Problem, flat_enough, slope_size
from fgrad.trace import Value
from fgrad.typing import PyTree

_WIDEST = 1e3  # the largest radius, in units of the start's size


class _State(NamedTuple):
    count: Value
    x: Value
    value: Value
    gradient: Value
    radius: Value


def trust_ncg(problem: Problem, x0: Value, tol: Value, max_steps: int) -> Found:
    """Newton's method within a trust region."""
    dtype = x0.dtype
    size = 1 + np.sqrt(x0 @ x0)
    widest, narrowest = _WIDEST * size, np.finfo(dtype).eps * size

    def going(s: _State) -> Value:
        further = np.logical_and(
            s.radius > narrowest, np.isfinite(slope_size(s.gradient) + np.abs(s.value))
        )
        short = np.logical_not(flat_enough(s.x, s.value, s.gradient, tol))
        return np.logical_and(s.count < max_steps, np.logical_and(further, short))

    def step(s: _State) -> _State:
        g, product = s.gradient, problem.product(s.x)
        long = np.sqrt(g @ g)
        enough = (long * np.minimum(0.5, np.sqrt(long))).astype(g.dtype)
        z, _ = conjugate_gradients(product, g, s.radius, enough, 20 * len(g))
        promised = -(g @ z + z @ product(z) / 2)
        value, gradient = problem.both(s.x + z)
        # Both sides of the ratio are exact to rounding errors of f, which cancel near a minimum.
        noise = (10 * np.finfo(dtype).eps * np.abs(s.value)).astype(dtype)
        rho = (s.value - value + noise) / (promised + noise + np.finfo(dtype).tiny)
        finite = np.logical_and(np.isfinite(value), np.isfinite(slope_size(gradient)))
        good = np.logical_and(finite, rho > 0.1)
        edge = np.sqrt(z @ z) >= 0.99 * s.radius
        wider = np.where(
            np.logical_and(rho > 0.75, edge), np.minimum(2 * s.radius, widest), s.radius
        )
        inner = np.minimum(s.radius, np.sqrt(z @ z)) / 4
        poor = np.logical_or(np.logical_not(finite), np.logical_not(rho >= 0.25))
        radius = np.where(poor, inner, wider)
        return _State(
            s.count + 1,
            np.where(good, s.x + z, s.x),
            np.where(good, value, s.value),
            np.where(good, gradient, g),
            radius.astype(dtype),
        )

    value, gradient = problem.both(x0)
    start = _State(first_count(), x0, value, gradient, size.astype(dtype))
    s: PyTree = problem.repeated(going, step, start)
    return Found(s.x, s.value, s.gradient, s.count, flat_enough(s.x, s.value, s.gradient, tol))
