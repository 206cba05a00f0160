"""L4. Operands -> operands of one dtype and shape, by explicit promotion and broadcasting.

dtypes follow NumPy's own tables (`ufunc.resolve_dtypes`), where Python scalars, and tracers that
stand for them, are weak as NEP 50 says.  A rank-0 constant becomes a literal of the result's dtype;
every other operand is converted, reshaped and broadcast by equations of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from fgrad.base.foreign import holds_array, plain_array, refuse_foreign
from fgrad.base.sizes import Num
from fgrad.base.source import here, resolve
from fgrad.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    ShapeError,
    UnsupportedNumpyError,
    UnsupportedTypeError,
)
from fgrad.ir.aval import BOOL, aval_of, is_numeric
from fgrad.numpy.dispatch import has_tracer
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.ops.checked import in_range_of
from fgrad.ops.families import BROADCAST
from fgrad.ops.size import number
from fgrad.trace import Builder, Tracer, Value, bind, innermost
from fgrad.tracing.device_tracing import lift
from fgrad.tracing.fastpath import bind_one
from fgrad.tracing.on_device import OnDevice
from fgrad.typing import ArrayLike, Axis, DTypeLike, Operand, R, Shape

Weak: TypeAlias = type[int] | type[float] | type[complex]
Key: TypeAlias = np.dtype | Weak  # what promotion sees: the Python type if an operand is weak

PYTHON_KEYS: dict[type, Key] = {bool: BOOL, int: int, float: float, complex: complex}
WEAK_KEYS: dict[str, Key] = {"b": BOOL, "i": int, "u": int, "f": float, "c": complex}
WEAK_DTYPES: dict[Weak, np.dtype] = {
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(complex),
}
_PLAIN = (Tracer, np.ndarray, bool, int, float, complex, np.generic)


def weakened(x: R) -> R:
    """A fresh result, or several, marked as Python scalars."""
    if isinstance(x, Tracer):
        x.weak = True
    elif isinstance(x, tuple):
        for y in x:
            weakened(y)
    return x


def user_line() -> tuple[tuple[str, str], ...]:
    """The row of an error card that shows the user's line."""
    loc = resolve(here())
    return (("used", f"{loc}:  {loc.text()}"),)


# --- operands -------------------------------------------------------------------------------------


def as_operand(x: Any) -> Value:
    """An array, NumPy scalar, Python scalar or tracer; lists become arrays or stacked tracers."""
    if isinstance(x, Tracer) or type(x) in PYTHON_KEYS:
        return x
    if isinstance(x, (list, tuple)) and has_tracer(x):
        return stack_nested(x)
    if type(x) is Num:
        return weakened(number(x, WEAK_DTYPES[int if x.is_integer else float]))
    if not isinstance(x, _PLAIN):
        if isinstance(x, OnDevice):
            return x if innermost() is None else lift(x)
        refuse_foreign(x, "an operand")
        x = plain_array(x, "an operand") if holds_array(x) else np.asarray(x)
    elif not isinstance(x, (np.ndarray, np.generic)):
        x = np.asarray(x)  # of a class derived from Python's numbers, as those of enum.IntEnum
    array: Any = x
    if type(x) is not np.ndarray and isinstance(x, np.ndarray):
        refuse_foreign(x, "an operand")
    if array.dtype.kind not in "biufc" and not is_numeric(array.dtype):
        raise UnsupportedTypeError(f"An operand of dtype {array.dtype} is not an array of numbers.")
    return array


def as_array(x: ArrayLike | None) -> Value:
    """Like `as_operand`, with Python scalars as NumPy scalars and weak tracers made strong."""
    if type(x) is Tracer:
        return strong(x) if x.weak else x
    x = as_operand(x)
    if isinstance(x, Tracer):
        return strong(x)
    return as_operand(np.asarray(x))[()] if type(x) in PYTHON_KEYS else x


def strong(x: Tracer) -> Value:
    """The same value, no longer weak."""
    return bind(ew.convert_p, x, dtype=x.dtype) if x.weak else x


def fresh(x: Value) -> Value:
    """A handle of its own for the same value: a copy, as far as assignments are concerned."""
    return x.twin() if type(x) is Tracer else x.copy()


def stack_nested(xs: ArrayLike, dtype: np.dtype | None = None) -> Value:
    """`np.array` of nested lists that hold tracers; numbers of Python's are of int64 or float64
    there, and do not yield to others."""
    if not isinstance(xs, (list, tuple)):
        if dtype is not None:
            return stored(xs, dtype)
        x = as_operand(xs)
        return strong(x) if isinstance(x, Tracer) else np.asarray(x)[()]
    parts = [stack_nested(x, dtype) for x in xs]
    parts = promote(parts) if dtype is None else parts
    shapes = {np.shape(x) for x in parts}
    if len(shapes) > 1:
        raise ShapeError(f"Rows of unequal shapes {sorted(shapes)} make no array.")
    shape = shapes.pop()
    return sh.concatenate([reshape(x, (1, *shape)) for x in parts], 0)


