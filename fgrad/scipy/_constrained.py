"""L7. Minima under constraints, differentiated by the conditions of Karush, Kuhn and Tucker.

    min f(x)  with  low <= c(x) <= high
    df/dx - sum_k lambda_k dc_k/dx = 0    and for each k   c_k(x) = its end,   or   lambda_k = 0

SciPy computes x; the multipliers are the least squares of the first equation over the constraints
that hold with equality, of the right sign. Both lines are one square system for (x, lambda).
A constraint that touches without a multiplier is taken for one that does not hold. A method may
stop before it reaches a constraint that holds (trust-constr): where the constraints next to x do
not explain the gradient of f, those farther away may hold too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.jit.jitted import jit
from fgrad.errors import ArgumentError
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import user_line
from fgrad.scipy._host import arguments, as_result, floats, implicit, must_start_real, on_host
from fgrad.scipy._solvers import FLAG, Ends, Function
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.grad import grad
from fgrad.transforms.jacobian import jacrev
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.optimize")

_NEAR = (1e-4, 1e-3, 1e-2)  # of a constraint to its end, relative, from where on it may hold
_EXPLAINED = 1e-3  # the gradient that multipliers may leave, of that at the start
_NONE = 1e-7  # the multiplier, relative to the greatest, below which there is none


class Condition(NamedTuple):
    """low <= fun(x) <= high, for a vector."""

    fun: Function
    low: PyTree
    high: PyTree


@as_result
class ConstrainedSolution(NamedTuple):
    """What `minimize` with constraints returns inside of a transform.

    `multipliers` are those of the constraints in their order, then of bounds: the gradient of the
    function is the sum of their products with the constraints' gradients, so that one is positive
    where a lower end holds, negative at an upper end, and zero where none does.
    """

    x: Value
    fun: Value
    success: Value
    multipliers: Value


Values: TypeAlias = tuple[PyTree, PyTree, PyTree]  # of a condition, and its ends
Found: TypeAlias = tuple[PyTree, PyTree]
Finder: TypeAlias = Callable[..., Found]  # find(f, conditions, x, given, **options)


@runtime_checkable
class Nonlinear(Protocol):
    """What `scipy.optimize.NonlinearConstraint` has."""

    fun: Function
    lb: ArrayLike
    ub: ArrayLike


@runtime_checkable
class Linear(Protocol):
    """What `scipy.optimize.LinearConstraint` has."""

    A: ArrayLike
    lb: ArrayLike
    ub: ArrayLike


class LinearConstraint(NamedTuple):
    """lb <= A @ x <= ub, of which any part may be traced; as `scipy.optimize.LinearConstraint`.

    Example:
        >>> LinearConstraint(np.ones((1, 2)), 1.0, 1.0).lb
        1.0
    """

    A: ArrayLike
    lb: ArrayLike = -np.inf
    ub: ArrayLike = np.inf
    keep_feasible: ArrayLike = False


class NonlinearConstraint(NamedTuple):
    """lb <= fun(x) <= ub, of which any part may be traced; as `scipy.optimize.NonlinearConstraint`,
    with derivatives by fgrad, in place of differences, where it has none of its own.

    Example:
        >>> NonlinearConstraint(lambda x: x @ x, 0.0, 1.0).ub
        1.0
    """

    fun: Function
    lb: ArrayLike
    ub: ArrayLike
    jac: object = "2-point"
    hess: object = None
    keep_feasible: ArrayLike = False
    finite_diff_rel_step: ArrayLike | None = None
    finite_diff_jac_sparsity: object = None


class Bounds(NamedTuple):
    """lb <= x <= ub, of which any part may be traced, or a tree; as `scipy.optimize.Bounds`.

    Example:
        >>> Bounds(0.0, 1.0).ub
        1.0
    """

    lb: PyTree = -np.inf
    ub: PyTree = np.inf
    keep_feasible: ArrayLike = False


def conditions_of(constraints: PyTree, ends: Ends, x: Value) -> list[Condition]:
    """SciPy's constraints, and bounds, as conditions on a vector like `x`."""
    several = isinstance(constraints, Sequence) and not hasattr(constraints, "lb")
    found = [_condition(c) for c in (constraints if several else [constraints])]
    if ends is not None:
        found.append(Condition(lambda x: x, *ends))
    return [_as_vectors(c, x) for c in found]


def _condition(constraint: PyTree) -> Condition:
    if isinstance(constraint, Mapping):
        rest, fun = arguments(constraint.get("args", ())), constraint["fun"]
        kind = str(constraint["type"]).lower()
        if kind not in ("eq", "ineq"):
            raise ArgumentError(
                f"scipy.optimize.minimize: constraint of type {kind!r}.", user_line()
            )
        top = np.float64(0.0 if kind == "eq" else np.inf)
        return Condition(lambda x: user_form(fun)(x, *rest), np.float64(0.0), top)
    if isinstance(constraint, Linear):
        matrix = constraint.A
        dense = matrix.toarray() if hasattr(matrix, "toarray") else floats(matrix)  # type: ignore[union-attr]
        return Condition(lambda x: dense @ x, floats(constraint.lb), floats(constraint.ub))
    if isinstance(constraint, Nonlinear):
        return Condition(user_form(constraint.fun), floats(constraint.lb), floats(constraint.ub))
    raise ArgumentError(
        f"scipy.optimize.minimize: a constraint is no {type(constraint).__name__}.",
        (*user_line(), ("write", '{"type": "ineq", "fun": c}, or NonlinearConstraint(c, lb, ub)')),
    )


def _as_vectors(c: Condition, x: Value) -> Condition:
    size = np.shape(np.ravel(c.fun(x)))
    low, high = [np.broadcast_to(np.ravel(end), size) for end in (c.low, c.high)]
    return Condition(lambda x: np.ravel(c.fun(x)), low, high)


