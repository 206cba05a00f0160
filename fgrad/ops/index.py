"""L3. Indexing by traced integers: gather, scatter, dynamic_slice, dynamic_update.

    gather(x, (i, j), axes=(0, 2))[k, b] = x[i[k], b, j[k]]          x: (A, B, C); i, j: (K,)

Gather is linear in `x` and its transpose is a scatter-add.  Scatter is linear in (x, updates) for
"set" and "add"; "mul", "min" and "max" have derivatives made of these.  Indices are not negative;
scatter drops updates that are out of bounds, gather clips ("clip") or yields zero ("fill").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import BOOL, INT64, Aval
from fgrad.ir.primitive import Primitive, Reads, reads_others
from fgrad.ops.elementwise import (
    add,
    and_,
    clip,
    convert,
    div,
    eq,
    ge,
    lit,
    lt,
    mul,
    ne,
    select,
)
from fgrad.ops.families import INTEGERS, ORDERED, batch_first, linear, moves, zeros_like
from fgrad.ops.indexed import add_rows, read, rest_of, updated
from fgrad.ops.places import Places, places
from fgrad.ops.shape import (
    broadcast,
    full,
    inverse_permutation,
    iota,
    move_axis,
    pad,
    permute,
    reshape,
    slice_,
)
from fgrad.ops.size import number
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_at
from fgrad.typing import EqnParams, Operand, Shaped

GATHER_MODES = ("clip", "fill")
SCATTER_LINEAR_IN = {"set": (0, 1), "add": (0, 1), "mul": (0,), "min": (), "max": ()}
SCATTER_MODES = tuple(SCATTER_LINEAR_IN)


def _reads_starts(count: int) -> Reads:
    return (starts := tuple(range(2, count)), starts, *[()] * (count - 2))


_GATHERS = traits.moving(fixed=False, repeats=True, drops=True)
_CUTS = traits.moving(fixed=False, drops=True)
_UPDATES = traits.moving(fixed=False, drops=True, joins=True)
gather_p = Primitive("gather", _GATHERS, ("axes", "mode"), (0,), reads=reads_others)
scatter_p = Primitive(
    "scatter",
    traits.collecting(addresses=True),
    ("axes", "mode"),
    lambda p: SCATTER_LINEAR_IN[p["mode"]],
)
dynamic_slice_p = Primitive("dynamic_slice", _CUTS, ("sizes",), (0,), reads=reads_others)
dynamic_update_p = Primitive("dynamic_update", _UPDATES, (), (0, 1), reads=_reads_starts)
# Declared here because the derivative of scatter-mul sorts; its rules stand in ops/sort.py.
sort_p = Primitive(
    "sort", traits.ordering(traits.Algorithm.SORT), params=("axis", "num_keys"), multiple=True
)


def gather(x: Value, indices: Sequence[Value], axes: tuple[int, ...], mode: str = "clip") -> Value:
    """The elements of `x` at `indices`, one integer array for each of the sorted `axes`.

    The result has the shape of the index arrays, followed by the remaining axes of `x`.
    """
    return bind_at(gather_p, x, indices, {"axes": axes, "mode": mode})


def scatter(
    x: Value, indices: Sequence[Value], updates: Value, axes: tuple[int, ...], mode: str = "set"
) -> Value:
    """`x` with `updates` set, added, ... at `indices`; "set" keeps the last of repeated ones."""
    return bind(scatter_p, x, updates, *indices, axes=axes, mode=mode)


def dynamic_slice(x: Value, starts: Sequence[Operand], sizes: tuple[int, ...]) -> Value:
    """The block of `x` with shape `sizes` at integer scalars `starts`, clamped to lie inside."""
    return bind(dynamic_slice_p, x, *starts, sizes=sizes)


def dynamic_update(x: Value, update: Value, starts: Sequence[Operand]) -> Value:
    """`x` with the block at `starts`, clamped to lie inside, replaced by `update`."""
    return bind(dynamic_update_p, x, update, *starts)


# --- types ---------------------------------------------------------------------------------------


def _index_shape(
    name: str, x: Aval, indices: tuple[Aval, ...], axes: tuple[int, ...]
) -> tuple[int, ...]:
    """The common shape of the index arrays, checked with the axes they index."""
    if len(axes) != len(indices) or list(axes) != sorted(set(axes)) or not axes:
        raise ShapeError(f"{name}: {len(indices)} index arrays for axes {axes}.")
    if axes[0] < 0 or axes[-1] >= x.ndim:
        raise ShapeError(f"{name}: axes {axes} of an array with {x.ndim} axes.")
    for i in indices:
        if i.dtype.kind not in INTEGERS:
            raise DtypeError(f"{name}: indices are {i.dtype}, not integers.")
        if i.shape != indices[0].shape:
            raise ShapeError(f"{name}: indices have shapes {indices[0].shape} and {i.shape}.")
    return indices[0].shape


@gather_p.type_rule
def _(x: Aval, *indices: Aval, axes: tuple[int, ...], mode: str) -> Aval:
    shape = _index_shape("gather", x, indices, axes)
    if mode not in GATHER_MODES:
        raise ShapeError(f"gather: mode {mode!r} is none of {GATHER_MODES}.")
    made = shape + tuple([x.shape[a] for a in rest_of(x.ndim, axes)])
    empty = [a for a in axes if x.shape[a] == 0]
    if empty and mode == "clip" and math.prod(made):
        raise ShapeError(f"gather: axis {empty[0]} of {x.shape} is empty: no index is in bounds.")
    return Aval(made, x.dtype)


@scatter_p.type_rule
def _(x: Aval, updates: Aval, *indices: Aval, axes: tuple[int, ...], mode: str) -> Aval:
    shape = _index_shape("scatter", x, indices, axes)
    if mode not in SCATTER_MODES:
        raise ShapeError(f"scatter: mode {mode!r} is none of {SCATTER_MODES}.")
    expected = shape + tuple([x.shape[a] for a in rest_of(x.ndim, axes)])
    if updates.shape != expected:
        raise ShapeError(f"scatter: updates have shape {updates.shape}, expected {expected}.")
    if updates.dtype != x.dtype:
        raise DtypeError(f"scatter: {updates.dtype} updates of a {x.dtype} array.")
    if mode in ("min", "max") and x.dtype.kind not in ORDERED:
        raise DtypeError(f"scatter: {mode} does not take {x.dtype} operands.")
    return x.strong()


def _check_starts(name: str, x: Aval, starts: tuple[Aval, ...], sizes: tuple[int, ...]) -> None:
    if not len(starts) == len(sizes) == x.ndim:
        raise ShapeError(f"{name}: {len(starts)} starts, sizes {sizes}, for shape {x.shape}.")
    for start in starts:
        if start.shape or start.dtype.kind not in INTEGERS:
            raise DtypeError(f"{name}: a start is {start}, not an integer scalar.")
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError(f"{name}: a block of shape {sizes} does not fit in shape {x.shape}.")


@dynamic_slice_p.type_rule
def _(x: Aval, *starts: Aval, sizes: tuple[int, ...]) -> Aval:
    _check_starts("dynamic_slice", x, starts, sizes)
    return Aval(sizes, x.dtype)


@dynamic_update_p.type_rule
def _(x: Aval, update: Aval, *starts: Aval) -> Aval:
    _check_starts("dynamic_update", x, starts, update.shape)
    if update.dtype != x.dtype:
        raise DtypeError(f"dynamic_update: a {update.dtype} update of a {x.dtype} array.")
    return x.strong()


# --- evaluation ----------------------------------------------------------------------------------


@gather_p.evaluate
def _(x: Value, *indices: Value, axes: tuple[int, ...], mode: str) -> Value:
    return read(x, indices, axes, mode)


@scatter_p.evaluate
def _(x: Value, updates: Value, *indices: Value, axes: tuple[int, ...], mode: str) -> Value:
    return updated(x, updates, indices, axes, mode)


def _block(x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices of a block, clamped to lie in `x`."""
    clamped = [
        min(max(int(s), 0), n - size) for s, n, size in zip(starts, x.shape, sizes, strict=True)
    ]
    return tuple([slice(s, s + size) for s, size in zip(clamped, sizes, strict=True)])


