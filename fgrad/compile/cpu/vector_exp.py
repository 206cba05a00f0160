"""L5. exp, log and the functions made of them, as straight-line vector instructions.

Coefficients: benchmarks/derive_coefficients.py (weighted minimax; the error bound of each is there).
Reductions: x = n ln2 + r with ln2 in two parts and fused products; x = 2^k m with m in
[sqrt(1/2), sqrt(2)).
"""

from __future__ import annotations

from fgrad.compile.cpu.vector_lanes import INF, NAN, Lanes

# (e^r - 1 - r) / r^2 on |r| <= ln2/2: 2^-23.9 and 2^-53.1, times r^2 <= 2^-3.06.
EXP_32 = (
    0.5000000026652994, 0.16666576977733927, 0.041666377054218016, 0.008363181038112724,
    0.0013940984768472616,
)  # fmt: skip
EXP_64 = (
    0.5000000000000001, 0.16666666666666674, 0.04166666666662413, 0.008333333333322191,
    0.0013888888917214558, 0.00019841269886660922, 2.480152129490101e-05, 2.7557242247971486e-06,
    2.7620088886163833e-07, 2.5110085679341155e-08,
)  # fmt: skip
# (log(1+f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], weight f^2: 2^-27.3.
LOG_32 = (
    0.33333316725954226, -0.25000811177224846, 0.20002286926729118, -0.16624531882605664,
    0.14181167637245912, -0.13128922756913097, 0.12881854004934407, -0.0785944094302088,
)  # fmt: skip
# (2 atanh(s)/s - 2) / s^2 in s^2, s = f / (2 + f), weight s^2: 2^-58.5.
LOG_64 = (
    0.6666666666666734, 0.3999999999941464, 0.285714287424098, 0.22222198570072346,
    0.18183564515560072, 0.15314045224243805, 0.14796006370826373,
)  # fmt: skip

LOG2_E = 1.4426950408889634
# ln 2 = high + low.
LN2_PARTS_32 = (0.6931471824645996, -1.9046542121259336e-09)
LN2_PARTS_64 = (0.6931471805599453, 2.3190468138462996e-17)


def _reduce_exp(v: Lanes, x: str) -> tuple[str, str, str]:
    """x = n ln2 + r: (bits that hold n, n, r)."""
    high, low = LN2_PARTS_64 if v.double else LN2_PARTS_32
    shifted = v.fma(x, LOG2_E, v.round_magic())
    n = v.sub(shifted, v.round_magic())
    r = v.fma(n, -low, v.fma(n, -high, x))
    return v.to_bits(shifted), n, r


def scale_by_power(v: Lanes, y: str, bits: str, n: str) -> str:
    """y 2^n with gradual underflow; the low bits of `bits` hold n in [-1.2 bias, bias + 1]."""
    step = v.bias // 2
    negative = v.compare("olt", n, 0.0)
    base = v.iselect(
        negative, (v.bias + step) << v.mantissa, (v.bias - step) << v.mantissa
    )
    power = v.from_bits(v.iop("add", v.iop("shl", bits, v.mantissa), base))
    rest = v.select(negative, 2.0**-step, 2.0**step)
    return v.mul(v.mul(y, power), rest)


def exp(v: Lanes, x: str) -> str:
    """e^x"""
    clamped = v.at_least(v.at_most(x, v.pick(88.73, 709.79)), v.pick(-104.0, -745.2))
    bits, n, r = _reduce_exp(v, clamped)
    q = v.polynomial(EXP_64 if v.double else EXP_32, r)
    y = v.add(v.muladd(v.mul(r, r), q, r), 1.0)
    return scale_by_power(v, y, bits, n)


def _reduce_log(v: Lanes, x: str) -> tuple[str, str]:
    """x = 2^k m for positive x: (m, k)."""
    offset = 0x3FE6A09E667F3BCD if v.double else 0x3F3504F3
    subnormal = v.compare("olt", x, 2.0 ** (1 - v.bias))
    scaled = v.select(subnormal, v.mul(x, 2.0 ** (v.mantissa + 1)), x)
    bits = v.iop("sub", v.to_bits(scaled), offset)
    k = v.from_int(v.iop("ashr", bits, v.mantissa))
    m = v.from_bits(v.iop("add", v.iop("and", bits, (1 << v.mantissa) - 1), offset))
    return m, v.sub(k, v.select(subnormal, float(v.mantissa + 1), 0.0))


def _log_specials(v: Lanes, x: str, y: str) -> str:
    """inf, 0, negative and NaN arguments of a logarithm."""
    y = v.select(v.compare("oeq", x, INF), INF, y)
    y = v.select(v.compare("ult", x, 0.0), NAN, y)
    return v.select(v.compare("oeq", x, 0.0), -INF, y)


def log(v: Lanes, x: str) -> str:
    """log x"""
    m, k = _reduce_log(v, x)
    f = v.sub(m, 1.0)
    if not v.double:
        z = v.mul(f, f)
        tail = v.mul(v.mul(z, f), v.polynomial(LOG_32, f))
        tail = v.muladd(z, -0.5, v.muladd(k, LN2_PARTS_32[1], tail))
        return _log_specials(v, x, v.fma(k, LN2_PARTS_32[0], v.add(f, tail)))
    s = v.div(f, v.add(f, 2.0))
    z = v.mul(s, s)
    half_square = v.mul(v.mul(f, f), 0.5)
    tail = v.mul(z, v.polynomial(LOG_64, z))
    tail = v.muladd(s, v.add(half_square, tail), v.mul(k, LN2_PARTS_64[1]))
    y = v.sub(f, v.sub(half_square, tail))
    return _log_specials(v, x, v.fma(k, LN2_PARTS_64[0], y))


def _expm1_core(v: Lanes, x: str) -> str:
    """e^x - 1 for |x| so small that 2^n is a normal number."""
    bits, _, r = _reduce_exp(v, x)
    em = v.muladd(v.mul(r, r), v.polynomial(EXP_64 if v.double else EXP_32, r), r)
    power = v.from_bits(
        v.iop("add", v.iop("shl", bits, v.mantissa), v.bias << v.mantissa)
    )
    return v.muladd(power, em, v.sub(power, 1.0))


def tanh(v: Lanes, x: str) -> str:
    """tanh |x| = -m / (2 + m) with m = e^(-2|x|) - 1, with the sign of x"""
    size = v.at_most(v.abs(x), v.pick(10.0, 22.0))
    m = _expm1_core(v, v.mul(size, -2.0))
    return v.copysign(v.div(m, v.add(m, 2.0)), x)


def logistic(v: Lanes, x: str) -> str:
    """1 / (1 + e^-x) = e^x / (1 + e^x), whichever has e^-|x|"""
    e = exp(v, v.neg(v.abs(x)))
    return v.div(v.select(v.compare("olt", x, 0.0), e, 1.0), v.add(e, 1.0))
