"""L7. Elementwise operations by the names of `jax.lax`: NumPy's ufuncs, and what NumPy has not.

Operands are promoted and broadcast as by NumPy.
"""

from __future__ import annotations

import enum

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.ir.aval import BOOL
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_shapes,
    inexact,
    promote,
    user_line,
)
from fgrad.ops import elementwise as ew
from fgrad.ops.complex import complex_
from fgrad.ops.elementwise import lit
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

abs = np.absolute
acos, acosh, asin, asinh = np.arccos, np.arccosh, np.arcsin, np.arcsinh
atan, atan2, atanh = np.arctan, np.arctan2, np.arctanh
cbrt, ceil, conj, cos, cosh = np.cbrt, np.ceil, np.conjugate, np.cos, np.cosh
exp, exp2, expm1, floor = np.exp, np.exp2, np.expm1, np.floor
log, log1p, sign, sin, sinh, sqrt = np.log, np.log1p, np.sign, np.sin, np.sinh, np.sqrt
square, tan, tanh, reciprocal = np.square, np.tan, np.tanh, np.reciprocal
add, sub, mul, neg, pow = np.add, np.subtract, np.multiply, np.negative, np.power
max, min, nextafter = np.maximum, np.minimum, np.nextafter
eq, ne, lt, le, gt, ge = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)
is_finite = np.isfinite
bitwise_and, bitwise_or, bitwise_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
bitwise_not, shift_left = np.invert, np.left_shift


class RoundingMethod(enum.Enum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _both(x: ArrayLike, y: ArrayLike) -> list[Value]:
    x, y = promote([as_operand(x), as_operand(y)])
    return list(broadcast((x, y), broadcast_shapes(x.shape, y.shape)))


def _integers(name: str, *xs: Value) -> None:
    for x in xs:
        if x.dtype.kind not in "iu":
            raise DtypeError(f"lax.{name} takes integers, not {x.dtype}.", user_line())


def div(x: ArrayLike, y: ArrayLike) -> Value:
    """x / y; of integers the quotient, rounded towards zero.

    Example:
        >>> from fgrad import lax
        >>> lax.div(-7, 2), lax.div(-7.0, 2.0)
        (np.int64(-3), np.float64(-3.5))
    """
    a, b = _both(x, y)
    if a.dtype.kind not in "iu":
        return np.true_divide(a, b)
    return np.floor_divide(a - np.fmod(a, b), b)


def rem(x: ArrayLike, y: ArrayLike) -> Value:
    """The remainder of `div`, with the sign of the dividend.

    Example:
        >>> from fgrad import lax
        >>> lax.rem(-7, 2)
        np.int64(-1)
    """
    return np.fmod(x, y)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Value:
    """The nearest integer, as a float; halves away from zero, or to the even one.

    Arguments:
        rounding_method: a `RoundingMethod`, or its number.

    Raises:
        DtypeError: if `x` is not of floats.

    Example:
        >>> from fgrad import lax
        >>> lax.round(np.array([0.5, 2.5])), np.round(np.array([0.5, 2.5]))
        (array([1., 3.]), array([0., 2.]))
    """
    x = as_array(x)
    if x.dtype.kind not in "f":
        raise DtypeError(f"lax.round takes floats, not {x.dtype}.", user_line())
    if RoundingMethod(rounding_method) is RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    half = ew.ge(ew.abs_(x - whole), lit(x, 0.5))
    return ew.select(half, whole + np.sign(x), whole)


@also_takes("accuracy")
def rsqrt(x: ArrayLike) -> Value:
    """1 / sqrt(x).

    Example:
        >>> from fgrad import lax
        >>> lax.rsqrt(4.0)
        np.float64(0.5)
    """
    x = inexact(x)
    return ew.div(lit(x, 1), ew.sqrt(x))


def integer_pow(x: ArrayLike, y: int) -> Value:
    """x to a known integer power.

    Raises:
        ArgumentError: if `y` is no integer.

    Example:
        >>> from fgrad import lax
        >>> lax.integer_pow(2.0, -2)
        np.float64(0.25)
    """
    if not isinstance(y, (int, np.integer)):
        raise ArgumentError(f"lax.integer_pow: the power is {y!r}.", user_line())
    power = np.power(x, int(np.abs(y)))
    return power if y >= 0 else 1 / power


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Value:
    """`x` between two limits.

    Arguments:
        min, max: the limits: arrays of the shape of `x`, or scalars.

    Example:
        >>> from fgrad import lax
        >>> lax.clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
        array([0. , 0.5, 1. ])
    """
    return np.clip(x, min, max)


def complex(x: ArrayLike, y: ArrayLike) -> Value:
    """x + i y of floats of one dtype.

    Raises:
        DtypeError: for float16, bfloat16 and complex numbers.

    Example:
        >>> from fgrad import lax
        >>> lax.complex(1.0, 2.0)
        np.complex128(1+2j)
    """
    a, b = _both(inexact(x), inexact(y))
    if a.dtype.itemsize < 4 or a.dtype.kind == "c":
        raise DtypeError(
            f"lax.complex: there are no complex numbers of two {a.dtype}.",
            (*user_line(), ("write", "x.astype(np.float32)")),
        )
    return complex_(a, b)


def real(x: ArrayLike) -> Value:
    """The real part.

    Example:
        >>> from fgrad import lax
        >>> lax.real(1 + 2j)
        np.float64(1.0)
    """
    return np.real(as_array(x))


def imag(x: ArrayLike) -> Value:
    """The imaginary part.

    Example:
        >>> from fgrad import lax
        >>> lax.imag(1 + 2j)
        np.float64(2.0)
    """
    return np.imag(as_array(x))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Value:
    """Elements of one array or of the other; both have one shape, `pred` that or none.

    Arguments:
        on_true, on_false: arrays of one shape and dtype.

    Raises:
        ShapeError: if the shapes differ.

    Example:
        >>> from fgrad import lax
        >>> lax.select(np.array([True, False]), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array([1., 4.])
    """
    pred, x, y = as_array(pred), *promote([as_array(on_true), as_array(on_false)])
    if x.shape != y.shape or pred.shape not in ((), x.shape) or pred.dtype != BOOL:
        raise ShapeError(
            f"lax.select: {pred.dtype}{pred.shape} selects of shapes {x.shape} and {y.shape}.",
            (*user_line(), ("write", "np.where(pred, x, y), which broadcasts")),
        )
    return np.where(pred, x, y)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike | None) -> Value:
    """An array in another dtype, as `x.astype(new_dtype)`.

    Example:
        >>> from fgrad import lax
        >>> lax.convert_element_type(2, np.float32)
        np.float32(2.0)
    """
    return as_array(operand).astype(np.dtype(new_dtype))


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike | None) -> Value:
    """The bits of an array as another dtype of the same size.

    Arguments:
        new_dtype: a dtype of NumPy.

    Raises:
        DtypeError: the dtypes have different sizes, or one of them is bool.

    Example:
        >>> from fgrad import lax
        >>> hex(lax.bitcast_convert_type(np.float32(1.0), np.uint32))
        '0x3f800000'
    """
    x, dtype = as_array(operand), np.dtype(new_dtype)
    if x.dtype == dtype:
        return x
    if "b" in (x.dtype.kind, dtype.kind):
        raise DtypeError(
            f"lax.bitcast_convert_type: {x.dtype} as {dtype}; a truth value has no bits.",
            (*user_line(), ("write", "x.astype(np.uint8), or x != 0")),
        )
    if x.dtype.itemsize != dtype.itemsize:
        raise DtypeError(
            f"lax.bitcast_convert_type: {x.dtype} and {dtype} have different sizes.", user_line()
        )
    return ew.bitcast(x, dtype)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Value:
    """Floats rounded to the bits of a smaller format, in their own dtype; the derivative is 1.

    Arguments:
        operand: floats.
        exponent_bits, mantissa_bits: those of float16 (5, 10), bfloat16 (8, 7), float32 (8, 23) or
            of the dtype itself.

    Raises:
        ArgumentError: for other formats.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_precision(0.1, 5, 10)
        np.float64(0.0999755859375)
    """
    x = inexact(operand)
    formats = {(5, 10): np.float16, (8, 23): np.float32, (11, 52): np.float64}
    bits, plain = (exponent_bits, mantissa_bits), ew.stop_gradient(x)
    if bits in formats:
        rounded = plain.astype(formats[bits]).astype(x.dtype)
    elif bits == (8, 7):
        rounded = _as_bfloat16(plain.astype(np.float32)).astype(x.dtype)
    else:
        raise ArgumentError(
            f"lax.reduce_precision: {bits[0]} bits of exponent and {bits[1]} of mantissa.",
            (*user_line(), ("write", "5 and 10, 8 and 7, 8 and 23, 11 and 52")),
        )
    finite, zero = ew.isfinite(plain), lit(x, 0)
    return x + ew.select(finite, rounded - ew.select(finite, plain, zero), zero)  # exact


