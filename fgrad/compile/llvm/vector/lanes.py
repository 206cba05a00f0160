"""L5. A small vocabulary of float instructions on 1 or more lanes, for writing vector math.

`Lanes(text, 16, float32)` appends to a FunctionText; its methods take SSA operands or Python
numbers and return SSA operands, so that a formula reads as one: `v.fma(x, x, 1.0)`.  `fma` is one
rounding always (error-free transformations need it); `muladd` is fused where that is fast.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from fgrad.compile.kernel.machine import REGISTER_BITS
from fgrad.compile.llvm.text import FunctionText

_T = TypeVar("_T")
Operand = str | float

NAN = float("nan")
INF = float("inf")


@lru_cache(maxsize=8192)
def _constant_text(bits: bytes, element: str, lanes: int) -> str:
    """The text of the float64 with these bits, rounded to the element type."""
    value = struct.unpack("<d", bits)[0]
    if element == "float":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return text if lanes == 1 else f"splat ({element} {text})"


class Lanes:
    """Instructions on `lanes` elements of float32 or float64."""

    __slots__ = (
        "avx512", "narrow",
        "bias", "bits", "bool", "double", "element", "float", "int", "integer_element", "lanes",
        "mantissa", "suffix", "text",
    )  # fmt: skip

    def __init__(
        self, text: FunctionText, lanes: int, dtype: np.dtype, avx512: bool = False
    ) -> None:
        self.text = text
        self.lanes = lanes
        self.double = dtype.itemsize == 8
        self.bits = 64 if self.double else 32
        self.mantissa = 52 if self.double else 23
        self.bias = 1023 if self.double else 127
        self.avx512 = avx512 and lanes * self.bits % REGISTER_BITS == 0
        self.narrow = avx512 and not self.avx512
        self.element = "double" if self.double else "float"
        self.integer_element = f"i{self.bits}"
        self.float = self.vector(self.element)
        self.int = self.vector(self.integer_element)
        self.bool = self.vector("i1")
        self.suffix = f"f{self.bits}" if lanes == 1 else f"v{lanes}f{self.bits}"

    def vector(self, element: str) -> str:
        """The type of `lanes` elements of an LLVM scalar type."""
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def pick(self, single: _T, double: _T) -> _T:
        """The value for this precision."""
        return double if self.double else single

    # Constants.

    def number(self, value: Operand) -> str:
        """An operand: SSA text as it is, a Python float as a constant."""
        if isinstance(value, str):
            return value
        return _constant_text(struct.pack("<d", value), self.element, self.lanes)

    def integer(self, value: str | int) -> str:
        """An integer operand of the float's width."""
        if isinstance(value, str):
            return value
        return str(value) if self.lanes == 1 else f"splat ({self.integer_element} {value})"

    # Float arithmetic.

    def _binary(self, opcode: str, a: Operand, b: Operand) -> str:
        return self.text.emit(f"{opcode} {self.float} {self.number(a)}, {self.number(b)}")

    def add(self, a: Operand, b: Operand) -> str:
        """a + b"""
        return self._binary("fadd", a, b)

    def sub(self, a: Operand, b: Operand) -> str:
        """a - b"""
        return self._binary("fsub", a, b)

    def mul(self, a: Operand, b: Operand) -> str:
        """a b"""
        return self._binary("fmul", a, b)

    def div(self, a: Operand, b: Operand) -> str:
        """a / b"""
        return self._binary("fdiv", a, b)

    def neg(self, a: Operand) -> str:
        """-a, of zeros and NaN too"""
        return self.text.emit(f"fneg {self.float} {self.number(a)}")

    def call(self, name: str, *arguments: Operand) -> str:
        """The target-independent intrinsic `llvm.<name>` on floats."""
        symbol = f"@llvm.{name}.{self.suffix}"
        self.text.declare(
            f"declare {self.float} {symbol}({', '.join([self.float] * len(arguments))})"
        )
        operands = ", ".join(f"{self.float} {self.number(a)}" for a in arguments)
        return self.text.emit(f"call {self.float} {symbol}({operands})")

    def fma(self, a: Operand, b: Operand, c: Operand) -> str:
        """a b + c, rounded once on every target"""
        return self.call("fma", a, b, c)

    def muladd(self, a: Operand, b: Operand, c: Operand) -> str:
        """a b + c, fused where the target can"""
        return self.call("fmuladd", a, b, c)

    def abs(self, a: Operand) -> str:
        """|a|"""
        return self.call("fabs", a)

    def sqrt(self, a: Operand) -> str:
        """The square root, correctly rounded"""
        return self.call("sqrt", a)

    def copysign(self, a: Operand, b: Operand) -> str:
        """|a| with the sign bit of b"""
        return self.call("copysign", a, b)

    def polynomial(self, coefficients: Sequence[Operand], x: str) -> str:
        """sum_k c[k] x^k by Horner's rule in x^2 on pairs c[k] + c[k + 1] x: half the latency"""
        if len(coefficients) < 4:
            return self._horner([self.number(c) for c in coefficients], x)
        pairs = [
            self.muladd(high, x, low)
            for low, high in zip(coefficients[::2], coefficients[1::2], strict=False)
        ]
        if len(coefficients) % 2:
            pairs.append(self.number(coefficients[-1]))
        return self._horner(pairs, self.mul(x, x))

    def _horner(self, coefficients: Sequence[str], x: str) -> str:
        *lower, total = coefficients
        for coefficient in reversed(lower):
            total = self.muladd(total, x, coefficient)
        return total

    def fit(self, coefficients: Sequence[Sequence[float]], x: str) -> str:
        """The polynomial of this precision out of (float32, float64)."""
        return self.polynomial(coefficients[self.double], x)

    def fit_parts(self, coefficients: Sequence[Sequence[float]], x: str) -> tuple[str, str]:
        """A polynomial as high + low, its constant term too: only errors of later terms remain"""
        first, first_low, second, third, *rest = coefficients[self.double]
        tail = self.muladd(x, self.muladd(x, self.polynomial(rest, x), third), second)
        product = self.mul(x, tail)
        high = self.add(product, first)
        back = self.sub(high, first)
        error = self.add(self.sub(product, back), self.sub(first, self.sub(high, back)))
        below = self.fma(x, tail, self.neg(product))
        return high, self.add(error, self.add(below, first_low))

    # Comparison and choice.

    def compare(self, predicate: str, a: Operand, b: Operand) -> str:
        """fcmp; ordered predicates are false and unordered ones true on NaN"""
        return self.text.emit(f"fcmp {predicate} {self.float} {self.number(a)}, {self.number(b)}")

    def select(self, condition: str, a: Operand, b: Operand) -> str:
        """a where the condition holds, else b"""
        return self.text.emit(
            f"select {self.bool} {condition}, {self.float} {self.number(a)}, "
            f"{self.float} {self.number(b)}"
        )

    def at_most(self, a: str, bound: float) -> str:
        """min(a, bound); NaN stays"""
        return self.select(self.compare("ogt", a, bound), bound, a)

    def at_least(self, a: str, bound: float) -> str:
        """max(a, bound); NaN stays"""
        return self.select(self.compare("olt", a, bound), bound, a)

    def negate(self, condition: str) -> str:
        """not condition"""
        true = "true" if self.lanes == 1 else "splat (i1 true)"
        return self.text.emit(f"xor {self.bool} {condition}, {true}")

    def logical(self, opcode: str, a: str, b: str) -> str:
        """and, or, xor of conditions"""
        return self.text.emit(f"{opcode} {self.bool} {a}, {b}")

    # The bits of a float.

    def to_bits(self, a: Operand) -> str:
        """The float's bits as an integer"""
        return self.text.emit(f"bitcast {self.float} {self.number(a)} to {self.int}")

    def from_bits(self, a: str) -> str:
        """The float that has these bits"""
        return self.text.emit(f"bitcast {self.int} {a} to {self.float}")

    def iop(self, opcode: str, a: str | int, b: str | int) -> str:
        """An integer instruction of the float's width"""
        return self.text.emit(f"{opcode} {self.int} {self.integer(a)}, {self.integer(b)}")

    def icompare(self, predicate: str, a: str | int, b: str | int) -> str:
        """icmp on integers of the float's width"""
        return self.text.emit(f"icmp {predicate} {self.int} {self.integer(a)}, {self.integer(b)}")

    def iselect(self, condition: str, a: str | int, b: str | int) -> str:
        """a where the condition holds, else b, on integers"""
        return self.text.emit(
            f"select {self.bool} {condition}, {self.int} {self.integer(a)}, "
            f"{self.int} {self.integer(b)}"
        )

    def exponent_field(self, bits: str) -> str:
        """The upper bits, above the mantissa, as a float: no target lacks these instructions"""
        field = self.iop("lshr", bits, self.mantissa)
        scale = (self.bias + self.mantissa) << self.mantissa
        return self.sub(self.from_bits(self.iop("or", field, scale)), 2.0**self.mantissa)

    def round_magic(self) -> float:
        """1.5 * 2^mantissa: adding it rounds to an integer, which stands in the low bits"""
        return 1.5 * 2.0**self.mantissa

    # Instructions that only AVX-512 has, for whole registers of it.

    def scale_by_exponent(self, a: str, n: str) -> str:
        """a 2^n for integral n, rounded once; infinite n too"""
        return self._avx512("scalef", (a, n), "", "i32 4")

    def exponent(self, a: str) -> str:
        """floor(log2|a|), of subnormals too; -inf for 0, inf for inf"""
        return self._avx512("getexp", (a,), "", "i32 4")

    def significand(self, a: str) -> str:
        """a 2^-exponent in [1, 2); 1 for inf, NaN for negative a"""
        return self._avx512("getmant", (a,), "i32 8", "i32 4")

    def lookup(self, table: Sequence[float], bits: str) -> str:
        """table[bits mod len(table)] for a table that fills one register"""
        width = REGISTER_BITS // self.bits
        kind, words = f"<{width} x {self.element}>", f"<{width} x {self.integer_element}>"
        symbol = f"@llvm.x86.avx512.permvar.{'df' if self.double else 'sf'}.512"
        self.text.declare(f"declare {kind} {symbol}({kind}, {words})")
        numbers = [_constant_text(struct.pack("<d", x), self.element, 1) for x in table]
        held = "<" + ", ".join([f"{self.element} {number}" for number in numbers]) + ">"
        parts = []
        for start in range(0, self.lanes, width):
            index = self._piece(bits, self.int, start, width)
            parts.append(self.text.emit(f"call {kind} {symbol}({kind} {held}, {words} {index})"))
        return self._joined(parts)

    def lookup_fit(self, coefficients: Sequence[Sequence[float]], bits: str, x: str) -> str:
        """The polynomial in x whose coefficients are `lookup(row, bits)`, rounded late"""
        first, second, *rest = [self.lookup(row, bits) for row in coefficients]
        return self.muladd(x, self.muladd(x, self.polynomial(rest, x), second), first)

    def _avx512(self, name: str, operands: Sequence[str], immediate: str, rounding: str) -> str:
        width = REGISTER_BITS // self.bits
        kind = f"<{width} x {self.element}>"
        symbol = f"@llvm.x86.avx512.mask.{name}.{'pd' if self.double else 'ps'}.512"
        kinds = [kind] * len(operands) + ["i32"] * bool(immediate) + [kind, f"i{width}", "i32"]
        self.text.declare(f"declare {kind} {symbol}({', '.join(kinds)})")
        parts = []
        for start in range(0, self.lanes, width):
            values = [f"{kind} {self._piece(a, self.float, start, width)}" for a in operands]
            values += [immediate] * bool(immediate)
            values += [f"{kind} zeroinitializer", f"i{width} -1", rounding]
            parts.append(self.text.emit(f"call {kind} {symbol}({', '.join(values)})"))
        return self._joined(parts)

    def _joined(self, parts: list[str]) -> str:
        """Float registers as one vector."""
        while len(parts) > 1:
            count = self.lanes // len(parts)
            order = ", ".join(f"i32 {k}" for k in range(2 * count))
            half = f"<{count} x {self.element}>"
            parts = [
                self.text.emit(
                    f"shufflevector {half} {a}, {half} {b}, <{2 * count} x i32> <{order}>"
                )
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def _piece(self, a: str, kind: str, start: int, width: int) -> str:
        if width == self.lanes:
            return a
        order = ", ".join(f"i32 {start + k}" for k in range(width))
        return self.text.emit(f"shufflevector {kind} {a}, {kind} poison, <{width} x i32> <{order}>")

    def in_register(self, function: Callable[..., str], *values: str) -> str:
        """function(lanes, *values) on a whole register, which holds these few lanes repeatedly"""
        text, count = self.text, REGISTER_BITS // self.bits
        whole = Lanes(text, count, np.dtype(f"f{self.bits // 8}"), True)
        repeated = ", ".join([f"i32 {k % self.lanes}" for k in range(count)])
        first = ", ".join([f"i32 {k}" for k in range(self.lanes)])
        wide = []
        for value in values:
            kind = self.float
            if self.lanes == 1:
                kind = f"<1 x {self.element}>"
                value = text.emit(f"insertelement {kind} poison, {self.float} {value}, i64 0")
            operands = f"{kind} {value}, {kind} poison"
            wide.append(text.emit(f"shufflevector {operands}, <{count} x i32> <{repeated}>"))
        result = function(whole, *wide)
        if self.lanes == 1:
            return text.emit(f"extractelement {whole.float} {result}, i64 0")
        operands = f"{whole.float} {result}, {whole.float} poison"
        return text.emit(f"shufflevector {operands}, <{self.lanes} x i32> <{first}>")

    # Rare cases.

    def any_lane(self, mask: str) -> str:
        """An i1: whether the condition holds in any lane."""
        if self.lanes == 1:
            return mask
        symbol = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.text.declare(f"declare i1 {symbol}({self.bool})")
        return self.text.emit(f"call i1 {symbol}({self.bool} {mask})")

    def replace_rarely(
        self, mask: str, usual: Sequence[tuple[str, str]], rare: Callable[[], Sequence[str]]
    ) -> list[str]:
        """The usual (value, type) pairs, replaced by those that `rare` emits if any lane needs it.

        `rare` runs in a block of its own, which is entered only if the mask holds in some lane; it
        returns values that are right in all lanes.
        """
        text = self.text
        stem = text.fresh("rare")[1:]
        before = text.block
        text.line(f"br i1 {self.any_lane(mask)}, label %{stem}, label %{stem}_done")
        text.label(stem)
        replaced = rare()
        last = text.block
        text.line(f"br label %{stem}_done")
        text.label(f"{stem}_done")
        return [
            text.emit(f"phi {kind} [ {value}, %{before} ], [ {other}, %{last} ]")
            for (value, kind), other in zip(usual, replaced, strict=True)
        ]

    def each_lane(
        self, kinds: Sequence[str], values: Sequence[str], results: Sequence[str],
        function: Callable[..., Sequence[str]],
    ) -> list[str]:  # fmt: skip
        """A loop over the lanes: function(scalars) emits scalar code with these results."""
        if self.lanes == 1:
            return list(function(*values))
        text = self.text
        stem, before = text.fresh("lane")[1:], text.block
        text.line(f"br label %{stem}")
        text.label(stem)
        index = text.fresh()
        partial = [text.fresh() for _ in results]
        start = len(text.lines)
        scalars = [
            text.emit(f"extractelement {self.vector(kind)} {value}, i32 {index}")
            for kind, value in zip(kinds, values, strict=True)
        ]
        found = function(*scalars)
        full = [
            text.emit(f"insertelement {self.vector(kind)} {part}, {kind} {value}, i32 {index}")
            for kind, part, value in zip(results, partial, found, strict=True)
        ]
        following = text.emit(f"add i32 {index}, 1")
        done = text.emit(f"icmp eq i32 {following}, {self.lanes}")
        last = text.block
        text.line(f"br i1 {done}, label %{stem}_done, label %{stem}")
        text.lines[start:start] = [
            f"  {index} = phi i32 [ 0, %{before} ], [ {following}, %{last} ]",
            *(
                f"  {part} = phi {self.vector(kind)} [ poison, %{before} ], [ {value}, %{last} ]"
                for part, kind, value in zip(partial, results, full, strict=True)
            ),
        ]
        text.label(f"{stem}_done")
        return full

    def libm(self, name: str, values: Sequence[str]) -> str:
        """The C library's function of float64, lane by lane: slow, and right everywhere"""

        def call(*scalars: str) -> list[str]:
            text = self.text
            text.declare(f"declare double @{name}({', '.join(['double'] * len(values))})")
            if not self.double:
                scalars = tuple(text.emit(f"fpext float {value} to double") for value in scalars)
            operands = ", ".join(f"double {value}" for value in scalars)
            result = text.emit(f"call double @{name}({operands}) cold nounwind")
            return [result if self.double else text.emit(f"fptrunc double {result} to float")]

        return self.each_lane([self.element] * len(values), values, [self.element], call)[0]
