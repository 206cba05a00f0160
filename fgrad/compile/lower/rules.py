"""L5. Value rules: how one element of an equation's result is computed inside a kernel.

    value of (x + y)[i]              = value of x[i] + value of y[i]
    value of reverse(x)[i]           = value of x[n - 1 - i]
    value of pad(x)[i]               = value of x[i - low] if that is inside, else the padding
    value of reduce_sum(x)[i]        = a loop over j that adds the values of x[i, j]

A rule is a generator that yields requests for operands and returns a value id.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.size_functions import rounded
from fgrad.compile.kernel.affine import (
    ZERO,
    AffineIndex,
    bounds,
    divided,
    shifted,
    total,
    value,
)
from fgrad.compile.kernel.builder import KernelBuilder, Request, Rule, ValueRule
from fgrad.compile.kernel.rewrite import identity
from fgrad.compile.kernel.scalar import SCALAR_OPS
from fgrad.compile.lower.bessel import BESSEL
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.primitive import Primitive, folds
from fgrad.ir.program import Atom, Eqn
from fgrad.ir.traits import Along
from fgrad.ops import primitives as prims

# --- elementwise


def elementwise_value(b: KernelBuilder, eqn: Eqn, _k: int, request: Request) -> Rule:
    """One scalar operation on the values of the operands at the same place."""
    ids = []
    for atom in eqn.inputs:
        ids.append((yield Request(atom, request.places, request.predicate)))
    scalar = eqn.prim.scalar
    assert scalar is not None
    dtype = eqn.outputs[0].aval.dtype
    composed = COMPOSED.get(scalar)
    if composed is not None:
        return composed(b, dtype, *ids)
    return b.op(scalar, dtype, *ids)


def _clip(b: KernelBuilder, dtype: np.dtype, x: int, low: int, high: int) -> int:
    return b.op("min", dtype, b.op("max", dtype, x, low), high)


def _masked(name: str) -> Callable[..., int]:
    def masked(b: KernelBuilder, dtype: np.dtype, t: int, d: int) -> int:
        zero = b.const(0, dtype)
        return b.op("select", dtype, b.op("eq", BOOL, t, zero), zero, b.op(name, dtype, t, d))

    return masked


def _times_log(name: str) -> Callable[..., int]:
    """x log(y), and 0 where x is 0 unless y is NaN."""

    def times_log(b: KernelBuilder, dtype: np.dtype, x: int, y: int) -> int:
        zero = b.const(0, dtype)
        out = b.op("mul", dtype, x, b.op(name, dtype, y))
        skipped = b.op("and", BOOL, b.op("eq", BOOL, x, zero), b.op("eq", BOOL, y, y))
        return b.op("select", dtype, skipped, zero, out)

    return times_log


# Elementwise primitives that are not one row of the scalar table.
COMPOSED: dict[str, Callable[..., int]] = {
    "clip": _clip,
    "masked_mul": _masked("mul"),
    "masked_div": _masked("div"),
    "xlogy": _times_log("log"),
    "xlog1py": _times_log("log1p"),
    "stop_gradient": lambda b, dtype, x: x,
    **BESSEL,
}

# --- moving elements


def _same_atom(
    places: Callable[[KernelBuilder, Eqn, Request], tuple[AffineIndex, ...]],
) -> ValueRule:
    """A rule that reads its operand at another place."""

    def rule(b: KernelBuilder, eqn: Eqn, _k: int, request: Request) -> Rule:
        return (yield Request(eqn.inputs[0], places(b, eqn, request), request.predicate))

    return rule


def _broadcast(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    return tuple([r.places[d] for d in eqn.params["dims"]])


def _permute(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    axes = eqn.params["axes"]
    out = [ZERO] * len(axes)
    for k, a in enumerate(axes):
        out[a] = r.places[k]
    return tuple(out)


def _reshape(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    return b.reshaped(r.places, eqn.outputs[0].aval.shape, eqn.inputs[0].aval.shape)


def _slice(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    start, step = eqn.params["start"], eqn.params["step"]
    return tuple([shifted(p, s, a) for p, a, s in zip(r.places, start, step, strict=True)])


def _index(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    return (*[AffineIndex(i) for i in eqn.params["ints"]], *r.places)


def _reverse(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    shape, axes = eqn.outputs[0].aval.shape, eqn.params["axes"]
    return tuple([shifted(p, -1, shape[k] - 1) if k in axes else p for k, p in enumerate(r.places)])


def _windows(b: KernelBuilder, eqn: Eqn, r: Request) -> tuple[AffineIndex, ...]:
    """x[..., stride * window + dilation * offset, ...]."""
    axes, ndim = eqn.params["axes"], eqn.inputs[0].aval.ndim
    places = list(r.places[:ndim])
    steps = zip(axes, eqn.params["strides"], eqn.params["dilations"], strict=True)
    for offset, (a, stride, dilation) in zip(r.places[ndim:], steps, strict=True):
        places[a] = total((places[a], offset), (stride, dilation))
    return tuple(places)


def pad_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """select(inside, x[(i - low) / (interior + 1)], padding), reading only inside."""
    (x,) = eqn.inputs
    params = eqn.params
    places, inside = [], None
    for k, p in enumerate(r.places):
        place = shifted(p, 1, -params["low"][k])
        gap = params["interior"][k] + 1
        n = x.aval.shape[k]
        inside = b.within(place, 0, (n - 1) * gap + 1, inside)
        if gap > 1:
            parts = divided(place, gap, b.extents)
            place, rest = parts if parts is not None else b.divide(place, gap)
            if rest != ZERO:
                hit = b.op("eq", BOOL, b.index(rest), b.const(0, INT64))
                inside = b.both(inside, hit)
        places.append(place)
    id = yield Request(x, tuple(places), b.both(r.predicate, inside))
    if inside is None:
        return id
    dtype = x.aval.dtype
    return b.op("select", dtype, inside, id, b.const(params["value"], dtype))


def iota_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """The place itself."""
    dtype = eqn.params["dtype"]
    id = b.index(r.places[eqn.params["axis"]])
    return id if dtype == INT64 else b.op("convert", dtype, id)
    yield  # a rule is a generator, though this one asks for nothing


def unset_value(b: KernelBuilder, eqn: Eqn, _k: int, _r: Request) -> Rule:
    """Zeros, where memory that a loop is to write is read by others."""
    return b.const(0, eqn.params["dtype"])
    yield  # a rule is a generator, though this one asks for nothing


def size_value(b: KernelBuilder, eqn: Eqn, _k: int, _r: Request) -> Rule:
    """The number itself."""
    dtype = eqn.params["dtype"]
    return b.const(rounded(eqn.params["value"], dtype), dtype)
    yield  # a rule is a generator, though this one asks for nothing


def concatenate_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """select(i < n0, x0[i], select(i < n0 + n1, x1[i - n0], ...)), reading only the one."""
    axis = eqn.params["axis"]
    dtype = eqn.outputs[0].aval.dtype
    place, start = r.places[axis], 0
    parts: list[tuple[int | None, int]] = []
    for x in eqn.inputs:
        n = x.aval.shape[axis]
        local = shifted(place, 1, -start)
        limits = bounds(local, b.extents)
        start += n
        if n == 0 or (limits is not None and (limits[1] < 0 or limits[0] >= n)):
            continue
        inside = b.within(local, 0, n, None)
        moved = (*r.places[:axis], local, *r.places[axis + 1 :])
        id = yield Request(x, moved, b.both(r.predicate, inside))
        parts.append((inside, id))
    result = parts[-1][1]
    for inside, id in reversed(parts[:-1]):
        result = id if inside is None else b.op("select", dtype, inside, id, result)
    return result


# --- computed places

UINT64 = np.dtype(np.uint64)
_FAR = 1 << 62


def position(
    b: KernelBuilder, atom: Atom, places: tuple[AffineIndex, ...], predicate: int | None
) -> Rule:
    """An integer operand as an int64 value."""
    id = yield Request(atom, places, predicate)
    dtype = atom.aval.dtype
    if dtype == UINT64:  # what int64 cannot hold is out of bounds all the same
        id = b.op("min", dtype, id, b.const(_FAR, dtype))
    return id if dtype == INT64 else b.op("convert", INT64, id)


def clamped(b: KernelBuilder, id: int, high: int) -> int:
    """0 <= id <= high."""
    return b.op(
        "min", INT64, b.op("max", INT64, id, b.const(0, INT64)), b.const(max(high, 0), INT64)
    )


def gather_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """x at computed places, which are clamped, or outside of which the value is 0."""
    x, *indices = eqn.inputs
    axes = eqn.params["axes"]
    rank = indices[0].aval.ndim
    at, rest = r.places[:rank], iter(r.places[rank:])
    fill = eqn.params["mode"] == "fill"
    found: dict[int, AffineIndex] = {}
    inside = None
    for a, index in zip(axes, indices, strict=True):
        id = yield from position(b, index, at, r.predicate)
        if fill:
            inside = b.within(value(id), 0, x.aval.shape[a], inside)
        found[a] = value(clamped(b, id, x.aval.shape[a] - 1))
    places = tuple([found[a] if a in found else next(rest) for a in range(x.aval.ndim)])
    id = yield Request(x, places, b.both(r.predicate, inside))
    if inside is None:
        return id
    dtype = x.aval.dtype
    return b.op("select", dtype, inside, id, b.const(0, dtype))


def dynamic_slice_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """x[clamp(start) + i]."""
    x, *starts = eqn.inputs
    places = []
    for k, start in enumerate(starts):
        id = yield from position(b, start, (), None)
        high = x.aval.shape[k] - eqn.params["sizes"][k]
        places.append(total((value(clamped(b, id, high)), r.places[k]), (1, 1)))
    return (yield Request(x, tuple(places), r.predicate))


# --- reductions

_BOOLEAN = {"add": "or", "mul": "and", "max": "or", "min": "and"}


REDUCTIONS = frozenset(folds(Along.AXES))


def better_than(prim: Primitive) -> str:
    """The comparison by which a new element replaces the extremum so far."""
    assert prim.fold is not None
    return "gt" if prim.fold.op == "max" else "lt"


def accumulate_op(prim: Primitive, dtype: np.dtype) -> str:
    """The accumulator of a fold."""
    assert prim.fold is not None
    return accumulator(prim.fold.op, dtype)


def accumulator(op: str, dtype: np.dtype) -> str:
    """The operation on a dtype; on bool, + and max are `or`, * and min are `and`."""
    return _BOOLEAN.get(op, op) if dtype == BOOL else op


def reduced_places(
    places: tuple[AffineIndex, ...], axes: tuple[int, ...], inner: tuple[AffineIndex, ...]
) -> tuple[AffineIndex, ...]:
    """The places of a reduction's operand: `inner` along the reduced axes."""
    kept, summed = iter(places), iter(inner)
    rank = len(places) + len(axes)
    return tuple([next(summed) if a in axes else next(kept) for a in range(rank)])