def key_of(x: Any) -> Key:
    """What promotion sees of an operand: its dtype, or a Python type if it is weak."""
    if isinstance(x, Tracer):
        return WEAK_KEYS[x.dtype.kind] if x.weak else x.dtype
    weak = PYTHON_KEYS.get(type(x))
    if weak is not None:
        return weak
    if type(x) is Num:
        return PYTHON_KEYS[type(x.value)]
    return (as_operand(x) if isinstance(x, (list, tuple)) else x).dtype


def shape_of(x: Any) -> Shape:
    """The shape of an operand; () for Python scalars."""
    if type(x) in PYTHON_KEYS or type(x) is Num:
        return ()
    try:
        return x.shape
    except AttributeError:
        raise _no_array(x) from None


def dtype_of(x: Value) -> np.dtype:
    """The dtype of an operand; the default one for Python scalars."""
    key = PYTHON_KEYS.get(type(x))
    if key is not None:
        return dtype_of_key(key)
    try:
        return x.dtype
    except AttributeError:
        raise _no_array(x) from None


def _no_array(x: object) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"An array of numbers is expected, not {type(x).__qualname__}.", user_line()
    )


# --- dtypes ---------------------------------------------------------------------------------------

_resolved: dict[object, tuple[np.dtype, ...]] = {}


def dtype_of_key(key: Key) -> np.dtype:
    """The dtype of an operand by what promotion sees of it."""
    return key if isinstance(key, np.dtype) else WEAK_DTYPES[key]


