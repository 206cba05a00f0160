"""L7. The simplex method of Nelder and Mead (1965), which takes no derivatives.

The worst vertex w is reflected at the mean m of the others, m + r (m - w), and the point moved
further out, or back, or all vertices halfway to the best; the coefficients depend on the number of
unknowns (Gao and Han 2012; Nocedal and Wright 2006, section 9.5).
"""

from __future__ import annotations

import numpy as np

from fgrad import lax
from fgrad.base.named_tuple import NamedTuple
from fgrad.optim.base import first_count
from fgrad.optim.problem import Found, Problem
from fgrad.trace import Value
from fgrad.transforms.vmap import vmap
from fgrad.typing import PyTree

_EDGE = 0.05  # the first edges, as parts of 1 + |x|


class _State(NamedTuple):
    count: Value
    simplex: Value  # the best vertex first
    values: Value


def nelder_mead(problem: Problem, x0: Value, tol: Value, max_steps: int) -> Found:
    """The best vertex when values and vertices are close together; the gradient is None."""
    n, number = len(x0), x0.dtype.type
    further, inward, shrink = [number(c) for c in (1 + 2 / n, 0.75 - 0.5 / n, 1 - 1 / max(n, 2))]

    def f(x: Value) -> Value:
        value = problem.function(x)
        return np.where(np.isnan(value), np.inf, value).astype(x0.dtype)

    def close(s: _State) -> Value:
        spread = np.max(np.abs(s.simplex[1:] - s.simplex[0]))
        steps = np.max(s.values) - s.values[0]
        return np.logical_and(
            spread <= tol * (1 + np.max(np.abs(s.simplex[0]))),
            steps <= tol * (1 + np.abs(s.values[0])),
        )

    def going(s: _State) -> Value:
        further = np.logical_and(np.isfinite(s.values[0]), np.logical_not(close(s)))
        return np.logical_and(s.count < max_steps, further)

    def step(s: _State) -> _State:
        worst, best, other, last = s.simplex[-1], s.values[0], s.values[-2], s.values[-1]
        mean = np.mean(s.simplex[:-1], axis=0)
        away = mean - worst
        reflected = mean + away
        there = f(reflected)
        out = there < best
        within = np.where(there < last, inward, -inward)
        trial = mean + np.where(out, further, within) * away
        tried = f(trial)
        plain = np.logical_or(
            np.logical_and(out, tried >= there),
            np.logical_and(np.logical_not(out), there < other),
        )
        point, value = np.where(plain, reflected, trial), np.where(plain, there, tried)
        better = np.logical_or(plain, np.where(out, tried < there, tried < np.minimum(there, last)))

        def replaced() -> tuple[Value, Value]:
            return (
                np.concatenate([s.simplex[:-1], point[None]]),
                np.concatenate([s.values[:-1], value[None]]),
            )

        def shrunk() -> tuple[Value, Value]:
            simplex = s.simplex[0] + shrink * (s.simplex - s.simplex[0])
            return simplex, np.concatenate([s.values[:1], vmap(f)(simplex[1:])])

        simplex, values = lax.cond(better, replaced, shrunk)
        return _sorted(s.count + 1, simplex, values)

    first = (np.maximum(_EDGE, 4 * tol) * (1 + np.abs(x0))).astype(x0.dtype)
    simplex = np.concatenate([x0[None], x0 + np.diag(first)])
    start = _sorted(first_count(), simplex, vmap(f)(simplex))
    known = np.isfinite(f(x0))
    start = start._replace(count=np.where(known, start.count, max_steps))
    s: PyTree = problem.repeated(going, step, start)
    x = np.where(known, s.simplex[0], x0)
    done = np.logical_and(known, close(s))
    return Found(x, problem.function(x), None, np.where(known, s.count, 0), done)


def _sorted(count: Value, simplex: Value, values: Value) -> _State:
    order = np.argsort(values, kind="stable")
    return _State(count, simplex[order], values[order])