@dynamic_slice_p.evaluate
def _(x: Value, *starts: Value, sizes: tuple[int, ...]) -> Value:
    return x[_block(x, starts, sizes)]


@dynamic_update_p.evaluate
def _(x: Value, update: Value, *starts: Value) -> Value:
    out = np.array(x, copy=True)
    out[_block(x, starts, np.shape(update))] = update
    return out if out.ndim else out[()]


# --- gather: derivative, transpose, batching -----------------------------------------------------

linear(gather_p)
moves(gather_p, gaps="jvp transpose")
moves(scatter_p, gaps="jvp transpose", only=lambda axes, mode: mode in ("set", "add"))


def _clipped(indices: Sequence[Value], lengths: Sequence[int]) -> tuple[Value, ...]:
    """The indices that gather's mode "clip" reads."""
    wide = [convert(i, INT64) for i in indices]
    last = [number(n - 1, INT64, i.shape) for i, n in zip(wide, lengths, strict=True)]
    return tuple([clip(i, np.int64(0), n) for i, n in zip(wide, last, strict=True)])


@gather_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], x: Value, *indices: Value, axes: tuple[int, ...], mode: str
) -> tuple[Value | None, ...]:
    if mode == "clip":
        indices = _clipped(indices, [x.shape[a] for a in axes])
    return scatter(zeros_like(x), indices, ct, axes, "add"), *[None] * len(indices)