def resolve_ufunc(
    ufunc: np.ufunc, keys: tuple[Key, ...], dtype: DTypeLike | None = None
) -> tuple[np.dtype, ...]:
    """The dtypes of the loop that NumPy would run: of the inputs, then of the outputs."""
    cache_key = (ufunc, keys, dtype)
    found = _resolved.get(cache_key)
    if found is None:
        if not any(isinstance(k, np.dtype) for k in keys):
            keys = tuple([dtype_of_key(k) for k in keys])
        asked = keys + (None,) * ufunc.nout
        if dtype is None:
            found = ufunc.resolve_dtypes(asked)
        else:
            signature = (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
            found = ufunc.resolve_dtypes(asked, signature=signature, casting="same_kind")
        _resolved[cache_key] = found
    return found


def result_type(*xs: ArrayLike | None) -> np.dtype:
    """`np.result_type` of values, where Python scalars and weak tracers yield to the others."""
    keys = tuple([key_of(x) for x in xs])
    first = keys[0]
    if isinstance(first, np.dtype) and all(k is first for k in keys):
        return first if first.isnative else first.newbyteorder("=")
    found = _resolved.get(keys)
    if found is None:
        found = _resolved[keys] = (_result_type(keys),)
    return found[0]


_ONES = {int: 1, float: 1.0, complex: 1j}


def _result_type(keys: tuple[Key, ...]) -> np.dtype:
    strong_keys = [k for k in keys if isinstance(k, np.dtype)]
    weak = [_ONES[k] for k in keys if not isinstance(k, np.dtype)]
    if not strong_keys:
        return np.result_type(*weak)
    base = np.result_type(*strong_keys)
    for one in weak:
        base = _add_weak(base, type(one))
    return base


def _add_weak(dtype: np.dtype, kind: type) -> np.dtype:
    """The promotion of a dtype with a Python scalar (NEP 50)."""
    return np.add.resolve_dtypes((dtype, kind, None))[2]


def convert(x: Any, dtype: np.dtype) -> Value:
    """An operand with another dtype; a rank-0 constant becomes a NumPy scalar."""
    if isinstance(x, Tracer):
        if x.dtype == dtype:
            return x
        if x.weak and dtype.kind in "iu" and x.dtype.kind == "i":
            x = in_range_of(x, dtype)
        return bind(ew.convert_p, x, dtype=dtype)
    if type(x) in PYTHON_KEYS:
        return dtype.type(x)
    if x.dtype != dtype:
        x = x.astype(dtype)
    return x if x.ndim else x[()]


def only_real(name: str, x: Value) -> Value:
    """Numbers that lie on a line, or a card: a conversion would drop imaginary parts."""
    if x.dtype.kind == "c":
        raise DtypeError(f"{name} takes no complex numbers here ({x.dtype}): give np.real(x).")
    return x


def stored(x: ArrayLike | None, dtype: np.dtype) -> Value:
    """What an array of a dtype holds of `x`, by `y[i] = x` or `np.array(x, dtype)`: Python's
    integers must fit, NumPy's wrap around."""
    if isinstance(x, (list, tuple)):
        return stack_nested(x, dtype) if has_tracer(x) else np.asarray(x, dtype)
    return convert(as_operand(x), dtype)


def _of_one_dtype(xs: Sequence[object]) -> bool:
    """Whether all are arrays of one native dtype that no promotion changes."""
    dtype = None
    for x in xs:
        if (type(x) is Tracer and not x.weak) or (type(x) is np.ndarray and x.ndim):
            own = x.dtype
        else:
            return False
        if dtype is None:
            dtype = own
        elif own is not dtype:
            return False
    return dtype is not None and dtype.kind in "biufc" and dtype.isnative


def promote(xs: Sequence[ArrayLike]) -> list[Value]:
    """Operands converted to their common dtype."""
    if _of_one_dtype(xs):
        return list(xs)  # type: ignore[arg-type]
    xs = [as_operand(x) for x in xs]
    dtype = result_type(*xs)
    return [convert(x, dtype) for x in xs]


def promote_choices(xs: Sequence[ArrayLike]) -> list[Value]:
    """Like `promote` for `where` and its relatives, in which Python integers wrap around."""
    if _of_one_dtype(xs):
        return list(xs)  # type: ignore[arg-type]
    xs = [as_operand(x) for x in xs]
    dtype = result_type(*xs)
    return [convert(as_array(x), dtype) for x in xs]


def inexact(x: ArrayLike) -> Value:
    """A floating point operand: integers become float64, as `np.mean` takes them."""
    x = as_array(x)
    return x if x.dtype.kind in "fcV" else convert(x, np.dtype(np.float64))


def subtractable(x: Value) -> Value:
    """An operand that has differences: truth values have none, in NumPy's words."""
    if x.dtype.kind == "b":
        raise ArgumentError(
            "numpy boolean subtract, the `-` operator, is not supported, use the bitwise_xor, the "
            "`^` operator, or the logical_xor function instead.",
        )
    return x


# --- shapes ---------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape under NumPy's rule: trailing axes agree or are 1.

    Arguments:
        shapes: tuples of lengths.

    Example:
        >>> broadcast_shapes((3, 1), (2,))
        (3, 2)
    """
    result: Shape = ()
    for shape in shapes:
        if shape != result and shape:
            result = _broadcast_pair(result, shape, shapes) if result else shape
    return result


def _broadcast_pair(a: Shape, b: Shape, shapes: Sequence[Shape]) -> Shape:
    if len(a) < len(b):
        a, b = b, a
    out = list(a)
    offset = len(a) - len(b)
    for i, n in enumerate(b, offset):
        if out[i] == 1:
            out[i] = n
        elif n not in (1, out[i]):
            shown = " ".join(str(s).replace(" ", "") for s in shapes)
            raise ShapeError(f"operands could not be broadcast together with shapes {shown}")
    return tuple(out)


def broadcast_to(x: Any, shape: Shape, like: Tracer | None = None) -> Value:
    """`x` repeated to a shape that it broadcasts to.

    A constant is repeated by an equation in the trace that owns `like`, so that the compiled
    program holds the small constant and not the large one.
    """
    own = np.shape(x) if not isinstance(x, Tracer) else x.shape
    if own == shape:
        return x
    offset = len(shape) - len(own)
    kept = [i for i, n in enumerate(own) if offset >= 0 and n == shape[offset + i]]
    if offset < 0 or not _ones_elsewhere(own, kept):
        raise ShapeError(f"shape {own} does not broadcast to {shape}.")
    if len(kept) != len(own):
        x = _without_ones(x, tuple([own[i] for i in kept]))
    dims = tuple([offset + i for i in kept])
    if len(dims) == len(shape):
        return x
    builder = None if isinstance(x, Tracer) else recording_builder(like)
    if builder is None:
        return bind_one(BROADCAST, x, {"shape": shape, "dims": dims})
    return builder.record(BROADCAST, (x,), {"shape": shape, "dims": dims})


def _ones_elsewhere(own: Shape, kept: Sequence[int]) -> bool:
    return all([n == 1 or i in kept for i, n in enumerate(own)])


def repeat_leading(x: Value, own: Shape, shape: Shape, like: Value | None) -> Value:
    """`broadcast_to` of a tracer of shape `own`, quick where only leading axes are new."""
    new = len(shape) - len(own)
    if type(x) is Tracer and shape[new:] == own:
        dims = tuple(range(new, len(shape)))
        return bind_one(BROADCAST, x, {"shape": shape, "dims": dims})
    return broadcast_to(x, shape, like if isinstance(like, Tracer) else None)


def _without_ones(x: Value, shape: Shape) -> Value:
    """`x` without axes of length 1; what was just reshaped to have them is taken as it was."""
    if type(x) is Tracer and x.builder.records:
        last = x.builder.records[-1]
        if last.prim is sh.reshape_p and last.outs[0] == x.index and last.values[0].shape == shape:
            number, aval = last.operands[0], aval_of(last.values[0])
            return Tracer(
                x.builder, number, None if x.value is None else reshape(x.value, shape), aval
            )
    return reshape(x, shape)


def recording_builder(like: Operand | None) -> Builder | None:
    """The innermost trace without values that a value belongs to, or None."""
    while isinstance(like, Tracer):
        if not like.builder.eager:
            return like.builder
        like = like.value
    return None


def broadcast(xs: Sequence[Any], shape: Shape | None = None) -> list[Value]:
    """Operands with one shape; rank-0 constants stay as they are."""
    shapes = [() if type(x) in PYTHON_KEYS else x.shape for x in xs]
    if shape is None:
        shape = broadcast_shapes(*shapes)
    out: list[Value] = []
    for x, own in zip(xs, shapes, strict=True):
        if own == shape or (not own and not isinstance(x, Tracer)):
            out.append(x)
        else:
            like = None if type(x) is Tracer else _first_tracer(xs)
            out.append(repeat_leading(x, own, shape, like))
    return out


def _first_tracer(xs: Sequence[object]) -> Tracer | None:
    return next((x for x in xs if isinstance(x, Tracer)), None)


def reshape(x: Value, shape: Shape) -> Value:
    """`x` with another shape of as many elements; itself if it has it."""
    if isinstance(x, Tracer):
        return x if x.shape == shape else sh.reshape(x, shape)
    if isinstance(x, OnDevice):
        return x.reshaped(shape)
    if type(x) is np.ndarray and shape:
        return x.reshape(shape)
    return np.reshape(x, shape) if shape else np.asarray(x).reshape(())[()]


def traced_full(like: Value, shape: Shape, value: ArrayLike, dtype: np.dtype) -> Value:
    """An array of one value that belongs to the trace of `like`, if that is a tracer."""
    scalar = dtype.type(value)
    if not isinstance(like, Tracer):
        return np.full(shape, scalar)[()]
    if not shape:
        return scalar
    return like.builder.record(BROADCAST, (scalar,), {"shape": shape, "dims": ()})


# --- arguments ------------------------------------------------------------------------------------


def normalize_axis(axis: Any, ndim: int) -> int:
    """A non-negative axis; NumPy's AxisError if it does not exist."""
    if isinstance(axis, bool):  # np.sum(x, True), where keepdims was meant
        raise TypeError("an integer is required for the axis")
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise AxisError(axis, ndim, user_line())
    return axis + ndim if axis < 0 else axis


def normalize_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Sorted non-negative axes; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, ndim),)
    axes = tuple(sorted([normalize_axis(a, ndim) for a in axis]))
    if len(set(axes)) != len(axes):
        raise ArgumentError("duplicate value in 'axis'")
    return axes


