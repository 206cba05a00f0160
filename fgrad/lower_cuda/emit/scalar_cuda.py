"""L6. One row of LLVM 7 text per scalar operation: SCALAR_CUDA[name](text, args, dtype, result).

A row appends instructions to a FunctionText and returns the operand that holds the result, as those
of `scalar_llvm.py` do for one lane; most are those, in the older language of libNVVM.
Semantics are those of kernel.scalar.SCALAR_OPS.  Transcendental functions are libdevice's, but for
digamma, which it lacks, lgamma of float64, whose registers would spill, and sin, cos and tan of
float32, which would use float64.  float16 is computed in float32 and rounded back after each
operation, and no row of float32 has an instruction of float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.compile.llvm.text import FunctionText, element_type
from fgrad.compile.llvm.vector import divide as vector_divide
from fgrad.compile.llvm.vector import special as vector_special
from fgrad.compile.llvm.vector.lanes import INF, Lanes
from fgrad.compile.llvm.vector.scalar_llvm import SCALAR_LLVM
from fgrad.compile.llvm.vector.words import Words
from fgrad.lower_cuda.emit.scalar_trig import TRIGONOMETRIC

ScalarCuda = Callable[[FunctionText, Sequence[str], np.dtype, np.dtype], str]

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.float32)


def _as_on_cpu(name: str) -> ScalarCuda:
    """The CPU's row for one lane."""
    on_cpu = SCALAR_LLVM[name]

    def row(text: FunctionText, args: Sequence[str], dtype: np.dtype, result: np.dtype) -> str:
        start = len(text.lines)
        value = on_cpu(text, 1, args, dtype, result)
        text.lines[start:] = [_in_llvm_7(line) for line in text.lines[start:]]
        return value

    return row


def _in_llvm_7(line: str) -> str:
    """fneg float %x -> fsub float -0.0, %x"""
    return re.sub(r"\bfneg (\w+) ", r"fsub \1 -0.0, ", line)


def _on_floats(function: Callable[..., str], on_words: str = "") -> ScalarCuda:
    """A row made of a function on Lanes; float16 passes through float32.

    Arguments:
        function: writes instructions for float32 or float64.
        on_words: the row of the CPU that is taken for integers.
    """
    words = _as_on_cpu(on_words) if on_words else None

    def row(text: FunctionText, args: Sequence[str], dtype: np.dtype, result: np.dtype) -> str:
        if words is not None and dtype.kind != "f":
            return words(text, args, dtype, result)
        start = len(text.lines)
        if dtype == _HALF:
            args = [text.emit(f"fpext half {arg} to float") for arg in args]
        value = function(Lanes(text, 1, _SINGLE if dtype == _HALF else dtype), *args)
        if dtype == _HALF:
            value = text.emit(f"fptrunc float {value} to half")
        text.lines[start:] = [_in_llvm_7(line) for line in text.lines[start:]]
        return value

    return row


def _libdevice(v: Lanes, name: str, *args: str) -> str:
    """A function of NVIDIA's library."""
    symbol = f"@__nv_{name}" + v.pick("f", "")
    v.text.declare(f"declare {v.float} {symbol}({', '.join([v.float] * len(args))})")
    return v.text.emit(f"call {v.float} {symbol}({', '.join([f'{v.float} {x}' for x in args])})")


def _library(name: str) -> Callable[..., str]:
    return lambda v, *args: _libdevice(v, name, *args)


def _trigonometric(name: str) -> Callable[..., str]:
    """libdevice's for float64, own ones for float32."""
    single = TRIGONOMETRIC[name]
    return lambda v, x: _libdevice(v, name, x) if v.double else single(v, x)


def _remainder(v: Lanes, x: str, y: str) -> str:
    return vector_divide.floored_remainder(v, _libdevice(v, "fmod", x, y), y)


def _floor_divide(v: Lanes, x: str, y: str) -> str:
    return vector_divide.floored_quotient(v, x, y, _libdevice(v, "fmod", x, y))


def _lgamma(v: Lanes, x: str) -> str:
    """The CPU's formula in float64, where libdevice's needs more registers than there are."""
    if v.double:
        return vector_special.lgamma(v, x)
    # -inf at -inf, as SciPy's
    return v.select(v.compare("oeq", v.abs(x), INF), x, _libdevice(v, "lgamma", x))


