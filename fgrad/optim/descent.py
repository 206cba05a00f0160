"""L7. Descent along lines: L-BFGS, and Newton's method by conjugate gradients.

    x' = x + t u     u = -H^-1 g, of the memory or of conjugate gradients; t of a search along u

(Nocedal and Wright 2006, algorithms 7.5 and 7.1; the search is `scale_by_zoom_linesearch`.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.optim.base import GradientTransformation, first_count
from fgrad.optim.conjugate import conjugate_gradients, yes
from fgrad.optim.problem import Found, Problem, flat_enough, slope_size
from fgrad.optim.second_order import scale_by_lbfgs, scale_by_zoom_linesearch
from fgrad.trace import Value
from fgrad.typing import PyTree

_SEARCH = 30  # evaluations of the function along one line


class _State(NamedTuple):
    count: Value
    x: Value
    value: Value
    gradient: Value
    memory: PyTree
    moved: Value


def lbfgs(problem: Problem, x0: Value, tol: Value, max_steps: int) -> Found:
    """L-BFGS with a memory of 10 steps."""
    rule = scale_by_lbfgs()
    return _descend(problem, x0, tol, max_steps, rule.update, rule.init(x0))


def newton_cg(problem: Problem, x0: Value, tol: Value, max_steps: int) -> Found:
    """Newton's method, with steps as exact as the gradient is small."""

    def inverse(g: Value, memory: PyTree, x: Value) -> tuple[Value, PyTree]:
        size = np.sqrt(g @ g)
        enough = size * np.minimum(0.5, np.sqrt(size))
        step, _ = conjugate_gradients(
            problem.product(x), g, np.inf, enough.astype(g.dtype), 20 * len(g)
        )
        return -step, memory

    return _descend(problem, x0, tol, max_steps, inverse, ())


def _descend(
    problem: Problem,
    x0: Value,
    tol: Value,
    max_steps: int,
    inverse: Callable[[Value, PyTree, Value], PyTree],
    memory: PyTree,
) -> Found:
    """Steps along -inverse(gradient) until the gradient is small, or no step leads lower."""
    search: GradientTransformation = scale_by_zoom_linesearch(_SEARCH, initial_guess_strategy="one")

    def going(s: _State) -> Value:
        further = np.logical_and(s.moved, np.isfinite(slope_size(s.gradient) + np.abs(s.value)))
        short = np.logical_not(flat_enough(s.x, s.value, s.gradient, tol))
        return np.logical_and(s.count < max_steps, np.logical_and(further, short))

    def step(s: _State) -> _State:
        along, kept = inverse(s.gradient, s.memory, s.x)
        downhill = along @ s.gradient > 0
        along = -np.where(downhill, along, s.gradient)
        moved, line = search.update(
            along, search.init(s.x), s.x,
            value=s.value, grad=s.gradient, value_fn=problem.function,
        )  # fmt: skip
        x = s.x + moved
        changed: PyTree = np.any(x != s.x)
        value = line.value.astype(s.value.dtype)
        return _State(s.count + 1, x, value, line.grad, kept, changed)

    value, gradient = problem.both(x0)
    start = _State(first_count(), x0, value, gradient, memory, yes())
    s: PyTree = problem.repeated(going, step, start)
    return Found(s.x, s.value, s.gradient, s.count, flat_enough(s.x, s.value, s.gradient, tol))
