"""L2. Tracing: every operation calls `bind`; a `Builder` records it as an equation.

`bind(prim, *operands, **params)` evaluates with NumPy when no operand is a tracer.  Otherwise the
innermost builder that owns an operand records an equation.  A tracer of an enclosing builder that
is used inside becomes a captured input of the inner one: nested transforms, closures and partial
evaluation follow, as what a linear function captures are its residuals.

An eager builder (grad, vjp, jvp, linearize, vmap) carries values: each equation whose operands are
known is evaluated in the enclosing context while it is recorded.  `jit` builders carry none.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from fgrad.base.gc_policy import collector_paused, collector_relaxed
from fgrad.base.sizes import OPEN, is_symbolic
from fgrad.base.source import Loc, RawLoc, here
from fgrad.errors import FgradError
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.primitive import OUT, Places, Primitive, Rule
from fgrad.ir.program import Lit, Program, Var
from fgrad.tracing.assign import Frozen, Root, View, enclosing
from fgrad.tracing.axes import Axis, aligned, bind_over_axes, typed, within
from fgrad.tracing.closed import Captured, holds, own, takes
from fgrad.tracing.constants import constant, thaw_constants
from fgrad.tracing.layouts import told_orders
from fgrad.tracing.on_device import DEVICES, OnDevice, bind_on_device, leaders, leads
from fgrad.tracing.readout import number_of
from fgrad.tracing.record import Atoms, Numbered, Record, TracedProgram, forget, new, passed_by
from fgrad.tracing.tables import (
    alias_functions,
    essentials,
    numpy_functions,
    store_out,
    ufunc_methods,
    unsupported_card,
)
from fgrad.tracing.texts import text_asked
from fgrad.tracing.thread_state import THREAD, Hides, State
from fgrad.tracing.trace_errors import leaked, needs_value, outlived, show_card
from fgrad.typing import Array, DType, Operators, PyTree

FORWARD = frozenset({"jvp", "linearize"})  # traces that are differentiated forward
NOTHING: frozenset[int] = frozenset()
UNREAD = (None,)  # the results of a record that no derivative reads


class Tracer(Operators if TYPE_CHECKING else object):
    """A stand-in for an array inside a trace.  `value` is what it is in the enclosing context
    (an array or an outer tracer), or None where that is not known yet."""

    __slots__ = ("__weakref__", "known_aval", "builder", "index", "memory", "value", "weak")
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        builder: Builder,
        index: int,
        value: Value | None,
        aval: Aval | None,
        weak: bool = False,
    ) -> None:
        self.builder = builder
        self.index = index
        self.value = value
        self.known_aval = aval
        self.weak = weak
        self.memory: View | Root | None = None  # see tracing/assign.py

    def twin(self) -> Tracer:
        """A new handle of the current value, not affected by later assignments."""
        closed = THREAD.state.closed
        return (self if closed is None else own(closed, self)).handle()

    def handle(self) -> Tracer:
        """Another handle, also of a value from outside of a custom function."""
        out = Tracer(self.builder, self.index, self.value, self.known_aval, self.weak)
        if self.builder is not THREAD.state.builder and self.shape:
            out.memory = Root(THREAD.state.opened)
        return out

    @property
    def aval(self) -> Aval:
        """The shape, dtype and weakness of the traced array."""
        aval = self.known_aval
        if aval is None or aval.weak != self.weak:
            known = aval if aval is not None else aval_of(self.value)
            aval = self.known_aval = known.like(known.shape, self.weak)
        return aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        aval = self.known_aval
        return self.value.shape if aval is None else aval.shape  # type: ignore[union-attr]

    @property
    def dtype(self) -> DType:
        """The NumPy dtype."""
        aval = self.known_aval
        return self.value.dtype if aval is None else aval.dtype  # type: ignore[union-attr]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        value = concrete(self)
        if not self.builder.live and value is not None:
            return repr(value)
        text_asked(self, value)
        known = "" if value is None else f" = {value!r}"
        return f"Tracer({self.aval}{known})"

    def __str__(self) -> str:
        value = None if self.builder.live else concrete(self)
        return repr(self) if value is None else str(value)

    def __format__(self, spec: str) -> str:
        return format(known_value(self), spec) if spec else str(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a traced array of shape ()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        if not self.shape:
            raise TypeError("iteration over a traced array of shape ()")
        return (self[i] for i in range(self.shape[0]))  # read when it comes, as NumPy does

    def __bool__(self) -> bool:
        value = concrete(self)
        if value is None:
            raise needs_value("bool", self)
        return bool(value)

    def __float__(self) -> float:
        return float(number_of(self, concrete(self)))

    def __int__(self) -> int:
        return int(known_value(self))

    def __complex__(self) -> complex:
        return complex(number_of(self, concrete(self)))

    def __index__(self) -> int:
        value = concrete(self)
        if value is None:
            raise needs_value("integer", self)
        return operator.index(value.item() if self.weak else value)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> PyTree:
        if leaders and not leaders.isdisjoint(map(type, inputs)):
            return NotImplemented
        if "out" in kwargs:
            return store_out.call(kwargs.pop("out"), ufunc, method, inputs, kwargs)
        if method == "__call__":
            function = numpy_functions.get(ufunc) or numpy_functions.find(ufunc)
            if function is not None:
                return function(*inputs, **kwargs) if kwargs else function(*inputs)
        elif method in ufunc_methods:
            return ufunc_methods[method](ufunc, *inputs, **kwargs)
        raise unsupported_card.call(ufunc, method)

    def __array_function__(
        self, func: Callable[..., PyTree], types: Collection[type], args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> PyTree:  # fmt: skip
        if (DEVICES or leaders) and leads(types):
            return NotImplemented  # it lifts itself
        function = numpy_functions.get(func) or numpy_functions.find(func)
        if function is None:
            raise unsupported_card.call(func, "__call__")
        if kwargs and kwargs.get("out") is not None:
            return store_out.call(kwargs.pop("out"), func, "__call__", args, kwargs)
        out = function(*args, **kwargs) if kwargs else function(*args)
        for a in args:
            if out is a:
                return own_handle(out, func, args)
        return out

    def __copy__(self) -> Tracer:
        return self.twin()

    def __deepcopy__(self, _memo: object) -> Tracer:
        return self.twin()


Value: TypeAlias = Array | Tracer  # a NumPy array or scalar, or a tracer


def own_handle(out: PyTree, func: object, args: Sequence[object]) -> PyTree:
    """A handle of its own for the result of a function that copies in NumPy, not here."""
    if type(out) is Tracer and func not in alias_functions:
        return out.twin() if any([out is a for a in args]) else out
    return out


def innermost() -> Builder | None:
    """The innermost open builder of this thread; drops builders left open by interrupts."""
    state = THREAD.state
    while (builder := state.builder) is not None and not builder.running.locked():
        builder.__exit__()
    return builder


class Builder:
    """Records equations while it is open: `with builder.running, builder: ...`

    An interrupt (Ctrl-C) may come just where the block ends, and then nothing that is written in
    Python runs any more.  A lock is released all the same: a builder whose lock is not held has
    ended, and `innermost` forgets it.

    Arguments:
        what: the transform that traces, for messages: "grad", "jit", ...
        name: the name of the user's function.
        eager: whether equations with known operands are evaluated while they are recorded.
        saves: whether it is differentiated in reverse, so that primitives may keep residuals.
        keeps: whether records keep all values, also those that no derivative reads.
    """

    __slots__ = (
        "_loc", "outer", "_via", "around", "axes", "before", "captures", "card",
        "catches", "constants", "count", "eager", "frozen", "inputs", "keeps", "layouts", "level",
        "live", "name", "names", "narrowed", "opened", "origins", "outlives", "plain", "records",
        "reordered", "running", "saves", "shared", "state", "taken", "thread", "varied", "what",
    )  # fmt: skip

    def __init__(
        self, what: str, name: str, eager: bool, saves: bool = False, keeps: bool = False
    ) -> None:
        essentials.call()
        self.what = what
        self.name = name
        self.eager = eager
        self.saves = saves
        self.keeps = keeps
        self.level = self.opened = 0
        self.live = False
        self.plain = False  # open, and the fast path may be taken
        self.axes: tuple[Axis, ...] = ()  # named ones that were open when it was opened
        self.varied: dict[tuple[int, str], PyTree] = {}  # values that were made to vary
        self.before: Sequence[tuple[Builder, int]] = ()  # enclosing traces, their values so far
        self.shared: dict[int, object] = {}  # lists that may have several names
        self.outlives = what in ("vjp", "linearize")  # the records are used after the trace
        self.frozen: Frozen = []
        self.records: list[Record] = []
        self.count = 0
        self.captures: dict[int, Captured] = {}
        self.inputs: list[Tracer] = []
        self.names: Callable[[], Sequence[str]] | None = None  # of the inputs, for messages
        self.origins: dict[int, Value] | None = None  # what inputs of known values stand for
        self.constants = NOTHING  # values without derivative, see tracing/readout.py
        self.layouts: dict[int, bool] = {}  # which values lie in C order, see tracing/layouts.py
        self.taken = NOTHING  # inputs that were taken to do so, without being seen
        self.reordered = False  # whether there are such that do not
        self.narrowed: dict[int, set[np.dtype]] = {}  # Python integers, and what they must fit
        self.thread = 0
        self.state: State = None  # type: ignore[assignment]  # of its thread, once it is open
        self.around: Builder | None = None  # the closed trace around this one
        self.catches = False  # whether it is closed, and captures all that it uses
        self.running = threading.Lock()
        self.card: FgradError | None = None  # raised where a library was at work

    def __enter__(self) -> Builder:
        self.state = state = THREAD.state
        outer = None if state.builder is None else innermost()
        self.outer, self._loc, self._via = outer, state.loc, state.via
        self.level = 1 if outer is None else outer.level + 1
        self.thread = threading.get_ident()
        self.before = () if outer is None else enclosing(outer)
        self.opened = state.opened = state.opened + 1
        self.axes = state.axes
        self.plain = not (self.keeps or self.axes)
        self.live = True
        self.around = state.closed
        state.builder, state.loc, state.via = self, None, ()  # no interrupt comes after this
        return self

    def __exit__(
        self, _type: object = None, error: BaseException | None = None, _traceback: object = None
    ) -> None:
        if self.frozen:
            thaw_constants(self, error)
        self.live = self.plain = False
        self.before = ()
        state = self.state
        state.builder, state.loc, state.via = self.outer, self._loc, self._via
        state.closed = self.around
        self.outer, self.around = None, None
        if error is not None:
            show_card(error, self)

    def new(self, value: Value | None, aval: Aval | None, weak: bool = False) -> Tracer:
        """A fresh tracer of this builder."""
        tracer = Tracer(self, self.count, value, aval, weak)
        self.count += 1
        return tracer

    def input(self, value: Value | None, aval: Aval | None = None, weak: bool = False) -> Tracer:
        """A tracer for an argument: with its value (eager) or with an aval alone."""
        if type(value) is Tracer:
            given: Tracer = value if self.around is None else own(self.around, value)
            value = given.handle()  # later assignments to it must not reach what is recorded
            self.reordered |= given.builder.reordered
        elif type(value) is np.ndarray and not value.flags.c_contiguous:
            self.reordered = True
        index = self.count
        self.count = index + 1
        # The function may write into its arguments.
        self.inputs.append(Tracer(self, index, value, aval, weak))
        return Tracer(self, index, value, aval, weak)

    def capture(self, outer: Tracer) -> Tracer:
        """The inner stand-in of a tracer of an enclosing builder."""
        found = self.captures.get(id(outer))
        if found is not None:
            if found[3] is None or not outer.builder.live or found[3] == outer.index:
                return found[2]
            self.captures[id(found)] = found  # `outer` was written since: it is another value now
        x = outer if self.around is None else own(self.around, outer)
        if not x.builder.live:
            value = lasting(x)
            if type(value) is Tracer:
                return value if value.builder is self else self.capture(value)
            return self.stand_in(outer, value, value if self.eager else None)
        if x.builder.thread != self.thread:
            raise leaked(outer)
        return self.stand_in(outer, x, x.handle() if self.eager else None)

    def stand_in(self, outer: Tracer, value: Value, known: Value | None) -> Tracer:
        """A tracer for `outer`, which is `value` in the enclosing context."""
        if value is outer:
            value = outer.handle()  # `outer` may become a value of this trace
        inner = self.new(known, outer.aval, outer.weak)
        self.reordered |= outer.builder.reordered
        index = outer.index if outer.builder.live else None
        self.captures[id(outer)] = (outer, value, inner, index)
        return inner

    @overload
    def lift(self, value: Tracer) -> Tracer: ...
    @overload
    def lift(self, value: Value) -> Value: ...

    def lift(self, value: Value) -> Value:
        """Convert a result for this builder: its own tracer, a captured one, or a constant."""
        if isinstance(value, Tracer) and value.builder is not self:
            if value.builder.live and value.builder.level > self.level:
                raise leaked(value)
            return self.capture(value)
        return value.twin() if type(value) is Tracer and value.memory is not None else value

    def record(self, prim: Primitive, operands: Sequence[Any], params: dict[str, object]) -> PyTree:
        """Append an equation; evaluate it outside when its operands are known."""
        if not self.live:
            return bind(prim, *[lasting(x) for x in operands], **params)
        closed = self.state.closed
        if closed is not None and takes(closed, self, operands):
            return closed.record(prim, operands, params)
        ins: list[object] = []
        values: list[PyTree] = []
        known, outer, pattern = self.eager, False, 1
        if self.axes:
            operands, params, known = aligned.call(self, prim, operands, params)
            outer = prim.meets_axes
        for x in operands:
            pattern += pattern
            if type(x) is Tracer:
                pattern += 1
                x = x if x.builder is self else self.capture(x)
                value = x.value
                if value is None:
                    known, value = False, x.aval
                elif type(value) is Tracer:
                    outer = True
                ins.append(x.index)
                values.append(value)
            else:
                if type(x) is np.ndarray or type(x) is int:
                    x = self.snapshot(x) if type(x) is np.ndarray else np.int64(x)
                ins.append(x)
                values.append(x)
        self.reordered |= prim.reorders is not None or prim.holds is not None
        state = self.state
        loc = state.loc or here()
        if not known:
            avals = [aval_of(x) for x in values]
            result = (
                typed.call(prim, avals, params) if self.axes else prim.type_of(*avals, **params)
            )
        elif prim.save is not None and (self.saves or (prim.linearizes and self.what in FORWARD)):
            result, params = self._save(prim.save, ins, values, params, loc)
        elif outer:
            result = self.outside(loc, bind, prim, *values, **params)
        else:
            result = prim.evaluate_rule(*values, **params)
        unread: Places = ()
        if known and not self.keeps:
            found = prim.unread.get(pattern)
            unread = prim.unread_by(pattern) if found is None else found
            if unread or "saved" in params:
                unread = forget(self.saves, unread, params, ins, values)
        if not prim.multiple:
            k = self.count
            self.count = k + 1
            kept = UNREAD if OUT in unread else (result,)
            fields = (prim, ins, values, params, (k,), kept, loc, state.via)
            self.records.append(new(Record, fields))
            return Tracer(self, k, result, None) if known else Tracer(self, k, None, result)
        results = tuple(result)
        start = self.count
        self.count = start + len(results)
        outs = tuple(range(start, self.count))
        kept = (None,) * len(results) if OUT in unread else results
        self.records.append(new(Record, (prim, ins, values, params, outs, kept, loc, state.via)))
        pairs = zip(outs, results, strict=True)
        return tuple([Tracer(self, k, *((x, None) if known else (None, x))) for k, x in pairs])

    def _save(
        self, save: Rule, ins: Sequence[object], values: Sequence[PyTree],
        params: dict[str, object], loc: RawLoc | Loc,
    ) -> tuple[PyTree, dict[str, object]]:  # fmt: skip
        """Evaluate a primitive that keeps residuals of its own for the pullback."""
        outer = {found[2].index for found in self.captures.values()}
        traced = [type(x) is int and x not in outer for x in ins]
        result, residuals = self.outside(loc, save, values, traced, params)
        return result, {**params, "saved": residuals}

    def outside(
        self, loc: RawLoc | Loc, call: Callable[..., PyTree], *args: object, **params: object
    ) -> PyTree:
        """Call a function in the enclosing context, at the location of an equation."""
        state = self.state
        saved = state.loc, state.closed
        state.loc, state.closed = loc, self.around
        if self.axes:
            call = within(self.outer, call)
        try:
            return call(*args, **params)
        finally:
            state.loc, state.closed = saved

    def snapshot(self, x: np.ndarray) -> np.ndarray:
        """A copy of a constant, so that later writes by the user do not change the record."""
        return constant(self, x)

    def close(self, outputs: Sequence[Value], copy_consts: bool = False) -> TracedProgram:
        """The recorded equations as a program; its first inputs are the captured values."""
        captured = list(self.captures.values())
        given = [found[2] for found in captured] + self.inputs
        inputs = [Numbered(x.index, x.aval) for x in given]
        outs = [Numbered(x.index, x.aval) if type(x) is Tracer else x for x in outputs]
        atoms = Atoms(self.count, copy_consts)
        with collector_paused():
            program = atoms.program(self.name, inputs, self.records, outs, self.what)
        if self.reordered:
            program = told_orders(program, given, outputs)
        sizes = self.narrowed
        fits = {k: sizes[x.index] for k, x in enumerate(self.inputs) if x.index in sizes}
        return TracedProgram(program, [found[1] for found in captured], fits)

    def release(self) -> None:
        """Drop the records, so that no reference cycle keeps arrays alive."""
        self.state.recorded += len(self.records)
        self.records = []
        self.captures = {}
        self.inputs = []
        self.varied, self.axes = {}, ()


def lasting(x: PyTree) -> Value:
    """A value that may be used now: for a tracer of an ended trace what it was in the enclosing
    context; a card if that is not known."""
    closed = THREAD.state.closed
    if closed is not None and type(x) is Tracer:
        x = own(closed, x)
    value = x
    while type(value) is Tracer and not value.builder.live:
        value = value.value
    if value is None:
        raise outlived(x)
    return value


def bind(prim: Primitive, *operands: object, **params: object) -> PyTree:
    """Apply a primitive to values or tracers; the only function that records equations.

    Returns an array or tracer, or a tuple of them if the primitive has several outputs.
    """
    if DEVICES and any([isinstance(x, OnDevice) for x in operands]):
        return bind_on_device.call(prim, operands, params)
    if prim.meets_axes and THREAD.state.axes:
        return bind_over_axes.call(prim, operands, params)
    level, builder = -1, None
    for x in operands:
        if type(x) is Tracer and x.builder.level > level:
            builder = x.builder
            level = builder.level
    if builder is None:
        own = prim.effect or (OPEN.traces and any(map(is_symbolic, params.values())))
        builder = innermost() if own or not operands else None
        while own and builder is not None and builder.eager:
            builder = builder.outer  # what acts belongs to the program that is being made
        if builder is None or builder.eager:
            return prim.evaluate_rule(*operands, **params)
    return builder.record(prim, operands, params)


def trace(
    fun: Callable[..., Iterable[Value]],
    avals: Sequence[Aval],
    name: str = "program",
    what: str = "trace",
    copy_consts: bool = False,
    names: Callable[[], Sequence[str]] | None = None,
    hidden: Hides | None = None,
) -> TracedProgram:
    """Trace `fun`, a function of flat tracers to a sequence of values, without concrete values."""
    builder = Builder(what, name, eager=False)
    builder.names = names
    if hidden is not None:
        hidden.builder = builder
    try:
        with collector_relaxed(), builder.running, builder:
            inputs = [builder.input(None, aval, aval.weak) for aval in avals]
            outputs = [builder.lift(out) for out in fun(*inputs)]
            return builder.close(outputs, copy_consts)
    finally:
        builder.release()


def run(program: Program, args: Sequence[Value]) -> list[Value]:
    """Evaluate a program by binding its equations in the current context, with their locations."""
    env: dict[Var, Value] = dict(zip(program.inputs, args, strict=True))
    env.update(program.consts)
    state = THREAD.state
    saved, outer = state.loc, state.via
    try:
        for prim, inputs, params, outputs, loc, via in program.eqns:
            state.loc = loc
            state.via = passed_by(via, outer)
            ins = [x.value if type(x) is Lit else env[x] for x in inputs]
            out = bind(prim, *ins, **params)
            if prim.multiple:
                env.update(zip(outputs, out, strict=True))
            else:
                env[outputs[0]] = out
    finally:
        state.loc, state.via = saved, outer
    return [x.value if type(x) is Lit else env[x] for x in program.outputs]


def concrete(x: object) -> Any:
    """The array or scalar behind a value through all enclosing traces; None if unknown."""
    closed = THREAD.state.closed
    if closed is not None and isinstance(x, Tracer) and holds(closed, x):
        x = closed.capture(x)
    return known_array(x)


def known_array(x: object) -> Any:
    """As `concrete`, of a value from outside of a custom function too."""
    while isinstance(x, Tracer):
        x = x.value
    return x.numpy()[()] if isinstance(x, OnDevice) else x


def known_value(x: Tracer) -> Any:
    """The concrete value of a tracer; an error card if it is unknown."""
    value = concrete(x)
    if value is None:
        raise needs_value("number", x)
    return value
