"""L7. `scipy.interpolate`: FITPACK's splines as objects, and `interp1d`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, convert, inexact
from fgrad.ops import checked
from fgrad.scipy.interpolate.common import (
    Interpolant,
    along,
    doubles,
    fixed,
    plain,
    real_places,
    shaped,
    table,
    taken,
    unfit,
    untraceable,
)
from fgrad.scipy.interpolate.splines import (
    BSpline,
    Tck,
    evaluated,
    linear_fit,
    make_interp_spline,
    splint,
)
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

_ENDS = {0: 0, 1: 1, 2: 2, 3: 3, "extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


class UnivariateSpline(Interpolant):
    """A spline near to values; through them if s is 0, which traced values need.

    Arguments:
        x, y: places, plain, and values.
        w, bbox, k, check_finite: as in SciPy.
        s: how far from the values it may be; 0 for traced ones.
        ext: outside 0 goes on, 1 is zero, 2 raises, 3 is the value at the end.

    Example:
        >>> float(UnivariateSpline(np.arange(5.0), np.arange(5.0), s=0)(1.5).round(9))
        1.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        s: float | None = None,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        name = type(self).__name__
        if self._made(plain.UnivariateSpline, x, y, w, list(bbox), k, s, ext, check_finite):
            self._set(self._plain._eval_args, ext)
            return
        if s != 0:
            why, write = "the data decide the knots.", "s=0    or make_smoothing_spline(lam=...)"
            untraceable(name, f"traced values and s={s}", why, write)

        def fit(where: np.ndarray, row: np.ndarray, weights: PyTree) -> Tck:
            made = plain.UnivariateSpline(where, row, weights, list(bbox), k, 0, ext)
            return made._eval_args

        self._fitted(name, x, y, w, fit, ext)

    def _fitted(
        self, name: str, x: ArrayLike, y: ArrayLike, w: ArrayLike | None,
        fit: Callable[..., Tck], ext: int | str,
    ) -> None:  # fmt: skip
        why = "SciPy's own code makes the matrix of the fit."
        where = fixed(name, "places", x, why, "CubicSpline(x, y)")
        weights = None if w is None else fixed(name, "weights", w, why, "plain weights")
        _, values, _ = table(name, where, y, 0)
        self._set(linear_fit(lambda row: fit(where, row, weights), values), ext)

    def _set(self, tck: Tck, ext: int | str) -> None:
        t, c, k = tck
        self._tck = t, c[: t.shape[0] - k - 1], k
        self.ext = _ENDS[ext]

    def __call__(self, x: ArrayLike, nu: int = 0, ext: int | str | None = None) -> Value:
        """The values at places, or the derivatives of an order.

        Arguments:
            x: the places.
            nu: the order.
            ext: as in the class.
        """
        if self._is_plain(x):
            return self._plain(x, nu, ext)
        if self._plain is not None:  # whose smoothing factor may have changed
            self._set(self._plain._eval_args, self.ext)
        t, c, k = self._tck
        places, beyond = real_places(x), self.ext if ext is None else _ENDS[ext]
        low, high = t[k], t[c.shape[0]]
        outside = (places < low) | (places > high)
        if beyond == 2:
            checked.require(np.all(~outside), checked.text_of(ValueError("x is out of bounds")))
        inside = np.clip(places, low, high) if beyond == 3 and not nu else places  # as FITPACK
        found = evaluated(self._tck, inside, nu)
        return np.where(outside, 0.0, found) if beyond == 1 else found

    def derivatives(self, x: ArrayLike) -> Value:
        """The value and all derivatives at one place."""
        return np.stack([self(x, nu) for nu in range(self._tck[2] + 1)])

    def integral(self, a: ArrayLike, b: ArrayLike) -> Value:
        """The integral from a to b, of zero outside of the knots."""
        return splint(a, b, self._tck)

    def _of_tck(self, tck: Tck, ext: int, own: PyTree) -> UnivariateSpline:
        """A spline of knots, coefficients and degree; `own` is SciPy's, if data are plain."""
        made = UnivariateSpline.__new__(UnivariateSpline)
        made._plain = own
        made._set(tck if own is None else own._eval_args, ext)
        return made

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """The derivative of an order, as a spline; zero outside where the spline is constant."""
        own = None if self._plain is None else self._plain.derivative(n)
        found = BSpline.construct_fast(*self._tck).derivative(n)
        return self._of_tck(found.tck, 1 if self.ext == 3 else self.ext, own)

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """The integral from the first knot on, as a spline."""
        own = None if self._plain is None else self._plain.antiderivative(n)
        found = BSpline.construct_fast(*self._tck).antiderivative(n)
        return self._of_tck(found.tck, self.ext, own)

    def get_coeffs(self) -> Value:
        """The coefficients."""
        return self._tck[1]

    def get_knots(self) -> Value:
        """The knots, each once."""
        t, _, k = self._tck
        return t[k : t.shape[0] - k]


