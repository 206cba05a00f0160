"""L4. What Python's numbers raise where NumPy's give 0, infinity or NaN.

Operands are weak: arguments and results that are Python's ints and floats, not elements of arrays.
Known divisors raise here, in the user's line; others are checked when the program runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.errors import PythonNumberError
from fgrad.ops import elementwise as ew
from fgrad.ops.checked import checked, located, raised
from fgrad.trace import Tracer, concrete
from fgrad.tracing.checks import checks

Numbers = Callable[..., Any]
LARGEST = 9.2233720368e18  # no power of an integer lies between this and 2**63
BEYOND = 2.0**63
SMALLEST = -(2**63)
Fits = Callable[[Any, Any], Any]  # whether a result has 64 bits; None if it always has


@lru_cache(typed=True)
def error_of(function: Numbers, *args: float) -> Exception:
    """What Python raises for some numbers, less their names, which it tells since 3.14: they stand
    for others."""
    try:
        function(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error)(str(error).partition(", got ")[0])
    raise TypeError(f"{function} raises nothing for {args}")


def python_number(x: Any, passed: Any, error: Exception) -> Any:
    """One of Python's numbers, or its error where it has not passed."""
    out: Any = checked(x, passed, located(error))
    out.weak = x.weak
    return out


# --- division -------------------------------------------------------------------------------------


def divisor(divide: Numbers) -> Callable[[Any, Any], Any]:
    """Of two of Python's numbers the second, which must not be 0."""

    def nonzero(x: Any, y: Any) -> Any:
        value = concrete(y) if isinstance(y, Tracer) else y
        if value is None:
            return _checked_divisor(divide, x, y) if checks() else y
        if not value:
            raise raised(_zero_division(divide, x, y))
        return y

    return nonzero


def _zero_division(divide: Numbers, x: Any, y: Any) -> Exception:
    kinds = [z.dtype.kind if isinstance(z, Tracer) else np.asarray(z).dtype.kind for z in (x, y)]
    args = (1.0, 0.0) if "f" in kinds else (1j, 0j) if "c" in kinds else (1, 0)
    found = error_of(divide, *args)
    return type(found)(*found.args)  # `raised` notes the line in it


def _checked_divisor(divide: Numbers, x: Any, y: Tracer) -> Any:
    if y.dtype.kind not in "iubf":
        return y
    passed = ew.ne(y, y.dtype.type(0)) if y.dtype.kind != "b" else y
    return python_number(y, passed, _zero_division(divide, x, y))


TRUEDIV, FLOORDIV, MOD, DIVMOD = map(
    divisor, (operator.truediv, operator.floordiv, operator.mod, divmod)
)


# --- powers and shifts ----------------------------------------------------------------------------


def checked_power(x: Any, n: Any, out: Any) -> Any:
    """x ** n of Python's numbers, of which one is a float."""
    if out.dtype.kind != "f" or not checks():
        return out
    one = out.dtype.type
    known = concrete(n) if isinstance(n, Tracer) else n
    if known is None or known < 0:
        good = ew.ne(_float(x), one(0))
        good = good if known is not None else ew.or_(good, ew.ge(_float(n), one(0)))
        out = python_number(out, good, error_of(operator.pow, 0.0, -1.0))
    if known is None or known != int(known):
        good = ew.ge(_float(x), one(0))
        good = good if known is not None else ew.or_(good, ew.eq(ew.floor(_float(n)), _float(n)))
        out = python_number(out, ew.or_(good, ew.isnan(_float(x))), _complex_power())
    if known is not None and 0 <= known <= 1:
        return out
    finite = [ew.isfinite(_float(z)) for z in (x, n) if isinstance(z, Tracer)]
    good = ew.not_(ew.isinf(out))
    for z in finite:
        good = ew.or_(good, ew.not_(z))
    if known is None or known < 0:  # at 0 it is another error
        good = ew.or_(good, ew.eq(_float(x), one(0)))
    return python_number(out, good, error_of(operator.pow, 1e200, 2.0))


def _float(x: Any) -> Any:
    """A number as a float of the trace."""
    return ew.convert(x, np.dtype(np.float64)) if isinstance(x, Tracer) else np.float64(x)


def _complex_power() -> PythonNumberError:
    return PythonNumberError(
        "A negative number to a fractional power is complex in Python.",
        (("write", "complex(x) ** y, or np.abs(x) ** y"),),
    )


