"""L5. Laws of moving equations and of reductions; the docstring of a function is its law."""

from __future__ import annotations

import math

import numpy as np

from fgrad.compile.passes.rewriter import Rewriter, known_starts, lit
from fgrad.ir.program import Atom, Eqn
from fgrad.ops import primitives as prims

# --- moving elements


def drop_identity(r: Rewriter, e: Eqn) -> Atom | None:
    """move(x) -> x, where nothing moves"""
    x, p, shape = e.inputs[0], e.params, e.inputs[0].aval.shape
    still = {
        prims.permute: lambda: p["axes"] == tuple(range(len(shape))),
        prims.reshape: lambda: p["shape"] == shape,
        prims.broadcast: lambda: p["shape"] == shape,
        prims.slice: lambda: p["stop"] == shape and not any(p["start"]) and set(p["step"]) <= {1},
        prims.pad: lambda: not any(p["low"] + p["high"] + p["interior"]),
        prims.reverse: lambda: all([shape[a] == 1 for a in p["axes"]]),
        prims.index: lambda: not p["ints"],
        prims.convert: lambda: p["dtype"] == x.aval.dtype,
        prims.concatenate: lambda: len(e.inputs) == 1,
        prims.stop_gradient: lambda: True,
    }
    return x if still[e.prim]() else None


def compose_permutes(r: Rewriter, e: Eqn) -> Atom | None:
    """permute(permute(x, a), b) -> permute(x, a[b])"""
    inner = r.source(e.inputs[0], prims.permute)
    if inner is None:
        return None
    axes = tuple([inner.params["axes"][b] for b in e.params["axes"]])
    return r.make(prims.permute, inner.inputs[0], axes=axes)


def compose_reshapes(r: Rewriter, e: Eqn) -> Atom | None:
    """reshape(reshape(x)) -> reshape(x)"""
    inner = r.source(e.inputs[0], prims.reshape)
    return (
        None if inner is None else r.make(prims.reshape, inner.inputs[0], shape=e.params["shape"])
    )


def permute_as_reshape(r: Rewriter, e: Eqn) -> Atom | None:
    """permute(x) -> reshape(x), where only axes of length 1 move"""
    shape, axes = e.inputs[0].aval.shape, e.params["axes"]
    long = [a for a in axes if shape[a] != 1]
    if long != sorted(long):
        return None
    return r.make(prims.reshape, e.inputs[0], shape=e.outputs[0].aval.shape)


def compose_broadcasts(r: Rewriter, e: Eqn) -> Atom | None:
    """broadcast(broadcast(x, a), b) -> broadcast(x, b[a])"""
    inner = r.source(e.inputs[0], prims.broadcast)
    if inner is None:
        return None
    dims = tuple([e.params["dims"][d] for d in inner.params["dims"]])
    return r.make(prims.broadcast, inner.inputs[0], shape=e.params["shape"], dims=dims)


def move_scalar(r: Rewriter, e: Eqn) -> Atom | None:
    """move(broadcast(scalar)) -> broadcast(scalar)"""
    inner = r.source(e.inputs[0], prims.broadcast)
    if inner is None or inner.inputs[0].aval.shape or len(e.inputs) > 1:
        return None
    return r.full(inner.inputs[0], e.outputs[0].aval.shape)


def permute_broadcast(r: Rewriter, e: Eqn) -> Atom | None:
    """permute(broadcast(x)) -> broadcast(permute(x))"""
    inner = r.source(e.inputs[0], prims.broadcast)
    if inner is None:
        return None
    place = {a: k for k, a in enumerate(e.params["axes"])}
    dims = [place[d] for d in inner.params["dims"]]
    order = tuple(sorted(range(len(dims)), key=dims.__getitem__))
    x = r.make(prims.permute, inner.inputs[0], axes=order)
    return r.make(prims.broadcast, x, shape=e.outputs[0].aval.shape, dims=tuple(sorted(dims)))


def compose_slices(r: Rewriter, e: Eqn) -> Atom | None:
    """slice(slice(x)) -> slice(x)"""
    inner = r.source(e.inputs[0], prims.slice)
    if inner is None:
        return None
    start, stop, step = [], [], []
    outer = zip(e.params["start"], e.outputs[0].aval.shape, e.params["step"], strict=True)
    bounds = zip(
        inner.params["start"], inner.params["step"], inner.inputs[0].aval.shape, strict=True
    )
    for (a, n, s), (b, t, length) in zip(outer, bounds, strict=True):
        first = min(b + a * t, length)
        start.append(first)
        step.append(s * t)
        stop.append(first + (n - 1) * s * t + 1 if n else first)
    return r.make(
        prims.slice, inner.inputs[0], start=tuple(start), stop=tuple(stop), step=tuple(step)
    )


