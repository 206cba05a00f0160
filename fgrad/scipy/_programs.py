"""L7. Linear and quadratic programs with derivatives by what holds at their solution."""

from __future__ import annotations

import inspect
import math

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import Aval
from fgrad.lax import segment_sum
from fgrad.numpy.promote import as_operand, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy import _minima
from fgrad.scipy._constrained import Condition, Found, constrained_minimum
from fgrad.scipy._either import refusal
from fgrad.scipy._host import as_result, floats, implicit, inside, must_be_real
from fgrad.scipy._solvers import Box, Ends, Function, Pairs, Solution
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.optimize")
scipy = lazy_module("scipy")
plain_nnls = lazy_module("scipy.optimize._nnls")


@as_result
class LinearSolution(NamedTuple):
    """What `linprog` returns inside of a transform."""

    x: Value
    fun: Value
    slack: Value
    con: Value
    success: Value


def _box(bounds: PyTree, n: int) -> tuple[Value, Value]:
    """`linprog`'s bounds: one pair for all, or one each."""
    if bounds is None:
        bounds = (0, None)
    if not isinstance(bounds, Box) and len(bounds) == 2 and all([np.ndim(e) == 0 for e in bounds]):
        bounds = [tuple(bounds)]
    low, high = _minima.ends_of(bounds)  # type: ignore[misc]
    return np.broadcast_to(low, (n,)), np.broadcast_to(high, (n,))


def linprog(
    c: ArrayLike,
    A_ub: ArrayLike | None = None,
    b_ub: ArrayLike | None = None,
    A_eq: ArrayLike | None = None,
    b_eq: ArrayLike | None = None,
    bounds: Pairs | tuple[ArrayLike | None, ArrayLike | None] = (0, None),
    method: str = "highs",
    callback: object = None,
    options: PyTree = None,
    x0: ArrayLike | None = None,
    integrality: ArrayLike | None = None,
) -> PyTree:
    """The x that minimises `c @ x` with `A_ub @ x <= b_ub`, `A_eq @ x == b_eq` and bounds, as
    `scipy.optimize.linprog`, with derivatives in all of these where the solution is one corner.

    Arguments:
        c: the cost, shape (n,).
        A_ub, b_ub: matrix and right-hand side of the inequalities.
        A_eq, b_eq: matrix and right-hand side of the equations.
        bounds: one pair for all, or one for each; None is an open end.
        method, options: as in SciPy.
        callback, x0, integrality: as in SciPy, outside of transforms.

    Returns:
        SciPy's result; inside of transforms `(x, fun, slack, con, success)`.

    Raises:
        UnsupportedNumpyError: inside of transforms, for integers, a callback or a start.

    Example:
        >>> import fgrad
        >>> def profit(b):
        ...     return -linprog([-3.0, -2.0], [[1.0, 1.0], [1.0, 0.0]], np.array([b, 3.0])).fun
        >>> float(profit(4.0)), float(fgrad.grad(profit)(4.0))
        (11.0, 2.0)
    """
    given = (c, A_ub, b_ub, A_eq, b_eq, bounds)
    if not inside(given):
        return plain.linprog(*given, method, callback, options, x0, integrality)
    for option, value in (("callback", callback), ("x0", x0), ("integrality", integrality)):
        if value is not None:
            what = f"scipy.optimize.linprog with {option}"
            raise refusal(what, "it has no traced form.", "linprog(c, A_ub, b_ub, ...)")
    cost = np.ravel(floats(c))
    n, none = int(cost.shape[0]), np.zeros((0,))
    box = _box(bounds, n)
    conditions, slack, con = [], none, none
    if A_ub is not None:
        upper, top = floats(A_ub), np.ravel(floats(b_ub))  # type: ignore[arg-type]
        conditions.append(Condition(lambda x: upper @ x, np.full(top.shape, -np.inf), top))
    if A_eq is not None:
        equal, side = floats(A_eq), np.ravel(floats(b_eq))  # type: ignore[arg-type]
        conditions.append(Condition(lambda x: equal @ x, side, side))
    conditions.append(Condition(lambda x: x, *box))

    def find(f: Function, within: list[Condition], x: np.ndarray, plain_given: PyTree) -> Found:
        cost, rows, sides, ends = plain_given
        given = {**rows, **sides, "bounds": np.stack(ends, axis=1)}
        found = plain.linprog(cost, **given, method=method, options=options)
        return (x * np.nan if found.x is None else found.x), found.success

    rows = {k: floats(v) for k, v in (("A_ub", A_ub), ("A_eq", A_eq)) if v is not None}
    sides = {k: floats(v) for k, v in (("b_ub", b_ub), ("b_eq", b_eq)) if v is not None}
    start = np.zeros(n, cost.dtype)
    found = constrained_minimum(
        lambda x: cost @ x, start, conditions, find, (cost, rows, sides, list(box))
    )
    if A_ub is not None:
        slack = top - upper @ found.x
    if A_eq is not None:
        con = side - equal @ found.x
    return LinearSolution(found.x, found.fun, slack, con, found.success)


