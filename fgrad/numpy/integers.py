"""L4. Functions of integers and of the bits of numbers: common divisors, counts, exponents.

Common divisors are loops over all elements together, which end when the last element has: a `while`
of the language of programs, so that they are compiled, mapped and nested like everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from fgrad.errors import ArgumentError, BoundsError
from fgrad.ir.aval import INT64, Aval
from fgrad.numpy.arrange import known_ints, moveaxis
from fgrad.numpy.compositions import to_bool
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    broadcast_to,
    convert,
    normalize_axis,
    reshape,
)
from fgrad.numpy.ufuncs import define
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.ops.checked import in_range, located
from fgrad.ops.control import while_loop
from fgrad.ops.reduce import reduce_any, reduce_sum
from fgrad.trace import Tracer, Value, concrete, trace
from fgrad.tracing.checks import checks
from fgrad.transforms.control import vmap as control_vmap  # noqa: F401 - the batching rule of loops
from fgrad.typing import ArrayLike

lit = ew.lit

_UNSIGNED = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32),
             8: np.dtype(np.uint64)}  # fmt: skip


def gcd(x: Value, y: Value) -> Value:
    """The greatest common divisor, by Euclid's algorithm; not negative."""
    x, y = _of_one_shape(x, y)
    shape = x.shape
    every = tuple(range(len(shape)))
    aval = Aval(shape, x.dtype)

    def unfinished(_a: Value, b: Value) -> list[Value]:
        open_ = ew.ne(b, lit(b, 0))
        return [reduce_any(open_, every) if every else open_]

    def step(a: Value, b: Value) -> list[Value]:
        done = ew.eq(b, lit(b, 0))
        rest = ew.remainder(a, ew.select(done, lit(b, 1), b))
        return [ew.select(done, a, b), ew.select(done, b, rest)]

    cond = trace(unfinished, [aval, aval], "gcd_cond", "while_loop").program
    body = trace(step, [aval, aval], "gcd_body", "while_loop").program
    return while_loop(cond, body, (), (), (ew.abs_(x), ew.abs_(y)))[0]


def lcm(x: Value, y: Value) -> Value:
    """The least common multiple; 0 if either is."""
    x, y = _of_one_shape(x, y)
    divisor = gcd(x, y)
    none = ew.eq(divisor, lit(x, 0))
    quotient = ew.floor_divide(ew.abs_(x), ew.select(none, lit(x, 1), divisor))
    return ew.mul(quotient, ew.abs_(y))


def _of_one_shape(x: Value, y: Value) -> tuple[Value, Value]:
    """Operands of one shape, where a constant of rank 0 may have stood for any."""
    if x.shape == y.shape:
        return x, y
    if not x.shape:
        return ew.add(ew.mul(y, lit(y, 0)), x), y
    return x, ew.add(ew.mul(x, lit(x, 0)), y)


# Each step adds neighbouring fields of bits: of 1 bit, then of 2, of 4, of 8, ...
_FIELDS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF,
           0x0000FFFF0000FFFF, 0x00000000FFFFFFFF)  # fmt: skip


def bitwise_count(x: Value) -> Value:
    """The number of ones among the bits of |x|."""
    if x.dtype.kind == "b":
        return ew.convert(x, np.dtype(np.uint8))
    bits = 8 * x.dtype.itemsize
    count = ew.convert(ew.abs_(x), _UNSIGNED[x.dtype.itemsize])
    width, k = 1, 0
    while width < bits:
        mask = lit(count, _FIELDS[k] & (2**bits - 1))
        upper = ew.shift_right(count, lit(count, width))
        count = ew.add(ew.and_(count, mask), ew.and_(upper, mask))
        width, k = 2 * width, k + 1
    return ew.convert(count, np.dtype(np.uint8))


def ldexp(x: Value, n: Value) -> Value:
    """x 2^n, in three factors, none of which overflows before the result does."""
    limits = np.finfo(x.dtype)
    most = limits.maxexp - limits.minexp + limits.nmant + 2  # beyond it, all is 0 or infinite
    power = ew.clip(ew.convert(n, x.dtype), lit(x, -most), lit(x, most))
    third = ew.rint(ew.mul(power, lit(x, 1 / 3)))
    factor = ew.exp2(third)
    rest = ew.exp2(ew.sub(power, ew.add(third, third)))
    return ew.mul(ew.mul(ew.mul(x, factor), factor), rest)


_INT32 = np.dtype(np.int32)


def frexp(x: Value) -> tuple[Value, Value]:
    """The mantissa in [0.5, 1) and the exponent of 2, read from the bits of the number.

    The exponent is constant between powers of 2; the mantissa is x 2^-exponent, and linear there.
    """
    if x.dtype == np.float16:
        mantissa, exponent = frexp(ew.convert(x, np.dtype(np.float32)))
        return ew.convert(mantissa, x.dtype), exponent
    limits = np.finfo(x.dtype)
    fixed = ew.stop_gradient(x) if isinstance(x, Tracer) else x
    small = ew.lt(ew.abs_(fixed), lit(x, float(limits.tiny)))
    lifted = ew.select(small, ew.mul(fixed, lit(x, 2.0 ** (limits.nmant + 2))), fixed)
    bits = ew.bitcast(lifted, _UNSIGNED[x.dtype.itemsize])
    field = ew.and_(ew.shift_right(bits, lit(bits, limits.nmant)), lit(bits, 2 * limits.maxexp - 1))
    bias = ew.select(small, np.int32(limits.maxexp + limits.nmant), np.int32(limits.maxexp - 2))
    exponent = ew.sub(ew.convert(field, _INT32), bias)
    plain = ew.and_(ew.isfinite(fixed), ew.ne(fixed, lit(x, 0)))
    exponent = ew.select(plain, exponent, np.int32(0))
    return ldexp(x, ew.neg(exponent)), exponent


