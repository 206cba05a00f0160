"""L5. Integers that are affine in the loops of a kernel, as most indices are.

`i + 1`, `2 * i` and comparisons with a certain result need no operations, so that addresses are
affine and what predicates them goes away.
"""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.kernel.affine import AffineIndex, shifted, total
from fgrad.compile.loops.writer import LoopWriter
from fgrad.ir.aval import BOOL


def _affine(w: LoopWriter, *ids: int) -> list[AffineIndex] | None:
    found = [w.affine.get(id) for id in ids]
    return None if any([p is None for p in found]) else found  # type: ignore[return-value]


def _linear(a: int, b: int) -> Callable[..., int | None]:
    def rule(w: LoopWriter, x: int, y: int) -> int | None:
        places = _affine(w, x, y)
        return None if places is None else w.index(total(places, (a, b)))

    return rule


def _times(w: LoopWriter, x: int, y: int) -> int | None:
    places = _affine(w, x, y)
    if places is None:
        return None
    for p, q in (places, places[::-1]):
        if p == AffineIndex(p.const):
            return w.index(shifted(q, p.const, 0))
    return None


def _comparison(test: Callable[[int, int], bool | None]) -> Callable[..., int | None]:
    """A comparison that is certain from the range of the difference."""

    def rule(w: LoopWriter, x: int, y: int) -> int | None:
        places = _affine(w, x, y)
        limits = None if places is None else w.limits(total(places, (1, -1)))
        answer = None if limits is None else test(*limits)
        return None if answer is None else w.number(answer, BOOL)

    return rule


def _larger(w: LoopWriter, x: int, y: int) -> int | None:
    places = _affine(w, x, y)
    limits = None if places is None else w.limits(total(places, (1, -1)))
    if limits is None:
        return None
    return x if limits[0] >= 0 else y if limits[1] <= 0 else None


def _smaller(w: LoopWriter, x: int, y: int) -> int | None:
    larger = _larger(w, x, y)
    return None if larger is None else y if larger == x else x


def _clip(w: LoopWriter, x: int, low: int, high: int) -> int | None:
    larger = _larger(w, x, low)
    return None if larger is None else _smaller(w, larger, high)


def _select(w: LoopWriter, c: int, x: int, y: int) -> int | None:
    number = w.numbers.get(c)
    if number is not None:
        return x if number else y
    return x if x == y else None


def _logic(w: LoopWriter, x: int, y: int, stops: bool) -> int | None:
    for p, q in ((x, y), (y, x)):
        number = w.numbers.get(p)
        if number is not None and number.dtype == BOOL:
            return p if bool(number) is stops else q
    return None


def _certain(low: bool, high: bool) -> bool | None:
    return low if low == high else None


_below = _comparison(lambda low, high: _certain(low < 0, high < 0))


def _less(w: LoopWriter, x: int, y: int) -> int | None:
    """`k < 0` of an index in a block of steps is assumed not to hold."""
    answer, number = _below(w, x, y), w.numbers.get(y)
    if answer is None and x in w.affine and number is not None and not number:
        return w.number(False, BOOL) if w.assumed(w.affine[x], 0, None) else None
    return answer


INTEGER_RULES: dict[str, Callable[..., int | None]] = {
    "add": _linear(1, 1),
    "sub": _linear(1, -1),
    "mul": _times,
    "lt": _less,
    "ge": _comparison(lambda low, high: _certain(low >= 0, high >= 0)),
    "le": _comparison(lambda low, high: _certain(low <= 0, high <= 0)),
    "gt": _comparison(lambda low, high: _certain(low > 0, high > 0)),
    "eq": _comparison(
        lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None
    ),
    "ne": _comparison(
        lambda low, high: False if low == high == 0 else True if low > 0 or high < 0 else None
    ),
    "max": _larger,
    "min": _smaller,
    "clip": _clip,
    "select": _select,
    "and": lambda w, x, y: _logic(w, x, y, False),
    "or": lambda w, x, y: _logic(w, x, y, True),
}
