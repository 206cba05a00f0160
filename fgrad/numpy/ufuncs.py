"""L4. NumPy's ufuncs on tracers: promotion, broadcasting, then one primitive or a composition.

Every ufunc has two ways in.  The fast one, for a floating point tracer with a partner of its dtype
or a number, records its primitive at once: that is what eager gradients spend their time on.  The
general one asks NumPy's own loop table for the dtypes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.ir.aval import BOOL
from fgrad.ir.primitive import Primitive
from fgrad.numpy import compositions as co
from fgrad.numpy.dispatch import add
from fgrad.numpy.promote import (
    Shape,
    as_array,
    as_operand,
    broadcast,
    broadcast_shapes,
    convert,
    dtype_of,
    fresh,
    key_of,
    promote,
    refuse_argument,
    refuse_out,
    repeat_leading,
    resolve_ufunc,
    shape_of,
    traced_full,
    weakened,
)
from fgrad.ops import complex as cx
from fgrad.ops import composed
from fgrad.ops import elementwise as ew
from fgrad.ops.checked import in_range, overflow, text_of
from fgrad.ops.families import bound_by
from fgrad.trace import Tracer, Value, bind, concrete
from fgrad.tracing.fastpath import binary_door
from fgrad.tracing.layouts import ordered
from fgrad.tracing.tables import numpy_functions
from fgrad.typing import Array, ArrayLike, DTypeLike, PyTree

Function = Callable[..., Any]

# Names of NumPy -> what binds the primitive, for ufuncs that are one primitive on floats.
DIRECT: dict[str, Function] = {
    "negative": ew.neg, "fabs": ew.abs_, "rint": ew.rint, "exp": ew.exp, "exp2": ew.exp2,
    "expm1": ew.expm1, "log": ew.log, "log2": ew.log2, "log10": ew.log10, "log1p": ew.log1p,
    "sqrt": ew.sqrt, "cbrt": ew.cbrt, "sin": ew.sin, "cos": ew.cos, "tan": ew.tan,
    "arcsin": ew.asin, "arccos": ew.acos, "arctan": ew.atan, "sinh": ew.sinh, "cosh": ew.cosh,
    "tanh": ew.tanh, "arcsinh": ew.asinh, "arccosh": ew.acosh, "arctanh": ew.atanh,
    "signbit": ew.signbit,
    "add": ew.add, "subtract": ew.sub, "multiply": ew.mul, "true_divide": ew.div,
    "floor_divide": ew.floor_divide, "remainder": ew.remainder, "fmod": ew.fmod,
    "maximum": ew.max_, "minimum": ew.min_, "arctan2": ew.atan2, "copysign": ew.copysign,
    "nextafter": ew.nextafter,
}  # fmt: skip
COMPARISONS: dict[str, Function] = {
    "equal": ew.eq, "not_equal": ew.ne, "less": ew.lt, "less_equal": ew.le,
    "greater": ew.gt, "greater_equal": ew.ge,
}  # fmt: skip
INTEGER_BINARY: dict[str, Function] = {
    "bitwise_and": ew.and_, "bitwise_or": ew.or_, "bitwise_xor": ew.xor,
    "left_shift": ew.shift_left, "right_shift": ew.shift_right,
}  # fmt: skip
_PYTHON: dict[str, Function] = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip
# Compositions, and primitives whose integer forms differ from the float ones.
COMPOSED: dict[str, tuple[Function, Function | None]] = {
    "floor": (co.rounding(ew.floor), ew.floor),
    "ceil": (co.rounding(ew.ceil), ew.ceil),
    "trunc": (co.rounding(ew.trunc), ew.trunc),
    "isnan": (co.float_test(ew.isnan, False), ew.isnan),
    "isinf": (co.float_test(ew.isinf, False), ew.isinf),
    "isfinite": (co.float_test(ew.isfinite, True), ew.isfinite),
    "invert": (ew.not_, None),
    "logical_not": (co.logical(ew.not_), None),
    "logical_and": (co.logical(ew.and_), None),
    "logical_or": (co.logical(ew.or_), None),
    "logical_xor": (co.logical(ew.xor), None),
    "positive": (co.positive, None),
    "conjugate": (cx.conj, None),
    "absolute": (co.absolute, ew.abs_),
    "sign": (co.sign, ew.sign),
    "square": (ew.square, ew.square),
    "reciprocal": (co.reciprocal, ew.reciprocal),
    "deg2rad": (co.scaled(math.pi / 180), None),
    "radians": (co.scaled(math.pi / 180), None),
    "rad2deg": (co.scaled(180 / math.pi), None),
    "degrees": (co.scaled(180 / math.pi), None),
    "power": (co.power, None),
    "float_power": (co.power, None),
    "hypot": (composed.hypot, None),
    "logaddexp": (composed.logaddexp, None),
    "logaddexp2": (composed.logaddexp2, None),
    "heaviside": (co.heaviside, None),
    "fmax": (co.fmax, None),
    "fmin": (co.fmin, None),
    "divmod": (co.divmod_, None),
    "modf": (co.modf, None),
}


# --- the general way ------------------------------------------------------------------------------

_IGNORED = {"casting", "order", "subok"}  # the layout of the result, or only what raises


def call_ufunc(
    ufunc: np.ufunc,
    function: Function,
    inputs: tuple[ArrayLike, ...],
    out: object = None,
    where: ArrayLike = True,
    dtype: DTypeLike | None = None,
    **rest: object,
) -> Value | tuple[Value, ...]:
    """Promote, broadcast and apply; `function` acts on operands of one shape."""
    if len(inputs) > ufunc.nin:
        out = inputs[ufunc.nin :]
    refuse_out(ufunc.__name__, out)
    for name in rest:
        if name not in _IGNORED:
            raise refuse_argument(ufunc.__name__, name, "y.astype(dtype)   for another dtype")
    xs = [as_operand(x) for x in inputs[: ufunc.nin]]
    keys = tuple([key_of(x) for x in xs])
    dtypes = resolve_ufunc(ufunc, keys, dtype)
    xs = broadcast([convert(x, d) for x, d in zip(xs, dtypes, strict=False)])
    result = function(*xs)
    if result is xs[0]:
        result = fresh(result)
    if rest:
        result = ordered(result, rest.get("order"))
    return result if where is True else _masked(result, where)


def _masked(result: Value, where: ArrayLike) -> Any:
    """Zero where the mask is false: NumPy leaves these elements undefined."""
    if isinstance(result, tuple):
        return tuple([_masked(r, where) for r in result])
    mask = convert(as_operand(where), np.dtype(bool))
    zero = dtype_of(result).type(0)
    return ew.select(*broadcast((mask, result, zero)))


def _compare_any(ufunc: np.ufunc, function: Function) -> Function:
    """A comparison, also with a Python integer that the other operand's dtype cannot hold."""

    def general(x: Value, y: Value, **kwargs: Any) -> object:
        for value, other, flip in ((y, x, False), (x, y, True)):
            if type(value) is int and getattr(other, "dtype", np.dtype(float)).kind in "iu":
                limits = np.iinfo(other.dtype)
                if not limits.min <= value <= limits.max:
                    edge = other.dtype.type(limits.max if value > 0 else limits.min)
                    pair = (value, int(edge)) if flip else (int(edge), value)
                    answer = _PYTHON[ufunc.__name__](*pair)
                    return traced_full(other, other.shape, answer, BOOL)
            elif _is_weak_integer(value) and key_of(other) in _SMALLER_INTEGERS:
                wide = convert(other, np.dtype(np.int64))
                pair = (value, wide) if flip else (wide, value)
                return call_ufunc(ufunc, function, pair, **kwargs)
            elif _is_weak_integer(value) and key_of(other) == np.uint64:
                pair = (-1, 0) if flip else (0, -1)  # stands for any negative against any unsigned
                answer = _PYTHON[ufunc.__name__](*pair)
                wrapped = bind(ew.convert_p, value, dtype=other.dtype)
                same_pair = (wrapped, other) if flip else (other, wrapped)
                same = call_ufunc(ufunc, function, same_pair, **kwargs)
                return numpy_functions[np.where](value < 0, answer, same)
        return call_ufunc(ufunc, function, (x, y), **kwargs)

    return general


