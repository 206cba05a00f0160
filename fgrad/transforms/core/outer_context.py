"""L4. Run user functions (custom rules, checkpoint bodies) in the context enclosing a trace.

An equation is evaluated in the context that encloses its trace, *beneath* the trace.  If it calls a
user function, the function runs there too, with the trace *hidden*: a tracer of a hidden trace that
the function closes over counts as its value, unless a derivative would get lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import here, resolve
from fgrad.errors import CustomRuleError, Row
from fgrad.ir.aval import aval_of
from fgrad.ir.order import Orders
from fgrad.ir.primitive import Opaque, Primitive
from fgrad.ir.program import Program
from fgrad.ops.elementwise import convert_p, stop_gradient_p
from fgrad.ops.families import batch_first
from fgrad.ops.shape import index
from fgrad.trace import Builder, Tracer, Value, bind, concrete, innermost, known_array, run
from fgrad.tracing.axes import open_axis
from fgrad.tracing.closed import own
from fgrad.tracing.layouts import mark, orders_known
from fgrad.tracing.readout import DIFFERENTIATING, depends_on_inputs
from fgrad.tracing.trace_errors import leaked, made_at
from fgrad.transforms.core.arguments import refuse_writes
from fgrad.transforms.core.batching import Batched, example_input, run_batched
from fgrad.transforms.core.closure_capture import closing, settled
from fgrad.transforms.core.derived_programs import batched_program, derived_program
from fgrad.transforms.core.wrap import as_value, is_weak, outside
from fgrad.typing import PyTree


class _Hidden(threading.local):
    """The traces that are hidden while this thread runs user code.

    `derivatives` says what becomes of a derivative by a value that the code closes over: it is
    "refused" by a card, "stopped" (the value counts as a constant), or "open" (not decided yet).
    """

    builders: tuple[Builder, ...] = ()
    derivatives: str = "refused"
    trying: tuple[PyTree, ...] = ()  # custom functions whose rules run to find their closure


HIDDEN = _Hidden()


class hiding:
    """Context in which tracers of some builders count as their values."""

    __slots__ = ("builders", "saved")

    def __init__(self, *builders: Builder) -> None:
        self.builders = builders

    def __enter__(self) -> None:
        self.saved = HIDDEN.builders
        HIDDEN.builders = (*self.saved, *self.builders)

    def __exit__(self, *_exc: object) -> None:
        HIDDEN.builders = self.saved


@contextmanager
def derivatives(are: str) -> Generator[None]:
    """A context in which derivatives of what a function closes over are "stopped" or "open"."""
    saved, HIDDEN.derivatives = HIDDEN.derivatives, are
    try:
        yield
    finally:
        HIDDEN.derivatives = saved


def unhidden(x: Value, of: str) -> Value:
    """A captured value in the context that encloses the hidden traces; raise a card if it is
    differentiated there, and that derivative would get lost."""
    refused = HIDDEN.derivatives == "refused"
    while type(x) is Tracer and x.builder in HIDDEN.builders:
        if refused and x.builder.what in DIFFERENTIATING and depends_on_inputs(x):
            raise closes_over(x, of)
        assert x.value is not None
        x = x.value
    return x


def closes_over(x: Tracer, of: str) -> CustomRuleError:
    """The card for a custom function that reads a differentiated value around its arguments."""
    used = resolve(here())
    return closure_card(of, (("value", origin_of(x)), ("used", f"{used}:  {used.text()}")))


def origin_of(x: Tracer) -> str:
    """What a tracer is, and where it was made."""
    made = made_at(x)
    place = f"made at {made}:  {made.text()}" if made else f"an argument of {x.builder.name}"
    return f"{x.aval} {place}"


def closure_card(of: str, rows: Sequence[Row]) -> CustomRuleError:
    """The card for a custom function whose derivative is asked for around its arguments."""
    return CustomRuleError(
        f"{of} closes over a value that is being differentiated.",
        (
            *rows,
            ("why", "the rule gives derivatives with respect to the arguments alone."),
            ("write", "pass the value as an argument, and let the rule have its derivative"),
            ("write", "fgrad.stop_gradient(value)     if it counts as a constant"),
        ),
    )


class Beneath(Builder):
    """A builder of user code that runs in the context enclosing the hidden traces.

    An `abstract` one is there for its program: values are known where they are plain arrays.
    Unless the program has a derivative of its own, `origins` says what these stand for.
    """

    __slots__ = ("abstract",)

    def __init__(self, what: str, name: str, abstract: bool = False) -> None:
        super().__init__(what, name, eager=True, keeps=abstract)
        self.abstract = abstract

    def capture(self, outer: Tracer) -> Tracer:
        """The stand-in of a captured value, or of its value in the enclosing context."""
        given = outer if self.around is None else own(self.around, outer)
        if id(outer) in self.captures or not given.builder.live:
            return super().capture(outer)
        if given.builder.thread != self.thread:
            raise leaked(outer)
        x = unhidden(given, self.name)
        if HIDDEN.derivatives == "stopped" and type(x) is Tracer:
            x = self.outside(here(), bind, stop_gradient_p, x)
        known = x.handle() if type(x) is Tracer else x
        inner = self.stand_in(outer, x, known_array(x) if self.abstract else known)
        if not orders_known([outer])[0]:
            mark(inner, False)
        return self.standing_for(inner, x)

    def example(self, x: Value, weak: bool, known: bool = True) -> Tracer:
        """An input for a value, which Python sees where it is a plain array and `known`."""
        value = concrete(x) if known else None
        given = self.input(value, aval_of(x).strong() if value is None else None, weak)
        return self.standing_for(given, x)

    def standing_for(self, inner: Tracer, outer: Value) -> Tracer:
        """Note what an input or captured value is in the enclosing context."""
        if self.origins is not None:
            self.origins[inner.index] = outer
        return inner


class Evaluated(NamedTuple):
    """The result of a user function in the present context."""

    leaves: list[PyTree]
    treedef: tree.TreeDef
    orders: list[bool]  # which of them are known to lie in C order


def evaluate_beneath(
    fun: Callable[..., PyTree],
    values: Sequence[Value],
    name: str,
    weak: Sequence[bool] = (),
    whole: bool = False,
) -> Evaluated:
    """Run `fun(*tracers)` in place of the values, so that what it writes in place is its own.

    Leaves of the result that are no arrays are passed on.  What is written by a function, and not
    by one of its rules, must be among the results: it is `whole` then.
    """
    builder = Beneath("custom rule", name)
    flags = weak or [is_weak(v) for v in values]
    try:
        with builder.running, builder:
            inputs = [builder.input(v, None, w) for v, w in zip(values, flags, strict=True)]
            leaves, treedef = tree.flatten(fun(*inputs))
            if whole:
                refuse_writes(name, inputs, leaves)
            found = [outside(builder, x) for x in leaves]
            return Evaluated(found, treedef, _orders(builder, leaves))
    finally:
        builder.release()


def _orders(builder: Builder, leaves: Sequence[object]) -> list[bool]:
    """Which results of a function lie in C order as far as its trace knows."""
    return [type(x) is not Tracer or orders_known([builder.lift(x)])[0] for x in leaves]


def doubtful(value: Value) -> Value:
    """An array whose order is not known, as a value of the present trace, if that has values:
    NumPy may have laid it out in another way."""
    outer = innermost()
    if outer is None or not outer.eager or type(value) is not np.ndarray:
        return value
    out = outer.record(convert_p, (value,), {"dtype": value.dtype})
    mark(out, False)
    return out


class Call(Opaque):
    """A parameter that belongs to one call of a user function.

    The function has run when its equation is bound: while that goes on, the call has the results,
    and the program is not run again.
    """

    results: Sequence[Value] | None = None

    def bound(
        self,
        results: Sequence[Value] | None,
        prim: Primitive,
        operands: Sequence[Value],
        **params: object,
    ) -> list[Value]:
        """The equation of the call; `results` are its results if all are known."""
        self.results = results
        try:
            return list(bind(prim, *operands, **params))
        finally:
            self.results = None  # the equation must not keep them alive

    def evaluated(self, program: Program, operands: Sequence[Value]) -> tuple[Value, ...]:
        """The results of the program of the call."""
        return tuple(run(program, operands) if self.results is None else self.results)


class Traced(NamedTuple):
    """A user function as a closed program, whose first inputs are the values it captured.

    `results` are its results if all is known, else None; `handles` the tracers it closes over.
    """

    program: Program
    captured: list[Value]
    treedef: tree.TreeDef
    results: list[Value] | None
    handles: list[Tracer]
    orders: Orders


def trace_beneath(
    fun: Callable[..., PyTree],
    values: Sequence[Value],
    name: str,
    what: str,
    weak: Sequence[bool] = (),
    known: bool = True,
    extra: Callable[[Builder], list[Tracer]] | None = None,
    ruled: bool = False,
    closed: bool = False,
) -> Traced:
    """Trace `fun(*tracers)`; where the values are plain arrays and `known`, Python sees them.

    `extra` chooses values of the trace that become results too.  A `ruled` function has a
    derivative of its own, so that numbers may be read out of this trace.  A `closed` trace captures
    the very tracers that the function uses, and not what is made of them alone.
    """
    builder = Beneath(what, name, abstract=True)
    builder.origins = None if ruled else {}
    flags = weak or [is_weak(v) for v in values]
    try:
        with builder.running, builder:
            inputs = [builder.example(x, w, known) for x, w in zip(values, flags, strict=True)]
            with closing(builder) if closed else nullcontext():
                leaves, treedef = tree.flatten(settled(fun(*inputs)))
            refuse_writes(f"{what}({name})", inputs, leaves)
            outs = [builder.lift(as_value(x, f"a result of {name}")) for x in leaves]
            outs += [] if extra is None else extra(builder)
            traced = builder.close(outs, copy_consts=True)
            found: list[PyTree] = [outside(builder, y) for y in outs]
            orders = tuple(orders_known(outs))
            handles = [found[0] for found in builder.captures.values()]
    finally:
        builder.release()
    results = None if any([x is None for x in found]) else found
    return Traced(traced.program, traced.captured, treedef, results, handles, orders)


def mapped(
    fun: Callable[..., Sequence[Value]],
    size: int,
    inputs: Sequence[tuple[Value, int | None, bool]],
    name: str,
    axis: str | None,
) -> list[Batched]:
    """The results of a function of flat values over a batch, and where their batched axes are.

    Arguments:
        inputs: values, their batched axes, and whether they may differ between examples, which
            is only asked where the batch is along an axis with a name.
    """
    builder = Beneath("vmap", name)
    try:
        with open_axis(axis, size, builder), builder.running, builder:
            alone = [d is None and not (differs and axis) for _, d, differs in inputs]
            given = [
                builder.input(v, None, is_weak(v)) if a else example_input(builder, v, d, axis)
                for (v, d, _), a in zip(inputs, alone, strict=True)
            ]
            outs = [builder.lift(y) if is_value(y) else y for y in fun(*given)]
        env: dict[int, Batched] = {
            x.index: (v, d) for x, (v, d, _), a in zip(given, inputs, alone, strict=True) if not a
        }
        return run_batched(builder.records, env, outs, orders_known(outs), size, axis)
    finally:
        builder.release()


def is_value(x: object) -> bool:
    """Whether a leaf is an array, a NumPy scalar or a tracer."""
    return isinstance(x, (Tracer, np.ndarray, np.generic))


def batched_first(
    program: Program,
    size: int,
    dims: tuple[int | None, ...],
    differ: Sequence[bool] | None = None,
) -> Program:
    """A program on batches, whose results have their batched axis first: those that `differ`
    between examples, all if it is not given."""
    derived = batched_program(program, size, dims)
    wanted = tuple([True] * len(derived.dims) if differ is None else differ)
    if all([d == 0 if w else d is None for d, w in zip(derived.dims, wanted, strict=True)]):
        return derived.program

    def first(*values: Value) -> list[Value]:
        found: list[Value] = []
        results = run(derived.program, values)
        for y, d, w in zip(results, derived.dims, wanted, strict=True):
            if not w and d is None:
                found.append(y)
                continue
            batch = batch_first(size, y, d)
            found.append(batch if w else index(batch, (0,)))
        return found

    key = ("batched first", size, dims, wanted)
    return derived_program(program, key, first, derived.program.in_avals, "vmap")
