"""L7. `scipy.interpolate`: quotients of polynomials, and polynomials by their coefficients.

    r(x) = sum_j w_j f_j / (x - x_j)  /  sum_j w_j / (x - x_j)

Both sums are multiplied by the distance to the nearest x_j, so that values and derivatives of any
order are right there too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.lazy_import import lazy_module
from fgrad.base.source import warn_user
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.at_indexing import at
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, inexact, normalize_axis
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy.interpolate.common import (
    Interpolant,
    along,
    of_data,
    plain,
    unfit,
    untraceable,
)
from fgrad.scipy.interpolate.polynomials import KroghInterpolator
from fgrad.trace import Value, concrete, innermost
from fgrad.tracing.capturing import user_form
from fgrad.typing import ArrayLike, PyTree

scipy = lazy_module("scipy")


def _quotient(nodes: Value, values: Value, weights: Value, z: Value) -> Value:
    """A rational function of nodes (n,), values (n, ...) and weights, at flat places."""
    away = z[:, None] - nodes
    near = np.argmin(np.abs(stop_gradient(away)), axis=1)
    is_near = near[:, None] == np.arange(nodes.shape[0])
    shares = np.where(is_near, 0.0, weights / np.where(is_near, 1.0, away))
    distance = z - at(nodes)[near].get()
    weight = at(weights)[near].get()
    below = weight + distance * np.sum(shares, axis=1)
    above = np.tensordot(shares, values, 1)
    nearest = at(values)[near].get()
    total = nearest * along(weight, nearest) + above * along(distance, above)
    return total / along(below, total)


class FloaterHormannInterpolator(Interpolant):
    """The rational function without poles through values, a blend of polynomials of degree d.

    Arguments:
        points: the places of the values, which differ; may be traced.
        values, axis: the values, and their axis.
        d: the degree of the blended polynomials.

    Example:
        >>> FloaterHormannInterpolator(np.arange(5.0), np.arange(5.0) ** 2)([1.5]).round(9)
        array([2.25])
    """

    def __init__(self, points: ArrayLike, values: ArrayLike, *, d: int = 3, axis: int = 0) -> None:
        self._made(plain.FloaterHormannInterpolator, points, values, d=d, axis=axis)
        self._prepared(functools.partial(self._set, points, values, d, axis))

    def _set(self, points: ArrayLike, values: ArrayLike, d: int, axis: int) -> None:
        nodes, given = inexact(as_operand(points)), inexact(as_operand(values))
        self._axis = normalize_axis(axis, len(given.shape))
        given = moveaxis(given, self._axis, 0)
        n = nodes.shape[0] - 1
        if len(nodes.shape) != 1 or given.shape[0] != n + 1 or not 0 <= d <= n:
            what = f"points {nodes.shape}, values {given.shape}, d={d}"
            raise unfit("FloaterHormannInterpolator", what, "as many points as values, d < points")
        away = nodes[:, None] - nodes
        parts = []
        for k in range(n + 1):
            blocks = range(max(0, k - d), min(n - d, k) + 1)
            terms = [1.0 / np.prod(away[k, _others(i, d, k)]) * (-1.0) ** i for i in blocks]
            parts.append(sum(terms[1:], terms[0]))
        self._table = nodes, given, np.stack(parts)

    def __call__(self, z: ArrayLike) -> Value:
        """The values at places."""
        if self._is_plain(z):
            return self._plain(z)
        self._ready()
        nodes, values, weights = self._table
        places = inexact(as_operand(z))
        found = _quotient(nodes, values, weights, np.ravel(places))
        found = np.reshape(found, (*places.shape, *values.shape[1:]))
        return moveaxis(found, 0, self._axis) if places.shape else found  # as in SciPy


def _others(first: int, d: int, k: int) -> np.ndarray:
    """The numbers of a block of nodes but one."""
    return np.array([j for j in range(first, first + d + 1) if j != k], int)


class AAA(Interpolant):
    """SciPy's rational approximation of plain data, at places that may be traced.

    Arguments:
        x, y: places and values, plain: which of them it takes depends on all of them.
        rtol, max_terms, clean_up, clean_up_tol: as in SciPy.

    Example:
        >>> x = np.linspace(0.0, 1.0, 9)
        >>> AAA(x, 1 / (1 + x))(np.array([0.3])).round(6)
        array([0.769231])
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, **settings: PyTree) -> None:
        if not self._made(plain.AAA, x, y, **settings):
            why = "which data it takes, and weights at the limit of precision, depend on all data."
            untraceable("AAA", "traced data", why, "FloaterHormannInterpolator(x, y)")

    def __call__(self, z: ArrayLike) -> Value:
        """The values at places."""
        if self._is_plain(z):
            return self._plain(z)
        made = self._plain
        places = inexact(as_operand(z))
        table = made.support_points, made.support_values, made.weights
        found = _quotient(*table, np.ravel(places))
        return np.reshape(found, (*places.shape, *found.shape[1:]))


