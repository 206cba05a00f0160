"""L5. Remainders, floor division and neighbours of floats, with NumPy's signs and special cases.

x - trunc(x/y) y is exact in one fused product while the quotient has fewer bits than the mantissa;
a vector with a larger quotient takes a rare block, which calls the C library for those lanes.
"""

from __future__ import annotations

from fgrad.compile.llvm.vector.lanes import Lanes


def fmod(v: Lanes, x: str, y: str) -> str:
    """x - trunc(x / y) y exactly, with the sign of x"""
    size, divisor = v.abs(x), v.abs(y)
    quotient = v.div(size, divisor)
    rest = v.fma(v.neg(v.call("trunc", quotient)), divisor, size)
    rest = v.select(v.compare("olt", rest, 0.0), v.add(rest, divisor), rest)
    bound = 2.0 ** (v.mantissa - 1)
    usual = v.select(v.compare("olt", size, divisor), size, rest)

    far = v.compare("ogt", quotient, bound)

    def rare() -> list[str]:
        operands = [v.select(far, size, 1.0), v.select(far, divisor, 1.0)]
        return [v.select(far, v.libm("fmod", operands), usual)]

    result = v.replace_rarely(far, [(usual, v.float)], rare)
    return v.copysign(result[0], x)


def _differing_signs(v: Lanes, rest: str, y: str) -> str:
    """Whether a remainder that is not 0 has another sign than y."""
    opposite = v.logical("xor", v.compare("olt", rest, 0.0), v.compare("olt", y, 0.0))
    return v.logical("and", opposite, v.compare("une", rest, 0.0))


def remainder(v: Lanes, x: str, y: str) -> str:
    """x - floor(x / y) y, with the sign of y"""
    return floored_remainder(v, fmod(v, x, y), y)


def floored_remainder(v: Lanes, rest: str, y: str) -> str:
    """A remainder with the sign of the dividend -> with the sign of y"""
    moved = v.select(_differing_signs(v, rest, y), v.add(rest, y), rest)
    return v.select(v.compare("oeq", rest, 0.0), v.copysign(0.0, y), moved)


def floor_divide(v: Lanes, x: str, y: str) -> str:
    """(x - remainder) / y made integral; x / y for y = 0"""
    return floored_quotient(v, x, y, fmod(v, x, y))


def floored_quotient(v: Lanes, x: str, y: str, rest: str) -> str:
    """floor(x / y) from fmod(x, y)"""
    quotient = v.div(x, y)
    exact = v.div(v.sub(x, rest), y)
    exact = v.select(_differing_signs(v, rest, y), v.sub(exact, 1.0), exact)
    floor = v.call("floor", exact)
    up = v.compare("ogt", v.sub(exact, floor), 0.5)
    floor = v.select(up, v.add(floor, 1.0), floor)
    floor = v.select(v.compare("oeq", exact, 0.0), v.copysign(0.0, quotient), floor)
    return v.select(v.compare("oeq", y, 0.0), quotient, floor)


def nextafter(v: Lanes, x: str, y: str) -> str:
    """The neighbour of x in the direction of y"""
    outward, zero, stays = step_toward(v, x, y)
    moved = v.from_bits(v.iop("add", v.to_bits(x), v.iselect(outward, 1, -1)))
    smallest = v.copysign(v.pick(2.0**-149, 2.0**-1074), y)
    same = v.select(v.compare("uno", x, x), x, y)
    return v.select(stays, same, v.select(zero, smallest, moved))


def step_toward(v: Lanes, x: str, y: str) -> tuple[str, str, str]:
    """For nextafter: whether the bits of x grow, whether x is 0, whether x is y or one is NaN."""
    outward = v.logical("xor", v.compare("olt", x, y), v.compare("olt", x, 0.0))
    return outward, v.compare("oeq", x, 0.0), v.compare("ueq", x, y)