def reduce_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """A loop over the reduced axes, placed where the kept ones are known."""
    (x,) = eqn.inputs
    axes = eqn.params["axes"]
    dtype = x.aval.dtype
    op = accumulate_op(eqn.prim, dtype)
    depth = max([b.place_depth(p) for p in r.places], default=0)
    if r.predicate is not None:
        depth = max(depth, b.depths[r.predicate])
    aside = b.retreat(depth)
    acc = b.accumulator(op, dtype, identity(op, dtype))
    inner = b.open_all([x.aval.shape[a] for a in axes], "reduce")
    id = yield Request(x, reduced_places(r.places, axes, inner), r.predicate)
    b.update(acc, id)
    b.close_to(depth)
    out = b.read(acc)
    b.resume(aside)
    return out


def dot_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """sum over the contracted axes of a * b; `or` of `and` for bool."""
    x, y = eqn.inputs
    (cx, cy), (bx, by) = eqn.params["contract"], eqn.params["batch"]
    dtype = x.aval.dtype
    depth = max([b.place_depth(p) for p in r.places], default=0)
    if r.predicate is not None:
        depth = max(depth, b.depths[r.predicate])
    aside = b.retreat(depth)
    op = "or" if dtype == BOOL else "add"
    acc = b.accumulator(op, dtype, identity(op, dtype))
    inner = b.open_all([x.aval.shape[a] for a in cx], "reduce")
    lead, free = r.places[: len(bx)], iter(r.places[len(bx) :])
    left, right = ({**dict(zip(ba, lead, strict=True)), **dict(zip(c, inner, strict=True))}
                   for ba, c in ((bx, cx), (by, cy)))  # fmt: skip
    at_x = tuple([left[a] if a in left else next(free) for a in range(x.aval.ndim)])
    at_y = tuple([right[a] if a in right else next(free) for a in range(y.aval.ndim)])
    p = yield Request(x, at_x, r.predicate)
    q = yield Request(y, at_y, r.predicate)
    b.update(acc, b.op("and" if dtype == BOOL else "mul", dtype, p, q))
    b.close_to(depth)
    out = b.read(acc)
    b.resume(aside)
    return out


