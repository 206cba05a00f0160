"""L3. Families of primitives: one formula for each member -> its type, jvp and batching rules.

`elementwise` gives type, batching and both derivatives from one linear map for each operand.  A map
`(t, *xs, out) -> t'` multiplies by the local derivative, so it is diagonal and its own transpose:
the pushforward and the pullback are the same formula.  A map that is None is a zero derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from fgrad.base.sizes import is_symbolic
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.basic import BASIC
from fgrad.ir.primitive import DISCRETE, NOT_LINEAR, Moves, Primitive, Reads, reads_nothing
from fgrad.ir.traits import Traits
from fgrad.ops.selected import ADD, Selected, Tangent, join, plain
from fgrad.trace import Tracer, Value, bind
from fgrad.typing import EqnParams, Shaped

F = TypeVar("F", bound=Callable[..., object])

# dtype.kind letters; V is bfloat16, and numbers of a byte where they are taken (`ir.primitive`).
FLOATS = "fcV"
REAL_FLOATS = "fV"
NUMBERS = "iufcV"
REALS = "iufV"
INTEGERS = "iu"
BITS = "biu"
ALL = "biufcV"
ORDERED = "biufcV"  # complex numbers lexicographically, as in NumPy

DerivativeMap = Callable[..., Value | Selected | None]


def same_shape(prim: Primitive, avals: Sequence[Aval]) -> tuple[int, ...]:
    """The common shape of elementwise operands; rank-0 operands fit any shape."""
    shape: tuple[int, ...] = ()
    for aval in avals:
        if aval.shape != shape and aval.shape:
            if shape:
                raise ShapeError(f"{prim.name}: operands have shapes {shape} and {aval.shape}.")
            shape = aval.shape
    return shape


def same_dtype(prim: Primitive, avals: Sequence[Aval], accepts: str) -> np.dtype:
    """The common dtype of operands, which must be of an accepted kind."""
    dtype = avals[0].dtype
    if dtype.kind not in accepts:
        raise DtypeError(f"{prim.name} does not take {dtype} operands.")
    for aval in avals[1:]:
        if aval.dtype != dtype:
            raise DtypeError(f"{prim.name}: operands have dtypes {dtype} and {aval.dtype}.")
    return dtype


def elementwise(
    name: str,
    evaluate: Callable[..., Value],
    *maps: DerivativeMap | None,
    accepts: str = FLOATS,
    result: np.dtype | None = None,
    scalar: str | None = None,
    reads: Reads | None = None,
    traits: Traits = traits.PLAIN,
    linear_in: str | tuple[int, ...] | None = None,
    finite: bool = False,
    operator: str | None = None,
) -> Primitive:
    """Define an elementwise primitive whose operands have one dtype.

    Arguments:
        name: the name of the primitive and, unless `scalar` is given, of its scalar row.
        evaluate: the NumPy function.
        maps: the derivative map of each operand; none at all for discrete operations.
        accepts: the dtype kinds of the operands.
        result: the dtype of the result if it differs from the operands'.
        reads: which values each map reads; all if it is None, none where there is no map.
        traits: what differs from other operations on each element.
        linear_in: the operands in which it is linear, as for a `Primitive`.
        finite, operator: the traits of these names.
    """
    traits = traits._replace(finite=True) if finite else traits
    traits = traits if operator is None else traits._replace(operator=operator)
    prim = Primitive(name, traits, linear_in=linear_in, scalar=scalar or name, reads=reads)
    prim.evaluate(evaluate)

    @prim.type_rule
    def _(*avals: Aval) -> Aval:
        dtype = same_dtype(prim, avals, accepts)
        return Aval(same_shape(prim, avals), dtype if result is None else result)

    finish_elementwise(prim, maps)
    return prim


def finish_elementwise(prim: Primitive, maps: tuple[DerivativeMap | None, ...]) -> None:
    """Fill the derivative and batching slots of an elementwise primitive."""
    prim.maps = maps
    if not any(maps):
        prim.reads = reads_nothing
    if any(m is not None for m in maps):
        prim.jvp(jvp_from_maps(prim))
    else:
        prim.refuse("jvp", DISCRETE)
    prim.refuse("transpose", NOT_LINEAR)

    @prim.batch
    def _(
        size: int, operands: Sequence[Value], dims: Sequence[int | None], **params: object
    ) -> tuple[Value, int]:
        operands, dim = align_batched(size, operands, dims)
        return bind(prim, *operands, **params), dim


def jvp_from_maps(prim: Primitive) -> Callable[..., Value | None]:
    """t_out = sum of map_i(t_i)."""

    def jvp(
        primals: Sequence[Value], tangents: Sequence[Value | None], out: Value, **params: object
    ) -> Value | None:
        return plain(push_maps(prim, primals, tangents, out, params))

    return jvp


def push_maps(
    prim: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Tangent],
    out: Value,
    params: EqnParams,
) -> Tangent:
    """The sum of map_i(t_i); it is `Selected` if all terms are."""
    total = None
    for k, (rule, t) in enumerate(zip(prim.maps, tangents, strict=False)):
        if t is not None and rule is not None:
            if type(t) is Selected:
                term = map_selected(prim, k, t, primals, out, params)
            else:
                term = rule(t, *primals, out, **params)
            total = join(total, term)
    return total


def map_selected(
    prim: Primitive,
    k: int,
    t: Selected,
    primals: Sequence[Value],
    out: Value | None,
    params: EqnParams,
) -> Selected | None:
    """The derivative map of an operand at a selected tangent or cotangent."""
    part = prim.maps[k](t.value, *primals, out, **params)  # type: ignore[misc]
    harmless = prim.harmless is not None and prim.harmless(k, primals)
    return t.then(part, prim.finite, harmless)


def in_float32(evaluate: Callable[..., Value]) -> Callable[..., Value]:
    """Evaluate bfloat16 in float32, as sums in bfloat16 lose all digits."""

    def rule(*operands: Value, **params: object) -> Value:
        dtype = operands[0].dtype
        if dtype.kind != "V":
            return evaluate(*operands, **params)
        wide = evaluate(*[x.astype(np.float32) for x in operands], **params)
        return wide.astype(dtype)

    return rule


def linear(prim: Primitive) -> None:
    """Derive the jvp of a primitive that is linear in all operands jointly, or in those listed."""
    prim.jvp(linear_jvp(prim))


def moves(
    prim: Primitive,
    gaps: str = "",
    sums: str = "",
    only: Callable[..., bool] = lambda **params: True,
) -> None:
    """Declare that a linear primitive's rules only move and add elements, so supports can use them.

    Arguments:
        gaps: "transpose" or "jvp", the rules that leave zeros where nothing is moved to.
        sums: the rules that add elements.
        only: a predicate of the parameters for which this holds.
    """
    if "transpose" in gaps:
        prim.moved_back = None
    prim.moves = Moves("transpose" in gaps, "jvp" in gaps, "transpose" in sums, "jvp" in sums, only)


def linear_jvp(prim: Primitive) -> Callable[..., Value | None]:
    """f(x + t) - f(x) = f(t), with zeros for the operands whose tangent is zero."""

    def jvp(
        primals: Sequence[Value], tangents: Sequence[Value | None], _out: object, **params: object
    ) -> Value | None:
        if all(t is None for t in tangents):
            return None
        which = prim.linear_in
        operands = [
            (t if t is not None else zeros_like(x))
            if which == "all" or (isinstance(which, tuple) and i in which)
            else x
            for i, (x, t) in enumerate(zip(primals, tangents, strict=True))
        ]
        return bind(prim, *operands, **params)

    return jvp


def bilinear_jvp(prim: Primitive) -> Callable[..., Value | None]:
    """f(x + s, y + t) = f(x, y) + f(s, y) + f(x, t) + o(|s| + |t|)."""

    def jvp(
        primals: Sequence[Value], tangents: Sequence[Value | None], _out: object, **params: object
    ) -> Value | None:
        (x, y), (s, t) = primals, tangents
        total = None if s is None else bind(prim, s, y, **params)
        if t is not None:
            term = bind(prim, x, t, **params)
            total = term if total is None else bind(ADD, total, term)
        return total

    return jvp


# The functions that bind one primitive and do nothing else.
_BOUND_BY: dict[Callable[..., object], Primitive] = {}


def binds(function: F, prim: Primitive) -> F:
    """Note that a function binds this primitive and does nothing else; the function."""
    _BOUND_BY[function] = prim
    return function


def bound_by(function: Callable[..., object]) -> Primitive:
    """The primitive that a function of `fgrad.ops` binds."""
    return _BOUND_BY[function]


def zeros_like(x: Shaped) -> Value:
    """A zero with the shape and dtype of `x`, without allocating memory."""
    zero = x.dtype.type(0)
    if is_symbolic(x.shape):
        return bind(BROADCAST, zero, shape=x.shape, dims=())
    return np.broadcast_to(zero, x.shape) if x.shape else zero


def is_literal(x: Value) -> bool:
    """Whether an operand is a rank-0 constant, which fits any shape."""
    return not isinstance(x, Tracer) and x.ndim == 0


def align_batched(
    size: int, operands: Sequence[Value], dims: Sequence[int | None]
) -> tuple[list[Value], int]:
    """Move the batch axes of elementwise operands to one position; broadcast unbatched operands."""
    known = [d for d in dims if d is not None]
    if all(
        d == known[0] if d is not None else is_literal(x)
        for x, d in zip(operands, dims, strict=True)
    ):
        return list(operands), known[0]
    return [
        x if d is None and is_literal(x) else batch_first(size, x, d)
        for x, d in zip(operands, dims, strict=True)
    ], 0


def batch_first(size: int, x: Value, dim: int | None) -> Value:
    """`x` with its batched axis first, repeated `size` times if it has none."""
    if dim is None:
        shape = (size, *x.shape)
        return bind(BROADCAST, x, shape=shape, dims=tuple(range(1, len(shape))))
    if dim == 0:
        return x
    axes = (dim, *[a for a in range(len(x.shape)) if a != dim])
    return bind(PERMUTE, x, axes=axes)


# Primitives used by the rules of all others.
BROADCAST = Primitive(
    "broadcast", traits.moving(view=True, repeats=True), params=("shape", "dims"), linear_in="all"
)
PERMUTE = Primitive("permute", traits.moving(view=True), params=("axes",), linear_in="all")
BASIC.broadcast, BASIC.permute = BROADCAST, PERMUTE


def _reorders(values: Sequence[Value], params: EqnParams) -> bool:
    """Whether axes longer than 1 change order."""
    axes = [a for a in params["axes"] if values[0].shape[a] > 1]
    return axes != sorted(axes)


PERMUTE.reorders = _reorders


@ADD.type_rule
def _(x: Aval, y: Aval) -> Aval:
    return Aval(same_shape(ADD, (x, y)), same_dtype(ADD, (x, y), ALL))


ADD.evaluate(np.add)
finish_elementwise(ADD, (lambda t, x, y, out: t, lambda t, x, y, out: t))