_SMALLER_INTEGERS = {np.dtype(t) for t in "bhiBHI"}


def _is_weak_integer(x: ArrayLike | None) -> bool:
    """Whether an operand is a traced Python integer, whose size is not known."""
    return type(x) is Tracer and x.weak and x.dtype.kind == "i"


# --- the fast way ---------------------------------------------------------------------------------


def fast_unary(apply: Function, general: Function, kinds: str = "f") -> Function:
    """Record a primitive at once for a tracer of numbers of some kinds."""

    def function(x: ArrayLike, *args: ArrayLike, **kwargs: object) -> object:
        if type(x) is Tracer and not args and not kwargs:
            value = x.value
            a: PyTree = x.known_aval if value is None else value
            if a.dtype.kind in kinds:
                return apply(x)
        return general(x, *args, **kwargs)

    return function


def fast_binary(prim: Primitive, general: Function, second: Function | None = None) -> Function:
    """Record the primitive at once for a floating point tracer and a partner that agrees with it.

    The result is weak if both operands are: this is Python's operator, not the ufunc.  `second`
    gives the second one of Python's numbers, where it is checked.
    """
    apply = binary_door(prim)

    def function(x: Tracer, y: Any) -> object:
        value = x.value
        a: Any = x.known_aval if value is None else value
        dtype = a.dtype
        if dtype.kind == "f":
            kind = type(y)
            if kind is Tracer:
                if y.builder is x.builder:
                    value = y.value
                    b: Any = y.known_aval if value is None else value
                    if b.dtype is dtype:
                        if b.shape != a.shape:
                            return _spread_apply(apply, x, y, a.shape, b.shape)
                        if not (x.weak and y.weak):
                            return apply(x, y)
                        return weakened(apply(x, y if second is None else second(x, y)))
            elif kind is float or kind is int:
                if y == 0 and second is not None and x.weak:
                    second(x, y)
                out = apply(x, dtype.type(y))
                if x.weak:
                    weakened(out)
                return out
            elif kind is np.ndarray and y.dtype is dtype and y.ndim:
                if y.shape == a.shape:
                    return apply(x, y)
                return _spread_apply(apply, x, y, a.shape, y.shape)
        return general(x, y)

    return function


