"""L7. `scipy.interpolate`: polynomials between breakpoints.

    p(x) = sum_j c_j (x - x_i)^(k - j)        for x_i <= x < x_(i+1)

A cubic is given by values and slopes at both ends of its interval; what the slopes are is the
difference between the interpolators:

    Hermite    they are given            pchip    harmonic means, 0 where the data turn
    Akima      means by differences      spline   the second derivatives are continuous

Derivatives are taken in the data, in the breakpoints and in the places.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.lax.linalg import tridiagonal_solve
from fgrad.numpy.arrange import moveaxis
from fgrad.scipy.interpolate.common import (
    Pieces,
    along,
    axis_of_pieces,
    doubles,
    of_data,
    plain,
    real_places,
    table,
    taken,
    unfit,
)
from fgrad.scipy.interpolate.splines import BSpline, evaluated
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree


class PPoly(Pieces):
    """A polynomial in each interval.

    Arguments:
        c: coefficients (k, m, ...), the highest power first.
        x: m + 1 breakpoints that ascend.
        extrapolate: whether the outer polynomials go on outside; "periodic" for a period.
        axis: the axis of the places in results.

    Example:
        >>> float(PPoly(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]))(0.5))
        2.5
    """

    _family = "PPoly"

    def __init__(
        self, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0
    ) -> None:
        if self._made(plain.PPoly, c, x, extrapolate, axis):
            self._set(self._plain.c, self._plain.x, self._plain.extrapolate, self._plain.axis)
            return
        values = doubles(c)
        axis = axis_of_pieces("PPoly", axis, values)
        values = moveaxis(values, (axis, axis + 1), (0, 1)) if axis else values
        self._set(values, real_places(x), True if extrapolate is None else extrapolate, axis)
        self._fit("PPoly")

    def _set(self, c: Value, x: Value, extrapolate: bool | str, axis: int) -> None:
        self.c, self.x, self.extrapolate, self.axis = c, x, extrapolate, axis

    @classmethod
    def construct_fast(
        cls, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0
    ) -> PPoly:
        """A piecewise polynomial without checks, whose coefficients have their axis first."""
        made = PPoly.__new__(PPoly)
        beyond = True if extrapolate is None else extrapolate
        if made._made(plain.PPoly.construct_fast, c, x, beyond, axis):
            made._set(made._plain.c, made._plain.x, beyond, axis)
        else:
            made._set(doubles(c), real_places(x), beyond, axis)
        return made

    @classmethod
    def from_spline(cls, tck: PyTree, extrapolate: bool | str | None = None) -> PPoly:
        """The same function as that of a `BSpline`, or of knots, coefficients and a degree."""
        beyond = extrapolate
        if isinstance(tck, BSpline) or hasattr(tck, "tck"):
            beyond = tck.extrapolate if extrapolate is None else extrapolate
            tck = tck.tck
        t, c, k = real_places(tck[0]), doubles(tck[1]), int(tck[2])
        rows = [evaluated((t, c, k), t[:-1], m) / math.factorial(m) for m in range(k, -1, -1)]
        return cls.construct_fast(np.stack(rows), t, beyond)

    @classmethod
    def from_bernstein_basis(cls, bp: Pieces, extrapolate: bool | str | None = None) -> PPoly:
        """The same function as that of a `BPoly`."""
        beyond = bp.extrapolate if extrapolate is None else extrapolate
        k = bp.c.shape[0] - 1
        width = along(bp.x[1:] - bp.x[:-1], bp.c[0])
        rows = []
        for s in range(k, -1, -1):
            parts = [
                bp.c[a] * ((-1) ** (s - a) * math.comb(k, a) * math.comb(k - a, s - a)) / width**s
                for a in range(s + 1)
            ]
            rows.append(sum(parts[1:], parts[0]))
        return cls.construct_fast(np.stack(rows), bp.x, beyond, bp.axis)

    def _in_intervals(self, k: Value, places: Value) -> Value:
        u = places - taken(self.x, k)
        found = taken(self.c[0], k)
        u = along(u, found)
        for row in range(1, self.c.shape[0]):
            found = found * u + taken(self.c[row], k)
        return found

    def _slopes(self, c: Value) -> Value:
        k = c.shape[0]
        if k == 1:
            return c * 0
        return c[:-1] * np.arange(k - 1, 0, -1).reshape(-1, *[1] * (c.ndim - 1))

    def _sums(self, c: Value) -> Value:
        k = c.shape[0]
        raised = c / np.arange(k, 0, -1).reshape(-1, *[1] * (c.ndim - 1))
        width = along(self.x[1:] - self.x[:-1], c[0])
        total = raised[0]
        for row in range(1, k):
            total = total * width + raised[row]
        sums = np.cumsum(total * width, axis=0)
        start = np.concatenate([sums[:1] * 0, sums[:-1]], axis=0)
        return np.concatenate([raised, start[None]], axis=0)


class CubicHermiteSpline(PPoly):
    """Cubics of given values and slopes.

    Arguments:
        x: places that ascend.
        y, dydx: values and slopes there, along `axis`.
        axis: their axis.
        extrapolate: as in `PPoly`.

    Example:
        >>> float(CubicHermiteSpline([0.0, 1.0], [0.0, 1.0], [1.0, 1.0])(0.25))
        0.25
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        dydx: ArrayLike,
        axis: int = 0,
        extrapolate: bool | str | None = None,
    ) -> None:
        if self._made(plain.CubicHermiteSpline, x, y, dydx, axis, extrapolate):
            self._set(self._plain.c, self._plain.x, self._plain.extrapolate, self._plain.axis)
            return
        places, values, axis = table("CubicHermiteSpline", x, y, axis)
        slopes = moveaxis(doubles(dydx), axis, 0)
        self._of_slopes(places, values, slopes, axis, extrapolate)

    def _of_slopes(
        self, x: Value, y: Value, slopes: Value, axis: int, extrapolate: bool | str | None
    ) -> None:
        h = along(x[1:] - x[:-1], y)
        rise = (y[1:] - y[:-1]) / h
        t = (slopes[:-1] + slopes[1:] - 2 * rise) / h
        c = np.stack([t / h, (rise - slopes[:-1]) / h - t, slopes[:-1], y[:-1]])
        self._set(c, x, True if extrapolate is None else extrapolate, axis)


