"""L3. `product`: a `dot_general` as one call of a library, which compiled programs alone have.

    product a b         sums of products in float32 of numbers of 16 bits, rounded once
    product a b bias    act(a . b + bias): the last axes of the result are those of the bias

`operand` and `result` name the numbers: bfloat16 is in words of 16 bits.  `epilogue` names act.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.dot import Pair, dot_general_p
from fgrad.trace import Value

_TRAITS = traits.contracting()

product_p = Primitive(
    "product", _TRAITS, params=("contract", "batch", "operand", "result", "epilogue")
)
for _slot in ("jvp", "transpose", "batch"):
    product_p.refuse(_slot, "is made when a program is compiled, after all transforms")

STORED = {"bfloat16": np.dtype(np.uint16)}  # as what numbers of a name are in memory
EPILOGUES = ("", "relu", "gelu")


def stored(name: str) -> np.dtype:
    """The dtype of arrays of these numbers."""
    return STORED.get(name) or np.dtype(name)


@product_p.type_rule
def _(*avals: Aval, contract: Pair, batch: Pair, operand: str, result: str, epilogue: str) -> Aval:
    a, b, *bias = avals
    out = dot_general_p.type_of(a, b, contract=contract, batch=batch)
    if a.dtype != stored(operand) or epilogue not in EPILOGUES:
        raise DtypeError(f"product: operands {a.dtype} of {operand}, epilogue {epilogue!r}.")
    for x in bias:
        if x.dtype != stored(result):
            raise DtypeError(f"product: a bias {x.dtype} for results {result}.")
        if x.shape != out.shape[out.ndim - x.ndim :]:
            raise ShapeError(f"product: a bias of {x.shape} for results of {out.shape}.")
    return Aval(out.shape, stored(result))


@product_p.evaluate
def _(
    a: Value, b: Value, *bias: Value, contract: Pair, batch: Pair, operand: str, result: str,
    epilogue: str,
) -> Value:  # fmt: skip
    out = dot_general_p.evaluate_rule(
        wide(a, operand), wide(b, operand), contract=contract, batch=batch
    )
    for x in bias:
        out = out + wide(x, result)
    return narrow(act(out, epilogue), result)


def act(x: Value, epilogue: str) -> Value:
    """max(x, 0), or x (1 + tanh(c (x + 0.044715 x^3))) / 2 with c = sqrt(2 / pi)."""
    if epilogue == "relu":
        return np.maximum(x, x.dtype.type(0))
    if epilogue == "gelu":
        cubic = x + x.dtype.type(0.044715) * x * x * x
        return (x / 2) * (1 + np.tanh(x.dtype.type(math.sqrt(2 / math.pi)) * cubic))
    return x


def wide(x: Value, name: str) -> Value:
    """Numbers as they are computed with: those of 16 bits in float32."""
    if name == "bfloat16":
        return (np.asarray(x).astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32) if name == "float16" else x


def narrow(x: Value, name: str) -> Value:
    """The nearest numbers of a name, ties to even."""
    if name != "bfloat16":
        return x.astype(name)
    bits = np.asarray(x, np.float32).view(np.uint32)
    up = bits + np.uint32(0x7FFF) + (bits >> 16 & 1)
    return (np.where(np.isnan(x), bits | np.uint32(0x400000), up) >> 16).astype(np.uint16)
