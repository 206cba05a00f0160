"""L7. `scipy.interpolate`: splines as sums of B-splines.

    s(x) = sum_i c_i B_i(x)        B_i of degree k between the knots t_i and t_(i+k+1)

Values are those of de Boor's recursion, between traced knots too.  What finds coefficients
is linear in the data where places and weights are plain: SciPy's own code makes its matrix once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, normalize_axis
from fgrad.scipy._either import check_choice
from fgrad.scipy.interpolate.common import (
    Integrable,
    along,
    doubles,
    fixed,
    interval,
    of_data,
    plain,
    real_places,
    shaped,
    table,
    taken,
    unfit,
    untraceable,
    within,
)
from fgrad.trace import Value
from fgrad.typing import ArrayLike, P, PyTree, R

Tck = tuple[Value, Value, int]
_WHY = "SciPy's own code makes the matrix of the fit."


def _basis(t: Value, x: Value, cell: Value, k: int) -> list[Value]:
    """The k + 1 B-splines that are not zero in the interval `cell` of each place."""
    found: list[Value] = [x * 0 + 1]
    for d in range(1, k + 1):
        after = [0.0 * x] * (d + 1)
        for j in range(d):
            low, high = taken(t, cell + j + 1 - d), taken(t, cell + j + 1)
            empty = high == low
            share = np.where(empty, 0.0, found[j] / np.where(empty, 1.0, high - low))
            after[j] = after[j] + share * (high - x)
            after[j + 1] = share * (x - low)
        found = after
    return found


def _differences(t: Value, c: Value, k: int) -> Tck:
    """The derivative of a spline: knots, coefficients and degree."""
    n = c.shape[0]
    width = t[k + 1 : n + k] - t[1:n]
    width = along(width, c)
    empty = width == 0
    return t[1:-1], np.where(empty, 0.0, k * (c[1:] - c[:-1]) / np.where(empty, 1.0, width)), k - 1


def _sums(t: Value, c: Value, k: int) -> Tck:
    """The integral of a spline from its first knot on."""
    n = c.shape[0]
    parts = np.cumsum(c * along(t[k + 1 : n + k + 1] - t[:n], c), axis=0) / (k + 1)
    found = np.concatenate([parts[:1] * 0, parts], axis=0)
    return np.concatenate([t[:1], t, t[-1:]]), found, k + 1


def evaluated(tck: Tck, x: ArrayLike, nu: int = 0, beyond: object = True, axis: int = 0) -> Value:
    """A spline at places; outside of its knots NaN, or the outermost polynomials."""
    t, c, k = tck
    places = real_places(x)
    n = t.shape[0] - k - 1
    c = c[:n]
    flat, outside = within(places, t[k], t[n], beyond)
    if nu > k:
        found = np.zeros((flat.shape[0], *c.shape[1:])) + along(flat * 0, c)
    else:
        for _ in range(nu):
            t, c, k = _differences(t, c, k)
        cell = interval(t, flat, k, c.shape[0] - 1)
        parts = []
        for j, weight in enumerate(_basis(t, flat, cell, k)):
            value = taken(c, cell - k + j)
            parts.append(value * along(weight, value))
        found = sum(parts[1:], parts[0])
    return shaped(np.where(along(outside, found), math.nan, found), places, axis)


class BSpline(Integrable):
    """A spline of knots t, coefficients c and degree k.

    Arguments:
        t: n + k + 1 knots that do not descend.
        c: n or more coefficients, along `axis`.
        k: the degree.
        extrapolate: whether the outer polynomials go on outside; "periodic" for a period.
        axis: the axis of the coefficients.

    Example:
        >>> float(BSpline(np.arange(6.0), np.ones(3), 2)(2.5))
        1.0
    """

    _family = "BSpline"

    def __init__(
        self,
        t: ArrayLike,
        c: ArrayLike,
        k: int,
        extrapolate: bool | str = True,
        axis: int = 0,
    ) -> None:
        self.k, self.extrapolate = int(k), extrapolate
        if self._made(plain.BSpline, t, c, k, extrapolate, axis):
            self.t, self.c, self.axis = self._plain.t, self._plain.c, self._plain.axis
            return
        self.t = real_places(t)
        values = doubles(c)
        self.axis = normalize_axis(axis, len(values.shape))
        self.c = moveaxis(values, self.axis, 0)
        n = self.t.shape[0] - self.k - 1 if len(self.t.shape) == 1 else -1
        if n < self.k + 1 or self.c.shape[0] < n:
            what = f"{self.t.shape} knots, {self.c.shape} coefficients, k={k}"
            raise unfit("BSpline", what, "len(t) == n + k + 1 for n > k coefficients")

    @classmethod
    def construct_fast(
        cls, t: ArrayLike, c: ArrayLike, k: int, extrapolate: bool | str = True, axis: int = 0
    ) -> BSpline:
        """A spline without checks; the coefficients have their axis first."""
        found = cls.__new__(cls)
        found.t, found.c, found.k = real_places(t), doubles(c), int(k)
        found.extrapolate, found.axis = extrapolate, axis
        return found

    @classmethod
    def of_plain(cls, found: PyTree) -> BSpline:
        """SciPy's spline, which takes traced places too."""
        made = cls.construct_fast(found.t, found.c, found.k, found.extrapolate, found.axis)
        made._plain = found
        return made

    @classmethod
    def basis_element(cls, t: ArrayLike, extrapolate: bool | str = True) -> BSpline:
        """The B-spline whose knots are t."""
        knots = real_places(t)
        k = knots.shape[0] - 2
        whole = np.concatenate([knots[:1] - np.ones(k), knots, knots[-1:] + np.ones(k)])
        c = np.zeros(2 * k + 1)
        c[k] = 1
        return cls.construct_fast(whole, c, k, extrapolate)

    @property
    def tck(self) -> Tck:
        """Knots, coefficients and degree."""
        return self.t, self.c, self.k

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: bool | str | None = None) -> Value:
        """The values at places, or the derivatives of an order.

        Arguments:
            x: the places.
            nu: the order.
            extrapolate: as in the class.
        """
        if self._is_plain(x):
            return self._plain(x, nu, extrapolate)
        return evaluated(self.tck, x, nu, self._beyond(extrapolate), self.axis)

    def _other(self, tck: Tck) -> BSpline:
        beyond = self.extrapolate
        return BSpline.construct_fast(*tck, beyond, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """The derivative of an order, as a spline."""
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            t, c, k = _differences(t, c, k)
        return self._other((t, c, k))

    def antiderivative(self, nu: int = 1) -> BSpline:
        """The integral from the first knot on, as a spline."""
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            t, c, k = _sums(t, c, k)
        made = self._other((t, c, k))
        made.extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        return made

    def _between(self, a: ArrayLike, b: ArrayLike, beyond: bool | str) -> Value:
        low, high = real_places(a), real_places(b)
        if not beyond:  # it stops at the outermost knots
            ends = self.t[self.k], self.t[self.t.shape[0] - self.k - 1]
            low, high = np.clip(low, *ends), np.clip(high, *ends)
        whole = self.antiderivative()
        return whole(high, 0, True) - whole(low, 0, True)


def of_spline_data(fit: Callable[P, BSpline]) -> Callable[P, BSpline]:
    """A fit of plain data by SciPy, whose spline takes traced places, or of traced data."""
    either = of_data(fit)

    @functools.wraps(fit)
    def function(*args: P.args, **kwargs: P.kwargs) -> BSpline:
        found = either(*args, **kwargs)
        return found if isinstance(found, BSpline) else BSpline.of_plain(found)

    return function


def of_spline(function: Callable[P, R]) -> Callable[P, R]:
    """A function of a spline: of its knots, coefficients and degree, or of a `BSpline`."""
    either: Callable[..., R] = of_data(function)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        given: list[PyTree] = [*args, *kwargs.values()]
        splines = [x for x in given if isinstance(x, BSpline)]
        if any([s._plain is None for s in splines]) or (splines and has_tracer(given)):
            return function(*args, **kwargs)
        known = [x._plain if isinstance(x, BSpline) else x for x in given]
        n = len(args)
        found = either(*known[:n], **dict(zip(kwargs, known[n:], strict=True)))
        if not isinstance(found, plain.BSpline):
            return found
        return BSpline.of_plain(found)  # type: ignore[return-value]

    return called


# --- fits ---------------------------------------------------------------------------------------


def linear_fit(fit: Callable[[np.ndarray], Tck], y: Value) -> Tck:
    """A fit that is linear in the values: the matrix of SciPy's fit, times y."""
    made = [fit(row) for row in np.eye(y.shape[0])]
    matrix = np.stack([np.asarray(c) for _, c, _ in made], axis=1)
    t, _, k = made[0]
    return t, np.tensordot(matrix, y, 1), k


def _not_a_knot(x: Value, k: int) -> Value:
    """The knots of the spline of degree k through values at places."""
    if k % 2:
        inner = x[(k + 1) // 2 : x.shape[0] - (k + 1) // 2]
    else:
        middle = (x[1:] + x[:-1]) / 2
        inner = middle[k // 2 : middle.shape[0] - k // 2]
    return np.concatenate([x[:1]] * (k + 1) + [inner] + [x[-1:]] * (k + 1))


@of_spline_data
def make_interp_spline(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 3,
    t: ArrayLike | None = None,
    bc_type: PyTree = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """The spline of degree k through values at places.

    Arguments:
        x: places that ascend; traced ones have no `t` and no `bc_type`.
        y, axis: values, and their axis.
        k: the degree.
        t: the knots.
        bc_type: None, "not-a-knot", "natural" or "clamped".
        check_finite: nothing here.

    Example:
        >>> make_interp_spline(np.arange(4.0), np.arange(4.0) ** 3)(np.array([1.5])).round(9)
        array([3.375])
    """
    if bc_type not in (None, "not-a-knot", "natural", "clamped", (None, None)):
        write = 'CubicSpline(x, y, bc_type=...)    or bc_type="natural"'
        untraceable("make_interp_spline", f"bc_type={bc_type!r}", "it has no traced form.", write)
    places, values, axis = table("make_interp_spline", x, y, axis)
    n = values.shape[0]
    if has_tracer((x,)) and n > k > 0 and t is None and bc_type in (None, "not-a-knot"):
        knots = _not_a_knot(places, k)
        matrix = evaluated((knots, np.eye(n), k), places)
        c = np.reshape(np.linalg.solve(matrix, np.reshape(values, (n, -1))), values.shape)
        return BSpline.construct_fast(knots, c, k, True, axis)
    where = fixed("make_interp_spline", "x with t or bc_type", x, _WHY, "make_interp_spline(x, y)")
    knots = None if t is None else fixed("make_interp_spline", "t", t, _WHY, "plain knots")

    def fit(row: np.ndarray) -> Tck:
        return plain.make_interp_spline(where, row, k, knots, bc_type).tck

    return BSpline.construct_fast(*linear_fit(fit, values), True, axis)


@of_spline_data
def make_lsq_spline(
    x: ArrayLike,
    y: ArrayLike,
    t: ArrayLike,
    k: int = 3,
    w: ArrayLike | None = None,
    axis: int = 0,
    check_finite: bool = True,
    *,
    method: str = "qr",
) -> BSpline:
    """The spline of knots t that is nearest to values; places, knots and weights are plain.

    Example:
        >>> t = [0.0, 0.0, 3.0, 3.0]
        >>> float(make_lsq_spline(np.arange(4.0), np.arange(4.0), t, k=1)(1.5).round(9))
        1.5
    """
    check_choice("scipy.interpolate.make_lsq_spline", "method", method, ("qr", "norm-eq"))
    _, values, axis = table("make_lsq_spline", x, y, axis)
    given = [
        None if v is None else fixed("make_lsq_spline", n, v, _WHY, "fgrad.numpy.linalg.lstsq")
        for n, v in (("x", x), ("t", t), ("w", w))
    ]
    where, knots, weights = given

    def fit(row: np.ndarray) -> Tck:
        return plain.make_lsq_spline(where, row, knots, k, weights).tck

    return BSpline.construct_fast(*linear_fit(fit, values), True, axis)


@of_spline_data
def make_smoothing_spline(
    x: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    lam: float | None = None,
    *,
    axis: int = 0,
) -> BSpline:
    """The cubic spline that is near to values and smooth; `lam` is given, and plain.

    Example:
        >>> x = np.arange(6.0)
        >>> float(make_smoothing_spline(x, 2 * x, lam=1.0)(1.5).round(9))
        3.0
    """
    _, values, axis = table("make_smoothing_spline", x, y, axis)
    if lam is None:
        why = "cross validation chooses it by the data."
        untraceable("make_smoothing_spline", "lam=None", why, "lam=1.0")
    given = [
        None if v is None else fixed("make_smoothing_spline", n, v, _WHY, "a plain one")
        for n, v in (("x", x), ("w", w), ("lam", lam))
    ]
    where, weights, level = given

    def fit(row: np.ndarray) -> Tck:
        return plain.make_smoothing_spline(where, row, weights, float(level)).tck  # type: ignore[arg-type]

    return BSpline.construct_fast(*linear_fit(fit, values), True, axis)


# --- FITPACK's functions ------------------------------------------------------------------------


@of_data
def splrep(
    x: ArrayLike,
    y: ArrayLike,
    w: ArrayLike | None = None,
    xb: float | None = None,
    xe: float | None = None,
    k: int = 3,
    task: int = 0,
    s: float | None = None,
    t: ArrayLike | None = None,
    full_output: int = 0,
    per: int = 0,
    quiet: int = 1,
) -> Tck:
    """Knots, coefficients and degree of the spline through values, or of given inner knots.

    Arguments:
        x, y: places that ascend, plain, and values.
        w, xb, xe, k, task, t, quiet: as in SciPy, plain; knots t make it a least squares fit.
        s: 0 or None: a smoothing spline has knots that depend on the values.
        full_output, per: 0.

    Example:
        >>> t, c, k = splrep(np.arange(5.0), np.arange(5.0))
        >>> float(splev(1.5, (t, c, k)).round(9))
        1.5
    """
    if full_output or per:
        untraceable("splrep", "full_output or per", "it has no traced form.", "splrep(x, y)")
    if t is None and (s or (s is None and w is not None)):
        why = "the data decide the knots."
        untraceable("splrep", f"s={s}", why, "s=0, or make_smoothing_spline(x, y, lam=1.0)")
    _, values, _ = table("splrep", x, y, 0)
    where, weights, knots = [
        None if v is None else fixed("splrep", n, v, _WHY, "a plain one")
        for n, v in (("x", x), ("w", w), ("t", t))
    ]

    def fit(row: np.ndarray) -> Tck:
        return plain.splrep(where, row, weights, xb, xe, k, task, 0 if t is None else s, knots)

    return linear_fit(fit, values)


@of_spline
def splev(x: ArrayLike, tck: PyTree, der: int = 0, ext: int = 0) -> Value:
    """A spline (t, c, k), or its derivative, at places; outside by ext: 0 goes on, 1 is zero, 3 is
    the value at the end.

    Example:
        >>> float(splev(1.5, splrep(np.arange(5.0), np.arange(5.0))).round(9))
        1.5
    """
    if isinstance(tck, BSpline):
        return evaluated(tck.tck, x, der)
    t, c, k = tck
    if isinstance(c, (list, tuple)):
        return [splev(x, (t, row, k), der, ext) for row in c]  # type: ignore[return-value]
    knots, places = real_places(t), real_places(x)
    n = knots.shape[0] - k - 1
    low, high = knots[k], knots[n]
    if ext not in (0, 1, 3):
        untraceable("splev", f"ext={ext}", "which places lie outside is not known.", "ext=1")
    inside = np.clip(places, low, high) if ext == 3 and not der else places
    found = evaluated((knots, doubles(c), k), inside, der)
    return np.where((places < low) | (places > high), 0.0, found) if ext == 1 else found


def _tck(name: str, tck: PyTree) -> Tck:
    if isinstance(tck, BSpline):
        return tck.tck
    t, c, k = tck
    return doubles(t), doubles(c)[: as_operand(t).shape[0] - k - 1], k


@of_spline
def splint(a: ArrayLike, b: ArrayLike, tck: PyTree, full_output: int = 0) -> Value:
    """The integral of a spline (t, c, k) from a to b.

    Example:
        >>> round(splint(0.0, 2.0, splrep(np.arange(5.0), np.arange(5.0))), 9)
        2.0
    """
    if full_output:
        untraceable("splint", "full_output", "it has no traced form.", "splint(a, b, tck)")
    made = BSpline.construct_fast(*_tck("splint", tck), False)
    return made.integrate(a, b)


@of_spline
def splder(tck: PyTree, n: int = 1) -> PyTree:
    """The derivative of a spline (t, c, k), as such a triple.

    Example:
        >>> t, c, k = splder(splrep(np.arange(5.0), np.arange(5.0)))
        >>> k
        2
    """
    if isinstance(tck, BSpline):
        return tck.derivative(n)
    return BSpline.construct_fast(*_tck("splder", tck)).derivative(n).tck


@of_spline
def splantider(tck: PyTree, n: int = 1) -> PyTree:
    """The integral of a spline (t, c, k), as such a triple.

    Example:
        >>> t, c, k = splantider(splrep(np.arange(5.0), np.arange(5.0)))
        >>> k
        4
    """
    if isinstance(tck, BSpline):
        return tck.antiderivative(n)
    return BSpline.construct_fast(*_tck("splantider", tck)).antiderivative(n).tck
