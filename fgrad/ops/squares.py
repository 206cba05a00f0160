"""L3. Sums of squares, of which norms and variances are made: one equation at the prompt, a product
and a sum when compiled, where they fuse.

    sum_squares(x)            = sum x^2             slope: 2 x
    sum_squares(x, centered)  = sum (x - mean)^2    slope: 2 (x - mean), as the mean's part is zero
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.errors import DtypeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import NOT_LINEAR, Primitive
from fgrad.ops.composed import compose_when_compiled
from fgrad.ops.elementwise import div, lit, mul, mul_p, sub
from fgrad.ops.families import map_selected
from fgrad.ops.known import known
from fgrad.ops.reduce import reduce_sum, spread
from fgrad.ops.selected import ZERO, Selected, Support, Tangent, fitted, plain
from fgrad.ops.shape import REDUCE_SUM, Ints
from fgrad.ops.size import number
from fgrad.trace import Value
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import EqnParams

sum_squares_p = Primitive(
    "sum_squares", traits.collecting(), params=("axes", "centered"), reads=((0,),)
)
sum_squares_p.refuse("transpose", NOT_LINEAR)


@sum_squares_p.type_rule
def _(x: Aval, *, axes: Ints, centered: bool) -> Aval:
    if x.dtype.char not in "fd":
        raise DtypeError(f"sum_squares does not take {x.dtype}.")
    return REDUCE_SUM.type_of(x, axes=axes)


@sum_squares_p.evaluate
def _(x: np.ndarray, *, axes: Ints, centered: bool) -> Value:
    if not centered:
        if len(axes) == x.ndim and x.flags.c_contiguous:
            return np.dot(x.reshape(-1), x.reshape(-1))  # as `np.linalg.norm`
        return np.add.reduce(np.multiply(x, x), axes)
    total = np.add.reduce(x, axes, keepdims=True)
    distance = np.subtract(x, np.true_divide(total, lit(x, _count(x, axes)), out=total))
    return np.add.reduce(np.multiply(distance, distance, out=distance), axes)


def _count(x: Value, axes: Ints) -> int:
    count = 1
    for a in axes:
        count *= x.shape[a]
    return count


def _distance(x: Value, axes: Ints, centered: bool) -> Value:
    """What is squared."""
    if not centered:
        return x
    total = reduce_sum(x, axes)
    mean = div(total, number(_count(x, axes), x.dtype, total.shape))
    return sub(x, spread(mean, x.shape, axes))


def _composed(x: Value, *, axes: Ints, centered: bool) -> Value:
    distance = _distance(x, axes, centered)
    return reduce_sum(mul(distance, distance), axes)


compose_when_compiled(sum_squares_p, _composed)


@sum_squares_p.jvp
def _(
    primals: Sequence[Value],
    tangents: Sequence[Value | Selected],
    _out: object,
    *,
    axes: Ints,
    centered: bool,
) -> Tangent:
    """2 sum (x - mean) t; what selections leave out of t stays out."""
    (x,), (t,) = primals, tangents
    twice = mul(_distance(x, axes, centered), lit(x, 2))
    if type(t) is not Selected:
        return reduce_sum(mul(twice, t), axes)
    part = map_selected(mul_p, 1, t, (twice, t.value), None, {})
    total = reduce_sum(plain(part), axes)
    if t.support.loose:
        return total

    def any_of(bits: Value) -> Value:
        return reduce_sum(fitted(bits, x.shape), axes)

    return Selected(total, Support((t.support,), any_of), ZERO)


def _pull_squares(
    cts: Sequence[Value], _wanted: object, values: Sequence[Value], _outs: object, params: EqnParams
) -> tuple[Value]:
    """2 (x - mean) ct; selections go back through the transposed jvp."""
    (ct,), (x,), axes = cts, values, params["axes"]
    if type(ct) is Selected:
        return NotImplemented
    twice = mul(ct, lit(x, 2))
    if len(axes) < len(x.shape) or not known(twice):
        twice = spread(twice, x.shape, axes)
    return (mul(_distance(x, axes, params["centered"]), twice),)


sum_squares_p.pullback = _pull_squares
sum_squares_p.selects = True


@sum_squares_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, axes: Ints, centered: bool
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    moved = tuple([a + (a >= d) for a in axes])
    return sum_squares(x, moved, centered), d - sum([a < d for a in moved])


def sum_squares(x: Value, axes: Ints, centered: bool = False) -> Value:
    """The sum of squares over axes of float32 or float64, or of the distances from the mean."""
    return bind_one(sum_squares_p, x, {"axes": axes, "centered": centered})
