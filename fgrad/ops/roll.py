"""L3. Elements moved around an axis: one equation at the prompt, joined slices when compiled.

roll(x, 1) = concatenate(x[-1:], x[:-1])      transposed: roll(ct, -1)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.errors import ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.composed import compose_when_compiled
from fgrad.ops.families import linear, moves
from fgrad.ops.shape import concatenate, slice_
from fgrad.trace import Value
from fgrad.tracing.fastpath import bind_one

roll_p = Primitive("roll", traits.moving(), params=("by", "axis"), linear_in="all")


@roll_p.type_rule
def _(x: Aval, *, by: int, axis: int) -> Aval:
    if not (0 <= axis < x.ndim and 0 < by < x.shape[axis]):
        raise ShapeError(f"roll: by {by} along axis {axis} of shape {x.shape}.")
    return x.strong()


@roll_p.evaluate
def _(x: Value, *, by: int, axis: int) -> np.ndarray:
    out = np.empty_like(x)
    before = (slice(None),) * axis
    out[(*before, slice(by, None))] = x[(*before, slice(None, -by))]
    out[(*before, slice(None, by))] = x[(*before, slice(-by, None))]
    return out


def _joined(x: Value, *, by: int, axis: int) -> Value:
    start, stop = [0] * len(x.shape), list(x.shape)
    start[axis] = stop[axis] = x.shape[axis] - by
    parts = slice_(x, tuple(start), x.shape), slice_(x, (0,) * len(stop), tuple(stop))
    return concatenate(parts, axis)


compose_when_compiled(roll_p, _joined)


@roll_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, by: int, axis: int) -> tuple[Value]:
    return (bind_one(roll_p, ct, {"by": x.shape[axis] - by, "axis": axis}),)


@roll_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, by: int, axis: int
) -> tuple[Value, int]:
    (x,), (d,) = operands, dims
    return bind_one(roll_p, x, {"by": by, "axis": axis + (axis >= d)}), d


linear(roll_p)
moves(roll_p)


def roll(x: Value, by: int, axis: int) -> Value:
    """Each element `by` places further along an axis; what leaves at the end enters in front."""
    n = x.shape[axis]
    by = by % n if n else 0
    return bind_one(roll_p, x, {"by": by, "axis": axis}) if by else x
