"""L3. Distribution functions that SciPy evaluates, with their derivatives.

Each is an incomplete gamma or beta function of its operands; the derivatives follow by the chain
rule.  A count k enters by its integer part, so the derivative in it is zero.
"""

from __future__ import annotations

import math

from fgrad.ops import quantile_tails
from fgrad.ops.elementwise import (
    add,
    div,
    eq,
    exp,
    floor,
    lit,
    log1p,
    mul,
    neg,
    reciprocal,
    select,
    sign,
    sqrt,
    square,
    sub,
)
from fgrad.ops.erf_gamma import lgamma
from fgrad.ops.special_functions import (
    beta_density,
    betainc_a,
    betainc_b,
    external,
    gamma_density,
    gammainc_a,
)
from fgrad.trace import Value

# --- Student's t ----------------------------------------------------------------------------------


def _student_density(df: Value, x: Value) -> Value:
    half = mul(add(df, lit(df, 1)), lit(df, 0.5))
    scale = sub(lgamma(half), lgamma(mul(df, lit(df, 0.5))))
    body = mul(half, log1p(div(square(x), df)))
    return div(exp(sub(scale, body)), sqrt(mul(df, lit(df, math.pi))))


def _student_slope(df: Value, x: Value) -> Value:
    """dF/ddf by F(x) = 1 - I_z(df / 2, 1/2) / 2 for x > 0, z = df / (df + x^2), odd about 0."""
    zero = eq(x, lit(x, 0))
    safe = square(select(zero, lit(x, 1), x))
    below = add(df, safe)
    z = div(df, below)
    half_df, half = mul(df, lit(df, 0.5)), lit(df, 0.5)
    inner = div(safe, square(below))
    slope = add(
        mul(betainc_a(half_df, half, z), lit(df, 0.5)),
        mul(beta_density(half_df, half, z), inner),
    )
    return select(zero, lit(x, 0), mul(mul(slope, sign(x)), lit(x, -0.5)))


stdtr = external(
    "stdtr",
    lambda t, df, x, out: mul(t, _student_slope(df, x)),
    lambda t, df, x, out: mul(t, _student_density(df, x)),
)
stdtrit = external(
    "stdtrit_at",
    lambda t, df, p, out: neg(mul(t, div(_student_slope(df, out), _student_density(df, out)))),
    lambda t, df, p, out: mul(t, reciprocal(_student_density(df, out))),
    evaluate=quantile_tails.stdtrit,
)


# --- gamma, Poisson -------------------------------------------------------------------------------

gdtr = external(
    "gdtr",
    lambda t, a, b, x, out: mul(t, mul(x, gamma_density(b, mul(a, x)))),
    lambda t, a, b, x, out: mul(t, gammainc_a(b, mul(a, x))),
    lambda t, a, b, x, out: mul(t, mul(a, gamma_density(b, mul(a, x)))),
)
gdtrc = external(
    "gdtrc",
    lambda t, a, b, x, out: neg(mul(t, mul(x, gamma_density(b, mul(a, x))))),
    lambda t, a, b, x, out: neg(mul(t, gammainc_a(b, mul(a, x)))),
    lambda t, a, b, x, out: neg(mul(t, mul(a, gamma_density(b, mul(a, x))))),
)


def _after(k: Value) -> Value:
    return add(floor(k), lit(k, 1))


pdtr = external("pdtr", None, lambda t, k, m, out: neg(mul(t, gamma_density(_after(k), m))))
pdtrc = external("pdtrc", None, lambda t, k, m, out: mul(t, gamma_density(_after(k), m)))


# --- F --------------------------------------------------------------------------------------------


def _f_slopes(m: Value, n: Value, x: Value) -> tuple[Value, Value, Value]:
    """The derivatives of I_z(m / 2, n / 2), z = m x / (n + m x)."""
    half, below = lit(x, 0.5), add(n, mul(m, x))
    a, b, z = mul(m, half), mul(n, half), div(mul(m, x), below)
    dz = div(beta_density(a, b, z), square(below))
    return (
        add(mul(betainc_a(a, b, z), half), mul(dz, mul(n, x))),
        sub(mul(betainc_b(a, b, z), half), mul(dz, mul(m, x))),
        mul(dz, mul(m, n)),
    )


fdtr = external(
    "fdtr",
    lambda t, m, n, x, out: mul(t, _f_slopes(m, n, x)[0]),
    lambda t, m, n, x, out: mul(t, _f_slopes(m, n, x)[1]),
    lambda t, m, n, x, out: mul(t, _f_slopes(m, n, x)[2]),
)
fdtrc = external(
    "fdtrc",
    lambda t, m, n, x, out: neg(mul(t, _f_slopes(m, n, x)[0])),
    lambda t, m, n, x, out: neg(mul(t, _f_slopes(m, n, x)[1])),
    lambda t, m, n, x, out: neg(mul(t, _f_slopes(m, n, x)[2])),
)
