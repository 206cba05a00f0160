"""L7. Functions of Bessel's family: scaled, spherical, Hankel, Kelvin, Airy, Struve, integrals.

Formulas are those of the Digital Library of Mathematical Functions (dlmf.nist.gov).  Functions of
complex operands that are scaled by an absolute value are not holomorphic: their derivative is
refused there.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.ops.complex import holomorphic_only
from fgrad.ops.elementwise import cosh, eq, lit, sinh, sqrt
from fgrad.ops.modified_bessel import i0
from fgrad.ops.special_functions import Function, j0, k0, y0
from fgrad.scipy.special._table import (
    by_order,
    divided,
    is_zero,
    outputs,
    special,
    tabulated,
    where,
    whole,
)
from fgrad.trace import Value
from fgrad.typing import Array

ORDER = "its order v"


def _below_above(f: Function, v: Value, x: Value) -> tuple[Value, Value]:
    return f(v - 1, x), f(v + 1, x)


def _half_difference(f: Function, v: Value, x: Value) -> Value:
    below, above = _below_above(f, v, x)
    return (below - above) / 2


def _scaled_slope(name: str, f: Function, v: Value, x: Value) -> Value:
    holomorphic_only(name, x)
    return _half_difference(f, v, x)


# --- Bessel and Hankel functions (DLMF 10.6.1) ----------------------------------------------------

jve = tabulated(
    "jve", ORDER, lambda v, x, out: _scaled_slope("jve", jve, v, x),
    evaluate=by_order("jve"), accepts="fc",
)  # fmt: skip
yve = tabulated(
    "yve", ORDER, lambda v, x, out: _scaled_slope("yve", yve, v, x),
    evaluate=by_order("yve"), accepts="fc",
)  # fmt: skip
hankel1 = tabulated(
    "hankel1", ORDER, lambda v, z, out: _half_difference(hankel1, v, z),
    evaluate=by_order("hankel1"), accepts="c",
)  # fmt: skip
hankel2 = tabulated(
    "hankel2", ORDER, lambda v, z, out: _half_difference(hankel2, v, z),
    evaluate=by_order("hankel2"), accepts="c",
)  # fmt: skip
hankel1e = tabulated(
    "hankel1e", ORDER, lambda v, z, out: _half_difference(hankel1e, v, z) - 1j * out,
    evaluate=by_order("hankel1e"), accepts="c",
)  # fmt: skip
hankel2e = tabulated(
    "hankel2e", ORDER, lambda v, z, out: _half_difference(hankel2e, v, z) + 1j * out,
    evaluate=by_order("hankel2e"), accepts="c",
)  # fmt: skip


# --- spherical (DLMF 10.51.2): (2n + 1) f_n' = n f_(n-1) - (n + 1) f_(n+1) ------------------------


def _spherical(name: str, below: int, above: int) -> tuple[Function, Function]:
    """The function of (n, z), and its slope."""

    def evaluate(n: Array, z: Array) -> Array:
        return getattr(special, name)(whole(n), z)

    def slope(n: Value, z: Value) -> Value:
        before = f(where(is_zero(n), 0, n - 1), z)
        return (below * n * before + above * (n + 1) * f(n + 1, z)) / (2 * n + 1)

    f = tabulated(name, None, lambda n, z, out: slope(n, z), evaluate=evaluate, accepts="fc")
    return f, slope


spherical_jn = _spherical("spherical_jn", 1, -1)
spherical_yn = _spherical("spherical_yn", 1, -1)
spherical_in = _spherical("spherical_in", 1, 1)
spherical_kn = _spherical("spherical_kn", -1, -1)


# --- Kelvin functions: w = ber + i bei has w'' = i w - w' / x (DLMF 10.61.3) ----------------------

ber = tabulated("ber", lambda x, out: berp(x))
bei = tabulated("bei", lambda x, out: beip(x))
ker = tabulated("ker", lambda x, out: kerp(x))
kei = tabulated("kei", lambda x, out: keip(x))
berp = tabulated("berp", lambda x, out: -bei(x) - divided(out, x))
beip = tabulated("beip", lambda x, out: ber(x) - divided(out, x, 0.5))
kerp = tabulated("kerp", lambda x, out: -kei(x) - out / x)
keip = tabulated("keip", lambda x, out: ker(x) - out / x)


# --- Airy functions: w'' = z w (DLMF 9.2.1) -------------------------------------------------------

airy = outputs(
    "airy",
    ("ai", "aip", "bi", "bip"),
    [
        [lambda z, out: airy[1](z)],
        [lambda z, out: z * airy[0](z)],
        [lambda z, out: airy[3](z)],
        [lambda z, out: z * airy[2](z)],
    ],
    accepts="fc",
)


def _root(z: Value) -> Value:
    """sqrt(z), and 0 for negative z, where airye is not scaled."""
    holomorphic_only("airye", z)
    return sqrt(where(z > 0, z, lit(z, 0)))


airye = outputs(
    "airye",
    ("ai", "aip", "bi", "bip"),
    [
        [lambda z, out: airye[1](z) + _root(z) * out],
        [lambda z, out: z * airye[0](z) + _root(z) * out],
        [lambda z, out: airye[3](z) - _root(z) * out],
        [lambda z, out: z * airye[2](z) - _root(z) * out],
    ],
    accepts="fc",
)
itairy = outputs(
    "itairy",
    ("ai", "bi", "ai_minus", "bi_minus"),
    [
        [lambda x, out: airy[0](x)],
        [lambda x, out: airy[2](x)],
        [lambda x, out: airy[0](-x)],
        [lambda x, out: airy[2](-x)],
    ],
)


# --- Struve functions (DLMF 11.4.27): f_v' = f_(v-1) - v f_v / x ----------------------------------


def _struve(name: str) -> Function:
    def slope(v: Value, x: Value, out: Value) -> Value:
        return f(v - 1, x) - v * divided(out, x)

    f = tabulated(name, ORDER, slope)
    return f


struve = _struve("struve")
modstruve = _struve("modstruve")
itstruve0 = tabulated("itstruve0", lambda x, out: struve(x * 0, x))
it2struve0 = tabulated("it2struve0", lambda x, out: -divided(struve(x * 0, x), x, 2 / math.pi))
itmodstruve0 = tabulated("itmodstruve0", lambda x, out: modstruve(x * 0, x))


# --- integrals ------------------------------------------------------------------------------------


def _besselpoly_slope(a: Value, power: Value, v: Value, out: Value) -> Value:
    """int x^p 2 x J_v'(2 a x) dx = v B / a - 2 int x^(p + 1) J_(v+1)(2 a x) dx (DLMF 10.6.2)."""
    first = where(eq(v, lit(v, 1)), 1 / (power + 2), where(is_zero(v), 0, lit(v, 0)))
    zero = is_zero(a)
    ratio = where(zero, first, v * out / where(zero, 1, a))
    return ratio - 2 * besselpoly(a, power + 1, v + 1)