def spacing(x: Value) -> Value:
    """The distance to the next number away from zero, with the sign of x."""
    size = ew.abs_(x)
    step = ew.sub(ew.nextafter(size, lit(x, np.inf)), size)
    if x.dtype != np.float16:
        return ew.copysign(step, x)
    # NumPy's half precision goes up: the step is positive, and half of it below powers of 2.
    upward = ew.lt(x, lit(x, 0))
    return ew.select(upward, ew.abs_(ew.sub(ew.nextafter(x, lit(x, np.inf)), x)), step)


define("gcd", gcd)
define("lcm", lcm)
define("frexp", frexp)
define("ldexp", ldexp)
define("spacing", spacing)
define("bitwise_count", bitwise_count)


# --- bits of bytes --------------------------------------------------------------------------------

_UINT8 = np.dtype(np.uint8)


def _weights(order: str) -> np.ndarray:
    """Which bit of a byte comes first."""
    if order not in ("big", "little"):
        raise ArgumentError("'order' must be either 'little' or 'big'")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1].copy() if order == "big" else shifts


@implements("packbits")
def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Value:
    """Truth values as the bits of bytes, zeros at the end."""
    x = as_array(a)
    if x.dtype.kind not in "biu":
        raise ArgumentError("Expected an input array of integer or boolean data type")
    x, axis = _line_or_axis(x, axis)
    x = convert(to_bool(moveaxis(x, axis, -1)), _UINT8)
    n, lead = x.shape[-1], x.shape[:-1]
    count = -(-n // 8)
    x = sh.pad(x, (0,) * len(x.shape), (0,) * len(lead) + (8 * count - n,))
    bits = reshape(x, (*lead, count, 8))
    shifts = broadcast_to(_weights(bitorder), bits.shape)
    whole = reduce_sum(ew.shift_left(bits, shifts), (len(lead) + 1,))
    return moveaxis(whole, -1, axis)


@implements("unpackbits")
def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Value:
    """The bits of bytes, `count` of them or all but the last `-count`."""
    x = as_array(a)
    if x.dtype != _UINT8:
        raise ArgumentError("Expected an input array of unsigned byte data type")
    x, axis = _line_or_axis(x, axis)
    x = moveaxis(x, axis, -1)
    lead, n = x.shape[:-1], x.shape[-1]
    wide = broadcast_to(reshape(x, (*x.shape, 1)), (*x.shape, 8))
    shifts = broadcast_to(_weights(bitorder), wide.shape)
    bits = reshape(ew.and_(ew.shift_right(wide, shifts), lit(x, 1)), (*lead, 8 * n))
    if count is not None:
        length = int(count) if int(count) >= 0 else 8 * n + int(count)
        if length < 0:
            raise ArgumentError(f"-ve count {count} would leave no elements of {8 * n}")
        bits = sh.pad(bits, (0,) * len(x.shape), (0,) * len(lead) + (length - 8 * n,))
    return moveaxis(bits, -1, axis)


def _line_or_axis(x: Value, axis: SupportsIndex | None) -> tuple[Value, int]:
    if axis is None or not x.shape:
        x = reshape(x, (math.prod(x.shape),))
    return x, normalize_axis(0 if axis is None else axis, len(x.shape))


# --- numbers of places ----------------------------------------------------------------------------


def _strides(shape: Sequence[int], order: str) -> list[int]:
    """How far apart the neighbours along each axis are, in elements."""
    if order not in ("C", "F"):
        raise ArgumentError("only 'C' or 'F' order is permitted")
    if order == "C":
        return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return [math.prod(shape[:i]) for i in range(len(shape))]


def _integers(a: ArrayLike) -> Value:
    x = as_array(a)
    if x.dtype.kind not in "iu":
        raise ArgumentError("only int indices permitted")
    return convert(x, INT64)


def _inside(x: Value, length: int) -> Value:
    """Numbers that lie in range: an error now, or when the program runs."""
    value, what = concrete(x), f"an index is out of bounds for array with size {length}"
    if value is None:
        x = convert(x, INT64)
        return in_range(x, 0, length - 1, located(ValueError(what))) if checks() else x
    if np.any((value < 0) | (value >= length)):
        raise BoundsError(what)
    return x


@implements("unravel_index")
def unravel_index(indices: ArrayLike, shape: Sequence[int], order: str = "C") -> tuple[Value, ...]:
    """The coordinates of numbered places."""
    lengths = known_ints(shape)
    flat = _inside(_integers(indices), math.prod(lengths))
    return tuple(
        [
            ew.remainder(ew.floor_divide(flat, np.int64(max(step, 1))), np.int64(max(n, 1)))
            for n, step in zip(lengths, _strides(lengths, order), strict=True)
        ]
    )


@implements("ravel_multi_index")
def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C"
) -> Value:
    """The numbers of places with given coordinates."""
    lengths = known_ints(dims)
    parts = [_integers(x) for x in multi_index]
    if len(parts) != len(lengths):
        raise ArgumentError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    modes = (mode,) * len(parts) if isinstance(mode, str) else tuple(mode)
    total: Value = INT64.type(0)
    for x, n, step, how in zip(parts, lengths, _strides(lengths, order), modes, strict=True):
        if how == "raise":
            x = _inside(x, n)
        elif how == "wrap":
            x = ew.remainder(x, np.int64(n))
        elif how == "clip":
            x = ew.clip(x, np.int64(0), np.int64(n - 1))
        else:
            raise ArgumentError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {how!r})")
        total = ew.add(*broadcast((total, ew.mul(x, np.int64(step)))))
    return total
