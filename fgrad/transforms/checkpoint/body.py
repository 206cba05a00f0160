"""L4. Eager checkpoints: record the body without residuals, and recompute them for the pullback.

    forward    the function runs once, on known values; its equations are kept, its values are not
    pullback   the values that a derivative reads, and those that these are made of, are computed

Python runs the function once, as without a checkpoint: random draws, branches, and what is read
from outside are what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import Loc, RawLoc, here, resolve
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.order import with_orders
from fgrad.ir.primitive import Opaque, Primitive
from fgrad.ir.program import Program
from fgrad.trace import UNREAD, Builder, Tracer, Value, bind, trace
from fgrad.tracing.layouts import mark, orders_known
from fgrad.tracing.record import Record, new, passed_by
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.arguments import refuse_writes
from fgrad.transforms.core.outer_context import Beneath
from fgrad.transforms.core.tape import Tape, active_values
from fgrad.transforms.core.wrap import as_value
from fgrad.typing import EqnParams, PyTree

_ARRAYS = (np.ndarray, np.generic)


class Step(NamedTuple):
    """An equation of a body: the fields of a record, without values, and how to compute it."""

    prim: Primitive
    operands: Sequence[PyTree]
    values: Sequence[PyTree]
    params: EqnParams
    outs: Sequence[int]
    loc: RawLoc | Loc
    via: tuple[str, ...]
    computed: bool  # whether the results are needed
    reads: Sequence[int]  # the places of the operands that a derivative reads
    reads_out: bool
    last: Sequence[int]  # the numbers of values that no later step needs


class Body:
    """The equations of a function of flat values, the first of which it closes over."""

    __slots__ = (
        "avals",
        "count",
        "inputs",
        "name",
        "needed",
        "orders",
        "outputs",
        "program",
        "steps",
    )

    def __init__(
        self, builder: Builder, inputs: Sequence[Tracer], outputs: Sequence[Value]
    ) -> None:
        self.name = builder.name
        self.count = builder.count
        self.inputs = [x.index for x in inputs]
        self.avals = [x.aval.strong() for x in inputs]
        self.outputs = [x.index for x in outputs if type(x) is Tracer]
        self.orders = orders_known([x for x in outputs if type(x) is Tracer])
        needed = bytearray(self.count)
        self.steps = [_step(record, needed) for record in reversed(builder.records)]
        self.steps.reverse()
        self.needed = [bool(needed[k]) for k in self.inputs]  # inputs that the pullback reads
        self.program: Program | None = None

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        state = {name: getattr(self, name) for name in self.__slots__}
        state["steps"] = [step._replace(loc=resolve(step.loc)) for step in self.steps]
        return None, state

    def tape(self, values: Sequence[Value], wanted: Sequence[bool]) -> Tape:
        """The tape of the function at some values, from the wanted ones of its inputs."""
        if all(wanted):
            targets, active = self.inputs, bytearray(b"\1") * self.count
        else:
            targets = [k for k, want in zip(self.inputs, wanted, strict=True) if want]
            active = active_values(self.count, targets, self.steps)
        env: list[Value | None] = [None] * self.count
        for k, x in zip(self.inputs, values, strict=True):
            env[k] = x
        loc = THREAD.state.loc
        try:
            records = [_filled(step, env, active) for step in self.steps]
        finally:
            THREAD.state.loc = loc
        return Tape.of(records, active, targets, self.outputs)

    def run(self, values: Sequence[Value]) -> list[Value]:
        """The results for other values, or tracers, by binding all equations."""
        env: dict[int, Value] = dict(zip(self.inputs, values, strict=True))
        state = THREAD.state
        saved, outer = state.loc, state.via
        try:
            for step in self.steps:
                prim, operands, _, params, outs, loc, via, *_ = step
                state.loc, state.via = loc, passed_by(via, outer)
                inner = params.get("program")
                if type(inner) is Body:
                    params = {**params, "program": inner.closed()}
                out = bind(prim, *[env[x] if type(x) is int else x for x in operands], **params)
                env.update(zip(outs, out if prim.multiple else (out,), strict=True))
        finally:
            state.loc, state.via = saved, outer
        return [env[k] for k in self.outputs]

    def closed(self) -> Program:
        """The body as a program."""
        if self.program is None:
            traced = trace(lambda *xs: self.run(xs), self.avals, self.name, "checkpoint", True)
            self.program = with_orders(traced.program, self.orders)
        return self.program


def _step(record: Record, needed: bytearray) -> Step:
    """A record without values; `needed` says which values later ones need, and learns of these."""
    prim, operands, values, params, outs, results, loc, via = record
    reads: list[int] = []
    reads_out = False
    saves = prim.save is not None
    if prim.discrete:
        values = ()
    elif saves:
        values = [aval_of(x) for x in values]
    else:
        reads = [
            i
            for i, k in enumerate(operands)
            if type(k) is int and values[i] is not None and type(values[i]) is not Aval
        ]
        if reads:
            values = [None if i in reads else x for i, x in enumerate(values)]
        reads_out = any([y is not None and type(y) is not Aval for y in results])
    computed = saves or reads_out or prim.effect or any([needed[k] for k in outs])
    last: list[int] = []
    for k in operands if computed else [operands[i] for i in reads]:
        if type(k) is int and not needed[k]:
            needed[k] = 1
            last.append(k)
    fields = (prim, operands, values, params, outs, loc, via, computed, reads, reads_out, last)
    return new(Step, fields)


def _filled(step: Step, env: list[PyTree], active: bytearray) -> Record:
    """The record of an equation; `env` holds the values that are still needed."""
    prim, operands, values, params, outs, loc, via, computed, reads, reads_out, last = step
    results: Sequence[Value | None] = UNREAD
    if computed:
        THREAD.state.loc = loc
        xs = [env[x] if type(x) is int else x for x in operands]
        if prim.save is not None:
            return _saved(step, xs, env, active)
        result = prim.evaluate_rule(*xs, **params)
        if prim.multiple:
            for k, y in zip(outs, result, strict=True):
                env[k] = y
            results = tuple(result) if reads_out else (None,) * len(outs)
        else:
            env[outs[0]] = result
            if reads_out:
                results = (result,)
    if reads:
        values = [env[x] if i in reads else values[i] for i, x in enumerate(operands)]
    for k in last:
        env[k] = None
    return new(Record, (prim, operands, values, params, outs, results, loc, via))


def _saved(step: Step, xs: list[Value], env: list[PyTree], active: bytearray) -> Record:
    """The record of an equation that keeps residuals of its own."""
    prim, operands, params, outs = step.prim, step.operands, step.params, step.outs
    traced = [type(x) is int and bool(active[x]) for x in operands]
    results, residuals = prim.save(xs, traced, params)  # type: ignore[misc]
    for k, y in zip(outs, results, strict=True):
        env[k] = y
    for k in step.last:
        env[k] = None
    params = {**params, "saved": residuals}
    if residuals is None:
        return Record(prim, operands, xs, params, outs, tuple(results), step.loc, step.via)
    values = [aval_of(x) for x in xs]
    return Record(prim, operands, values, params, outs, (None,) * len(outs), step.loc, step.via)


class Recording(Beneath):
    """The builder of a body, in a trace that is differentiated or in another body."""

    __slots__ = ("within",)

    def __init__(self, name: str, within: Builder) -> None:
        super().__init__("checkpoint", name, abstract=True)
        self.keeps = False
        self.within = within
        self.origins = {}

    def snapshot(self, x: np.ndarray) -> np.ndarray:
        """A constant as it is now; it stays so as long as the enclosing trace needs it."""
        if not x.flags.c_contiguous:
            self.reordered = True
        return self.within.snapshot(x)


class Ran(NamedTuple):
    """What came of running a function in a trace; its body has the traced results alone."""

    body: Body
    operands: list[Value]  # what it closes over, then its traced arguments
    results: list[PyTree]  # as they are without the trace
    traced: list[bool]
    treedef: tree.TreeDef
    builder: Builder | None  # the trace that all operands belong to, if it takes bodies


def takes_body(builder: Builder, values: Sequence[Value]) -> bool:
    """Whether a trace is differentiated in reverse, or a body, and has arrays for some operands."""
    if not builder.eager or not (builder.saves or type(builder) is Recording):
        return False
    tracers = [x for x in values if type(x) is Tracer]
    return all([x.builder is builder and isinstance(x.value, _ARRAYS) for x in tracers])


def run_body(
    fun: Callable[..., PyTree], leaves: Sequence[object], name: str, within: Builder
) -> Ran:
    """Run `fun(*leaves)`, with tracers of its own in place of those of the trace `within`."""
    builder = Recording(name, within)
    try:
        with builder.running, builder:
            given = [x.twin() for x in leaves if type(x) is Tracer]
            inputs = [builder.standing_for(builder.input(x.value, None, x.weak), x) for x in given]
            each = iter(inputs)
            out = fun(*[next(each) if type(x) is Tracer else x for x in leaves])
            outputs, treedef = tree.flatten(out)
            refuse_writes(f"checkpoint({name})", inputs, outputs)
            outs = [builder.lift(as_value(x, f"a result of {name}")) for x in outputs]
            captured = list(builder.captures.values())
            body = Body(builder, [*[found[2] for found in captured], *builder.inputs], outs)
            traced = [type(y) is Tracer for y in outs]
            results: list[PyTree] = [y.value if type(y) is Tracer else y for y in outs]
            operands = [*[found[1] for found in captured], *given]
            owner = _owner(operands) if captured else within
            return Ran(body, operands, results, traced, treedef, owner)
    finally:
        builder.release()


def _owner(operands: Sequence[Value]) -> Builder | None:
    builders = {x.builder for x in operands if type(x) is Tracer}
    found = builders.pop() if len(builders) == 1 else None
    return found if found is not None and takes_body(found, operands) else None


def append(prim: Primitive, builder: Builder, ran: Ran, policy: Opaque | None) -> list[Value]:
    """The results of a body, as one equation of a trace."""
    body = ran.body
    values = [
        (x.value if type(x) is Tracer else x) if read else aval_of(x)
        for x, read in zip(ran.operands, body.needed, strict=True)
    ]
    numbers = [x.index if type(x) is Tracer else x for x in ran.operands]
    results: list[PyTree] = [
        builder.new(y, None) if traced else y
        for y, traced in zip(ran.results, ran.traced, strict=True)
    ]
    made = [y for y, traced in zip(results, ran.traced, strict=True) if traced]
    outs = tuple([y.index for y in made])
    params = {"program": body, "policy": policy}
    unread = (None,) * len(outs)
    record = (prim, numbers, values, params, outs, unread, here(), THREAD.state.via)
    builder.records.append(new(Record, record))
    for y, in_order in zip(made, body.orders, strict=True):
        if not in_order:
            mark(y, False)
    return results
