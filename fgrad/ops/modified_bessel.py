"""L3. The modified Bessel functions of orders 0 and 1, which SciPy evaluates and kernels compute.

    I0' = I1    I1' = I0 - I1 / x         (DLMF 10.29), and of e^-|x| I

Their operations in kernels are in `fgrad/compile/lower/bessel.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.ir import traits
from fgrad.ops.elementwise import (
    X,
    abs_,
    add,
    by_scipy,
    div,
    le,
    lit,
    mul,
    reciprocal,
    select,
    sign,
    sub,
)
from fgrad.ops.families import DerivativeMap, elementwise
from fgrad.trace import Value, bind


def over(t: Value, x: Value, at_zero: float, ratio: Callable[[Value], Value]) -> Value:
    """t ratio(x), where ratio divides by x, with the limit `at_zero` at x = 0."""
    zero = le(abs_(x), lit(x, 4 * float(np.finfo(x.dtype).tiny)))  # 1 / x may be infinite
    safe = select(zero, lit(x, 1), x)
    return mul(t, select(zero, lit(x, at_zero), ratio(safe)))


def _computed(name: str, slope: DerivativeMap) -> Callable[[Value], Value]:
    """A function of real floats."""
    given = {"accepts": "f", "reads": X, "traits": traits.FUNCTION}
    prim = elementwise(name, by_scipy(name), slope, **given)

    def apply(x: Value) -> Value:
        return bind(prim, x)

    apply.__name__, apply.__doc__ = name, f"Elementwise `scipy.special.{name}`."
    return apply


def _i1_slope(x: Value) -> Value:
    return sub(i0(x), div(i1(x), x))


def _i0e_slope(x: Value) -> Value:
    return sub(i1e(x), mul(sign(x), i0e(x)))


def _i1e_slope(x: Value) -> Value:
    return sub(i0e(x), mul(i1e(x), add(sign(x), reciprocal(x))))


i0 = _computed("i0", lambda t, x, out: mul(t, i1(x)))
i1 = _computed("i1", lambda t, x, out: over(t, x, 0.5, _i1_slope))
i0e = _computed("i0e", lambda t, x, out: mul(t, _i0e_slope(x)))
i1e = _computed("i1e", lambda t, x, out: over(t, x, 0.5, _i1e_slope))