# --- polynomials by coefficients ----------------------------------------------------------------


def _polynomial(c: Value) -> np.poly1d:
    """NumPy's object of coefficients, the first of which may be zero where that is not known."""
    if concrete(c) is not None:
        return np.poly1d(c)  # type: ignore[arg-type]
    made = np.poly1d([1.0])
    made.__dict__["coeffs"] = c
    return made


def _deprecated(name: str, other: str) -> None:
    """Warn in SciPy's words, where they are those of the SciPy that is installed."""
    if at_least(scipy, 1, 18):
        text = f"`{name}` is deprecated and will be removed in SciPy 1.20.0. Use `{other}` instead."
        warn_user(text, DeprecationWarning)


@of_data
def lagrange(x: ArrayLike, w: ArrayLike) -> np.poly1d:
    """The polynomial through values w at places x, by its coefficients.

    Example:
        >>> lagrange([0.0, 1.0, 2.0], [0.0, 1.0, 4.0]).coeffs.round(9)
        array([1., 0., 0.])
    """
    _deprecated("lagrange", "scipy.interpolate.BarycentricInterpolator")
    places, values = inexact(as_operand(x)), inexact(as_operand(w))
    if len(places.shape) != 1 or places.shape != values.shape:
        raise unfit("lagrange", f"{places.shape} places, {values.shape} values", "as many values")
    total: Value = np.zeros(1)
    for j in range(places.shape[0]):
        factors = np.ones(1)
        for k in range(places.shape[0]):
            if k != j:
                line = np.stack([places[k] * 0 + 1, -places[k]]) / (places[j] - places[k])
                factors = np.convolve(factors, line)
        total = total + values[j] * factors
    return _polynomial(total)


@of_data
def pade(an: ArrayLike, m: int, n: int | None = None) -> tuple[np.poly1d, np.poly1d]:
    """Numerator and denominator, of degrees n and m, of the quotient that has given coefficients of
    Taylor.

    Example:
        >>> [p.coeffs.round(9).tolist() for p in pade([1.0, 1.0, 0.5], 1)]
        [[0.5, 1.0], [-0.5, 1.0]]
    """
    _deprecated("pade", "mpmath.pade")
    series = inexact(as_operand(an))
    top = len(series) - 1 - m if n is None else n
    if top < 0 or m + top > len(series) - 1:
        raise unfit("pade", f"m={m}, n={n} for {len(series)} coefficients", "m + n < len(an)")
    size = m + top + 1
    series = series[:size]
    places = np.arange(size)[:, None] - 1 - np.arange(m)
    known = places >= 0
    below = np.where(known, -series[np.where(known, places, 0)], 0.0 * series[0])
    system = np.concatenate([np.eye(size, top + 1, dtype=series.dtype), below], axis=1)
    solved = np.linalg.solve(system, series)
    bottom = np.concatenate([np.ones(1, series.dtype), solved[top + 1 :]])
    return _polynomial(solved[: top + 1][::-1]), _polynomial(bottom[::-1])


def approximate_taylor_polynomial(
    f: Callable[[Value], Value], x: ArrayLike, degree: int, scale: float, order: int | None = None
) -> np.poly1d:
    """The polynomial of Taylor of a function at x, by values at places up to `scale` from it; the
    function may close over what is traced.

    Example:
        >>> approximate_taylor_polynomial(np.exp, 0.0, 2, 1.0, 9).coeffs.round(4)
        array([0.5, 1. , 1. ])
    """
    if innermost() is None and not has_tracer((x, scale)):
        return plain.approximate_taylor_polynomial(f, x, degree, scale, order)
    n = (degree if order is None else order) + 1
    places = scale * np.cos(np.linspace(0, np.pi, n, endpoint=False)) + inexact(as_operand(x))
    values = user_form(f)(places)
    if degree + 1 > n:
        raise unfit("approximate_taylor_polynomial", f"order={order}", "order >= degree")
    slopes = KroghInterpolator(places, values).derivatives(x, degree + 1)
    factors = np.array([math.factorial(k) for k in range(degree + 1)], float)
    return _polynomial((slopes / factors)[::-1])
