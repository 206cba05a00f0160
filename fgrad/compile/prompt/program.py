"""L5. A call at the prompt -> compiled code that does the same, checked against the interpreter.

The program is that of `jit`, of a twin of the function that finds tracers in place of all arrays
and numbers outside.  One more result says whether all numbers are finite: where one is not, NumPy
may have to warn, and the call is interpreted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType

import numpy as np

from fgrad import tree
from fgrad.base.kinds import is_array
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import HEARD
from fgrad.capture.notes import NOTES
from fgrad.compile.backend import RunnableOnHost
from fgrad.compile.entry.native import NativeCallable, NativeCalls, native_class
from fgrad.compile.entry.table import Parameters
from fgrad.compile.jit.call import computed, executable_of
from fgrad.compile.jit.effects import Watched
from fgrad.compile.jit.native import learn
from fgrad.compile.prompt.outside import Read, Refused, Twin
from fgrad.compile.prompt.warned import hidden_in, run_looking
from fgrad.errors import FgradError
from fgrad.ir.aval import PYTHON_SCALARS, Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ir.walk import subprograms
from fgrad.ops import primitives as prims
from fgrad.ops.counters import counter_step
from fgrad.trace import Tracer, trace
from fgrad.tracing.capturing import capturing, reason_of, user_form
from fgrad.tracing.record import TracedProgram
from fgrad.transforms.core.arguments import is_writable
from fgrad.transforms.grad import grad, value_and_grad
from fgrad.typing import PyTree

MOST_EQUATIONS = 5000
_CLOSE = {8: 1e-7, 4: 1e-3}  # relative to the largest number, by the bytes of a real number


class Form(NamedTuple):
    """What is made of a function: transforms, the innermost first, each with its options."""

    steps: tuple[
        tuple[Callable[..., PyTree], tuple[PyTree, ...], tuple[tuple[str, PyTree], ...]], ...
    ]

    def __call__(
        self, fun: Callable[..., PyTree], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[PyTree, PyTree]:
        """The result of a call, and what else it computed: the values of the function."""
        inner: PyTree = fun
        for make, options, named in self.steps[:-1]:
            inner = make(inner, *options, **dict(named))
        make, options, named = self.steps[-1]
        if make is not grad:
            result = make(inner, *options, **dict(named))(*args, **kwargs)
            return result, user_form(fun)(*args, **kwargs)
        value, gradient = value_and_grad(inner, *options, **dict(named))(*args, **kwargs)
        return ((gradient, value[1]) if self.has_aux else gradient), value

    @property
    def has_aux(self) -> bool:
        """Whether the function returns what is passed through."""
        return any([dict(named).get("has_aux", o[1:2] == (True,)) for _, o, named in self.steps])


class Constant(NamedTuple):
    """A leaf of the result that is the same in all calls of a kind."""

    value: object


class Traced(NamedTuple):
    """The program of a call, whose first output says whether numbers are finite, and how the others
    become the result."""

    program: Program
    captured: Sequence[np.ndarray]  # the first inputs
    leaves: Sequence[int | Constant]  # of the result: which output each is
    out_tree: tree.TreeDef
    held: list[object]  # what must live as long as the key is used


@native_class
class CheckedCall(NativeCallable):
    """A compiled program as a function of leaves of exactly its kinds; it gives None for others."""

    __slots__ = ("executable", "kinds", "native", "program")

    def __init__(self, program: Program, executable: RunnableOnHost, kinds: Sequence[Kind]) -> None:
        self.program, self.executable, self.kinds = program, executable, kinds
        self.native = NativeCalls()

    def __call__(self, *leaves: PyTree) -> Sequence[PyTree] | None:
        if tuple(map(kind_of, leaves)) != self.kinds:
            return None
        if self.native.wants(self.executable):
            treedef = tree.structure((leaves, {}))
            results = tree.structure(tuple(self.program.outputs))
            parameters = Parameters(leaves, {}, treedef, {}, self.program.in_avals)
            learn(self.native, self, parameters, self.program, self.executable, results)
        return computed(self.program, leaves)


Kind = tuple[type, np.dtype | None, tuple[int, ...]]


def kind_of(leaf: PyTree) -> Kind:
    """What the program of a leaf depends on."""
    is_array = type(leaf) is np.ndarray
    return type(leaf), leaf.dtype if is_array else None, leaf.shape if is_array else ()


class Compiled(NamedTuple):
    """The compiled form of calls of one kind."""

    call: CheckedCall
    traced: Traced
    single: bool  # the result is the first output

    def outs(self, leaves: Sequence[PyTree]) -> Sequence[PyTree] | None:
        """The outputs of the program: whether all numbers are finite, and these; None if a leaf is
        of another kind."""
        return self.call(*self.traced.captured, *leaves)

    def result(self, outs: Sequence[PyTree]) -> PyTree:
        """What the call returns."""
        if self.single:
            return outs[1]
        traced = self.traced
        found = [x.value if isinstance(x, Constant) else outs[x] for x in traced.leaves]
        return tree.unflatten(traced.out_tree, found)


def compiled_call(
    fun: FunctionType,
    form: Form,
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    read: Read,
    name: str,
) -> Compiled:
    """The compiled form of a call.

    Arguments:
        fun: the function that is transformed.
        form: gives the result of the transform and what else it computes.
        args, kwargs: the arguments.
        read: what was read of them, and of what the function reads outside.
        name: of the program.

    Raises:
        Refused: it would not be the same as the interpreted one.
    """
    call = _Call(fun, args, kwargs, read, name)
    saved, NOTES.kept = NOTES.kept, []
    HEARD.texts = []
    try:
        with capturing(True), np.errstate(all="raise", under="ignore"):
            traced = call.traced(form)
        doubts = [note.why for note in NOTES.kept if note.what == "plain"] + HEARD.texts
    except FgradError as error:
        raise Refused(f"it cannot be captured: {reason_of(error)}") from None
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"it cannot be captured: {type(error).__name__}: {error}") from None
    finally:
        NOTES.kept, HEARD.texts = saved, None
    if doubts:
        raise Refused(f"it cannot be captured: {doubts[0]}")
    kinds = tuple(map(kind_of, (*traced.captured, *read.leaves)))
    checked = CheckedCall(traced.program, executable_of(traced.program), kinds)
    return Compiled(checked, traced, traced.out_tree.is_leaf() and traced.leaves[0] == 1)


class _Call(NamedTuple):
    """A call that is traced; see `compiled_call`."""

    fun: PyTree
    args: tuple[PyTree, ...]
    kwargs: dict[str, PyTree]
    read: Read
    name: str

    def traced(self, form: Form) -> Traced:
        """The program of the transformed function, with what else must be finite."""
        found: dict[str, PyTree] = {}
        plain = self.plain()
        _check_integers(plain.program)
        hidden = hidden_in(plain.program)

        def outputs(
            fun: FunctionType, args: tuple[PyTree, ...], kwargs: dict[str, PyTree],
            tracers: Sequence[Tracer],
        ) -> list[PyTree]:  # fmt: skip
            result, values = form(fun, args, kwargs)
            leaves, found["out_tree"] = tree.flatten(result)
            found["leaves"], outs = _outputs(leaves, form.has_aux)
            finite = _finite([*outs, *tree.leaves(values)])
            if not hidden.nothing:
                given = [*plain.captured, *tracers]
                finite = np.logical_and(finite, run_looking(plain.program, hidden, given)[1])
            return [finite, *outs]

        traced, held = self._trace(outputs)
        size = sum([len(part.eqns) for part in subprograms(traced.program)])
        if size > MOST_EQUATIONS:
            raise Refused(f"its program would have {size:,} equations")
        return Traced(traced.program, traced.captured, held=held, **found)

    def plain(self) -> TracedProgram:
        """The program of the function itself, as far as its results are traced."""

        def outputs(
            fun: FunctionType, args: tuple[PyTree, ...], kwargs: dict[str, PyTree],
            _tracers: Sequence[Tracer],
        ) -> list[PyTree]:  # fmt: skip
            found = tree.leaves(user_form(fun)(*args, **kwargs))
            return [x for x in found if isinstance(x, Tracer)]

        return self._trace(outputs)[0]

    def _trace(self, outputs: Callable[..., list[PyTree]]) -> tuple[TracedProgram, list[object]]:
        """A trace of a twin of the function, which must change nothing that it is given."""
        held: list[object] = []

        def flat(*tracers: Tracer) -> list[PyTree]:
            twin = Twin(iter(tracers))
            try:
                fun, args = twin.function(self.fun), twin.value(self.args)
                kwargs = twin.value(self.kwargs) if self.kwargs else {}
                arrays = [is_writable(x) for x in self.read.leaves]
                watched = Watched(tracers, arrays, (args, kwargs, twin.outside), False)
                outs = outputs(fun, args, kwargs, tracers)
                names = ["an argument"] * len(tracers)
                effects, outs = watched.after(outs, self.name, lambda: names)
                if effects.writes or effects.stores or effects.contiguous:
                    raise Refused("it writes into an argument, or into what it reads outside")
                held.extend(twin.held)
                return outs
            finally:
                twin.forget()

        avals = [aval_of(x) for x in self.read.leaves]
        traced = trace(flat, avals, self.name, "jit", True)
        if not all([type(x) is np.ndarray for x in traced.captured]):
            raise Refused("it reads values of another trace, or on a device")
        return traced, held


def _outputs(leaves: Sequence[PyTree], has_aux: bool) -> tuple[list[int | Constant], list[PyTree]]:
    """For each leaf of the result which output it is, and the outputs."""
    places: list[int | Constant] = []
    values: list[PyTree] = []
    for x in leaves:
        if type(x) in PYTHON_SCALARS or isinstance(x, str):
            places.append(Constant(x))
            continue
        if not isinstance(x, (Tracer, np.ndarray, np.generic)):
            raise Refused(f"it returns an object of class {type(x).__name__}")
        if has_aux and isinstance(x, Tracer) and x.weak:
            raise Refused("it returns a number of Python's")
        places.append(len(values) + 1)
        values.append(x)
    return places, values


def _finite(values: Sequence[PyTree]) -> PyTree:
    """Whether all numbers with a fraction are finite."""
    numbers = [x for x in values if isinstance(x, (Tracer, np.ndarray)) and x.dtype.kind in "fc"]
    tests = [np.all(np.isfinite(x)) for x in numbers]
    return functools.reduce(np.logical_and, tests, np.True_)


def _check_integers(program: Program) -> None:
    """Refuse programs that may compute an integer of Python's of more than 64 bits.

    Integers of loops whose steps are known before the program runs are the same in each call, and
    so is their effect on the first one, which is compared.
    """
    for part in subprograms(program):
        for eqn in part.eqns:
            is_made = eqn.prim is prims.convert and _is_integer(eqn.outputs[0].aval)
            if is_made and eqn.inputs[0].aval.dtype.kind == "f":
                raise Refused("it makes an integer of a number with a fraction")
            if eqn.prim is not prims.while_:
                continue
            body, first = eqn.params["body"], eqn.params["n_body"]
            for given, result in zip(body.inputs[first:], body.outputs, strict=True):
                if _is_integer(given.aval) and counter_step(body, given, result) is None:
                    raise Refused("it computes integers in a loop whose steps are not known")


def _is_integer(aval: Aval) -> bool:
    return not aval.shape and aval.dtype == np.int64


def same_results(a: PyTree, b: PyTree, given: Sequence[object]) -> bool:
    """Whether two results are the same but for rounding, and neither holds what is `given`."""
    xs, tree_a = tree.flatten(a)
    ys, tree_b = tree.flatten(b)
    if tree.exact(tree_a) != tree.exact(tree_b) or not all(map(_same, xs, ys)):
        return False
    arrays = [x for x in given if type(x) is np.ndarray]
    return not any([np.may_share_memory(x, y) for x in xs if is_array(x) for y in arrays])


def _same(x: PyTree, y: PyTree) -> bool:
    if type(x) is not type(y):
        return False
    if not isinstance(x, (np.ndarray, np.generic)):
        return x == y
    alike = x.dtype == y.dtype and x.shape == y.shape and x.strides == y.strides
    alike = alike and x.flags.writeable == y.flags.writeable
    if not alike or x.dtype.kind not in "fc" or not x.size:
        return alike and np.array_equal(x, y)
    real = x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)
    return bool(np.max(np.abs(x - y)) <= _CLOSE[real] * np.max(np.abs(x)))
