"""L7. Functions that solve an equation of second order: Mathieu, spheroidal, parabolic cylinder.

SciPy gives each with its slope, (y, y'); the slope of y' follows by the equation, so that both have
derivatives of any order in the place.  The slope of a characteristic value in its parameter is a
mean over its function (Hellmann and Feynman).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.ops.elementwise import cos, cosh
from fgrad.ops.special_functions import Function
from fgrad.scipy.special._table import Slope, guarded, outputs, tabulated
from fgrad.trace import Value
from fgrad.typing import Array

Bend = Callable[..., Value]  # y'' by the operands, y and y'


def _solution(name: str, bend: Bend, *fixed: str | None, scale: float = 1.0) -> list[Function]:
    """(y, y') of an equation; y' is by the place in units of `scale`.

    Arguments:
        name: the name in `scipy.special`.
        bend: y'' of (operands, y, y').
        fixed: for each operand before the place None, for a count, or its name in a card.
        scale: what a unit of the place is of the unit that SciPy differentiates by.
    """

    def slope(*xs: Value) -> Value:
        return pair[1](*xs[:-1]) * scale

    def second(*xs: Value) -> Value:
        return bend(*xs[:-1], pair[0](*xs[:-1]), xs[-1]) * scale

    first_row: list[Slope] = [*fixed, slope]
    second_row: list[Slope] = [*fixed, second]
    pair = outputs(name, ("value", "slope"), [first_row, second_row], evaluate=guarded(name))
    return pair


# --- parabolic cylinder functions (DLMF 12.2) -----------------------------------------------------

pbdv = _solution("pbdv", lambda v, x, y, dy: (x * x / 4 - v - 0.5) * y, "its order v")
pbvv = _solution("pbvv", lambda v, x, y, dy: (x * x / 4 - v - 0.5) * y, "its order v")
pbwa = _solution("pbwa", lambda a, x, y, dy: (a - x * x / 4) * y, "a")


# --- Mathieu functions (DLMF 28.2.1, 28.20.1); the angles are in degrees --------------------------

_DEGREE = math.pi / 180


def _mean_cosine(name: str) -> Callable[..., Array]:
    """2 <cos 2t> over the square of a periodic function: da/dq."""

    def evaluate(m: Array, q: Array) -> Array:
        counts = np.abs(np.nan_to_num(m)).max(initial=0) + np.sqrt(np.abs(np.nan_to_num(q))).max(
            initial=0
        )
        nodes = 64 + 4 * int(min(counts, 1000))
        above, below = np.zeros(np.shape(q)), np.zeros(np.shape(q))
        for k in range(nodes):
            square = guarded(name)(m, q, 360 * k / nodes)[0] ** 2
            above = above + 2 * math.cos(4 * math.pi * k / nodes) * square
            below = below + square
        return above / below

    return evaluate


mathieu_a_slope = tabulated("mathieu_a_slope", None, "q", evaluate=_mean_cosine("mathieu_cem"))
mathieu_b_slope = tabulated("mathieu_b_slope", None, "q", evaluate=_mean_cosine("mathieu_sem"))
mathieu_a = tabulated(
    "mathieu_a_at", None, lambda m, q, out: mathieu_a_slope(m, q), evaluate=guarded("mathieu_a")
)
mathieu_b = tabulated(
    "mathieu_b_at", None, lambda m, q, out: mathieu_b_slope(m, q), evaluate=guarded("mathieu_b")
)


def _angular(name: str, value: Function) -> list[Function]:
    def bend(m: Value, q: Value, x: Value, y: Value, dy: Value) -> Value:
        return (2 * q * cos(x * (2 * _DEGREE)) - value(m, q)) * y

    return _solution(name, bend, None, "q", scale=_DEGREE)


def _radial(name: str, value: Function) -> list[Function]:
    def bend(m: Value, q: Value, x: Value, y: Value, dy: Value) -> Value:
        return (value(m, q) - 2 * q * cosh(2 * x)) * y

    return _solution(name, bend, None, "q")


mathieu_cem = _angular("mathieu_cem", mathieu_a)
mathieu_sem = _angular("mathieu_sem", mathieu_b)
mathieu_modcem1 = _radial("mathieu_modcem1", mathieu_a)
mathieu_modcem2 = _radial("mathieu_modcem2", mathieu_a)
mathieu_modsem1 = _radial("mathieu_modsem1", mathieu_b)
mathieu_modsem2 = _radial("mathieu_modsem2", mathieu_b)


# --- spheroidal wave functions (DLMF 30.2.1); oblate ones have -c^2 for c^2 -----------------------


def _mean_square(name: str, sign: int) -> Callable[..., Array]:
    """sign 2 c <x^2> over the square of the angular function on [-1, 1]: the slope in c."""

    def evaluate(m: Array, n: Array, c: Array) -> Array:
        most = np.nan_to_num(n).max(initial=0) + np.abs(np.nan_to_num(c)).max(initial=0)
        places, weights = np.polynomial.legendre.leggauss(48 + 2 * int(min(most, 500)))
        above, below = np.zeros(np.shape(c)), np.zeros(np.shape(c))
        for x, w in zip(places, weights, strict=True):
            square = w * guarded(name)(m, n, c, x)[0] ** 2
            above, below = above + square * x * x, below + square
        return sign * 2 * c * above / below

    return evaluate


pro_cv_slope = tabulated("pro_cv_slope", None, None, "c", evaluate=_mean_square("pro_ang1", 1))
obl_cv_slope = tabulated("obl_cv_slope", None, None, "c", evaluate=_mean_square("obl_ang1", -1))
pro_cv = tabulated(
    "pro_cv_at", None, None, lambda m, n, c, out: pro_cv_slope(m, n, c), evaluate=guarded("pro_cv")
)
obl_cv = tabulated(
    "obl_cv_at", None, None, lambda m, n, c, out: obl_cv_slope(m, n, c), evaluate=guarded("obl_cv")
)


def _spheroidal(kind: str, parity: int, sign: int, by_value: bool) -> list[Function]:
    """(1 - s x^2) y'' = 2 s x y' - (L - p c^2 x^2 - s m^2 / (1 - s x^2)) y.

    Here s is 1, and -1 for oblate radial functions, where the equation for y of x is that of the
    angular function at i x; p is 1 for prolate functions and -1 for oblate ones.
    """
    name = f"{'pro' if parity == 1 else 'obl'}_{kind}{'_cv' if by_value else ''}"
    value = pro_cv if parity == 1 else obl_cv

    def bend(m: Value, n: Value, c: Value, *rest: Value) -> Value:
        *known, x, y, dy = rest
        level = known[0] if by_value else value(m, n, c)
        inside = 1 - sign * x * x
        inner = level - sign * parity * c * c * x * x - m * m / inside
        return (2 * sign * x * dy - sign * inner * y) / inside

    return _solution(name, bend, None, None, "c", *(["cv"] if by_value else []))


SPHEROIDAL = {
    f"{shape}_{kind}{'_cv' if by_value else ''}": _spheroidal(
        kind, parity, -1 if (shape, kind[:3]) == ("obl", "rad") else 1, by_value
    )
    for shape, parity in (("pro", 1), ("obl", -1))
    for kind in ("ang1", "rad1")
    for by_value in (False, True)
}  # of the second kind SciPy's slopes are not those of its values (m = 1, and oblate ones)
