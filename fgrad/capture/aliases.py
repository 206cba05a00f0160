"""L5. Results of branches and loops that are, in Python, another name of an array.

    if p: v = v / n        v is the old array, or a new one.  It is read again when the old array is
    v[0] = 1.0             written, and what is written into it goes to the one that it is.

Where that cannot be told, writing one of them raises a card while the other one is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.base.source import here, resolve
from fgrad.errors import InPlaceError
from fgrad.trace import Tracer, Value
from fgrad.tracing.assign import View, memory_of, root_of


def is_either(out: Tracer, test: Tracer, old: Tracer, taken: bool) -> None:
    """Let `out` be the array `old` where `test` is `taken`, and else an array of its own."""
    own = out.handle()

    def choose(one: Value, two: Value) -> Any:
        return np.where(test, one, two) if taken else np.where(test, two, one)

    def read(base: Value) -> Any:
        return choose(base, own)

    def write(base: Value, new: Value) -> Any:
        nonlocal own
        own = new.handle() if isinstance(new, Tracer) else new
        return choose(new, base)

    _link(out, [old], read, write)


class Some(tuple[Tracer, ...]):
    """The key of a view that is one of several arrays: these."""


def roots_of(x: Tracer) -> list[Tracer]:
    """The arrays at the ends of the chains of views of `x`."""
    found, left = [], [x]
    while left:
        x = left.pop()
        while isinstance(x.memory, View):
            if isinstance(x.memory.key, Some):
                left += x.memory.key[1:]
            x = x.memory.base
        found.append(x)
    return found


def is_some(out: Value, olds: Sequence[Tracer], name: str) -> None:
    """Let `out` be one of several arrays, or a part of them: nobody knows which."""
    if not isinstance(out, Tracer) or not olds:
        return

    def refuse(*_: object) -> Any:
        raise _refusal(name)

    _link(out, olds, refuse, refuse)


def _link(out: Tracer, olds: Sequence[Tracer], read: Any, write: Any) -> None:
    shape, dtype = out.shape, out.dtype
    out.memory = View(olds[0], read, write, lambda _: np.empty(shape, dtype), Some(olds))
    for old in olds:
        memory_of(root_of(old)).add(out)


def _refusal(name: str) -> InPlaceError:
    used = resolve(here())
    return InPlaceError(
        "An array is written that may have another name.",
        (
            ("used", f"{used}:  {used.text()}"),
            ("why", f"{name} was bound in a loop or a branch; which array it is, is not known."),
            ("write", f"{name} = {name}.copy()      after the loop or branch, before the write"),
        ),
    )
