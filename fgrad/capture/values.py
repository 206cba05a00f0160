"""L5. The values of variables: which are numbers, what type they have, how containers are taken
apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import INT64, NO_AXES, Aval, aval_of, is_numeric, varying
from fgrad.numpy.adopting import adopt_array
from fgrad.numpy.masked import Masked
from fgrad.numpy.promote import BROADCAST, convert, reshape, strong
from fgrad.numpy.python_numbers import as_exact
from fgrad.ops.checked import in_range_of
from fgrad.trace import Builder, Tracer, Value, concrete, innermost
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.checks import checks

_EXACT = {INT64, np.dtype(np.float64)}  # NumPy's numbers of these calculate alike
PYTHON_NUMBERS = (bool, int, float, complex)


class Undefined:
    """Stands for a variable that has no value."""

    def __repr__(self) -> str:
        return "<undefined>"


UNDEFINED = Undefined()


def is_number(x: object) -> bool:
    """Whether a value can be an input of a program: a number, an array of them, a tracer."""
    if isinstance(x, (Tracer, *PYTHON_NUMBERS)):
        return not isinstance(x, int) or -(2**63) <= x < 2**63
    return isinstance(x, (np.ndarray, np.generic)) and is_numeric(x.dtype)


def has_memory(x: object) -> bool:
    """Whether a value is an array, which is an object of its own, and no number."""
    if isinstance(x, Tracer):
        return bool(x.shape) or x.memory is not None
    return isinstance(x, np.ndarray)


def is_unknown(x: object) -> bool:
    """Whether a value depends on what is not known while tracing."""
    return isinstance(x, Tracer) and concrete(x) is None


def scalar_truth(x: Tracer) -> Any:
    """The truth of a traced value, as `if` takes it."""
    if x.shape not in ((), (1,)):
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. "
            "Use a.any() or a.all()"
        )
    number: Any = reshape(x, ())
    return number if number.dtype == bool else number != 0


def truth_value(x: object) -> Any:
    """The truth of a value, traced or not, as a value of the program."""
    return scalar_truth(x) if isinstance(x, Tracer) else np.bool_(bool(x))


def is_weak(x: object) -> bool:
    """Whether a value is one of Python's numbers, whose dtype yields to others."""
    return x.weak if isinstance(x, Tracer) else type(x) in PYTHON_NUMBERS


def calculate_alike(weak: Aval, strong: Aval) -> bool:
    """Whether one of Python's numbers and one of NumPy's may be one variable: not where NumPy's are
    shorter integers, which wrap, or truth values, which add up to one."""
    if strong.dtype.kind == "b":
        return weak.dtype.kind == "b"
    return strong.dtype.kind not in "iu" or strong.dtype == INT64


def common_type(a: Aval, b: Aval, name: str) -> Aval:
    """The type of what has one of two types where the program runs.

    Raises:
        CaptureError: the two calculate differently, or have two shapes.
    """
    if a.shape != b.shape:
        raise not_recorded(f"{name} has shape {a.shape} in one branch, and {b.shape} in the other")
    if not a.weak and not b.weak and a.dtype != b.dtype and {a.dtype, b.dtype} != _EXACT:
        raise not_recorded(f"{name} is {a.dtype} in one branch, and {b.dtype} in the other")
    if a.weak == b.weak:
        return Aval(a.shape, np.result_type(a.dtype, b.dtype), a.weak)
    weak, strong = (a, b) if a.weak else (b, a)
    if not calculate_alike(weak, strong):
        raise not_recorded(f"{name} is Python's {_python_kind(weak)} in one branch, and NumPy's "
                           f"{strong.dtype} in the other")  # fmt: skip
    fits = "biufc".index(weak.dtype.kind.replace("V", "f")) <= "biufc".index(
        strong.dtype.kind.replace("V", "f")
    )
    dtype = strong.dtype if fits else np.result_type(a.dtype, b.dtype)
    return Aval(a.shape, dtype, False)


def _python_kind(weak: Aval) -> str:
    return type(weak.dtype.type(0).item()).__name__


def aval_of_value(x: Any) -> Aval:
    """The type of a number or an array, of which it does not count over what it varies."""
    if isinstance(x, Tracer):
        return varying(x.aval, NO_AXES)
    if isinstance(x, np.ndarray):
        return aval_of(x)
    known = aval_of(np.asarray(x)[()])
    return Aval((), known.dtype, is_weak(x))


