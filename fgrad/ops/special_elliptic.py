"""L3. Complete elliptic integrals, with their derivatives (DLMF 19.4).

    K(m) = pi/2 sum c_n m^n,   E(m) = -pi/2 sum c_n m^n / (2 n - 1),   c_n = ((2n)! / 4^n n!^2)^2

Their derivatives are differences divided by m, which lose all digits for small m: there the series
is differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fgrad.ops.elementwise import abs_, add, div, lit, lt, mul, neg, select, sub
from fgrad.ops.special_functions import external
from fgrad.trace import Value

NEAR = 0.05
TERMS = 14  # NEAR ** 14 = 6e-19
_C = [(math.comb(2 * n, n) / 4**n) ** 2 for n in range(TERMS + 1)]
_K_SLOPE = [math.pi / 2 * n * _C[n] for n in range(1, TERMS + 1)]
_E_SLOPE = [-math.pi / 2 * n * _C[n] / (2 * n - 1) for n in range(1, TERMS + 1)]


def _near(m: Value, series: Sequence[float], far: Callable[[Value], Value]) -> Value:
    """A power series where |m| is small, and another formula elsewhere."""
    small = lt(abs_(m), lit(m, NEAR))
    x = select(small, m, lit(m, 0))
    total = lit(m, series[-1])
    for c in reversed(series[:-1]):
        total = add(mul(total, x), lit(m, c))
    return select(small, total, far(select(small, lit(m, 0.5), m)))


def _k_slope(m: Value) -> Value:
    """(E / (1 - m) - K) / 2 m."""
    one = lit(m, 1)
    return div(sub(div(ellipe(m), sub(one, m)), ellipk(m)), mul(m, lit(m, 2)))


def _e_slope(m: Value) -> Value:
    """(E - K) / 2 m."""
    return div(sub(ellipe(m), ellipk(m)), mul(m, lit(m, 2)))


def _km1_slope(p: Value) -> Value:
    """-K'(1 - p), without the cancellation of 1 - p for small p."""
    m = sub(lit(p, 1), p)
    here = select(lt(abs_(m), lit(m, NEAR)), lit(p, 0.5), p)

    def far(m: Value) -> Value:
        return div(sub(div(ellipe(m), here), ellipkm1(here)), mul(m, lit(m, 2)))

    return neg(_near(m, _K_SLOPE, far))


ellipk = external("ellipk", lambda t, m, out: mul(t, _near(m, _K_SLOPE, _k_slope)))
ellipe = external("ellipe", lambda t, m, out: mul(t, _near(m, _E_SLOPE, _e_slope)))
ellipkm1 = external("ellipkm1", lambda t, p, out: mul(t, _km1_slope(p)))