def _rises(x: Value, y: Value) -> tuple[Value, Value]:
    h = along(x[1:] - x[:-1], y)
    return h, (y[1:] - y[:-1]) / h


def _pchip_end(h0: Value, h1: Value, m0: Value, m1: Value) -> Value:
    """A slope by three points that keeps the shape of the data."""
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3 * np.abs(m0))
    return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(steep, 3 * m0, d))


def _pchip_slopes(x: Value, y: Value) -> Value:
    h, m = _rises(x, y)
    if y.shape[0] == 2:
        return np.concatenate([m, m], axis=0)
    turns = (np.sign(m[1:]) != np.sign(m[:-1])) | (m[1:] == 0) | (m[:-1] == 0)
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    low, high = [np.where(turns, 1.0, v) for v in (m[:-1], m[1:])]
    inner = np.where(turns, 0.0, (w1 + w2) / (w1 / low + w2 / high))
    first = _pchip_end(h[0], h[1], m[0], m[1])
    last = _pchip_end(h[-1], h[-2], m[-1], m[-2])
    return np.concatenate([first[None], inner, last[None]], axis=0)


class PchipInterpolator(CubicHermiteSpline):
    """Cubics that are monotonic where the data are.

    Arguments:
        x, y, axis, extrapolate: as in `CubicHermiteSpline`.

    Example:
        >>> float(PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])(0.5))
        0.5
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: bool | None = None
    ) -> None:
        if self._made(plain.PchipInterpolator, x, y, axis, extrapolate):
            self._set(self._plain.c, self._plain.x, self._plain.extrapolate, self._plain.axis)
            return
        places, values, axis = table("PchipInterpolator", x, y, axis)
        if values.dtype.kind == "c":
            raise unfit("PchipInterpolator", "complex values", "the real and the imaginary part")
        self._of_slopes(places, values, _pchip_slopes(places, values), axis, extrapolate)


def _akima_slopes(x: Value, y: Value, modified: bool) -> Value:
    m = _rises(x, y)[1]
    if y.shape[0] == 2:
        return np.concatenate([m, m], axis=0)
    left = 2 * m[0] - m[1]
    right = 2 * m[-1] - m[-2]
    ends = [(2 * left - m[0])[None], left[None], m, right[None], (2 * right - m[-1])[None]]
    m = np.concatenate(ends, axis=0)
    step = np.abs(m[1:] - m[:-1])
    f1, f2 = step[2:], step[:-2]
    if modified:
        mean = np.abs(m[1:] + m[:-1])
        f1, f2 = f1 + 0.5 * mean[2:], f2 + 0.5 * mean[:-2]
    total = f1 + f2
    large = total > 1e-9 * np.max(total)
    weighted = (f1 * m[1:-2] + f2 * m[2:-1]) / np.where(large, total, 1.0)
    return np.where(large, weighted, 0.5 * (m[3:] + m[:-3]))


class Akima1DInterpolator(CubicHermiteSpline):
    """Cubics whose slopes follow from four differences around a place.

    Arguments:
        x, y, axis: as in `CubicHermiteSpline`.
        method: "akima" or "makima".
        extrapolate: as in `PPoly`; False if None.

    Example:
        >>> float(Akima1DInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])(0.5))
        0.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        *,
        method: str = "akima",
        extrapolate: bool | None = None,
    ) -> None:
        if self._made(
            plain.Akima1DInterpolator, x, y, axis, method=method, extrapolate=extrapolate
        ):
            self._set(self._plain.c, self._plain.x, self._plain.extrapolate, self._plain.axis)
            return
        if method not in ("akima", "makima"):
            raise unfit("Akima1DInterpolator", f"method={method!r}", 'method="akima"')
        places, values, axis = table("Akima1DInterpolator", x, y, axis)
        slopes = _akima_slopes(places, values, method == "makima")
        beyond = False if extrapolate is None else extrapolate
        self._of_slopes(places, values, slopes, axis, beyond)