def undo_reverse(r: Rewriter, e: Eqn) -> Atom | None:
    """reverse(reverse(x)) -> x"""
    inner = r.source(e.inputs[0], prims.reverse)
    same = inner is not None and set(inner.params["axes"]) == set(e.params["axes"])
    return inner.inputs[0] if same and inner is not None else None


def undo_convert(r: Rewriter, e: Eqn) -> Atom | None:
    """convert(convert(x, wider), dtype of x) -> x"""
    inner = r.source(e.inputs[0], prims.convert)
    if inner is None:
        return None
    x, wide, last = inner.inputs[0], e.inputs[0].aval.dtype, e.params["dtype"]
    if not np.can_cast(x.aval.dtype, wide):
        return None
    return r.make(prims.convert, x, dtype=last)


def static_slice(r: Rewriter, e: Eqn) -> Atom | None:
    """dynamic_slice(x, known starts) -> slice(x)"""
    x, *starts = e.inputs
    sizes = e.params["sizes"]
    first = known_starts(starts, x.aval.shape, sizes)
    if first is None:
        return None
    stop = tuple([a + size for a, size in zip(first, sizes, strict=True)])
    return r.make(prims.slice, x, start=tuple(first), stop=stop, step=(1,) * len(first))


def index_as_reshape(r: Rewriter, e: Eqn) -> Atom | None:
    """index(x) -> reshape(x), where x has one element"""
    if e.inputs[0].aval.shape != (1,) * e.inputs[0].aval.ndim:
        return None
    return r.make(prims.reshape, e.inputs[0], shape=e.outputs[0].aval.shape)


# --- reductions


def reduce_nothing(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce(x, axes of length 1) -> reshape(x)"""
    x = e.inputs[0]
    if any(x.aval.shape[a] != 1 for a in e.params["axes"]):
        return None
    return r.make(prims.reshape, x, shape=e.outputs[0].aval.shape)


def compose_reductions(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce(reduce(x, a), b) -> reduce(x, a and b)"""
    inner = r.source(e.inputs[0], e.prim)
    if inner is None:
        return None
    done = inner.params["axes"]
    left = [a for a in range(inner.inputs[0].aval.ndim) if a not in done]
    axes = tuple(sorted([*done, *[left[b] for b in e.params["axes"]]]))
    return r.make(e.prim, inner.inputs[0], axes=axes)


def reduce_repeated(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce_sum(broadcast(x), new axes) -> n x; reduce_max(...) -> x, and so for min, any, all"""
    inner = r.source(e.inputs[0], prims.broadcast)
    if inner is None:
        return None
    dims, axes, x = inner.params["dims"], e.params["axes"], inner.inputs[0]
    new = [a for a in axes if a not in dims]
    if not new or math.prod([e.inputs[0].aval.shape[a] for a in axes]) == 0:
        return None
    times = math.prod([e.inputs[0].aval.shape[a] for a in new])
    own = tuple([dims.index(a) for a in axes if a in dims])
    if own:
        x = r.make(e.prim, x, axes=own)
    left = [a for a in range(e.inputs[0].aval.ndim) if a not in axes]
    kept = [left.index(d) for d in dims if d not in axes]
    if e.prim is prims.reduce_sum:
        if x.aval.dtype.kind == "b":
            return None
        x = r.make(prims.mul, x, lit(times, x.aval.dtype))
    return r.make(prims.broadcast, x, shape=e.outputs[0].aval.shape, dims=tuple(kept))


def reduce_permuted(r: Rewriter, e: Eqn) -> Atom | None:
    """reduce(permute(x)) -> permute(reduce(x))"""
    inner = r.source(e.inputs[0], prims.permute)
    if inner is None:
        return None
    order = inner.params["axes"]
    axes = tuple(sorted([order[a] for a in e.params["axes"]]))
    kept = [order[a] for a in range(len(order)) if a not in e.params["axes"]]
    rank = sorted(kept)
    x = r.make(e.prim, inner.inputs[0], axes=axes)
    return r.make(prims.permute, x, axes=tuple([rank.index(a) for a in kept]))