def _accumulate_gather(
    buffer: np.ndarray, ct: Value, values: Sequence[Value], params: EqnParams
) -> None:
    """Add the transpose of gather to `buffer` in place."""
    add_rows(buffer, ct, values[1:], params["axes"], params["mode"])


def _places_of_gather(values: Sequence[Value], params: EqnParams) -> tuple[Places | Value, ...]:
    x, *indices = values
    axes = params["axes"]
    if params["mode"] == "clip":
        indices = _clipped(indices, [x.shape[a] for a in axes])
    found: list[Places | Value] = [places(0, n) for n in x.shape]
    for a, i in zip(axes, indices, strict=True):
        found[a] = i
    return tuple(found)


gather_p.accumulate = _accumulate_gather
gather_p.places = _places_of_gather


def _shifted(axes: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """The same axes after an axis is inserted at `dim`."""
    return tuple([a + (a >= dim) for a in axes])


def _batched_indices(
    size: int, indices: Sequence[Value], dims: Sequence[int | None]
) -> tuple[Value, ...]:
    """The index arrays with their batch axis first, repeated where there is none."""
    return tuple([batch_first(size, i, d) for i, d in zip(indices, dims, strict=True)])


def _with_lane(indices: tuple[Value, ...]) -> tuple[Value, ...]:
    """Index arrays (batch axis first) preceded by one that selects the lane."""
    return iota(indices[0].shape, INT64, 0), *indices


@gather_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, axes: tuple[int, ...], mode: str
) -> tuple[Value, int]:
    (x, *indices), (dim, *index_dims) = operands, dims
    if all(d is None for d in index_dims):
        before = sum([a < dim for a in rest_of(x.ndim - 1, axes)])
        out = gather(x, indices, _shifted(axes, dim), mode)
        return out, len(indices[0].shape) + before
    batched = _batched_indices(size, indices, index_dims)
    if dim is None:
        return gather(x, batched, axes, mode), 0
    x = batch_first(size, x, dim)
    return gather(x, _with_lane(batched), (0, *_shifted(axes, 0)), mode), 0


# --- scatter -------------------------------------------------------------------------------------


