"""L0. Detect what a function changed in its argument containers, and replay these changes.

    p = {"w": w}; f(p)          f stores p["w"] = 2 * w and p["n"] = 3
    Watch(p).edits()            (Edit(0, {"w": ..., "n": ...}),)    0: the first container in p

A transform gives a function containers of its own, with tracers in them.  What the function stores
in these is compared afterwards with what was there before, so nothing that it did is missed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from fgrad import tree
from fgrad.base.kinds import is_dict, is_series
from fgrad.base.named_tuple import NamedTuple

Contents = dict[Any, object]  # of a container, by key, index or attribute


class Edit(NamedTuple):
    """New contents of the container with a number, by key, index or attribute."""

    container: int
    contents: Contents


def containers_in(x: object) -> list[object]:
    """All containers of a tree that can be changed, in the order of the tree."""
    return list(_walk(x))


def _walk(x: object) -> Iterator[object]:
    if x is None or tree.is_leaf(x):
        return
    if not isinstance(x, tuple):
        yield x
    for child in tree.children(x):
        yield from _walk(child)


def contents_of(container: object) -> Contents:
    """The contents of a container: items by key or index, or attributes by name."""
    if is_dict(container):
        return dict(container)
    if is_series(container):
        return dict(enumerate(container))
    slots = [s for kind in type(container).__mro__ for s in _slots_of(kind)]
    found: Contents = {s: getattr(container, s) for s in slots if hasattr(container, s)}
    own = getattr(container, "__dict__", {})
    return found | {name: x for name, x in own.items() if not _is_cached(container, name)}


def _is_cached(x: object, name: str) -> bool:
    """Whether an attribute is a cached property: it follows from the others."""
    return isinstance(getattr(type(x), name, None), functools.cached_property)


def _slots_of(kind: type) -> Sequence[str]:
    slots = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return [s for s in names if s not in ("__dict__", "__weakref__")]


class Watch:
    """The containers of a tree and a snapshot of their contents."""

    def __init__(self, x: object) -> None:
        self.containers = containers_in(x)
        self.before = [contents_of(c) for c in self.containers]

    def edits(self) -> tuple[Edit, ...]:
        """The containers whose contents have changed."""
        pairs = zip(self.containers, self.before, strict=True)
        now = [(k, contents_of(c), before) for k, (c, before) in enumerate(pairs)]
        return tuple([Edit(k, contents) for k, contents, old in now if not _same(contents, old)])


def _same(a: Contents, b: Contents) -> bool:
    return list(a) == list(b) and all([x is y for x, y in zip(a.values(), b.values(), strict=True)])


def put_contents(container: object, contents: Contents) -> None:
    """Replace the contents of a container in place."""
    if is_dict(container):
        if list(container) != list(contents):
            container.clear()
        container.update(contents)
    elif is_series(container):
        container.clear()
        container.extend(contents.values())
    else:
        for name in contents_of(container).keys() - contents.keys():
            delattr(container, name)
        for name, value in contents.items():
            if getattr(container, name, contents) is not value:
                setattr(container, name, value)
