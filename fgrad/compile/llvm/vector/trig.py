"""L5. The circular functions and their inverses, as vector instructions.

Reduction: x = n pi/2 + r.  Up to 2^16 (float32) or 2^30 (float64) pi/2 in three parts with fused
products leaves r exact to an ulp; a vector with a larger argument takes a rare block, which
multiplies by the bits of 2/pi that matter (Payne and Hanek) lane by lane; the C library's own
reduction is some 10 ulp off next to multiples of pi/2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from fgrad.compile.llvm.vector.coefficients import ASIN, ATAN, COS, SIN, TAN
from fgrad.compile.llvm.vector.exp import round_to_int
from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes

# Writes x = n pi/2 + r for a large x: (n, r).
Reduction: TypeAlias = "Callable[[Lanes, str], tuple[str, str]]"

TWO_OVER_PI = 0.6366197723675814
# pi/2 in three parts of working precision, all positive, so that -0 stays -0.
REDUCTION_32 = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15)
REDUCTION_64 = (1.5707963267948966, 6.123233995736765e-17, 1.0828566739219139e-32)
# pi/2 in two parts, each rounded to nearest.
HALF_PI_32 = (1.5707963705062866, -4.371138828673793e-08)
HALF_PI_64 = (1.5707963267948966, 6.123233995736766e-17)
# 2/pi as words of 64 bits, after one word of zeros: enough for every finite float64.
TWO_OVER_PI_WORDS = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)  # fmt: skip
# reduce_large(x): |x| = n pi/2 + r for finite |x| >= 1.  With |x| = m 2^e, the product of m and 192
# bits of 2/pi, from the one worth 2^(1 - e) on, is n mod 4 (2 bits) and a fraction (126 bits).
_REDUCE_TEXT = """\
define internal { double, i64 } @fgrad.reduce_large(double %x) noinline cold nounwind {
  %bits = bitcast double %x to i64
  %biased = lshr i64 %bits, 52
  %exponent = and i64 %biased, 2047
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %start = sub i64 %exponent, 1013
  %word = lshr i64 %start, 6
  %p0 = getelementptr inbounds i64, ptr @fgrad.two_over_pi, i64 %word
  %p1 = getelementptr inbounds i64, ptr %p0, i64 1
  %p2 = getelementptr inbounds i64, ptr %p0, i64 2
  %p3 = getelementptr inbounds i64, ptr %p0, i64 3
  %w0 = load i64, ptr %p0, align 8
  %w1 = load i64, ptr %p1, align 8
  %w2 = load i64, ptr %p2, align 8
  %w3 = load i64, ptr %p3, align 8
  %u0 = call i64 @llvm.fshl.i64(i64 %w0, i64 %w1, i64 %start)
  %u1 = call i64 @llvm.fshl.i64(i64 %w1, i64 %w2, i64 %start)
  %u2 = call i64 @llvm.fshl.i64(i64 %w2, i64 %w3, i64 %start)
  %m_wide = zext i64 %m to i128
  %u1_wide = zext i64 %u1 to i128
  %u2_wide = zext i64 %u2 to i128
  %t0 = mul i64 %u0, %m
  %t1 = mul i128 %u1_wide, %m_wide
  %t2 = mul i128 %u2_wide, %m_wide
  %t0_wide = zext i64 %t0 to i128
  %t0_high = shl i128 %t0_wide, 64
  %t2_high = lshr i128 %t2, 64
  %sum = add i128 %t0_high, %t1
  %turns = add i128 %sum, %t2_high
  %turns_shifted = lshr i128 %turns, 64
  %high_bits = trunc i128 %turns_shifted to i64
  %low = trunc i128 %turns to i64
  %rounded = add i64 %high_bits, 2305843009213693952
  %n = lshr i64 %rounded, 62
  %high = call i64 @llvm.fshl.i64(i64 %high_bits, i64 %low, i64 2)
  %upper = ashr i64 %high, 32
  %lower = and i64 %high, 4294967295
  %rest = shl i64 %low, 2
  %rest_half = lshr i64 %rest, 1
  %upper_float = sitofp i64 %upper to double
  %lower_float = sitofp i64 %lower to double
  %rest_float = sitofp i64 %rest_half to double
  %upper_part = fmul double %upper_float, 0x3DF0000000000000
  %lower_part = fmul double %lower_float, 0x3BF0000000000000
  %rest_part = fmul double %rest_float, 0x3800000000000000
  %tail = fadd double %lower_part, %rest_part
  %part = fadd double %upper_part, %tail
  %back = fsub double %part, %upper_part
  %part_low = fsub double %tail, %back
  %scaled = fmul double %part_low, 0x3FF921FB54442D18
  %correction = call double @llvm.fma.f64(double %part, double 0x3C91A62633145C07, double %scaled)
  %r = call double @llvm.fma.f64(double %part, double 0x3FF921FB54442D18, double %correction)
  %pair0 = insertvalue { double, i64 } poison, double %r, 0
  %pair = insertvalue { double, i64 } %pair0, i64 %n, 1
  ret { double, i64 } %pair
}"""


def _reduce_one(v: Lanes, x: str) -> list[str]:
    """(n, r) of the size of one large lane."""
    text = v.text
    wide = x if v.double else text.emit(f"fpext float {x} to double")
    pair = text.emit(f"call {{ double, i64 }} @fgrad.reduce_large(double {wide})")
    r = text.emit(f"extractvalue {{ double, i64 }} {pair}, 0")
    n = text.emit(f"extractvalue {{ double, i64 }} {pair}, 1")
    if v.double:
        return [n, r]
    narrow = text.emit(f"fptrunc double {r} to float")
    return [text.emit(f"trunc i64 {n} to i32"), narrow]


def reduce_large(v: Lanes, x: str) -> tuple[str, str]:
    """x = n pi/2 + r for finite |x| >= 1, lane by lane: (n, r)."""
    words = ", ".join(f"i64 {word}" for word in TWO_OVER_PI_WORDS)
    count = len(TWO_OVER_PI_WORDS)
    v.text.declare(f"@fgrad.two_over_pi = internal constant [{count} x i64] [{words}]")
    v.text.declare("declare i64 @llvm.fshl.i64(i64, i64, i64)")
    v.text.declare("declare double @llvm.fma.f64(double, double, double)")
    v.text.declare(_REDUCE_TEXT)
    kinds = [v.integer_element, v.element]
    n, r = v.each_lane([v.element], [x], kinds, lambda lane: _reduce_one(v, lane))
    negative = v.compare("olt", x, 0.0)
    return v.iselect(negative, v.iop("sub", 0, n), n), v.select(negative, v.neg(r), r)


def _reduce(v: Lanes, x: str, reduce_large: Reduction) -> tuple[str, str]:
    """x = n pi/2 + r: (bits whose low end holds n, r); r is NaN for infinite x."""
    n, rounded = round_to_int(v, x, TWO_OVER_PI)
    r = x
    for part in v.pick(REDUCTION_32, REDUCTION_64):
        r = v.fma(rounded, -part, r)
    bound = v.pick(2.0**16, 2.0**30)
    size = v.abs(x)
    far = v.compare("ogt", size, bound)

    def rare() -> list[str]:
        large = v.logical("and", far, v.compare("olt", size, INF))
        far_n, far_r = reduce_large(v, v.select(large, x, bound))
        return [v.iselect(large, far_n, n), v.select(large, far_r, r)]

    n, r = v.replace_rarely(far, [(n, v.int), (r, v.float)], rare)
    return n, r


def _sin_or_cos(v: Lanes, x: str, quarter: int, reduce_large: Reduction) -> str:
    """sin(x + quarter pi/2)"""
    n, r = _reduce(v, x, reduce_large)
    z = v.mul(r, r)
    sine = v.copysign(v.muladd(v.mul(z, r), v.fit(SIN, z), r), r)
    cosine = v.muladd(v.mul(z, z), v.fit(COS, z), v.muladd(z, -0.5, 1.0))
    if quarter:
        n = v.iop("add", n, quarter)
    odd = v.icompare("ne", v.iop("and", n, 1), 0)
    sign = v.iop("shl", v.iop("and", n, 2), v.bits - 2)
    return v.from_bits(v.iop("xor", v.to_bits(v.select(odd, cosine, sine)), sign))


def sin(v: Lanes, x: str, reduce_large: Reduction = reduce_large) -> str:
    """sin x"""
    return _sin_or_cos(v, x, 0, reduce_large)


def cos(v: Lanes, x: str, reduce_large: Reduction = reduce_large) -> str:
    """cos x"""
    return _sin_or_cos(v, x, 1, reduce_large)


def tan(v: Lanes, x: str, reduce_large: Reduction = reduce_large) -> str:
    """tan r, or -1 / tan r for odd n, with the rounding errors of tan r and of the quotient"""
    n, r = _reduce(v, x, reduce_large)
    z = v.mul(r, r)
    tail = v.mul(v.mul(z, r), v.fit(TAN, z))
    tangent = v.copysign(v.add(r, tail), r)
    low = v.add(v.sub(r, tangent), tail)
    inverse = v.div(-1.0, tangent)
    error = v.fma(inverse, low, v.fma(inverse, tangent, 1.0))
    odd = v.icompare("ne", v.iop("and", n, 1), 0)
    return v.select(odd, v.muladd(inverse, error, inverse), tangent)


def _asin_parts(v: Lanes, size: str, above: str) -> tuple[str, str]:
    """asin(s) = s + p where s = size, or sqrt((1 - size) / 2) above 1/2: (s, p)."""
    z = v.select(above, v.mul(v.sub(1.0, size), 0.5), v.mul(size, size))
    s = v.select(above, v.sqrt(z), size)
    return s, v.mul(v.mul(s, z), v.fit(ASIN, z))


def asin(v: Lanes, x: str) -> str:
    """asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)) above 1/2"""
    high, low = v.pick(HALF_PI_32, HALF_PI_64)
    size = v.abs(x)
    above = v.compare("ogt", size, 0.5)
    s, p = _asin_parts(v, size, above)
    far = v.sub(v.muladd(s, -2.0, high), v.muladd(p, 2.0, -low))
    return v.copysign(v.select(above, far, v.add(s, p)), x)


def acos(v: Lanes, x: str) -> str:
    """acos x = 2 asin(sqrt((1 - x) / 2)) above 1/2, pi minus that of -x below -1/2"""
    high, low = v.pick(HALF_PI_32, HALF_PI_64)
    size = v.abs(x)
    above = v.compare("ogt", size, 0.5)
    s, p = _asin_parts(v, size, above)
    negative = v.compare("olt", x, 0.0)
    double = v.muladd(s, 2.0, v.add(p, p))
    far = v.sub(2.0 * high, v.muladd(s, 2.0, v.muladd(p, 2.0, -2.0 * low)))
    outer = v.select(negative, far, double)
    middle = v.sub(high, v.sub(x, v.sub(low, v.copysign(p, x))))
    return v.select(above, outer, middle)


def _atan_unit(v: Lanes, q: str) -> tuple[str, str]:
    """atan q = q + p for 0 <= q <= 1: (q, p)"""
    z = v.mul(q, q)
    return q, v.mul(v.mul(q, z), v.fit(ATAN, z))


def atan(v: Lanes, x: str) -> str:
    """atan x = pi/2 - atan(1 / x) above 1"""
    high, low = v.pick(HALF_PI_32, HALF_PI_64)
    size = v.abs(x)
    above = v.compare("ogt", size, 1.0)
    q, p = _atan_unit(v, v.div(v.select(above, 1.0, size), v.select(above, size, 1.0)))
    far = v.sub(v.sub(high, q), v.sub(p, low))
    return v.copysign(v.select(above, far, v.add(q, p)), x)


def atan2(v: Lanes, y: str, x: str) -> str:
    """The angle of the point (x, y) in (-pi, pi], with the sign of y"""
    high, low = v.pick(HALF_PI_32, HALF_PI_64)
    size_y, size_x = v.abs(y), v.abs(x)
    steep = v.compare("ogt", size_y, size_x)
    top, bottom = v.select(steep, size_x, size_y), v.select(steep, size_y, size_x)
    quotient = v.select(v.compare("oeq", bottom, 0.0), 0.0, v.div(top, bottom))
    q, p = _atan_unit(v, v.select(v.compare("oeq", top, INF), 1.0, quotient))
    angle = v.select(steep, v.sub(v.sub(high, q), v.sub(p, low)), v.add(q, p))
    behind = v.icompare("slt", v.to_bits(x), 0)
    angle = v.select(behind, v.sub(2.0 * high, v.sub(angle, 2.0 * low)), angle)
    return v.copysign(v.select(v.compare("uno", x, y), NAN, angle), y)
