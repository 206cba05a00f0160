"""L2. Fast paths of `bind` for one or two operands with known values.

Eager differentiation makes thousands of these calls, so each Python frame counts.  All other
calls go through `bind`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.base.sizes import OPEN
from fgrad.base.source import here
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import OUT, Primitive
from fgrad.trace import UNREAD, Builder, Tracer, Value, bind
from fgrad.tracing.on_device import DEVICES
from fgrad.tracing.record import Record, new
from fgrad.typing import EqnParams, Operand, PyTree

# All fast paths with their primitives, so that `debug.nans` can check their results too.
DOORS: list[tuple[Primitive, Callable[..., Value]]] = []


def _reads(prim: Primitive, pattern: int) -> tuple[bool, bool, bool]:
    """Whether a derivative reads the first operand, the second, and the result."""
    unread = prim.unread_by(pattern)
    return 0 not in unread, 1 not in unread, OUT not in unread


def _constant(builder: Builder, x: np.ndarray, read: bool) -> np.ndarray | None:
    """A constant as it is recorded; nothing if no derivative reads it."""
    if read or not builder.saves or not x.flags.c_contiguous:
        return builder.snapshot(x)
    return None


def bind_one(prim: Primitive, x: Operand, params: EqnParams) -> Any:
    """`bind(prim, x, **params)` for a primitive of one operand and one result, with a short way for
    an array that is known in no enclosing trace."""
    if type(x) is not Tracer:
        if DEVICES or OPEN.traces:
            return bind(prim, x, **params)
        return prim.evaluate_rule(x, **params)
    builder, value = x.builder, x.value
    if not builder.plain or value is None or type(value) is Tracer or prim.save is not None:
        return bind(prim, x, **params)
    result = prim.evaluate_rule(value, **params)
    if prim.reorders is not None:
        builder.reordered = True
    unread = prim.unread.get(0b11)
    if unread is None:
        unread = prim.unread_by(0b11)
    if 0 in unread:
        value = x.known_aval
        if value is None or value.weak:
            value = x.known_aval = Aval(x.value.shape, x.value.dtype)  # type: ignore[union-attr]
    kept = UNREAD if OUT in unread else (result,)
    index = builder.count
    builder.count = index + 1
    state = builder.state
    loc = state.loc or here()
    record = (prim, (x.index,), (value,), params, (index,), kept, loc, state.via)
    builder.records.append(new(Record, record))
    return Tracer(builder, index, result, None)


def bind_pair(prim: Primitive, x: Operand, y: Operand, params: EqnParams) -> PyTree:
    """`bind(prim, x, y, **params)` for a primitive of one result that keeps no residuals, with a
    short way for values of one trace, known in no other, and plain arrays."""
    of = x if type(x) is Tracer else y
    if type(of) is not Tracer:
        if DEVICES or OPEN.traces:
            return bind(prim, x, y, **params)
        return prim.evaluate_rule(x, y, **params)
    builder = of.builder
    pattern = 4 + 2 * (type(x) is Tracer) + (type(y) is Tracer)
    unread = prim.unread.get(pattern)
    if unread is None:
        unread = prim.unread_by(pattern)
    first = _operand(builder, x, 0 in unread) if builder.plain else None
    second = None if first is None else _operand(builder, y, 1 in unread)
    if first is None or second is None:
        return bind(prim, x, y, **params)
    result = prim.evaluate_rule(first[0], second[0], **params)
    kept = UNREAD if OUT in unread else (result,)
    index = builder.count
    builder.count = index + 1
    state = builder.state
    loc = state.loc or here()
    ins, values = (first[1], second[1]), (first[2], second[2])
    record = (prim, ins, values, params, (index,), kept, loc, state.via)
    builder.records.append(new(Record, record))
    return Tracer(builder, index, result, None)


def _operand(builder: Builder, x: Operand, unread: bool) -> tuple[PyTree, PyTree, PyTree] | None:
    """The value of an operand, its number or the constant, and what the derivative sees of it; None
    where an enclosing trace knows it, or none does."""
    if type(x) is Tracer:
        value = x.value
        if x.builder is not builder or value is None or type(value) is Tracer:
            return None
        if not unread:
            return value, x.index, value
        aval = x.known_aval
        if aval is None or aval.weak:
            aval = x.known_aval = Aval(value.shape, value.dtype)
        return value, x.index, aval
    if type(x) is not np.ndarray:
        return None
    kept = _constant(builder, x, not unread)
    return (x, None, Aval(x.shape, x.dtype)) if kept is None else (kept, kept, kept)


def bind_at(prim: Primitive, x: Value, places: Sequence[Value], params: EqnParams) -> Any:
    """`bind(prim, x, *places, **params)` for a primitive that is linear in its first operand, with
    a short way for one that is known in no enclosing trace, at places that are plain arrays."""
    if type(x) is not Tracer or Tracer in map(type, places):
        return bind(prim, x, *places, **params)
    builder, value = x.builder, x.value
    if value is None or type(value) is Tracer or not builder.plain:
        return bind(prim, x, *places, **params)
    kept = [builder.snapshot(i) if type(i) is np.ndarray else i for i in places]
    result = prim.evaluate_rule(value, *kept, **params)
    aval = x.known_aval
    if aval is None or aval.weak:
        aval = x.known_aval = Aval(value.shape, value.dtype)
    index = builder.count
    builder.count = index + 1
    state = builder.state
    loc = state.loc or here()
    record = (prim, (x.index, *kept), (aval, *kept), params, (index,), UNREAD, loc, state.via)
    builder.records.append(new(Record, record))
    return Tracer(builder, index, result, None)


def adopt_known(builder: Builder, convert: Primitive, array: np.ndarray) -> Tracer:
    """A new plain array as a value of a trace that is only differentiated, which no derivative
    reads as a constant."""
    index = builder.count
    builder.count = index + 1
    state = builder.state
    loc = state.loc or here()
    aval = Aval(array.shape, array.dtype)
    params = {"dtype": array.dtype}
    record = (convert, (None,), (aval,), params, (index,), UNREAD, loc, state.via)
    builder.records.append(new(Record, record))
    return Tracer(builder, index, array, None)


def unary_door(prim: Primitive) -> Callable[[Operand], Value]:
    """`bind(prim, x)` for one operand and no parameters, with a fast path for known values.

    Eager differentiation makes these calls by the thousand; each Python frame shows.
    """
    evaluate, unread = prim.evaluate_rule, prim.unread_by(0b11)
    reads_x, reads_out = 0 not in unread, OUT not in unread

    def apply(x: Operand | Tracer) -> Value:
        if type(x) is Tracer:
            builder, value = x.builder, x.value
            if value is None or type(value) is Tracer or not builder.plain:
                return bind(prim, x)
            index = builder.count
            builder.count = index + 1
            result = evaluate(value)
            state = builder.state
            loc = state.loc or here()
            values = (value,) if reads_x else UNREAD
            results = (result,) if reads_out else UNREAD
            ins, outs = (x.index,), (index,)
            record: tuple[object, ...] = (prim, ins, values, {}, outs, results, loc, state.via)
            builder.records.append(new(Record, record))
            return Tracer(builder, index, result, None)
        return bind(prim, x) if DEVICES else evaluate(x)

    DOORS.append((prim, apply))
    return apply


def binary_door(prim: Primitive) -> Callable[[Operand, Operand], Value]:
    """`bind(prim, x, y)` for two operands and no parameters, with a fast path for known values."""
    evaluate = prim.evaluate_rule
    both, first, second = [_reads(prim, pattern) for pattern in (0b111, 0b110, 0b101)]

    def apply(x: Operand | Tracer, y: Operand | Tracer) -> Value:
        if type(x) is Tracer:
            builder, i, a = x.builder, x.index, x.value
            if type(y) is Tracer:
                j, b, reads = y.index, y.value, both
                if y.builder is not builder:
                    return bind(prim, x, y)
            else:
                j = _constant(builder, y, first[1]) if type(y) is np.ndarray else y
                b, reads = y if j is None else j, first
        elif type(y) is Tracer:
            builder, j, b = y.builder, y.index, y.value
            i = _constant(builder, x, second[0]) if type(x) is np.ndarray else x
            a, reads = x if i is None else i, second
        else:
            return bind(prim, x, y) if DEVICES else evaluate(x, y)
        if a is None or b is None or type(a) is Tracer or type(b) is Tracer or not builder.plain:
            return bind(prim, x, y)
        index = builder.count
        builder.count = index + 1
        result = evaluate(a, b)
        state = builder.state
        loc = state.loc or here()
        reads_a, reads_b, reads_out = reads
        values = (a if reads_a else None, b if reads_b else None)
        results = (result,) if reads_out else UNREAD
        record: tuple[object, ...] = (prim, (i, j), values, {}, (index,), results, loc, state.via)
        builder.records.append(new(Record, record))
        return Tracer(builder, index, result, None)

    DOORS.append((prim, apply))
    return apply