def _places(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([x.shape[a] for a in axes])


def _is_last(x: Value, indices: Sequence[Value], axes: tuple[int, ...]) -> Value:
    """Where an update is the last one of its place: the one that "set" keeps."""
    shape = indices[0].shape
    if math.prod(shape) == 1:
        return full(shape, True, BOOL)
    number = reshape(iota((math.prod(shape),), INT64, 0), shape)
    every = tuple(range(len(axes)))
    first = full(_places(x, axes), -1, INT64)
    winner = scatter(first, indices, number, every, "max")
    return eq(gather(winner, indices, every, "fill"), number)


def _over_rows(flags: Value, like: Shaped) -> Value:
    """Flags for index positions, repeated along the remaining axes of updates."""
    rank = len(flags.shape)
    return broadcast(flags, like.shape, tuple(range(rank)))


@scatter_p.transpose
def _(
    ct: Value,
    wanted: Sequence[bool],
    x: Value,
    updates: Value,
    *indices: Value,
    axes: tuple[int, ...],
    mode: str,
) -> tuple[Value | None, ...]:
    """out = D x + P u; D is 1 for "add", the unwritten places for "set", a product for "mul"."""
    ct_x = ct_u = None
    if wanted[0]:
        if mode == "add":
            ct_x = ct
        else:
            factors = zeros_like(updates) if mode == "set" else updates
            ct_x = scatter(ct, indices, factors, axes, mode)
    if wanted[1]:
        ct_u = gather(ct, indices, axes, "fill")
        if mode == "set":
            last = _over_rows(_is_last(x, indices, axes), ct_u)
            ct_u = select(last, ct_u, lit(ct_u, 0))
    return ct_x, ct_u, *[None] * len(indices)


@scatter_p.jvp
def _(
    primals: Sequence[Value],
    tangents: Sequence[Value | None],
    out: Value,
    *,
    axes: tuple[int, ...],
    mode: str,
) -> Value | None:
    (x, updates, *indices), (t, s, *_) = primals, tangents
    if t is None and s is None:
        return None
    if mode == "add" and s is None:
        return t
    if mode in ("set", "add"):
        t = zeros_like(x) if t is None else t
        return scatter(t, indices, zeros_like(updates) if s is None else s, axes, mode)
    if mode == "mul":
        total = None if t is None else scatter(t, indices, updates, axes, "mul")
        if s is not None:
            term = mul(x, _product_tangent(x, indices, updates, s, axes))
            total = term if total is None else add(total, term)
        return total
    return _extremum_tangent(primals, (t, s), out, axes)


def _extremum_tangent(
    primals: Sequence[Value],
    tangents: tuple[Value | None, Value | None],
    out: Value,
    axes: tuple[int, ...],
) -> Value:
    """The mean of the tangents of all operands that attain the extremum."""
    x, updates, *indices = primals
    t, s = [zeros_like(p) if t is None else t for p, t in zip(primals[:2], tangents, strict=True)]
    wins = eq(x, out), eq(updates, gather(out, indices, axes, "fill"))
    zero = lit(x, 0)
    total = scatter(select(wins[0], t, zero), indices, select(wins[1], s, zero), axes, "add")
    count = [convert(w, x.dtype) for w in wins]
    return div(total, scatter(count[0], indices, count[1], axes, "add"))


def _product_tangent(
    x: Value, indices: Sequence[Value], updates: Value, s: Value, axes: tuple[int, ...]
) -> Value:
    """For each place, the tangent of the product of its updates.

    Updates are sorted by place, then multiplied as dual numbers, (u, s)(u', s') = (uu', us' + su'),
    in a segmented scan of doubling steps.  No division: zeros are right, in all orders.
    """
    places = _places(x, axes)
    rest = rest_of(x.ndim, axes)
    count = math.prod(indices[0].shape)
    place, order = bind(
        sort_p, _flat_places(indices, places), iota((count,), INT64, 0), axis=0, num_keys=1
    )
    rows = (count, *[x.shape[a] for a in rest])
    u, s = [gather(reshape(v, rows), (order,), (0,)) for v in (updates, s)]
    step = 1
    while step < count:
        joins = _over_rows(eq(place, _delayed(place, step, -1)), u)
        u0 = select(joins, _delayed(u, step, 0), lit(u, 1))
        s0 = select(joins, _delayed(s, step, 0), lit(s, 0))
        u, s = mul(u0, u), add(mul(u0, s), mul(s0, u))
        step *= 2
    if count:
        ends = ne(place, pad(slice_(place, (1,), (count,)), (0,), (1,), value=-1))
        s = select(_over_rows(ends, s), s, lit(s, 0))
    flat = scatter(full((math.prod(places), *rows[1:]), 0, x.dtype), (place,), s, (0,), "add")
    return permute(reshape(flat, places + rows[1:]), inverse_permutation(axes + rest))


def _delayed(x: Value, step: int, fill: int) -> Value:
    """x[i - step], and `fill` for the first `step` rows."""
    zero = (0,) * (len(x.shape) - 1)
    head = slice_(x, (0, *zero), (x.shape[0] - step, *x.shape[1:]))
    return pad(head, (step, *zero), (0, *zero), value=fill)


def _flat_places(indices: Sequence[Value], places: tuple[int, ...]) -> Value:
    """One flat index for those of all axes; out of bounds becomes the number of places."""
    count = math.prod(indices[0].shape)
    rows = [reshape(convert(i, INT64), (count,)) for i in indices]
    sizes = [np.int64(n) for n in places]
    each = [and_(ge(i, np.int64(0)), lt(i, n)) for i, n in zip(rows, sizes, strict=True)]
    inside, flat = reduce(and_, each), rows[0]
    for i, n in zip(rows[1:], sizes[1:], strict=True):
        flat = add(mul(flat, n), i)
    return select(inside, flat, np.int64(math.prod(places)))


@scatter_p.batch
def _(
    size: int,
    operands: Sequence[Value],
    dims: Sequence[int | None],
    *,
    axes: tuple[int, ...],
    mode: str,
) -> tuple[Value, int]:
    (x, updates, *indices), (dim, update_dim, *index_dims) = operands, dims
    if any(d is not None for d in index_dims):
        where = _with_lane(_batched_indices(size, indices, index_dims))
        x = batch_first(size, x, dim)
        updates = batch_first(size, updates, update_dim)
        return scatter(x, where, updates, (0, *_shifted(axes, 0)), mode), 0
    if dim is None:
        x, dim = batch_first(size, x, None), 0
    before = len(indices[0].shape) + sum([a < dim for a in rest_of(len(x.shape) - 1, axes)])
    if update_dim is None:
        updates, update_dim = batch_first(size, updates, None), 0
    updates = move_axis(updates, update_dim, before)
    return scatter(x, indices, updates, _shifted(axes, dim), mode), dim


# --- blocks --------------------------------------------------------------------------------------

linear(dynamic_slice_p)
linear(dynamic_update_p)
moves(dynamic_slice_p, gaps="transpose")
moves(dynamic_update_p, gaps="jvp transpose")


@dynamic_slice_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], x: Value, *starts: Value, sizes: tuple[int, ...]
) -> tuple[Value | None, ...]:
    return dynamic_update(zeros_like(x), ct, starts), *[None] * len(starts)


