"""L5. Logarithms and the inverse hyperbolic functions, as straight-line vector instructions.

Reduction: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + tail(f).
"""

from __future__ import annotations

from fgrad.compile.llvm.vector.coefficients import ACOSH, ASINH, ATANH, LOG_SERIES, LOG_SHORT
from fgrad.compile.llvm.vector.exp import LN2_32, LN2_64
from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes

# ln 2 and log10 2 with so few bits in the first part that its product with k is exact.
LN2_EXACT_32 = (0.693145751953125, 1.428606765330187e-06)
LN2_EXACT_64 = (0.6931471805598903, 5.497923018708371e-14)
LOG10_2_32 = (0.301025390625, 4.605039066518657e-06)
LOG10_2_64 = (0.30102999566395283, 2.8363394551044964e-14)
LOG2_E_32 = (1.4426950216293335, 1.925963033500011e-08)
LOG2_E_64 = (1.4426950408889634, 2.0355273740931033e-17)
LOG10_E_32 = (0.4342944920063019, -1.0103049952192578e-08)
SQRT_TWO = 1.4142135623730951
LOG10_E_64 = (0.4342944819032518, 1.098319650216765e-17)


def _split(v: Lanes, x: str) -> tuple[str, str]:
    """x = 2^k m for positive normal x: (bits whose exponent field is k + bias, m)."""
    offset = 0x3FE6A09E667F3BCD if v.double else 0x3F3504F3
    bits = v.iop("add", v.to_bits(x), (v.bias << v.mantissa) - offset)
    m = v.from_bits(v.iop("add", v.iop("and", bits, (1 << v.mantissa) - 1), offset))
    return bits, m


def _split_avx512(v: Lanes, x: str) -> tuple[str, str]:
    """x = 2^k m for every x: (k as a float, m), k = -inf, inf for 0, inf; m = NaN below 0."""
    m = v.significand(x)
    above = v.compare("ogt", m, SQRT_TWO)
    k = v.exponent(x)
    return v.select(above, v.add(k, 1.0), k), v.select(above, v.mul(m, 0.5), m)


def split_power(v: Lanes, x: str) -> tuple[str, str]:
    """x = 2^k (1 + f) for positive x, subnormal too: (k as a float, f)."""
    if v.avx512:
        k, m = _split_avx512(v, x)
        return k, v.sub(m, 1.0)
    subnormal = v.compare("olt", x, 2.0 ** (1 - v.bias))
    bits, m = _split(v, v.select(subnormal, v.mul(x, 2.0 ** (v.mantissa + 1)), x))
    bias = v.select(subnormal, float(v.bias + v.mantissa + 1), float(v.bias))
    return v.sub(v.exponent_field(bits), bias), v.sub(m, 1.0)


def _log_specials(v: Lanes, x: str, y: str) -> str:
    """inf, 0, negative and NaN arguments of a logarithm."""
    if v.avx512:
        return y
    y = v.select(v.compare("oeq", x, INF), INF, y)
    y = v.select(v.compare("ult", x, 0.0), NAN, y)
    return v.select(v.compare("oeq", x, 0.0), -INF, y)


def _tail(v: Lanes, f: str, half_square: str) -> str:
    """log(1 + f) - f + f^2/2"""
    if not v.double:
        return v.mul(v.mul(v.mul(f, f), f), v.polynomial(LOG_SHORT, f))
    s = v.div(f, v.add(f, 2.0))
    z = v.mul(s, s)
    return v.mul(s, v.muladd(z, v.polynomial(LOG_SERIES, z), half_square))


def _log_sum(v: Lanes, k: str, f: str) -> str:
    """k ln2 + log(1 + f)"""
    half_square = v.mul(v.mul(f, f), 0.5)
    high, low = v.pick(LN2_32, LN2_64)
    tail = v.muladd(k, low, _tail(v, f, half_square))
    return v.fma(k, high, v.add(f, v.sub(tail, half_square)))


def log(v: Lanes, x: str) -> str:
    """log x"""
    return _log_specials(v, x, _log_sum(v, *split_power(v, x)))


def fast_two_sum(v: Lanes, a: str, b: str) -> tuple[str, str]:
    """a + b = s + e exactly, for |a| >= |b| or a = 0."""
    total = v.add(a, b)
    return total, v.sub(b, v.sub(total, a))


def _parts(v: Lanes, f: str, start: str | None = None) -> tuple[str, str]:
    """start + log(1 + f) as high + low, with some 5 bits more than working precision."""
    half_square = v.mul(v.mul(f, f), 0.5)
    below = v.fma(v.mul(f, 0.5), f, v.neg(half_square))
    low = v.sub(_tail(v, f, half_square), below)
    total = f
    if start is not None:
        total, error = fast_two_sum(v, start, f)
        low = v.add(low, error)
    total, error = fast_two_sum(v, total, v.neg(half_square))
    return fast_two_sum(v, total, v.add(low, error))


def log_parts(v: Lanes, x: str) -> tuple[str, str]:
    """log x for positive finite x as high + low, with some 5 bits more than working precision"""
    k, f = split_power(v, x)
    exact, rest = v.pick(LN2_EXACT_32, LN2_EXACT_64)
    high, low = _parts(v, f, v.mul(k, exact))
    return fast_two_sum(v, high, v.muladd(k, rest, low))


