"""L5. Numbers that are computed from sizes alone -> sizes: what `fold` does with literals.

    a = size[value=n]; b = div 1.0 a        becomes      b = size[value=1.0 / n]

The rounding is that of the dtype, so results have the bits that literals would have.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from fgrad.base.size_functions import rounded
from fgrad.base.sizes import Size
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn, Lit, Params, Var
from fgrad.ops import primitives as prims

_FUNCTIONS: Mapping[Primitive, Callable[..., Size]] = {
    prims.add: operator.add,
    prims.sub: operator.sub,
    prims.mul: operator.mul,
    prims.div: operator.truediv,
    prims.neg: operator.neg,
    prims.convert: lambda x: x,
}


def folded_size(eqn: Eqn, sizes: Mapping[Var, Size]) -> Eqn | None:
    """An equation of sizes and literals as a size; None if it is another one."""
    function = _FUNCTIONS.get(eqn.prim)
    if function is None or eqn.outputs[0].aval.shape:
        return None
    given: list[Size] = []
    for a in eqn.inputs:
        if a.aval.dtype.kind not in "iuf" or a.aval.dtype.itemsize < 4:
            return None
        value = a.value.item() if isinstance(a, Lit) else sizes.get(a)
        if value is None:
            return None
        given.append(value)
    dtype = eqn.outputs[0].aval.dtype
    if dtype.kind not in "if" or dtype.itemsize < 4 or (dtype.kind == "i" and not _whole(given)):
        return None
    params = Params({"value": rounded(function(*given), dtype), "dtype": dtype})
    return eqn._replace(prim=prims.size, inputs=(), params=params)


def _whole(values: list[Size]) -> bool:
    return all([isinstance(x, int) for x in values])
