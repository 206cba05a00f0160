"""L5. Reductions and running operations along axes of complex arrays, by their parts.

    argmax    the first place with the largest real part and, of those, the largest imaginary one
    max       what is there
    cumprod   a loop along the axis, one product after the other as NumPy has them

A number with NaN in a part comes before all others, the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.compile.passes.complex_functions import Parts
from fgrad.ir.aval import Aval
from fgrad.ops import elementwise as ew
from fgrad.ops.control import scan
from fgrad.ops.reduce import argmax, kept_axes, reduce_any, reduce_max, reduce_min, spread
from fgrad.ops.shape import concatenate, iota, move_axis, permute, reshape, slice_
from fgrad.trace import Value, trace

Ints = tuple[int, ...]
Combine = Callable[[Parts, Parts], Parts]


def arg_extremum(x: Value, y: Value, axis: int, largest: bool) -> Value:
    """The place of the extremum along an axis."""
    return argmax(ew.convert(_is_extremum(x, y, axis, largest), np.dtype(np.int8)), axis)


def _is_extremum(x: Value, y: Value, axis: int, largest: bool) -> Value:
    """Where an element is equal to the extremum; where one has NaN, which elements have."""
    reduce, bound = (reduce_max, -math.inf) if largest else (reduce_min, math.inf)
    shape, least = x.shape, ew.lit(x, bound)
    nan = ew.or_(ew.isnan(x), ew.isnan(y))
    first = reduce(ew.select(nan, least, x), (axis,))
    tied = ew.and_(ew.eq(x, spread(first, shape, (axis,))), ew.not_(nan))
    second = reduce(ew.select(tied, y, least), (axis,))
    tied = ew.and_(tied, ew.eq(y, spread(second, shape, (axis,))))
    return ew.select(spread(reduce_any(nan, (axis,)), shape, (axis,)), nan, tied)


def extremum(x: Value, y: Value, axes: Ints, largest: bool) -> Parts:
    """The extremum over some axes, the first one of equals."""
    kept = kept_axes(len(x.shape), axes)
    shape = tuple([x.shape[a] for a in kept])
    rows = (math.prod(shape), math.prod([x.shape[a] for a in axes]))
    x, y = (reshape(permute(part, (*kept, *axes)), rows) for part in (x, y))
    place = spread(arg_extremum(x, y, 1, largest), rows, (1,))
    here = ew.eq(iota(rows, np.dtype(np.int64), 1), place)
    found = [reduce_max(ew.select(here, z, ew.lit(z, -math.inf)), (1,)) for z in (x, y)]
    return reshape(found[0], shape), reshape(found[1], shape)


def running(x: Value, y: Value, axis: int, reverse: bool, combine: Combine) -> Parts:
    """Each element combined with all before it; with `reverse` from the end on."""
    n = x.shape[axis]
    if n < 2:
        return x, y
    parts = [move_axis(part, axis, 0) for part in (x, y)]
    first, rest = n - 1 if reverse else 0, (0, n - 1) if reverse else (1, n)
    begin = [_rows(part, first, first + 1) for part in parts]
    start = [reshape(part, part.shape[1:]) for part in begin]
    item = Aval(start[0].shape, x.dtype)

    def body(a: Value, b: Value, c: Value, d: Value) -> tuple[Value, ...]:
        return combine((a, b), (c, d)) * 2

    program = trace(body, [item] * 4, "running").program
    outs = scan(program, n - 1, reverse, [], start, [_rows(part, *rest) for part in parts])
    joined = [
        concatenate([made, given] if reverse else [given, made], 0)
        for given, made in zip(begin, outs[2:], strict=True)
    ]
    return move_axis(joined[0], 0, axis), move_axis(joined[1], 0, axis)


def _rows(x: Value, start: int, stop: int) -> Value:
    nothing = (0,) * (len(x.shape) - 1)
    return slice_(x, (start, *nothing), (stop, *x.shape[1:]))