def ordered_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Non-negative axes in the order in which they are given; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple([normalize_axis(a, ndim) for a in given])


def whole_count(function: str, argument: str, value: object) -> int:
    """How many there are: an integer that is known and not negative.

    Raises:
        ArgumentError: it is another number.
    """
    if isinstance(value, Tracer):
        return operator.index(value)  # whose card says more
    count = operator.index(value) if isinstance(value, SupportsIndex) else -1
    if count < 0:
        raise ArgumentError(f"{function}: {argument}={value!r} is no count.")
    return count


def refuse_argument(function: str, argument: str, advice: str) -> UnsupportedNumpyError:
    """The card for an argument that has no traced form."""
    return UnsupportedNumpyError(
        f"np.{function} of a traced array does not take {argument!r}.",
        (*user_line(), ("write", advice)),
    )


def refuse_out(function: str, out: object) -> None:
    """Raise unless `out` is absent: traced values cannot be written into an array."""
    if out is None:
        return
    if not isinstance(out, tuple) or any(o is not None for o in out):
        raise UnsupportedNumpyError(
            f"np.{function} of a traced array does not take 'out'.",
            (
                *user_line(),
                ("write", f"y = np.{function}(...)      a new array"),
                ("write", "a = a + x            instead of a += x, if a is a NumPy array"),
            ),
        )