def lsq_linear(
    A: ArrayLike,
    b: ArrayLike,
    bounds: Box | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
    method: str = "trf",
    tol: float = 1e-10,
    lsq_solver: str | None = None,
    lsmr_tol: float | str | None = None,
    max_iter: int | None = None,
    verbose: int = 0,
    *,
    lsmr_maxiter: int | None = None,
) -> PyTree:
    """The x within bounds that minimises `|A @ x - b|`, as `scipy.optimize.lsq_linear`.

    Arguments:
        A: the matrix, shape (m, n).
        b: the right-hand side, shape (m,).
        bounds: the least and the greatest values; a solution on a bound moves with it.
        method, tol, lsq_solver, lsmr_tol, max_iter, verbose, lsmr_maxiter: as in SciPy.

    Returns:
        SciPy's result; inside of transforms `(x, fun, success)`, where `fun` are the residuals.

    Example:
        >>> import fgrad
        >>> f = lambda b: lsq_linear(np.eye(2), b, (0.0, 1.0)).x[0]
        >>> fgrad.grad(f)(np.array([0.5, 2.0])).round(9) + 0.0
        array([1., 0.])
    """
    options = {"method": method, "tol": tol, "lsq_solver": lsq_solver, "lsmr_tol": lsmr_tol,
               "max_iter": max_iter, "verbose": verbose, "lsmr_maxiter": lsmr_maxiter}  # fmt: skip
    ends = (bounds.lb, bounds.ub) if isinstance(bounds, Box) else tuple(bounds)
    if not inside(A, b, ends):
        return plain.lsq_linear(_finite(A), b, bounds, **options)

    def find(a: np.ndarray, b: np.ndarray, *ends: np.ndarray) -> PyTree:
        return plain.lsq_linear(_finite(a), b, ends, **options)

    return _least_squares(A, b, (ends[0], ends[1]), find, ends)


def _finite(A: PyTree) -> PyTree:
    """A matrix without infinities and NaN, of which some LAPACKs never return."""
    if isinstance(A, np.ndarray) and A.dtype.kind in "fc" and not np.isfinite(A).all():
        raise ArgumentError("scipy.optimize.lsq_linear: A has infinities or NaN.", user_line())
    return A


def _matrix_and_side(name: str, A: PyTree, b: ArrayLike) -> tuple[Value, Value]:
    """A real matrix, and a vector with a number for each of its rows."""
    matrix = must_be_real(A, f"A of scipy.optimize.{name}")
    side = must_be_real(b, f"b of scipy.optimize.{name}")
    if name == "nnls" and side.shape[1:] == (1,):
        side = np.ravel(side)
    if len(matrix.shape) != 2 or side.shape != matrix.shape[:1]:
        raise ShapeError(
            f"scipy.optimize.{name}: A has shape {matrix.shape}, b {side.shape}.", user_line()
        )
    return matrix, side


def _least_squares(
    A: PyTree, b: ArrayLike, ends: Ends, how: Function, more: tuple[PyTree, ...] = ()
) -> Solution:
    """The solution within `ends`, as SciPy's `how(A, b, *more)` finds it."""
    matrix, side = _matrix_and_side("lsq_linear", A, b)
    n = int(matrix.shape[1])

    def residuals(x: Value) -> Value:
        return matrix @ x - side

    start = np.zeros(n, np.result_type(matrix.dtype, side.dtype))
    return _minima.vector_minimum(
        lambda x: 0.5 * np.sum(residuals(x) ** 2),
        start,
        ends,
        how,
        residuals,
        (matrix, side, *more),
    )


