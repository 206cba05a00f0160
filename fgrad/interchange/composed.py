"""L7. What no format has, composed of what every format has.

    cumsum x                  additions of x moved by 1, 2, 4, ... places
    argmax x                  the least place where x is the maximum, or NaN
    searchsorted x, v         how many elements of each row stand before v
    windows x; fold y         a gather at known places; a sum at them
    remainder, floor_divide   NumPy's: the sign of the divisor, integers by 0 are 0

Of floats the results are the same to rounding, of all else the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from fgrad.ir.aval import INT32, INT64, Aval
from fgrad.ir.program import Eqn, Params, Program
from fgrad.ops import elementwise as ew
from fgrad.ops.complex import imag, is_complex, real
from fgrad.ops.elementwise import lit, select
from fgrad.ops.index import gather, scatter
from fgrad.ops.random_bits import random_bits_elementwise
from fgrad.ops.reduce import reduce_max, reduce_min, reduce_sum
from fgrad.ops.shape import (
    broadcast,
    full,
    iota,
    pad,
    permute,
    reshape,
    reverse,
    slice_,
)
from fgrad.ops.sort import sort
from fgrad.ops.window import conv, window_count
from fgrad.trace import Value, trace
from fgrad.typing import PyTree

Ints = tuple[int, ...]
Expand = Callable[[Eqn], "Program | None"]


@lru_cache(maxsize=512)
def _program(
    function: Callable[..., Sequence[Value]], name: str, avals: tuple[Aval, ...], params: Params
) -> Program:
    return trace(lambda *xs: function(*xs, **params), avals, name).program


def composed(function: Callable[..., Value | Sequence[Value]], kinds: str = "") -> Expand:
    """What a function of the operands and parameters makes in place of an equation.

    Arguments:
        function: of values, composed of functions of `fgrad.ops`.
        kinds: of dtypes of the first operand for which it is used; all if there are none.
    """

    def results(*xs: Value, **params: object) -> Sequence[Value]:
        outs = function(*xs, **params)
        return outs if isinstance(outs, (tuple, list)) else [outs]  # type: ignore[list-item]

    def expand(eqn: Eqn) -> Program | None:
        avals = tuple([x.aval.strong() for x in eqn.inputs])
        if kinds and avals[0].dtype.kind not in kinds:
            return None
        return _program(results, eqn.prim.name, avals, eqn.params)

    return expand


# --- elementwise ----------------------------------------------------------------------------------


def _zero_where_zero(operation: Callable[..., Value]) -> Callable[[Value, Value], Value]:
    return lambda t, d: select(ew.eq(t, lit(t, 0)), lit(t, 0), operation(t, d))


def _times_log(log: Callable[[Value], Value]) -> Callable[[Value, Value], Value]:
    """x log(y), and 0 where x is 0 unless y is NaN."""

    def times_log(x: Value, y: Value) -> Value:
        skipped = ew.and_(ew.eq(x, lit(x, 0)), ew.eq(y, y))
        return select(skipped, lit(x, 0), ew.mul(x, log(y)))

    return times_log


def _trunc(x: Value) -> Value:
    return select(ew.lt(x, lit(x, 0)), ew.ceil(x), ew.floor(x))


def _isinf(x: Value) -> Value:
    if is_complex(x):
        return ew.or_(_isinf(real(x)), _isinf(imag(x)))
    return ew.eq(ew.abs_(x), lit(x, math.inf))


def _isnan(x: Value) -> Value:
    return ew.ne(x, x)


def _copysign(x: Value, y: Value) -> Value:
    return select(ew.ne(ew.signbit(x), ew.signbit(y)), ew.neg(x), x)


def _safe(x: Value, y: Value) -> tuple[Value, Value]:
    """Where a divisor is 0, and the divisor with 1 there."""
    none = ew.eq(y, lit(y, 0))
    return none, select(none, lit(y, 1), y)


def integer_remainder(x: Value, y: Value, fmod: Callable[..., Value]) -> Value:
    """NumPy's: the sign of the divisor, 0 for a divisor of 0."""
    none, safe = _safe(x, y)
    rest = fmod(x, safe)
    if x.dtype.kind == "i":
        zero = lit(x, 0)
        differ = ew.ne(ew.lt(rest, zero), ew.lt(safe, zero))
        rest = select(ew.and_(differ, ew.ne(rest, zero)), ew.add(rest, safe), rest)
    return select(none, lit(x, 0), rest)


