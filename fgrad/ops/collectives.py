"""L3. Collectives over a named axis: `x_r` is the value at place r of the axis, of n places.

    psum        x_r -> sum_s x_s           same        transpose pvary
    pmax, pmin  x_r -> max_s x_s           same        by their derivative
    all_gather  x_r -> (x_0, .., x_n-1)    same        transpose ct -> ct[r]
    pvary       x -> x                     varies      transpose psum; nothing is communicated
    psum_scatter x_r -> sum_s x_s[r]       varies      transpose all_gather
    all_to_all  x_r -> (x_0[r], ..)        varies      its own transpose
    ppermute    x_r -> x_s or 0            varies      transpose: the pairs reversed
    axis_index  () -> r                    varies      discrete

Under `vmap` over the axis itself the places are the examples of the batch, and each is a few
operations on whole arrays; over another axis a collective stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NoReturn

from fgrad.errors import DtypeError, ShapeError, VaryingError
from fgrad.ir import traits
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.primitive import DISCRETE, NOT_LINEAR, Primitive
from fgrad.ir.traits import Across, Algorithm
from fgrad.ops.elementwise import convert, div, eq, lit, mul, ne, or_, select
from fgrad.ops.families import NUMBERS, REALS, batch_first, linear, zeros_like
from fgrad.ops.index import gather
from fgrad.ops.reduce import reduce_max, reduce_min, reduce_sum
from fgrad.ops.selected import Tangent, plain
from fgrad.ops.shape import concatenate, iota, permute, slice_
from fgrad.trace import Value, bind
from fgrad.tracing.axes import axis_named
from fgrad.tracing.ranks import AXES
from fgrad.tracing.thread_state import THREAD

Pairs = tuple[tuple[int, int], ...]  # (from, to)
Lanes = tuple[Value, "int | None"]

PARAMS = ("axis", "places")


def _evaluate(name: str) -> Callable[..., Value]:
    """Outside of traces, the places of an axis are ranks."""

    def at_rank(*operands: Value, axis: str, places: int, **params: object) -> Value:
        ranks = AXES.get(axis)
        if ranks is None:
            axis_named(axis, name)
            raise AssertionError("an equation over an open axis is recorded")
        return getattr(ranks, name)(*operands, **params)

    return at_rank


def _collective(
    name: str,
    across: Across,
    along: Callable[..., Lanes],
    params: tuple[str, ...] = PARAMS,
    items: bool = False,
    shift: int = 0,
    is_linear: bool = True,
    algorithm: Algorithm | None = None,
) -> Primitive:
    """A collective of one operand.

    Arguments:
        along: its batching rule for the examples of the axis itself: `(n, x, dim, **params)`.
        items: whether it exchanges the items of its first axis, of length n.
        shift: how many axes more than the operand the result has in front.
    """
    prim = Primitive(
        name, traits.collective(across, algorithm), params, linear_in="all" if is_linear else None
    )
    prim.evaluate(_evaluate(name))
    if is_linear:
        linear(prim)

    @prim.batch
    def _(size: int, operands: Sequence[Value], dims: Sequence[int | None],
          **params: object) -> Lanes:  # fmt: skip
        (x,), (d,) = operands, dims
        if THREAD.state.mapped == params["axis"]:
            return along(size, x, d, **params)
        assert d is not None
        if items and d == 0:
            x, d = permute(x, (1, 0, *range(2, len(x.shape)))), 1
        return bind(prim, x, **params), d + shift

    return prim


def _items(name: str, x: Aval, size: int) -> None:
    if not x.shape or x.shape[0] != size:
        raise ShapeError(f"{name}: {x} has no first axis of length {size}.")


# --- pvary


def _varies_along(_size: int, x: Value, dim: int | None, **_params: object) -> Lanes:
    return x, dim


pvary_p = _collective("pvary", Across.COUNTS, _varies_along)


@pvary_p.type_rule
def _(x: Aval, *, axis: str, places: int) -> Aval:
    return x.strong()


def pvary(x: Value, axis: str) -> Value:
    """The value, as one that varies along an axis."""
    return bind(pvary_p, x, axis=axis, places=axis_named(axis, "pvary").size)


@pvary_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axis: str, places: int) -> tuple[Value]:
    return (bind(psum_p, ct, axis=axis, places=places),)


# --- entered: a value from outside of a program of one rank

entered_p = Primitive("entered", traits.COPIES)
entered_p.evaluate(lambda x: x)


@entered_p.type_rule
def _(x: Aval) -> Aval:
    return x.strong()


@entered_p.jvp
def _(_primals: Sequence[Value], _tangents: Sequence[Tangent], _out: Value) -> NoReturn:
    """Outside of the program nothing says whether a value is one for all ranks: a gradient by it
    could be that of this rank's part alone."""
    raise VaryingError(
        "A derivative of a program of ranks is taken in it, not from outside of shard_map.",
        (
            ("why", "outside, each rank has values of its own, and no sum over ranks is implied."),
            ("write", "@dist.shard_map(mesh=mesh, in_specs=..., out_specs=P())"),
            ("write", "def gradient(p, x):"),
            ("write", "    return fgrad.grad(lambda p: lax.pmean(loss(p, x), 'data'))(p)"),
        ),
    )


