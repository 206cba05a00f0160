"""L3. Checks of values when a program runs: the operand unchanged, or an error.

checked(x, passed, ASSERTION.format("x > 0", line))    what the user asserts: AssertionError
in_range(n, 0, None, NEGATIVE_POWER)                   exponents of integers: ValueError
in_range(n, -128, 127, OVERFLOW.format("int8"))        Python's integers that meet int8
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import BoundsError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Eqn, Program
from fgrad.ir.traits import Host, Rounding
from fgrad.ir.walk import programs_in
from fgrad.ops.families import BROADCAST, finish_elementwise, same_dtype
from fgrad.trace import Tracer, Value, bind, concrete
from fgrad.typing import Operand

# An error is text, so that programs on disk can hold it: the class, what happened, and where.
NEGATIVE_POWER = "ValueError\nIntegers to negative integer powers are not allowed."
OVERFLOW = "OverflowError\nPython integer out of bounds for {}"
OUT_OF_BOUNDS = "IndexError\nAn index is out of bounds for axis {} with size {}.\n{}"
EMPTY_EXTREMUM = "ValueError\nzero-size array to reduction operation {} which has no identity\n{}"
ASSERTION = "AssertionError\n{}\n{}"
_BUILTIN = {
    kind.__name__: kind for kind in (ValueError, OverflowError, ZeroDivisionError, AssertionError)
}

checked_p = Primitive(
    "checked",
    traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY),
    ("error",),
    reads=((1,), ()),
)


def failure(error: str) -> Exception:
    """The exception of a failed check."""
    kind, *lines = error.split("\n")
    if kind == "IndexError":
        return BoundsError(lines[0], tuple([("used", line) for line in lines[1:] if line]))
    return _BUILTIN.get(kind, AssertionError)("\n".join([line for line in lines if line]))


def is_check(error: str) -> bool:
    """Whether a text is the error of a check."""
    return error.partition("\n")[0] in (*_BUILTIN, "IndexError")


@checked_p.evaluate
def _(x: Value, passed: Value, error: str) -> Value:
    if not np.all(passed):
        raise failure(error)
    return x


@checked_p.type_rule
def _(x: Aval, passed: Aval, error: str) -> Aval:
    return x.strong()


def _map(t: Value, _x: object, passed: Value, _out: object, error: str) -> Value:
    return bind(checked_p, t, passed, error=error)  # a derivative runs without the value, and fails


finish_elementwise(checked_p, (_map, None))


in_range_p = Primitive(
    "in_range",
    traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY),
    ("low", "high", "error"),
)


@in_range_p.evaluate
def _(n: Value, low: int | None, high: int | None, error: str) -> Value:
    if (low is not None and np.any(np.less(n, low))) or (high is not None and np.any(n > high)):
        raise failure(error)
    return n


@in_range_p.type_rule
def _(n: Aval, low: int | None, high: int | None, error: str) -> Aval:
    return Aval(n.shape, same_dtype(in_range_p, [n], "iu"))


finish_elementwise(in_range_p, (None,))


def checked(x: Operand, passed: Operand, error: str) -> Value:
    """`x`, or an error if a truth value of `passed`, one or one for each element, is false."""
    if np.shape(passed) != np.shape(x):
        passed = bind(BROADCAST, passed, shape=np.shape(x), dims=())
    return bind(checked_p, x, passed, error=error)


def in_range(n: Any, low: int | None, high: int | None, error: str) -> Value:
    """The same integers; an error where one is not in the range; a limit may be None."""
    limits = np.iinfo(n.dtype)
    low = None if low is None or low <= limits.min else low
    high = None if high is None or high >= limits.max else high
    return n if low is high is None else bind(in_range_p, n, low=low, high=high, error=error)


def in_range_of(x: Tracer, dtype: np.dtype) -> Value:
    """A Python integer that fits the dtype that it meets, or an OverflowError: now; at the call of
    compiled code, of an argument; or in it, of what is computed."""
    value = concrete(x)
    if value is not None:
        dtype.type(int(value))  # raises OverflowError
        return x
    number = x
    while isinstance(number.value, Tracer):
        number = number.value
    builder = number.builder
    if builder.what == "jit" and any([number.index == y.index for y in builder.inputs]):
        builder.narrowed.setdefault(number.index, set()).add(dtype)
        return x
    limits = np.iinfo(dtype)
    out: Any = in_range(x, int(limits.min), int(limits.max), OVERFLOW.format(dtype))
    out.weak = True
    return out


def has_checks(program: Program) -> bool:
    """Whether a program, or one in it, checks values when it runs."""
    return program.derived("has checks", lambda: any(map(_is_or_has_check, program.eqns)))


def _is_or_has_check(eqn: Eqn) -> bool:
    return eqn.prim in (checked_p, in_range_p) or any(map(has_checks, programs_in(eqn.params)))
