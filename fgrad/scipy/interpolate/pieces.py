"""L7. `scipy.interpolate`: polynomials between breakpoints in Bernstein's basis, and of several
variables.

    p(x) = sum_a c_a binomial(k, a) s^a (1 - s)^(k - a)        s = (x - x_i) / (x_(i+1) - x_i)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.at_indexing import at
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand
from fgrad.scipy.interpolate.common import (
    Interpolant,
    Pieces,
    along,
    axis_of_pieces,
    doubles,
    interval,
    plain,
    real_places,
    taken,
    unfit,
)
from fgrad.scipy.interpolate.piecewise import PPoly
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree


class BPoly(Pieces):
    """A polynomial in each interval, by its coefficients in the basis of Bernstein.

    Arguments:
        c: coefficients (k + 1, m, ...).
        x: m + 1 breakpoints that ascend.
        extrapolate: whether the outer polynomials go on outside; "periodic" for a period.
        axis: the axis of the places in results.

    Example:
        >>> float(BPoly(np.array([[1.0], [3.0]]), np.array([0.0, 1.0]))(0.5))
        2.0
    """

    _family = "BPoly"

    def __init__(
        self, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0
    ) -> None:
        self.extrapolate = True if extrapolate is None else extrapolate
        self.axis = axis
        if self._made(plain.BPoly, c, x, extrapolate, axis):
            self.c, self.x, self.axis = self._plain.c, self._plain.x, self._plain.axis
            return
        coefficients, self.x = doubles(c), real_places(x)
        self.axis = axis_of_pieces("BPoly", axis, coefficients)
        self.c = (
            moveaxis(coefficients, (self.axis, self.axis + 1), (0, 1)) if axis else coefficients
        )
        self._fit("BPoly")

    @classmethod
    def construct_fast(
        cls, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0
    ) -> BPoly:
        """A piecewise polynomial whose coefficients have their axis first."""
        made = cls(c, x, extrapolate)
        made.axis = axis
        if made._plain is not None:
            made._plain.axis = axis
        return made

    @classmethod
    def from_power_basis(cls, pp: PPoly, extrapolate: bool | str | None = None) -> BPoly:
        """The same function as that of a `PPoly`."""
        beyond = pp.extrapolate if extrapolate is None else extrapolate
        k = pp.c.shape[0] - 1
        width = along(pp.x[1:] - pp.x[:-1], pp.c[0])
        rows = []
        for j in range(k + 1):
            parts = [
                pp.c[k - a] * width**a * (math.comb(j, a) / math.comb(k, a)) for a in range(j + 1)
            ]
            rows.append(sum(parts[1:], parts[0]))
        return cls.construct_fast(np.stack(rows), pp.x, beyond, pp.axis)

    @classmethod
    def from_derivatives(
        cls,
        xi: ArrayLike,
        yi: PyTree,
        orders: int | Sequence[int] | None = None,
        extrapolate: bool | str | None = None,
    ) -> BPoly:
        """The polynomials of given values and derivatives at breakpoints: yi[i][j] is the j-th
        derivative at xi[i]; as many count at both ends of an interval as `orders` allow."""
        x = real_places(xi)
        slopes = [[doubles(v) for v in row] for row in yi]
        m = len(slopes) - 1
        if x.shape != (m + 1,):
            raise unfit("BPoly", f"xi of shape {x.shape}, {m + 1} of yi", "as many of both")
        most = [orders] * m if orders is None or isinstance(orders, int) else list(orders)
        pieces = []
        for i in range(m):
            left, right = slopes[i], slopes[i + 1]
            na, nb = _counts(len(left), len(right), most[i])
            pieces.append(_between(x[i + 1] - x[i], left[:na], right[:nb]))
        top = max([len(a) + len(b) for a, b in itertools.pairwise(slopes)])
        c = np.stack([_raised(piece, top) for piece in pieces], axis=1)
        return cls.construct_fast(c, x, extrapolate)

    def _in_intervals(self, k: Value, places: Value) -> Value:
        low, high = taken(self.x, k), taken(self.x, k + 1)
        rows = [taken(self.c[j], k) for j in range(self.c.shape[0])]
        s = along((places - low) / (high - low), rows[0])
        while len(rows) > 1:
            rows = [a * (1 - s) + b * s for a, b in itertools.pairwise(rows)]
        return rows[0]

    def _widths(self, c: Value) -> Value:
        return along(self.x[1:] - self.x[:-1], c[0])

    def _slopes(self, c: Value) -> Value:
        k = c.shape[0] - 1
        return (c[1:] - c[:-1]) * k / self._widths(c) if k else c * 0

    def _sums(self, c: Value) -> Value:
        sums = np.cumsum(c, axis=0) * self._widths(c) / c.shape[0]
        before = np.cumsum(sums[-1], axis=0) - sums[-1]
        return np.concatenate([before[None], sums + before], axis=0)


def _counts(na: int, nb: int, order: int | None) -> tuple[int, int]:
    """How many derivatives count at both ends of an interval."""
    if order is None:
        return na, nb
    n = order + 1
    right = min(n - min(n // 2, na), nb)
    left = min(n - right, nb)  # as in SciPy
    if left + right != n or left > na:
        raise unfit("BPoly.from_derivatives", f"orders={order}", f"orders={na + nb - 1} or less")
    return left, right


def _between(width: Value, left: list[Value], right: list[Value]) -> list[Value]:
    """The coefficients of the polynomial of given derivatives at both ends of an interval."""
    n = len(left) + len(right)
    first: list[Value] = []
    last: list[Value] = []
    for found, given, sign in ((first, left, 1.0), (last, right, -1.0)):
        for q, value in enumerate(given):
            scale = math.perm(n - 1, q)
            total = value * (sign * width) ** q / scale
            for j in range(q):
                total = total - (-1) ** (j + q) * math.comb(q, j) * found[j]
            found.append(total)
    return first + last[::-1]


def _raised(c: list[Value], count: int) -> Value:
    """The same polynomial by more coefficients."""
    while len(c) < count:
        n = len(c)
        inner = [(j / n) * c[j - 1] + (1 - j / n) * c[j] for j in range(1, n)]
        c = [c[0], *inner, c[-1]]
    return np.stack(c)


class NdPPoly(Interpolant):
    """A polynomial of several variables in each box of a grid.

    Arguments:
        c: coefficients (orders of the variables, intervals of the variables, ...), the highest
            powers first.
        x: the breakpoints of each variable.
        extrapolate: whether the outer polynomials go on outside; NaN if not.

    Example:
        >>> x = np.array([0.0, 1.0])
        >>> NdPPoly(np.ones((2, 2, 1, 1)), (x, x))([[0.5, 1.0]])
        array([3.])
    """

    def __init__(
        self, c: ArrayLike, x: Sequence[ArrayLike], extrapolate: bool | None = None
    ) -> None:
        self.extrapolate = True if extrapolate is None else bool(extrapolate)
        if not has_tracer(x) and self._made(plain.NdPPoly, c, x, extrapolate):
            self.c, self.x = self._plain.c, self._plain.x
            return
        self.c, self.x = doubles(c), tuple([real_places(line) for line in x])
        rank = len(self.x)
        sizes = tuple([line.shape[0] - 1 for line in self.x])
        if len(self.c.shape) < 2 * rank or self.c.shape[rank : 2 * rank] != sizes:
            raise unfit("NdPPoly", f"c of shape {self.c.shape}", "an interval less than x for each")

    @classmethod
    def construct_fast(
        cls, c: ArrayLike, x: Sequence[ArrayLike], extrapolate: bool | None = None
    ) -> NdPPoly:
        """Such a polynomial without checks."""
        return cls(c, x, extrapolate)

    def __call__(
        self, x: ArrayLike, nu: Sequence[int] | None = None, extrapolate: bool | None = None
    ) -> Value:
        """The values at places (..., variables), or derivatives of orders nu.

        Arguments:
            x: the places.
            nu: the order by each variable.
            extrapolate: as in the class.
        """
        if self._is_plain(x):
            return self._plain(x, nu, extrapolate)
        places, rank = real_places(x), len(self.x)
        if places.shape[-1:] != (rank,) or (nu is not None and len(nu) != rank):
            raise unfit("NdPPoly", f"places {places.shape}, nu={nu}", "x of shape (..., variables)")
        if nu is not None and any(nu):
            return self.derivative(nu)(places, None, extrapolate)
        flat = np.reshape(places, (-1, rank))
        columns = [flat[:, axis] for axis in range(rank)]
        pairs = [*zip(columns, self.x, strict=True)]
        cells = [interval(line, v, 0, line.shape[0] - 2) for v, line in pairs]
        lead = moveaxis(self.c, tuple(range(rank, 2 * rank)), tuple(range(rank)))
        found = at(as_operand(lead))[tuple(cells)].get()  # (places, orders, ...)
        for cell, (v, line) in zip(cells, pairs, strict=True):
            u = v - taken(line, cell)
            total = found[:, 0]
            u = along(u, total)
            for row in range(1, found.shape[1]):
                total = total * u + found[:, row]
            found = total
        outside = np.any(np.isnan(flat), axis=1)
        if not (self.extrapolate if extrapolate is None else extrapolate):
            for v, line in pairs:
                outside = outside | (v < line[0]) | (v > line[-1])
        found = np.where(along(outside, found), math.nan, found)
        return np.reshape(found, (*places.shape[:-1], *self.c.shape[2 * rank :]))

    def _one(self, axis: int) -> PPoly:
        """The polynomial of one variable, whose coefficients lie in all others."""
        rank = len(self.x)
        return PPoly(moveaxis(self.c, (axis, rank + axis), (0, 1)), self.x[axis], self.extrapolate)

    def _with(self, c: Value, axis: int) -> NdPPoly:
        back = moveaxis(c, (0, 1), (axis, len(self.x) + axis))
        return NdPPoly(back, self.x, self.extrapolate)

    def derivative(self, nu: Sequence[int]) -> NdPPoly:
        """The derivative of orders nu, as such a polynomial; negative ones are integrals."""
        made = self
        for axis, order in enumerate(nu):
            if order:
                made = made._with(made._one(axis).derivative(order).c, axis)
        return made

    def antiderivative(self, nu: Sequence[int]) -> NdPPoly:
        """The integral of orders nu from the first breakpoints on, as such a polynomial."""
        return self.derivative([-order for order in nu])

    def integrate_1d(
        self, a: ArrayLike, b: ArrayLike, axis: int, extrapolate: bool | None = None
    ) -> PyTree:
        """The integral from a to b by one variable: a polynomial of the others, or a value."""
        if self._is_plain(a, b):
            return self._plain.integrate_1d(a, b, axis, extrapolate)
        rank = len(self.x)
        axis = int(axis) % rank
        beyond = self.extrapolate if extrapolate is None else bool(extrapolate)
        found = self._one(axis).integrate(a, b, beyond)
        if rank == 1:
            return found
        rest = tuple([line for i, line in enumerate(self.x) if i != axis])
        return NdPPoly(found, rest, beyond)

    def integrate(
        self, ranges: Sequence[tuple[ArrayLike, ArrayLike]], extrapolate: bool | None = None
    ) -> Value:
        """The integral over a box of ranges (a, b)."""
        if self._is_plain(ranges):
            return self._plain.integrate(ranges, extrapolate)
        if len(ranges) != len(self.x):
            raise unfit("NdPPoly.integrate", f"{len(ranges)} ranges", "one for each variable")
        made = self if self._plain is None else NdPPoly.construct_fast(self.c, self.x)
        beyond = self.extrapolate if extrapolate is None else extrapolate
        for a, b in ranges:
            made = made.integrate_1d(a, b, 0, beyond)
        return made  # type: ignore[return-value]
