"""L3. Reductions and cumulative operations; the reduced axes disappear, the dtype stays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.primitive import DISCRETE, NOT_LINEAR, Primitive
from fgrad.ir.traits import Along
from fgrad.ops.elementwise import (
    add,
    and_,
    convert,
    div,
    eq,
    isnan,
    lit,
    mul,
    ne,
    not_,
    or_,
    select,
    sub,
)
from fgrad.ops.families import (
    ALL,
    BROADCAST,
    FLOATS,
    ORDERED,
    batch_first,
    in_float32,
    linear,
    moves,
)
from fgrad.ops.index import gather
from fgrad.ops.known import known, other_products
from fgrad.ops.selected import Branch, Selected, Support, Tangent, fitted, plain
from fgrad.ops.shape import (
    REDUCE_SUM,
    Ints,
    add_n,
    broadcast,
    concatenate,
    inverse_permutation,
    iota,
    pad,
    permute,
    reshape,
    slice_,
)
from fgrad.ops.shape import reverse as backwards
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import Array, EqnParams


def kept_axes(ndim: int, axes: Ints) -> Ints:
    """The axes that a reduction over `axes` keeps."""
    return tuple(a for a in range(ndim) if a not in axes)


def spread(y: Value, shape: Ints, axes: Ints) -> Value:
    """A reduced value repeated along the axes it was reduced over."""
    kept = kept_axes(len(shape), axes) if len(axes) < len(shape) else ()
    return bind_one(BROADCAST, y, {"shape": shape, "dims": kept})


MANY = 16_384  # elements from which on short sums are added array by array


def _of_few(ufunc: np.ufunc, x: np.ndarray, axis: int) -> Value:
    """Fewer than 8 along an axis are taken in order, as by NumPy, which calls a loop for each."""
    moved = np.moveaxis(x, axis, 0)
    out = np.array(moved[0])
    for part in moved[1:]:
        ufunc(out, part, out=out)
    return out


def _reduction(prim: Primitive, ufunc: np.ufunc, accepts: str, empty: bool = True) -> None:
    @prim.type_rule
    def _(x: Aval, *, axes: Ints) -> Aval:
        if any(not 0 <= a < x.ndim for a in axes) or list(axes) != sorted(set(axes)):
            raise ShapeError(f"{prim.name}: axes {axes} are not those of shape {x.shape}.")
        if x.dtype.kind not in accepts:
            raise DtypeError(f"{prim.name} does not take {x.dtype}.")
        if not empty and any(x.shape[a] == 0 for a in axes):
            raise ShapeError(f"{prim.name}: an empty axis of shape {x.shape} has no such value.")
        return Aval(tuple(x.shape[a] for a in kept_axes(x.ndim, axes)), x.dtype)

    @prim.batch
    def _(
        size: int, operands: Sequence[Value], dims: Sequence[int], *, axes: Ints
    ) -> tuple[Value, int]:
        (x,), (d,) = operands, dims
        moved = tuple(a + (a >= d) for a in axes)
        return bind_one(prim, x, {"axes": moved}), d - sum(a < d for a in moved)

    reduce = ufunc.reduce
    if ufunc in (np.add, np.multiply):
        in_wider = in_float32(lambda x, *, axes: reduce(x, axes, x.dtype))

        @prim.evaluate
        def _(x: np.ndarray, *, axes: Ints) -> Value:
            dtype = x.dtype
            if x.size > MANY and len(axes) == 1 and x.shape[axes[0]] < 8 and dtype.kind == "f":
                return _of_few(ufunc, x, axes[0])
            return reduce(x, axes, dtype) if dtype.kind != "V" else in_wider(x, axes=axes)
    else:
        prim.evaluate(lambda x, *, axes: reduce(x, axes))


_reduction(REDUCE_SUM, np.add, ALL)
linear(REDUCE_SUM)
moves(REDUCE_SUM, sums="jvp")


@REDUCE_SUM.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axes: Ints) -> tuple[Value]:
    return (spread(ct, x.shape, axes),)


reduce_prod_p = Primitive("reduce_prod", traits.folding(Along.AXES, "mul"), params=("axes",))
_reduction(reduce_prod_p, np.multiply, ALL)
reduce_prod_p.refuse("transpose", NOT_LINEAR)


@reduce_prod_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value | None], _out: object, *, axes: Ints
) -> Value:
    """(x, t)(y, s) = (xy, ty + xs), over a balanced tree: right where factors are zero."""
    (x,), (t,) = primals, [plain(t) for t in tangents]
    kept = kept_axes(len(x.shape), axes)
    order = (*kept, *axes)
    shape = tuple(x.shape[a] for a in kept)
    flat = (*shape, math.prod([x.shape[a] for a in axes]))
    x, t = (reshape(permute(v, order), flat) for v in (x, t))
    n = flat[-1]
    if n == 0:
        return broadcast(lit(t, 0), shape, ()) if shape else lit(t, 0)
    while n > 1:
        half = n // 2
        left, right, rest = (_last(x, 0, half), _last(x, half, 2 * half), _last(x, 2 * half, n))
        tl, tr, t_rest = (_last(t, 0, half), _last(t, half, 2 * half), _last(t, 2 * half, n))
        x = mul(left, right)
        t = add_n([mul(tl, right), mul(left, tr)])
        if n % 2:
            x, t = concatenate([x, rest], len(shape)), concatenate([t, t_rest], len(shape))
        n = half + n % 2
    return reshape(t, shape)


def _last(x: Value, start: int, stop: int) -> Value:
    return slice_(x, (*[0] * (len(x.shape) - 1), start), (*x.shape[:-1], stop))


def _pull_prod(
    cts: Sequence[Value],
    _wanted: object,
    values: Sequence[Value],
    outs: Sequence[Value],
    params: EqnParams,
) -> Sequence[Tangent]:
    """ct out / x for known numbers; where a product is zero, too small or too large, ct times the
    products of all other factors."""
    (ct,), (x,), (out,), axes = cts, values, outs, params["axes"]
    if not known(ct, x, out) or x.dtype.kind not in "fc":
        return NotImplemented
    size = np.abs(out)
    if not size.size or not np.isfinite(size).all():
        return NotImplemented
    plain_rows = size >= np.finfo(x.dtype).tiny
    if plain_rows.all():
        return (np.true_divide(spread(np.multiply(ct, out), x.shape, axes), x),)
    order = (*kept_axes(x.ndim, axes), *axes)
    rows = np.transpose(x, order).reshape(*size.shape, -1)
    others = np.empty_like(rows)
    others[plain_rows] = out[plain_rows][..., None] / rows[plain_rows]
    others[~plain_rows] = other_products(rows[~plain_rows])
    back = inverse_permutation(order)
    others = np.transpose(others.reshape([x.shape[a] for a in order]), back)
    return (np.multiply(spread(ct, x.shape, axes), others),)


reduce_prod_p.pullback = _pull_prod
reduce_prod_p.selects = True


reduce_max_p = Primitive("reduce_max", traits.folding(Along.AXES, "max"), params=("axes",))
reduce_min_p = Primitive("reduce_min", traits.folding(Along.AXES, "min"), params=("axes",))


def _attained(x: Value, out: Value, axes: Ints) -> tuple[Value, Value]:
    """Where the extremum is attained, and at how many places: they share its derivative."""
    here = eq(x, spread(out, x.shape, axes))
    return here, bind(REDUCE_SUM, convert(here, x.dtype), axes=axes)


def _extremum_jvp(
    primals: Sequence[Value], tangents: Sequence[Value | None], out: Value, *, axes: Ints
) -> Value:
    """The mean of the tangents at the places where the extremum is attained."""
    (x,), (t,) = primals, [plain(t) for t in tangents]
    here, count = _attained(x, out, axes)
    return div(bind(REDUCE_SUM, select(here, t, lit(t, 0)), axes=axes), count)


def _extremum_pullback(
    cts: Sequence[Value],
    _wanted: object,
    values: Sequence[Value],
    outs: Sequence[Value],
    params: EqnParams,
) -> Sequence[Tangent]:
    """The transpose of the mean: an equal share for each place, and NaN if the extremum is."""
    (ct,), (x,), (out,), axes = cts, values, outs, params["axes"]
    selected = type(ct) is Selected
    t = ct.value if selected else ct
    here, count = _attained(x, out, axes)
    share = div(t, count)
    if x.dtype.kind in FLOATS:
        unordered = ne(out, out)
        share = select(unordered, lit(t, math.nan), share)
        here = or_(here, spread(unordered, x.shape, axes))

    def repeated(bits: Value) -> Value:
        return spread(fitted(bits, t.shape), x.shape, axes)

    outer = Support((ct.support,), repeated) if selected else None
    return (Selected(spread(share, x.shape, axes), Branch(here, True, outer)),)


for _prim, _ufunc in ((reduce_max_p, np.maximum), (reduce_min_p, np.minimum)):
    _reduction(_prim, _ufunc, ORDERED, empty=False)
    _prim.jvp(_extremum_jvp)
    _prim.pullback = _extremum_pullback
    _prim.selects = True
    _prim.refuse("transpose", NOT_LINEAR)

reduce_any_p = Primitive("reduce_any", traits.folding(Along.AXES, "or"), params=("axes",))
reduce_all_p = Primitive("reduce_all", traits.folding(Along.AXES, "and"), params=("axes",))
for _prim, _ufunc in ((reduce_any_p, np.logical_or), (reduce_all_p, np.logical_and)):
    _reduction(_prim, _ufunc, "b")
    _prim.refuse("jvp", DISCRETE)
    _prim.refuse("transpose", NOT_LINEAR)


def _reducer(prim: Primitive, what: str) -> Callable[[Value, Ints], Value]:
    def reduce(x: Value, axes: Ints) -> Value:
        return bind_one(prim, x, {"axes": axes}) if axes else x

    reduce.__name__ = prim.name
    reduce.__doc__ = f"{what} over `axes`, a sorted tuple; they disappear from the shape."
    return reduce


reduce_sum = _reducer(REDUCE_SUM, "Sum")
reduce_prod = _reducer(reduce_prod_p, "Product")
reduce_max = _reducer(reduce_max_p, "Largest element (NaN if there is one)")
reduce_min = _reducer(reduce_min_p, "Smallest element (NaN if there is one)")
reduce_any = _reducer(reduce_any_p, "Logical or")
reduce_all = _reducer(reduce_all_p, "Logical and")


# --- argmax, argmin -----------------------------------------------------------------------------


def _arg_extremum(name: str, evaluate: Callable[..., Array], op: str) -> Primitive:
    prim = Primitive(name, traits.folding(Along.PLACE, op), params=("axis",))

    @prim.type_rule
    def _(x: Aval, *, axis: int) -> Aval:
        if x.shape[axis] == 0:
            raise ShapeError(
                f"attempt to get {name} of an empty sequence: axis {axis} of {x.shape}."
            )
        return Aval(x.shape[:axis] + x.shape[axis + 1 :], INT64)

    @prim.batch
    def _(
        size: int, operands: Sequence[Value], dims: Sequence[int | None], *, axis: int
    ) -> tuple[Value, int]:
        x = batch_first(size, operands[0], dims[0])
        return bind_one(prim, x, {"axis": axis + 1}), 0

    prim.evaluate(lambda x, *, axis: evaluate(x, axis=axis))
    prim.refuse("jvp", DISCRETE)
    prim.refuse("transpose", NOT_LINEAR)
    return prim


argmax_p = _arg_extremum("argmax", np.argmax, "max")
argmin_p = _arg_extremum("argmin", np.argmin, "min")


def argmax(x: Value, axis: int) -> Value:
    """The index of the first largest element along an axis; of the first NaN if there is one."""
    return bind_one(argmax_p, x, {"axis": axis})


def argmin(x: Value, axis: int) -> Value:
    """The index of the first smallest element along an axis; of the first NaN if there is one."""
    return bind_one(argmin_p, x, {"axis": axis})


# --- cumulative ---------------------------------------------------------------------------------


def _cumulative(name: str, ufunc: np.ufunc, op: str, accepts: str) -> Primitive:
    running = traits.folding(Along.RUNNING, op)
    linear_in = "all" if op == "add" else None
    prim = Primitive(name, running, params=("axis", "reverse"), linear_in=linear_in)

    @prim.type_rule
    def _(x: Aval, *, axis: int, reverse: bool) -> Aval:
        if x.dtype.kind not in accepts:
            raise DtypeError(f"{name} does not take {x.dtype}.")
        if not 0 <= axis < x.ndim:
            raise ShapeError(f"{name}: axis {axis} is not one of shape {x.shape}.")
        return Aval(x.shape, x.dtype)

    @prim.evaluate
    @in_float32
    def _(x: Value, *, axis: int, reverse: bool) -> np.ndarray:
        if reverse:
            return np.flip(ufunc.accumulate(np.flip(x, axis), axis, dtype=x.dtype), axis)
        return ufunc.accumulate(x, axis, dtype=x.dtype)

    @prim.batch
    def _(
        size: int,
        operands: Sequence[Value],
        dims: Sequence[int | None],
        *,
        axis: int,
        reverse: bool,
    ) -> tuple[Value, int]:
        x = batch_first(size, operands[0], dims[0])
        return bind_one(prim, x, {"axis": axis + 1, "reverse": reverse}), 0

    return prim


cumsum_p = _cumulative("cumsum", np.add, "add", ALL)
linear(cumsum_p)
moves(cumsum_p, sums="transpose jvp")  # of bools it is an or
cumsum_p.transpose(lambda ct, wanted, x, *, axis, reverse: (cumsum(ct, axis, not reverse),))

cumprod_p = _cumulative("cumprod", np.multiply, "mul", ALL)
cumprod_p.refuse("transpose", NOT_LINEAR)


@cumprod_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], _out: object, *, axis: int, reverse: bool
) -> Value:
    """Doubling steps on pairs (x, t): log2(n) of them, right where factors are zero."""
    (x,), (t,) = primals, tangents
    n, step = x.shape[axis], 1
    while step < n:
        x_before = _shift(x, axis, step, reverse, 1)
        t_before = _shift(t, axis, step, reverse, 0)
        t = add_n([mul(t, x_before), mul(x, t_before)])
        x = mul(x, x_before)
        step *= 2
    return t


def _shift(x: Value, axis: int, step: int, reverse: bool, fill: int) -> Value:
    """x[i - step] along an axis (x[i + step] if reverse), `fill` where there is none."""
    sign = -1 if reverse else 1
    width = tuple(sign * step if a == axis else 0 for a in range(len(x.shape)))
    return pad(x, width, tuple(-w for w in width), None, fill)


cummax_p = _cumulative("cummax", np.maximum, "max", ORDERED)
cummin_p = _cumulative("cummin", np.minimum, "min", ORDERED)


def _cumulative_extremum_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], out: Value, *, axis: int, reverse: bool
) -> Value:
    """The mean of the tangents at the places so far where the running extremum is attained.

    out stays the same from its first place on: t[first], and running sums of its later equals.
    """
    (x,), (t,) = primals, tangents
    if reverse:
        x, t, out = [backwards(v, (axis,)) for v in (x, t, out)]
    place = iota(x.shape, INT64, axis)
    begins = or_(eq(place, lit(place, 0)), ne(out, _shift(out, axis, 1, False, 0)))
    first = bind(cummax_p, select(begins, place, lit(place, 0)), axis=axis, reverse=False)
    again = and_(eq(x, out), not_(begins))
    where = [first if a == axis else iota(x.shape, INT64, a) for a in range(len(x.shape))]

    def since(v: Value) -> Value:
        total = cumsum(select(again, v, lit(v, 0)), axis)
        return sub(total, gather(total, tuple(where), tuple(range(len(x.shape)))))

    total = add(gather(t, tuple(where), tuple(range(len(x.shape)))), since(t))
    count = add(convert(since(broadcast(lit(place, 1), x.shape, ())), t.dtype), lit(t, 1))
    mean = div(total, select(isnan(out), lit(t, np.nan), count))
    return backwards(mean, (axis,)) if reverse else mean


for _prim in (cummax_p, cummin_p):
    _prim.jvp(_cumulative_extremum_jvp)
    _prim.refuse("transpose", NOT_LINEAR)


def cumsum(x: Value, axis: int, reverse: bool = False) -> Value:
    """Running sum along an axis, from the end if `reverse`."""
    return bind_one(cumsum_p, x, {"axis": axis, "reverse": reverse})


def cumprod(x: Value, axis: int, reverse: bool = False) -> Value:
    """Running product along an axis, from the end if `reverse`."""
    return bind_one(cumprod_p, x, {"axis": axis, "reverse": reverse})


def cummax(x: Value, axis: int, reverse: bool = False) -> Value:
    """Running maximum along an axis, from the end if `reverse`."""
    return bind_one(cummax_p, x, {"axis": axis, "reverse": reverse})


def cummin(x: Value, axis: int, reverse: bool = False) -> Value:
    """Running minimum along an axis, from the end if `reverse`."""
    return bind_one(cummin_p, x, {"axis": axis, "reverse": reverse})
