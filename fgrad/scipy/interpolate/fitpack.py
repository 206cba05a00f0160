"""L7. `scipy.interpolate`: further functions of FITPACK on splines (t, c, k), and curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._host import implicit
from fgrad.scipy.interpolate.common import (
    doubles,
    fixed,
    of_data,
    plain,
    real_places,
    unfit,
    untraceable,
)
from fgrad.scipy.interpolate.splines import (
    BSpline,
    Tck,
    _not_a_knot,
    evaluated,
    make_interp_spline,
    of_spline,
    of_spline_data,
)
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree


def _is_curve(c: PyTree) -> bool:
    """Whether coefficients are those of the coordinates of a curve."""
    return len(as_operand(c[0]).shape) > 0


@of_spline
def insert(x: float, tck: PyTree, m: int = 1, per: int | bool = 0) -> PyTree:
    """The same spline with a knot x, plain, m times more.

    Example:
        >>> t, c, k = insert(0.5, (np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 2.0]), 1))
        >>> c[:3]
        array([0., 1., 2.])
    """
    if isinstance(tck, BSpline):
        t, c, k = tck.tck
        made = insert(x, (t, c, k), m, per) if len(c.shape) == 1 else None
        if made is None:
            untraceable("insert", "a spline of several values", "it has no traced form.", "one")
        return BSpline(*made, extrapolate=tck.extrapolate)  # type: ignore[misc]
    t, c, k = tck
    place, knots = [
        fixed("insert", n, v, "they decide the matrix.", "plain ones")
        for n, v in (("x", x), ("knots", t))
    ]
    if _is_curve(c):
        rows = [insert(place, (knots, row, k), m, per) for row in c]
        return rows[0][0], [row for _, row, _ in rows], k
    if per:
        untraceable("insert", "per", "it has no traced form.", "insert(x, tck)")
    values = doubles(c)
    n = knots.shape[0] - k - 1
    made = [plain.insert(place, (knots, row, k), m) for row in np.eye(n)]
    matrix = np.stack([row[: n + m] for _, row, _ in made], axis=1)  # FITPACK leaves the rest unset
    return made[0][0], np.concatenate([matrix @ values[:n], np.zeros(k + 1)]), k


@of_spline
def spalde(x: ArrayLike, tck: PyTree) -> PyTree:
    """The value and all derivatives of a spline (t, c, k) at places: an array for one place, a list
    of them for several.

    Example:
        >>> spalde(0.5, (np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 2.0]), 1))
        array([1., 2.])
    """
    t, c, k = tck.tck if isinstance(tck, BSpline) else tck
    if _is_curve(c):
        return [spalde(x, (t, row, k)) for row in c]
    places, knots = real_places(x), real_places(t)
    values = doubles(c)[: knots.shape[0] - k - 1]
    found = [evaluated((knots, values, k), places, nu) for nu in range(k + 1)]
    table = np.stack(found, axis=-1)
    if not places.shape or places.size == 1:
        return np.reshape(table, (k + 1,))
    return [table[i] for i in range(places.shape[0])]


@of_spline
def sproot(tck: PyTree, mest: int = 10) -> Value:
    """The zeros of a cubic spline (t, c, k); how many there are must be known while tracing.

    Example:
        >>> t = np.array([0.0, 0, 0, 0, 1, 1, 1, 1])
        >>> sproot((t, np.array([-1.0, 0.0, 0.5, 1.0]), 3)).round(4)
        array([0.4039])
    """
    t, c, k = tck.tck if isinstance(tck, BSpline) else tck
    if k != 3:
        raise ValueError("sproot works only for cubic (k=3) splines")
    if _is_curve(c):
        return [sproot((t, row, k), mest) for row in c]  # type: ignore[return-value]
    knots, values = real_places(t), doubles(c)
    numbers = concrete(knots), concrete(values)
    if numbers[0] is None or numbers[1] is None:
        why = "how many zeros there are is not known yet."
        untraceable("sproot", "unknown coefficients under jit or vmap", why, "sproot outside")
    roots = plain.sproot((np.asarray(numbers[0]), np.asarray(numbers[1]), k), mest)
    if not len(roots):
        return roots
    whole: Tck = knots, values[: knots.shape[0] - k - 1], k
    return implicit(lambda x: evaluated(whole, x), stop_gradient(np.asarray(roots)))


# --- curves -------------------------------------------------------------------------------------


def _along(points: Value) -> Value:
    """Where the points of a curve (axes, n) lie on it, from 0 to 1, by their distances."""
    steps = points[:, 1:] - points[:, :-1]
    sums = np.cumsum(np.sqrt(np.sum(steps * steps, axis=0)))
    return np.concatenate([np.zeros(1), sums / sums[-1]])


def _curve(name: str, x: PyTree, u: ArrayLike | None) -> tuple[Value, Value]:
    points = np.stack([real_places(row) for row in x])
    if len(points.shape) != 2:
        raise ShapeError(f"scipy.interpolate.{name}: points {points.shape}.", user_line())
    return points, _along(points) if u is None else real_places(u)


@of_data
def splprep(
    x: Sequence[ArrayLike], w: ArrayLike | None = None, u: ArrayLike | None = None,
    ub: float | None = None, ue: float | None = None, k: int = 3, task: int = 0,
    s: float | None = None, t: ArrayLike | None = None, full_output: int = 0,
    nest: int | None = None, per: int = 0, quiet: int = 1,
) -> tuple[PyTree, Value]:  # fmt: skip
    """The spline (t, [c of each coordinate], k) of a curve, and where its points lie on it.

    Arguments:
        x: the coordinates of the points.
        u: where they lie; by their distances if None.
        k: the degree.
        s: 0, for traced points.
        others: of SciPy's smoothing.

    Example:
        >>> tck, u = splprep([np.arange(5.0), np.arange(5.0)], s=0)
        >>> u
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if has_tracer((s,)) or s != 0:
        why = "the data decide the knots."
        untraceable("splprep", f"traced points and s={s}", why, "s=0")
    given = {"w": w, "ub": ub, "ue": ue, "t": t, "task": task or None, "per": per or None}
    given["full_output"] = full_output or None
    for option, value in given.items():
        if value is not None:
            untraceable("splprep", option, "it has no traced form.", "splprep(x, u=u, s=0)")
    points, places = _curve("splprep", x, u)
    n = points.shape[1]
    if not 1 <= k <= 5 or n <= k:
        raise TypeError(f"{n} points of a spline of degree {k}: m > k must hold, 1 <= k <= 5")
    knots = _not_a_knot(places, k)
    matrix = evaluated((knots, np.eye(n), k), places)
    c = np.linalg.solve(matrix, np.transpose(points))
    return [knots, [c[:, i] for i in range(c.shape[1])], k], places


