"""L7. A function and a start -> its fixed point, by Anderson's acceleration, with derivatives.

With f = g(x) - x, and the last changes of f and g(x) as columns of F and G, a step is

    x' = g(x) - G c     c = argmin |f - F c|     (Anderson 1965; Walker and Ni 2011)

    x(p) = g(x, p)     (1 - dg/dx) dx = dg/dp dp     (the implicit function theorem)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.progress import Progress, Told
from fgrad.errors import ArgumentError
from fgrad.optim.base import first_count
from fgrad.optim.problem import (
    as_vector,
    check_count,
    differentiable,
    frozen,
    slope_size,
    tolerance,
)
from fgrad.scipy._host import arguments
from fgrad.scipy._told import steps_of, told_loop
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.typing import PyTree

_QUIET = steps_of(False, "fixed_point")


class FixedPoint(NamedTuple):
    """What `fixed_point` found: the place, the largest number of g(x) - x, the number of steps,
    and whether x is a fixed point to the tolerance."""

    x: PyTree
    residual: Value
    steps: Value
    success: Value


class _State(NamedTuple):
    count: Value
    x: Value
    value: Value
    dresiduals: Value  # the changes of g(x) - x, one a row; zeros before there are so many
    dvalues: Value


def fixed_point(
    fun: Callable[..., PyTree],
    x0: PyTree,
    args: PyTree = (),
    *,
    tol: float | None = None,
    max_steps: int = 1000,
    memory: int = 5,
    progress: bool | Progress = False,
) -> FixedPoint:
    """The x with `fun(x, *args) = x`, by iteration with Anderson's acceleration.

    It runs under `jit` and `vmap`, where every example ends by its own tolerance.  Derivatives of
    x, of any order and in both modes, flow to `args` and to what `fun` closes over, by the implicit
    function theorem and not through the steps; `x0` and `tol` have none.

    Arguments:
        fun: `fun(x, *args)` to a tree like x, of NumPy operations.
        x0: the start, a tree of real numbers and arrays.
        args: further arguments of `fun`, a tuple of trees or a single one.
        tol: x is a fixed point where |g(x) - x| <= tol (1 + |x|), by the largest numbers of both;
            by default eps**(2/3): 4e-11 in float64, 2e-5 in float32.
        max_steps: after how many steps the iteration ends.
        memory: how many steps are combined (Walker and Ni 2011); 0 for plain iteration.
        progress: as for `minimize`.

    Returns:
        `FixedPoint(x, residual, steps, success)`, with x a tree like `x0`.  Where `success` is
        false x is where the iteration ended.

    Raises:
        ArgumentError: `x0` is complex or empty; `fun` does not return a tree like it; `tol`,
            `max_steps` or `memory` is negative.
        MissingRuleError: from a derivative of x where there is no fixed point: `success` is false,
            and Newton's step from x is not small.

    Example:
        >>> import fgrad
        >>> found = fixed_point(np.cos, 1.0)
        >>> found.x.round(9), found.success
        (np.float64(0.739085133), np.True_)
        >>> root = lambda p: fixed_point(lambda x, p: (x + p / x) / 2, 1.0, (p,)).x
        >>> fgrad.grad(root)(4.0).round(9)
        np.float64(0.25)
    """
    start, of = as_vector("fixed_point", x0)
    check_count("fixed_point", "max_steps", max_steps, 0)
    check_count("fixed_point", "memory", memory, 0)
    limit = tolerance("fixed_point", tol, start.dtype, 2 / 3)
    rest, like = arguments(args), tree.structure(x0)

    def image(x: Value) -> Value:
        out = user_form(fun)(of(x), *rest)
        shapes = [np.shape(leaf) for leaf in tree.leaves(out)]
        if tree.structure(out) != like or shapes != [np.shape(leaf) for leaf in tree.leaves(x0)]:
            raise ArgumentError(
                f"optim.fixed_point: {function_name(fun)} does not return something like x0.",
                (("found", f"{tree.structure(out)} of shapes {shapes}"), ("x0", str(like))),
            )
        vector = tree.ravel(out)[0]
        if vector.dtype.kind == "c":
            raise ArgumentError(f"optim.fixed_point: {function_name(fun)} returns complex numbers.")
        return vector.astype(start.dtype)

    plain, began = frozen(image, start)
    told = steps_of(progress, "fixed_point")
    found = anderson(plain, began, limit, max_steps, memory, told)
    away = slope_size(found.value - found.x)
    success = away <= limit * (1 + slope_size(found.x))

    def solve(linear: Callable[[Value], Value], y: Value) -> Value:
        return _solve_contraction(linear, y, max_steps, memory)

    x = differentiable(lambda x: x - image(x), found.x, success, solve)
    return FixedPoint(of(x), away, found.count, success)


def anderson(
    image: Callable[[Value], Value],
    x0: Value,
    tol: Value,
    max_steps: int,
    memory: int,
    told: Told,
) -> _State:
    """The last x and image(x) of the iteration."""

    def going(s: _State) -> Value:
        away = slope_size(s.value - s.x)
        further = np.logical_and(np.isfinite(away), away > tol * (1 + slope_size(s.x)))
        return np.logical_and(s.count < max_steps, further)

    def step(s: _State) -> _State:
        residual = s.value - s.x
        x = s.value
        if memory:
            x = x - _combination(s.dresiduals, residual) @ s.dvalues
        x = np.where(np.all(np.isfinite(x)), x, s.value)
        value = image(x)
        if not memory:
            return s._replace(count=s.count + 1, x=x, value=value)
        dresiduals, dvalues = [
            np.concatenate([kept[1:], new[None]])
            for kept, new in (
                (s.dresiduals, value - x - residual), (s.dvalues, value - s.value)
            )
        ]  # fmt: skip
        return _State(s.count + 1, x, value, dresiduals, dvalues)

    none = np.zeros((memory, len(x0)), x0.dtype)
    start = _State(first_count(), x0, image(x0), none, none)
    found: PyTree = told_loop(going, step, start, lambda s: s.count, told)
    return found


def _combination(changes: Value, residual: Value) -> Value:
    """The c that makes |residual - c changes| least; 0 for rows of zeros."""
    size = np.sqrt(np.sum(changes * changes, axis=1))
    scale = np.where(size > 0, size, 1)
    rows = changes / scale[:, None]
    ridge = 10 * np.finfo(changes.dtype).eps
    gram = rows @ np.transpose(rows) + np.diag(np.where(size > 0, ridge, 1).astype(rows.dtype))
    return np.linalg.solve(gram, rows @ residual) / scale


def _solve_contraction(
    linear: Callable[[Value], Value], y: Value, max_steps: int, memory: int
) -> Value:
    """The v with linear(v) = y, as the fixed point of v + y - linear(v); NaN if it is not found."""
    tol = y.dtype.type(np.finfo(y.dtype).eps ** 0.75)
    found = anderson(lambda v: v + y - linear(v), y, tol, max_steps, memory, _QUIET)
    done = slope_size(found.value - found.x) <= tol * (1 + slope_size(found.x))
    return np.where(done, found.x, np.nan)
