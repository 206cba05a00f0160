"""L2. Writes into traced arrays: which trace records a write, and which values may be written.

def f(x, seen):          grad(f)(x, seen) in jit: `seen` is an array of the outer trace, and
    seen += 1            grad runs f once: the outer trace writes it
    seen[0] = x[0]       a card: the outer trace knows no derivative by x
"""

from __future__ import annotations

from fgrad.base.source import here, resolve
from fgrad.errors import InPlaceError
from fgrad.ir.basic import BASIC
from fgrad.trace import Builder, Tracer, Value, innermost
from fgrad.tracing.assign import adopt, assign, foreign, made_inside, settle, written_with
from fgrad.tracing.carried import refuse_uncarried
from fgrad.tracing.closed import captured, own
from fgrad.tracing.readout import DIFFERENTIATING, depends_on_inputs, is_discrete
from fgrad.tracing.thread_state import THREAD
from fgrad.tracing.trace_errors import leaked

RUN_ONCE = DIFFERENTIATING | {"vmap", "functionalize"}  # traces of functions that are called once


def write_all(x: Tracer, value: Value) -> None:
    """Replace the value of `x` by one of its shape and dtype, recorded in `writing_trace(x)`."""
    builder = writing_trace(x)
    if isinstance(value, Tracer) and value.builder is x.builder and value.index == x.index:
        return  # nothing changes
    value = _as_value_of(builder, value)
    if isinstance(value, Tracer):
        assign(x, builder.lift(value))
    else:
        assign(x, builder.record(BASIC.convert, (value,), {"dtype": x.dtype}))


def writing_trace(x: Tracer) -> Builder:
    """The trace that records a write into `x`.

    It is the innermost one, or an enclosing one that `x` belongs to if all traces inside of that
    one run their function once: else the write would happen another number of times.
    """
    state = THREAD.state
    if state.bodies and x.builder.live:
        refuse_uncarried(x, innermost())
    closed = state.closed
    if closed is not None:
        x = own(closed, x)
    if not x.builder.live:
        raise leaked(x)
    root, builder = settle(x), innermost()
    if builder is None or (closed is not None and captured(closed, root)):
        raise foreign(root)
    for one in written_with(x):
        if one.builder is not builder and made_inside(one, builder):
            adopt(one, builder)
    inner: Builder | None = builder
    while inner is not None and inner is not root.builder:
        if inner.what not in RUN_ONCE:
            raise foreign(root)
        inner = inner.outer
    if inner is None:
        raise foreign(root)
    return inner


def _as_value_of(builder: Builder, value: Value) -> Value:
    """A value of a trace inside of `builder`'s, as a value of `builder`; raise a card if it has
    none there, or one without its derivative."""
    while isinstance(value, Tracer) and value.builder.level > builder.level:
        inner = value.builder
        differentiated = inner.what in DIFFERENTIATING and not is_discrete(value)
        if value.value is None or (differentiated and depends_on_inputs(value)):
            raise _inner_value_written(value)
        value = value.value
    return value


def _inner_value_written(value: Tracer) -> InPlaceError:
    """The card for a value that an enclosing trace cannot hold."""
    used, inner = resolve(here()), value.builder
    return InPlaceError(
        f"A value of {inner.what}({inner.name}) was written into an array of an outer function.",
        (
            ("value", f"{value.aval} of {inner.what}({inner.name})"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "a value that the inner function differentiates or maps has no derivative and"),
            ("why", "no batch axis outside of it."),
            ("write", "x = x.copy()                in the inner function, before it"),
            ("write", "return the new array from the inner function, and assign it outside"),
        ),
    )
