"""L5. `jit`: trace a function once for each kind of arguments, compile it, and run native code.

    jit : (a -> b) -> a -> b

The kind of the arguments is their tree structure, the shapes and dtypes of the leaves (Python
scalars count by type: they are weak), the static arguments, and the settings.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fgrad import tree
from fgrad.base.foreign import holds_array, is_foreign, native_order, plain_array, refuse_foreign
from fgrad.base.frames import hides_own_frames
from fgrad.base.keywords import takes_jit_settings
from fgrad.base.lazy_import import lazy_module
from fgrad.base.pickling import Recipe, label_of, reduced
from fgrad.base.sizes import NotShared
from fgrad.base.source import warn_user
from fgrad.base.system import own_lock
from fgrad.compile.backend import BACKENDS, on_host
from fgrad.compile.entry.native import NativeCalls, native_class
from fgrad.compile.jit.call import computed, executable_of
from fgrad.compile.jit.dynamic import Dynamic, Families, checked, takes_symbols, wanted_axes
from fgrad.compile.jit.effects import Effects, Watched, called_back
from fgrad.compile.jit.entries import (
    Arguments,
    Call,
    DeviceCalls,
    Entry,
    Given,
    Short,
    Signature,
    Traceable,
    donated_leaves,
    short_of,
)
from fgrad.compile.jit.recent import RECENT, Use
from fgrad.compile.jit.recorded import recorded, result_of
from fgrad.compile.jit.staged import Staged
from fgrad.compile.jit.static_arguments import (
    ASKED_FOR_VALUES,
    Static,
    as_tuple,
    checked_integers,
    completed,
    known_by_name,
    with_integers,
    without_static,
)
from fgrad.compile.jit.texts import (
    changes_often,
    explain_retrace,
    identifier,
    traced_often,
    unhashable,
    unsupported,
)
from fgrad.config import config
from fgrad.errors import ArgumentError, FgradError, RetraceWarning
from fgrad.ir.aval import DTYPE_NAMES, PYTHON_SCALARS, Aval, aval_of
from fgrad.ir.program import Program
from fgrad.trace import Tracer, Value, trace
from fgrad.tracing.axes import axes_of, open_axes
from fgrad.tracing.capturing import captured_or_plain, user_form
from fgrad.tracing.device_tracing import device_of, lower
from fgrad.tracing.on_device import HOST, OnDevice, device_among
from fgrad.tracing.outside.draws import Draws, generators
from fgrad.tracing.outside.hidden import Hidden, Inputs, candidates, is_other, trace_with_inputs
from fgrad.tracing.outside.watches import Key, Number, Watches
from fgrad.tracing.outside.world import world_of
from fgrad.tracing.record import TracedProgram
from fgrad.transforms.core.arguments import is_writable
from fgrad.transforms.core.wrap import argument_names
from fgrad.typing import P, PyTree, R

if TYPE_CHECKING:
    from fgrad.compile.jit import eager_device
    from fgrad.compile.jit import native as learning
else:
    eager_device = lazy_module("fgrad.compile.jit.eager_device")
    learning = lazy_module("fgrad.compile.jit.native")

_INT_TYPES = (int, np.integer)
MOST_WORLDS = 4  # traces for one kind of arguments that are kept for a world that has changed
MANY_TRACES = 64  # of one function, after which there is a warning
MANY_CHANGES = 8  # of the world, after which there is a warning


@native_class
class Jitted(Staged):
    """A function that is compiled at its first call for each kind of arguments.

    Calls like earlier ones are made natively, without `__call__`.
    """

    __slots__ = ("__dict__", "__weakref__", "native")

    def __init__(
        self,
        fun: Callable[..., object],
        static_argnums: tuple[int, ...],
        static_argnames: tuple[str, ...],
        donate_argnums: tuple[int, ...],
        max_traces: int | None,
        device: str | None,
        capture: bool | None = None,
        dynamic: Dynamic = False,
    ) -> None:
        # The attributes of an object that is no function are its own.
        updated = ("__dict__",) if type(fun) is types.FunctionType else ()
        functools.update_wrapper(self, fun, updated=updated)
        self.fun = fun
        self.static_argnums = static_argnums
        self.static_argnames = static_argnames
        self.donate_argnums = donate_argnums
        self.max_traces = max_traces
        self.device = device  # None: where the calls in it are, or the arguments
        self.capture, self.dynamic = capture, dynamic  # None: as the setting says
        self.entries: dict[Hashable, Entry] = {}
        self.older: dict[Hashable, list[Entry]] = {}  # in a world that has changed
        self.traces = self.changes = 0  # so far: traces, but for those after changes of the world
        self.moved: dict[Key, object] = {}  # what was seen to change outside: arrays, numbers
        self.fixed: dict[Key, object] = {}  # and what a trace could not take as an input
        self.sizes = Families()
        self.is_twin = False
        self.lock = own_lock(self)
        self.native = NativeCalls()
        self.device_calls = DeviceCalls()

    def __repr__(self) -> str:
        return f"<jit of {self._name}>"

    @property
    def _name(self) -> str:
        return label_of(self.fun)

    def with_function(self, fun: Callable[..., object]) -> Jitted:
        """The same for a twin of the function in a trace, which finds tracers outside of it."""
        settings = (self.static_argnums, self.static_argnames, self.donate_argnums)
        made = Jitted(fun, *settings, self.max_traces, self.device, self.capture, False)
        made.is_twin = True
        return made

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., PyTree]:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str | tuple[object, ...]:
        settings = (self.static_argnums, self.static_argnames, self.donate_argnums)
        call = (self.fun, *settings, self.max_traces, self.device, self.capture, self.dynamic)
        return reduced(self, Recipe(Jitted, call, {}))

    @hides_own_frames
    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        last = self.device_calls.last
        if last is not None and not kwargs and last.entry.watches.changed() is None:
            outs = last.outs(args if last.take is None else last.take(args))
            if outs is not None:
                return last.entry.result(outs)
        if config.disable_jit:
            return self.fun(*args, **kwargs)
        is_plain = not (kwargs or self.static_argnums or open_axes())
        on_device = self.device is None or not on_host(self.device)
        short = short_of(args, on_device) if is_plain else None
        entry = None if short is None else self.entries.get(short.key)
        if short is None or entry is None or entry.watches.changed() is not None:
            call = self.traced_call(args, kwargs, short)
        else:
            call = Call(entry, short.leaves, (), Given(args, kwargs, short.leaves), short)
        return self._answer(call)

    def traced_call(
        self, args: tuple[object, ...], kwargs: dict[str, object], short: Short | None
    ) -> Call:
        """Any call, by the whole key: containers, numbers, static arguments, tracers; traced if it
        is the first of its kind."""
        try:
            return self._call_of(args, kwargs, short)
        except ASKED_FOR_VALUES:
            before = self.static_argnums, self.static_argnames
            more = with_integers(self.fun, *before, args, kwargs)
            if self.capture is False or not config.capture or more == before:
                raise
            self.static_argnums, self.static_argnames = more
            try:
                return self._call_of(args, kwargs, None)
            except FgradError:
                self.static_argnums, self.static_argnames = before
            raise

    def _call_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], short: Short | None) -> Call:
        signature = self._signature(args, kwargs)
        leaves = [self._leaf(x, k, signature) for k, x in enumerate(signature.leaves)]
        avals = [aval_of(x) for x in leaves]
        structure = tree.exact(signature.treedef)
        arrays = tuple([k for k, x in enumerate(leaves) if not avals[k].shape and is_writable(x)])
        key = ((config.epoch, open_axes()), structure, tuple(avals), arrays, signature.statics)
        symbols = takes_symbols(leaves)
        entry = self._entry(key, symbols)
        captured: Sequence[Tracer] = ()
        if entry is None:
            with self.lock:
                entry = self._entry(key, symbols)
                if entry is None:
                    entry, captured = self._made(key, signature, leaves, symbols)
        if short is not None and not captured:
            self._file(short.key, entry)
        if entry.fits:
            leaves = checked_integers(entry.fits, leaves)
        return Call(entry, leaves, captured, Given(args, kwargs, signature.leaves), None)

    def _answer(self, call: Call) -> PyTree:
        """The way of every call from its program to its results; see `Call`."""
        entry, given = call.entry, call.given
        effects = entry.effects
        if effects is not None:
            self._check(effects, given, entry.watches)
        outs = self._results(call)
        if effects is not None:
            outs = effects.finish(outs, given.leaves, self._containers(given))
        return entry.result(outs)

    def _results(self, call: Call) -> Sequence[object]:
        """The results of the program: recorded in an open trace, on the device, or native."""
        entry = call.entry
        entry.use.recent = True
        inputs = [*call.captured, *entry.outside(), *call.leaves]
        named = open_axes() and axes_of(entry.program)
        if named or (call.short is None and any([isinstance(x, Tracer) for x in inputs])):
            return recorded(entry, inputs, len(call.given.leaves))
        moved = device_among(inputs)
        device = entry.device or moved or HOST
        if not on_host(device):
            return self._on_device(entry, inputs, device, call.short)
        if moved is None and self._wants_native(entry):
            self._learn(call.given.args, call.given.kwargs, entry)
        return computed(entry.program, inputs, device, entry.donated)

    def _on_device(
        self, entry: Entry, inputs: list[object], device: str, short: Short | None
    ) -> Sequence[object]:
        """The results of a program on a device; the next calls like it are native if possible."""
        plain = not (config.nans or entry.captured or entry.donated or entry.effects)
        if short is not None and plain:
            known = self.device_calls.known.get((id(entry), get_ident()))
            outs = None if known is None else known.outs(tuple(inputs))
            if outs is not None:
                self.device_calls.last = known
                return outs
        program = entry.program
        if config.nans:  # where the first one is made is found on the host
            computed(program, inputs)
        donated = tuple([k for k in entry.donated if isinstance(k, int)])
        outs = eager_device.run_on_device(program, inputs, device, donated)
        if short is not None and plain:
            self.device_calls.learn(entry, device, short.treedef)
        return outs

    def _check(self, effects: Effects, given: Given, outside: Watches) -> None:
        """Refuse arguments that cannot be written, before anything is computed."""

        def names() -> Sequence[str]:
            return self._names(self._signature(given.args, given.kwargs))

        name = f"jit({self._name})"
        effects.check(given.leaves, self._containers(given), name, names, outside)

    def _containers(self, given: Given) -> PyTree:
        """The arguments without the static ones."""
        return self._dynamic(given.args, given.kwargs)[0]

    def _wants_native(self, entry: Entry) -> bool:
        """Whether calls of this kind should be made natively."""
        effects = entry.effects
        native = on_host(entry.device) and not (entry.fits or config.nans)
        native = native and (effects is None or effects.native) and not open_axes()
        native = native and entry.use.kept
        return native and self.native.wants(entry.program)

    def _learn(self, args: tuple[object, ...], kwargs: dict[str, object], entry: Entry) -> None:
        """Have calls like this one made natively from now on, if possible."""
        signature, program, watches = self._signature(args, kwargs), entry.program, entry.watches
        statics = {where: value for where, (_, value) in signature.statics}
        avals = program.in_avals[len(entry.captured) :]
        given = learning.Parameters(args, kwargs, signature.treedef, statics, avals, watches)
        executable = executable_of(program, None, entry.device or HOST, entry.donated)
        effects = entry.effects
        stored = () if effects is None else (effects.leaves, effects.writes)
        made = learning.learn(
            self.native, self, given, program, executable, entry.out_tree, *stored
        )
        if made is not None:
            entry.use.signatures.append(made)

    def _entry(self, key: tuple[Any, ...], symbols: bool) -> Entry | None:
        """What is known of a kind of arguments, in the world as it is; `symbols` is whether it may
        be without equations."""
        try:
            entry = self.entries.get(key)
        except TypeError:
            raise unhashable(self._name, key[-1]) from None
        if entry is not None and entry.is_instance and not symbols:
            return None
        if entry is None or entry.watches.changed() is None:
            return entry
        self.moved.update(entry.watches.moved())
        older = self.older.get(key, [])
        for k, other in enumerate(older):
            if other.watches.changed() is None:
                older[k], self.entries[key] = entry, other
                return other
        return None

    def program_of(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Program:
        """The traced program for some arguments, which it need not be kept for."""
        return self.entry_of(args, kwargs, closed_over=True).whole()

    def arrays_of(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
        """The leaves of the arguments that a program takes: all but the static ones."""
        return self._signature(args, kwargs).leaves

    def entry_of(
        self, args: tuple[object, ...], kwargs: dict[str, object], closed_over: bool = False
    ) -> Entry:
        """What would be kept for some arguments."""
        return self.traceable(args, kwargs, closed_over).traced(None)[0]

    def traceable(
        self, args: tuple[object, ...], kwargs: dict[str, object], closed_over: bool = False
    ) -> Traceable:
        """What traces the function for some arguments."""
        signature = self._signature(args, kwargs)
        leaves = [self._leaf(x, k, signature) for k, x in enumerate(signature.leaves)]
        traced = functools.partial(self._trace, signature, leaves, closed_over)
        names = functools.partial(self._names, signature)
        return Traceable([aval_of(x) for x in leaves], names, traced)

    # Arguments.

    def _signature(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Signature:
        dynamic, statics = self._dynamic(args, kwargs)
        return Signature(*tree.flatten(dynamic), tuple(statics))

    def _dynamic(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[PyTree, list[tuple[Hashable, Static]]]:
        """The arguments that are traced, and the static ones."""
        return without_static(args, kwargs, self.static_argnums, self.static_argnames)

    def _leaf(self, x: object, position: int, signature: Signature) -> Any:
        """A leaf as an array, a NumPy scalar, a Python scalar or a tracer."""
        if isinstance(x, (Tracer, OnDevice)) or type(x) in PYTHON_SCALARS:
            if type(x) is int and not -(2**63) <= x < 2**63:
                raise unsupported(self._name, x, self._names(signature)[position])
            return x

        def what() -> str:
            return f"the argument {self._names(signature)[position]} of {self._name}"

        given = isinstance(x, np.ndarray | np.generic)
        array = x if given else plain_array(x, what) if holds_array(x) else None
        if array is not None:
            array = native_order(array)
            if array.dtype.name in DTYPE_NAMES and not is_foreign(array):
                return array
        refuse_foreign(x, what())
        raise unsupported(self._name, x, self._names(signature)[position])

    def _names(self, signature: Signature) -> list[str]:
        """How each leaf is reached: the name of the parameter, and the path from there."""
        args, kwargs = tree.unflatten(signature.treedef, signature.leaves)
        return argument_names(self.fun, args, kwargs)

    # Tracing.

    def _made(
        self, key: tuple[Any, ...], signature: Signature, leaves: list[object], symbols: bool
    ) -> tuple[Entry, Sequence[Tracer]]:
        """A new entry, and what the function closes over if it is for this call alone: by a
        template of other sizes, or traced."""
        if symbols and not self.is_twin and on_host(self.device) and self.dynamic is not False:
            traced = functools.partial(self._trace, signature, leaves, False)
            wanted = wanted_axes(self.dynamic, key[2], functools.partial(self._names, signature))
            entry = self.sizes.entry_of(key, traced, wanted)
            if entry is not None:
                self._keep(key, entry)
                return entry, ()
        entry, captured = self._trace(signature, leaves)
        if not captured:
            self._keep(key, entry)
        return entry, captured

    def _trace(
        self,
        signature: Signature,
        leaves: list[object],
        closed_over: bool = False,
        avals: Sequence[Aval] | None = None,
    ) -> tuple[Entry, Sequence[Tracer]]:
        """Trace the function; arrays that it closes over are constants if `closed_over`.  `avals`
        are those of the leaves if their sizes are symbols."""
        out_trees: list[tree.TreeDef] = []
        effects: list[Effects] = []
        symbolic, given = avals is not None, avals
        avals = [aval_of(x) for x in leaves] if avals is None else avals
        arrays = [is_writable(x) for x in leaves]
        name = self._name
        names = functools.partial(self._names, signature)
        host = on_host(self.device) and not any([isinstance(x, OnDevice) for x in leaves])

        def flat(hidden: Hidden, *tracers: Tracer) -> list[Value]:
            seen = hidden.stand_ins.of
            args, kwargs = tree.unflatten(signature.treedef, tracers)
            watched = Watched(tracers, arrays, (args, kwargs), host)
            args, kwargs = list(args), dict(kwargs)
            for where, (_, value) in signature.statics:
                if isinstance(where, int):
                    args[where] = seen(value)
                else:
                    kwargs[where] = seen(value)
            outs, out_tree = tree.flatten(user_form(seen(self.fun))(*args, **kwargs))
            out_trees.append(out_tree)
            found, values = watched.after(outs, f"jit({name})", names)
            effects.append(found)
            return [result_of(x, name) for x in values]

        known = known_by_name(self.fun, signature.statics)
        takes = host and not (closed_over or self.is_twin)
        look = functools.partial(world_of, self.fun, known)
        before = look(kinds=generators())
        if symbolic and before.looks:
            raise NotShared("code asks for the class or identity of values, or keeps them")
        world, draws = before if takes else None, Draws(self.fun, before)

        def tracing(hidden: Hidden) -> TracedProgram:
            fun = functools.partial(flat, hidden)
            return trace(fun, avals, identifier(name), "jit", True, names, hidden)

        inputs = {} if world is None else candidates(world, self.moved, self.fixed)

        def of_world() -> tuple[TracedProgram, Inputs]:
            traced, unread, refused = trace_with_inputs(tracing, world, inputs, self.moved)
            self.fixed.update({key: inputs[key] for key in refused})
            if unread and any([isinstance(lower(x), OnDevice) for x in traced.captured]):
                traced, unread, _ = trace_with_inputs(tracing, None, {}, ())
            return traced, unread

        with draws:
            traced, unread = captured_or_plain(of_world, self.capture)
        if draws.more and is_other(before, look(kinds=generators()), self.moved, self.fixed):
            return self._trace(signature, leaves, closed_over, given)
        closed, captured = tuple([lower(x) for x in traced.captured]), traced.captured
        if all([isinstance(x, (OnDevice, np.ndarray, Number)) for x in closed]):
            captured = []
        else:
            closed = ()
        out_tree, single = out_trees[-1], out_trees[-1].is_leaf()
        arguments = Arguments(signature.treedef, avals, signature.statics)
        program, fits, done = traced.program, traced.fits, effects[-1]
        offered = donated_leaves(self.donate_argnums, signature.treedef, avals)
        donated = done.donations(offered, len(closed), len(program.outputs))
        device = device_of(program, self.device)
        rest = donated, fits, closed, device, None if done.nothing else done
        draws.check(f"jit({name})")
        watches = Watches()
        if not captured:
            called = called_back(program)
            is_same = not (called or draws.more) and before.watches.are_as_found()
            watches = (before if is_same else look(called)).watches
            watches.take(closed, unread)
        use = Use(self, program)
        return Entry(program, out_tree, single, arguments, *rest, watches, use), captured

    def _keep(self, key: object, entry: Entry) -> None:
        before = self.entries.get(key)
        if before is not None and not before.is_instance:
            self._note_change(before)
            self.older[key] = [before, *self.older.get(key, ())][:MOST_WORLDS]
        else:
            self.traces += entry.is_traced
        self._file(key, entry)
        RECENT.add(entry.use)
        if not entry.is_traced:
            return
        if self.max_traces is None:
            if self.traces == MANY_TRACES:
                warn_user(traced_often(self), RetraceWarning)
        elif self.traces > self.max_traces:
            warn_user(explain_retrace(self), RetraceWarning)

    def _file(self, key: object, entry: Entry) -> None:
        self.entries[key] = entry
        entry.use.keys[key] = None

    def forget(self, use: Use) -> None:
        """Keep a trace no longer: others were used more recently."""
        use.kept = False
        for key in use.keys:
            entry = self.entries.get(key)
            if entry is not None and entry.use is use:
                self.entries.pop(key, None)
            if key in self.older:
                self.older[key] = [e for e in self.older[key] if e.use is not use]
                if not self.older[key]:
                    self.older.pop(key, None)
        self.native.forget(self, use.signatures, use.program)

    def _note_change(self, before: Entry) -> None:
        """Warn when the world has changed often: each change costs a trace."""
        self.changes += 1
        if self.changes == MANY_CHANGES:
            text = changes_often(self._name, MANY_CHANGES, before.watches.changed())
            warn_user(text, RetraceWarning)


@overload
def jit(
    fun: Callable[P, R], *, static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ..., donate_argnums: int | Sequence[int] = ...,
    max_traces: int | None = ..., device: str | None = ..., capture: bool | None = ...,
    dynamic: Dynamic = ...,
) -> Callable[P, R]: ...  # fmt: skip
@overload
def jit(
    fun: None = None, *, static_argnums: int | Sequence[int] = ...,
    static_argnames: str | Sequence[str] = ..., donate_argnums: int | Sequence[int] = ...,
    max_traces: int | None = ..., device: str | None = ..., capture: bool | None = ...,
    dynamic: Dynamic = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...  # fmt: skip
@takes_jit_settings
def jit(
    fun: Callable[..., object] | None = None, *, static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (), donate_argnums: int | Sequence[int] = (),
    max_traces: int | None = None, device: str | None = None, capture: bool | None = None,
    dynamic: Dynamic = False,
) -> Any:  # fmt: skip
    """Compile a function of arrays to native code.

    Arguments:
        fun: a function of arrays, scalars and containers of them; it is traced, so its Python code
            runs once for each kind of arguments.
        static_argnums: positions of arguments that are constants of the compiled code.
        static_argnames: the same by name.
        donate_argnums: positions of arguments whose memory may be reused for results: the arrays
            must not be read after the call, which may have written a result into them.
        max_traces: a `RetraceWarning` comes when it is traced more often; None: the 64th time.
        device: "cpu" or "cuda", also for what transforms make of the function, and for a function
            jitted without a device that calls it; None for where the arguments are: on the GPU if
            one of them is.
        capture: whether loops and branches of Python are compiled as such, also where they depend
            on traced values (docs/capture.md); None for the setting `fgrad.config.capture`.
        dynamic: which lengths of axes are not compiled in: none (False), those that have changed
            ("auto"), all (True), or `{"x": 0, "y": (0, 1)}`, axes of these arguments.

    Returns:
        A function with the same results and writes into its arguments: these themselves if they are
        returned, else fresh `np.ndarray`s (`DeviceArray`s on the GPU) and NumPy scalars.

    Raises:
        ArgumentWriteError: what is written is read-only, or overlaps another argument.
        StaticArgumentError: a static argument is not hashable or does not exist.
        UnsupportedTypeError: an argument is not an array of numbers.
        ArgumentError: there is no such `device`, or axis that is `dynamic`.

    Example:
        >>> @jit
        ... def f(x):
        ...     return x * x + 1.0
        >>> f(np.array([1.0, 2.0]))
        array([2., 5.])
    """
    if fun is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, max_traces=max_traces, device=device, capture=capture,
            dynamic=dynamic,
        )  # fmt: skip
    if not callable(fun):
        raise ArgumentError(f"jit takes a function, not {type(fun).__name__}.")
    tree.leaf()  # loads what flattens arguments now, not during the first call
    given = as_tuple(static_argnums, _INT_TYPES), as_tuple(static_argnames, str)
    nums, names = completed(fun, *given)
    if device is not None and device not in BACKENDS:
        raise ArgumentError(
            f"jit({getattr(fun, '__name__', type(fun).__name__)}): there is no device {device!r}.",
            (("write", f"device={' or '.join(map(repr, BACKENDS))}"),),
        )
    donated, axes = as_tuple(donate_argnums, _INT_TYPES), checked(dynamic)
    return Jitted(fun, nums, names, donated, max_traces, device, capture, axes)
