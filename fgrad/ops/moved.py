"""L3. Supports of tangents and cotangents, moved by the rules that move their elements.

A rule that moves and adds elements does so with bools, where a sum is an `or`: what it makes of
a support is the support of what it makes of the value.  Some rules leave zeros where they move
nothing, as the transpose of a slice; these are as good as any that were not selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from fgrad.base.sizes import is_symbolic
from fgrad.ir.aval import BOOL
from fgrad.ops.selected import ZERO, Selected, Support, Tangent, fitted, known_support, plain
from fgrad.ops.shape import full
from fgrad.trace import Tracer, Value
from fgrad.tracing.record import Record


@overload
def array_of(t: Value | Selected) -> Value: ...
@overload
def array_of(t: Tangent) -> Value | None: ...
def array_of(t: Tangent) -> Value | None:
    """The array of a tangent or cotangent, before its zeros are put in."""
    return t.value if type(t) is Selected else t


def as_given(t: Value | None) -> Tangent:
    """A tangent or cotangent that the user gives: what is zero there is meant.

    The zeros of a traced one are not, as it may be differentiated itself.
    """
    if t is None or isinstance(t, Tracer) or np.all(t):
        return t
    return Selected(t, known_support(np.not_equal(t, 0), loose=True), ZERO)


_TRUE, _FALSE = np.array(True), np.array(False)
_TRUE.flags.writeable = _FALSE.flags.writeable = False  # nor are the views of them


def every(shape: tuple[int, ...], bit: bool = True) -> Value:
    """A bool array of one value that takes no memory."""
    if is_symbolic(shape):
        return full(shape, bit, BOOL)
    return np.ndarray(shape, np.bool_, _TRUE if bit else _FALSE, 0, (0,) * len(shape))


def _linear_in(record: Record) -> Sequence[int]:
    """The places of the operands that the primitive is linear in."""
    which = record.prim.linear_in
    if callable(which):
        which = which(record.params)
    return range(len(record.operands)) if which == "all" else which  # type: ignore[return-value]


def _as_bools(record: Record) -> list[Value]:
    """The operands, those that are moved as bool arrays."""
    values = list(record.values)
    for i in _linear_in(record):
        values[i] = every(values[i].shape, False)
    return values


def pull_moved(record: Record, ct: Tangent, wanted: tuple[bool, ...]) -> Sequence[Tangent]:
    """The transpose of a rule that moves elements, of a cotangent and of its support."""
    prim, params = record.prim, record.params
    transpose = prim.rules["transpose"]
    value = plain(ct)
    parts = transpose(value, wanted, *record.values, **params)  # type: ignore[operator]
    gaps, adds = prim.moves.transpose_gaps, prim.moves.transpose_adds  # type: ignore[union-attr]
    if not gaps and (type(ct) is not Selected or (adds and ct.support.loose)):
        return parts
    bools, shape = _as_bools(record), value.shape

    def support(i: int) -> Support:
        only = tuple([k == i for k in range(len(parts))])

        def move(bits: Value) -> Value:
            return transpose(fitted(bits, shape), only, *bools, **params)[i]  # type: ignore[operator]

        if type(ct) is Selected:
            return Support((ct.support,), move, ct.support.loose and not gaps)
        return Support((), lambda: move(every(shape, True)))

    return [
        None if part is None else Selected(part, support(i), ZERO) for i, part in enumerate(parts)
    ]


def push_moved(record: Record, tangents: Sequence[Value | Selected | None]) -> Tangent:
    """The rule that moves elements, of tangents and of their supports."""
    prim, params = record.prim, record.params
    rule = prim.rules["jvp"]
    values = [plain(t) for t in tangents]
    out = rule(record.values, values, None, **params)  # type: ignore[operator]
    gaps, adds = prim.moves.jvp_gaps, prim.moves.jvp_adds  # type: ignore[union-attr]
    selected = [type(t) is Selected for t in tangents]
    loose = all([t is None or (type(t) is Selected and t.support.loose) for t in tangents])
    if not gaps and (not any(selected) or (adds and loose)):
        return out
    bools = _as_bools(record)
    supports = [t.support for t in tangents if type(t) is Selected]

    def move(*bits: Value) -> Value:
        each = iter(bits)
        moved = [
            fitted(next(each), v.shape) if s else None if v is None else every(v.shape, True)
            for s, v in zip(selected, values, strict=True)
        ]
        return rule(bools, moved, None, **params)  # type: ignore[operator]

    return Selected(out, Support(tuple(supports), move, loose and not gaps), ZERO)


class Reads(Support):
    """The places that indexing operations read: where a sum of their transposes may not be zero."""

    __slots__ = ("reads", "shape", "within")

    within: list[Support]

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.made_from = self.within = []
        self.make = self.found = None
        self.loose = False
        self.shape = shape
        self.reads: list[tuple[Record, tuple[int, ...], bool]] = []

    def add(self, record: Record, ct: Value | Selected) -> None:
        """Add a read."""
        if type(ct) is Selected:
            self.within.append(ct.support)
            self.reads.append((record, ct.value.shape, True))
        else:
            self.reads.append((record, array_of(ct).shape, False))

    def compute(self, *bits: Value) -> Value:
        """True at all places that were read."""
        each = iter(bits)
        found = np.zeros(self.shape, bool)
        for record, shape, selected in self.reads:
            places = next(each) if selected else None
            if places is None or type(places) is Tracer:
                places = every(shape)
            record.prim.accumulate(found, fitted(places, shape), record.values, record.params)  # type: ignore[misc]
        return found