def _remainder(x: Value, y: Value) -> Value:
    """fmod, plus the divisor where the signs differ; a zero has the sign of the divisor."""
    if x.dtype.kind in "iu":
        return integer_remainder(x, y, ew.fmod)
    rest, zero = ew.fmod(x, y), lit(x, 0)
    differ = ew.ne(ew.lt(rest, zero), ew.lt(y, zero))
    moved = select(differ, ew.add(rest, y), rest)
    return select(ew.eq(rest, zero), ew.copysign(zero_of(rest), y), moved)


def zero_of(x: Value) -> Value:
    """Zeros of the shape of an array."""
    return broadcast(lit(x, 0), tuple(x.shape), ()) if x.shape else lit(x, 0)


def _floor_divide(x: Value, y: Value) -> Value:
    """NumPy's: (x - remainder) / y, rounded to the nearest whole number below."""
    rest = ew.fmod(x, y)
    zero = lit(x, 0)
    quotient = ew.div(ew.sub(x, rest), y)
    differ = ew.and_(ew.ne(rest, zero), ew.ne(ew.lt(y, zero), ew.lt(rest, zero)))
    quotient = select(differ, ew.sub(quotient, lit(x, 1)), quotient)
    whole = ew.floor(quotient)
    up = ew.gt(ew.sub(quotient, whole), lit(x, 0.5))
    whole = select(up, ew.add(whole, lit(x, 1)), whole)
    ratio = ew.div(x, y)
    whole = select(ew.eq(quotient, zero), ew.copysign(zero_of(ratio), ratio), whole)
    return select(ew.eq(y, zero), ratio, whole)


def _add_fits(x: Value, y: Value) -> Value:
    out = ew.add(x, y)
    return ew.ge(ew.and_(ew.xor(x, out), ew.xor(y, out)), lit(x, 0))


def _sub_fits(x: Value, y: Value) -> Value:
    out = ew.sub(x, y)
    return ew.ge(ew.and_(ew.xor(x, y), ew.xor(x, out)), lit(x, 0))


def _mul_fits(x: Value, y: Value) -> Value:
    out = ew.mul(x, y)
    f, g, h = [ew.convert(v, np.dtype(np.float64)) for v in (x, y, out)]
    far = ew.abs_(ew.sub(ew.mul(f, g), h))
    return ew.le(far, np.float64(2.0 ** (x.dtype.itemsize * 8 - 2)))


def as_integers(function: Callable[..., Value]) -> Expand:
    """Of truth values as of the numbers 0 and 1."""
    return composed(
        lambda *xs, **params: ew.convert(
            function(*[ew.convert(x, INT32) for x in xs], **params), np.dtype(bool)
        ),
        "b",
    )


# --- folds ----------------------------------------------------------------------------------------


def _running(
    operation: Callable[[Value, Value], Value], neutral: Callable[[np.dtype], float]
) -> Callable[..., Value]:
    """A running fold in log2(n) steps: each adds what it has so far, moved by 1, 2, 4, ..."""

    def run(x: Value, *, axis: int, reverse: bool) -> Value:
        n, step = x.shape[axis], 1
        while step < n:
            width = [0] * len(x.shape)
            width[axis] = -step if reverse else step
            low, high = tuple(width), tuple([-w for w in width])
            x = operation(x, pad(x, low, high, None, neutral(x.dtype)))
            step *= 2
        return x

    return run


