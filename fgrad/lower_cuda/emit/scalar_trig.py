"""L6. sin, cos and tan of float32 on the device, without float64 and without a stack.

They are the CPU's formulas with another reduction of large arguments, in integers: with x = m 2^e,
the product of m and 96 bits of 2/pi, from the one worth 2^(1 - e) on, is n mod 4 in its upper two
bits and a fraction below.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from fgrad.compile.llvm.vector import trig as vector_trig
from fgrad.compile.llvm.vector.lanes import Lanes
from fgrad.compile.llvm.vector.trig import TWO_OVER_PI_WORDS

_SIZE = 8  # words of 32 bits: zeros, then 2/pi as far as a float32 needs it
_TABLE = "@fgrad.two_over_pi_32"
# pi/2 2^-63 in two parts
_HALF_PI = (1.5707963705062866 * 2.0**-63, -4.371138828673793e-08 * 2.0**-63)


def _reduce_large(v: Lanes, x: str) -> tuple[str, str]:
    """x = n pi/2 + r for finite |x| >= 2^16: (n, r)"""
    bits = v.iop("and", v.to_bits(x), 0x7FFFFFFF)
    mantissa = v.iop("or", v.iop("and", bits, 0x7FFFFF), 0x800000)
    # The exponent e is (bits >> 23) - 150, and the zeros are 32 bits before the point.
    start = v.iop("sub", v.iop("lshr", bits, 23), 120)
    m, shift = _wide(v, mantissa), _wide(v, v.iop("and", start, 31))
    words = [_word(v, v.iop("lshr", start, 5), k) for k in range(4)]
    upper, middle, lower = [_funnel(v, a, b, shift) for a, b in pairwise(words)]
    carry = _op(v, "lshr", _op(v, "mul", m, lower), 32)
    sum_middle = _op(v, "add", _op(v, "mul", m, middle), carry)
    carry = _op(v, "lshr", sum_middle, 32)
    sum_upper = _op(v, "add", _op(v, "mul", m, upper), carry)
    low = _op(v, "and", sum_middle, 0xFFFFFFFF)
    turns = _op(v, "or", _op(v, "shl", sum_upper, 32), low)  # quarters, times 2^62
    nearest = _op(v, "lshr", _op(v, "add", turns, 1 << 61), 62)
    n = v.text.emit(f"trunc i64 {nearest} to i32")
    r = _angle(v, _op(v, "ashr", _op(v, "shl", turns, 2), 1))
    negative = v.compare("olt", x, 0.0)
    return v.iselect(negative, v.iop("sub", 0, n), n), v.select(negative, v.neg(r), r)


def _angle(v: Lanes, part: str) -> str:
    """part pi/2 2^-63, rounded once or so"""
    high = v.text.emit(f"sitofp i64 {part} to float")
    back = v.text.emit(f"fptosi float {high} to i64")
    low = v.text.emit(f"sitofp i64 {_op(v, 'sub', part, back)} to float")
    first, second = _HALF_PI
    return v.fma(high, first, v.fma(high, second, v.mul(low, first)))


def _op(v: Lanes, opcode: str, a: str, b: str | int) -> str:
    return v.text.emit(f"{opcode} i64 {a}, {b}")


def _wide(v: Lanes, word: str) -> str:
    return v.text.emit(f"zext i32 {word} to i64")


def _funnel(v: Lanes, a: str, b: str, shift: str) -> str:
    """32 bits of a and b from the given one on"""
    both = _op(v, "or", _op(v, "shl", a, 32), b)
    return _op(v, "lshr", _op(v, "shl", both, shift), 32)


def _word(v: Lanes, first: str, number: int) -> str:
    """A word of the table as i64."""
    bits = 0
    for word in TWO_OVER_PI_WORDS[1:5]:
        bits = bits << 64 | word
    words = [0, *[bits >> (256 - 32 * k) & 0xFFFFFFFF for k in range(1, _SIZE)]]
    values = ", ".join([f"i32 {word}" for word in words])
    kind = f"[{_SIZE} x i32]"
    v.text.declare(f"{_TABLE} = internal addrspace(4) constant {kind} [{values}], align 4")
    index = v.iop("add", first, number)
    place = v.text.emit(f"getelementptr {kind}, {kind} addrspace(4)* {_TABLE}, i32 0, i32 {index}")
    return _wide(v, v.text.emit(f"load i32, i32 addrspace(4)* {place}, align 4"))


TRIGONOMETRIC: dict[str, Callable[[Lanes, str], str]] = {
    name: partial(getattr(vector_trig, name), reduce_large=_reduce_large)
    for name in ("sin", "cos", "tan")
}
