"""L5. Powers and roots, as straight-line vector instructions.

x^y = exp(y log|x|) with log|x| and the product carried as high + low (about 2^-65 for float64,
2^-35 for float32, relative), because an error of log|x| is multiplied by up to 2^10.
"""

from __future__ import annotations

from fgrad.compile.llvm.vector.coefficients import INVERSE_CBRT, POW
from fgrad.compile.llvm.vector.exp import (
    exp_tail,
    normal_power,
    reduce_by_ln2,
    scale_by_power,
)
from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes
from fgrad.compile.llvm.vector.log import LN2_EXACT_32, LN2_EXACT_64, fast_two_sum, split_power

TWO_THIRDS_32 = (0.6666666865348816, -1.9868215517249155e-08)
TWO_THIRDS_64 = (0.6666666666666666, 3.700743415417188e-17)

Pair = tuple[str, str]


def _product(v: Lanes, a: Pair, b: Pair) -> Pair:
    """(a + a')(b + b') without a'b'."""
    high = v.mul(a[0], b[0])
    low = v.fma(a[0], b[0], v.neg(high))
    return high, v.muladd(a[1], b[0], v.muladd(a[0], b[1], low))


def _log(v: Lanes, x: str) -> Pair:
    """log x of positive x: k ln2 + 2 atanh(s), s = f / (2 + f), with 2 s^3 / 3 as high + low."""
    k, f = split_power(v, x)
    denominator = v.add(f, 2.0)
    inverse = v.div(1.0, denominator)
    s = v.mul(f, inverse)
    # f - s (2 + f) exactly up to one rounding: the sum 2 + f has an error of its own.
    missing = v.sub(f, v.sub(denominator, 2.0))
    rest = v.sub(v.fma(v.neg(s), denominator, f), v.mul(s, missing))
    s_low = v.mul(rest, inverse)
    z, z_low = _product(v, (s, s_low), (s, s_low))
    first, first_low = v.pick(TWO_THIRDS_32, TWO_THIRDS_64)
    series = v.mul(z, v.fit(POW, z))
    factor, factor_low = fast_two_sum(v, v.number(first), series)
    cube = _product(v, (z, z_low), (s, s_low))
    tail, tail_low = _product(v, cube, (factor, v.add(factor_low, first_low)))
    exact, ln2_rest = v.pick(LN2_EXACT_32, LN2_EXACT_64)
    total, low = fast_two_sum(v, v.mul(k, exact), v.add(s, s))
    total, error = fast_two_sum(v, total, tail)
    low = v.add(v.add(low, error), v.muladd(s_low, 2.0, tail_low))
    return fast_two_sum(v, total, v.muladd(k, ln2_rest, low))


def _exp(v: Lanes, x: Pair) -> str:
    """e^(high + low)"""
    bound = v.pick(160.0, 1200.0)
    inside = v.compare("ult", v.abs(x[0]), bound)
    low = v.select(inside, x[1], 0.0)
    limits = (v.pick(88.9, 709.9), v.pick(-104.5, -746.0))
    high = v.at_least(v.at_most(x[0], limits[0]), limits[1])
    bits, n, r = reduce_by_ln2(v, high)
    y = v.add(exp_tail(v, v.add(r, low)), 1.0)
    return scale_by_power(v, y, bits, n)


def power(v: Lanes, x: str, y: str) -> str:
    """x^y; a rare block has C's and NumPy's special cases: x <= 0, inf, NaN, infinite y"""
    size = v.abs(x)
    high, low = _log(v, size)
    product = v.mul(high, y)
    error = v.fma(high, y, v.neg(product))
    usual = _exp(v, (product, v.muladd(low, y, error)))
    positive = v.logical("and", v.compare("ogt", x, 0.0), v.compare("olt", x, INF))
    ordinary = v.logical("and", positive, v.compare("olt", v.abs(y), INF))

    def rare() -> list[str]:
        return [_power_specials(v, x, y, usual)]

    return v.replace_rarely(v.negate(ordinary), [(usual, v.float)], rare)[0]


