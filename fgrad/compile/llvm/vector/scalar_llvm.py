"""L5. One row of LLVM instructions per scalar operation: SCALAR_LLVM[name](text, lanes, ...).

A row appends instructions to a FunctionText and returns the operand that holds the result.  With
one lane the operands are scalars, else vectors of `lanes` elements; bools are i1.  Semantics are
those of kernel.scalar.SCALAR_OPS, which are NumPy's: nothing here is undefined for any operand.
float16 is computed in float32 and rounded back after each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fgrad.compile.llvm.text import FunctionText, constant, lane_type
from fgrad.compile.llvm.vector import divide as vector_divide
from fgrad.compile.llvm.vector import words
from fgrad.compile.llvm.vector.lanes import Lanes
from fgrad.compile.llvm.vector.math import VECTOR_MATH
from fgrad.compile.llvm.vector.words import Words

ScalarEmitter = Callable[[FunctionText, int, Sequence[str], np.dtype, np.dtype], str]

_BOOL = np.dtype(np.bool_)
_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)
_DOUBLE = np.dtype(np.float64)
_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)


def _cast(text: FunctionText, lanes: int, opcode: str, arg: str, a: np.dtype, b: np.dtype) -> str:
    return text.emit(f"{opcode} {lane_type(a, lanes)} {arg} to {lane_type(b, lanes)}")


# Functions on floats.


def _with_floats(function: Callable[..., str], avx512: bool = False) -> ScalarEmitter:
    """The row of a function on Lanes; float16 operands and result pass through float32."""

    def row(
        text: FunctionText,
        lanes: int,
        args: Sequence[str],
        dtype: np.dtype,
        result: np.dtype,
    ) -> str:
        if dtype != _HALF:
            return function(Lanes(text, lanes, dtype, avx512), *args)
        wide = [_cast(text, lanes, "fpext", arg, _HALF, _SINGLE) for arg in args]
        value = function(Lanes(text, lanes, _SINGLE, avx512), *wide)
        if result.kind == "b":
            return value
        return _cast(text, lanes, "fptrunc", value, _SINGLE, _HALF)

    return row


def _with_words(function: Callable[..., str]) -> ScalarEmitter:
    """The row of a function on integer words."""

    def row(
        text: FunctionText,
        lanes: int,
        args: Sequence[str],
        dtype: np.dtype,
        result: np.dtype,
    ) -> str:
        return function(Words(text, lanes, dtype), *args)

    return row


def _by_kind(
    on_float: Callable[..., str] | None,
    on_word: Callable[..., str] | None,
    avx512: bool = False,
) -> ScalarEmitter:
    """One row for floats and one for integers and bools."""
    float_row = _with_floats(on_float, avx512) if on_float else None
    word_row = _with_words(on_word) if on_word else None

    def row(
        text: FunctionText,
        lanes: int,
        args: Sequence[str],
        dtype: np.dtype,
        result: np.dtype,
    ) -> str:
        chosen = float_row if dtype.kind == "f" else word_row
        if chosen is None:
            raise TypeError(f"a scalar operation has no row for {dtype}")
        return chosen(text, lanes, args, dtype, result)

    return row


def _arithmetic(opcode: str) -> Callable[..., str]:
    return lambda v, *args: v.text.emit(f"{opcode} {v.float} {', '.join(args)}")


def _intrinsic(name: str) -> Callable[..., str]:
    return lambda v, *args: v.call(name, *args)


def _float_extremum(predicate: str) -> Callable[..., str]:
    """max and min: NaN if either operand is NaN."""

    def extremum(v: Lanes, a: str, b: str) -> str:
        # The first select is the target's max/min instruction: b if either operand is NaN.
        chosen = v.select(v.compare(predicate, a, b), a, b)
        return v.select(v.compare("uno", a, a), a, chosen)

    return extremum


def _float_sign(v: Lanes, x: str) -> str:
    """-1, 0, 1, and NaN as it is"""
    signed = v.select(v.compare("olt", x, 0.0), -1.0, v.select(v.compare("ogt", x, 0.0), 1.0, 0.0))
    return v.select(v.compare("uno", x, x), x, signed)


def _float_signbit(v: Lanes, x: str) -> str:
    return v.icompare("slt", v.to_bits(x), 0)


def _compare(float_predicate: str, word_predicate: str) -> ScalarEmitter:
    def on_float(v: Lanes, a: str, b: str) -> str:
        return v.compare(float_predicate, a, b)

    def on_word(w: Words, a: str, b: str) -> str:
        return w.compare(word_predicate, a, b)

    return _by_kind(on_float, on_word)


def _select(
    text: FunctionText,
    lanes: int,
    args: Sequence[str],
    dtype: np.dtype,
    result: np.dtype,
) -> str:
    """args[1] where args[0] holds, else args[2]"""
    kind = lane_type(result, lanes)
    condition = lane_type(_BOOL, lanes)
    return text.emit(f"select {condition} {args[0]}, {kind} {args[1]}, {kind} {args[2]}")


def _nextafter(
    text: FunctionText, lanes: int, args: Sequence[str], dtype: np.dtype, result: np.dtype
) -> str:
    """The neighbour of args[0] toward args[1]; float16 steps on its own bits."""
    if dtype != _HALF:
        return vector_divide.nextafter(Lanes(text, lanes, dtype), *args)
    v, w = Lanes(text, lanes, _SINGLE), Words(text, lanes, np.dtype(np.int16))
    x, y = (_cast(text, lanes, "fpext", arg, _HALF, _SINGLE) for arg in args)
    outward, zero, stays = vector_divide.step_toward(v, x, y)
    bits, toward = (_cast(text, lanes, "bitcast", arg, _HALF, w.dtype) for arg in args)
    smallest = w.op("or", w.op("and", toward, -(2**15)), 1)
    moved = w.select(zero, smallest, w.op("add", bits, w.select(outward, 1, -1)))
    same = w.select(v.compare("uno", y, y), toward, bits)
    return _cast(text, lanes, "bitcast", w.select(stays, same, moved), w.dtype, _HALF)


# Conversions.


def _float_to_word(
    text: FunctionText, lanes: int, arg: str, source: np.dtype, target: np.dtype
) -> str:
    """Truncate; out of range and NaN give what x86 gives: 2^31 or 2^63 as bits, then cut."""
    if source == _HALF:
        arg, source = _cast(text, lanes, "fpext", arg, _HALF, _SINGLE), _SINGLE
    v = Lanes(text, lanes, source)
    if target.kind == "u" and target.itemsize == 8:
        return _float_to_u64(v, arg)
    wide = _I64 if target.itemsize == 8 or target == np.dtype(np.uint32) else _I32
    value = _guarded_truncation(v, arg, wide)
    if target.itemsize == wide.itemsize:
        return value
    return _cast(text, lanes, "trunc", value, wide, target)


def _guarded_truncation(v: Lanes, x: str, target: np.dtype) -> str:
    """fptosi with the smallest integer wherever it would be poison."""
    bits = target.itemsize * 8
    inside = v.compare("olt", v.abs(x), 2.0 ** (bits - 1))
    safe = v.select(inside, x, 0.0)
    kind = lane_type(target, v.lanes)
    value = v.text.emit(f"fptosi {v.float} {safe} to {kind}")
    smallest = constant(-(2 ** (bits - 1)), target, v.lanes)
    return v.text.emit(f"select {v.bool} {inside}, {kind} {value}, {kind} {smallest}")


def _float_to_u64(v: Lanes, x: str) -> str:
    """Below 2^63 as for int64, else 2^63 + (x - 2^63)."""
    large = v.compare("oge", x, 2.0**63)
    value = _guarded_truncation(v, v.select(large, v.sub(x, 2.0**63), x), _I64)
    top = constant(-(2**63), _I64, v.lanes)
    zero = constant(0, _I64, v.lanes)
    kind = lane_type(_I64, v.lanes)
    flip = v.text.emit(f"select {v.bool} {large}, {kind} {top}, {kind} {zero}")
    return v.text.emit(f"xor {kind} {value}, {flip}")


def _double_to_half(text: FunctionText, lanes: int, arg: str) -> str:
    """Round float64 to odd in float32 first, so that the second rounding is the only one."""
    single = _cast(text, lanes, "fptrunc", arg, _DOUBLE, _SINGLE)
    back = _cast(text, lanes, "fpext", single, _SINGLE, _DOUBLE)
    v, w = Lanes(text, lanes, _SINGLE), Lanes(text, lanes, _DOUBLE)
    bits = v.to_bits(single)
    inexact = w.compare("one", back, arg)
    too_large = w.compare("ogt", w.abs(back), w.abs(arg))
    bits = v.iselect(too_large, v.iop("sub", bits, 1), bits)
    odd = v.from_bits(v.iselect(inexact, v.iop("or", bits, 1), bits))
    return _cast(text, lanes, "fptrunc", odd, _SINGLE, _HALF)


def _convert(
    text: FunctionText,
    lanes: int,
    args: Sequence[str],
    source: np.dtype,
    target: np.dtype,
) -> str:
    """ndarray.astype: truncation of floats, wrapping of integers, truth of a bool."""
    arg = args[0]
    if source == target:
        return arg
    if target.kind == "b":
        compare = "fcmp une" if source.kind == "f" else "icmp ne"
        zero = constant(0, source, lanes)
        return text.emit(f"{compare} {lane_type(source, lanes)} {arg}, {zero}")
    if source.kind == "f" and target.kind == "f":
        if source == _DOUBLE and target == _HALF:
            return _double_to_half(text, lanes, arg)
        opcode = "fpext" if target.itemsize > source.itemsize else "fptrunc"
        return _cast(text, lanes, opcode, arg, source, target)
    if source.kind == "f":
        return _float_to_word(text, lanes, arg, source, target)
    if target.kind == "f":
        opcode = "sitofp" if source.kind == "i" else "uitofp"
        if target != _HALF:
            return _cast(text, lanes, opcode, arg, source, target)
        single = _cast(text, lanes, opcode, arg, source, _SINGLE)
        return _cast(text, lanes, "fptrunc", single, _SINGLE, _HALF)
    if source.kind != "b" and source.itemsize == target.itemsize:
        return arg
    if source.kind != "b" and source.itemsize > target.itemsize:
        return _cast(text, lanes, "trunc", arg, source, target)
    return _cast(text, lanes, "sext" if source.kind == "i" else "zext", arg, source, target)


def _bitcast(
    text: FunctionText,
    lanes: int,
    args: Sequence[str],
    source: np.dtype,
    target: np.dtype,
) -> str:
    """The same bits as another dtype of the same width."""
    if lane_type(source, lanes) == lane_type(target, lanes):
        return args[0]
    return _cast(text, lanes, "bitcast", args[0], source, target)


_MATH_ON_WORDS = {
    "floor_divide": words.floor_divide,
    "remainder": words.remainder,
    "fmod": words.fmod,
    "pow": words.power,
}

# Steps of an accumulator.  A product that is summed may become a fused multiply-add here, and only
# here: an element that two loops compute must have the same bits in both, or `x == max(x)` fails.
ACCUMULATE: dict[str, ScalarEmitter] = {
    "add": _by_kind(_arithmetic("fadd contract"), words.add),
}

SCALAR_LLVM: dict[str, ScalarEmitter] = {
    **{name: _with_floats(function) for name, function in VECTOR_MATH.items()},
    **{name: _with_floats(_intrinsic(name)) for name in ("floor", "ceil", "trunc", "copysign")},
    "rint": _with_floats(_intrinsic("rint")),
    "neg": _by_kind(Lanes.neg, words.negative),
    "abs": _by_kind(Lanes.abs, words.absolute),
    "sign": _by_kind(_float_sign, words.sign),
    "not": _by_kind(None, words.invert),
    "isnan": _with_floats(lambda v, x: v.compare("uno", x, x)),
    "isinf": _with_floats(lambda v, x: v.compare("oeq", v.abs(x), float("inf"))),
    "isfinite": _with_floats(lambda v, x: v.compare("olt", v.abs(x), float("inf"))),
    "signbit": _with_floats(_float_signbit),
    "add": _by_kind(_arithmetic("fadd"), words.add),
    "sub": _by_kind(_arithmetic("fsub"), words.subtract),
    "mul": _by_kind(_arithmetic("fmul contract"), words.multiply),
    "muladd": _with_floats(Lanes.muladd),
    "div": _with_floats(Lanes.div),
    "max": _by_kind(_float_extremum("ogt"), words.maximum),
    "min": _by_kind(_float_extremum("olt"), words.minimum),
    **{
        name: _by_kind(None, partial(lambda opcode, w, a, b: w.op(opcode, a, b), name))
        for name in ("and", "or", "xor")
    },
    "shift_left": _with_words(words.shift_left),
    "shift_right": _with_words(words.shift_right),
    **{
        f"{name}_fits": _with_words(partial(words.fits, f"s{name}.with.overflow"))
        for name in ("add", "sub", "mul")
    },
    "mulhi": _with_words(words.multiply_high),
    **{name: _by_kind(VECTOR_MATH[name], function) for name, function in _MATH_ON_WORDS.items()},
    "eq": _compare("oeq", "eq"),
    "ne": _compare("une", "ne"),
    "lt": _compare("olt", "lt"),
    "le": _compare("ole", "le"),
    "gt": _compare("ogt", "gt"),
    "ge": _compare("oge", "ge"),
    "select": _select,
    "nextafter": _nextafter,
    "convert": _convert,
    "bitcast": _bitcast,
}

# The rows that have instructions of their own on processors with AVX-512.
AVX512_LLVM: dict[str, ScalarEmitter] = {
    **SCALAR_LLVM,
    **{name: _with_floats(function, True) for name, function in VECTOR_MATH.items()},
    **{
        name: _by_kind(VECTOR_MATH[name], function, True)
        for name, function in _MATH_ON_WORDS.items()
    },
}


def scalar_table(features: str) -> dict[str, ScalarEmitter]:
    """The rows for a processor with these LLVM features, such as "+avx512f,-sse4a"."""
    return AVX512_LLVM if "+avx512f" in features.split(",") else SCALAR_LLVM
