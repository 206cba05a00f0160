"""L7. `scipy.interpolate`: splines of several variables, as sums of products of B-splines.

    s(x, y) = sum_ij c_ij B_i(x) B_j(y)

Knots and the places of data are plain: SciPy's own code finds the knots, and coefficients are
linear in the values.  Derivatives are taken in values, coefficients and places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.at_indexing import at
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, user_line
from fgrad.ops import checked
from fgrad.scipy.interpolate.common import (
    Interpolant,
    doubles,
    fixed,
    interval,
    of_data,
    plain,
    real_places,
    unfit,
    untraceable,
)
from fgrad.scipy.interpolate.splines import BSpline, _basis, _differences, evaluated
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree

_WHY = "SciPy's own code makes the matrix of the fit."
Tensor = tuple[tuple[Value, ...], Value, tuple[int, ...]]  # knots, coefficients, degrees


def derived(tensor: Tensor, nu: Sequence[int]) -> Tensor:
    """The derivative of orders along the axes, each less than the degree or equal to it."""
    knots, c, degrees = list(tensor[0]), tensor[1], list(tensor[2])
    for axis, order in enumerate(nu):
        lined = moveaxis(c, axis, 0)
        for _ in range(order):
            knots[axis], lined, degrees[axis] = _differences(knots[axis], lined, degrees[axis])
        c = moveaxis(lined, 0, axis)
    return tuple(knots), c, tuple(degrees)


def at_places(tensor: Tensor, columns: Sequence[Value]) -> Value:
    """A spline at places of flat coordinates: (places, ...)."""
    knots, c, degrees = tensor
    rank = len(knots)
    cells, weights = [], []
    for axis, (t, k, x) in enumerate(zip(knots, degrees, columns, strict=True)):
        cell = interval(t, x, k, c.shape[axis] - 1)
        shape = (-1, *[k + 1 if a == axis else 1 for a in range(rank)])
        cells.append(np.reshape(cell[:, None] + np.arange(-k, 1), shape))
        weights.append(np.reshape(np.stack(_basis(t, x, cell, k), axis=1), shape))
    found = at(as_operand(c))[tuple(cells)].get()
    more = (1,) * (len(c.shape) - rank)
    for w in weights:
        found = found * np.reshape(w, (*w.shape, *more))
    return np.sum(found, axis=tuple(range(1, rank + 1)))


def _too_high(nu: Sequence[int], degrees: Sequence[int]) -> bool:
    return any([order > k for order, k in zip(nu, degrees, strict=True)])


class NdBSpline(Interpolant):
    """A spline of several variables, of knots t, coefficients c and degrees k.

    Arguments:
        t: the knots of each variable, plain.
        c: the coefficients, an axis for each variable, and more.
        k: the degree, or one for each variable.
        extrapolate: whether the outer polynomials go on outside; NaN if not.

    Example:
        >>> t = np.arange(4.0)
        >>> NdBSpline((t, t), np.ones((2, 2)), 1)([[1.5, 1.5]])
        array([1.])
    """

    def __init__(
        self,
        t: Sequence[ArrayLike],
        c: ArrayLike,
        k: int | Sequence[int],
        *,
        extrapolate: bool | None = None,
    ) -> None:
        self.extrapolate = True if extrapolate is None else bool(extrapolate)
        if self._made(plain.NdBSpline, t, c, k, extrapolate=extrapolate):
            made = self._plain
            self.t, self.c, self.k = made.t, made.c, made.k
            return
        why, write = "they decide places.", "plain knots"
        rows = tuple([fixed("NdBSpline", "knots", row, why, write) for row in t])
        self.c = doubles(c)
        made = plain.NdBSpline(rows, np.zeros(self.c.shape), k)  # which checks them
        self.t, self.k = made.t, made.k

    def __call__(
        self,
        xi: ArrayLike,
        *,
        nu: Sequence[int] | None = None,
        extrapolate: bool | None = None,
    ) -> Value:
        """The values at places (..., variables), or derivatives of orders nu.

        Arguments:
            xi: the places.
            nu: the order by each variable.
            extrapolate: as in the class.
        """
        if self._is_plain(xi):
            return self._plain(xi, nu=nu, extrapolate=extrapolate)
        places, rank = real_places(xi), len(self.k)
        orders = [0] * rank if nu is None else [int(n) for n in nu]
        if places.shape[-1:] != (rank,) or len(orders) != rank or min(orders) < 0:
            what = f"places of shape {places.shape}, nu={nu} for {rank} variables"
            raise unfit("NdBSpline", what, "xi of shape (..., variables), nu=(1, 0)")
        knots = tuple([np.asarray(t) for t in self.t])
        tensor: Tensor = (knots, self.c, tuple(self.k))
        flat = np.reshape(places, (-1, rank))
        columns = [flat[:, axis] for axis in range(rank)]
        rest = self.c.shape[rank:]
        if _too_high(orders, self.k):
            found = np.zeros((flat.shape[0], *rest), self.c.dtype)
        else:
            found = at_places(derived(tensor, orders), columns)
        outside = np.any(np.isnan(flat), axis=1)
        if not (self.extrapolate if extrapolate is None else extrapolate):
            for x, t, k in zip(columns, knots, self.k, strict=True):
                outside = outside | (x < t[k]) | (x > t[-k - 1])
        found = np.where(np.reshape(outside, (-1, *[1] * len(rest))), math.nan, found)
        return np.reshape(found, (*places.shape[:-1], *rest))

    def derivative(self, nu: Sequence[int]) -> NdBSpline:
        """The derivative of orders nu, as such a spline."""
        orders = [int(n) for n in nu]
        if len(orders) != len(self.k) or min(orders) < 0:
            raise unfit("NdBSpline.derivative", f"nu={nu}", "an order for each variable")
        knots: tuple[Value, ...] = tuple([np.asarray(t) for t in self.t])
        if _too_high(orders, self.k):
            untraceable("NdBSpline.derivative", f"nu={nu}", "it is zero.", "orders up to degrees")
        t, c, k = derived((knots, self.c, tuple(self.k)), orders)
        return NdBSpline(t, c, k, extrapolate=self.extrapolate)


# --- FITPACK's of two variables -----------------------------------------------------------------


def _ascend(name: str, *lines: Value) -> None:
    """Raise unless the lines of a grid ascend."""
    for x in lines:
        ascends = np.all(x[1:] >= x[:-1])
        value = concrete(ascends)
        if value is None:
            checked.require(ascends, checked.text_of(ValueError(f"{name}: x, y must ascend")))
        elif not value:
            raise unfit(name, "lines of a grid that do not ascend", "np.sort(x), or grid=False")


def _on_grid(tensor: Tensor, x: Value, y: Value, dx: int, dy: int) -> Value:
    (tx, ty), c, (kx, ky) = tensor
    rows = evaluated((tx, c, kx), x, dx)
    return np.transpose(evaluated((ty, np.transpose(rows), ky), y, dy))


class BivariateSpline(Interpolant):
    """A spline of two variables, of which all have the methods.

    Example:
        >>> made = RectBivariateSpline(np.arange(4.0), np.arange(4.0), np.ones((4, 4)))
        >>> isinstance(made, BivariateSpline)
        True
    """

    _tensor: Tensor

    def _take(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def _of_plain(self) -> None:
        tx, ty, c = self._plain.tck[:3]
        kx, ky = self._plain.degrees
        shape = len(tx) - kx - 1, len(ty) - ky - 1
        self._take(((tx, ty), np.reshape(c, shape), (kx, ky)))

    def _places(self, x: ArrayLike, y: ArrayLike) -> tuple[Value, Value]:
        """The nearest places inside, as FITPACK takes them."""
        (tx, ty), _, (kx, ky) = self._tensor
        x, y = real_places(x), real_places(y)
        return np.clip(x, tx[kx], tx[-kx - 1]), np.clip(y, ty[ky], ty[-ky - 1])

    def __call__(
        self, x: ArrayLike, y: ArrayLike, dx: int = 0, dy: int = 0, grid: bool = True
    ) -> Value:
        """The values, or derivatives of orders dx and dy.

        Arguments:
            x, y: the lines of a grid, which ascend, or coordinates of places, which broadcast.
            dx, dy: the orders.
            grid: which of them.
        """
        if self._is_plain(x, y):
            return self._plain(x, y, dx, dy, grid)
        (kx, ky) = self._tensor[2]
        if dx < 0 or dy < 0 or (dx and dx >= kx) or (dy and dy >= ky):
            raise unfit(type(self).__name__, f"dx={dx}, dy={dy}", "orders less than the degrees")
        places = self._places(x, y)
        if grid:
            rows, columns = [np.ravel(np.atleast_1d(v)) for v in places]
            _ascend(type(self).__name__, rows, columns)
            return _on_grid(self._tensor, rows, columns, dx, dy)
        first, second = np.broadcast_arrays(*places)
        flat = [np.ravel(v) for v in (first, second)]
        return np.reshape(at_places(derived(self._tensor, (dx, dy)), flat), first.shape)

    def ev(self, xi: ArrayLike, yi: ArrayLike, dx: int = 0, dy: int = 0) -> Value:
        """The values at places, or derivatives of orders dx and dy."""
        return self(xi, yi, dx, dy, False)

    def partial_derivative(self, dx: int, dy: int) -> BivariateSpline:
        """The derivative of orders dx and dy, as a spline."""
        kx, ky = self._tensor[2]
        if not (0 <= dx < max(kx, 1) and 0 <= dy < max(ky, 1)):
            raise unfit("BivariateSpline", f"dx={dx}, dy={dy}", "orders less than the degrees")
        found = BivariateSpline()
        if self._plain is not None:
            found._plain = self._plain.partial_derivative(dx, dy)
        found._take(derived(self._tensor, (dx, dy)))
        return found

    def integral(self, xa: ArrayLike, xb: ArrayLike, ya: ArrayLike, yb: ArrayLike) -> Value:
        """The integral over a rectangle, of zero outside."""
        if self._is_plain(xa, xb, ya, yb):
            return self._plain.integral(xa, xb, ya, yb)
        (tx, ty), c, (kx, ky) = self._tensor
        row = BSpline.construct_fast(tx, c, kx, False).integrate(xa, xb)
        return BSpline.construct_fast(ty, row, ky, False).integrate(ya, yb)

    def get_coeffs(self) -> Value:
        """The coefficients, in a line."""
        return np.ravel(self._tensor[1])

    def get_knots(self) -> tuple[Value, ...]:
        """The knots of both variables."""
        return self._tensor[0]


class RectBivariateSpline(BivariateSpline):
    """The spline of two variables through values on a grid.

    Arguments:
        x, y: the lines of the grid, plain.
        z: the values (len(x), len(y)).
        bbox: where it begins and ends, in x and in y.
        kx, ky: the degrees.
        s: how far from the values it may be; 0 for traced ones.
        maxit: of SciPy's search for a smooth one.

    Example:
        >>> x = np.arange(4.0)
        >>> RectBivariateSpline(x, x, np.outer(x, x))(1.5, 2.0).round(9)
        array([[3.]])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        bbox: Sequence[float | None] = (None,) * 4,
        kx: int = 3,
        ky: int = 3,
        s: float = 0,
        maxit: int = 20,
    ) -> None:
        name = "RectBivariateSpline"
        if self._made(plain.RectBivariateSpline, x, y, z, list(bbox), kx, ky, s, maxit):
            self._of_plain()
            return
        if has_tracer((s,)) or s != 0:
            untraceable(name, f"traced values and s={s}", "the data decide the knots.", "s=0")
        lines = [
            fixed(name, n, v, _WHY, "RegularGridInterpolator") for n, v in (("x", x), ("y", y))
        ]
        values = doubles(z)
        if values.dtype.kind == "c":
            raise unfit(name, "complex values", "z.real and z.imag    one spline for each part")
        made = plain.RectBivariateSpline(*lines, np.zeros(values.shape), list(bbox), kx, ky, 0)
        knots = made.tck[:2]
        rows, columns = [
            np.linalg.inv(plain.BSpline.design_matrix(v.astype(float), t, k).toarray())
            for v, t, k in zip(lines, knots, (kx, ky), strict=True)
        ]
        self._take((knots, rows @ values @ columns.T, (kx, ky)))


