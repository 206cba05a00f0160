"""L5. Side effects of a jitted function on its arguments: written arrays, changed containers.

    @jit
    def step(u, p):
        u[1:-1] *= 2                     writes=(0,): the new value is a further output
        p["n"] = p["n"] + 1              stores: the new contents are further outputs
        return u                         leaves=(~0,): the argument itself

A call computes all new values first; then they are stored where NumPy would have stored them.
Arguments that share memory are traced as if they did not, so this is refused where one is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad import tree
from fgrad.base.containers import Watch, containers_in, put_contents
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.sizes import settled
from fgrad.compile.jit.call import call
from fgrad.errors import ArgumentWriteError
from fgrad.ir.aval import PYTHON_SCALARS
from fgrad.ir.program import Atom, Program, Var
from fgrad.ir.walk import must_run, subprograms
from fgrad.trace import Tracer, Value
from fgrad.tracing.assign import Root, keep_memory, root_of, writes_of
from fgrad.tracing.layouts import note_taken
from fgrad.tracing.outside.watches import Watches
from fgrad.tracing.overlap import overlap
from fgrad.transforms.core.arguments import (
    Names,
    check_shape,
    check_written,
    is_contiguous,
    one_array,
    shared,
    store,
    strided,
    unwritable,
)
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.compile.tasks.plan import Donation
    from fgrad.transforms.control import common
    from fgrad.transforms.custom import callback
else:
    callback = lazy_module("fgrad.transforms.custom.callback")
    common = lazy_module("fgrad.transforms.control.common")

CONSTANTS = (*PYTHON_SCALARS, np.generic, str, bytes, type(None))  # stored as they are


class Part(NamedTuple):
    """One leaf of what is stored in a container: an argument's leaf, one of its containers, a
    result of the program, or a constant."""

    kind: str  # "leaf" | "container" | "output" | "constant"
    value: PyTree


class Stored(NamedTuple):
    """New contents of one container: a tree of parts for each key."""

    container: int
    contents: dict[object, tuple[tree.TreeDef, list[Part]]]


class Effects(NamedTuple):
    """What calls of one kind do beside computing.

    Arguments:
        leaves: for each leaf of the result, the number of an output, or ~k for the argument k.
        writes: the arguments that are written; their new values are the last outputs.
        stores: what containers hold afterwards.
        contiguous: the arguments that were taken to lie in C order, where a reshape was written.
        apart: pairs of arguments that were taken to be two arrays: `x is y`.
    """

    leaves: tuple[int, ...]
    writes: tuple[int, ...]
    stores: tuple[Stored, ...]
    contiguous: tuple[int, ...]
    apart: tuple[tuple[int, int], ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether calls do nothing but return new arrays."""
        does = self.writes or self.stores or self.contiguous or self.apart
        return not (does or any([k < 0 for k in self.leaves]))

    @property
    def native(self) -> bool:
        """Whether native code can do it."""
        return not (self.stores or self.apart or set(self.contiguous) - set(self.writes))

    def donations(self, donated: Sequence[int], first: int, outputs: int) -> tuple[Donation, ...]:
        """The inputs of the program that give their memory to results.

        Arguments that are written give theirs to their new values; they, and arguments that are
        returned, hold something after the call.

        Arguments:
            donated: the arguments that need not be kept.
            first: the input that is the first argument.
            outputs: how many outputs the program has.
        """
        kept = {*self.writes, *[~k for k in self.leaves if k < 0]}
        start = outputs - len(self.writes)
        written = [(first + k, start + n) for n, k in enumerate(self.writes)]
        return (*[first + k for k in donated if k not in kept], *written)

    def check(
        self, given: Sequence[Any], args: object, fun: str, names: Names, outside: Watches
    ) -> None:
        """Raise a card if what is written cannot be, or shares memory with another argument, or
        with an array that the function reads from outside."""
        check_written(self.writes, given, fun, names)
        for j, k in self.apart:
            if overlap(given[j], given[k]):
                raise one_array(fun, names()[j], names()[k])
        for k in self.contiguous:
            if not is_contiguous(given[k]):
                raise strided(fun, names()[k])
            if isinstance(given[k], Tracer):
                note_taken(root_of(given[k]))
        for k in self.writes:
            for array, path in outside.arrays():
                if overlap(given[k], array):
                    raise shared(fun, names()[k], path)
        if self.stores:
            _check_containers(self.stores, args, fun)

    def finish(self, outs: Sequence[object], given: Sequence[object], args: object) -> list[object]:
        """Store what was computed, and give the leaves of the result."""
        first = len(outs) - len(self.writes)
        for k, new in zip(self.writes, outs[first:], strict=True):
            store(given[k], new)
        if self.stores:
            _store_contents(self.stores, outs, given, args)
        return [outs[k] if k >= 0 else given[~k] for k in self.leaves]