def nnls(A: ArrayLike, b: ArrayLike, maxiter: int | None = None) -> tuple[Value, Value]:
    """The x >= 0 that minimises `|A @ x - b|`, and that norm, as `scipy.optimize.nnls`.

    Arguments:
        A: the matrix, shape (m, n).
        b: the right-hand side, shape (m,).
        maxiter: the most iterations.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda b: nnls(np.eye(2), b)[0].sum())(np.array([1.0, -1.0])).round(9) + 0.0
        array([1., 0.])
    """
    if not inside(A, b):
        return plain.nnls(A, b, maxiter=maxiter)
    matrix, side = _matrix_and_side("nnls", A, b)
    like = Aval(tuple(matrix.shape[1:]), np.result_type(matrix.dtype, side.dtype))
    solve = inspect.unwrap(plain.nnls)  # without the check for names of older versions
    direct = plain_nnls._nnls if at_least(scipy, 1, 16) else None  # twice as fast as `solve`
    most = maxiter or 3 * like.shape[0]

    def call(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if direct is not None and like.dtype == np.float64 and a.size:
            a, b = [np.ascontiguousarray(x, np.float64) for x in (a, b)]
            if math.isfinite(np.vdot(a, a) + np.vdot(b, b)):  # else SciPy refuses it
                x, _, info = direct(a, b, most)
                if info != 3:
                    return x
        return solve(a, b, maxiter=maxiter)[0].astype(like.dtype, copy=False)

    def slope(x: Value) -> Value:
        return np.transpose(matrix) @ (matrix @ x - side)

    found = pure_callback(call, like, stop_gradient(matrix), stop_gradient(side))
    x = implicit(_minima.projected(slope, 0.0, np.inf), found)
    return x, np.sqrt(np.sum((matrix @ x - side) ** 2))


class Isotonic(NamedTuple):
    """What `isotonic_regression` returns inside of a transform: SciPy's, but for `blocks`."""

    x: Value
    weights: Value


def isotonic_regression(
    y: ArrayLike, *, weights: ArrayLike | None = None, increasing: bool = True
) -> PyTree:
    """The rising (or falling) numbers next to `y`, as `scipy.optimize.isotonic_regression`.

    Arguments:
        y: numbers, shape (n,).
        weights: positive weights of their squared distances; ones if None.
        increasing: whether the numbers rise.

    Returns:
        SciPy's result; inside of transforms `(x, weights)`.

    Raises:
        ShapeError: if y is no vector, or the weights are not as many.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda y: isotonic_regression(y).x[0])(np.array([2.0, 1.0, 5.0]))
        array([0.5, 0.5, 0. ])
    """
    if not inside(y, weights):
        return plain.isotonic_regression(y, weights=weights, increasing=increasing)
    value = must_be_real(y, "y of scipy.optimize.isotonic_regression")
    weight = floats(np.ones(np.shape(value)) if weights is None else weights)
    if len(value.shape) != 1 or weight.shape != value.shape:
        raise ShapeError(
            f"scipy.optimize.isotonic_regression: y has shape {value.shape}, weights "
            f"{weight.shape}.",
            (*user_line(), ("write", "two vectors of one length")),
        )
    n = int(value.shape[0])

    def blocks(y: np.ndarray, w: np.ndarray) -> np.ndarray:
        found = plain.isotonic_regression(y, weights=w, increasing=increasing)
        return np.repeat(np.arange(len(found.blocks) - 1), np.diff(found.blocks))

    known = [stop_gradient(as_operand(v)) for v in (value, weight)]
    which = pure_callback(blocks, Aval((n,), np.dtype(np.int64)), *known)
    total = segment_sum(weight, which, n)
    mean = segment_sum(value * weight, which, n) / np.where(total > 0, total, 1.0)
    return Isotonic(mean[which], total[which])