def _spread_apply(apply: Function, x: Value, y: Value, a: Shape, b: Shape) -> Value:
    """A function of operands of one dtype and different shapes, of which one is a tracer."""
    shape = b if not a else a if not b else broadcast_shapes(a, b)
    if a != shape:
        x = repeat_leading(x, a, shape, y)
    if b != shape:
        y = repeat_leading(y, b, shape, x)
    return apply(x, y)


def fast_reflected(prim: Primitive, general: Function, second: Function | None = None) -> Function:
    """Like `fast_binary` for a number on the left: `2.0 - x`."""
    apply = binary_door(prim)

    def function(x: Tracer, y: ArrayLike) -> object:
        kind = type(y)
        if kind is float or kind is int:
            dtype = x.dtype
            if dtype.kind == "f":
                if not x.weak:
                    return apply(dtype.type(y), x)
                return weakened(apply(dtype.type(y), x if second is None else second(y, x)))
        return general(y, x)

    return function


# --- the table ------------------------------------------------------------------------------------

GENERAL: dict[str, Function] = {}  # ufunc name -> its general form
IMPLEMENTATIONS: dict[np.ufunc, Function] = {}  # ufunc -> function of promoted, broadcast operands


def _general(ufunc: np.ufunc, function: Function) -> Function:
    if ufunc.__name__ in COMPARISONS:
        return _compare_any(ufunc, function)

    def general(*inputs: ArrayLike, **kwargs: Any) -> object:
        return call_ufunc(ufunc, function, inputs, **kwargs)

    return general


def _ufunc_form(prim: Primitive, general: Function) -> Function:
    """`np.add(x, y)`: the operator's fast way, whose result is strong unless both are weak."""
    fast = fast_binary(prim, general)
    apply = binary_door(prim)

    def function(x: ArrayLike, y: ArrayLike, *args: ArrayLike, **kwargs: object) -> object:
        if args or kwargs:
            return general(x, y, *args, **kwargs)
        if type(x) is Tracer:
            return general(x, y) if x.weak else fast(x, y)
        if type(x) is not np.ndarray or type(y) is not Tracer:
            return general(x, y)
        value, dtype, shape = y.value, x.dtype, x.shape
        b: PyTree = y.known_aval if value is None else value
        if dtype is not b.dtype or not shape or dtype.kind != "f":
            return general(x, y)
        return apply(x, y) if shape == b.shape else _spread_apply(apply, x, y, shape, b.shape)

    return function


