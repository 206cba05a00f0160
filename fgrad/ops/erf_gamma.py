"""L3. The error function and the logarithm of the gamma function: their primitives."""

from __future__ import annotations

import math
from functools import reduce

from fgrad.ops.elementwise import (
    RESULT,
    X,
    add,
    by_scipy,
    div,
    exp,
    lit,
    lt,
    mul,
    neg,
    reciprocal,
    rint,
    select,
    sin,
    singular,
    square,
    sub,
    unary,
)
from fgrad.trace import Value

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


def _gauss(x: Value) -> Value:
    """exp(-x^2)."""
    return exp(neg(square(x)))


erf = unary(
    "erf",
    by_scipy("erf"),
    X,
    lambda t, x, out: mul(t, mul(_gauss(x), lit(x, _TWO_OVER_SQRT_PI))),
)
erfc = unary(
    "erfc",
    by_scipy("erfc"),
    X,
    lambda t, x, out: mul(t, mul(_gauss(x), lit(x, -_TWO_OVER_SQRT_PI))),
)
erfinv = singular(
    "erfinv",
    by_scipy("erfinv"),
    RESULT,
    lambda t, x, out: mul(t, mul(exp(square(out)), lit(out, 1 / _TWO_OVER_SQRT_PI))),
)
lgamma = singular("lgamma", by_scipy("gammaln"), X, lambda t, x, out: mul(t, digamma(x)))
digamma = singular("digamma", by_scipy("digamma"), X, lambda t, x, out: mul(t, trigamma(x)))

# B_2k of the asymptotic series psi1(x) ~ 1/x + 1/(2x^2) + sum B_2k / x^(2k+1); DLMF 5.15.8.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_SHIFT = 8


def trigamma(x: Value) -> Value:
    """psi1(x), the derivative of digamma.

    By recurrence to x + 8 and the asymptotic series (DLMF 5.15.5, 5.15.8); for negative x by
    reflection, psi1(1 - x) + psi1(x) = pi^2 / sin^2(pi x) (DLMF 5.15.6).
    """
    negative = lt(x, lit(x, 0))
    z = select(negative, sub(lit(x, 1), x), x)
    total = reduce(add, [reciprocal(square(add(z, lit(x, k)))) for k in range(_SHIFT)])
    inverse = reciprocal(add(z, lit(x, _SHIFT)))
    inverse2 = square(inverse)
    series = lit(x, _BERNOULLI[-1])
    for b in reversed(_BERNOULLI[:-1]):
        series = add(mul(series, inverse2), lit(x, b))
    tail = add(lit(x, 1), mul(inverse, add(lit(x, 0.5), mul(series, inverse))))
    positive = add(total, mul(inverse, tail))
    sine = sin(mul(sub(x, rint(x)), lit(x, math.pi)))
    below = select(negative, square(sine), lit(x, 1))
    reflected = sub(div(lit(x, math.pi**2), below), positive)
    return select(negative, reflected, positive)