def lowest(dtype: np.dtype) -> float:
    """What no number is below."""
    if dtype.kind in "iub":
        return 0 if dtype.kind == "b" else int(np.iinfo(dtype).min)
    return -math.inf


def highest(dtype: np.dtype) -> float:
    """What no number is above."""
    if dtype.kind in "iub":
        return 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
    return math.inf


def _place_of(extremum: Callable[[Value, Ints], Value]) -> Callable[..., Value]:
    """The first place of an extremum; of NaN if there is one."""

    def place(x: Value, *, axis: int) -> Value:
        if x.dtype.kind == "b":
            x = ew.convert(x, INT32)
        shape = tuple(x.shape)
        kept = tuple([a for a in range(len(shape)) if a != axis])
        best = broadcast(extremum(x, (axis,)), shape, kept)
        here = ew.eq(x, best)
        if x.dtype.kind in "fV":
            here = ew.or_(here, ew.ne(x, x))
        places = select(here, iota(shape, INT64, axis), full((), shape[axis], INT64))
        return reduce_min(places, (axis,))

    return place


# --- order ----------------------------------------------------------------------------------------


def before(x: Value, y: Value) -> Value:
    """Whether x stands before y in ascending order, NaN last."""
    less = ew.lt(x, y)
    if x.dtype.kind != "f":
        return less
    return ew.or_(less, ew.and_(ew.eq(x, x), ew.ne(y, y)))


def _searchsorted(x: Value, values: Value, *, right: bool) -> Value:
    rows, n = x.shape
    shape = (rows, values.shape[1], n)
    table, wanted = broadcast(x, shape, (0, 2)), broadcast(values, shape, (0, 1))
    stands = ew.not_(before(wanted, table)) if right else before(table, wanted)
    return reduce_sum(ew.convert(stands, INT64), (2,))


def _top_k(x: Value, *, k: int) -> tuple[Value, Value]:
    """The rows backwards in ascending order, then backwards: equal ones stay in their order."""
    last = len(x.shape) - 1
    shape = tuple(x.shape)
    places = reverse(iota(shape, INT64, last), (last,))
    found = sort([reverse(x, (last,)), places], last)
    stop = (*shape[:-1], k)
    return tuple([slice_(reverse(v, (last,)), (0,) * len(shape), stop) for v in found])  # type: ignore[return-value]


def one_key(eqn: Eqn) -> Program | None:
    """Sorts by several keys as stable sorts by one, from the last key to the first."""
    count = eqn.params["num_keys"]
    return None if count == 1 else _by_one_key(eqn)


def _each_key(*operands: Value, axis: int, num_keys: int) -> list[Value]:
    values = list(operands)
    for k in reversed(range(num_keys)):
        others = [j for j in range(len(values)) if j != k]
        found = sort([values[j] for j in (k, *others)], axis)
        values = [v for _, v in sorted(zip((k, *others), found, strict=True), key=lambda p: p[0])]
    return values


_by_one_key = composed(_each_key)


# --- windows --------------------------------------------------------------------------------------


def _window_places(length: int, size: int, stride: int, dilation: int) -> np.ndarray:
    count = window_count(length, size, stride, dilation)
    return stride * np.arange(count)[:, None] + dilation * np.arange(size)[None, :]


def _windows(x: Value, *, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints) -> Value:
    for a, size, stride, dilation in zip(axes, sizes, strides, dilations, strict=True):
        rank = len(x.shape)
        places = _window_places(x.shape[a], size, stride, dilation)
        found = gather(x, (places,), (a,))  # (windows, size, the rest)
        rest = iter(range(2, rank + 1))
        x = permute(found, (*[0 if k == a else next(rest) for k in range(rank)], 1))
    return x


def _fold(
    y: Value, *, shape: Ints, axes: Ints, sizes: Ints, strides: Ints, dilations: Ints
) -> Value:
    steps = list(zip(axes, sizes, strides, dilations, strict=True))
    for a, size, stride, dilation in reversed(steps):
        rank = len(y.shape) - 1
        places = _window_places(shape[a], size, stride, dilation)
        y = permute(y, (a, rank, *[k for k in range(rank) if k != a]))
        target = list(y.shape[2:])
        target.insert(a, shape[a])
        y = scatter(full(tuple(target), 0, y.dtype), (places,), y, (a,), "add")
    return y