def exponent(x: Any, n: Any) -> Any:
    """The exponent of two of Python's integers, which must not be negative or too large."""
    if not checks() or not isinstance(n, Tracer) or concrete(n) is not None:
        return n
    n = python_number(n, ew.ge(n, np.int64(0)), _float_power())
    fits = ew.lt(ew.abs_(ew.pow_(_float(x), _float(n))), np.float64(LARGEST))
    return python_number(n, fits, beyond())


def base_of_power(x: Any, n: Any) -> Any:
    """The base of two of Python's integers, whose power must not be too large."""
    known = concrete(n) if isinstance(n, Tracer) else n
    if not checks() or known is None or known < 2 or not isinstance(x, Tracer):
        return x
    if concrete(x) is not None or x.dtype.kind != "i":
        return x
    most = round((BEYOND - 1) ** (1.0 / int(known)))
    while most**known >= 2**63:
        most -= 1
    fits = ew.le(ew.abs_(x), np.int64(most))
    return python_number(x, fits, beyond())


def whole_number(fits: Fits, x: Any, y: Any, out: Any) -> Any:
    """What an operator makes of two of Python's integers, which must have 64 bits."""
    if isinstance(out, tuple):
        return whole_number(fits, x, y, out[0]), *out[1:]
    if not isinstance(out, Tracer) or out.dtype.kind != "i" or not checks():
        return out
    if concrete(out) is not None:
        return out
    passed = fits(*[z if isinstance(z, Tracer) else np.int64(z) for z in (x, y)])
    return out if passed is None else python_number(out, passed, beyond())


def opposite(x: Any, out: Any) -> Any:
    """-x or abs(x) of one of Python's integers, of which the smallest has none of 64 bits."""
    return whole_number(ew.sub_fits, 0, x, out)


def _unless(test: Fits, first: tuple[int, ...], second: tuple[int, ...]) -> Fits:
    """None for known numbers that make no other one larger."""

    def fits(x: Any, y: Any) -> Any:
        pairs = (x, first), (y, second)
        neutral = any([not isinstance(z, Tracer) and z in few for z, few in pairs])
        return None if neutral else test(x, y)

    return fits


def _quotient_fits(x: Any, y: Any) -> Any:
    """Whether x // y has 64 bits: all but -2**63 // -1."""
    if not isinstance(y, Tracer):
        return ew.sub_fits(np.int64(0), x) if y == -1 else None
    if not isinstance(x, Tracer):
        return ew.ne(y, np.int64(-1)) if x == SMALLEST else None
    return ew.or_(ew.gt(x, np.int64(SMALLEST)), ew.ne(y, np.int64(-1)))


FITS: dict[str, Fits] = {
    "add": _unless(ew.add_fits, (0,), (0,)), "sub": _unless(ew.sub_fits, (), (0,)),
    "mul": _unless(ew.mul_fits, (0, 1), (0, 1)), "floordiv": _quotient_fits,
}  # fmt: skip


def _float_power() -> PythonNumberError:
    return PythonNumberError(
        "An integer to a negative power is a float in Python.",
        (("write", "float(x) ** n"),),
    )


def beyond() -> PythonNumberError:
    """The card for an integer that takes more than 64 bits."""
    return PythonNumberError(
        "An integer of Python's takes more than 64 bits here.",
        (("write", "float(n), or np.int64(n) if it is to wrap"),),
    )


def shift_left(x: Any, n: Any) -> Any:
    """How far one of Python's integers is shifted: not below 0, and no bit is lost."""
    n = shift_right(x, n)
    known = concrete(n) if isinstance(n, Tracer) else n
    if not checks() or (known is not None and not isinstance(x, Tracer)):
        return n
    far = n if known is None else np.int64(known)
    whole = ew.convert(x, np.dtype(np.int64)) if isinstance(x, Tracer) else np.int64(x)
    low = ew.min_(far, np.int64(62))
    back = ew.shift_right(ew.shift_left(whole, low), low)
    good = ew.and_(ew.eq(back, whole), ew.eq(low, far))
    good = ew.or_(good, ew.eq(whole, np.int64(0)))
    count = n if isinstance(n, Tracer) else np.int64(n)
    return python_number(_traced(count, good), good, beyond())


def shift_right(_x: Any, n: Any) -> Any:
    """How far one of Python's integers is shifted: not below 0."""
    if not checks() or not isinstance(n, Tracer) or concrete(n) is not None:
        return n
    return python_number(n, ew.ge(n, np.int64(0)), error_of(operator.rshift, 1, -1))


