"""L5. The table of float functions: scalar operation name -> vector instructions on float32, float64."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.cpu import vector_exp, vector_trig
from fgrad.compile.cpu.vector_lanes import Lanes

VECTOR_MATH: dict[str, Callable[..., str]] = {
    "sqrt": Lanes.sqrt,
    "exp": vector_exp.exp,
    "log": vector_exp.log,
    "tanh": vector_exp.tanh,
    "logistic": vector_exp.logistic,
    "sin": vector_trig.sin,
    "cos": vector_trig.cos,
}