def constrained_minimum(
    fun: Function,
    x0: ArrayLike,
    conditions: list[Condition],
    find: Finder,
    given: PyTree = (),
    options: Mapping[str, PyTree] | None = None,
) -> ConstrainedSolution:
    """A minimum under conditions, inside of a transform.

    Arguments:
        fun: a function of one vector to a number.
        find: `find(f, conditions, x, given)` is SciPy's minimum and whether it was found, of plain
            numbers.
        given: further values that it needs.
        options: its keywords.
    """
    start = np.atleast_1d(floats(x0))
    n, m = start.shape[0], sum([int(c.low.shape[0]) for c in conditions])
    like = Aval((n + m,), start.dtype)

    def whole(x: Value) -> tuple[Value, list[Values]]:
        return fun(x), [(c.fun(x), c.low, c.high) for c in conditions]

    def solver(plain_f: Function, x: np.ndarray, values: PyTree, **options: PyTree) -> PyTree:
        f, known = jit(lambda x: plain_f(x)[0]), plain_f(x)[1]
        parts = [
            Condition(jit(lambda x, k=k: plain_f(x)[1][k][0]), low, high)
            for k, (_, low, high) in enumerate(known)
        ]
        best, success = find(f, parts, x, values, **options)
        best = np.asarray(best, np.float64)
        weights, explained = multipliers(f, parts, best, x)
        z = np.concatenate([best, weights])
        return z.astype(like.dtype), np.bool_(success), np.bool_(success and explained)

    like_all = like, FLAG, FLAG
    z, success, held = on_host(solver, like_all, whole, start, start, given, options=options)
    low, high = [np.concatenate([getattr(c, end) for c in conditions]) for end in ("low", "high")]
    equal = np.equal(low, high)

    def lagrangian(x: Value, weights: Value) -> Value:
        held = np.concatenate([c.fun(x) for c in conditions])
        return fun(x) - np.sum(weights * held)

    def optimality(z: Value) -> Value:
        x, weights = z[:n], z[n:]
        held = np.concatenate([c.fun(x) for c in conditions])
        lower = equal | (weights > 0)
        gap = held - np.where(lower, np.where(lower, low, 0.0), np.where(weights < 0, high, 0.0))
        return np.concatenate(
            [grad(lagrangian)(x, weights), np.where(lower | (weights < 0), gap, weights)]
        ).astype(like.dtype)

    z = implicit(optimality, z, held)
    return ConstrainedSolution(z[:n], fun(z[:n]), success, z[n:])


def minimum_within(
    fun: Function,
    x0: ArrayLike,
    constraints: PyTree,
    ends: Ends,
    how: Callable[..., PyTree],
    options: Mapping[str, PyTree] | None = None,
) -> ConstrainedSolution:
    """A minimum under SciPy's constraints, inside of a transform.

    Arguments:
        fun: a function of one vector to a number.
        ends: bounds, as arrays or numbers.
        how: `how(f, x, bounds, constraints, **options)` is SciPy's result on plain numbers.
    """
    start = np.atleast_1d(must_start_real(x0)).astype(np.float64)
    box = None if ends is None else tuple([np.broadcast_to(end, start.shape) for end in ends])

    def find(
        f: Function, within: list[Condition], x: np.ndarray, ends: PyTree, **options: PyTree
    ) -> Found:
        rest = within if ends is None else within[:-1]
        limits = None if ends is None else plain.Bounds(*[np.array(end) for end in ends])
        found = how(f, x, limits, as_scipy(rest), **options)
        return found.x, found.success

    within = conditions_of(constraints, ends, start)
    return constrained_minimum(lambda x: np.reshape(fun(x), ()), start, within, find, box, options)


def multipliers(
    f: Function, conditions: list[Condition], x: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Weights of the conditions' gradients whose sum is that of f, positive at a lower end; and
    whether the sum is that gradient, compared with the one at the start."""
    held = np.concatenate([np.ravel(c.fun(x)) for c in conditions])
    low, high = [np.concatenate([getattr(c, end) for c in conditions]) for end in ("low", "high")]
    slopes = np.concatenate([np.atleast_2d(jacrev(c.fun)(x)) for c in conditions])
    slope, explained = grad(f)(x), False
    scale = max(np.abs(slope).max(initial=0.0), np.abs(grad(f)(start)).max(initial=0.0))
    for share in _NEAR:
        near = share * (1 + np.abs(held))
        lower, upper = held - low <= near, high - held <= near
        least, most = np.where(upper, -np.inf, 0.0), np.where(lower, np.inf, 0.0)
        may, found = lower | upper, np.zeros(held.size)
        if may.any():
            ends = least[may], most[may]
            found[may] = plain.lsq_linear(slopes[may].T, slope, ends, method="bvls").x
        left = np.abs(slope - slopes.T @ found).max(initial=0.0)
        explained = bool(left <= _EXPLAINED * scale)
        if explained:
            break
    found[np.abs(found) <= _NONE * max(np.abs(found).max(initial=0.0), 1e-300)] = 0.0
    return found, explained


def as_scipy(conditions: Sequence[Condition]) -> list[PyTree]:
    """Conditions for SciPy's methods; one of equalities alone, as they want it."""
    found = []
    for c in conditions:
        for mask in (np.equal(c.low, c.high), np.not_equal(c.low, c.high)):
            if mask.any():
                chosen = np.flatnonzero(mask)

                def part(x: Value, c: Condition = c, chosen: np.ndarray = chosen) -> Value:
                    return c.fun(x)[chosen]

                low, high = np.array(c.low[mask]), np.array(c.high[mask])
                found.append(plain.NonlinearConstraint(part, low, high, jit(jacrev(part))))
    return found
