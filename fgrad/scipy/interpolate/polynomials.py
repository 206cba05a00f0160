"""L7. `scipy.interpolate`: one polynomial through all values.

barycentric    p(x) = sum_j (w_j / (x - x_j)) y_j / sum_j (w_j / (x - x_j))
Krogh          p(x) = c_0 + (x - x_0) (c_1 + (x - x_1) (c_2 + ...))     divided differences
"""

from __future__ import annotations

import functools

import numpy as np

from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import normalize_axis
from fgrad.scipy.interpolate.common import (
    Interpolant,
    along,
    doubles,
    of_data,
    plain,
    real_places,
    shaped,
    unfit,
    untraceable,
)
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree


def _differences(x: Value, y: Value) -> Value:
    """Newton's divided differences."""
    found, column = [y[0]], y
    for k in range(1, y.shape[0]):
        column = (column[1:] - column[:-1]) / along(x[k:] - x[:-k], column[1:])
        found.append(column[0])
    return np.stack(found)


def _newton(x: Value, c: Value, places: Value) -> list[Value]:
    """The polynomial of divided differences and its derivatives over factorials, at places."""
    n = c.shape[0]
    rows: list[Value] = [c[n - 1] + along(places * 0, c)]
    for k in range(n - 2, -1, -1):
        u = along(places - x[k], c)
        after = [rows[0] * u + c[k]]
        after += [rows[j] * u + rows[j - 1] for j in range(1, len(rows))]
        rows = [*after, rows[-1]]
    return rows


class _Polynomial(Interpolant):
    """A polynomial through values, with the derivatives of its form of Newton."""

    xi: Value
    yi: Value
    axis: int

    def _take(self, name: str, xi: ArrayLike, yi: ArrayLike, axis: int) -> None:
        self.xi, values = real_places(xi), doubles(yi)
        values = np.atleast_1d(values)
        self.axis = normalize_axis(axis, len(values.shape))
        self.yi = moveaxis(values, self.axis, 0)
        if len(self.xi.shape) != 1 or self.xi.shape[0] != self.yi.shape[0]:
            what = f"{self.xi.shape} places, {self.yi.shape} values"
            raise unfit(name, what, "as many places as values")

    def _rows(self, x: ArrayLike) -> tuple[list[Value], Value]:
        self._ready()
        places = real_places(x)
        return _newton(self.xi, _differences(self.xi, self.yi), np.ravel(places)), places

    def derivatives(self, x: ArrayLike, der: int | None = None) -> Value:
        """The value and the derivatives at places, up to an order below `der`.

        Arguments:
            x: the places.
            der: how many; as many as there are values if None.
        """
        if self._is_plain(x):
            return self._plain.derivatives(x, der)
        rows, places = self._rows(x)
        count = self.xi.shape[0] if der is None else int(der)
        found, factor = [], 1.0
        for k in range(count):
            factor *= max(k, 1)
            value = rows[k] * factor if k < len(rows) else rows[0] * 0
            found.append(shaped(value, places, self.axis))
        return np.stack(found)

    def derivative(self, x: ArrayLike, der: int = 1) -> Value:
        """One derivative at places.

        Arguments:
            x: the places.
            der: its order.
        """
        return self.derivatives(x, der + 1)[der]


class KroghInterpolator(_Polynomial):
    """The polynomial through values at places that differ.

    Arguments:
        xi: the places.
        yi, axis: the values, and their axis.

    Example:
        >>> float(KroghInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(1.5))
        2.25
    """

    def __init__(self, xi: ArrayLike, yi: ArrayLike, axis: int = 0) -> None:
        self._made(plain.KroghInterpolator, xi, yi, axis)
        self._prepared(functools.partial(self._set, xi, yi, axis))

    def _set(self, xi: ArrayLike, yi: ArrayLike, axis: int) -> None:
        self._take("KroghInterpolator", xi, yi, axis)
        places = concrete(self.xi)
        if places is not None and np.unique(places).size != np.size(places):
            why = "values of equal places are derivatives."
            untraceable("KroghInterpolator", "equal places", why, "CubicHermiteSpline(x, y, dydx)")

    def __call__(self, x: ArrayLike) -> Value:
        """The values at places."""
        if self._is_plain(x):
            return self._plain(x)
        rows, places = self._rows(x)
        return shaped(rows[0], places, self.axis)