@entered_p.batch
def _(size: int, operands: Sequence[Value], dims: Sequence[int | None]) -> Lanes:
    return bind(entered_p, *operands), dims[0]


# --- psum


def _sum_along(size: int, x: Value, dim: int | None, **_params: object) -> Lanes:
    return (mul(x, lit(x, size)) if dim is None else reduce_sum(x, (dim,))), None


psum_p = _collective("psum", Across.SAME, _sum_along, algorithm=Algorithm.ALL_REDUCE)


@psum_p.type_rule
def _(x: Aval, *, axis: str, places: int) -> Aval:
    if x.dtype.kind not in NUMBERS:
        raise DtypeError(f"psum does not take {x.dtype}.")
    return x.strong()


@psum_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axis: str, places: int) -> tuple[Value]:
    return (bind(pvary_p, ct, axis=axis, places=places),)


def psum(x: Value, axis: str) -> Value:
    """The sum along an axis."""
    return bind(psum_p, x, axis=axis, places=axis_named(axis, "psum").size)


# --- pmax, pmin


def _extremum(name: str, reduce: Callable[[Value, tuple[int, ...]], Value]) -> Primitive:
    def along(_size: int, x: Value, dim: int | None, **_params: object) -> Lanes:
        return (x if dim is None else reduce(x, (dim,))), None

    prim = _collective(name, Across.SAME, along, is_linear=False)

    @prim.type_rule
    def _(x: Aval, *, axis: str, places: int) -> Aval:
        if x.dtype.kind not in REALS + "b":
            raise DtypeError(f"{name} does not take {x.dtype}.")
        return x.strong()

    @prim.jvp
    def _(primals: Sequence[Value], tangents: Sequence[Tangent], out: Value, *, axis: str,
          places: int) -> Value:  # fmt: skip
        """The mean of the tangents where the extremum is attained; NaN if that is NaN."""
        (x,), (t,) = primals, [plain(t) for t in tangents]
        unordered = ne(out, out)
        here = or_(eq(x, out), unordered)
        count = bind(psum_p, convert(here, x.dtype), axis=axis, places=places)
        total = bind(psum_p, select(here, t, lit(t, 0)), axis=axis, places=places)
        return div(total, select(unordered, lit(t, math.nan), count))

    prim.refuse("transpose", NOT_LINEAR)
    return prim


pmax_p = _extremum("pmax", reduce_max)
pmin_p = _extremum("pmin", reduce_min)


# --- all_gather and psum_scatter


def _gather_along(size: int, x: Value, dim: int | None, **_params: object) -> Lanes:
    return batch_first(size, x, dim), None


all_gather_p = _collective(
    "all_gather", Across.SAME, _gather_along, shift=1, algorithm=Algorithm.ALL_GATHER
)


@all_gather_p.type_rule
def _(x: Aval, *, axis: str, places: int) -> Aval:
    return Aval((places, *x.shape), x.dtype)


