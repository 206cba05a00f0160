"""L7. Orthogonal polynomials and Legendre functions, with their derivatives in the place.

A degree that is an integer is evaluated by SciPy's recurrence, also where it comes as a float.
Slopes are those of DLMF 18.9(iii): a polynomial of one degree less and a parameter more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.ops.elementwise import cos, sin, sqrt
from fgrad.ops.special_functions import Function
from fgrad.scipy.special._table import (
    Slope,
    divided,
    is_zero,
    of_degree,
    special,
    tabulated,
    where,
    whole,
)
from fgrad.trace import Value
from fgrad.typing import Array

DEGREE = "its degree n"


def _polynomial(name: str, reals: int, *slopes: Slope) -> Function:
    """A polynomial of any degree, with parameters before its place."""
    *fixed, formula = slopes
    assert callable(formula)

    def slope(n: Value, *xs: Value) -> Value:
        return where(is_zero(n), 0, formula(n, *xs))

    evaluate = of_degree(name, 0, reals)
    return tabulated(f"{name}_at", *fixed, slope, evaluate=evaluate, accepts="fc")


def _counted(name: str, slope: Slope) -> Function:
    """A polynomial that SciPy has of integer degrees alone."""
    return tabulated(f"{name}_at", None, slope, evaluate=of_degree(name))


def _parameter(n: Value, value: float) -> Value:
    """A number with the shape and dtype of n."""
    return n * 0 + value


eval_jacobi = _polynomial(
    "eval_jacobi", 2, DEGREE, "alpha", "beta",
    lambda n, a, b, x, out: (n + a + b + 1) / 2 * eval_jacobi(n - 1, a + 1, b + 1, x),
)  # fmt: skip
eval_sh_jacobi = _polynomial(
    "eval_sh_jacobi", 2, DEGREE, "p", "q",
    lambda n, p, q, x, out: n * eval_sh_jacobi(n - 1, p + 2, q + 1, x),
)  # fmt: skip
eval_gegenbauer = _polynomial(
    "eval_gegenbauer", 1, DEGREE, "alpha",
    lambda n, a, x, out: 2 * a * eval_gegenbauer(n - 1, a + 1, x),
)  # fmt: skip
eval_genlaguerre = _polynomial(
    "eval_genlaguerre", 1, DEGREE, "alpha",
    lambda n, a, x, out: -eval_genlaguerre(n - 1, a + 1, x),
)  # fmt: skip
eval_laguerre = _polynomial(
    "eval_laguerre", 0, DEGREE, lambda n, x, out: -eval_genlaguerre(n - 1, _parameter(n, 1.0), x)
)


def _legendre_slope(n: Value, x: Value) -> Value:
    """C^(3/2)_(n-1), where P_(-n-1) is P_n."""
    return eval_gegenbauer(where(n < 0, -n - 1, n) - 1, _parameter(n, 1.5), x)


def _second_slope(n: Value, x: Value) -> Value:
    """2 C^(2)_(n-1), where U_(-n-2) is -U_n."""
    low = n < -1
    slope = 2 * eval_gegenbauer(where(low, -n - 2, n) - 1, _parameter(n, 2.0), x)
    return where(low, -slope, slope)


eval_legendre = _polynomial("eval_legendre", 0, DEGREE, lambda n, x, out: _legendre_slope(n, x))
eval_sh_legendre = _polynomial(
    "eval_sh_legendre", 0, DEGREE, lambda n, x, out: 2 * _legendre_slope(n, 2 * x - 1)
)
eval_chebyt = _polynomial("eval_chebyt", 0, DEGREE, lambda n, x, out: n * eval_chebyu(n - 1, x))
eval_chebyu = _polynomial("eval_chebyu", 0, DEGREE, lambda n, x, out: _second_slope(n, x))
eval_chebyc = _polynomial("eval_chebyc", 0, DEGREE, lambda n, x, out: n * eval_chebyu(n - 1, x / 2))
eval_chebys = _polynomial("eval_chebys", 0, DEGREE, lambda n, x, out: _second_slope(n, x / 2) / 2)
eval_sh_chebyt = _polynomial(
    "eval_sh_chebyt", 0, DEGREE, lambda n, x, out: 2 * n * eval_chebyu(n - 1, 2 * x - 1)
)
eval_sh_chebyu = _polynomial(
    "eval_sh_chebyu", 0, DEGREE, lambda n, x, out: 2 * _second_slope(n, 2 * x - 1)
)


def _before(n: Value) -> Value:
    """n - 1, and 0 for 0."""
    return where(is_zero(n), 0, n - 1)


eval_hermite = _counted("eval_hermite", lambda n, x, out: 2 * n * eval_hermite(_before(n), x))
eval_hermitenorm = _counted(
    "eval_hermitenorm", lambda n, x, out: n * eval_hermitenorm(_before(n), x)
)


# --- sin(n x / 2) / (n sin(x / 2)) = U_(n-1)(cos(x / 2)) / n --------------------------------------


def _diric_slope(x: Value, n: Value, out: Value) -> Value:
    inner = eval_gegenbauer(n - 2, _parameter(n, 2.0), cos(x / 2))
    return -sin(x / 2) * inner / where(is_zero(n), 1, n)


diric = tabulated("diric", _diric_slope, None, evaluate=lambda x, n: special.diric(x, n))


# --- Legendre functions: (1 - z^2) w'' = 2 z w' - (n (n + 1) - m^2 / (1 - z^2)) w (DLMF 14.2.2) ---


def _lpmv_slope(m: Value, v: Value, x: Value, out: Value) -> Value:
    """(v x P_v - (v + m) P_(v-1)) / (x^2 - 1) (DLMF 14.10.5); v (v + 1) / 2 at 1 for m = 0."""
    end = is_zero(m) & (x * x == 1)
    at_end = where(x > 0, 1, where(is_zero(v % 2), -1, v - v + 1)) * v * (v + 1) / 2
    below = where(is_zero(v + m), 0, (v + m) * lpmv(m, v - 1, x))
    inside = (v * x * out - below) / (x * x - 1)
    return where(end, at_end, inside)


lpmv = tabulated("lpmv", None, DEGREE, _lpmv_slope)


def _of_counts(function: Callable[..., Array], counts: int) -> Callable[..., Array]:
    """A function whose first operands are given to SciPy as integers."""

    def evaluate(*xs: Array) -> Array:
        return function(*[whole(x) for x in xs[:counts]], *xs[counts:])

    return evaluate


def _legendre_orders(cut: int, normal: bool) -> list[Function]:
    """P_n^m(z) on a side of the cut, and its first two derivatives.

    The third, of the equation, is (4 z w2 + (2 - n (n + 1) + q) w1 + 2 z q w / (1 - z^2)) /
    (1 - z^2), where q is m^2 / (1 - z^2).
    """
    settings = {"branch_cut": cut, "norm": normal}
    label = f"assoc_legendre_p_{cut}{'n' if normal else ''}"

    def derivative(k: int) -> Callable[..., Array]:
        def one(n: Array, m: Array, z: Array) -> Array:
            return special.assoc_legendre_p(n, m, z, diff_n=k, **settings)[k]

        return _of_counts(one, 2)

    def third(n: Value, m: Value, z: Value, out: Value) -> Value:
        rest = 1 - z * z
        q = m * m / rest
        inner = (2 - n * (n + 1) + q) * first(n, m, z) + 2 * z * q / rest * value(n, m, z)
        return (4 * z * out + inner) / rest

    def row(k: int, slope: Slope) -> Function:
        name = f"{label}_{k}"
        return tabulated(name, None, None, slope, evaluate=derivative(k), accepts="fc")

    second = row(2, third)
    first = row(1, lambda n, m, z, out: second(n, m, z))
    value = row(0, lambda n, m, z, out: first(n, m, z))
    return [value, first, second]


ASSOCIATED = {
    (cut, normal): _legendre_orders(cut, normal) for cut in (2, 3) for normal in (False, True)
}


def sph_legendre_slope(n: Value, m: Value, theta: Value, order: int = 1) -> Value:
    """dP/dtheta = (sqrt((n - m)(n + m + 1)) P^(m+1) - sqrt((n + m)(n - m + 1)) P^(m-1)) / 2,
    times the sign of sin(theta), as P is that of |sin(theta)|; a derivative of any order."""
    if order == 0:
        return sph_legendre_p(n, m, theta)
    above, below = (n - m) * (n + m + 1), (n + m) * (n - m + 1)
    up = sqrt(where(above > 0, above, above * 0)) * sph_legendre_slope(n, m + 1, theta, order - 1)
    down = sqrt(where(below > 0, below, below * 0)) * sph_legendre_slope(n, m - 1, theta, order - 1)
    return (up - down) * where(sin(theta) < 0, -0.5, theta * 0 + 0.5)


sph_legendre_p = tabulated(
    "sph_legendre_p_at", None, None, lambda n, m, theta, out: sph_legendre_slope(n, m, theta),
    evaluate=_of_counts(lambda n, m, theta: special.sph_legendre_p(n, m, theta)[0], 2),
)  # fmt: skip


# --- Legendre functions of the second kind, by the sequences that SciPy makes ---------------------


def _second_kind(k: int) -> Callable[..., Array]:
    """The k-th result of lqmn for elements of (m, n, z)."""

    def one(m: float, n: float, z: complex) -> complex:
        return special.lqmn(max(int(m), 1), max(int(n), 1), z)[k][int(m), int(n)]

    def evaluate(m: Array, n: Array, z: Array) -> Array:
        dtype = np.result_type(np.asarray(z), np.float64)
        return np.vectorize(one, otypes=[dtype])(np.real(m), np.real(n), z)

    return evaluate


def _bend(m: Value, n: Value, z: Value, out: Value) -> Value:
    rest = 1 - z * z
    return divided(2 * z * out - (n * (n + 1) - m * m / rest) * lqmn(m, n, z), rest)


lqmn = tabulated("lqmn_at", None, None, lambda m, n, z, out: lqmn_slope(m, n, z),
                 evaluate=_second_kind(0), accepts="fc")  # fmt: skip
lqmn_slope = tabulated("lqmn_slope", None, None, _bend, evaluate=_second_kind(1), accepts="fc")