class BarycentricInterpolator(_Polynomial):
    """The polynomial through values at places that differ, by barycentric weights.

    Arguments:
        xi: the places.
        yi, axis: the values, and their axis.
        wi, rng, random_state: SciPy's weights and its order; nothing for traced data.

    Example:
        >>> BarycentricInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(np.array([1.5])).round(9)
        array([2.25])
    """

    def __init__(
        self,
        xi: ArrayLike,
        yi: ArrayLike | None = None,
        axis: int = 0,
        *,
        wi: ArrayLike | None = None,
        rng: PyTree = None,
        random_state: PyTree = None,
    ) -> None:
        given = {"rng": rng} if rng is not None else {}
        given |= {"wi": wi} if wi is not None else {}
        self._made(plain.BarycentricInterpolator, xi, yi, axis, **given)
        self._prepared(functools.partial(self._set, xi, yi, axis, wi))

    def set_yi(self, yi: ArrayLike, axis: int | None = None) -> None:
        """Other values for plain data; traced places then need a new interpolator."""
        self._changed("set_yi", yi, axis)

    def add_xi(self, xi: ArrayLike, yi: ArrayLike | None = None) -> None:
        """More places and values for plain data; traced places then need a new interpolator."""
        self._changed("add_xi", xi, yi)

    def _changed(self, method: str, *args: PyTree) -> None:
        def stale() -> None:
            untraceable("BarycentricInterpolator", method, "its data changed.", "a new one")

        if not self._is_plain(*args):
            stale()
        getattr(self._plain, method)(*args)
        self._prepare = stale

    def _set(self, xi: ArrayLike, yi: ArrayLike | None, axis: int, wi: ArrayLike | None) -> None:
        if wi is not None:
            why, write = "its weights are those of its places.", "no wi"
            untraceable("BarycentricInterpolator", "wi", why, write)
        if yi is None:
            untraceable("BarycentricInterpolator", "no values", "they come later.", "yi=values")
        self._take("BarycentricInterpolator", xi, yi, axis)  # type: ignore[arg-type]
        away = self.xi[:, None] - self.xi + np.eye(self.xi.shape[0])
        scale = 4.0 / (np.max(self.xi) - np.min(self.xi))  # so that products do not overflow
        grown = away * scale + np.eye(self.xi.shape[0]) * (1 - scale)
        self.wi = 1.0 / np.prod(grown, axis=1)

    def __call__(self, x: ArrayLike) -> Value:
        """The values at places."""
        if self._is_plain(x):
            return self._plain(x)
        self._ready()
        places = real_places(x)
        flat = np.ravel(places)
        away = flat[:, None] - self.xi
        hit = away == 0
        near = np.any(hit, axis=1)
        shares = self.wi / np.where(hit, 1.0, away)
        found = np.tensordot(shares, self.yi, 1) / along(np.sum(shares, axis=1), self.yi)
        rows, _ = self._rows(places)  # in a place of a value, where the other form has no slope
        return shaped(np.where(along(near, found), rows[0], found), places, self.axis)


@of_data
def barycentric_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, axis: int = 0, *, der: int | list[int] = 0,
    rng: PyTree = None,
) -> PyTree:  # fmt: skip
    """`BarycentricInterpolator(xi, yi, axis)` at places, or its derivatives.

    Example:
        >>> barycentric_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], np.array([1.5])).round(9)
        array([2.25])
    """
    made = BarycentricInterpolator(xi, yi, axis, rng=rng)
    if isinstance(der, int):
        return made(x) if not der else made.derivative(x, der)
    return made.derivatives(x, max(der) + 1)[np.asarray(der)]


@of_data
def krogh_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int | list[int] = 0, axis: int = 0
) -> PyTree:
    """`KroghInterpolator(xi, yi, axis)` at places, or its derivatives.

    Example:
        >>> krogh_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], np.array([1.5]))
        array([2.25])
    """
    made = KroghInterpolator(xi, yi, axis)
    if isinstance(der, int):
        return made(x) if not der else made.derivative(x, der)
    return made.derivatives(x, max(der) + 1)[np.asarray(der)]
