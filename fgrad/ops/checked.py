"""L3. Range checks of integers: the operand unchanged, or an error.

in_range(n, 0, None, NEGATIVE_POWER)        exponents of integers: ValueError
in_range(n, -128, 127, OVERFLOW.format("int8"))       Python's integers that meet int8
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Host, Rounding
from fgrad.ops.families import finish_elementwise, same_dtype
from fgrad.trace import Tracer, Value, bind, concrete

NEGATIVE_POWER = "Integers to negative integer powers are not allowed."
OVERFLOW = "Python integer out of bounds for {}"
in_range_p = Primitive(
    "in_range",
    traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY),
    ("low", "high", "error"),
)


def out_of_range(error: str) -> Exception:
    """What NumPy raises with such a message."""
    return ValueError(error) if error == NEGATIVE_POWER else OverflowError(error)


@in_range_p.evaluate
def _(n: int, low: int | None, high: int | None, error: str) -> int:
    if (low is not None and np.any(np.less(n, low))) or (high is not None and np.any(n > high)):
        raise out_of_range(error)
    return n


@in_range_p.type_rule
def _(n: Aval, low: int | None, high: int | None, error: str) -> Aval:
    return Aval(n.shape, same_dtype(in_range_p, [n], "i"))


finish_elementwise(in_range_p, (None,))


def in_range(n: Any, low: int | None, high: int | None, error: str) -> Value:
    """The same integers; an error where one is not in the range; a limit may be None."""
    limits = np.iinfo(n.dtype)
    low = None if low is None or low <= limits.min else low
    high = None if high is None or high >= limits.max else high
    return n if low is high is None else bind(in_range_p, n, low=low, high=high, error=error)


def in_range_of(x: Tracer, dtype: np.dtype) -> Value:
    """A Python integer that fits the dtype that it meets, or an OverflowError: now; at the call of
    compiled code, of an argument; or in it, of what is computed."""
    value = concrete(x)
    if value is not None:
        dtype.type(int(value))  # raises OverflowError
        return x
    number = x
    while isinstance(number.value, Tracer):
        number = number.value
    builder = number.builder
    if builder.what == "jit" and any([number.index == y.index for y in builder.inputs]):
        builder.narrowed.setdefault(number.index, set()).add(dtype)
        return x
    limits = np.iinfo(dtype)
    out: Any = in_range(x, int(limits.min), int(limits.max), OVERFLOW.format(dtype))
    out.weak = True
    return out
