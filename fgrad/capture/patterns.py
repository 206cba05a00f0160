"""L5. What the pattern of a `case` finds in a value: whether it fits, and what its names are.

    ("value", v)                            x == v
    ("is", True)                            x is True
    ("as", name), ("as", name, pattern)     name is x
    ("or", pattern, ...)                    the first one that fits
    ("sequence", pattern, ..., ("star", name), ...)
    ("mapping", rest, (key, pattern), ...)
    ("class", kind, (pattern, ...), (attribute, pattern), ...)

Whether a pattern fits may be traced: where it compares values, or asks for True or False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fgrad.capture.calls import isinstance_
from fgrad.capture.conditions import both, not_
from fgrad.capture.values import is_unknown, truth_value
from fgrad.trace import Tracer
from fgrad.tracing.capturing import not_recorded

ACTS_FOR_USERS = True  # what these raise is raised by what they stand for

Pattern = tuple[Any, ...]
Found = tuple[Any, dict[str, object]]  # whether it fits; what the names are
NO_FIT: Found = (False, {})
_OWN = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def pattern(x: object, asked: Pattern) -> Found:
    """What a pattern finds in a value."""
    return _KINDS[asked[0]](x, *asked[1:])


def _value(x: object, value: object) -> Found:
    fits: object = x == value
    return (truth_value(fits) if is_unknown(fits) else bool(fits)), {}


def _is(x: object, value: object) -> Found:
    if isinstance(value, bool) and isinstance(x, Tracer) and x.weak and x.dtype.kind == "b":
        fits = x if value else not_(x)
        return (fits if is_unknown(x) else bool(fits)), {}
    return x is value, {}


def _as(x: object, name: str | None, *inner: Pattern) -> Found:
    fits, names = pattern(x, inner[0]) if inner else (True, {})
    return fits, {**names, name: x} if name else names


def _or(x: object, *each: Pattern) -> Found:
    found: Found = NO_FIT
    for one in each:
        fits, names = pattern(x, one)
        if not is_unknown(fits) and not is_unknown(found[0]):
            if fits:
                return fits, names
            continue
        if names:
            raise not_recorded("names of a pattern with `|` depend on traced values")
        found = _joined_by_or(found[0], fits), {}
        if found[0] is True:
            return found
    return found


def _joined_by_or(a: object, b: object) -> object:
    return not_(both(not_(a), lambda: not_(b)))


def _sequence(x: object, *parts: Pattern) -> Found:
    if not isinstance(x, Sequence) or isinstance(x, (str, bytes, bytearray)):
        return NO_FIT
    stars = [k for k, part in enumerate(parts) if part[0] == "star"]
    if not stars:
        return _all(zip(x, parts, strict=True)) if len(x) == len(parts) else NO_FIT
    first, last = stars[0], len(parts) - stars[0] - 1
    end = len(x) - last
    if end < first:
        return NO_FIT
    items = [x[k] for k in range(len(x))]
    ends = zip(items[end:], parts[first + 1 :], strict=True)
    fits, names = _all([*zip(items[:first], parts[:first], strict=True), *ends])
    name = parts[first][1]
    return fits, {**names, name: items[first:end]} if name else names


def _mapping(x: object, rest: str | None, *items: tuple[object, Pattern]) -> Found:
    if not isinstance(x, Mapping) or any([key not in x for key, _ in items]):
        return NO_FIT
    fits, names = _all([(x[key], part) for key, part in items])
    keys = [key for key, _ in items]
    return fits, {**names, rest: {k: x[k] for k in x if k not in keys}} if rest else names


def _class(x: object, kind: Any, placed: tuple[Pattern, ...], *named: tuple[str, Pattern]) -> Found:
    if not isinstance_(x, kind):
        return NO_FIT
    if len(placed) == 1 and kind in _OWN:
        pairs = [(x, placed[0])]
    else:
        attributes = getattr(kind, "__match_args__", ())
        if len(placed) > len(attributes):
            raise TypeError(f"{kind.__name__}() accepts {len(attributes)} positional sub-patterns "
                            f"({len(placed)} given)")  # fmt: skip
        named = (*zip(attributes, placed, strict=False), *named)
        pairs = []
    if any([not hasattr(x, name) for name, _ in named]):
        return NO_FIT
    return _all([*pairs, *[(getattr(x, name), part) for name, part in named]])


def _all(pairs: Iterable[tuple[object, Pattern]]) -> Found:
    """What patterns find that must all fit."""
    fits: object = True
    names: dict[str, object] = {}
    for x, part in pairs:
        one, more = pattern(x, part)
        if one is False:
            return NO_FIT
        fits = one if fits is True else both(fits, lambda one=one: one)
        names |= more
    return fits, names


_KINDS: dict[str, Callable[..., Found]] = {
    "value": _value, "is": _is, "as": _as, "or": _or, "sequence": _sequence,
    "mapping": _mapping, "class": _class,
}  # fmt: skip
