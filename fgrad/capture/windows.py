"""L5. `x[i : i + 3]` whose length is known, though its place is not: a block that is found by where
it begins.

    for i in range(n - 2):
        y[i] = np.sum(w * x[i : i + 3])       the bounds count with the loop, 3 apart, and are
                                              inside of x whatever the step

NumPy cuts a slice off at the ends of an array.  So both bounds must have known ranges, see
`limits.py`, and be sums of the same multiples of what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.capture.limits import range_of
from fgrad.capture.values import as_tracer, is_unknown
from fgrad.numpy.views import link_part
from fgrad.ops import index as ix
from fgrad.ops.checked import checked_p
from fgrad.ops.elementwise import mul_p, neg_p, sub_p
from fgrad.ops.selected import ADD
from fgrad.trace import Builder, Tracer, Value
from fgrad.tracing.assign import View
from fgrad.tracing.record import Record
from fgrad.typing import PyTree

MOST_STEPS = 200  # equations that are looked at


class Linear(NamedTuple):
    """A constant and a sum of multiples of values, by their traces and numbers in these."""

    constant: int
    terms: dict[tuple[Builder, int], int]

    def plus(self, other: Linear, sign: int) -> Linear:
        """A sum or a difference."""
        terms = dict(self.terms)
        for value, k in other.terms.items():
            terms[value] = terms.get(value, 0) + sign * k
        kept = {value: k for value, k in terms.items() if k}
        return Linear(self.constant + sign * other.constant, kept)

    def times(self, k: int) -> Linear:
        """A multiple."""
        return Linear(self.constant * k, {v: k * n for v, n in self.terms.items()} if k else {})


class _Forms:
    """The sums that values of the open traces are, of 64 bits all."""

    def __init__(self) -> None:
        self.seen = 0

    def of(self, x: PyTree) -> Linear | None:
        """An integer as a sum; None if it is none, or too long."""
        if not isinstance(x, Tracer):
            is_integer = not np.shape(x) and np.asarray(x).dtype.kind in "iu"
            return Linear(int(x), {}) if is_integer else None
        while isinstance(x.value, Tracer):
            x = x.value
        return self.at(x.builder, x.index) if not x.shape and x.dtype == np.int64 else None

    def at(self, builder: Builder, index: int) -> Linear | None:
        """A value of a trace."""
        self.seen += 1
        if self.seen > MOST_STEPS:
            return None
        for record in reversed(builder.records):
            if index in record.outs:
                return self.made(builder, record) or Linear(0, {(builder, index): 1})
        for _, given, inner, _ in builder.captures.values():
            if inner.index == index:
                return self.of(given)
        return Linear(0, {(builder, index): 1})

    def made(self, builder: Builder, record: Record) -> Linear | None:
        """What an equation makes; None if it is no sum."""
        prim = record.prim
        if prim not in _LINEAR:
            return None
        operands = record.operands[:1] if prim is checked_p else record.operands
        each = [self.at(builder, x) if type(x) is int else self.of(x) for x in operands]
        if any([x is None for x in each]):
            return None
        return _LINEAR[prim](*each)


def _product(x: Linear, y: Linear) -> Linear | None:
    if x.terms and y.terms:
        return None
    return y.times(x.constant) if not x.terms else x.times(y.constant)


_LINEAR: dict[PyTree, Callable[..., Linear | None]] = {
    ADD: lambda x, y: x.plus(y, 1),
    sub_p: lambda x, y: x.plus(y, -1),
    mul_p: _product,
    neg_p: lambda x: x.times(-1),
    checked_p: lambda x: x,  # what fails is an error
}


def _length(part: slice, axis: int) -> int | None:
    """How many elements a slice of an axis has, if it lies inside of it."""
    if part.step not in (None, 1) or part.start is None or part.stop is None:
        return None
    start, stop = _Forms().of(part.start), _Forms().of(part.stop)
    apart = None if start is None or stop is None else stop.plus(start, -1)
    if apart is None or apart.terms or apart.constant < 0:
        return None
    low, high = range_of(part.start)[0], range_of(part.stop)[1]
    is_inside = low is not None and high is not None and low >= 0 and high <= axis
    return apart.constant if is_inside else None


class _Window(View):
    """A block of an array."""

    __slots__ = ("sizes", "starts")

    def __init__(self, base: Tracer, starts: Sequence[Value], sizes: tuple[int, ...]) -> None:
        super().__init__(base, object())
        self.starts, self.sizes = starts, sizes

    def read(self, base: Value) -> Value:
        return ix.dynamic_slice(base, self.starts, self.sizes)

    def write(self, base: Value, value: Value) -> Value:
        return ix.dynamic_update(base, value, self.starts)

    def move(self, array: np.ndarray) -> np.ndarray:
        return array[tuple([slice(n) for n in self.sizes])]


def window(x: PyTree, index: PyTree) -> tuple[Tracer, PyTree] | None:
    """A block of `x`, and the index of it that is `x[index]`; None if it has no window."""
    parts = list(index) if isinstance(index, tuple) else [index]
    cut = [k for k, part in enumerate(parts) if _is_cut(part)]
    if not cut or not all([_is_basic(part) for part in parts]):
        return None
    base = x if isinstance(x, Tracer) else as_tracer(x)
    starts: list[PyTree] = [np.int64(0)] * base.ndim
    sizes = list(base.shape)
    for k in cut:
        after = Ellipsis in parts[:k]
        among = parts[k:] if after else parts[:k]
        axis = sum([part is not None for part in among])
        axis = base.ndim - axis if after else axis
        if not 0 <= axis < base.ndim:
            return None
        found = _length(parts[k], base.shape[axis])
        if found is None:
            return None
        start = parts[k].start
        starts[axis] = start.twin().astype(np.int64) if isinstance(start, Tracer) else start
        sizes[axis] = found
        parts[k] = slice(None)
    view = _Window(base, starts, tuple(sizes))
    out = view.read(base)
    assert isinstance(out, Tracer)
    link_part(base, out, view)
    return out, tuple(parts)


def _is_cut(part: PyTree) -> bool:
    return isinstance(part, slice) and (is_unknown(part.start) or is_unknown(part.stop))


def _is_basic(part: PyTree) -> bool:
    if isinstance(part, Tracer):
        return not part.shape and part.dtype.kind in "iu"
    return part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice))