besselpoly = tabulated("besselpoly", _besselpoly_slope, "lmb", "nu")
itj0y0 = outputs("itj0y0", ("j", "y"), [[lambda x, out: j0(x)], [lambda x, out: y0(x)]])
iti0k0 = outputs("iti0k0", ("i", "k"), [[lambda x, out: i0(x)], [lambda x, out: k0(x)]])


def _j_ratio(x: Value) -> Value:
    """(1 - J0(x)) / x, by its series sum (-1)^(k+1) (x / 2)^(2k) / k!^2 / x for |x| < 1."""
    near = (x < 1) & (x > -1)
    return where(near, _bessel_series(x, -1), divided(1 - j0(x), x))


def _i_ratio(x: Value) -> Value:
    """(I0(x) - 1) / x, by its series for |x| < 1."""
    near = (x < 1) & (x > -1)
    return where(near, _bessel_series(x, 1), divided(i0(x) - 1, x))


def _bessel_series(x: Value, parity: int) -> Value:
    q, total = x * x / 4, lit(x, 0)
    for k in reversed(range(1, 12)):
        total = total * q + parity ** (k - 1) / math.factorial(k) ** 2
    return total * x / 4


it2j0y0 = outputs(
    "it2j0y0", ("j", "y"), [[lambda x, out: _j_ratio(x)], [lambda x, out: -y0(x) / x]]
)
it2i0k0 = outputs(
    "it2i0k0", ("i", "k"), [[lambda x, out: _i_ratio(x)], [lambda x, out: -k0(x) / x]]
)
shichi = outputs(
    "shichi",
    ("shi", "chi"),
    [[lambda x, out: divided(sinh(x), x, 1)], [lambda x, out: cosh(x) / x]],
    accepts="fc",
)


# --- modified Fresnel integrals -------------------------------------------------------------------
# F(x) = int_x^inf exp(s i t^2) dt, K = exp(-s i (x^2 + pi / 4)) F / sqrt(pi).  F is made of K, as
# SciPy's F is wrong for negative x (1.17: F(x) + F(-x) has not the value at -inf).


def _fresnel(name: str, s: int) -> Function:
    phase = complex(np.exp(-s * 0.25j * math.pi)) / math.sqrt(math.pi)
    return tabulated(
        f"{name}_k",
        lambda x, out: -2j * s * x * out - phase,
        evaluate=lambda x: getattr(special, name)(np.real(x))[1],
        accepts="c",
    )


modfresnelp_k = _fresnel("modfresnelp", 1)
modfresnelm_k = _fresnel("modfresnelm", -1)
