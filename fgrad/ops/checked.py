"""L3. Checks of values when a program runs: the operand unchanged, or an error.

checked(x, passed, text_of(ZERO_DIVISOR, line))     divisors: ZeroDivisionError
in_range(n, 0, None, text_of(NEGATIVE_POWER))       exponents of integers: ValueError
require(passed, text_of(AssertionError("x > 0")))   what the user asserts, or raises

None of them is left out because nobody reads its result, see `must_run` of `ir/walk.py`.  The first
two run when their operand is known; `require`, which has none, keeps its place among other effects.
"""

from __future__ import annotations

import builtins
import copy
from typing import Any

import numpy as np

from fgrad.base.frames import add_note
from fgrad.base.sizes import Num
from fgrad.errors import ArgumentError, BoundsError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Host, Rounding
from fgrad.ops.families import BROADCAST, finish_elementwise, same_dtype
from fgrad.trace import Tracer, Value, bind, concrete
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.checks import used_line
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import Operand

NEGATIVE_POWER = ValueError("Integers to negative integer powers are not allowed.")
LINE = "line of `raise`"  # where an exception keeps the line
MOST_RAISED = 4096  # exceptions of users that are kept for the programs that raise them
_RAISED: dict[str, BaseException] = {}  # by their texts


def text_of(error: BaseException, where: str = "") -> str:
    """An error as text, which programs on disk can hold: its class, the user's line, its message.

    The exception itself is raised where this process has made the text, one of the builtin class
    of that name elsewhere.
    """
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    text = f"{name}\n{where}\n{error}"
    if kind.__module__ != "builtins" or error.args not in ((), (str(error),)):
        while len(_RAISED) >= MOST_RAISED:
            del _RAISED[next(iter(_RAISED))]
        _RAISED[text] = error
    return text


def overflow(dtype: object) -> OverflowError:
    """What Python's integers raise that do not fit."""
    return OverflowError(f"Python integer out of bounds for {dtype}")


def out_of_bounds(axis: int, length: int) -> IndexError:
    """What an index raises that is not in an array; a length that may change has no text."""
    size = "" if type(length) is Num else f" with size {length}"
    return IndexError(f"An index is out of bounds for axis {axis}{size}.")


def empty_extremum(name: str) -> ValueError:
    """What the least or largest of no elements raises."""
    return ValueError(f"zero-size array to reduction operation {name} which has no identity")


checked_p = Primitive(
    "checked",
    traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY),
    ("error",),
    reads=((), ()),
)
checked_p.checks = True


def located(error: Exception, where: str = "") -> str:
    """The text of an error that may be raised when the program runs, with the user's line.

    Raises:
        CaptureError: a `try` around it catches it, whose handler could not run then.
    """
    for handlers in THREAD.state.handlers:
        if isinstance(error, handlers()):
            card = not_recorded(f"a handler of a `try` would catch its {type(error).__name__}")
            card.final = True  # the handler would catch what plain tracing raises
            raise card
    return text_of(error, where or used_line())


def raised(error: Any) -> Any:
    """What `raise` raises: in a body that is traced, an exception with its line."""
    if THREAD.state.bodies:
        if isinstance(error, type) and issubclass(error, Exception):
            error = error()
        if isinstance(error, Exception):
            error.__dict__[LINE] = used_line()
    return error


def is_raised(error: Exception) -> bool:
    """Whether an exception comes of `raise` or `assert` in the user's code."""
    return LINE in error.__dict__


def failure(text: str) -> BaseException:
    """The exception of a failed check; `used` is the line."""
    kind, where, message = text.split("\n", 2)
    if text in _RAISED:
        error = _copied(_RAISED[text])
    elif kind == "IndexError":
        error = BoundsError(message, (("used", where),) if where else ())
    else:
        error = _builtin(kind, message)
    error.__dict__["used"] = where
    if where and not isinstance(error, BoundsError):
        add_note(error, f"  used    {where}")
    return error


def _copied(error: BaseException) -> BaseException:
    try:
        return copy.copy(error).with_traceback(None)
    except Exception:  # a class that is not made of its arguments
        return error.with_traceback(None)


def _builtin(kind: str, message: str) -> BaseException:
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known(message) if message else known()
    return RuntimeError(f"{kind}: {message}")


def is_check(text: str) -> bool:
    """Whether a text is the error of a check."""
    return text.count("\n") >= 2


@checked_p.evaluate
def _(x: Value, passed: Value, error: str) -> Value:
    if not np.all(passed):
        raise failure(error)
    return x


@checked_p.type_rule
def _(x: Aval, passed: Aval, error: str) -> Aval:
    return x.strong()


def _map(t: Value, _x: object, _passed: object, _out: object, error: str) -> Value:
    return t


finish_elementwise(checked_p, (_map, None))


in_range_p = Primitive(
    "in_range",
    traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY),
    ("low", "high", "error"),
)
in_range_p.checks = True


@in_range_p.evaluate
def _(n: Value, low: int | None, high: int | None, error: str) -> Value:
    if (low is not None and np.any(np.less(n, low))) or (high is not None and np.any(n > high)):
        raise failure(error)
    return n


@in_range_p.type_rule
def _(n: Aval, low: int | None, high: int | None, error: str) -> Aval:
    return Aval(n.shape, same_dtype(in_range_p, [n], "iu"))


finish_elementwise(in_range_p, (None,))


required_p = Primitive(
    "required", traits.elementwise(rounding=Rounding.EXACT, host=Host.NUMPY), ("error",)
)
required_p.effect = True
required_p.checks = True


@required_p.evaluate
def _(passed: Value, error: str) -> Value:
    if not np.all(passed):
        raise failure(error)
    return passed


@required_p.type_rule
def _(passed: Aval, error: str) -> Aval:
    return passed.strong()


finish_elementwise(required_p, (None,))


def require(passed: Operand, error: str) -> None:
    """An error if a truth value, or one of several, is false."""
    bind(required_p, passed, error=error)


def checked(x: Operand, passed: Operand, error: str) -> Value:
    """`x`, or an error if a truth value of `passed`, one or one for each element, is false."""
    if np.shape(passed) != np.shape(x):
        passed = bind(BROADCAST, passed, shape=np.shape(x), dims=())
    return bind(checked_p, x, passed, error=error)


def ensured(x: Value, passed: Value, what: str) -> Value:
    """`x`; a ValueError if a truth value is false: now, or when the program runs."""
    known = concrete(passed)
    if known is None:
        return checked(x, passed, located(ValueError(what)))
    if not np.all(known):
        raise ArgumentError(what)
    return x


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
    out: Any = in_range(x, int(limits.min), int(limits.max), text_of(overflow(dtype)))
    out.weak = True
    return out