@all_gather_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axis: str, places: int) -> tuple[Value]:
    place = bind(axis_index_p, axis=axis, places=places)
    return (gather(ct, (place,), (0,)),)


def _scatter_along(size: int, x: Value, dim: int | None, **_params: object) -> Lanes:
    return _sum_along(size, x, dim)[0], 0


psum_scatter_p = _collective(
    "psum_scatter",
    Across.VARIES,
    _scatter_along,
    items=True,
    shift=-1,
    algorithm=Algorithm.REDUCE_SCATTER,
)


@psum_scatter_p.type_rule
def _(x: Aval, *, axis: str, places: int) -> Aval:
    _items("psum_scatter", x, places)
    if x.dtype.kind not in NUMBERS:
        raise DtypeError(f"psum_scatter does not take {x.dtype}.")
    return Aval(x.shape[1:], x.dtype)


@psum_scatter_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axis: str, places: int) -> tuple[Value]:
    return (bind(all_gather_p, ct, axis=axis, places=places),)


# --- all_to_all


def _exchange_along(size: int, x: Value, dim: int | None, **_params: object) -> Lanes:
    """y_r[s] = x_s[r]: the examples and the items change places."""
    x = batch_first(size, x, dim)
    return permute(x, (1, 0, *range(2, len(x.shape)))), 0


all_to_all_p = _collective(
    "all_to_all", Across.VARIES, _exchange_along, items=True, algorithm=Algorithm.ALL_TO_ALL
)


@all_to_all_p.type_rule
def _(x: Aval, *, axis: str, places: int) -> Aval:
    _items("all_to_all", x, places)
    return Aval(x.shape, x.dtype)


@all_to_all_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axis: str, places: int) -> tuple[Value]:
    return (bind(all_to_all_p, ct, axis=axis, places=places),)


# --- ppermute


def _permute_along(
    size: int, x: Value, dim: int | None, *, axis: str, perm: Pairs, **_params: object
) -> Lanes:
    x = batch_first(size, x, dim)
    source = {to: start for start, to in perm}
    ones = (1,) * len(x.shape)

    def row(place: int) -> Value:
        start = (place, *[0] * (len(x.shape) - 1))
        return slice_(x, start, (place + 1, *x.shape[1:]), ones)

    none = zeros_like(Aval((1, *x.shape[1:]), x.dtype))
    rows = [row(source[place]) if place in source else none for place in range(size)]
    return concatenate(rows, 0), 0


ppermute_p = _collective(
    "ppermute", Across.VARIES, _permute_along, (*PARAMS, "perm"), algorithm=Algorithm.PERMUTE
)


@ppermute_p.type_rule
def _(x: Aval, *, axis: str, places: int, perm: Pairs) -> Aval:
    for each in zip(*perm, strict=True):
        if len(set(each)) < len(each) or not all([0 <= k < places for k in each]):
            raise ShapeError(f"ppermute: {perm} is no permutation of some of {places} places.")
    return Aval(x.shape, x.dtype)


@ppermute_p.transpose
def _(ct: Value, wanted: Sequence[bool], x: Value, *, axis: str, places: int,
      perm: Pairs) -> tuple[Value]:  # fmt: skip
    back = tuple([(to, start) for start, to in perm])
    return (bind(ppermute_p, ct, axis=axis, places=places, perm=back),)


# --- axis_index

axis_index_p = Primitive("axis_index", traits.collective(Across.COUNTS, Algorithm.PLACE), PARAMS)
axis_index_p.evaluate(_evaluate("axis_index"))
axis_index_p.refuse("jvp", DISCRETE)
axis_index_p.refuse("transpose", NOT_LINEAR)


@axis_index_p.type_rule
def _(*, axis: str, places: int) -> Aval:
    return Aval((), INT64)


@axis_index_p.batch
def _(size: int, operands: Sequence[Value], dims: Sequence[int | None], *, axis: str,
      **_params: object) -> Lanes:  # fmt: skip
    return iota((size,), INT64), 0


def axis_index(axis: str) -> Value:
    """The place along an axis."""
    return bind(axis_index_p, axis=axis, places=axis_named(axis, "axis_index").size)