class LSQBivariateSpline(BivariateSpline):
    """The spline of two variables and of inner knots that is nearest to values at places.

    Arguments:
        x, y: the places, plain.
        z: the values.
        tx, ty: the inner knots, plain.
        w, bbox, kx, ky, eps: as in SciPy, plain.

    Example:
        >>> x, y = np.indices((4, 4)).reshape(2, 16) * 1.0
        >>> LSQBivariateSpline(x, y, x * y, [1.5], [1.5], kx=1, ky=1)(1.5, 1.5).round(6)
        array([[2.25]])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        tx: ArrayLike,
        ty: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None,) * 4,
        kx: int = 3,
        ky: int = 3,
        eps: float | None = None,
    ) -> None:
        make, rest = plain.LSQBivariateSpline, (list(bbox), kx, ky, eps)
        if self._made(make, x, y, z, tx, ty, w, *rest):
            self._of_plain()
            return
        given = {"x": x, "y": y, "tx": tx, "ty": ty, "w": 1.0 if w is None else w}
        first, second, inner, more, weights = [
            fixed("LSQBivariateSpline", n, v, _WHY, "a plain one") for n, v in given.items()
        ]
        values = doubles(z)
        weights = np.broadcast_to(weights, first.shape).astype(float)
        made = make(first, second, np.zeros(values.shape), inner, more, weights, *rest)
        (ax, ay, _), degrees = made.tck, made.degrees
        products = _products((ax, ay), degrees, first.astype(float), second.astype(float))
        matrix = products * weights[:, None]
        if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
            why = "the places do not decide all of its coefficients."
            untraceable("LSQBivariateSpline", "such knots", why, "fewer knots")
        c = np.linalg.pinv(matrix) @ (weights * values)
        self._take(((ax, ay), np.reshape(c, (len(ax) - kx - 1, len(ay) - ky - 1)), (kx, ky)))


def _products(
    knots: tuple[np.ndarray, ...], degrees: Sequence[int], x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The products of B-splines at places: (places, products)."""
    rows, columns = [
        plain.BSpline.design_matrix(np.clip(v, t[k], t[-k - 1]), t, k).toarray()
        for v, t, k in zip((x, y), knots, degrees, strict=True)
    ]
    return np.reshape(rows[:, :, None] * columns[:, None, :], (x.shape[0], -1))