def conv_value(b: KernelBuilder, eqn: Eqn, _k: int, r: Request) -> Rule:
    """sum over channels and window of x * w, reading x only where it is not padding."""
    x, w = eqn.inputs
    p = eqn.params
    dtype = x.aval.dtype
    n_at, o_at, *at = r.places
    out_channels, in_channels, *window = w.aval.shape
    depth = max([b.place_depth(place) for place in r.places], default=0)
    if r.predicate is not None:
        depth = max(depth, b.depths[r.predicate])
    aside = b.retreat(depth)
    acc = b.accumulator("add", dtype, identity("add", dtype))
    c_at, *offsets = b.open_all([in_channels, *window], "reduce")
    channel, image = _grouped(b, o_at, c_at, n_at, out_channels, in_channels, eqn)
    places, inside = [image, channel], r.predicate
    for k, offset in enumerate(offsets):
        place = total((at[k], offset), (p["strides"][k], p["w_dilation"][k]), -p["padding"][k][0])
        gap = p["x_dilation"][k]
        inside = b.within(place, 0, (x.aval.shape[2 + k] - 1) * gap + 1, inside)
        if gap > 1:
            parts = divided(place, gap, b.extents)
            place, rest = parts if parts is not None else b.divide(place, gap)
            if rest != ZERO:
                hit = b.op("eq", BOOL, b.index(rest), b.const(0, INT64))
                inside = b.both(inside, hit)
        places.append(place)
    left = yield Request(x, tuple(places), inside)
    right = yield Request(w, (o_at, c_at, *offsets), r.predicate)
    product = b.op("mul", dtype, left, right)
    if inside is not r.predicate and inside is not None:
        product = b.op("select", dtype, inside, product, b.const(0, dtype))
    b.update(acc, product)
    b.close_to(depth)
    out = b.read(acc)
    b.resume(aside)
    return out


