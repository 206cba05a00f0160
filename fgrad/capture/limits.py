"""L5. The least and the most that a traced integer can be, made of the counters of loops.

for i in range(n):                0 <= i <= n - 1
    for j in range(i, n - i):     at most n steps, so 0 <= j
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fgrad.base.kinds import is_any
from fgrad.base.sizes import Num
from fgrad.ops.checked import checked_p
from fgrad.ops.elementwise import convert_p, floor_divide, max_p, min_p, mul_p, neg_p, sub_p
from fgrad.ops.families import bound_by
from fgrad.ops.selected import ADD
from fgrad.trace import Builder, Tracer
from fgrad.tracing.record import Record

Range = tuple[int, int]
MOST_STEPS = 200  # equations that are looked at
_COUNTERS: list[tuple[Builder, Range]] = []  # of the loops that are being traced


@contextmanager
def counting(builder: Builder, first: int, most: int | None) -> Generator[None]:
    """Trace a body whose first input counts from `first` to less than `most`."""
    if most is None:
        yield
        return
    _COUNTERS.append((builder, (first, max(first, most - 1))))
    try:
        yield
    finally:
        _COUNTERS.pop()


def most_of(x: object) -> int | None:
    """The most that an integer can be; None if that is not known."""
    found = range_of(x)
    return None if found is None else found[1]


def range_of(x: object) -> Range | None:
    """The least and the most that an integer can be; None if they are not known."""
    return _Ranges().of(x)


class _Ranges:
    """The ranges of values of the traces that are open."""

    def __init__(self) -> None:
        self.seen = 0

    def of(self, x: object) -> Range | None:
        """The range of a value."""
        if is_any(x, (int, np.integer)) or (isinstance(x, np.ndarray) and not x.shape):
            known: Any = x
            known = known if type(known) is Num else int(known)
            return known, known
        while isinstance(x, Tracer) and isinstance(x.value, Tracer):
            x = x.value
        return self.at(x.builder, x.index) if isinstance(x, Tracer) else None

    def at(self, builder: Builder, index: int) -> Range | None:
        """The range of a value of a trace."""
        self.seen += 1
        if self.seen > MOST_STEPS:
            return None
        for record in reversed(builder.records):
            if index in record.outs:
                return self.made(builder, record)
        for own, counted in _COUNTERS:
            if own is builder and builder.inputs[0].index == index:
                return counted
        for _, given, inner, _ in builder.captures.values():
            if inner.index == index:
                return self.of(given)
        return None

    def made(self, builder: Builder, record: Record) -> Range | None:
        """The range of what an equation makes."""
        if record.prim is checked_p:  # what fails is an error
            checked = record.operands[0]
            return self.at(builder, checked) if type(checked) is int else self.of(checked)
        rule = _RULES.get(record.prim)
        first = record.values[0] if rule is not None else None  # None if no derivative reads it
        if rule is None or first is None or first.dtype.kind not in "iu":
            return None
        each = [self.at(builder, x) if type(x) is int else self.of(x) for x in record.operands]
        return None if None in each else rule(*each)  # type: ignore[arg-type]


def _mul(x: Range, y: Range) -> Range:
    ends = [a * b for a in x for b in y]
    return min(ends), max(ends)


_RULES: dict[Any, Any] = {
    ADD: lambda x, y: (x[0] + y[0], x[1] + y[1]),
    sub_p: lambda x, y: (x[0] - y[1], x[1] - y[0]),
    mul_p: _mul,
    neg_p: lambda x: (-x[1], -x[0]),
    max_p: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    min_p: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    convert_p: lambda x: x,
    bound_by(floor_divide): lambda x, y: (x[0] // y[0], x[1] // y[0]) if y[0] == y[1] > 0 else None,
}