def as_tracer(x: Any) -> Tracer:
    """A number or an array as a value of the innermost trace."""
    builder = innermost()
    assert builder is not None
    if isinstance(x, Tracer):
        return x if x.builder is builder else builder.capture(x)
    array = np.asarray(x)
    if array.shape:
        return adopt_array(builder, array)
    one = builder.record(BROADCAST, (array[()],), {"shape": (1,), "dims": ()})
    out: Any = reshape(one, ())
    out.weak = is_weak(x)
    return out


def converted(x: Any, aval: Aval) -> Value:
    """A number as one of another dtype; a Python number stays one if `aval` is weak."""
    if isinstance(x, Tracer):
        if x.weak and x.dtype.kind == "i" and aval.dtype.kind in "iu" and checks():
            x = in_range_of(x, aval.dtype)
        x = as_exact(x, aval.dtype)
        own = strong(x) if x.weak and not aval.weak else x
        out: Any = convert(own, aval.dtype)
        if aval.weak and isinstance(out, Tracer):
            out = out.twin()
            out.weak = True
        return out
    return exactly(np.asarray(x)[()], aval.dtype)


def exactly(x: Any, dtype: np.dtype) -> Any:
    """A known number in another dtype.

    Raises:
        CaptureError: an integer is rounded, or wraps; a float is too large.
    """
    with np.errstate(over="ignore"):
        out = x.astype(dtype)
    if x.dtype.kind in "fc" and np.isfinite(x) and not np.isfinite(out):
        raise not_recorded(f"a number, {x}, has no {dtype}, which is its variable's type")
    if x.dtype.kind in "iu" and dtype.kind in "iufc" and int(out.real) != int(x):
        raise not_recorded(f"an integer, {x}, has no {dtype}, which is its variable's type")
    return out


def plain_of(x: object, sole: bool) -> list[np.ndarray]:
    """The plain arrays in a value to which something else may refer; `sole` is whether nothing but
    its variable refers to it."""
    if sole and isinstance(x, np.ndarray) and x.base is None:
        return []
    return [leaf for leaf in parts_of(x).leaves if isinstance(leaf, np.ndarray) and leaf.shape]


def zeros(aval: Aval) -> Value:
    """A value of a type."""
    if aval.shape:
        builder: Builder | None = innermost()
        assert builder is not None
        return builder.record(BROADCAST, (aval.dtype.type(0),), {"shape": aval.shape, "dims": ()})
    zero = np.zeros((), aval.dtype)[()]
    return zero.item() if aval.weak else zero


class Parts(NamedTuple):
    """A value taken apart: its leaves, and how it is put together of such."""

    leaves: list[Any]
    together: Callable[[Sequence[Any]], object]
    shape: object  # equal for values of one structure


def is_container(x: object) -> bool:
    """Whether a value is taken apart: a tuple, list or dictionary, or what a mask selects."""
    return type(x) in (list, dict, Masked) or isinstance(x, tuple)


def parts_of(x: Any) -> Parts:
    """A container taken apart at all depths; other values are a leaf."""
    if not is_container(x):
        return Parts([x], lambda leaves: leaves[0], "leaf")
    if isinstance(x, Masked):
        return Parts([x.whole, x.mask], lambda leaves: Masked(*leaves), Masked)
    keys = tuple(x) if isinstance(x, dict) else tuple(range(len(x)))
    inner = [parts_of(x[key]) for key in keys]
    kind = type(x)

    def together(leaves: Sequence[Any]) -> object:
        made, start = [], 0
        for part in inner:
            made.append(part.together(leaves[start : start + len(part.leaves)]))
            start += len(part.leaves)
        if kind is dict:
            return dict(zip(keys, made, strict=True))
        return kind(*made) if hasattr(kind, "_fields") else kind(made)

    leaves = [leaf for part in inner for leaf in part.leaves]
    return Parts(leaves, together, (kind, keys, tuple([part.shape for part in inner])))


def result_of(x: Value, aval: Aval) -> Value:
    """A result of a loop or a branch as a variable has it: a value of its own."""
    if not isinstance(x, Tracer):
        return x
    out = x.handle()
    out.weak = aval.weak and not aval.shape
    return out


def handle_of(x: Value) -> Value:
    """A value that later writes to `x` do not change."""
    return x.twin() if isinstance(x, Tracer) else x


def operands_of(numbers: Sequence[Value | complex]) -> list[Value]:
    """Numbers as operands of an equation."""
    return [
        x if isinstance(x, (Tracer, np.ndarray)) else aval_of_value(x).dtype.type(x)
        for x in numbers
    ]