def _power_specials(v: Lanes, x: str, y: str, result: str) -> str:
    """The power, given |x|^y for ordinary arguments."""
    size = v.abs(x)
    bounds = v.compare("oeq", size, 0.0), v.compare("oeq", size, INF)
    zero_or_inf = v.logical("or", *bounds)
    extreme = v.logical("or", zero_or_inf, v.compare("oeq", v.abs(y), INF))
    shrinks = v.logical("xor", v.compare("olt", size, 1.0), v.compare("olt", y, 0.0))
    result = v.select(extreme, v.select(shrinks, 0.0, INF), result)
    result = v.select(v.compare("oeq", size, 1.0), 1.0, result)
    integral = v.compare("oeq", v.call("trunc", y), y)
    half = v.mul(y, 0.5)
    odd = v.logical("and", integral, v.compare("une", v.call("trunc", half), half))
    result = v.select(odd, v.copysign(result, x), result)
    below = v.compare("olt", x, 0.0)
    defined = v.logical("or", v.negate(below), v.logical("or", integral, zero_or_inf))
    result = v.select(defined, result, NAN)
    result = v.select(v.compare("uno", x, y), NAN, result)
    is_one = v.logical("or", v.compare("oeq", y, 0.0), v.compare("oeq", x, 1.0))
    return v.select(is_one, 1.0, result)


def cbrt(v: Lanes, x: str) -> str:
    """The cube root: |x| = 2^(3 q) a with a in [1, 8), and Newton steps for a^(-1/3)"""
    size = v.abs(x)
    if v.avx512:
        k, m = v.exponent(size), v.significand(size)
    else:
        subnormal = v.compare("olt", size, 2.0 ** (1 - v.bias))
        bits = v.to_bits(v.select(subnormal, v.mul(size, 2.0 ** (v.mantissa + 1)), size))
        bias = v.select(subnormal, float(v.bias + v.mantissa + 1), float(v.bias))
        k = v.sub(v.exponent_field(bits), bias)
        fraction = v.iop("and", bits, (1 << v.mantissa) - 1)
        m = v.from_bits(v.iop("or", fraction, v.bias << v.mantissa))
    q = v.call("floor", v.muladd(k, 1.0 / 3.0, 1.0 / 6.0))
    rest = v.fma(q, -3.0, k)
    first, second = v.compare("oeq", rest, 1.0), v.compare("oeq", rest, 2.0)
    a = v.mul(m, v.select(second, 4.0, v.select(first, 2.0, 1.0)))
    start = v.select(second, 0.6299605249474366, v.select(first, 0.7937005259840998, 1.0))
    y = _cbrt_of_reduced(v, a, v.mul(v.fit(INVERSE_CBRT, m), start))
    if v.avx512:
        scaled = v.scale_by_exponent(y, q)
    else:
        scaled = v.mul(y, normal_power(v, v.to_bits(v.add(q, v.round_magic()))))
    ordinary = v.logical("and", v.compare("ogt", size, 0.0), v.compare("olt", size, INF))
    return v.select(ordinary, v.copysign(scaled, x), x)


def _cbrt_of_reduced(v: Lanes, a: str, inverse: str) -> str:
    """a^(1/3) from an approximation of a^(-1/3) with some 14 bits, almost correctly rounded"""
    for _ in range(2 if v.double else 1):
        inverse = _inverse_cbrt_step(v, a, inverse)
    square = v.mul(inverse, inverse)
    y = v.mul(a, square)
    y_square = v.mul(y, y)
    y_square_low = v.fma(y, y, v.neg(y_square))
    rest = v.fma(v.neg(y_square_low), y, v.fma(v.neg(y_square), y, a))
    return v.muladd(v.mul(rest, square), 1.0 / 3.0, y)


def _inverse_cbrt_step(v: Lanes, a: str, r: str) -> str:
    """r + r e (1/3 + 2 e / 9) with e = 1 - a r^3: the third power of the error"""
    e = v.fma(v.neg(v.mul(a, r)), v.mul(r, r), 1.0)
    return v.muladd(v.mul(r, e), v.muladd(e, 2.0 / 9.0, 1.0 / 3.0), r)
