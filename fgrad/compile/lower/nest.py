"""L5. Equations that need loops of their own: one kernel each, producers computed inside.

cumsum           parallel over the other axes, serial along the axis
argmax           the same, carrying the best value and its place
scatter          copy, then serial over the updates
dynamic_update   copy, then store the update at the computed place
concatenate      one nest for each operand, storing into its region
fold             zeros, then serial over windows and offsets
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.kernel.affine import ZERO, AffineIndex, Places, row_major, shifted, total, value
from fgrad.compile.kernel.builder import KernelBuilder
from fgrad.compile.kernel.ir import Ref
from fgrad.compile.kernel.rewrite import identity
from fgrad.compile.lower.rules import accumulate_op, better_than, clamped, position
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.primitive import Primitive, folds
from fgrad.ir.program import Atom, Eqn, Var
from fgrad.ir.traits import Along
from fgrad.ops import primitives as prims


def _with(places: Places, at: int, place: Places) -> Places:
    return places[:at] + place + places[at:]


def _copy(b: KernelBuilder, source: Atom, out: Var) -> None:
    """out[...] = source[...]."""
    shape = out.aval.shape
    places = b.open_all(shape, "parallel")
    b.store(b.buffer(out, "out"), total(places, row_major(shape)), b.value(source, places))
    b.close_to(0)


def cumulative_nest(b: KernelBuilder, eqn: Eqn) -> None:
    """s = op(s, x[i]); out[i] = s."""
    (x,), (out,) = eqn.inputs, eqn.outputs
    axis, shape, dtype = eqn.params["axis"], out.aval.shape, out.aval.dtype
    op = accumulate_op(eqn.prim, dtype)
    others = b.open_all([n for k, n in enumerate(shape) if k != axis], "parallel")
    acc = b.accumulator(op, dtype, identity(op, dtype))
    step = b.open(shape[axis], "serial")
    at = shifted(step, -1, shape[axis] - 1) if eqn.params["reverse"] else step
    places = _with(others, axis, (at,))
    b.update(acc, b.value(x, places))
    b.store(b.buffer(out, "out"), total(places, row_major(shape)), b.read(acc))
    b.close_to(0)


def arg_extremum_nest(b: KernelBuilder, eqn: Eqn) -> None:
    """if x[i] > best, or is the first NaN: best, where = x[i], i."""
    (x,), (out,) = eqn.inputs, eqn.outputs
    axis, dtype = eqn.params["axis"], x.aval.dtype
    others = b.open_all(out.aval.shape, "parallel")
    first = b.value(x, _with(others, axis, (ZERO,)))
    best = b.accumulator("carry", dtype, Ref(first))
    where = b.accumulator("carry", INT64, 0)
    step = b.open(x.aval.shape[axis], "serial")
    new, old = b.value(x, _with(others, axis, (step,))), b.read(best)
    better = b.op(better_than(eqn.prim), BOOL, new, old)
    if dtype.kind == "f":
        fresh = b.op("and", BOOL, b.op("isnan", BOOL, new), b.op("eq", BOOL, old, old))
        better = b.op("or", BOOL, better, fresh)
    place = b.op("select", INT64, better, b.index(step), b.read(where))
    b.update(best, b.op("select", dtype, better, new, old))
    b.update(where, place)
    b.close()
    b.store(b.buffer(out, "out"), total(others, row_major(out.aval.shape)), b.read(where))
    b.close_to(0)


def scatter_nest(b: KernelBuilder, eqn: Eqn) -> None:
    """out = x; out[indices] op= updates in order; what is out of bounds is dropped."""
    _copy(b, eqn.inputs[0], eqn.outputs[0])
    write_updates(b, eqn, eqn.params["mode"])


def write_updates(b: KernelBuilder, eqn: Eqn, mode: str) -> None:
    """out[indices] op= updates, for a scatter whose first operand is in its place already."""
    _, updates, *indices = eqn.inputs
    (out,) = eqn.outputs
    shape, axes = out.aval.shape, eqn.params["axes"]
    lane = own_lane(b, eqn)
    at = b.open_all(indices[0].aval.shape[:1], "serial" if lane is None else "parallel")
    at += b.open_all(indices[0].aval.shape[1:], "serial")
    found: dict[int, AffineIndex] = {}
    inside = None
    for a, index in zip(axes, indices, strict=True):
        if a == lane:
            found[a] = at[0]
            continue
        id = b.drive(position(b, index, at, None))
        inside = b.within(value(id), 0, shape[a], inside)
        found[a] = value(id)
    rest = b.open_all([n for a, n in enumerate(shape) if a not in axes], "parallel")
    remaining = iter(rest)
    places = tuple([found[a] if a in found else next(remaining) for a in range(len(shape))])
    id = b.value(updates, at + rest)
    target = total(places, row_major(shape))
    b.store(b.buffer(out, "out"), target, id, mode, inside)
    b.close_to(0)


def own_lane(b: KernelBuilder, eqn: Eqn) -> int | None:
    """The axis of a result of which each row of updates, in the indices' first axis, has a place
    of its own: its number.  Such rows do not meet."""
    for axis, index in zip(eqn.params["axes"], eqn.inputs[2:], strict=True):
        made = b.virtual.get(index) if isinstance(index, Var) else None
        if made is not None and made.prim is prims.iota and made.params["axis"] == 0:
            fits = index.aval.shape[0] <= eqn.outputs[0].aval.shape[axis]
            return axis if fits else None
    return None


def dynamic_update_nest(b: KernelBuilder, eqn: Eqn) -> None:
    """out = x; out[clamp(start) + i] = update[i]."""
    _copy(b, eqn.inputs[0], eqn.outputs[0])
    write_block(b, eqn, "set")


def write_block(b: KernelBuilder, eqn: Eqn, mode: str) -> None:
    """out[clamp(start) + i] op= update[i], for an update whose first operand is in its place."""
    _, update, *starts = eqn.inputs
    (out,) = eqn.outputs
    shape, part = out.aval.shape, update.aval.shape
    first = []
    for k, start in enumerate(starts):
        id = b.drive(position(b, start, (), None))
        first.append(value(clamped(b, id, shape[k] - part[k])))
    places = b.open_all(part, "parallel")
    id = b.value(update, places)
    moved = [total(pair, (1, 1)) for pair in zip(first, places, strict=True)]
    b.store(b.buffer(out, "out"), total(moved, row_major(shape)), id, mode)
    b.close_to(0)


def concatenate_nest(b: KernelBuilder, eqn: Eqn) -> None:
    """out[start_k + i] = x_k[i] for each operand k."""
    (out,) = eqn.outputs
    axis, strides, start = eqn.params["axis"], row_major(out.aval.shape), 0
    for x in eqn.inputs:
        places = b.open_all(x.aval.shape, "parallel")
        id = b.value(x, places)
        b.store(b.buffer(out, "out"), total(places, strides, start * strides[axis]), id)
        b.close_to(0)
        start += x.aval.shape[axis]


def fold_nest(b: KernelBuilder, eqn: Eqn) -> None:
    """out = 0; out[stride * window + dilation * offset] += y[window, offset]."""
    (y,), (out,) = eqn.inputs, eqn.outputs
    shape, axes, params = out.aval.shape, eqn.params["axes"], eqn.params
    zero, name = b.const(0, out.aval.dtype), b.buffer(out, "out")
    b.store(name, total(b.open_all(shape, "parallel"), row_major(shape)), zero)
    b.close_to(0)
    outer = b.open_all([n for a, n in enumerate(shape) if a not in axes], "parallel")
    windows = b.open_all([y.aval.shape[a] for a in axes], "serial")
    offsets = b.open_all(params["sizes"], "serial")
    read, write = [], []
    kept = iter(outer)
    for a in range(len(shape)):
        if a not in axes:
            place = next(kept)
            read.append(place)
            write.append(place)
            continue
        k = axes.index(a)
        read.append(windows[k])
        step = (params["strides"][k], params["dilations"][k])
        write.append(total((windows[k], offsets[k]), step))
    id = b.value(y, (*read, *offsets))
    b.store(name, total(write, row_major(shape)), id, "add")
    b.close_to(0)


NESTS: dict[Primitive, Callable[[KernelBuilder, Eqn], None]] = {
    **dict.fromkeys(folds(Along.RUNNING), cumulative_nest),
    **dict.fromkeys(folds(Along.PLACE), arg_extremum_nest),
    prims.scatter: scatter_nest,
    prims.dynamic_update: dynamic_update_nest,
    prims.concatenate: concatenate_nest,
    prims.fold: fold_nest,
}