def _logistic(v: Lanes, x: str) -> str:
    """m - m e / (1 + e) with e = e^-|x| and m = 1, or e below 0"""
    e = _libdevice(v, "exp", v.neg(v.abs(x)))
    part = v.div(e, v.add(e, 1.0))
    m = v.select(v.compare("olt", x, 0.0), e, 1.0)
    return v.fma(v.neg(m), part, m)


# Integers.


def _absolute(text: FunctionText, args: Sequence[str], dtype: np.dtype, result: np.dtype) -> str:
    if dtype.kind != "i":
        return _as_on_cpu("abs")(text, args, dtype, result)
    w = Words(text, 1, dtype)
    return w.select(w.compare("lt", args[0], 0), w.op("sub", 0, args[0]), args[0])


def _extremum(name: str, predicate: str) -> ScalarCuda:
    on_cpu = _as_on_cpu(name)

    def row(text: FunctionText, args: Sequence[str], dtype: np.dtype, result: np.dtype) -> str:
        if dtype.kind not in "iu":
            return on_cpu(text, args, dtype, result)
        w = Words(text, 1, dtype)
        return w.select(w.compare(predicate, *args), *args)

    return row


def _multiply_high(
    text: FunctionText, args: Sequence[str], dtype: np.dtype, result: np.dtype
) -> str:
    """The device has an instruction for words of 32 and 64 bits."""
    if dtype.itemsize < 4:
        return _as_on_cpu("mulhi")(text, args, dtype, result)
    kind = element_type(dtype)
    symbol = "@__nv_umulhi" if kind == "i32" else "@__nv_umul64hi"
    text.declare(f"declare {kind} {symbol}({kind}, {kind})")
    return text.emit(f"call {kind} {symbol}({kind} {args[0]}, {kind} {args[1]})")


# The largest errors in ulp that the emulator finds on 2 million points of all sizes, in float32
# and float64; in brackets NVIDIA's bounds on devices, which count from correctly rounded results.
_LIBDEVICE = (
    "exp",  # 1.5, 0.9 (2, 1)
    "exp2",  # 0.5, 0.9 (2, 1)
    "expm1",  # 1.4, 1.1 (1, 1)
    "log",  # 0.8, 0.5 (1, 1)
    "log2",  # 0.9, 1.2 (1, 1)
    "log10",  # 2.1, 1.4 (2, 1)
    "log1p",  # 0.9, 1.4 (1, 1)
    "asin",  # 1.4, 1.9 (2, 2)
    "acos",  # 1.3, 1.4 (2, 2)
    "atan",  # 1.1, 1.6 (2, 2)
    "sinh",  # 2.2, 1.4 (3, 2)
    "cosh",  # 2.2, 1.3 (2, 1)
    "tanh",  # 1.8, 1.4 (2, 1)
    "asinh",  # 1.6, 2.1 (3, 3)
    "acosh",  # 2.1, 2.1 (4, 3)
    "atanh",  # 2.6, 2.4 (3, 2)
    "erf",  # 1.0, 1.4 (2, 2)
    "erfc",  # 3.6, 3.5 (4, 5)
    "erfinv",  # 2.8, 3.7
    "cbrt",  # 1.0, 0.5 (1, 1)
    "atan2",  # 1.6, 1.4 (3, 2)
)

SCALAR_CUDA: dict[str, ScalarCuda] = {
    **{name: _as_on_cpu(name) for name in SCALAR_LLVM},
    **{name: _on_floats(_library(name)) for name in _LIBDEVICE},
    "sin": _on_floats(_trigonometric("sin")),  # 1.5, 1.4 (2, 2)
    "cos": _on_floats(_trigonometric("cos")),  # 1.5, 1.5 (2, 2)
    "tan": _on_floats(_trigonometric("tan")),  # 1.9, 1.9 (4, 2)
    "lgamma": _on_floats(_lgamma),  # 3.0, 2.0, for x > 0 (6, -)
    "logistic": _on_floats(_logistic),  # 1.6, 1.6
    "pow": _on_floats(_library("pow"), "pow"),  # 1.9, 1.3 (4, 2)
    "fmod": _on_floats(_library("fmod"), "fmod"),
    "remainder": _on_floats(_remainder, "remainder"),
    "floor_divide": _on_floats(_floor_divide, "floor_divide"),
    "muladd": _on_floats(Lanes.fma),
    "abs": _absolute,
    "max": _extremum("max", "gt"),
    "min": _extremum("min", "lt"),
    "mulhi": _multiply_high,
}
