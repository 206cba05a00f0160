"""L5. exp and the functions made of it, as straight-line vector instructions.

Reduction: x = n ln2 + r with ln2 in two parts and fused products; e^x = 2^n e^r.
"""

from __future__ import annotations

from fgrad.compile.cpu.vector_coefficients import EXP, EXP2, SINH, TANH
from fgrad.compile.cpu.vector_lanes import Lanes

LOG2_E = 1.4426950408889634
# ln 2 = high + low of working precision, both positive, so that infinite multiples have no NaN.
LN2_32 = (0.6931471228599548, 5.769998878690785e-08)
LN2_64 = (0.6931471805599453, 2.3190468138462996e-17)


def round_to_int(v: Lanes, x: str, factor: float) -> tuple[str, str]:
    """n = x factor rounded to an integer: (bits that hold n in their low end, n)."""
    shifted = v.fma(x, factor, v.round_magic())
    return v.to_bits(shifted), v.sub(shifted, v.round_magic())


def reduce_by_ln2(v: Lanes, x: str) -> tuple[str, str, str]:
    """x = n ln2 + r: (bits that hold n, n, r)."""
    bits, n = round_to_int(v, x, LOG2_E)
    high, low = v.pick(LN2_32, LN2_64)
    return bits, n, v.fma(n, -low, v.fma(n, -high, x))


def scale_by_power(v: Lanes, y: str, bits: str, n: str) -> str:
    """y 2^n with gradual underflow; the low bits of `bits` hold n in [-1.2 bias, bias + 1]."""
    if v.avx512:
        return v.scale_by_exponent(y, n)
    step = v.bias // 2
    negative = v.compare("olt", n, 0.0)
    base = v.iselect(negative, (v.bias + step) << v.mantissa, (v.bias - step) << v.mantissa)
    power = v.from_bits(v.iop("add", v.iop("shl", bits, v.mantissa), base))
    rest = v.select(negative, 2.0**-step, 2.0**step)
    return v.mul(v.mul(y, power), rest)


def normal_power(v: Lanes, bits: str, shift: int = 0) -> str:
    """2^(n + shift) where that is a normal number; the low bits of `bits` hold n."""
    base = (v.bias + shift) << v.mantissa
    return v.from_bits(v.iop("add", v.iop("shl", bits, v.mantissa), base))


def exp_tail(v: Lanes, r: str) -> str:
    """e^r - 1 for |r| <= ln2 / 2"""
    return v.muladd(v.mul(r, r), v.fit(EXP, r), r)


def exp(v: Lanes, x: str) -> str:
    """e^x"""
    clamped = v.at_least(v.at_most(x, v.pick(88.73, 709.79)), v.pick(-104.0, -745.2))
    bits, n, r = reduce_by_ln2(v, clamped)
    return scale_by_power(v, v.add(exp_tail(v, r), 1.0), bits, n)


def exp2(v: Lanes, x: str) -> str:
    """2^x"""
    clamped = v.at_least(v.at_most(x, v.pick(128.5, 1024.5)), v.pick(-151.0, -1076.0))
    bits, n = round_to_int(v, clamped, 1.0)
    r = v.sub(clamped, n)
    return scale_by_power(v, v.muladd(r, v.fit(EXP2, r), 1.0), bits, n)


def expm1(v: Lanes, x: str) -> str:
    """e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)), which overflows only where it should"""
    clamped = v.at_least(v.at_most(x, v.pick(88.73, 709.79)), v.pick(-20.0, -45.0))
    bits, _, r = reduce_by_ln2(v, clamped)
    power = normal_power(v, bits, -1)
    half = v.muladd(power, exp_tail(v, r), v.sub(power, 0.5))
    tiny = v.compare("olt", v.abs(x), 2.0 ** -(v.mantissa + 2))
    return v.select(tiny, x, v.add(half, half))


def logistic(v: Lanes, x: str) -> str:
    """1 / (1 + e^-x) = e^x / (1 + e^x), whichever has e^-|x|"""
    e = exp(v, v.neg(v.abs(x)))
    return v.div(v.select(v.compare("olt", x, 0.0), e, 1.0), v.add(e, 1.0))


def tanh(v: Lanes, x: str) -> str:
    """1 - 2 / (2^t + 1) with t = 2 |x| log2 e, and an odd polynomial below 0.54"""
    size = v.abs(x)
    limited = v.at_most(size, v.pick(10.0, 21.0))
    bits, n = round_to_int(v, limited, 2.0 * LOG2_E)
    r = v.fma(limited, 2.0 * LOG2_E, v.neg(n))
    power = normal_power(v, bits)
    denominator = v.muladd(power, v.muladd(r, v.fit(EXP2, r), 1.0), 1.0)
    large = v.sub(1.0, v.div(2.0, denominator))
    z = v.mul(size, size)
    small = v.muladd(v.mul(z, size), v.fit(TANH, z), size)
    return v.copysign(v.select(v.compare("olt", size, 0.54), small, large), x)


def _half_exp(v: Lanes, size: str) -> str:
    """e^size / 2 for size >= 0, which overflows only where cosh does"""
    bits, n, r = reduce_by_ln2(v, v.at_most(size, v.pick(89.5, 710.5)))
    e = v.add(exp_tail(v, r), 1.0)
    if v.avx512:
        return v.scale_by_exponent(e, v.sub(n, 1.0))
    low = v.bias // 2
    power = v.from_bits(
        v.iop("add", v.iop("shl", bits, v.mantissa), (v.bias - 1 - low) << v.mantissa)
    )
    return v.mul(v.mul(e, power), 2.0**low)


def cosh(v: Lanes, x: str) -> str:
    """h + 1 / (4 h) with h = e^|x| / 2"""
    half = _half_exp(v, v.abs(x))
    return v.add(half, v.div(0.25, half))


def sinh(v: Lanes, x: str) -> str:
    """h - 1 / (4 h) with h = e^|x| / 2, and an odd polynomial below 1"""
    size = v.abs(x)
    half = _half_exp(v, size)
    large = v.sub(half, v.div(0.25, half))
    z = v.mul(size, size)
    small = v.muladd(v.mul(z, size), v.fit(SINH, z), size)
    return v.copysign(v.select(v.compare("olt", size, 1.0), small, large), x)