def _log_in_base(v: Lanes, x: str, unit: tuple[float, float], factor: tuple[float, float]) -> str:
    """k unit + factor f + factor (log(1 + f) - f), so precise that powers of the base are exact"""
    k, f = split_power(v, x)
    half_square = v.mul(v.mul(f, f), 0.5)
    bend = v.sub(_tail(v, f, half_square), half_square)
    product = v.mul(f, factor[0])
    rest = v.fma(f, factor[0], v.neg(product))
    rest = v.muladd(bend, factor[0], v.muladd(f, factor[1], rest))
    whole = v.mul(k, unit[0]) if unit[1] else k
    total, error = fast_two_sum(v, whole, product)
    rest = v.add(error, v.muladd(k, unit[1], rest) if unit[1] else rest)
    if v.avx512:  # The error of an infinite sum is NaN.
        rest = v.select(v.compare("olt", v.abs(k), INF), rest, 0.0)
    return _log_specials(v, x, v.add(total, rest))


def log2(v: Lanes, x: str) -> str:
    """log x / log 2"""
    return _log_in_base(v, x, (1.0, 0.0), v.pick(LOG2_E_32, LOG2_E_64))


def log10(v: Lanes, x: str) -> str:
    """log x / log 10"""
    return _log_in_base(v, x, v.pick(LOG10_2_32, LOG10_2_64), v.pick(LOG10_E_32, LOG10_E_64))


def _log_of_sum(v: Lanes, u: str, c: str, doublings: str | None = None) -> str:
    """log((u + c) 2^doublings) for normal u and |c| of the order of an ulp of u"""
    if v.avx512:
        power, m = _split_avx512(v, u)
        correction = v.scale_by_exponent(c, v.neg(v.at_least(power, -3.0 * v.bias)))
    else:
        bits, m = _split(v, u)
        field = v.iop("and", bits, (2 * v.bias + 1) << v.mantissa)
        inverse = v.from_bits(v.iop("sub", 2 * v.bias << v.mantissa, field))
        moderate = v.compare("olt", u, 2.0 ** (v.mantissa + 3))
        correction = v.mul(c, v.select(moderate, inverse, 0.0))
        power = v.sub(v.exponent_field(bits), float(v.bias))
    f = v.add(correction, v.sub(m, 1.0))
    return _log_specials(v, u, _log_sum(v, v.add(power, doublings) if doublings else power, f))


def log1p(v: Lanes, x: str) -> str:
    """log(1 + x) with the rounding error of the sum"""
    u = v.add(x, 1.0)
    back = v.sub(u, 1.0)
    c = v.add(v.sub(1.0, v.sub(u, back)), v.sub(x, back))
    c = v.select(v.compare("olt", x, INF), c, 0.0)
    return v.select(v.compare("oeq", x, 0.0), x, _log_of_sum(v, u, c))


def asinh(v: Lanes, x: str) -> str:
    """log(|x| + sqrt(x^2 + 1)) with the rounding errors; an odd polynomial below 0.5"""
    size = v.abs(x)
    large = v.compare("ogt", size, 2.0 ** (v.mantissa // 2 + 3))
    moderate = v.select(large, 1.0, size)
    square = v.fma(moderate, moderate, 1.0)
    square_error = v.fma(moderate, moderate, v.sub(1.0, square))
    root = v.sqrt(square)
    root_error = v.add(v.fma(v.neg(root), root, square), square_error)
    total, error = fast_two_sum(v, root, moderate)
    c = v.muladd(root_error, v.div(0.5, root), error)
    u, c = v.select(large, size, total), v.select(large, 0.0, c)
    y = _log_of_sum(v, u, c, v.select(large, 1.0, 0.0))
    z = v.mul(size, size)
    small = v.muladd(v.mul(z, size), v.fit(ASINH, z), size)
    return v.copysign(v.select(v.compare("olt", size, 0.5), small, y), x)


def acosh(v: Lanes, x: str) -> str:
    """log(x + sqrt(x^2 - 1)); near 1 sqrt(2 t) (1 + t P(t)) with t = x - 1"""
    large = v.compare("ogt", x, 2.0 ** (v.mantissa // 2 + 3))
    root = v.sqrt(v.fma(x, v.select(large, 0.0, x), -1.0))
    k, f = split_power(v, v.select(large, x, v.add(x, root)))
    y = _log_sum(v, v.add(k, v.select(large, 1.0, 0.0)), f)
    y = v.select(v.compare("olt", x, INF), y, x)
    t = v.sub(x, 1.0)
    start = v.sqrt(v.add(t, t))
    near = v.muladd(v.mul(start, t), v.fit(ACOSH, t), start)
    return v.select(v.compare("olt", x, 1.5), near, y)


def atanh(v: Lanes, x: str) -> str:
    """log((1 + |x|) / (1 - |x|)) / 2 with the rounding errors; an odd polynomial below 0.25"""
    size = v.abs(x)
    top, bottom = v.add(size, 1.0), v.sub(1.0, size)
    top_error = v.sub(size, v.sub(top, 1.0))
    bottom_error = v.sub(v.sub(1.0, bottom), size)
    inverse = v.div(1.0, bottom)
    quotient = v.mul(top, inverse)
    rest = v.add(v.fma(v.neg(quotient), bottom, top), top_error)
    c = v.mul(v.fma(v.neg(quotient), bottom_error, rest), inverse)
    c = v.select(v.compare("olt", quotient, INF), c, 0.0)
    y = v.mul(_log_of_sum(v, quotient, c), 0.5)
    z = v.mul(size, size)
    small = v.muladd(v.mul(z, size), v.fit(ATANH, z), size)
    return v.copysign(v.select(v.compare("olt", size, 0.25), small, y), x)