def _interpolates(name: str, s: float, given: dict[str, object]) -> None:
    if has_tracer((s,)) or s != 0:
        untraceable(name, f"traced data and s={s}", "the data decide the knots.", "s=0")
    if any([v is not None for v in given.values()]):
        raise unfit(name, "w, t or nest for s=0", f"{name}(..., s=0)")


@of_spline_data
def make_splrep(
    x: ArrayLike, y: ArrayLike, *, w: ArrayLike | None = None, xb: float | None = None,
    xe: float | None = None, k: int = 3, s: float = 0, t: ArrayLike | None = None,
    nest: int | None = None, bc_type: PyTree = None,
) -> BSpline:  # fmt: skip
    """The spline through values, for s = 0; others have knots that depend on the values.

    Example:
        >>> float(make_splrep(np.arange(5.0), np.arange(5.0))(1.5).round(9))
        1.5
    """
    _interpolates("make_splrep", s, {"w": w, "xb": xb, "xe": xe, "t": t, "nest": nest})
    if bc_type is not None:
        untraceable("make_splrep", f"bc_type={bc_type!r}", "it has none.", "make_interp_spline")
    return make_interp_spline(x, y, k)


@of_data
def make_splprep(
    x: Sequence[ArrayLike], *, w: ArrayLike | None = None, u: ArrayLike | None = None,
    ub: float | None = None, ue: float | None = None, k: int = 3, s: float = 0,
    t: ArrayLike | None = None, nest: int | None = None, bc_type: PyTree = None,
) -> tuple[BSpline, Value]:  # fmt: skip
    """The spline of a curve through points, for s = 0, and where they lie on it; see `splprep`.

    Example:
        >>> made, u = make_splprep([np.arange(5.0), np.arange(5.0)])
        >>> made(0.5).round(9)
        array([2., 2.])
    """
    _interpolates("make_splprep", s, {"w": w, "ub": ub, "ue": ue, "t": t, "nest": nest})
    if bc_type is not None:
        untraceable("make_splprep", f"bc_type={bc_type!r}", "it has none.", "make_interp_spline")
    points, places = _curve("make_splprep", x, u)
    return make_interp_spline(places, points, k, axis=1), places