@dynamic_update_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], x: Value, update: Value, *starts: Value
) -> tuple[Value | None, ...]:
    ct_x = dynamic_update(ct, zeros_like(update), starts) if wanted[0] else None
    ct_u = dynamic_slice(ct, starts, update.shape) if wanted[1] else None
    return ct_x, ct_u, *[None] * len(starts)


def _accumulate_block(
    buffer: np.ndarray, ct: Value, values: Sequence[Value], params: EqnParams
) -> None:
    buffer[_block(buffer, values[1:], params["sizes"])] += ct


dynamic_slice_p.accumulate = _accumulate_block

_ZERO = INT64.type(0)


def _ramp(size: int, start: Value, dim: int | None, length: int, block: int) -> Value:
    """For each lane, the `block` consecutive indices from a clamped start: shape (size, block)."""
    start = clip(convert(start, INT64), _ZERO, np.int64(length - block))
    repeated = broadcast(start, (size, block), () if dim is None else (0,))
    return add(repeated, iota((size, block), INT64, 1))


def _block_indices(
    size: int,
    starts: Sequence[Value],
    dims: Sequence[int | None],
    lengths: Sequence[int],
    sizes: Sequence[int],
) -> tuple[tuple[int, ...], tuple[Value, ...]]:
    """The axes on which blocks are proper parts, and index arrays (size, *their block) for them."""
    axes = tuple([a for a, n in enumerate(lengths) if sizes[a] != n])
    shape = (size, *[sizes[a] for a in axes])
    return axes, tuple(
        [
            broadcast(_ramp(size, starts[a], dims[a], lengths[a], sizes[a]), shape, (0, k + 1))
            for k, a in enumerate(axes)
        ]
    )


@dynamic_slice_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int], *, sizes: tuple[int, ...]
) -> tuple[Value, int | None]:
    (x, *starts), (dim, *start_dims) = operands, dims
    if all(d is None for d in start_dims):
        starts.insert(dim, _ZERO)
        return dynamic_slice(x, starts, (*sizes[:dim], size, *sizes[dim:])), dim
    lengths = list(x.shape)
    if dim is not None:
        del lengths[dim]
    axes, where = _block_indices(size, starts, start_dims, lengths, sizes)
    if not axes:
        return x, dim
    if dim is None:
        out = gather(x, where, axes)
    else:
        x = batch_first(size, x, dim)
        lane = iota(where[0].shape, INT64, 0)
        out = gather(x, (lane, *where), (0, *_shifted(axes, 0)))
    return permute(
        out, (0, *[a + 1 for a in inverse_permutation(axes + rest_of(len(sizes), axes))])
    ), 0


@dynamic_update_p.batch
def _(size: int, operands: Sequence[Value], dims: Sequence[int]) -> tuple[Value, int | None]:
    (x, update, *starts), (dim, update_dim, *start_dims) = operands, dims
    if all(d is None for d in start_dims):
        if dim is None:
            x, dim = batch_first(size, x, None), 0
        if update_dim is None:
            update, update_dim = batch_first(size, update, None), 0
        starts.insert(dim, _ZERO)
        return dynamic_update(x, move_axis(update, update_dim, dim), starts), dim
    x = batch_first(size, x, dim)
    sizes = list(update.shape)
    if update_dim is not None:
        del sizes[update_dim]
    axes, where = _block_indices(size, starts, start_dims, x.shape[1:], sizes)
    if not axes:
        return update, update_dim
    rows = permute(
        batch_first(size, update, update_dim),
        (0, *[a + 1 for a in axes + rest_of(len(sizes), axes)]),
    )
    return scatter(x, _with_lane(where), rows, (0, *_shifted(axes, 0)), "set"), 0
