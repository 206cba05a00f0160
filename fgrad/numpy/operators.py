"""L4. Python's operators on tracers: ufuncs, but two weak scalars act as Python numbers.

`1 / 2`, `7 // 2` and `True + True` of weak tracers give what Python gives, and the result is weak.
`x += y` binds the name to a new value; where x is an array it keeps the dtype and shape of x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.foreign import plain_array, refuse_foreign, without_operators
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.numpy.promote import (
    convert,
    dtype_of,
    shape_of,
    user_line,
    weakened,
)
from fgrad.numpy.python_numbers import (
    DIVMOD,
    FITS,
    FLOORDIV,
    MOD,
    TRUEDIV,
    base_of_power,
    checked_power,
    exponent,
    opposite,
    shift_left,
    shift_right,
    whole,
    whole_number,
)
from fgrad.numpy.ufuncs import GENERAL, fast_binary, fast_reflected
from fgrad.ops import elementwise as ew
from fgrad.ops.families import bound_by
from fgrad.trace import Tracer, Value, bind, concrete
from fgrad.tracing.fastpath import bind_one
from fgrad.tracing.on_device import OnDevice
from fgrad.tracing.tables import numpy_functions
from fgrad.transforms.core.wrap import is_weak
from fgrad.typing import ArrayLike, PyTree

Function: TypeAlias = Callable[..., Value]

# Python's name -> ufunc, what binds the primitive of its fast way.
ARITHMETIC: dict[str, tuple[str, Function]] = {
    "add": ("add", ew.add),
    "sub": ("subtract", ew.sub),
    "mul": ("multiply", ew.mul),
    "truediv": ("true_divide", ew.div),
    "floordiv": ("floor_divide", ew.floor_divide),
    "mod": ("remainder", ew.remainder),
}
COMPARE: dict[str, tuple[str, Function]] = {
    "eq": ("equal", ew.eq), "ne": ("not_equal", ew.ne), "lt": ("less", ew.lt),
    "le": ("less_equal", ew.le), "gt": ("greater", ew.gt), "ge": ("greater_equal", ew.ge),
}  # fmt: skip
DIVISORS = {"truediv": TRUEDIV, "floordiv": FLOORDIV, "mod": MOD}
SHIFTS = {"lshift": shift_left, "rshift": shift_right}
BITWISE = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip

_NUMBERS = (Tracer, np.ndarray, np.generic, bool, int, float, complex)
_OPERANDS = (*_NUMBERS, list, tuple)


def python_integer(x: ArrayLike) -> Any:
    """A weak bool as the weak integer that Python calculates with."""
    if isinstance(x, Tracer) and x.weak and x.dtype.kind == "b":
        return weakened(bind(ew.convert_p, x, dtype=np.dtype(np.int64)))
    return int(x) if isinstance(x, bool) else x


def _plain(x: PyTree) -> PyTree:
    """An operand of another library as an array, if it is one: what exports its memory by DLPack.
    What has units, names or a mask has operators of its own."""
    if isinstance(x, _OPERANDS):
        return x
    refuse_foreign(x, "an operand")
    is_plain = (hasattr(x, "__dlpack__") or without_operators(x)) and not isinstance(x, OnDevice)
    return plain_array(x, "an operand") if is_plain else NotImplemented


def _operator(
    general: Function, counts: bool, second: Function | None = None, fits: Function | None = None
) -> Function:
    """The general form of a binary operator; `counts` if Python takes bools as integers; `second`
    gives the second one of Python's numbers, where it is checked; `fits` says whether the result of
    two of Python's integers has 64 bits."""

    def operator(x: ArrayLike, y: ArrayLike) -> Value:
        if not isinstance(x, _OPERANDS) or not isinstance(y, _OPERANDS):
            x, y = _plain(x), _plain(y)
            if x is NotImplemented or y is NotImplemented:
                return NotImplemented
        if is_weak(x) and is_weak(y):
            if counts:
                x, y = python_integer(x), python_integer(y)
            if second is not None:
                y = second(x, y)
            out = weakened(general(x, y))
            return out if fits is None else whole_number(fits, x, y, out)
        return general(x, y)

    return operator


def _repeating(multiply: Function) -> Callable[[object, object], object]:
    """A product, which of a sequence and an integer is its repetition."""

    def operator(x: object, y: object) -> Value | list[object] | tuple[object, ...]:
        for items, n in ((x, y), (y, x)):
            if not isinstance(items, (list, tuple)) or not isinstance(n, Tracer):
                continue
            if n.dtype.kind in "iu" and not n.shape:
                return items * n.__index__()
        return multiply(x, y)

    return operator


def _reflected(operator: Function) -> Function:
    return lambda x, y: operator(y, x)


# --- powers ---------------------------------------------------------------------------------------

_pow_general = _operator(GENERAL["power"], counts=True)


def pow_operator(x: Tracer, n: int, modulo: None = None) -> Value:
    """x ** n: exponents 2, 1, 0.5, -1 and 0 are what NumPy makes of them."""
    if modulo is not None:
        return NotImplemented
    kind = type(n)
    if (kind is int or kind is float) and x.dtype.kind == "f":
        out = x.builder.record(ew.mul_p, (x, x), {}) if n == 2 else _scalar_power(x, n)
        return checked_power(x, n, weakened(out)) if x.weak else out
    base: Value = x
    if kind is int and n < 0 and x.weak:
        base = weakened(ew.convert(python_integer(x), np.dtype(np.float64)))
    elif kind is int and n == 2 and x.shape:
        return GENERAL["square"](x)
    elif isinstance(n, Tracer) and n.weak and x.weak and n.dtype.kind == "i":
        power = concrete(n)
        if power is not None and power < 0:
            base = weakened(ew.convert(python_integer(x), np.dtype(np.float64)))
    return _python_power(base, n)


