"""L5. Split long scatter-adds into few elements into partial sums that threads share.

    y = scatter[mode=add] x, updates, i          a million updates of a thousand places
    ->
    p = scatter[mode=add] zeros(16, 1000), parts(updates), (number of the part, parts(i))
    y = x + sum(p, axis=0)

How many parts there are depends on shapes alone, and so do the results.
"""

from __future__ import annotations

import math
from functools import lru_cache

from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Eqn, Program
from fgrad.ops.elementwise import add
from fgrad.ops.index import scatter
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.shape import full, iota, reshape, slice_
from fgrad.trace import Value, trace

LEAST_PART = 1 << 15  # updates of a part: some 30 us
MOST_PARTS = 16
PER_PLACE = 8  # updates of a part for each of its places, which must be cleared and added


def in_parts(eqn: Eqn) -> Program | None:
    """A scatter as one in parts, where that is worth it."""
    x, updates, *indices = [atom.aval.strong() for atom in eqn.inputs]
    axes, count = eqn.params["axes"], indices[0].size
    usual = eqn.params["mode"] == "add" and x.dtype.kind in "fiu" and x.ndim == len(axes) == 1
    parts = min(count // LEAST_PART, count // (PER_PLACE * max(x.size, 1)), MOST_PARTS)
    return _program(x, updates, tuple(indices), axes, parts) if usual and parts > 1 else None


@lru_cache(maxsize=256)
def _program(
    x: Aval, updates: Aval, indices: tuple[Aval, ...], axes: tuple[int, ...], parts: int
) -> Program:
    count = math.prod(indices[0].shape)
    whole = count - count % parts

    def divided(v: Value) -> Value:
        return reshape(slice_(v, (0,), (whole,), (1,)), (parts, whole // parts))

    def rest(v: Value) -> Value:
        return slice_(v, (whole,), (count,), (1,))

    def sums(start: Value, values: Value, *places: Value) -> list[Value]:
        values, *flat = [reshape(v, (count,)) for v in (values, *places)]
        zeros = full((parts, *x.shape), 0, x.dtype)
        number = iota((parts, whole // parts), INT64, 0)
        at = (number, *[divided(p) for p in flat])
        own = scatter(zeros, at, divided(values), (0, *[a + 1 for a in axes]), "add")
        total = add(start, reduce_sum(own, (0,)))
        if whole == count:
            return [total]
        return [scatter(total, [rest(p) for p in flat], rest(values), axes, "add")]

    return trace(sums, [x, updates, *indices], "scatter").program
