"""L3. What is read along an axis: a range, or one whose ends are sizes as symbols.

x[1:-1]    range(1, 99) of 100 elements;    Span(1, n - 1, 1) of n
"""

from __future__ import annotations

from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import length_of
from fgrad.base.sizes import Size, is_symbolic


class Span(NamedTuple):
    """A range with a symbol in it."""

    start: Size
    stop: Size
    step: Size


Places: TypeAlias = range | Span


def places(start: Size, stop: Size, step: Size = 1) -> Places:
    """The places from `start` on, before `stop`."""
    symbolic = is_symbolic((start, stop, step))
    return Span(start, stop, step) if symbolic else range(start, stop, step)


def is_places(x: object) -> bool:
    """Whether what is read along an axis is regular, not an array of integers."""
    return type(x) is range or type(x) is Span


def is_whole(x: object, length: Size) -> bool:
    """Whether that is the axis, in its order."""
    if type(x) is Span:
        return x == Span(0, length, 1)
    if is_symbolic(length):
        return type(x) is range and (x.start, x.step) == (0, 1) and x.stop == length
    return type(x) is range and x == range(length)


def count(x: Places) -> Size:
    """How many places there are."""
    return len(x) if type(x) is range else length_of(x.start, x.stop, x.step)
