"""L7. Random bits, integers and uniform numbers.

Floats are multiples of a power of two with exact arithmetic, so they are the same on every backend.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, DtypeError
from fgrad.ir.aval import FLOAT32, FLOAT64, INT32
from fgrad.numpy.promote import as_array, broadcast, broadcast_to, dtype_of, shape_of, user_line
from fgrad.ops.elementwise import (
    add,
    and_,
    bitcast,
    convert,
    lit,
    lt,
    mul,
    or_,
    select,
    shift_left,
    shift_right,
    sub,
)
from fgrad.ops.random_bits import random_bits
from fgrad.ops.shape import index, reshape
from fgrad.random.keys import UINT64, Key, Shape, as_shape, check_key
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, DTypeLike

_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)


def words(key: Key, count: int, shape: tuple[int, ...]) -> list[Value]:
    """`count` independent uint32 arrays of a shape."""
    together = random_bits(key, (count, *shape))
    return [index(together, (i,)) for i in range(count)]


def _wide(high: Value, low: Value) -> Value:
    """Two words as one uint64."""
    return or_(shift_left(convert(high, UINT64), _WORD), convert(low, UINT64))


@also_takes(out_sharding=None)
def bits(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.uint32) -> Value:
    """Uniform random bits.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: uint8, uint16, uint32 or uint64.

    Raises:
        DtypeError: for another dtype.

    Example:
        >>> from fgrad import random
        >>> random.bits(random.key(0), 3)
        array([4070199207, 4202968722, 1427181096], dtype=uint32)
    """
    key, shape, dtype = check_key(key, "bits"), as_shape(shape, "bits"), np.dtype(dtype)
    if dtype.kind != "u":
        raise DtypeError(f"random.bits gives unsigned integers, not {dtype}.", user_line())
    if dtype == UINT64:
        return _wide(*words(key, 2, shape))
    drawn = random_bits(key, shape)
    return convert(shift_right(drawn, np.uint32(32 - 8 * dtype.itemsize)), dtype)


# --- floats -------------------------------------------------------------------------------------

_FLOAT_BITS = {"float16": 11, "float32": 24, "float64": 53}


def float_dtype(dtype: DTypeLike | None, function: str) -> np.dtype:
    """A real floating dtype.

    Raises:
        DtypeError: for any other.
    """
    dtype = np.dtype(dtype)
    if dtype.name not in _FLOAT_BITS:
        raise DtypeError(
            f"random.{function} gives floating-point numbers, not {dtype}.", user_line()
        )
    return dtype


def unit(key: Key, shape: tuple[int, ...], dtype: np.dtype, centred: bool = False) -> Value:
    """Multiples of an eps in [0, 1); if `centred`, odd multiples of a half in (0, 1)."""
    return unit_of_words(words(key, 1 + (dtype == FLOAT64), shape), dtype, centred)


def unit_of_words(drawn: list[Value], dtype: np.dtype, centred: bool = False) -> Value:
    """`unit` made of two words for float64, of one for the others."""
    count = _FLOAT_BITS[dtype.name] - centred
    if dtype == FLOAT64:
        first = mul(_float_of(drawn[0], count - 26, FLOAT64), np.float64(2.0**26))
        steps = add(first, _float_of(drawn[1], 26, FLOAT64))
    else:
        steps = _float_of(drawn[0], count, FLOAT32)
    if centred:
        steps = add(steps, lit(steps, 0.5))
    return convert(mul(steps, lit(steps, 2.0**-count)), dtype)


def _float_of(word: Value, count: int, dtype: np.dtype) -> Value:
    """The first `count` < 32 bits of a word as a floating-point integer."""
    return convert(bitcast(shift_right(word, np.uint32(32 - count)), INT32), dtype)


@also_takes(out_sharding=None)
def uniform(
    key: Key,
    shape: Shape = (),
    dtype: DTypeLike | None = np.float64,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Value:
    """Uniform numbers in [minval, maxval), multiples of 2^-53 (float32: 2^-24) of the interval.

    Arguments:
        key: a key.
        shape: the shape of the result.
        dtype: float64, float32 or float16.
        minval, maxval: numbers or arrays that broadcast to `shape`; the result is differentiable
            with respect to them.

    Raises:
        DtypeError: for another dtype.
        ShapeError: if the limits do not broadcast to `shape`.

    Example:
        >>> from fgrad import random
        >>> random.uniform(random.key(0), 2)
        array([0.9476671 , 0.97857991])
    """
    key, shape = check_key(key, "uniform"), as_shape(shape, "uniform")
    dtype = float_dtype(dtype, "uniform")
    u = unit(key, shape, dtype)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return u
    limits = [convert(as_array(x), dtype) for x in (minval, maxval)]
    u, low, high = broadcast((u, *limits), shape)
    drawn = add(low, mul(u, sub(high, low)))
    # Rounding can reach maxval itself, as with every such formula.
    return select(lt(drawn, high), drawn, low)


@also_takes("mode", out_sharding=None)
def bernoulli(key: Key, p: ArrayLike = 0.5, shape: Shape | None = None) -> Value:
    """True with probability `p`.

    Arguments:
        key: a key.
        p: probabilities, a number or an array.
        shape: the shape of the result, to which `p` broadcasts; the shape of `p` if None.

    Returns:
        A bool array.

    Example:
        >>> from fgrad import random
        >>> random.bernoulli(random.key(0), 0.7, 4)
        array([False, False,  True,  True])
    """
    key = check_key(key, "bernoulli")
    p = convert(as_array(p), FLOAT64)
    shape = shape_of(p) if shape is None else as_shape(shape, "bernoulli")
    return lt(*broadcast((unit(key, shape, FLOAT64), p), shape))


# --- integers -----------------------------------------------------------------------------------


@also_takes(out_sharding=None)
def randint(
    key: Key,
    shape: Shape = (),
    minval: ArrayLike = 0,
    maxval: ArrayLike = 2,
    dtype: DTypeLike | None = np.int64,
) -> Value:
    """Uniform integers in [minval, maxval): no value is likelier than another by more than 2^-32.

    Arguments:
        key: a key.
        shape: the shape of the result.
        minval, maxval: integers, or integer arrays that broadcast to `shape`.  Where a traced
            `maxval` is not above `minval`, the result is `minval`.
        dtype: any integer dtype that holds the limits.

    Raises:
        ArgumentError: if known limits are empty or do not fit the dtype.
        DtypeError: if the dtype is not an integer one.

    Example:
        >>> from fgrad import random
        >>> random.randint(random.key(0), 5, 1, 7)
        array([6, 6, 2, 3, 4])
    """
    key, shape = check_key(key, "randint"), as_shape(shape, "randint")
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        raise DtypeError(f"random.randint gives integers, not {dtype}.", user_line())
    _check_limits(minval, maxval, dtype)
    work = shape or (1,)  # NumPy's scalars would warn where arrays wrap around
    if isinstance(minval, (int, np.integer)) and isinstance(maxval, (int, np.integer)):
        drawn = _below_known(key, work, int(maxval) - int(minval))
        drawn = add(drawn, np.uint64(int(minval) % 2**64))
    else:
        low, span = _low_and_span(minval, maxval, work)
        drawn = add(_below(key, work, span), low)
    return reshape(convert(drawn, dtype), shape)


def _check_limits(minval: ArrayLike, maxval: ArrayLike, dtype: np.dtype) -> None:
    """Refuse limits that are known to be wrong."""
    info = np.iinfo(dtype)
    for name, x, most in (("minval", minval, info.max), ("maxval", maxval, int(info.max) + 1)):
        if not isinstance(x, int) and dtype_of(as_array(x)).kind not in "iu":
            raise ArgumentError(f"random.randint: {name} is not an integer.", user_line())
        if not isinstance(x, Tracer):
            values = np.asarray(x, dtype=object)
            if values.size and (values.min() < info.min or values.max() > most):
                raise ArgumentError(
                    f"random.randint: {name} does not fit into {dtype}.", user_line()
                )
    if isinstance(minval, Tracer) or isinstance(maxval, Tracer):
        return
    if np.any(np.asarray(minval, dtype=object) >= np.asarray(maxval, dtype=object)):
        raise ArgumentError("random.randint: minval must be below maxval.", user_line())


def _low_and_span(
    minval: ArrayLike, maxval: ArrayLike, shape: tuple[int, ...]
) -> tuple[Value, Value]:
    """The lower limit and the width as uint64 of a shape; the width is 0 where it is negative."""
    low, high = (broadcast_to(as_array(x), shape) for x in (minval, maxval))
    empty = np.less_equal(high, low)
    low, high = convert(low, UINT64), convert(high, UINT64)
    return low, select(empty, np.uint64(0), sub(high, low))


def _below_known(key: Key, shape: tuple[int, ...], span: int) -> Value:
    """Uniform uint64 below a known integer of at most 2^64."""
    if span == 2**64:
        return _wide(*words(key, 2, shape))
    if span > 2**32:
        return _below(key, shape, UINT64.type(span))
    # floor(u span / 2^64) with u = high 2^32 + low; nothing overflows
    high, low = (convert(x, UINT64) for x in words(key, 2, shape))
    n = np.uint64(span)
    return shift_right(add(mul(high, n), shift_right(mul(low, n), _WORD)), _WORD)


def _below(key: Key, shape: tuple[int, ...], span: Value) -> Value:
    """floor(u span / 2^128) for u of 128 bits: a bias of at most 2^-64 for any span."""
    a, b, c, d = words(key, 4, shape)
    head, tail = _wide(a, b), _wide(c, d)
    low = mul(head, span)
    total = add(low, _mul_high(tail, span))
    carry = convert(lt(total, low), UINT64)
    return add(_mul_high(head, span), carry)


def _mul_high(x: Value, y: Value) -> Value:
    """The high 64 bits of a product, by halves (D. Knuth, TAOCP 2, 4.3.1, algorithm M)."""
    x1, x0, y1, y0 = (f(v) for v in (x, y) for f in (_high_half, _low_half))
    first = add(mul(x1, y0), _high_half(mul(x0, y0)))
    second = add(mul(x0, y1), _low_half(first))
    return add(mul(x1, y1), add(_high_half(first), _high_half(second)))


def _high_half(x: Value) -> Value:
    return shift_right(x, _WORD)


def _low_half(x: Value) -> Value:
    return and_(x, _LOW_WORD)