class Watched:
    """The arguments of a function while it is traced.

    Arguments:
        arrays: which of them NumPy can write.
        given_back: whether an argument that is returned is that object, as on the host.
    """

    def __init__(
        self, tracers: Sequence[Tracer], arrays: Sequence[bool], args: object, given_back: bool
    ) -> None:
        self.given_back = given_back
        self.numbers = {id(x): k for k, x in enumerate(tracers)}
        self.tracers, self.arrays = tracers, arrays
        self.shapes = [x.shape for x in tracers]
        self.containers = Watch(args)
        for x, is_array in zip(tracers, arrays, strict=True):
            if is_array:
                keep_memory(x)

    def after(
        self, results: Sequence[object], fun: str, names: Names
    ) -> tuple[Effects, list[object]]:
        """What the function did, and the values that the program must compute."""
        values: list[object] = []
        leaves = []
        for x in results:
            k = self.numbers.get(id(x), -1)
            if k >= 0 and self.arrays[k] and self.given_back:
                leaves.append(~k)
            else:
                leaves.append(len(values))
                values.append(x)
        stores = self._stores(values, fun)
        writes = tuple([k for k, x in enumerate(self.tracers) if writes_of(x)])
        for k in writes:
            if not self.arrays[k]:
                raise unwritable(fun, names()[k], "is a number", "numbers do not change.")
            check_shape(self.tracers[k], self.shapes[k], fun, names()[k])
        contiguous = self.contiguous()
        effects = Effects(tuple(leaves), writes, stores, contiguous, self._apart())
        return effects, values + [self.tracers[k] for k in writes]

    def _apart(self) -> tuple[tuple[int, int], ...]:
        """The pairs of arguments that were taken to be two arrays."""
        pairs = [
            (k, self.numbers.get(id(other()), -1))
            for k, x in enumerate(self.tracers)
            if isinstance(x.memory, Root)
            for other in x.memory.apart or ()
        ]
        return tuple([(j, k) for j, k in pairs if k >= 0])

    def contiguous(self) -> tuple[int, ...]:
        """The arguments that were taken to lie in C order."""
        if not self.tracers:
            return ()
        builder = self.tracers[0].builder
        return tuple([k for k, x in enumerate(builder.inputs) if x.index in builder.taken])

    def _stores(self, values: list[object], fun: str) -> tuple[Stored, ...]:
        """What the containers hold now; what must be computed for that is added to `values`."""
        known = {id(c): k for k, c in enumerate(self.containers.containers)}

        def part(x: object) -> Part:
            if id(x) in known:
                return Part("container", known[id(x)])
            if id(x) in self.numbers:
                return Part("leaf", self.numbers[id(x)])
            if isinstance(x, CONSTANTS):
                return Part("constant", settled(x))
            values.append(x)
            return Part("output", len(values) - 1)

        def parts(x: object) -> tuple[tree.TreeDef, list[Part]]:
            found, treedef = tree.flatten(x, lambda y: id(y) in known)
            return treedef, [part(y) for y in found]

        return tuple(
            [
                Stored(edit.container, {key: parts(x) for key, x in edit.contents.items()})
                for edit in self.containers.edits()
            ]
        )