def _python_power(x: Any, n: Any) -> Value:
    """x ** n; Python's numbers are checked."""
    if not (is_weak(x) and is_weak(n)):
        return _pow_general(x, n)
    x, n = python_integer(x), python_integer(n)
    if "f" in [dtype_of(x).kind, dtype_of(n).kind]:
        return checked_power(x, n, _pow_general(x, n))
    return _pow_general(base_of_power(x, n), exponent(x, n))


def _scalar_power(x: Tracer, n: float) -> Value:
    if n == 0.5:
        return ew.sqrt(x)
    if n == -1:
        return ew.reciprocal(x)
    return bind(ew.pow_p, x, x.dtype.type(n))


def rpow_operator(x: Tracer, base: ArrayLike) -> Value:
    """base ** x."""
    if type(base) is int and x.weak and x.dtype.kind == "i":
        power = concrete(x)
        if power is not None and power < 0:
            base = float(base)
    return _python_power(base, x)


# --- unary ----------------------------------------------------------------------------------------


def _unary(ufunc: str, direct: Function | None) -> Function:
    general = GENERAL[ufunc]
    prim = None if direct is None else bound_by(direct)

    def operator(x: Tracer) -> Value:
        if prim is not None and x.dtype.kind == "f":
            out = bind_one(prim, x, {})
        else:
            x = python_integer(x)
            out = general(x)
        if x.weak:
            weakened(out)
            return opposite(x, out) if ufunc in ("negative", "absolute") else out
        return out

    return operator


def positive(x: Tracer) -> Value:
    """+x."""
    return python_integer(x) if x.weak else GENERAL["positive"](x)


def _rounded(function: Function) -> Function:
    """math.floor(x) and the like: a weak integer."""

    def operator(x: Tracer) -> Value:
        if x.shape:
            raise ArgumentError("only arrays of rank 0 can be converted to Python integers")
        rounded = function(whole(x)) if x.dtype.kind in "fV" else x
        return weakened(bind(ew.convert_p, rounded, dtype=np.dtype(np.int64)))

    return operator


def round_operator(x: Tracer, ndigits: int | None = None) -> Value:
    """round(x): an integer for a scalar unless digits are asked for."""
    if ndigits is None:
        return _rounded(ew.rint)(x)
    out = numpy_functions[np.round](x, ndigits)
    return weakened(out) if x.weak and out is not x else out


# --- in place -------------------------------------------------------------------------------------


def _in_place(operator: Function) -> Function:
    """`x += y` for a name: a new value with the shape and dtype of the array x."""

    def assign(x: Tracer, y: ArrayLike) -> Value:
        out = operator(x, y)
        if out is NotImplemented or (out.dtype is x.dtype and out.shape == x.shape):
            return out
        return keep_type(x, out) if x.shape else out

    return assign


def keep_type(x: Value, new: Value) -> Value:
    """What NumPy stores when `new` is written over the array `x`."""
    if shape_of(new) != x.shape:
        raise ShapeError(
            f"an array of shape {x.shape} cannot hold a result of shape {shape_of(new)}.",
            (*user_line(), ("write", "x = x + y      instead of x += y")),
        )
    check_cast(x, dtype_of(new))
    return convert(new, x.dtype)


def check_cast(x: Value, dtype: np.dtype) -> None:
    """Raise unless NumPy casts results of a dtype silently to that of the array `x`."""
    if not np.can_cast(dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"an array of {x.dtype} cannot hold results of {dtype}.",
            (*user_line(), ("write", "x = x + y      instead of x += y")),
        )


def _table() -> dict[str, Function]:
    table: dict[str, Function] = {}
    for name, (ufunc, direct) in (ARITHMETIC | COMPARE).items():
        second = DIVISORS.get(name)
        general = _operator(GENERAL[ufunc], name in ARITHMETIC, second, FITS.get(name))
        general = _repeating(general) if name == "mul" else general
        prim = bound_by(direct)
        operator = table[f"__{name}__"] = fast_binary(prim, general, second)
        if name in ARITHMETIC:
            table[f"__r{name}__"] = fast_reflected(prim, general, second)
            table[f"__i{name}__"] = _in_place(operator)
    for name, ufunc in BITWISE.items():
        shift = SHIFTS.get(name)
        operator = table[f"__{name}__"] = _operator(GENERAL[ufunc], shift is not None, shift)
        table[f"__r{name}__"] = _reflected(operator)
        table[f"__i{name}__"] = _in_place(operator)
    divide = _operator(GENERAL["divmod"], True, DIVMOD, FITS["floordiv"])
    table |= {
        "__pow__": pow_operator,
        "__rpow__": rpow_operator,
        "__ipow__": _in_place(pow_operator),
        "__divmod__": divide,
        "__rdivmod__": _reflected(divide),
        "__neg__": _unary("negative", ew.neg),
        "__abs__": _unary("absolute", ew.abs_),
        "__invert__": _unary("invert", None),
        "__pos__": positive,
        "__round__": round_operator,
        "__floor__": _rounded(ew.floor),
        "__ceil__": _rounded(ew.ceil),
        "__trunc__": _rounded(ew.trunc),
    }
    return table


OPERATORS = _table()
