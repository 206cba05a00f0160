"""L5. The circular functions and their inverses, as vector instructions.

Coefficients: benchmarks/derive_coefficients.py.
"""

from __future__ import annotations

from fgrad.compile.cpu.vector_lanes import Lanes

# (sin r / r - 1) / r^2 and (cos r - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4 + 0.004: relative to r and to
# 1 the errors are 2^-28.0 and 2^-33.2 (32), 2^-57.9 and 2^-64.1 (64).
SIN_32 = (-0.1666665458711439, 0.00833215480472901, -0.00019514042868950046)
COS_32 = (0.04166664626806624, -0.001388733702105716, 2.4434831236078088e-05)
SIN_64 = (
    -0.1666666666666663, 0.008333333333321858, -0.00019841269829342392, 2.755731352426392e-06,
    -2.5050730983945487e-08, 1.5895176060202708e-10,
)  # fmt: skip
COS_64 = (
    0.041666666666666595, -0.0013888888888873374, 2.4801587288992562e-05, -2.7557314205332246e-07,
    2.087570259588456e-09, -1.1358543784468116e-11,
)  # fmt: skip

# pi/2 in three parts of working precision.
HALF_PI_32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
HALF_PI_64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)


def _reduce(v: Lanes, x: str) -> tuple[str, str]:
    """x = n pi/2 + r: (bits whose low end holds n, r)."""
    shifted = v.fma(x, 0.6366197723675814, v.round_magic())
    n = v.sub(shifted, v.round_magic())
    r = x
    for part in HALF_PI_64 if v.double else HALF_PI_32:
        r = v.fma(n, -part, r)
    return v.to_bits(shifted), r


def _sin_or_cos(v: Lanes, x: str, quarter: int) -> str:
    """sin(x + quarter pi/2)"""
    n, r = _reduce(v, x)
    z = v.mul(r, r)
    sine = v.muladd(v.mul(z, r), v.polynomial(SIN_64 if v.double else SIN_32, z), r)
    cosine = v.muladd(
        v.mul(z, z),
        v.polynomial(COS_64 if v.double else COS_32, z),
        v.muladd(z, -0.5, 1.0),
    )
    if quarter:
        n = v.iop("add", n, quarter)
    odd = v.icompare("ne", v.iop("and", n, 1), 0)
    sign = v.iop("shl", v.iop("and", n, 2), v.bits - 2)
    return v.from_bits(v.iop("xor", v.to_bits(v.select(odd, cosine, sine)), sign))


def sin(v: Lanes, x: str) -> str:
    """sin x"""
    return _sin_or_cos(v, x, 0)


def cos(v: Lanes, x: str) -> str:
    """cos x"""
    return _sin_or_cos(v, x, 1)