def _store_contents(
    stores: Sequence[Stored], outs: Sequence[object], given: Sequence[object], args: object
) -> None:
    containers = containers_in(args)

    def value(part: Part) -> object:
        if part.kind == "output":
            return outs[part.value]
        if part.kind == "leaf":
            return given[part.value]
        return containers[part.value] if part.kind == "container" else part.value

    new = [
        {
            key: tree.unflatten(treedef, map(value, parts))
            for key, (treedef, parts) in s.contents.items()
        }
        for s in stores
    ]
    for s, contents in zip(stores, new, strict=True):
        put_contents(containers[s.container], contents)


# --- what is refused ------------------------------------------------------------------------------


def _check_containers(stores: Sequence[Stored], args: object, fun: str) -> None:
    containers = containers_in(args)
    for s in stores:
        changed = containers[s.container]
        if sum([c is changed for c in containers]) > 1:
            raise ArgumentWriteError(
                f"{fun} changes a container that it was given twice.",
                (
                    ("value", f"a {type(changed).__name__}"),
                    ("why", "the function was traced for distinct containers."),
                    ("write", "a copy of it for one of the arguments"),
                ),
            )


def called_back(program: Program) -> set[CodeType]:
    """The code of functions that equations call: what these read is no part of a trace."""
    called = [
        eqn.params["function"].fun
        for part in subprograms(program)
        for eqn in part.eqns
        if "function" in eqn.params and isinstance(eqn.params["function"], callback.Function)
    ]
    return {fun.__code__ for fun in called if isinstance(fun, FunctionType)}


# --- calls in traces ------------------------------------------------------------------------------


def split_writes(
    program: Program, effects: Effects, operands: Sequence[Value], device: str | None
) -> list[Value | None]:
    """The outputs of a call in a trace.

    A value that is written and needs fewer traced operands than the whole call is computed by a
    call of its own, so that it is no more traced than it must be.
    """
    traced = {v for v, x in zip(program.inputs, operands, strict=True) if isinstance(x, Tracer)}
    first = len(program.outputs) - len(effects.writes)
    outs: list[Value | None] = [None] * len(program.outputs)
    together = list(range(first))
    if not together and any(map(must_run, program.eqns)):
        together = list(range(len(program.outputs)))  # what no value is computed from runs too
    for k in range(len(together), len(program.outputs)):
        needed = needs(program, k)
        if traced <= needed:
            together.append(k)
            continue
        part, inputs = _part(program, k, needed)
        outs[k] = call(part, [operands[i] for i in inputs], device)[0]
    whole = program
    if len(together) < len(program.outputs):
        outputs = tuple([program.outputs[k] for k in together])
        key = ("without writes", tuple(together))
        whole = program.derived(key, lambda: program.replace(outputs=outputs))
    for k, out in zip(together, call(whole, operands, device) if together else (), strict=True):
        outs[k] = out
    return outs


def needs(program: Program, output: int) -> set[Atom]:
    """The variables that an output is computed from."""
    found: set[Atom] = {program.outputs[output]}
    for eqn in reversed(program.eqns):
        if not found.isdisjoint(eqn.outputs):
            found.update([a for a in eqn.inputs if isinstance(a, Var)])
    return found


def _part(program: Program, output: int, needed: set[Atom]) -> tuple[Program, list[int]]:
    """The program of one output, and the numbers of its inputs."""

    def cut() -> tuple[Program, list[int]]:
        inputs = [i for i, v in enumerate(program.inputs) if v in needed]
        taken = tuple([program.inputs[i] for i in inputs])
        return common.restricted(program, taken, (program.outputs[output],)), inputs

    return program.derived(("part", output), cut)