# --- cubic splines ------------------------------------------------------------------------------

_ENDS = {"not-a-knot": None, "clamped": (1, 0.0), "natural": (2, 0.0)}


def _condition(given: PyTree) -> tuple[int, PyTree] | None:
    """The order of the derivative at an end, and its value; None for "not-a-knot"."""
    if isinstance(given, str):
        if given not in _ENDS:
            raise unfit("CubicSpline", f"bc_type={given!r}", 'bc_type="natural"')
        return _ENDS[given]
    order, value = given
    if order not in (1, 2):
        raise unfit("CubicSpline", f"a derivative of order {order}", "bc_type=((1, v), (2, w))")
    return order, value


def _solved(low: Value, middle: Value, high: Value, right: Value) -> Value:
    """The solution of a system with three diagonals, of right sides (n, ...)."""
    n = right.shape[0]
    if right.dtype.kind == "c":
        parts = [_solved(low, middle, high, f(right)) for f in (np.real, np.imag)]
        return parts[0] + 1j * parts[1]
    flat = np.reshape(right, (n, -1))
    return np.reshape(tridiagonal_solve(low, middle, high, flat), right.shape)


def _end(
    h: Value, m: Value, condition: tuple[int, PyTree] | None, sign: float, like: Value
) -> tuple[Value, Value, Value]:
    """The equation of an end, of which h and m are the first two: b s_0 + c s_1 = r."""
    if condition is None:
        wide = h[0] + h[1]
        r = ((h[0] + 2 * wide) * h[1] * m[0] + h[0] ** 2 * m[1]) / wide
        return h[1], wide, r
    order, value = condition
    value = doubles(value) + like * 0
    if order == 1:
        return h[0] * 0 + 1, h[0] * 0, value
    return 2 * h[0], h[0], 3 * h[0] * m[0] - sign * 0.5 * value * h[0] ** 2


