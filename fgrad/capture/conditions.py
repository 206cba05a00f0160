"""L5. `and`, `or`, `not`, chained comparisons, `a if p else b`, of values that may be traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.capture.branches import if_
from fgrad.capture.identity import is_, is_not
from fgrad.capture.state import Cells
from fgrad.capture.values import is_unknown, scalar_truth, truth_value
from fgrad.numpy.promote import weakened
from fgrad.trace import Tracer

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for

Thunk = Callable[[], object]
Reading = Callable[[object], object]  # what is taken of a part: itself, or its truth
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Eq": operator.eq, "NotEq": operator.ne, "Is": is_, "IsNot": is_not,
    "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def both(first: object, *rest: Thunk) -> object:
    """`a and b and c`: the first that is false, or the last."""
    return _joined(first, rest, True, _itself)


def any_of(first: object, *rest: Thunk) -> object:
    """`a or b or c`: the first that is true, or the last."""
    return _joined(first, rest, False, _itself)


def all_hold(first: object, *rest: Thunk) -> object:
    """`a and b and c`, of which only the truth counts: parts may be of any types."""
    return _joined(first, rest, True, truth_value)


def one_holds(first: object, *rest: Thunk) -> object:
    """`a or b or c`, of which only the truth counts: parts may be of any types."""
    return _joined(first, rest, False, truth_value)


def _itself(x: object) -> object:
    return x


def _joined(x: Any, rest: tuple[Thunk, ...], going_on: bool, read: Reading) -> object:
    for k, part in enumerate(rest):
        if is_unknown(x):
            return _from_unknown(x, rest[k:], going_on, read)
        if bool(x) is not going_on:
            return x
        x = part()
    return x


def _from_unknown(x: object, rest: tuple[Thunk, ...], going_on: bool, read: Reading) -> object:
    """`x`, or what follows it."""

    def further() -> object:
        return read(_joined(rest[0](), rest[1:], going_on, read))

    def this() -> object:
        return x if read is _itself else np.bool_(not going_on)

    one, two = (further, this) if going_on else (this, further)
    return either(scalar_truth(x) if isinstance(x, Tracer) else x, one, two)


def not_(x: Any) -> Any:
    """`not x`."""
    return weakened(np.logical_not(scalar_truth(x))) if is_unknown(x) else not x


def either(test: object, one: Thunk, two: Thunk) -> object:
    """`one() if test else two()`."""
    if not is_unknown(test):
        return one() if test else two()
    result: Any = None

    def then() -> None:
        nonlocal result
        result = one()

    def other() -> None:
        nonlocal result
        result = two()

    if_(test, then, other, ("result",), (), (), Cells(("result",), then))
    return result


def chained(left: Any, *rest: Any) -> Any:
    """`a < b <= c`."""
    op, thunk = rest[:2]
    right = thunk()
    first = COMPARISONS[op](left, right)
    if len(rest) == 2:
        return first
    return both(first, lambda: chained(right, *rest[2:]))