def _as_bfloat16(x: Value) -> Value:
    """Floats of 32 bits rounded to the nearest, even, of 16: the upper half of the word."""
    word = ew.bitcast(x, np.dtype(np.uint32))
    odd = ew.and_(ew.shift_right(word, np.uint32(16)), np.uint32(1))
    rounded = ew.and_(word + (odd + np.uint32(0x7FFF)), np.uint32(0xFFFF0000))
    return ew.bitcast(rounded, np.dtype(np.float32))


# --- bits ---------------------------------------------------------------------------------------


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Value:
    """Bits moved right; those of the sign come in.

    Example:
        >>> from fgrad import lax
        >>> lax.shift_right_arithmetic(-8, 1)
        np.int64(-4)
    """
    a, b = _both(x, y)
    _integers("shift_right_arithmetic", a)
    signed = np.dtype(f"i{a.dtype.itemsize}")
    return np.right_shift(a.astype(signed), b.astype(signed)).astype(a.dtype)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Value:
    """Bits moved right; zeros come in.

    Example:
        >>> from fgrad import lax
        >>> lax.shift_right_logical(np.int8(-8), np.int8(1))
        np.int8(124)
    """
    a, b = _both(x, y)
    _integers("shift_right_logical", a)
    plain = np.dtype(f"u{a.dtype.itemsize}")
    return np.right_shift(a.astype(plain), b.astype(plain)).astype(a.dtype)


def population_count(x: ArrayLike) -> Value:
    """How many bits are set, in the dtype of `x`; a negative number has those of its word.

    Example:
        >>> from fgrad import lax
        >>> lax.population_count(7)
        np.int64(3)
    """
    x = as_array(x)
    _integers("population_count", x)
    plain = x.astype(np.dtype(f"u{x.dtype.itemsize}"))
    return np.bitwise_count(plain).astype(x.dtype)


def clz(x: ArrayLike) -> Value:
    """How many leading bits are zero, in the dtype of `x`.

    Example:
        >>> from fgrad import lax
        >>> lax.clz(np.int32(1))
        np.int32(31)
    """
    x = as_array(x)
    _integers("clz", x)
    bits = 8 * x.dtype.itemsize
    word = x.astype(np.dtype(f"u{x.dtype.itemsize}"))
    step = 1
    while step < bits:  # every bit below the first one is set
        word = np.bitwise_or(word, np.right_shift(word, word.dtype.type(step)))
        step *= 2
    return x.dtype.type(bits) - np.bitwise_count(word).astype(x.dtype)