class InterpolatedUnivariateSpline(UnivariateSpline):
    """A spline through values; arguments are those of `UnivariateSpline`.

    Example:
        >>> float(InterpolatedUnivariateSpline(np.arange(5.0), np.arange(5.0))(1.5).round(9))
        1.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        made = plain.InterpolatedUnivariateSpline
        if self._made(made, x, y, w, list(bbox), k, ext, check_finite):
            self._set(self._plain._eval_args, ext)
            return

        def fit(where: np.ndarray, row: np.ndarray, weights: PyTree) -> Tck:
            return made(where, row, weights, list(bbox), k, ext)._eval_args

        self._fitted("InterpolatedUnivariateSpline", x, y, w, fit, ext)


class LSQUnivariateSpline(UnivariateSpline):
    """The spline of inner knots t, plain, nearest to values; else as `UnivariateSpline`.

    Example:
        >>> x = np.arange(6.0)
        >>> float(LSQUnivariateSpline(x, x, [2.5])(1.5).round(9))
        1.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        t: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        made = plain.LSQUnivariateSpline
        if self._made(made, x, y, t, w, list(bbox), k, ext, check_finite):
            self._set(self._plain._eval_args, ext)
            return
        why = "SciPy's own code makes the matrix of the fit."
        knots = fixed("LSQUnivariateSpline", "knots", t, why, "plain knots")

        def fit(where: np.ndarray, row: np.ndarray, weights: PyTree) -> Tck:
            return made(where, row, knots, weights, list(bbox), k, ext)._eval_args

        self._fitted("LSQUnivariateSpline", x, y, w, fit, ext)


# --- lines and steps ----------------------------------------------------------------------------

_DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3}
_KINDS = ("linear", "nearest", "nearest-up", "previous", "next")


class interp1d(Interpolant):
    """Values between places of one axis.

    Arguments:
        x: the places.
        y, axis: the values, and their axis.
        kind: "linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic",
            "cubic", or the degree of a spline.
        copy: nothing here.
        bounds_error: whether places outside raise; if None, where fill_value is not given.
        fill_value: what they get if not: a value, one for each side, or "extrapolate".
        assume_sorted: whether the places ascend.

    Example:
        >>> float(interp1d([0.0, 1.0, 2.0], [0.0, 1.0, 4.0])(1.5))
        2.5
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kind: str | int = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: PyTree = math.nan,
        assume_sorted: bool = False,
    ) -> None:
        self.kind, self.fill_value = kind, fill_value
        if self._made(
            plain.interp1d, x, y, kind, axis, copy, bounds_error, fill_value, assume_sorted
        ):
            self.bounds_error = self._plain.bounds_error
        else:
            goes_on = isinstance(fill_value, str)
            default = not goes_on and np.ndim(fill_value) == 0 and fill_value is math.nan
            default = default or (isinstance(fill_value, float) and math.isnan(fill_value))
            self.bounds_error = default if bounds_error is None else bounds_error
        self._prepared(functools.partial(self._sort, x, y, axis, assume_sorted))

    def _sort(self, x: ArrayLike, y: ArrayLike, axis: int, assume_sorted: bool) -> None:
        kind = self.kind
        places, values = real_places(x), doubles(y)
        if not assume_sorted:
            order = np.argsort(places, kind="stable")
            places, values = taken(places, order), moveaxis(values, axis, 0)
            values = moveaxis(taken(values, order), 0, axis)
        self.x, self.y, self.axis = table("interp1d", places, values, axis)
        self._kind = self.y.dtype
        if kind in ("nearest", "nearest-up", "previous", "next", "zero"):
            self._kind = inexact(as_operand(y)).dtype
        degree = _DEGREES.get(kind) if isinstance(kind, str) else int(kind)
        if degree is None and kind not in _KINDS:
            raise unfit("interp1d", f"kind={kind!r}", 'kind="linear" or kind="cubic"')
        self._degree = degree
        self._spline = None
        if degree is not None and degree > 1:
            self._spline = make_interp_spline(self.x, self.y, degree)

    def __call__(self, x: ArrayLike) -> Value:
        """The values at places."""
        if self._is_plain(x):
            return self._plain(x)
        self._ready()
        places = real_places(x)
        flat = np.ravel(places)
        if self._spline is not None:
            found = self._spline(flat)
        else:
            found = convert(self._steps(flat), self._kind)
        low, high = flat < self.x[0], flat > self.x[-1]
        if not isinstance(self.fill_value, str):
            if self.bounds_error:
                error = checked.text_of(ValueError("A value in x_new is outside of the range"))
                checked.require(np.all(~(low | high)), error)
            else:
                pair = isinstance(self.fill_value, tuple) and len(self.fill_value) == 2
                below, above = self.fill_value if pair else (self.fill_value, self.fill_value)
                found = np.where(along(low, found), convert(as_operand(below), found.dtype), found)
                found = np.where(along(high, found), convert(as_operand(above), found.dtype), found)
        found = np.where(along(np.isnan(flat), found), found.dtype.type(math.nan), found)
        return shaped(found, places, self.axis)

    def _steps(self, x: Value) -> Value:
        """Lines between the places, or one of the values beside."""
        n = self.x.shape[0]
        if self.kind == "linear" or self._degree == 1:
            k = np.clip(np.searchsorted(self.x, x), 1, n - 1)
            low, high = taken(self.x, k - 1), taken(self.x, k)
            a, b = taken(self.y, k - 1), taken(self.y, k)
            return a + (b - a) * along((x - low) / (high - low), a)
        if self.kind in ("nearest", "nearest-up"):
            side = "left" if self.kind == "nearest" else "right"
            k = np.searchsorted((self.x[1:] + self.x[:-1]) / 2, x, side=side)
        elif self.kind == "next":
            k = np.searchsorted(self.x, x, side="left")
        else:
            k = np.searchsorted(self.x, x, side="right") - 1
        return taken(self.y, np.clip(k, 0, n - 1))