def define(name: str, function: Function, direct: Function | None = None) -> None:
    """Register the traced form of a ufunc: a function of promoted, broadcast operands; `direct`
    binds what it is on floats."""
    ufunc = getattr(np, name, None)
    if ufunc is None:
        return  # an older NumPy
    general = _general(ufunc, function)
    GENERAL[name] = general
    IMPLEMENTATIONS[ufunc] = function
    public = general
    if direct is not None and ufunc.nin == 1:
        plain = direct is function and "D->D" in ufunc.types
        public = fast_unary(direct, general, "fc" if plain else "f")
    elif direct is not None:
        public = _ufunc_form(bound_by(direct), general)
    add(name, public)


for _name, _bound in DIRECT.items():
    define(_name, _bound, _bound)
for _name, _bound in COMPARISONS.items():
    define(_name, co.comparison(_bound), _bound)
for _name, _bound in INTEGER_BINARY.items():
    define(_name, _bound)
for _name, (_function, _direct) in COMPOSED.items():
    define(_name, _function, _direct)

for _alias in (
    "abs", "divide", "mod", "conj", "bitwise_not", "acos", "acosh", "asin", "asinh", "atan",
    "atan2", "atanh", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "pow",
):  # fmt: skip
    add(_alias, numpy_functions[getattr(np, _alias)])


# --- functions that act like ufuncs ---------------------------------------------------------------


def sinc(x: ArrayLike) -> Value:
    """sin(pi x) / (pi x)."""
    x = as_operand(x)
    dtype = dtype_of(x)
    return composed.sinc(convert(x, dtype if dtype.kind in "fcV" else np.dtype(np.float64)))


def clip(
    a: ArrayLike,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    out: Array | None = None,
    *,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    **kwargs: object,
) -> Value:
    """`a` within limits, of which either may be None; slope 1 on the closed interval."""
    refuse_out("clip", out)
    for name in kwargs:
        raise refuse_argument("clip", name, "np.clip(x, low, high)")
    low = a_min if a_min is not None else min
    high = a_max if a_max is not None else max
    if type(a) is Tracer and type(low) in (int, float) and type(high) in (int, float):
        dtype = a.dtype
        if dtype.kind == "f":
            return ew.clip(a, dtype.type(low), dtype.type(high))
    if type(a) is Tracer and a.dtype.kind in "iu" and not a.weak:
        low, high = _integer_limit(low, a.dtype, -1), _integer_limit(high, a.dtype, 1)
    a = as_array(a)
    present = promote([a] + [x for x in (low, high) if x is not None])
    if len(present) == 1:
        return fresh(present[0])
    dtype = present[0].dtype
    rest = iter(present[1:])
    lo = next(rest) if low is not None else _extreme(dtype, -1)
    hi = next(rest) if high is not None else _extreme(dtype, 1)
    shape = broadcast_shapes(*[shape_of(x) for x in (present[0], lo, hi)])
    return ew.clip(*broadcast((present[0], lo, hi), shape))


def _integer_limit(limit: ArrayLike | None, dtype: np.dtype, sign: int) -> ArrayLike | None:
    """A Python integer as a limit of integers: none if it is beyond all of them, an OverflowError
    if that leaves none."""
    if type(limit) is not int and not _is_weak_integer(limit):
        return limit
    value, limits = concrete(limit), np.iinfo(dtype)
    if value is None:  # its size is not known: brought into range
        least, most = int(limits.min), min(int(limits.max), 2**63 - 1)
        ends = (None, most) if sign < 0 else (least, None)
        limit = in_range(limit, *ends, text_of(overflow(dtype)))
        return ew.convert(ew.clip(limit, np.int64(least), np.int64(most)), dtype)
    edge = limits.max if sign > 0 else limits.min
    return None if sign * int(value) >= sign * edge else int(value)


def _extreme(dtype: np.dtype, sign: int) -> np.generic:
    """The largest (or least) value of a dtype."""
    if dtype.kind in "fV":
        return dtype.type(sign * math.inf)
    if dtype.kind == "c":
        return dtype.type(complex(sign * math.inf, sign * math.inf))
    if dtype.kind == "b":
        return dtype.type(sign > 0)
    limits = np.iinfo(dtype)
    return dtype.type(limits.max if sign > 0 else limits.min)


add("sinc", sinc)
add("clip", clip)
