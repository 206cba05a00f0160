"""L5. Remainders, floor division and neighbours of floats, with NumPy's signs and special cases.

x - trunc(x/y) y is exact in one fused product while the quotient has fewer bits than the mantissa;
a vector with a larger quotient takes a rare block of long division in integers, lane by lane.
"""

from __future__ import annotations

from fgrad.compile.cpu.vector_lanes import INF, Lanes

# fmod_large(x, y) = |x| mod |y| for finite |x| >= |y| > 0: with x = m 2^e and y = n 2^f, 11 bits of
# m 2^(e - f) at a time.
_FMOD_TEXT = """\
define internal double @fgrad.fmod_large(double %x, double %y) noinline cold nounwind {
entry:
  %x_bits = bitcast double %x to i64
  %y_bits = bitcast double %y to i64
  %x_fraction = and i64 %x_bits, 4503599627370495
  %y_fraction = and i64 %y_bits, 4503599627370495
  %x_shifted = lshr i64 %x_bits, 52
  %y_shifted = lshr i64 %y_bits, 52
  %x_biased = and i64 %x_shifted, 2047
  %y_biased = and i64 %y_shifted, 2047
  %x_normal = icmp ne i64 %x_biased, 0
  %y_normal = icmp ne i64 %y_biased, 0
  %x_leading = select i1 %x_normal, i64 4503599627370496, i64 0
  %y_leading = select i1 %y_normal, i64 4503599627370496, i64 0
  %m = or i64 %x_fraction, %x_leading
  %n = or i64 %y_fraction, %y_leading
  %e = call i64 @llvm.umax.i64(i64 %x_biased, i64 1)
  %f = call i64 @llvm.umax.i64(i64 %y_biased, i64 1)
  %start = sub i64 %e, %f
  br label %loop
loop:
  %rest = phi i64 [ %m, %entry ], [ %raised, %body ]
  %left = phi i64 [ %start, %entry ], [ %remaining, %body ]
  %reduced = urem i64 %rest, %n
  %done = icmp eq i64 %left, 0
  br i1 %done, label %end, label %body
body:
  %step = call i64 @llvm.umin.i64(i64 %left, i64 11)
  %raised = shl i64 %reduced, %step
  %remaining = sub i64 %left, %step
  br label %loop
end:
  %integer = sitofp i64 %reduced to double
  %power = sub i64 %f, 1075
  %half = ashr i64 %power, 1
  %other = sub i64 %power, %half
  %half_biased = add i64 %half, 1023
  %other_biased = add i64 %other, 1023
  %half_bits = shl i64 %half_biased, 52
  %other_bits = shl i64 %other_biased, 52
  %half_power = bitcast i64 %half_bits to double
  %other_power = bitcast i64 %other_bits to double
  %scaled = fmul double %integer, %half_power
  %result = fmul double %scaled, %other_power
  ret double %result
}"""


def _fmod_one(v: Lanes, x: str, y: str) -> list[str]:
    """fmod_large of one lane."""
    text = v.text
    if v.double:
        return [text.emit(f"call double @fgrad.fmod_large(double {x}, double {y})")]
    wide = [text.emit(f"fpext float {value} to double") for value in (x, y)]
    rest = text.emit(f"call double @fgrad.fmod_large(double {wide[0]}, double {wide[1]})")
    return [text.emit(f"fptrunc double {rest} to float")]


def fmod(v: Lanes, x: str, y: str) -> str:
    """x - trunc(x / y) y exactly, with the sign of x"""
    size, divisor = v.abs(x), v.abs(y)
    quotient = v.div(size, divisor)
    rest = v.fma(v.neg(v.call("trunc", quotient)), divisor, size)
    rest = v.select(v.compare("olt", rest, 0.0), v.add(rest, divisor), rest)
    bound = 2.0 ** (v.mantissa - 1)
    usual = v.select(v.compare("olt", size, divisor), size, rest)

    def rare() -> list[str]:
        v.text.declare("declare i64 @llvm.umin.i64(i64, i64)")
        v.text.declare("declare i64 @llvm.umax.i64(i64, i64)")
        v.text.declare(_FMOD_TEXT)
        finite = v.logical("and", v.compare("olt", size, INF), v.compare("ogt", divisor, 0.0))
        large = v.logical("and", finite, v.compare("ogt", quotient, bound))
        operands = [v.select(large, size, 1.0), v.select(large, divisor, 1.0)]
        far = v.each_lane([v.element] * 2, operands, [v.element], lambda a, b: _fmod_one(v, a, b))
        return [v.select(large, far[0], usual)]

    needed = v.compare("ogt", quotient, bound)
    result = v.replace_rarely(needed, [(usual, v.float)], rare)
    return v.copysign(result[0], x)


def _differing_signs(v: Lanes, rest: str, y: str) -> str:
    """Whether a remainder that is not 0 has another sign than y."""
    opposite = v.logical("xor", v.compare("olt", rest, 0.0), v.compare("olt", y, 0.0))
    return v.logical("and", opposite, v.compare("une", rest, 0.0))


def remainder(v: Lanes, x: str, y: str) -> str:
    """x - floor(x / y) y, with the sign of y"""
    rest = fmod(v, x, y)
    moved = v.select(_differing_signs(v, rest, y), v.add(rest, y), rest)
    return v.select(v.compare("oeq", rest, 0.0), v.copysign(0.0, y), moved)


def floor_divide(v: Lanes, x: str, y: str) -> str:
    """(x - remainder) / y made integral; x / y for y = 0"""
    rest = fmod(v, x, y)
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
