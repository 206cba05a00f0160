"""L2. The short doors: `bind` for one or two operands, without parameters, whose values are known.

Eager differentiation makes these calls by the thousand, and each Python frame shows.  Whatever is
not plain goes through `bind`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.ir.primitive import Primitive
from fgrad.on_device import put_hook
from fgrad.record import Record
from fgrad.source import here
from fgrad.trace import STATE, Tracer, Value, bind

DOORS: list[Callable[..., Value]] = []  # all of them, so that `debug.nans` can look behind them

_new = tuple.__new__  # skips the named tuple's own constructor, which costs more than the record


def unary_door(prim: Primitive) -> Callable[[Value], Value]:
    """`bind(prim, x)` for one operand and no parameters, with a short way for known values.

    Eager differentiation makes these calls by the thousand; each Python frame shows.
    """
    evaluate = prim.evaluate_rule

    def apply(x: Value) -> Value:
        if type(x) is Tracer:
            builder, value = x.builder, x.value
            if value is None or type(value) is Tracer or not builder.plain:
                return bind(prim, x)
            index = builder.count
            builder.count = index + 1
            result = evaluate(value)
            state = STATE
            loc = state.loc or here()
            record = (prim, (x.index,), (value,), {}, (index,), (result,), loc, state.via)
            builder.records.append(_new(Record, record))
            return Tracer(builder, index, result, None)
        return bind(prim, x) if put_hook else evaluate(x)

    DOORS.append(apply)
    return apply


def binary_door(prim: Primitive) -> Callable[[Value, Value], Value]:
    """`bind(prim, x, y)` for two operands and no parameters, with a short way for known values."""
    evaluate = prim.evaluate_rule

    def apply(x: Value, y: Value) -> Value:
        if type(x) is Tracer:
            builder, i, a = x.builder, x.index, x.value
            if type(y) is Tracer:
                j, b = y.index, y.value
                if y.builder is not builder:
                    return bind(prim, x, y)
            else:
                j = b = builder.snapshot(y) if type(y) is np.ndarray else y
        elif type(y) is Tracer:
            builder, j, b = y.builder, y.index, y.value
            i = a = builder.snapshot(x) if type(x) is np.ndarray else x
        else:
            return bind(prim, x, y) if put_hook else evaluate(x, y)
        if a is None or b is None or type(a) is Tracer or type(b) is Tracer or not builder.plain:
            return bind(prim, x, y)
        index = builder.count
        builder.count = index + 1
        result = evaluate(a, b)
        state = STATE
        loc = state.loc or here()
        record = (prim, (i, j), (a, b), {}, (index,), (result,), loc, state.via)
        builder.records.append(_new(Record, record))
        return Tracer(builder, index, result, None)

    DOORS.append(apply)
    return apply
