"""L7. `scipy.interpolate`: splines of values on a sphere, by colatitudes and longitudes.

Knots and places are plain, and coefficients are linear in the values: SciPy's own code makes the
matrix once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand
from fgrad.ops import checked
from fgrad.scipy.interpolate.common import (
    doubles,
    fixed,
    plain,
    real_places,
    unfit,
    untraceable,
)
from fgrad.scipy.interpolate.tensors import BivariateSpline
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree

_WHY = "SciPy's own code makes the matrix of the fit."


class _Sphere(BivariateSpline):
    """A spline on a sphere."""

    _bounded = False  # whether longitudes are from 0 to 2 pi

    def _fitted(self, values: Value, fit: Callable[[np.ndarray], PyTree]) -> None:
        """Coefficients, affine in the values, of SciPy's fits to values that are one at a place."""
        base = fit(np.zeros(values.shape))
        zero = np.asarray(base.tck[2])
        units = np.reshape(np.eye(values.size), (values.size, *values.shape))
        matrix = np.stack([np.asarray(fit(unit).tck[2]) - zero for unit in units], axis=1)
        (tx, ty), (kx, ky) = base.tck[:2], base.degrees
        c = zero + matrix @ np.ravel(values)
        self._take(((tx, ty), np.reshape(c, (len(tx) - kx - 1, len(ty) - ky - 1)), (kx, ky)))

    def __call__(
        self,
        theta: ArrayLike,
        phi: ArrayLike,
        dtheta: int = 0,
        dphi: int = 0,
        grid: bool = True,
    ) -> Value:
        """The values, or derivatives of orders dtheta and dphi.

        Arguments:
            theta, phi: the lines of a grid, which ascend, or coordinates, which broadcast.
            dtheta, dphi: the orders.
            grid: which of them.
        """
        if self._is_plain(theta, phi):
            return self._plain(theta, phi, dtheta, dphi, grid)
        colatitudes, longitudes = real_places(theta), real_places(phi)
        self._inside("theta", colatitudes, 0.0, math.pi)
        if self._bounded:
            self._inside("phi", longitudes, 0.0, 2 * math.pi)
        return super().__call__(colatitudes, longitudes, dtheta, dphi, grid)

    def _inside(self, name: str, x: Value, low: float, high: float) -> None:
        inside = np.all((x >= low) & (x <= high))
        value = concrete(inside)
        if value is None:
            error = ValueError(f"requested {name} out of bounds.")
            checked.require(inside, checked.text_of(error))
        elif not value:
            raise unfit(type(self).__name__, f"{name} out of bounds", f"{low} <= {name} <= {high}")

    def ev(self, theta: ArrayLike, phi: ArrayLike, dtheta: int = 0, dphi: int = 0) -> Value:
        """The values at places, or derivatives of orders dtheta and dphi."""
        return self(theta, phi, dtheta, dphi, False)


class LSQSphereBivariateSpline(_Sphere):
    """The spline on a sphere of inner knots that is nearest to values at places.

    Arguments:
        theta, phi: the places, plain.
        r: the values.
        tt, tp: the inner knots of colatitudes and longitudes, plain.
        w, eps: as in SciPy, plain.

    Example:
        >>> theta, phi = [x.ravel() for x in np.meshgrid(np.arange(0.3, 3, 0.3), np.arange(6.0))]
        >>> f = LSQSphereBivariateSpline(theta, phi, 0 * phi + 2.0, [1.5], [2.0, 4.0])
        >>> f(1.0, 3.0).round(3)
        array([[2.]])
    """

    _bounded = True

    def __init__(
        self,
        theta: ArrayLike,
        phi: ArrayLike,
        r: ArrayLike,
        tt: ArrayLike,
        tp: ArrayLike,
        w: ArrayLike | None = None,
        eps: float = 1e-16,
    ) -> None:
        make = plain.LSQSphereBivariateSpline
        if self._made(make, theta, phi, r, tt, tp, w, eps):
            self._of_plain()
            return
        given = {"theta": theta, "phi": phi, "tt": tt, "tp": tp, "w": w}
        a, b, knots, more, weights = [
            None if v is None else fixed("LSQSphereBivariateSpline", n, v, _WHY, "a plain one")
            for n, v in given.items()
        ]
        self._fitted(doubles(r), lambda v: make(a, b, v, knots, more, weights, eps))


class RectSphereBivariateSpline(_Sphere):
    """The spline on a sphere through values on a grid.

    Arguments:
        u, v: the colatitudes and the longitudes of the grid, plain.
        r: the values (len(u), len(v)).
        s: how far from the values it may be; 0 for traced ones.
        pole_continuity, pole_values, pole_exact, pole_flat: as in SciPy, for plain values.

    Example:
        >>> u, v = np.arange(0.5, 3.0, 0.5), np.arange(0.0, 6.0)
        >>> RectSphereBivariateSpline(u, v, np.full((5, 6), 2.0))(1.2, 3.3).round(3)
        array([[2.]])
    """

    def __init__(
        self,
        u: ArrayLike,
        v: ArrayLike,
        r: ArrayLike,
        s: float = 0.0,
        pole_continuity: bool | tuple[bool, bool] = False,
        pole_values: float | Sequence[float | None] | None = None,
        pole_exact: bool | tuple[bool, bool] = False,
        pole_flat: bool | tuple[bool, bool] = False,
    ) -> None:
        make, name = plain.RectSphereBivariateSpline, "RectSphereBivariateSpline"
        settings = (pole_continuity, pole_values, pole_exact, pole_flat)
        values = pole_values if isinstance(pole_values, (tuple, list)) else (pole_values,)
        if not has_tracer(values) and self._made(make, u, v, r, s, *settings):
            self._of_plain()
            return
        if has_tracer((s,)) or s != 0:
            untraceable(name, f"traced values and s={s}", "the data decide the knots.", "s=0")
        plain_poles = pole_values is None and not any(
            [np.any(x) for x in (pole_continuity, pole_exact, pole_flat)]
        )
        if not plain_poles:
            why = "it is then not linear in the values."
            untraceable(name, "traced values and conditions at the poles", why, "no conditions")
        lines = [fixed(name, n, x, _WHY, "a plain one") for n, x in (("u", u), ("v", v))]
        self._fitted(doubles(as_operand(r)), lambda x: make(*lines, x))
