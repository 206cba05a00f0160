"""L7. Distances of two sets of weighted samples, as `scipy.stats` has them.

On a line both are integrals of the difference of distribution functions, which are sums over the
gaps of the samples in order; elsewhere the earth mover's distance is a linear programme.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ShapeError
from fgrad.ir.aval import Aval
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import user_line
from fgrad.numpy.selection import take
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import either, refusal
from fgrad.scipy.stats.operands import real_floats
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, P, R

plain = lazy_module("scipy.stats")
optimize = lazy_module("scipy.optimize")
sparse = lazy_module("scipy.sparse")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _weighted(values: Value, weights: ArrayLike | None) -> Value:
    """Shares of the samples."""
    n = values.shape[0]
    if weights is None:
        return np.full(n, 1.0 / n, values.dtype)
    w = real_floats(weights)
    if w.shape != (n,):
        raise ShapeError(f"{n} values have weights of shape {w.shape}.", user_line())
    return w / np.sum(w)


def _line(name: str, x: ArrayLike) -> Value:
    value = real_floats(x)
    if len(value.shape) != 1 or not value.shape[0]:
        raise ShapeError(f"scipy.stats.{name}: values of shape {value.shape}.", user_line())
    return value


def _gaps(
    name: str, u: ArrayLike, v: ArrayLike, wu: ArrayLike | None, wv: ArrayLike | None
) -> tuple[Value, Value]:
    """The differences of the distribution functions, and the lengths on which they are so."""
    a, b = _line(name, u), _line(name, v)
    p, q = _weighted(a, wu), _weighted(b, wv)
    values, masses = np.concatenate([a, b]), np.concatenate([p, -q])
    order = np.argsort(stop_gradient(values), kind="stable")
    return np.cumsum(take(masses, order))[:-1], np.diff(take(values, order))


@_either
def wasserstein_distance(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
) -> Value:
    """The earth mover's distance on a line: the integral of |U - V|.

    Arguments:
        u_values, v_values: the samples.
        u_weights, v_weights: their weights; equal if not given.

    Raises:
        ShapeError: the samples are no vectors, or have other weights.

    Example:
        >>> float(wasserstein_distance(np.array([0.0, 1.0]), np.array([2.0, 3.0])))
        2.0
    """
    difference, gaps = _gaps("wasserstein_distance", u_values, v_values, u_weights, v_weights)
    return np.sum(np.abs(difference) * gaps)


@_either
def energy_distance(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
) -> Value:
    """The energy distance: the root of twice the integral of (U - V)^2.

    Arguments:
        u_values, v_values: the samples.
        u_weights, v_weights: their weights; equal if not given.

    Raises:
        ShapeError: the samples are no vectors, or have other weights.

    Example:
        >>> float(energy_distance(np.array([0.0]), np.array([2.0])).round(9))
        2.0
    """
    difference, gaps = _gaps("energy_distance", u_values, v_values, u_weights, v_weights)
    return np.sqrt(2 * np.sum(difference * difference * gaps))


def _plan(cost: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The cheapest way to move masses p to masses q."""
    m, n = cost.shape
    rows = sparse.kron(sparse.eye(m), np.ones((1, n)))
    columns = sparse.kron(np.ones((1, m)), sparse.eye(n))
    masses = np.concatenate([p, q]).astype(np.float64)
    found = optimize.linprog(
        cost.ravel(), A_eq=sparse.vstack([rows, columns]).tocsr(), b_eq=masses, method="highs"
    )
    if found.x is None:
        return np.full(cost.shape, np.nan, cost.dtype)
    return np.asarray(found.x, cost.dtype).reshape(m, n)


@_either
def wasserstein_distance_nd(
    u_values: ArrayLike,
    v_values: ArrayLike,
    u_weights: ArrayLike | None = None,
    v_weights: ArrayLike | None = None,
) -> Value:
    """The earth mover's distance: the least mean length of moves of one set of points to another.

    Arguments:
        u_values, v_values: points in rows, or numbers.
        u_weights, v_weights: their weights, which are known; equal if not given.

    Raises:
        ShapeError: the points have unequal lengths.
        UnsupportedNumpyError: weights of points are traced.

    Example:
        >>> p, q = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
        >>> float(wasserstein_distance_nd(p, q))
        5.0
    """
    u, v = real_floats(u_values), real_floats(v_values)
    if len(u.shape) == 1 and len(v.shape) == 1:
        return wasserstein_distance(u, v, u_weights, v_weights)
    if len(u.shape) != 2 or len(v.shape) != 2 or u.shape[1] != v.shape[1]:
        where = f"values of shapes {u.shape} and {v.shape}."
        raise ShapeError(f"scipy.stats.wasserstein_distance_nd: {where}", user_line())
    if has_tracer((u_weights, v_weights)):
        why = "moves depend on the weights, and their derivative is that of a linear programme."
        write = "fgrad.stop_gradient(weights) outside of the function"
        raise refusal("The weights of scipy.stats.wasserstein_distance_nd", why, write)
    p, q = _weighted(u, u_weights), _weighted(v, v_weights)
    away = u[:, None, :] - v[None, :, :]
    squares = np.sum(away * away, axis=-1)
    same = squares == 0
    cost = np.where(same, 0.0, np.sqrt(np.where(same, 1.0, squares)))
    moves = pure_callback(
        _plan, Aval(cost.shape, cost.dtype), stop_gradient(cost), stop_gradient(p), stop_gradient(q)
    )
    return np.sum(np.where(moves != 0, moves * cost, 0.0))
