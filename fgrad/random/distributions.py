"""L7. Distributions with a density, by formulas of uniform numbers that keep their tails."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import FLOAT32, FLOAT64
from fgrad.numpy.promote import as_array, broadcast, broadcast_shapes, broadcast_to, user_line
from fgrad.ops.elementwise import (
    abs_,
    add,
    clip,
    convert,
    cos,
    div,
    lit,
    log,
    log1p,
    lt,
    mul,
    neg,
    or_,
    select,
    shift_left,
    sin,
    sqrt,
    sub,
)
from fgrad.ops.erf_gamma import erf, erfinv
from fgrad.ops.shape import concatenate, reshape, slice_
from fgrad.random.keys import UINT64, Key, Shape, as_shape, check_key
from fgrad.random.uniform import float_dtype, unit, unit_of_words, words
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, DTypeLike


def _arguments(
    key: Key, shape: Shape, dtype: DTypeLike | None, name: str
) -> tuple[tuple[int, ...], np.dtype]:
    """The checked shape and dtype of a draw."""
    check_key(key, name)
    return as_shape(shape, name), float_dtype(dtype, name)


def working(dtype: np.dtype) -> np.dtype:
    """The precision that a formula is evaluated in."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


def drawn_shape(name: str, shape: Shape | None, given: Sequence[Value]) -> tuple[int, ...]:
    """The shape of a draw, to which its parameters broadcast; their common one if None."""
    common = broadcast_shapes(*[x.shape for x in given])
    wanted = common if shape is None else as_shape(shape, name)
    if broadcast_shapes(common, wanted) != wanted:
        raise ShapeError(
            f"random.{name}: parameters of shape {common} for a draw of shape {wanted}.",
            user_line(),
        )
    return wanted


def parameters(
    key: Key, name: str, shape: Shape | None, dtype: DTypeLike | None, *given: ArrayLike
) -> tuple[tuple[int, ...], np.dtype, list[Value]]:
    """The checked shape and dtype of a draw, and its parameters in these (float32 for float16).

    Without a shape it is that to which the parameters broadcast.
    """
    check_key(key, name)
    kind = float_dtype(dtype, name)
    arrays = [as_array(x) for x in given]
    wanted = drawn_shape(name, shape, arrays)
    return wanted, kind, [broadcast_to(convert(x, working(kind)), wanted) for x in arrays]


# --- normal -------------------------------------------------------------------------------------


