"""L5. exp and the functions made of it, as straight-line vector instructions.

Reduction: x = n ln2 + r with ln2 in two parts and fused products; e^x = 2^n e^r.  With AVX-512 n
counts sixteenths (float32) or eighths (float64), whose powers of two stand in one register.
"""

from __future__ import annotations

from fgrad.compile.llvm.vector.coefficients import (
    EXP,
    EXP2,
    EXP_STEP,
    POWERS,
    SINH,
    TANH_POWERS,
    TANH_SHIFTS,
    TANH_STEP,
)
from fgrad.compile.llvm.vector.lanes import Lanes

LOG2_E = 1.4426950408889634
# ln 2 = high + low of working precision, both positive, so that infinite multiples have no NaN.
LN2_32 = (0.6931471228599548, 5.769998878690785e-08)
LN2_64 = (0.6931471805599453, 2.3190468138462996e-17)
# (e^2r - 1) / 2 = r + r^2 P(r)
HALF_EXP = tuple([tuple([2.0 ** (k + 1) * c for k, c in enumerate(row)]) for row in EXP])
TANH_FACTOR = 0.8125  # c below: keeps the divisor under 2 near 0, where its rounding is small


def round_to_int(v: Lanes, x: str, factor: float, steps: int = 1) -> tuple[str, str]:
    """n = x factor rounded to a multiple of 1 / steps: (bits with n steps in their low end, n)."""
    magic = v.round_magic() / steps
    shifted = v.fma(x, factor, magic)
    return v.to_bits(shifted), v.sub(shifted, magic)


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
    if v.narrow:
        return v.in_register(exp, x)
    clamped = v.at_least(v.at_most(x, v.pick(88.73, 709.79)), v.pick(-104.0, -745.2))
    if v.avx512:
        return _exp_in_steps(v, clamped)
    bits, n, r = reduce_by_ln2(v, clamped)
    return scale_by_power(v, v.add(exp_tail(v, r), 1.0), bits, n)


def _exp_in_steps(v: Lanes, x: str) -> str:
    """e^x = 2^floor(n) 2^(n - floor(n)) e^r"""
    bits, n = round_to_int(v, x, LOG2_E, v.pick(16, 8))
    high, low = v.pick(LN2_32, LN2_64)
    r = v.fma(n, -low, v.fma(n, -high, x))
    power = v.lookup(v.pick(*POWERS), bits)
    tail = v.muladd(v.mul(r, r), v.fit(EXP_STEP, r), r)
    return v.scale_by_exponent(v.muladd(power, tail, power), n)


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
    """m - m e / (1 + e) with e = e^-|x| and m = 1, or e below 0"""
    e = exp(v, v.neg(v.abs(x)))
    part = v.div(e, v.add(e, 1.0))
    m = v.select(v.compare("olt", x, 0.0), e, 1.0)
    return v.muladd(v.neg(m), part, m)


def tanh(v: Lanes, x: str) -> str:
    """u / (1 + u) with u = (e^2y - 1) / 2 = 2^n h - (1 - 2^n) / 2, h = (e^2r - 1) / 2, y = -|x|

    The divisor is under 1, where its rounding is small, and is not made of the rounded u.
    """
    if v.narrow:
        return v.in_register(tanh, x)
    if v.avx512:
        return _tanh_in_steps(v, x)
    limited = v.at_least(v.neg(v.abs(x)), -v.pick(10.0, 21.0))
    bits, n = round_to_int(v, limited, 2.0 * LOG2_E)
    r = v.fma(n, -0.5 * sum(v.pick(LN2_32, LN2_64)), limited)
    h = v.muladd(v.mul(r, r), v.fit(HALF_EXP, r), r)
    power = normal_power(v, bits)
    u = v.muladd(power, h, v.muladd(power, 0.5, -0.5))
    divisor = v.muladd(power, h, v.muladd(power, 0.5, 0.5))
    return v.copysign(v.div(u, divisor), x)


def _tanh_in_steps(v: Lanes, x: str) -> str:
    """(tanh a + tanh r) / (1 + tanh a tanh r) where |x| = a + r and p = c e^2a is looked up

    Both sides are multiplied by p + c.  The shift is how far a is from a multiple of
    ln2 / (2 steps) for the rounded p, which counts as exact.  The divisor is made of the dividend,
    so that most of their errors cancel.
    """
    limited = v.at_most(v.abs(x), v.pick(10.0, 21.0))
    steps, c = v.pick(16, 8), TANH_FACTOR
    bits, n = round_to_int(v, limited, 2.0 * LOG2_E, steps)
    r = v.fma(n, -0.5 * sum(v.pick(LN2_32, LN2_64)), limited)
    z = v.mul(r, r)
    shift = v.lookup([-s for s in v.pick(*TANH_SHIFTS)], bits)
    t = v.add(r, v.muladd(v.mul(z, r), v.fit(TANH_STEP, z), shift))
    power = v.to_bits(v.lookup(v.pick(*TANH_POWERS), bits))
    moved = v.iop("shl", bits, v.mantissa - steps.bit_length() + 1)
    p = v.from_bits(v.iop("add", power, moved))
    dividend = v.muladd(t, v.add(p, c), v.sub(p, c))
    divisor = v.add(v.muladd(t, -2.0 * c, dividend), 2.0 * c)
    return v.copysign(v.div(dividend, divisor), x)


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
