"""L5. The least and the most that a traced integer can be, made of the counters of loops.

for i in range(n):                0 <= i <= n - 1
    for j in range(i, n - i):     at most n steps, so 0 <= j
    for j in range(min(i + w, n)) at most n steps, whatever w is
while p(x):  n -= 1               n is never more than it was before the loop
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.kinds import is_any
from fgrad.base.sizes import Num
from fgrad.ir.primitive import Primitive
from fgrad.ops.checked import checked_p
from fgrad.ops.elementwise import (
    convert_p,
    floor_divide,
    ge,
    gt,
    le,
    lt,
    max_p,
    min_p,
    mul_p,
    neg_p,
    select_p,
    sub_p,
)
from fgrad.ops.families import bound_by
from fgrad.ops.selected import ADD
from fgrad.trace import Builder, Tracer, innermost
from fgrad.tracing.record import Record, maker_of

End: TypeAlias = int | None  # None if it is not known
Range: TypeAlias = tuple[End, End]
UNKNOWN: Range = (None, None)
MOST_STEPS = 200  # equations that are looked at


class Known:
    """What is known of the inputs of a body that is being traced.

    Arguments:
        builder: of its trace.
        ranges: of some inputs, by their places.
    """

    def __init__(self, builder: Builder, ranges: Mapping[int, Range]) -> None:
        self.builder, self.ranges = builder, ranges
        self.lacking: list[tuple[Builder | None, object]] = []  # of what no limit was found, where


class _Open(threading.local):
    """What is known of the bodies that this thread is tracing, the innermost last."""

    def __init__(self) -> None:
        self.known: list[Known] = []


_OPEN = _Open()


@contextmanager
def knowing(builder: Builder, ranges: Mapping[int, Range]) -> Generator[Known]:
    """Trace a body of whose inputs, by their places, some have known ranges."""
    known = Known(builder, ranges)
    _OPEN.known.append(known)
    try:
        yield known
    finally:
        _OPEN.known.pop()


def counting(first: int, most: int | None) -> Range:
    """The range of what counts from `first` to less than `most`."""
    return first, None if most is None else max(first, most - 1)


def most_of(x: object) -> int | None:
    """The most that an integer can be; None if that is not known."""
    found = range_of(x)[1]
    if found is None:
        for known in _OPEN.known:
            known.lacking.append((innermost(), x))
    return found


def range_of(x: object) -> Range:
    """The least and the most that an integer can be."""
    return _Ranges().of(x)


def kept_ranges(
    known: Known, starts: Mapping[int, object], results: Mapping[int, object]
) -> dict[int, Range]:
    """Ranges that a body's carries never leave, if they tell the limits of loops in it.

    A step that leaves none of them once it has begun in all of them never does.

    Arguments:
        known: the body, while its trace is open.
        starts: what carries are before the loop, by the places of their inputs.
        results: what they are after a step.
    """
    found: dict[int, Range] = {}
    if not known.lacking:
        return found
    builder = known.builder
    for k, start in starts.items():
        low, high = range_of(start)
        for kept in dict.fromkeys([(low, high), (None, high), (low, None)]):
            if kept == UNKNOWN:
                continue
            with knowing(builder, {**found, k: kept}):
                if _inside(range_of(results[k]), kept):
                    found[k] = kept
                    break
    with knowing(builder, found):
        told = [own is not builder or range_of(x)[1] is not None for own, x in known.lacking]
    return found if any(told) else {}


def _inside(x: Range, y: Range) -> bool:
    low = y[0] is None or (x[0] is not None and x[0] >= y[0])
    return low and (y[1] is None or (x[1] is not None and x[1] <= y[1]))


class _Ranges:
    """The ranges of values of the traces that are open."""

    def __init__(self) -> None:
        self.seen = 0

    def of(self, x: object) -> Range:
        """The range of a value."""
        if is_any(x, (int, np.integer)) or (isinstance(x, np.ndarray) and not x.shape):
            known: Any = x
            known = known if type(known) is Num else int(known)
            return known, known
        while isinstance(x, Tracer) and isinstance(x.value, Tracer):
            x = x.value
        return self.at(x.builder, x.index) if isinstance(x, Tracer) else UNKNOWN

    def at(self, builder: Builder, index: int) -> Range:
        """The range of a value of a trace."""
        self.seen += 1
        if self.seen > MOST_STEPS:
            return UNKNOWN
        record = maker_of(builder.records, index)
        if record is not None:
            return self.made(builder, record)
        for known in reversed(_OPEN.known):
            if known.builder is builder:
                for k, found in known.ranges.items():
                    if builder.inputs[k].index == index:
                        return found
        for _, given, inner, _ in builder.captures.values():
            if inner.index == index:
                return self.of(given)
        return UNKNOWN

    def operand(self, builder: Builder, x: object) -> Range:
        """The range of an operand of a record."""
        return self.at(builder, x) if type(x) is int else self.of(x)

    def made(self, builder: Builder, record: Record) -> Range:
        """The range of what an equation makes."""
        if record.prim is checked_p:  # what fails is an error
            return self.operand(builder, record.operands[0])
        rule = _RULES.get(record.prim)
        last = record.values[-1] if rule is not None else None  # None if no derivative reads it
        if rule is None or last is None or last.dtype.kind not in "iu":
            return UNKNOWN
        if record.prim is convert_p and np.dtype(record.params["dtype"]) != np.int64:
            return UNKNOWN
        if record.prim is select_p:
            return self.selected(builder, *record.operands)
        return rule(*[self.operand(builder, x) for x in record.operands])

    def selected(self, builder: Builder, cond: object, x: object, y: object) -> Range:
        """The range of `x` where a condition holds, else `y`: of the larger or smaller one, if it
        compares both."""
        test = maker_of(builder.records, cond) if type(cond) is int else None
        rule = _CHOOSES.get(test.prim) if test is not None else None
        one, other = self.operand(builder, x), self.operand(builder, y)
        if test is not None and rule is not None:
            a, b = [_source(builder, v) for v in test.operands]
            given = _source(builder, x), _source(builder, y)
            if given in ((a, b), (b, a)):
                return rule[given == (b, a)](one, other)
        return _either(one, other)


def _source(builder: Builder, x: Any) -> tuple[str, object]:
    """What names an operand: it was the same before checks, and conversions to its own dtype."""
    while type(x) is int:
        record = maker_of(builder.records, x)
        if record is None or record.prim not in (convert_p, checked_p):
            return "value", x
        value = record.values[0]
        if record.prim is convert_p and (value is None or value.dtype != record.params["dtype"]):
            return "value", x
        x = record.operands[0]
    return ("number", int(x)) if is_any(x, (int, np.integer)) else ("other", id(x))


def _sum(a: End, b: End) -> End:
    return None if a is None or b is None else a + b


def _neg(x: Range) -> Range:
    return tuple([None if a is None else -a for a in (x[1], x[0])])  # type: ignore[return-value]


def _add(x: Range, y: Range) -> Range:
    return _sum(x[0], y[0]), _sum(x[1], y[1])


def _mul(x: Range, y: Range) -> Range:
    if None in x or None in y:
        return UNKNOWN
    ends = [a * b for a in x for b in y]  # type: ignore[operator]
    return min(ends), max(ends)


def _larger(x: Range, y: Range) -> Range:
    lows = [a for a in (x[0], y[0]) if a is not None]
    high = None if x[1] is None or y[1] is None else max(x[1], y[1])
    return max(lows, default=None), high


def _smaller(x: Range, y: Range) -> Range:
    return _neg(_larger(_neg(x), _neg(y)))


def _either(x: Range, y: Range) -> Range:
    low = None if x[0] is None or y[0] is None else min(x[0], y[0])
    high = None if x[1] is None or y[1] is None else max(x[1], y[1])
    return low, high


def _quotient(x: Range, y: Range) -> Range:
    by = y[0]
    if by is None or by != y[1] or not by > 0:
        return UNKNOWN
    return tuple([None if a is None else a // by for a in x])  # type: ignore[return-value]


_RULES: dict[Primitive, Callable[..., Range]] = {
    ADD: _add,
    sub_p: lambda x, y: _add(x, _neg(y)),
    mul_p: _mul,
    neg_p: _neg,
    max_p: _larger,
    min_p: _smaller,
    convert_p: lambda x: x,
    select_p: _either,
    bound_by(floor_divide): _quotient,
}
# x if x < y else y, and y if x < y else x
_CHOOSES: dict[Primitive, Sequence[Callable[[Range, Range], Range]]] = {
    **dict.fromkeys([bound_by(lt), bound_by(le)], (_smaller, _larger)),
    **dict.fromkeys([bound_by(gt), bound_by(ge)], (_larger, _smaller)),
}
