"""L5. The table of float functions: scalar operation name -> instructions on float32, float64."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.cpu import (
    vector_divide,
    vector_exp,
    vector_log,
    vector_pow,
    vector_special,
    vector_trig,
)
from fgrad.compile.cpu.vector_lanes import Lanes

VECTOR_MATH: dict[str, Callable[..., str]] = {
    "sqrt": Lanes.sqrt,
    "cbrt": vector_pow.cbrt,
    "pow": vector_pow.power,
    "exp": vector_exp.exp,
    "exp2": vector_exp.exp2,
    "expm1": vector_exp.expm1,
    "logistic": vector_exp.logistic,
    "tanh": vector_exp.tanh,
    "sinh": vector_exp.sinh,
    "cosh": vector_exp.cosh,
    "log": vector_log.log,
    "log2": vector_log.log2,
    "log10": vector_log.log10,
    "log1p": vector_log.log1p,
    "asinh": vector_log.asinh,
    "acosh": vector_log.acosh,
    "atanh": vector_log.atanh,
    "sin": vector_trig.sin,
    "cos": vector_trig.cos,
    "tan": vector_trig.tan,
    "asin": vector_trig.asin,
    "acos": vector_trig.acos,
    "atan": vector_trig.atan,
    "atan2": vector_trig.atan2,
    "erf": vector_special.erf,
    "erfc": vector_special.erfc,
    "erfinv": vector_special.erfinv,
    "lgamma": vector_special.lgamma,
    "digamma": vector_special.digamma,
    "fmod": vector_divide.fmod,
    "remainder": vector_divide.remainder,
    "floor_divide": vector_divide.floor_divide,
}