@of_data
def bisplev(x: ArrayLike, y: ArrayLike, tck: tuple[PyTree, ...], dx: int = 0, dy: int = 0) -> Value:
    """A spline (tx, ty, c, kx, ky) of two variables on a grid, or derivatives of orders dx and dy.

    Example:
        >>> t = np.array([0.0, 0.0, 1.0, 1.0])
        >>> float(bisplev(0.5, 0.5, (t, t, np.ones(4), 1, 1)))
        1.0
    """
    tx, ty, c, kx, ky = tck
    if not (0 <= dx < kx and 0 <= dy < ky):
        raise unfit("bisplev", f"dx={dx}, dy={dy}", "orders less than the degrees")
    rows, columns = [np.atleast_1d(real_places(v)) for v in (x, y)]
    if len(rows.shape) != 1 or len(columns.shape) != 1:
        raise ShapeError("scipy.interpolate.bisplev: lines with more than one axis.", user_line())
    made = BivariateSpline()
    knots = tuple([fixed("bisplev", "knots", t, "they decide places.", "plain") for t in (tx, ty)])
    shape = len(knots[0]) - kx - 1, len(knots[1]) - ky - 1
    made._take((knots, np.reshape(doubles(c), shape), (kx, ky)))
    found = made(rows, columns, dx, dy)
    if found.shape[0] > 1:
        return found
    return found[0] if found.shape[1] > 1 else found[0, 0]
