"""L3. Quotients of gamma functions: rising factorials and binomial coefficients.

    poch(z, m) = gamma(z + m) / gamma(z)      binom(n, k) = gamma(n + 1) r(k + 1) r(n - k + 1)

with r = 1 / gamma, which is 0 at 0, -1, -2, ...: digamma has poles there, the quotients do not.
"""

from __future__ import annotations

from fgrad.ops.elementwise import add, and_, eq, floor, le, lit, mul, neg, not_, select, sub
from fgrad.ops.erf_gamma import digamma
from fgrad.ops.special_functions import external, gamma, rgamma, rgamma_slope
from fgrad.trace import Value


def _is_pole(x: Value) -> Value:
    return and_(le(x, lit(x, 0)), eq(x, floor(x)))


def _poch_slope(z: Value, m: Value, out: Value) -> Value:
    """out (psi(z + m) - psi(z)); where both are poles, out (psi(1 - z - m) - psi(1 - z)) by
    reflection; where z alone is one, gamma(z + m) r'(z)."""
    one, top = lit(z, 1), add(z, m)
    pole = _is_pole(z)
    both = and_(pole, _is_pole(top))
    alone = and_(pole, not_(both))
    above = digamma(select(both, sub(one, top), top))
    below = digamma(select(both, sub(one, z), select(pole, one, z)))
    at_pole = mul(gamma(select(alone, top, one)), rgamma_slope(select(alone, z, one)))
    return select(alone, at_pole, mul(out, sub(above, below)))


poch = external(
    "poch",
    lambda t, z, m, out: mul(t, _poch_slope(z, m, out)),
    lambda t, z, m, out: mul(t, mul(out, digamma(add(z, m)))),
)


def _binom_slope(x: Value, n: Value, k: Value, out: Value) -> Value:
    """out (psi(x + 1) - psi(n - k + 1)) for x = n or k; gamma(n + 1) times the derivative of the
    factor that is zero at a pole."""
    one = lit(n, 1)
    top, low, rest = (add(v, one) for v in (n, k, sub(n, k)))
    zero = and_(_is_pole(rest), not_(_is_pole(top)))
    safe = select(zero, one, rest)
    usual = mul(out, sub(digamma(add(x, one)), digamma(safe)))
    at_rest = mul(
        gamma(select(zero, top, one)), mul(rgamma(low), rgamma_slope(select(zero, rest, one)))
    )
    return select(zero, at_rest, usual)


def _binom_slope_in_k(n: Value, k: Value, out: Value) -> Value:
    one = lit(n, 1)
    low, rest = add(k, one), add(sub(n, k), one)
    zero = and_(_is_pole(low), not_(_is_pole(rest)))
    at_low = mul(gamma(add(n, one)), mul(rgamma(rest), rgamma_slope(select(zero, low, one))))
    here = select(zero, one, k)
    return select(zero, at_low, neg(_binom_slope(here, n, here, out)))


binom = external(
    "binom",
    lambda t, n, k, out: mul(t, _binom_slope(n, n, k, out)),
    lambda t, n, k, out: mul(t, _binom_slope_in_k(n, k, out)),
)