def _grouped(
    b: KernelBuilder, o_at: AffineIndex, c_at: AffineIndex, n_at: AffineIndex,
    out_channels: int, in_channels: int, eqn: Eqn,
) -> tuple[AffineIndex, AffineIndex]:  # fmt: skip
    """The channel and the image of x that output channel `o_at` reads."""
    features, batches = eqn.params["feature_groups"], eqn.params["batch_groups"]
    if features * batches == 1:
        return c_at, n_at

    def split(place: AffineIndex, by: int) -> tuple[AffineIndex, AffineIndex]:
        return divided(place, by, b.extents) or b.divide(place, by)

    group, _ = split(o_at, out_channels // (features * batches))
    part, feature = split(group, features)
    images = eqn.inputs[0].aval.shape[0] // batches
    return total((feature, c_at), (in_channels, 1)), total((part, n_at), (images, 1))


VALUE_RULES: dict[Primitive, ValueRule] = {
    prims.broadcast: _same_atom(_broadcast),
    prims.permute: _same_atom(_permute),
    prims.reshape: _same_atom(_reshape),
    prims.slice: _same_atom(_slice),
    prims.index: _same_atom(_index),
    prims.reverse: _same_atom(_reverse),
    prims.windows: _same_atom(_windows),
    prims.pad: pad_value,
    prims.iota: iota_value,
    prims.size: size_value,
    prims.unset: unset_value,
    prims.concatenate: concatenate_value,
    prims.gather: gather_value,
    prims.dynamic_slice: dynamic_slice_value,
    **dict.fromkeys(REDUCTIONS, reduce_value),
    prims.dot_general: dot_value,
    prims.conv: conv_value,
}


class _Rules(dict[Primitive, ValueRule]):
    """`VALUE_RULES`, with the elementwise rule for every primitive that names a scalar row."""

    def __missing__(self, prim: Primitive) -> ValueRule:
        if prim.scalar not in SCALAR_OPS and prim.scalar not in COMPOSED:
            raise KeyError(prim)
        self[prim] = elementwise_value
        return elementwise_value


RULES = _Rules(VALUE_RULES)
# What kernels read in place, at other addresses.
MOVES = frozenset([prim for prim in VALUE_RULES if prim.movement is not None])