def _traced(n: Any, like: Any) -> Any:
    """A known number as a traced one."""
    if isinstance(n, Tracer):
        return n
    out: Any = ew.select(like, n, n)
    out.weak = True
    return out


# --- conversions ----------------------------------------------------------------------------------


def exact_up_to(source: np.dtype, target: np.dtype) -> int | None:
    """The largest integer of a dtype below which all are floats of another; None if all are."""
    if source.kind not in "iu" or target.kind not in "fc":
        return None
    most = 2 ** (np.finfo(target).nmant + 1)
    return most if most < np.iinfo(source).max else None


def inexact(most: int) -> PythonNumberError:
    """The card for a variable that is an integer or a float, of which the former is too large."""
    return PythonNumberError(
        f"A variable that is an integer or a float holds an integer beyond {most}.",
        (
            ("why", "compiled code has one type for it, the float's, which would round it."),
            ("write", "float(n) where the integer is bound"),
        ),
    )


def as_exact(x: Any, dtype: np.dtype) -> Any:
    """A traced integer that is converted to a float, which must hold it exactly."""
    most = exact_up_to(x.dtype, dtype)
    if most is None or x.shape or not checks():
        return x
    size = ew.abs_(x) if x.dtype.kind == "i" else x
    return python_number(x, ew.le(size, x.dtype.type(most)), inexact(most))


def whole(x: Any) -> Any:
    """A traced float that becomes one of Python's integers."""
    if not checks():
        return x
    zero, limit = x.dtype.type(0), x.dtype.type(BEYOND if x.dtype.itemsize > 2 else np.inf)
    x = python_number(x, ew.eq(x, x), error_of(int, float("nan")))
    infinite = error_of(int, float("inf"))
    good = ew.eq(ew.sub(x, x), zero)
    x = python_number(x, good, infinite)
    return python_number(x, ew.lt(ew.abs_(x), limit), beyond())


# --- math -----------------------------------------------------------------------------------------

Test = Callable[[Any], Any]


def _above(limit: float) -> Test:
    """Larger, and finite."""
    top = np.float64(np.inf)
    return lambda x: ew.and_(ew.gt(x, np.float64(limit)), ew.lt(x, top))


def _of_size(test: Test) -> Test:
    return lambda x: test(ew.abs_(x))


def _is(compare: Callable[[Any, Any], Any], limit: float) -> Test:
    """A comparison, false for NaN."""
    return lambda x: compare(x, np.float64(limit))


_POSITIVE = _is(ew.le, 0.0), 0.0
_SMALL = _of_size(_is(ew.gt, 1.0)), 2.0
_FINITE = _of_size(_is(ew.eq, np.inf)), np.inf
_EXPONENT, _SIZE = (_above(709.782712893384), 1000.0), (_of_size(_above(710.4758600739439)), 1000.0)

# Function of `math`: whether it has no value, and a number for which it has none.
DOMAINS: dict[str, tuple[Test, float]] = {
    "sqrt": (_is(ew.lt, 0.0), -1.0), "log": _POSITIVE, "log2": _POSITIVE, "log10": _POSITIVE,
    "log1p": (_is(ew.le, -1.0), -1.0), "asin": _SMALL, "acos": _SMALL,
    "acosh": (_is(ew.lt, 1.0), 0.0), "atanh": (_of_size(_is(ew.ge, 1.0)), 1.0),
    "sin": _FINITE, "cos": _FINITE, "tan": _FINITE,
    "exp": _EXPONENT, "expm1": _EXPONENT, "sinh": _SIZE, "cosh": _SIZE,
}  # fmt: skip


def in_domain(function: Numbers, x: Any) -> Any:
    """The argument of a function of `math`; Python's error where it has no value."""
    found = DOMAINS.get(function.__name__)
    if found is None or not checks():
        return x
    test, bad = found
    return python_number(x, ew.not_(test(x)), error_of(function, bad))


def has_value(function: Numbers, args: tuple[Any, ...], out: Any, bad: tuple[float, ...]) -> Any:
    """The result of a function of `math` of several numbers, that must be one."""
    if not checks():
        return out
    good = ew.isfinite(out)
    for x in args:
        good = ew.or_(good, ew.not_(ew.isfinite(_float(x)))) if isinstance(x, Tracer) else good
    return python_number(out, good, error_of(function, *bad))
