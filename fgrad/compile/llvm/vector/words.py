"""L5. Instructions on 1 or more lanes of integers or bools, and the integer rows made of them.

Every result is defined: division by zero gives 0, overflow wraps, a shift by the width or more
gives 0 or -1, as in NumPy.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.llvm.text import FunctionText, constant, lane_type

_BOOL = np.dtype(np.bool_)


class Words:
    """Instructions on `lanes` integers or bools of one dtype."""

    __slots__ = ("bits", "bool", "dtype", "lanes", "signed", "text", "type")

    def __init__(self, text: FunctionText, lanes: int, dtype: np.dtype) -> None:
        self.text = text
        self.lanes = lanes
        self.dtype = dtype
        self.bits = dtype.itemsize * 8
        self.signed = dtype.kind == "i"
        self.type = lane_type(dtype, lanes)
        self.bool = lane_type(_BOOL, lanes)

    def operand(self, value: str | int) -> str:
        """An operand: SSA text as it is, a Python integer as a constant."""
        return value if isinstance(value, str) else constant(value, self.dtype, self.lanes)

    def op(self, opcode: str, a: str | int, b: str | int) -> str:
        """A binary instruction."""
        return self.text.emit(f"{opcode} {self.type} {self.operand(a)}, {self.operand(b)}")

    def compare(self, predicate: str, a: str | int, b: str | int) -> str:
        """icmp; lt, le, gt, ge take the dtype's signedness"""
        if predicate not in ("eq", "ne"):
            predicate = ("s" if self.signed else "u") + predicate
        return self.op(f"icmp {predicate}", a, b)

    def select(self, condition: str, a: str | int, b: str | int) -> str:
        """a where the condition holds, else b"""
        return self.text.emit(
            f"select {self.bool} {condition}, {self.type} {self.operand(a)}, "
            f"{self.type} {self.operand(b)}"
        )

    def logical(self, opcode: str, a: str, b: str) -> str:
        """and, or, xor of conditions"""
        return self.text.emit(f"{opcode} {self.bool} {a}, {b}")

    def cast(self, opcode: str, value: str, source: str, target: str) -> str:
        """A conversion between element types."""
        wide = (
            kind if self.lanes == 1 else f"<{self.lanes} x {kind}>" for kind in (source, target)
        )
        first, second = wide
        return self.text.emit(f"{opcode} {first} {value} to {second}")

    def call(self, name: str, *args: str, flags: str = "") -> str:
        """The intrinsic `llvm.<name>`; flags is a trailing immediate such as `i1 false`."""
        suffix = f"i{self.bits}" if self.lanes == 1 else f"v{self.lanes}i{self.bits}"
        symbol = f"@llvm.{name}.{suffix}"
        kinds = [self.type] * len(args) + ([flags.split()[0]] if flags else [])
        self.text.declare(f"declare {self.type} {symbol}({', '.join(kinds)})")
        operands = [f"{self.type} {arg}" for arg in args] + ([flags] if flags else [])
        return self.text.emit(f"call {self.type} {symbol}({', '.join(operands)})")

    def any_set(self, value: str) -> str:
        """An i1: whether any lane is not zero."""
        merged = value
        if self.lanes > 1:
            symbol = f"@llvm.vector.reduce.or.v{self.lanes}i{self.bits}"
            self.text.declare(f"declare i{self.bits} {symbol}({self.type})")
            merged = self.text.emit(f"call i{self.bits} {symbol}({self.type} {value})")
        return self.text.emit(f"icmp ne i{self.bits} {merged}, 0")


def add(w: Words, a: str, b: str) -> str:
    """a + b wrapping; or of bools"""
    return w.op("or" if w.dtype.kind == "b" else "add", a, b)


def subtract(w: Words, a: str, b: str) -> str:
    """a - b wrapping"""
    return w.op("sub", a, b)


def multiply(w: Words, a: str, b: str) -> str:
    """a b wrapping; and of bools"""
    return w.op("and" if w.dtype.kind == "b" else "mul", a, b)


def negative(w: Words, x: str) -> str:
    """-x wrapping"""
    return w.op("sub", 0, x)


def absolute(w: Words, x: str) -> str:
    """|x|; the smallest integer is its own"""
    return w.call("abs", x, flags="i1 false") if w.signed else x


def sign(w: Words, x: str) -> str:
    """-1, 0 or 1"""
    below = w.op("ashr", x, w.bits - 1) if w.signed else 0
    return w.select(w.compare("gt", x, 0), 1, below)


def invert(w: Words, x: str) -> str:
    """not x, bit by bit"""
    return w.op("xor", x, True if w.dtype.kind == "b" else -1 if w.signed else 2**w.bits - 1)


def maximum(w: Words, a: str, b: str) -> str:
    """max(a, b)"""
    if w.dtype.kind == "b":
        return w.op("or", a, b)
    return w.call("smax" if w.signed else "umax", a, b)


def minimum(w: Words, a: str, b: str) -> str:
    """min(a, b)"""
    if w.dtype.kind == "b":
        return w.op("and", a, b)
    return w.call("smin" if w.signed else "umin", a, b)


