"""L4. Elementwise functions composed of primitives, on promoted and broadcast operands.

Each is written so that its derivatives of every order come out of the primitives' rules, also where
the function is evaluated at ties, zeros and infinities: the branch that is not taken is given
arguments at which nothing is infinite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.ir.aval import BOOL
from fgrad.numpy.promote import traced_full
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops.checked import NEGATIVE_POWER, in_range, text_of
from fgrad.ops.composed import hypot, modulus
from fgrad.trace import Value, concrete

lit = ew.lit
select = ew.select


def to_bool(x: Value) -> Value:
    """x != 0."""
    return x if x.dtype.kind == "b" else ew.ne(x, lit(x, 0))


def rounding(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """A rounding function, extended by the identity to integers and bools."""
    return lambda x: function(x) if x.dtype.kind in "fcV" else x


def float_test(function: Callable[[Value], Value], answer: bool) -> Callable[[Value], Value]:
    """A test for NaN or infinity, extended by a constant `answer` to integers and bools."""
    return lambda x: function(x) if x.dtype.kind in "fcV" else traced_full(x, x.shape, answer, BOOL)


def reciprocal(x: Value) -> Value:
    """1 / x; for integers truncated, so 0 unless |x| is 1, and at 0 whatever NumPy returns."""
    if x.dtype.kind in "fcV":
        return ew.reciprocal(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_zero = np.reciprocal(np.zeros(1, x.dtype))[0]
    one, zero = lit(x, 1), lit(x, 0)
    result = ew.select(ew.eq(x, one), one, ew.select(ew.eq(x, zero), of_zero, zero))
    if x.dtype.kind != "i":
        return result
    return ew.select(ew.eq(x, lit(x, -1)), lit(x, -1), result)


def heaviside(x: Value, at_zero: Value) -> Value:
    """0 for x < 0, `at_zero` at 0, 1 for x > 0; NaN stays."""
    step = select(ew.lt(x, lit(x, 0)), lit(x, 0), lit(x, 1))
    return select(ew.isnan(x), x, select(ew.eq(x, lit(x, 0)), at_zero, step))


def fmax(x: Value, y: Value) -> Value:
    """The larger; NaN only if both are."""
    return _ignoring_nan(x, y, ew.max_)


def fmin(x: Value, y: Value) -> Value:
    """The smaller; NaN only if both are."""
    return _ignoring_nan(x, y, ew.min_)


def _ignoring_nan(x: Value, y: Value, best: Callable[[Value, Value], Value]) -> Value:
    if x.dtype.kind not in "fcV":
        return best(x, y)
    return select(ew.isnan(x), y, select(ew.isnan(y), x, best(x, y)))


def modf(x: Value) -> tuple[Value, Value]:
    """Fractional and integral parts, both with the sign of x."""
    whole = ew.trunc(x)
    signed_zero = ew.copysign(lit(x, 0), x)
    return select(ew.isinf(x), signed_zero, ew.fmod(x, lit(x, 1))), whole


def divmod_(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder."""
    return ew.floor_divide(x, y), ew.remainder(x, y)


def scaled(factor: float) -> Callable[[Value], Value]:
    """Multiplication by a constant."""
    return lambda x: ew.mul(x, lit(x, factor))


def positive(x: Value) -> Value:
    """x."""
    return x


def absolute(x: Value) -> Value:
    """|x|; for complex numbers the modulus, with derivative 0 at 0."""
    return modulus(x) if cx.is_complex(x) else ew.abs_(x)


def sign(x: Value) -> Value:
    """-1, 0 or 1; x / |x| for complex numbers."""
    if not cx.is_complex(x):
        return ew.sign(x)
    re, im = cx.real(x), cx.imag(x)
    size = hypot(re, im)
    zero = ew.eq(size, lit(size, 0))
    divisor = select(zero, lit(size, 1), size)
    unit = cx.complex_(ew.div(re, divisor), ew.div(im, divisor))
    axis = cx.complex_(_sign_of_infinity(re), _sign_of_infinity(im))
    one_infinite = ew.ne(ew.isinf(re), ew.isinf(im))
    unit = select(ew.and_(ew.isinf(size), one_infinite), axis, unit)
    return select(zero, lit(x, 0), unit)


def _sign_of_infinity(x: Value) -> Value:
    """The sign of an infinity, and 0 for finite numbers and NaN."""
    return select(ew.isinf(x), ew.sign(x), lit(x, 0))


def logical(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of bools, extended to operands of any dtype: what is not 0 is true."""
    return lambda *xs: function(*[to_bool(x) for x in xs])


_TRUE_IF_LESS = (ew.lt, ew.le, ew.ne)  # comparisons that hold for every x < y
_MIRROR = {ew.lt: ew.gt, ew.le: ew.ge, ew.gt: ew.lt, ew.ge: ew.le, ew.eq: ew.eq, ew.ne: ew.ne}


def comparison(function: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """A comparison; int64 with uint64 is exact, as in NumPy."""

    def compare(x: Value, y: Value) -> Value:
        if x.dtype == y.dtype:
            return function(x, y)
        if x.dtype.kind == "u":
            return comparison(_MIRROR[function])(y, x)
        negative = ew.lt(x, lit(x, 0))
        answer = function(ew.convert(x, y.dtype), y)
        return select(negative, np.bool_(function in _TRUE_IF_LESS), answer)

    return compare


def power(x: Value, n: Value) -> Value:
    """x ** n as NumPy's `**` computes it, not its `np.power`.

    They differ for constant n: squares are x * x, and complex powers of 0.5 and -1 are `sqrt` and
    `reciprocal`, where `np.power` gives NaN at infinity.
    """
    if isinstance(n, np.generic) and n == 2:
        return ew.mul(x, x)
    if isinstance(n, np.generic) and x.dtype.kind == "c" and n in (0.5, -1):
        return ew.sqrt(x) if n == 0.5 else ew.reciprocal(x)
    if n.dtype.kind == "i" and not (0 in x.shape or 0 in n.shape):
        known = concrete(n)
        if known is None:
            n = in_range(n, 0, None, text_of(NEGATIVE_POWER))
        elif np.any(np.less(known, 0)):
            raise ArgumentError(str(NEGATIVE_POWER))
    return ew.pow_(x, n)
