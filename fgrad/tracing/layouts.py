"""L2. Memory layout of traced values: which ones NumPy would have computed in C order.

    y = np.sin(m.T)         NumPy's result lies as m.T does: y.reshape(-1) is a copy, no view
    y = x @ w.T             in C order: y.reshape(-1) is a view

Strides are no part of a trace.  What lies in C order can be told from the equations that made it: a
result does so where all operands do, and products do always; of a transposition nothing is known.
An operation may `mark` a value.  `Builder.layouts` holds what is known; a trace where nothing was
transposed is not asked.  What leaves a trace takes along what is known of it: a program by its
equations (ir/order.py), a value by `lying_as` (tracing/assign.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad.base.kinds import is_array, is_tuple
from fgrad.base.source import here, resolve
from fgrad.errors import InPlaceError
from fgrad.ir.aval import Aval
from fgrad.ir.order import kept_orders, with_orders
from fgrad.ir.program import Program
from fgrad.tracing.record import Record, maker_of
from fgrad.tracing.thread_state import is_traced
from fgrad.typing import Array, PyTree

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer


def is_line(shape: Sequence[int]) -> bool:
    """Whether an array has one axis at most that is longer than 1, so that all orders are one."""
    return 0 in shape or len([n for n in shape if n > 1]) < 2


def in_c_order(x: object) -> bool:
    """Whether a value, a tracer or an array, certainly lies in C order; of a view, a copy of it."""
    if is_array(x):
        return x.flags.c_contiguous
    if not is_traced(x) or not x.builder.reordered:
        return True
    found = x.builder.layouts.get(x.index)
    return _infer(x.builder, x.index) if found is None else found


def _infer(builder: Builder, first: int) -> bool:
    known, stack = builder.layouts, [first]
    while stack:
        number = stack[-1]
        if number not in known:
            record = maker_of(builder.records, number)
            if record is None:
                known[number] = _is_given_in_c_order(builder, number)
            else:
                missing = [k for k in record.operands if type(k) is int and k not in known]
                if missing:
                    stack.extend(missing)
                    continue
                known.update(zip(record.outs, _keep_c_order(record, known), strict=True))
        stack.pop()
    return known[first]


def _keep_c_order(record: Record, known: dict[int, bool]) -> Sequence[bool]:
    count = len(record.outs)
    if record.prim.makes_order:
        return (True,) * count
    if all([known[k] if type(k) is int else in_c_order(k) for k in record.operands]):
        return kept_orders(record.prim, record.values, record.params, count)
    return (False,) * count


def mark(x: Tracer, c_order: bool) -> None:
    """Say of a fresh value whether it lies in C order."""
    x.builder.layouts[x.index] = c_order
    x.builder.reordered |= not c_order


def ordered(out: PyTree, order: object) -> PyTree:
    """Mark fresh results with the memory order that the user requested."""
    if order not in (None, "K"):
        for x in out if is_tuple(out) else (out,):
            if is_traced(x) and not is_line(x.shape):
                mark(x, order == "C")
    return out


def _is_given_in_c_order(builder: Builder, number: int) -> bool:
    """Of an argument, or of a captured value; what has no value yet is taken to be in C order."""
    for _, outside, inner, _ in builder.captures.values():
        if inner.index == number:
            return in_c_order(outside)
    for x in builder.inputs:
        if x.index == number:
            return in_c_order(x.value)
    return True


def examples_in_c_order(x: object, axis: int) -> bool:
    """Whether copies of the examples along an axis of a value certainly lie in C order."""
    if not is_array(x):
        return in_c_order(x)
    if x.flags.c_contiguous:
        return True
    others = [k for k, n in enumerate(x.shape) if k != axis and n > 1]
    strides = [abs(x.strides[k]) for k in others]
    return strides == sorted(strides, reverse=True)


def orders_known(results: Sequence[Array]) -> list[bool]:
    """Of which results of a trace it may be taken that they lie in C order."""
    return [in_c_order(x) or is_line(np.shape(x)) for x in results]


def told_orders(program: Program, inputs: Sequence[Tracer], results: Sequence[Array]) -> Program:
    """A program that was traced, from whose equations the orders of its results can be told."""
    loose = [
        k
        for k, (x, in_order) in enumerate(zip(inputs, orders_known(inputs), strict=True))
        if not in_order and not _is_given_in_c_order(x.builder, x.index)
    ]
    return with_orders(program, orders_known(results), loose)


def note_taken(x: Tracer) -> None:
    """Note which inputs were taken to lie in C order: all that a traced value is made of."""
    builder = x.builder
    behind = _inputs_behind(x)
    builder.taken |= behind
    captured = [(inner, outside) for _, outside, inner, _ in builder.captures.values()]
    for y, value in [*captured, *[(y, y.value) for y in builder.inputs]]:
        if y.index not in behind:
            continue
        if is_traced(value) and value.builder.live:
            note_taken(value)


def _inputs_behind(x: Tracer) -> set[int]:
    """The numbers of the inputs and captured values that a traced value is made of."""
    records = x.builder.records
    found: set[int] = set()
    ahead = {x.index}
    while ahead:
        number = max(ahead)  # operands have smaller numbers than results
        ahead.remove(number)
        record = maker_of(records, number)
        if record is None:
            found.add(number)
        else:
            ahead.update([k for k in record.operands if type(k) is int])
    return found


def unknown_layout(aval: Aval) -> InPlaceError:
    """The card for a reshape of which it is not known whether NumPy copies."""
    used = resolve(here())
    return InPlaceError(
        "Whether NumPy would see this write through a reshape is not known.",
        (
            ("value", f"{aval}"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "whether a reshape is a view or a copy depends on strides, and the strides of"),
            ("why", "a result computed from a transposed array are unknown here."),
            ("write", "y = y.copy()        before the reshape: a copy lies in C order"),
            ("write", "y = y.reshape(...).copy()    if a copy is meant"),
        ),
    )