@also_takes(out_sharding=None)
def normal(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Standard normal numbers, by G. Box and M. Muller, Ann. Math. Stat. 29 (1958) 610.

    The radius is made of 64 random bits (32 for float32), so the tails reach beyond 9 standard
    deviations (6.6); `mean + std * normal(key, shape)` is differentiable in `mean` and `std`.
    Compiled results agree with eager ones to a few units in the last place.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: float64, float32 or float16.

    Raises:
        DtypeError: for another dtype.

    Example:
        >>> from fgrad import random
        >>> random.normal(random.key(0), 1000).shape
        (1000,)
    """
    shape, dtype = _arguments(key, shape, dtype, "normal")
    size = math.prod(shape)
    radius, turn = _polar(key, (size + 1) // 2, working(dtype))
    angle = mul(turn, lit(turn, 2 * math.pi))
    both = concatenate([mul(radius, cos(angle)), mul(radius, sin(angle))], 0)
    if size % 2:
        both = slice_(both, (0,), (size,))
    return convert(reshape(both, shape), dtype)


def _polar(key: Key, count: int, dtype: np.dtype) -> tuple[Value, Value]:
    """Radii of points of a normal distribution in the plane, and angles in turns.

    The square of the radius is exponential: -2 log u, with u in (0, 1].
    """
    wide = dtype == FLOAT64
    drawn = words(key, 4 if wide else 2, (count,))
    head = convert(drawn[0], UINT64 if wide else dtype)
    if wide:
        head = or_(shift_left(head, np.uint64(32)), convert(drawn[1], UINT64))
    steps = convert(head, dtype)
    u = mul(add(steps, lit(steps, 1)), lit(steps, 2.0 ** (-64 if wide else -32)))
    return sqrt(mul(log(u), lit(u, -2))), unit_of_words(drawn[len(drawn) // 2 :], dtype)


@also_takes(out_sharding=None)
def truncated_normal(
    key: Key,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """Standard normal numbers between limits, by inversion.

    Arguments:
        key: a key.
        lower, upper: limits that broadcast to `shape`; differentiable.  Known intervals that lie
            beyond 4 standard deviations on one side are refused: inversion loses its digits there.
        shape: the shape of the result.
        dtype: float64, float32 or float16.

    Raises:
        ArgumentError: if known limits are empty or too far out.

    Example:
        >>> from fgrad import random
        >>> x = random.truncated_normal(random.key(0), -2, 2, 1000)
        >>> bool(np.all(abs(x) <= 2))
        True
    """
    shape, dtype = _arguments(key, shape, dtype, "truncated_normal")
    _check_interval(lower, upper)
    work = working(dtype)
    low, high = (convert(as_array(x), work) for x in (lower, upper))
    root = lit(low, math.sqrt(0.5))
    below, above = erf(mul(low, root)), erf(mul(high, root))
    u, low, high, below, above = broadcast(
        (unit(key, shape, work, centred=True), low, high, below, above), shape
    )
    level = add(mul(sub(lit(u, 1), u), below), mul(u, above))
    return convert(clip(mul(erfinv(level), lit(u, math.sqrt(2))), low, high), dtype)


def _check_interval(lower: ArrayLike, upper: ArrayLike) -> None:
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        return
    if np.any(np.asarray(lower) >= np.asarray(upper)):
        raise ArgumentError("random.truncated_normal: lower must be below upper.", user_line())
    if np.any(np.asarray(lower) > 4) or np.any(np.asarray(upper) < -4):
        raise ArgumentError(
            "random.truncated_normal: the interval lies beyond 4 standard deviations.", user_line()
        )


# --- exponential and its relatives --------------------------------------------------------------


@also_takes(out_sharding=None)
def exponential(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Standard exponential numbers, -log(1 - u), with mean 1.

    Arguments and errors are those of `normal`.

    Example:
        >>> from fgrad import random
        >>> bool(random.exponential(random.key(0)) > 0)
        True
    """
    shape, dtype = _arguments(key, shape, dtype, "exponential")
    return convert(neg(log1p(neg(unit(key, shape, working(dtype), centred=True)))), dtype)


@also_takes("mode", out_sharding=None)
def gumbel(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Standard Gumbel numbers, -log(-log u): the maximum of many exponential ones.

    Arguments and errors are those of `normal`.

    Example:
        >>> from fgrad import random
        >>> random.gumbel(random.key(0), (2, 3)).shape
        (2, 3)
    """
    shape, dtype = _arguments(key, shape, dtype, "gumbel")
    return convert(neg(log(neg(log(unit(key, shape, working(dtype), centred=True))))), dtype)


@also_takes(out_sharding=None)
def logistic(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Standard logistic numbers, log(u / (1 - u)).

    Arguments and errors are those of `normal`.

    Example:
        >>> from fgrad import random
        >>> random.logistic(random.key(0), 3).dtype
        dtype('float64')
    """
    shape, dtype = _arguments(key, shape, dtype, "logistic")
    u = unit(key, shape, working(dtype), centred=True)
    return convert(sub(log(u), log1p(neg(u))), dtype)


@also_takes(out_sharding=None)
def laplace(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Standard Laplace numbers, with density exp(-|x|) / 2.

    Arguments and errors are those of `normal`.

    Example:
        >>> from fgrad import random
        >>> random.laplace(random.key(0), 3).shape
        (3,)
    """
    shape, dtype = _arguments(key, shape, dtype, "laplace")
    work = working(dtype)
    u = unit(key, shape, work, centred=True)
    v = sub(mul(u, lit(u, 2)), lit(u, 1))  # exact, and odd about 0
    size = neg(log1p(neg(abs_(v))))
    return convert(select(lt(v, lit(v, 0)), neg(size), size), dtype)


@also_takes(out_sharding=None)
def cauchy(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Standard Cauchy numbers, tan(pi (u - 1/2)).

    Arguments and errors are those of `normal`.

    Example:
        >>> from fgrad import random
        >>> random.cauchy(random.key(0), 3).shape
        (3,)
    """
    shape, dtype = _arguments(key, shape, dtype, "cauchy")
    u = unit(key, shape, working(dtype), centred=True)
    angle = mul(sub(u, lit(u, 0.5)), lit(u, math.pi))
    return convert(div(sin(angle), cos(angle)), dtype)