def plain_conv(eqn: Eqn) -> Program | None:
    """A convolution whose samples are neither spread nor cropped, and have no groups."""
    p = eqn.params
    spread = any([d != 1 for d in p["x_dilation"]])
    crops = any([v < 0 for pair in p["padding"] for v in pair])
    return _plain_conv(eqn) if spread or crops or p["batch_groups"] > 1 else None


def _of_plain(x: Value, w: Value, **p: PyTree) -> Value:
    batches = p["batch_groups"]
    low, high = [0, 0, *[a for a, _ in p["padding"]]], [0, 0, *[b for _, b in p["padding"]]]
    x = pad(x, tuple(low), tuple(high), (0, 0, *[d - 1 for d in p["x_dilation"]]))
    n, channels, *spatial = x.shape
    if batches > 1:  # groups of the batch as groups of channels
        parts = reshape(x, (batches, n // batches, channels, *spatial))
        parts = permute(parts, (1, 0, *range(2, len(x.shape) + 1)))
        x = reshape(parts, (n // batches, batches * channels, *spatial))
    none = tuple([(0, 0) for _ in spatial])
    ones = (1,) * len(spatial)
    groups = p["feature_groups"] * batches
    return conv(x, w, p["strides"], none, ones, p["w_dilation"], groups)


_plain_conv = composed(_of_plain)


def last_places(indices: Sequence[Value], lengths: Ints) -> Value:
    """Where an update is the last one of its place, which is the one that stays."""
    shape = tuple(indices[0].shape)
    number = reshape(iota((math.prod(shape),), INT64, 0), shape)
    every = tuple(range(len(lengths)))
    winner = scatter(full(lengths, -1, INT64), indices, number, every, "max")
    return ew.eq(gather(winner, indices, every, "fill"), number)


def _nothing_to_check(x: Value, *_passed: Value, **_params: object) -> Value:
    return x


WITHOUT_CHECKS: dict[str, Expand] = {
    name: composed(_nothing_to_check) for name in ("checked", "in_range", "required")
}
ALWAYS: dict[str, Expand] = {
    "masked_mul": composed(_zero_where_zero(ew.mul)),
    "masked_div": composed(_zero_where_zero(ew.div)),
    "xlogy": composed(_times_log(ew.log)),
    "xlog1py": composed(_times_log(ew.log1p)),
    "clip": composed(lambda x, low, high: ew.min_(ew.max_(x, low), high)),
    "trunc": composed(_trunc),
    "isinf": composed(_isinf),
    "isnan": composed(_isnan),
    "copysign": composed(_copysign),
    "remainder": composed(_remainder),
    "floor_divide": composed(_floor_divide, "f"),
    "add_fits": composed(_add_fits),
    "sub_fits": composed(_sub_fits),
    "mul_fits": composed(_mul_fits),
    "exp2": composed(lambda x: ew.pow_(zero_of(x) + lit(x, 2), x)),
    "log2": composed(lambda x: ew.div(ew.log(x), lit(x, math.log(2)))),
    "log10": composed(lambda x: ew.div(ew.log(x), lit(x, math.log(10)))),
    "cummax": composed(_running(ew.max_, lowest)),
    "cummin": composed(_running(ew.min_, highest)),
    "cumprod": composed(_running(ew.mul, lambda _: 1)),
    "cumsum": composed(_running(ew.add, lambda _: 0)),
    "argmax": composed(_place_of(reduce_max)),
    "argmin": composed(_place_of(reduce_min)),
    "searchsorted": composed(_searchsorted),
    "top_k": composed(_top_k),
    "windows": composed(_windows),
    "fold": composed(_fold),
    "random_bits": composed(random_bits_elementwise),
}
