"""L3. A size that may change (`fgrad/base/sizes.py`) -> a number in a program.

x / n      with the Num n       becomes      div x (size[value=n])
"""

from __future__ import annotations

import numpy as np

from fgrad.base.sizes import Num, Size
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import DISCRETE, Primitive
from fgrad.ops.families import BROADCAST
from fgrad.trace import bind
from fgrad.typing import PyTree

size_p = Primitive("size", traits.moving(fills=True), params=("value", "dtype"))


@size_p.type_rule
def _(*, value: float, dtype: np.dtype) -> Aval:
    return Aval((), dtype)


@size_p.evaluate
def _(*, value: float, dtype: np.dtype) -> np.generic:
    return dtype.type(value)


size_p.refuse("jvp", DISCRETE)
size_p.refuse("transpose", "takes no operand")
size_p.refuse("batch", "takes no operand")


def number(value: Size, dtype: np.dtype, shape: tuple[int, ...] = ()) -> PyTree:
    """A number of a dtype; if it is a size that may change, an equation, and one more for a shape
    that it is to be an operand beside."""
    if type(value) is not Num:
        return dtype.type(value)
    found = bind(size_p, value=value, dtype=dtype)
    return bind(BROADCAST, found, shape=shape, dims=()) if shape else found
