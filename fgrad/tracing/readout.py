"""L2. Values that leave a trace as plain numbers: allowed, or refused with a card.

What is made of a plain number is a constant.  A value that is being differentiated would lose its
derivative there, so `float(x)` and its kin raise, whoever calls them.  Other known values go:

    int(x), x > 0, np.floor(x)      their derivative is zero wherever it is defined
    fgrad.stop_gradient(x)          a constant by request
    a value of constants            it depends on nothing that is differentiated
    a value whose trace has ended   it is what the function has computed, a plain value since then
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.tracing.record import Record, maker_of
from fgrad.tracing.thread_state import is_traced
from fgrad.tracing.trace_errors import loses_derivative, needs_value
from fgrad.typing import DTypeLike, Shaped

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer

DIFFERENTIATING = frozenset({"grad", "vjp", "jvp", "linearize"})


def number_of(x: Tracer, value: object) -> Any:
    """`value`, that of `x`, as it is given to Python; a card if a derivative would be lost."""
    if value is None:
        raise needs_value("number", x)
    builder = differentiator(x)
    if builder is not None:
        raise loses_derivative(x, builder)
    return value


def array_of(x: Tracer, value: object, dtype: DTypeLike | None, copy: bool | None) -> np.ndarray:
    """A copy of `value`, that of `x`, for what wants a plain array; a card as for numbers."""
    if value is None or copy is False or differentiator(x) is not None:
        raise needs_value("array", x)
    return np.array(value, dtype)


def differentiator(x: object) -> Builder | None:
    """The open trace, if there is one, whose derivative reaches a value by what is continuous."""
    while is_traced(x) and not is_discrete(x):
        builder = x.builder
        if builder.live and builder.origins is not None:
            given = [builder.origins.get(k) for k in sources(builder, x.index)]
            return next(filter(None, map(differentiator, given)), None)
        if builder.live and builder.what in DIFFERENTIATING and depends_on_inputs(x):
            return builder
        x = x.value
    return None


def depends_on_inputs(x: Tracer) -> bool:
    """Whether a value depends continuously on the inputs of its trace."""
    inputs = {y.index for y in x.builder.inputs}
    return not inputs.isdisjoint(sources(x.builder, x.index))


def is_discrete(x: Shaped) -> bool:
    """Whether a value is made of truth values or integers."""
    return x.dtype.kind in "biu"


def sources(builder: Builder, number: int) -> set[int]:
    """The inputs and captured values, by number, that a value depends on continuously."""
    found: set[int] = set()
    seen: set[int] = set()
    ahead = [number]
    while ahead:
        k = ahead.pop()
        if k in seen or k in builder.constants:
            continue
        seen.add(k)
        record = maker_of(builder.records, k)
        if record is None:
            found.add(k)
        else:
            ahead.extend(_continuous(record))
    if not found:
        builder.constants |= seen
    return found


def _continuous(record: Record) -> list[int]:
    """The operands that the results of an equation depend on continuously.

    Only records of floats have no operands to look at.
    """
    prim, operands, values = record.prim, record.operands, record.values
    if prim.discrete:
        return []
    maps = prim.maps or (True,) * len(operands)
    return [
        k
        for k, x, rule in zip(operands, values, maps, strict=True)
        if type(k) is int and rule is not None and (x is None or not is_discrete(x))
    ]
