"""L7. Moving, folding, indexing and sorting as nodes of ONNX.

GatherND and ScatterND take negative places from the end and refuse those beyond it: places are
clamped first, and updates that are out of bounds go to a row that is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.interchange.composed import last_places
from fgrad.interchange.onnx_writer import Ref, Rule, Writer
from fgrad.interchange.traced import no_form
from fgrad.ir.aval import INT32, INT64, Aval
from fgrad.ir.program import Eqn
from fgrad.trace import trace

_FAR = 1 << 62
_BEGINNING = -(1 << 62)  # the end of a slice that runs backwards


def _aval(eqn: Eqn) -> tuple[tuple[int, ...], np.dtype]:
    aval = eqn.outputs[0].aval
    return aval.shape, aval.dtype


# --- moving ---------------------------------------------------------------------------------------


def broadcast(w: Writer, x: Ref, shape: Sequence[int], dims: Sequence[int]) -> Ref:
    """A value repeated along new axes."""
    ones = [1] * len(shape)
    for axis, n in zip(dims, x.shape, strict=True):
        ones[axis] = n
    return w.wide(w.reshape(x, ones), shape)


def _broadcast(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return broadcast(w, xs[0], eqn.params["shape"], eqn.params["dims"])


def _permute(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.transpose(xs[0], eqn.params["axes"])


def _reshape(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.reshape(xs[0], eqn.params["shape"])


def _slice(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    p = eqn.params
    return w.slice(xs[0], p["start"], p["stop"], p["step"])


def _index(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,), ints = xs, eqn.params["ints"]
    rest = x.shape[len(ints) :]
    stop = (*[i + 1 for i in ints], *rest)
    part = w.slice(x, (*ints, *[0] * len(rest)), stop, (1,) * len(x.shape))
    return w.reshape(part, rest)


def _pad(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    """Elements apart first: each is put before its gap, and the last gap is cut off."""
    (x,), p = xs, eqn.params
    value = w.scalar(p["value"], x.dtype)
    for axis, gap in enumerate(p["interior"]):
        n = x.shape[axis]
        if gap and n > 1:
            before, after = x.shape[:axis], x.shape[axis + 1 :]
            rows = w.reshape(x, (*before, n, 1, *after))
            rows = _padded(w, rows, {axis + 1: (0, gap)}, value)
            line = w.reshape(rows, (*before, n * (gap + 1), *after))
            x = _cropped(w, line, {axis: (0, gap)})
    widths = {k: pair for k, pair in enumerate(zip(p["low"], p["high"], strict=True))}
    x = _padded(w, x, {k: (max(a, 0), max(b, 0)) for k, (a, b) in widths.items()}, value)
    return _cropped(w, x, {k: (max(-a, 0), max(-b, 0)) for k, (a, b) in widths.items()})


Widths = dict[int, tuple[int, int]]


def _padded(w: Writer, x: Ref, widths: Widths, value: Ref) -> Ref:
    pairs = [widths.get(k, (0, 0)) for k in range(len(x.shape))]
    if not any([a or b for a, b in pairs]):
        return x
    shape = [n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)]
    if 0 in x.shape:
        return w.wide(value, shape)
    pads = w.ints([*[a for a, _ in pairs], *[b for _, b in pairs]])
    if x.dtype.kind == "b":  # Pad of some runtimes has numbers alone
        out = w.op("Pad", [w.cast(x, INT32), pads, w.cast(value, INT32)], shape, INT32)
        return w.cast(out, x.dtype)
    return w.op("Pad", [x, pads, value], shape, x.dtype)


def _cropped(w: Writer, x: Ref, widths: Widths) -> Ref:
    pairs = [widths.get(k, (0, 0)) for k in range(len(x.shape))]
    if not any([a or b for a, b in pairs]):
        return x
    start = [a for a, _ in pairs]
    stop = [max(n - b, a) for n, (a, b) in zip(x.shape, pairs, strict=True)]
    return w.slice(x, start, stop, [1] * len(pairs))


def _reverse(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,), axes = xs, eqn.params["axes"]
    bounds = [[v] * len(axes) for v in (-1, _BEGINNING, -1)]
    start, stop, step = [w.ints(v) for v in bounds]
    return w.op("Slice", [x, start, stop, w.ints(axes), step], x.shape, x.dtype)


def _concatenate(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.op("Concat", xs, *_aval(eqn), axis=eqn.params["axis"])


def iota(w: Writer, shape: Sequence[int], axis: int) -> Ref:
    """The place along an axis."""
    limits = [w.scalar(v, INT64) for v in (0, shape[axis], 1)]
    line = w.op("Range", limits, (shape[axis],), INT64)
    return broadcast(w, line, shape, (axis,))


def _iota(w: Writer, eqn: Eqn, _xs: list[Ref]) -> Ref:
    shape, dtype = _aval(eqn)
    return w.cast(iota(w, shape, eqn.params["axis"]), dtype)


def _unset(w: Writer, eqn: Eqn, _xs: list[Ref]) -> Ref:
    shape, dtype = _aval(eqn)
    return broadcast(w, w.scalar(0, dtype), shape, ())


# --- folding --------------------------------------------------------------------------------------


def _reduced(w: Writer, kind: str, x: Ref, axes: Sequence[int]) -> Ref:
    shape = [n for k, n in enumerate(x.shape) if k not in axes]
    if x.dtype.kind in "iu" and x.dtype.itemsize < 4:  # which reductions have not
        wide = w.cast(x, np.dtype(f"{x.dtype.kind}4"))
        return w.cast(_reduced(w, kind, wide, axes), x.dtype)
    return w.op(kind, [x, w.ints(axes)], shape, x.dtype, keepdims=0)


def _reduction(kind: str, of_bools: str) -> Rule:
    """NaN stays in extrema, of which ONNX says nothing; truth values are 0 and 1."""

    def written(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
        (x,), axes = xs, eqn.params["axes"]
        if x.dtype.kind == "b":
            return w.cast(_reduced(w, of_bools, w.cast(x, INT32), axes), x.dtype)
        out = _reduced(w, kind, x, axes)
        if x.dtype.kind not in "fV" or kind not in ("ReduceMax", "ReduceMin"):
            return out
        unordered = w.each("Not", w.compare("Equal", x, x))
        some = _reduced(w, "ReduceMax", w.cast(unordered, INT32), axes)
        return w.select(w.cast(some, np.dtype(bool)), w.scalar(math.nan, x.dtype), out)

    return written


def _of_truths(kind: str) -> Rule:
    def written(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
        (x,), axes = xs, eqn.params["axes"]
        shape, dtype = _aval(eqn)
        if 0 in x.shape:
            return w.wide(w.scalar(kind == "ReduceMin", dtype), shape)
        return w.cast(_reduced(w, kind, w.cast(x, INT32), axes), x.dtype)

    return written


# --- indexing -------------------------------------------------------------------------------------


def _places(w: Writer, indices: Sequence[Ref]) -> list[Ref]:
    """Index arrays as int64; what that cannot hold is out of bounds all the same."""
    out: list[Ref] = []
    for i in indices:
        if i.dtype == np.uint64:
            i = w.each("Min", i, w.scalar(_FAR, i.dtype))
        out.append(w.cast(i, INT64))
    return out


def clamped(w: Writer, i: Ref, high: int) -> Ref:
    """0 <= i <= high."""
    return w.each("Min", w.each("Max", i, w.scalar(0, INT64)), w.scalar(high, INT64))


def _inside(w: Writer, places: Sequence[Ref], lengths: Sequence[int]) -> Ref:
    out: Ref | None = None
    for i, n in zip(places, lengths, strict=True):
        low = w.compare("GreaterOrEqual", i, w.scalar(0, INT64))
        ok = w.each("And", low, w.compare("Less", i, w.scalar(n, INT64)))
        out = ok if out is None else w.each("And", out, ok)
    assert out is not None
    return out


def _together(w: Writer, places: Sequence[Ref]) -> Ref:
    """Index arrays along a new last axis."""
    shape = places[0].shape
    parts = [w.reshape(i, (*shape, 1)) for i in places]
    if len(parts) == 1:
        return parts[0]
    return w.op("Concat", parts, (*shape, len(parts)), INT64, axis=len(shape))


def _in_front(x: Ref, axes: Sequence[int]) -> list[int]:
    return [*axes, *[k for k in range(len(x.shape)) if k not in axes]]


def _gather(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x, *indices), (shape, dtype) = xs, _aval(eqn)
    axes = eqn.params["axes"]
    lengths = [x.shape[a] for a in axes]
    if 0 in lengths or 0 in shape:
        return w.wide(w.scalar(0, dtype), shape)
    places = _places(w, indices)
    moved = w.transpose(x, _in_front(x, axes))
    near = [clamped(w, i, n - 1) for i, n in zip(places, lengths, strict=True)]
    out = w.op("GatherND", [moved, _together(w, near)], shape, dtype)
    if eqn.params["mode"] == "fill":
        inside = _inside(w, places, lengths)
        ones = (*inside.shape, *[1] * (len(shape) - len(inside.shape)))
        out = w.select(w.wide(w.reshape(inside, ones), shape), out, w.scalar(0, dtype))
    return out


_REDUCTIONS = {"set": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _scatter(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    x, updates, *indices = xs
    mode, axes = eqn.params["mode"], eqn.params["axes"]
    if 0 in x.shape or 0 in updates.shape:
        return x
    places, lengths = _places(w, indices), [x.shape[a] for a in axes]
    if mode == "set" and math.prod(places[0].shape) > 1:
        places = _only_last(w, places, lengths)
    order = _in_front(x, axes)
    moved = w.transpose(x, order)
    return w.transpose(
        _scattered(w, moved, places, updates, mode), [order.index(k) for k in range(len(order))]
    )


def _scattered(w: Writer, x: Ref, places: Sequence[Ref], updates: Ref, mode: str) -> Ref:
    """The updates of the leading axes, within one row more."""
    if x.dtype.kind == "b" and mode != "set":
        x, updates = w.cast(x, INT32), w.cast(updates, INT32)
        mode = "max" if mode in ("add", "max") else "min"
        return w.cast(_scattered(w, x, places, updates, mode), np.dtype(bool))
    lengths = x.shape[: len(places)]
    inside = _inside(w, places, lengths)
    rows = _padded(w, x, {0: (0, 1)}, w.scalar(0, x.dtype))
    first = w.select(inside, places[0], w.scalar(lengths[0], INT64))
    near = [clamped(w, i, n - 1) for i, n in zip(places[1:], lengths[1:], strict=True)]
    operands = [rows, _together(w, [first, *near]), updates]
    out = w.op("ScatterND", operands, rows.shape, x.dtype, reduction=_REDUCTIONS[mode])
    return _cropped(w, out, {0: (0, 1)})


def _only_last(w: Writer, places: list[Ref], lengths: Sequence[int]) -> list[Ref]:
    """The index arrays, out of bounds where another update of the same place follows."""
    types = [Aval(i.shape, INT64) for i in places]
    program = trace(lambda *i: [last_places(i, tuple(lengths))], types, "last").program
    (last,) = w.body(program, places)
    return [w.select(last, places[0], w.scalar(-1, INT64)), *places[1:]]


def _dynamic_slice(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x, *starts), sizes = xs, eqn.params["sizes"]
    if not sizes:
        return x
    places = [
        w.reshape(clamped(w, i, n - size), (1,))
        for i, n, size in zip(_places(w, starts), x.shape, sizes, strict=True)
    ]
    start = w.op("Concat", places, (len(sizes),), INT64, axis=0)
    stop = w.each("Add", start, w.ints(sizes))
    return w.op("Slice", [x, start, stop, w.ints(range(len(sizes)))], *_aval(eqn))


def _dynamic_update(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    x, update, *starts = xs
    if not x.shape:
        return update
    if 0 in update.shape:
        return x
    places: list[Ref] = []
    for axis, (i, n) in enumerate(zip(_places(w, starts), x.shape, strict=True)):
        start = clamped(w, i, n - update.shape[axis])
        places.append(w.each("Add", iota(w, update.shape, axis), start))
    operands = [x, _together(w, places), update]
    return w.op("ScatterND", operands, x.shape, x.dtype, reduction="none")


# --- sorting --------------------------------------------------------------------------------------


def _taken(w: Writer, x: Ref, order: Ref, axis: int) -> Ref:
    return w.op("GatherElements", [x, order], x.shape, x.dtype, axis=axis)


def _ascending(w: Writer, x: Ref, axis: int) -> Ref:
    """The stable order of numbers: of equal ones TopK takes the first [O]."""
    values = Ref(w.fresh(), x.shape, x.dtype)
    order = Ref(w.fresh(), x.shape, INT64)
    params = {"axis": axis, "largest": 0, "sorted": 1}
    w.node("TopK", [x, w.ints([x.shape[axis]])], [values, order], **params)
    return order


def _sort(w: Writer, eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    (key, *_), axis = xs, eqn.params["axis"]
    if key.dtype == np.uint64:
        raise no_form(w.form, eqn, "TopK of uint64 is not in all runtimes.")
    if 0 in key.shape:
        return xs
    if key.dtype.kind not in "fV":
        order = _ascending(w, w.cast(key, INT64), axis)
        return [_taken(w, x, order, axis) for x in xs]
    unordered = w.each("Not", w.compare("Equal", key, key))
    order = _ascending(w, w.select(unordered, w.scalar(math.inf, key.dtype), key), axis)
    last = _ascending(w, _taken(w, w.cast(unordered, INT32), order, axis), axis)  # NaN
    order = _taken(w, order, last, axis)
    return [_taken(w, x, order, axis) for x in xs]


PLACES: dict[str, Rule] = {
    "broadcast": _broadcast,
    "permute": _permute,
    "reshape": _reshape,
    "slice": _slice,
    "index": _index,
    "pad": _pad,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "iota": _iota,
    "unset": _unset,
    "reduce_sum": _reduction("ReduceSum", "ReduceMax"),
    "reduce_prod": _reduction("ReduceProd", "ReduceMin"),
    "reduce_max": _reduction("ReduceMax", "ReduceMax"),
    "reduce_min": _reduction("ReduceMin", "ReduceMin"),
    "reduce_any": _of_truths("ReduceMax"),
    "reduce_all": _of_truths("ReduceMin"),
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update": _dynamic_update,
    "sort": _sort,
}
