"""L7. `scipy.interpolate`: values at scattered places.

    RBF       s(x) = sum_j a_j phi(e |x - y_j|) + p(x)        p a polynomial
    linear    the barycentric mean of the corners of the simplex around a place
    nearest   the value of the nearest place

Which simplex or which place is near is found by SciPy's trees, whose points are plain, and has no
derivative; all else is differentiated, in the values and in the places.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy.interpolate.common import (
    Interpolant,
    along,
    doubles,
    fixed,
    of_data,
    plain,
    real_places,
    taken,
    unfit,
    untraceable,
)
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.typing import ArrayLike, PyTree

spatial = lazy_module("scipy.spatial")


def _safe_root(square: Value) -> Value:
    """A root whose derivative at zero is zero."""
    zero = square == 0
    return np.where(zero, 0.0, np.sqrt(np.where(zero, 1.0, square)))


def _thin_plate(square: Value) -> Value:
    zero = square == 0
    return np.where(zero, 0.0, 0.5 * square * np.log(np.where(zero, 1.0, square)))


# Kernels of the squared distance, and the least degree of the polynomial that each needs.
_KERNELS: dict[str, tuple[Callable[[Value], Value], int]] = {
    "linear": (lambda q: -_safe_root(q), 0),
    "thin_plate_spline": (_thin_plate, 1),
    "cubic": (lambda q: q * _safe_root(q), 1),
    "quintic": (lambda q: -(q * q) * _safe_root(q), 2),
    "multiquadric": (lambda q: -np.sqrt(q + 1), 0),
    "inverse_multiquadric": (lambda q: 1 / np.sqrt(q + 1), -1),
    "inverse_quadratic": (lambda q: 1 / (q + 1), -1),
    "gaussian": (lambda q: np.exp(-q), -1),
}
_SCALED = ("linear", "thin_plate_spline", "cubic", "quintic")


class RBFInterpolator(Interpolant):
    """A sum of functions of the distance from the places of data.

    Arguments:
        y: the places of data (n, axes).
        d: the values (n, ...).
        neighbors: None.
        smoothing: how far the sum may be from the values: a number, or one for each.
        kernel: "linear", "thin_plate_spline", "cubic", "quintic", "multiquadric",
            "inverse_multiquadric", "inverse_quadratic" or "gaussian".
        epsilon: the scale of distances; may be traced.
        degree: of the polynomial that is added; -1 for none.

    Example:
        >>> f = RBFInterpolator([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], degree=1)
        >>> f([[0.5]]).round(9)
        array([0.5])
    """

    def __init__(
        self,
        y: ArrayLike,
        d: ArrayLike,
        neighbors: int | None = None,
        smoothing: ArrayLike = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: ArrayLike | None = None,
        degree: int | None = None,
    ) -> None:
        self._made(plain.RBFInterpolator, y, d, neighbors, smoothing, kernel, epsilon, degree)
        given = (y, d, neighbors, smoothing, kernel, epsilon, degree)
        self._prepared(functools.partial(self._set, *given))

    def _set(
        self, y: ArrayLike, d: ArrayLike, neighbors: int | None, smoothing: ArrayLike, kernel: str,
        epsilon: ArrayLike | None, degree: int | None,
    ) -> None:  # fmt: skip
        self.y, self.d = real_places(y), doubles(d)
        if len(self.y.shape) != 2 or self.y.shape[:1] != self.d.shape[:1]:
            what = f"places of shape {self.y.shape}, values of {self.d.shape}"
            raise unfit("RBFInterpolator", what, "places (n, axes) and values (n, ...)")
        if neighbors is not None:
            why = "the nearest places depend on values."
            untraceable("RBFInterpolator", f"neighbors={neighbors}", why, "neighbors=None")
        if kernel not in _KERNELS:
            raise unfit("RBFInterpolator", f"kernel={kernel!r}", 'kernel="thin_plate_spline"')
        if epsilon is None and kernel not in _SCALED:
            raise unfit("RBFInterpolator", f"no epsilon for {kernel!r}", "epsilon=1.0")
        self.kernel, self.epsilon = kernel, 1.0 if epsilon is None else doubles(epsilon)
        least = _KERNELS[kernel][1]
        self.degree = max(least, 0) if degree is None else int(degree)
        self._shift, self._scale = self._box()
        self._weights = self._solved(doubles(smoothing))

    def _box(self) -> tuple[Value, Value]:
        """The middle and half the width of the places, by which polynomials are scaled."""
        low, high = np.min(self.y, axis=0), np.max(self.y, axis=0)
        half = (high - low) / 2
        return (high + low) / 2, np.where(half == 0, 1.0, half)

    def _polynomials(self, x: Value) -> Value:
        """All monomials of the degree at places."""
        u = (x - self._shift) / self._scale
        axes = range(u.shape[1])
        parts: list[Value] = [
            math.prod([u[:, a] for a in chosen], start=np.ones(u.shape[0]))
            for degree in range(self.degree + 1)
            for chosen in itertools.combinations_with_replacement(axes, degree)
        ]
        return np.stack(parts, axis=1) if parts else np.zeros((u.shape[0], 0))

    def _kernels(self, x: Value) -> Value:
        away = (x[:, None] - self.y) * self.epsilon
        return _KERNELS[self.kernel][0](np.sum(away * away, axis=-1))

    def _solved(self, smoothing: Value) -> Value:
        n = self.y.shape[0]
        p = self._polynomials(self.y)
        m = p.shape[1]
        if m > n:
            raise unfit("RBFInterpolator", f"{n} places for degree {self.degree}", "more places")
        level = np.eye(n) * np.broadcast_to(smoothing, (n,))
        matrix = np.concatenate([self._kernels(self.y) + level, p], axis=1)
        lower = np.concatenate([p.T, np.zeros((m, m))], axis=1)
        flat = np.reshape(self.d, (n, -1))
        right = np.concatenate([flat, np.zeros((m, flat.shape[1]))], axis=0)
        return np.linalg.solve(np.concatenate([matrix, lower], axis=0), right)

    def __call__(self, x: ArrayLike) -> Value:
        """The values at places (..., axes)."""
        if self._is_plain(x):
            return self._plain(x)
        self._ready()
        places = real_places(x)
        if len(places.shape) != 2 or places.shape[1] != self.y.shape[1]:
            what = f"places of shape {places.shape}"
            raise unfit("RBFInterpolator", what, f"places of shape (q, {self.y.shape[1]})")
        rows = np.concatenate([self._kernels(places), self._polynomials(places)], axis=1)
        return np.reshape(rows @ self._weights, (places.shape[0], *self.d.shape[1:]))


def _points(name: str, points: PyTree) -> np.ndarray:
    """Plain places (n, axes), from an array or a tuple of coordinates."""
    if isinstance(points, tuple):
        points = np.stack([np.asarray(p) for p in points], axis=-1)
    why, write = "a tree of them finds what is near.", "RBFInterpolator(points, values)"
    found = np.asarray(fixed(name, "points", points, why, write), np.float64)
    return found[:, None] if found.ndim == 1 else found


def _places(name: str, given: tuple[PyTree, ...], axes: int) -> Value:
    """Places (..., axes), from an array, a tuple of coordinates, or coordinates."""
    first = given[0] if len(given) == 1 else given
    if isinstance(first, tuple):
        first = np.stack(np.broadcast_arrays(*[real_places(v) for v in first]), axis=-1)
    x = real_places(first)
    if axes == 1 and (not x.shape or x.shape[-1] != 1):
        x = x[..., None]
    if not x.shape or x.shape[-1] != axes:
        raise unfit(name, f"places of shape {x.shape} for {axes} axes", f"places (..., {axes})")
    return x


class LinearNDInterpolator(Interpolant):
    """Linear functions in the simplices between places.

    Arguments:
        points: the places (n, axes), plain, or their Delaunay triangulation.
        values: the values (n, ...).
        fill_value: outside of the hull.
        rescale: whether the axes are scaled to the same width first.

    Example:
        >>> f = LinearNDInterpolator([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0.0, 1.0, 2.0])
        >>> f(np.array([[0.25, 0.5]]))
        array([1.25])
    """

    def __init__(
        self,
        points: PyTree,
        values: ArrayLike,
        fill_value: ArrayLike = math.nan,
        rescale: bool = False,
    ) -> None:
        self._made(plain.LinearNDInterpolator, points, values, fill_value, rescale)
        given = points if hasattr(points, "simplices") else None
        places = given.points if given is not None else _points("LinearNDInterpolator", points)
        self._shift, self._scale = np.zeros(places.shape[1]), np.ones(places.shape[1])
        if rescale:
            self._shift, self._scale = places.mean(axis=0), np.ptp(places, axis=0)
        self.tri = given if given is not None and not rescale else spatial.Delaunay(
            (places - self._shift) / self._scale
        )  # fmt: skip
        self.values, self.fill_value = doubles(values), doubles(fill_value)
        if self.values.shape[:1] != places.shape[:1]:
            what = f"{places.shape[0]} places, values of shape {self.values.shape}"
            raise unfit("LinearNDInterpolator", what, "a value for each place")

    def __call__(self, *args: PyTree) -> Value:
        """The values at places (..., axes), or at coordinates that broadcast."""
        if self._is_plain(*args, *(args[0] if args and isinstance(args[0], tuple) else ())):
            return self._plain(*args)
        axes = self.tri.points.shape[1]
        x = (_places("LinearNDInterpolator", args, axes) - self._shift) / self._scale
        flat = np.reshape(x, (-1, axes))
        like = np.zeros(flat.shape[0], np.int64)
        cell = pure_callback(
            lambda p: self.tri.find_simplex(p).astype(np.int64), like, stop_gradient(flat)
        )
        inside = np.clip(cell, 0, None)
        corners = taken(np.asarray(self.tri.simplices, np.int64), inside)
        turn = taken(np.asarray(self.tri.transform), inside)
        shares = np.sum(turn[:, :axes] * (flat - turn[:, axes])[:, None], axis=-1)
        shares = np.concatenate([shares, 1 - np.sum(shares, axis=1, keepdims=True)], axis=1)
        parts = [
            taken(self.values, corners[:, k]) * along(shares[:, k], self.values)
            for k in range(axes + 1)
        ]
        found = functools.reduce(np.add, parts)
        found = np.where(along(cell < 0, found), self.fill_value, found)
        return np.reshape(found, (*x.shape[:-1], *self.values.shape[1:]))


class NearestNDInterpolator(Interpolant):
    """The value of the nearest place.

    Arguments:
        x: the places (n, axes), plain.
        y: the values (n, ...).
        rescale: whether the axes are scaled to the same width first.
        tree_options: of SciPy's tree.

    Example:
        >>> NearestNDInterpolator([[0.0, 0.0], [1.0, 0.0]], [3.0, 5.0])(np.array([[0.9, 0.1]]))
        array([5.])
    """

    def __init__(
        self,
        x: PyTree,
        y: ArrayLike,
        rescale: bool = False,
        tree_options: PyTree = None,
    ) -> None:
        self._made(plain.NearestNDInterpolator, x, y, rescale, tree_options)
        points = _points("NearestNDInterpolator", x)
        self._shift, self._scale = np.zeros(points.shape[1]), np.ones(points.shape[1])
        if rescale:
            self._shift, self._scale = points.mean(axis=0), np.ptp(points, axis=0)
        scaled = (points - self._shift) / self._scale
        self.tree = spatial.cKDTree(scaled, **(tree_options or {}))
        self.values = doubles(y)

    def __call__(self, *args: PyTree, **query_options: PyTree) -> Value:
        """The values at places (..., axes), or at coordinates that broadcast."""
        if self._is_plain(*args, *(args[0] if args and isinstance(args[0], tuple) else ())):
            return self._plain(*args, **query_options)
        if query_options:
            untraceable("NearestNDInterpolator", "query_options", "it has no traced form.", "f(x)")
        axes = self.tree.m
        x = (_places("NearestNDInterpolator", args, axes) - self._shift) / self._scale
        flat = np.reshape(x, (-1, axes))
        like = np.zeros(flat.shape[0], np.int64)
        near = pure_callback(
            lambda p: np.asarray(self.tree.query(p)[1], np.int64), like, stop_gradient(flat)
        )
        found = taken(self.values, near)
        found = found + along(np.sum(flat * 0, axis=-1), found)
        return np.reshape(found, (*x.shape[:-1], *self.values.shape[1:]))


@of_data
def griddata(
    points: PyTree,
    values: ArrayLike,
    xi: PyTree,
    method: str = "linear",
    fill_value: ArrayLike = math.nan,
    rescale: bool = False,
) -> Value:
    """The values at places between scattered ones, by "linear" or "nearest".

    Example:
        >>> p = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> griddata(p, np.array([0.0, 1.0, 2.0]), np.array([[0.25, 0.5]]))
        array([1.25])
    """
    if method not in ("linear", "nearest"):
        untraceable("griddata", f"method={method!r}", "it has no traced form.", 'method="linear"')
    places = _points("griddata", points)
    if places.shape[1] == 1:
        untraceable("griddata", "one axis", "there are no simplices.", "interp1d(points, values)")
    if method == "nearest":
        return NearestNDInterpolator(places, values, rescale)(xi)
    return LinearNDInterpolator(places, values, fill_value, rescale)(xi)