def _spline_slopes(x: Value, y: Value, ends: list[tuple[int, PyTree] | None]) -> Value:
    """The slopes for which second derivatives are continuous."""
    h = x[1:] - x[:-1]
    wide, m = _rises(x, y)
    n = y.shape[0]
    if n == 2:  # without a second interval, the slope of the first one
        ends = [(1, m[0]) if e is None else e for e in ends]
    if n == 3 and ends == [None, None]:  # a parabola
        bend = (m[1] - m[0]) / (x[2] - x[0])
        return np.stack([m[0] - bend * h[0], m[0] + bend * h[0], m[1] + bend * h[1]])
    b0, c0, r0 = _end(h[:2], m[:2], ends[0], 1.0, y[0])
    b1, a1, r1 = _end(h[::-1][:2], m[::-1][:2], ends[1], -1.0, y[0])
    zero = h[:1] * 0
    low = np.concatenate([zero, h[1:], np.reshape(a1, 1)])
    middle = np.concatenate([np.reshape(b0, 1), 2 * (h[:-1] + h[1:]), np.reshape(b1, 1)])
    high = np.concatenate([np.reshape(c0, 1), h[:-1], zero])
    inner = 3 * (wide[1:] * m[:-1] + wide[:-1] * m[1:])
    return _solved(low, middle, high, np.concatenate([r0[None], inner, r1[None]], axis=0))


def _periodic_slopes(x: Value, y: Value) -> Value:
    """The same for a period: three diagonals and two corners, by Sherman and Morrison."""
    h = x[1:] - x[:-1]
    wide, m = _rises(x, y)
    n = h.shape[0]
    if n == 1:
        return y * 0
    before, mean = np.roll(h, 1), np.roll(m, 1, axis=0)
    right = 3 * (wide * mean + along(before, y) * m)
    middle = 2 * (h + before)
    if n == 2:
        total = (m / wide).sum(axis=0) / (1.0 / wide).sum(axis=0)
        return np.stack([total] * 3)
    corner_high, corner_low = h[0], before[-1]
    u = np.concatenate([-middle[:1], np.zeros(n - 2), np.reshape(corner_low, 1)])
    v = np.concatenate([np.ones(1), np.zeros(n - 2), np.reshape(-corner_high / middle[0], 1)])
    diagonal = middle - u * v
    low, high = np.concatenate([h[:1] * 0, h[1:]]), np.concatenate([before[:-1], h[:1] * 0])
    solved = _solved(low, diagonal, high, right)
    bent = _solved(low, diagonal, high, u)
    shares = np.tensordot(v, solved, 1) / (1 + v @ bent)
    slopes = solved - along(bent, right) * shares
    return np.concatenate([slopes, slopes[:1]], axis=0)


class CubicSpline(CubicHermiteSpline):
    """Cubics whose first and second derivatives are continuous.

    Arguments:
        x, y, axis: as in `CubicHermiteSpline`.
        bc_type: "not-a-knot", "clamped", "natural" or "periodic"; or for each end one of them or
            (order, value) of a derivative.
        extrapolate: as in `PPoly`.

    Example:
        >>> CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(np.array([1.5])).round(9)
        array([3.375])
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: PyTree = "not-a-knot",
        extrapolate: bool | str | None = None,
    ) -> None:
        if self._made(plain.CubicSpline, x, y, axis, bc_type, extrapolate):
            self._set(self._plain.c, self._plain.x, self._plain.extrapolate, self._plain.axis)
            return
        places, values, axis = table("CubicSpline", x, y, axis)
        if places.shape[0] < 2:
            raise unfit("CubicSpline", f"{places.shape[0]} places", "at least two")
        if isinstance(bc_type, str) and bc_type == "periodic":
            slopes = _periodic_slopes(places, values)
            beyond = "periodic" if extrapolate is None else extrapolate
            self._of_slopes(places, values, slopes, axis, beyond)
            return
        both = [bc_type, bc_type] if isinstance(bc_type, str) else list(bc_type)
        if len(both) != 2:
            raise unfit("CubicSpline", f"{len(both)} conditions", "bc_type for both ends")
        slopes = _spline_slopes(places, values, [_condition(e) for e in both])
        self._of_slopes(places, values, slopes, axis, extrapolate)


@of_data
def pchip_interpolate(
    xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int | list[int] = 0, axis: int = 0
) -> PyTree:
    """`PchipInterpolator(xi, yi, axis)(x, der)`; a list of orders gives a list.

    Example:
        >>> pchip_interpolate([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], np.array([0.5]))
        array([0.5])
    """
    made = PchipInterpolator(xi, yi, axis)
    return made(x, der) if isinstance(der, int) else [made(x, nu) for nu in der]
