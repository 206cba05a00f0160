"""L5. Results of branches and loops that are, in Python, another name of an array.

    if p: v = v / n        v is the old array, or a new one.  It is read again when the old array is
    v[0] = 1.0             written, and what is written into it goes to the one that it is.

Where that cannot be told, writing one of them raises a card while the other one is in use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.source import here, resolve
from fgrad.errors import InPlaceError
from fgrad.trace import Tracer, Value, innermost
from fgrad.tracing.assign import View, freeze, memory_of, point_at, root_of
from fgrad.tracing.record import writable_memory


class Either(View):
    """The array `base` where `test` is `taken`, and else an array of its own."""

    __slots__ = ("name", "own", "taken", "test")
    chosen = True

    def __init__(self, base: Tracer, own: Tracer, test: Tracer, taken: bool, name: str) -> None:
        super().__init__(base)
        self.own, self.test, self.taken, self.name = own, test, taken, name

    def _chosen(self, one: Value, two: Value) -> Value:
        for x in (one, two):
            if isinstance(x, Tracer) and x.value is None and not x.builder.live:
                raise _refusal(self.name)  # it was written in a branch that has ended
        return np.where(self.test, *((one, two) if self.taken else (two, one)))

    def read(self, base: Value) -> Value:
        """The old array or the new one."""
        return self._chosen(base, self.own)

    def write(self, base: Value, value: Value) -> Value:
        """Write into the one that it is."""
        assert isinstance(value, Tracer)
        if value.builder is self.own.builder:
            point_at(self.own, value)
        else:
            self.own = value.handle()
        return self._chosen(value, base)

    def others(self) -> list[Tracer]:
        """The array of its own: a body that writes it carries it."""
        return [self.own]

    def move(self, array: np.ndarray) -> np.ndarray:
        """The same layout."""
        return array


class Some(View):
    """One of several arrays, or a part of one: nobody knows which."""

    __slots__ = ("aval", "name", "olds", "plain")
    chosen = True

    def __init__(self, olds: Sequence[Tracer], name: str, out: Tracer) -> None:
        super().__init__(olds[0])
        self.olds, self.name, self.aval = tuple(olds), name, out.aval
        self.plain: list[np.ndarray] = []  # the plain arrays that it may be

    def read(self, base: Value) -> Value:
        """One of the arrays was written since."""
        raise _refusal(self.name)

    def write(self, base: Value, value: Value) -> Value:
        """It is written itself."""
        raise _refusal(self.name)

    def move(self, array: np.ndarray) -> np.ndarray:
        """An array of its shape."""
        return np.empty(self.aval.shape, self.aval.dtype)


def array_of(x: Tracer) -> Tracer:
    """The array that a tracer is: of one that stands for it in a trace, the one that is outside."""
    while x.builder.live:
        outside = [known[0] for known in x.builder.captures.values() if known[2] is x]
        if not outside:
            break
        x = outside[0]
    return x


def roots_of(x: Tracer) -> list[Tracer]:
    """The arrays at the ends of the chains of views of `x`, in the traces that they belong to."""
    return _ends(x)[0]


def plain_behind(x: Tracer) -> list[np.ndarray]:
    """The plain arrays that a traced one may be, as branches and loops have bound it."""
    return _ends(x)[1]


def _ends(x: Tracer) -> tuple[list[Tracer], list[np.ndarray]]:
    """The ends of the chains of views of `x`, and the plain arrays on the way."""
    found: list[Tracer] = []
    plain: list[np.ndarray] = []
    seen: dict[int, Tracer] = {}
    left = [x]
    while left:
        x = left.pop()
        if id(x) in seen:
            continue
        seen[id(x)] = x
        if isinstance(x.memory, View):
            left += x.memory.olds if isinstance(x.memory, Some) else [x.memory.base]
            plain += x.memory.plain if isinstance(x.memory, Some) else []
            continue
        outside = array_of(x)
        if outside is x:
            found.append(x)
        else:
            left.append(outside)
    return found, plain


def is_either(out: Tracer, test: Tracer, old: Tracer, taken: bool, name: str) -> None:
    """Let `out` be the array `old` where `test` is `taken`, and else an array of its own."""
    own = out.handle()
    _link(out, Either(old, own, test, taken, name), [old, own])


def is_some(out: Value, olds: Sequence[Tracer], name: str) -> None:
    """Let `out` be one of several arrays, or a part of them: nobody knows which."""
    if isinstance(out, Tracer) and olds:
        each = list({id(old): old for old in olds}.values())
        _link(out, Some(each, name, out), each)


def is_plain(out: Value, arrays: Sequence[np.ndarray], name: str) -> None:
    """Let `out` be a plain array, nobody knows which one: no values can be written into it, and the
    plain arrays stay as they are until the trace ends."""
    if not isinstance(out, Tracer):
        return
    is_some(out, [*(roots_of(out) if isinstance(out.memory, View) else ()), out.handle()], name)
    assert isinstance(out.memory, Some)
    out.memory.plain = list(arrays)
    builder = innermost()
    for x in arrays:
        if builder is not None:
            freeze(writable_memory(x), builder.frozen)


def _link(out: Tracer, view: View, olds: Sequence[Tracer]) -> None:
    out.memory = view
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
