"""L5. The table of float functions: scalar operation name -> instructions on float32, float64.

The comment on a row is the largest error seen, in ulp of float32 and float64 results, on 10 million
arguments of all magnitudes and with every instruction set (benchmarks/accuracy.py).
tests/compile/test_vector_math.py holds all to 2.5.
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.llvm.vector import divide as vector_divide
from fgrad.compile.llvm.vector import exp as vector_exp
from fgrad.compile.llvm.vector import log as vector_log
from fgrad.compile.llvm.vector import pow as vector_pow
from fgrad.compile.llvm.vector import special as vector_special
from fgrad.compile.llvm.vector import trig as vector_trig
from fgrad.compile.llvm.vector.lanes import Lanes

VECTOR_MATH: dict[str, Callable[..., str]] = {
    "sqrt": Lanes.sqrt,  # 0.5, 0.5
    "cbrt": vector_pow.cbrt,  # 0.5, 0.5
    "pow": vector_pow.power,  # 1.3, 1.2
    "exp": vector_exp.exp,  # 1.1, 1.1
    "exp2": vector_exp.exp2,  # 1.3, 1.4
    "expm1": vector_exp.expm1,  # 1.8, 2.2
    "logistic": vector_exp.logistic,  # 2.2, 1.9
    "tanh": vector_exp.tanh,  # 2.4, 2.3
    "sinh": vector_exp.sinh,  # 1.7, 1.7
    "cosh": vector_exp.cosh,  # 1.5, 1.5
    "log": vector_log.log,  # 0.9, 0.8
    "log2": vector_log.log2,  # 1.2, 1.1
    "log10": vector_log.log10,  # 1.1, 1.0
    "log1p": vector_log.log1p,  # 1.4, 1.4
    "asinh": vector_log.asinh,  # 1.1, 1.1
    "acosh": vector_log.acosh,  # 2.0, 2.0
    "atanh": vector_log.atanh,  # 1.0, 1.0
    "sin": vector_trig.sin,  # 1.6, 1.6
    "cos": vector_trig.cos,  # 1.6, 1.6
    "tan": vector_trig.tan,  # 2.1, 2.1
    "asin": vector_trig.asin,  # 2.1, 2.1
    "acos": vector_trig.acos,  # 1.2, 1.2
    "atan": vector_trig.atan,  # 1.6, 1.5
    "atan2": vector_trig.atan2,  # 1.7, 1.6
    "erf": vector_special.erf,  # 2.3, 2.3
    "erfc": vector_special.erfc,  # 1.9, 2.3
    "erfinv": vector_special.erfinv,  # 1.6, 1.7
    "lgamma": vector_special.lgamma,  # 2.2, 2.1, for x > 0
    "digamma": vector_special.digamma,  # 2.1, 2.0, for x > 0
    "fmod": vector_divide.fmod,  # exact
    "remainder": vector_divide.remainder,  # as NumPy's
    "floor_divide": vector_divide.floor_divide,  # as NumPy's
}