def _truncated_quotient(w: Words, a: str, b: str) -> str:
    """a / b toward zero for a divisor that neither is 0 nor overflows.

    Processors have no vector division of integers; a float of more bits than the dtype's gives the
    same quotient, because a/b is at least 1/|a| (relative) away from the next integer.
    """
    if w.lanes == 1 or w.bits == 64:
        return w.op("sdiv" if w.signed else "udiv", a, b)
    element = "double" if w.bits == 32 else "float"
    to_float, to_word = ("sitofp", "fptosi") if w.signed else ("uitofp", "fptoui")
    kind = f"i{w.bits}"
    floats = [w.cast(to_float, value, kind, element) for value in (a, b)]
    quotient = w.text.emit(f"fdiv <{w.lanes} x {element}> {floats[0]}, {floats[1]}")
    return w.cast(to_word, quotient, element, kind)


def _divide(w: Words, a: str, b: str) -> tuple[str, str, str]:
    """(a / b toward zero, the remainder with the sign of a, b == 0); both are 0 where b is 0."""
    by_zero = w.compare("eq", b, 0)
    unsafe = by_zero
    if w.signed:
        smallest = w.compare("eq", a, -(2 ** (w.bits - 1)))
        overflow = w.logical("and", smallest, w.compare("eq", b, -1))
        unsafe = w.logical("or", by_zero, overflow)
    divisor = w.select(unsafe, 1, b)
    quotient = _truncated_quotient(w, a, divisor)
    rest = w.op("sub", a, w.op("mul", quotient, divisor))
    return w.select(by_zero, 0, quotient), rest, by_zero


def _crosses_zero(w: Words, rest: str, b: str) -> str:
    """Whether rounding down and truncation differ: rest is not 0 and has another sign than b."""
    opposite = w.compare("lt", w.op("xor", rest, b), 0)
    return w.logical("and", w.compare("ne", rest, 0), opposite)


def fmod(w: Words, a: str, b: str) -> str:
    """The remainder with the sign of a; 0 for b = 0"""
    return _divide(w, a, b)[1]


def floor_divide(w: Words, a: str, b: str) -> str:
    """floor(a / b); 0 for b = 0"""
    quotient, rest, _ = _divide(w, a, b)
    if not w.signed:
        return quotient
    return w.select(_crosses_zero(w, rest, b), w.op("sub", quotient, 1), quotient)


def remainder(w: Words, a: str, b: str) -> str:
    """The remainder with the sign of b; 0 for b = 0"""
    _, rest, _ = _divide(w, a, b)
    if not w.signed:
        return rest
    return w.select(_crosses_zero(w, rest, b), w.op("add", rest, b), rest)


def power(w: Words, base: str, exponent: str) -> str:
    """base^exponent by squaring, wrapping, for exponents >= 0: a loop while a lane has bits left"""
    before = w.text.block
    loop, done = w.text.fresh("power")[1:], w.text.fresh("power_done")[1:]
    w.text.line(f"br label %{loop}")
    w.text.label(loop)
    result, square, left = (w.text.fresh() for _ in range(3))
    position = len(w.text.lines)
    odd = w.compare("ne", w.op("and", left, 1), 0)
    product = w.select(odd, w.op("mul", result, square), result)
    next_square = w.op("mul", square, square)
    next_left = w.op("lshr", left, 1)
    more = w.any_set(next_left)
    w.text.line(f"br i1 {more}, label %{loop}, label %{done}")
    starts = ((result, w.operand(1), product), (square, base, next_square))
    w.text.lines[position:position] = [
        f"  {name} = phi {w.type} [ {first}, %{before} ], [ {later}, %{loop} ]"
        for name, first, later in (*starts, (left, exponent, next_left))
    ]
    w.text.label(done)
    return product


def _shift_is_wide(w: Words, amount: str) -> str:
    """Whether the amount, as unsigned, is the width or more: negative amounts are."""
    return w.op("icmp ugt", amount, w.bits - 1)


def shift_left(w: Words, x: str, amount: str) -> str:
    """x << amount; 0 for an amount outside 0 ... width - 1"""
    wide = _shift_is_wide(w, amount)
    return w.select(wide, 0, w.op("shl", x, w.select(wide, 0, amount)))


def shift_right(w: Words, x: str, amount: str) -> str:
    """x >> amount; 0, or -1 for negative x, for an amount outside 0 ... width - 1"""
    wide = _shift_is_wide(w, amount)
    if w.signed:
        return w.op("ashr", x, w.select(wide, w.bits - 1, amount))
    return w.select(wide, 0, w.op("lshr", x, w.select(wide, 0, amount)))


def fits(intrinsic: str, w: Words, a: str, b: str) -> str:
    """Whether a sum, difference or product of signed integers does not wrap"""
    suffix = f"i{w.bits}" if w.lanes == 1 else f"v{w.lanes}i{w.bits}"
    pair, symbol = f"{{{w.type}, {w.bool}}}", f"@llvm.{intrinsic}.{suffix}"
    w.text.declare(f"declare {pair} {symbol}({w.type}, {w.type})")
    both = w.text.emit(f"call {pair} {symbol}({w.type} {a}, {w.type} {b})")
    wraps = w.text.emit(f"extractvalue {pair} {both}, 1")
    return Words(w.text, w.lanes, _BOOL).op("xor", wraps, True)


def multiply_high(w: Words, a: str, b: str) -> str:
    """The upper half of the product of unsigned integers"""
    kind, wide = f"i{w.bits}", f"i{2 * w.bits}"
    low, high = (w.cast("zext", value, kind, wide) for value in (a, b))
    vector = wide if w.lanes == 1 else f"<{w.lanes} x {wide}>"
    shift = str(w.bits) if w.lanes == 1 else f"splat ({wide} {w.bits})"
    product = w.text.emit(f"mul {vector} {low}, {high}")
    return w.cast("trunc", w.text.emit(f"lshr {vector} {product}, {shift}"), wide, kind)
