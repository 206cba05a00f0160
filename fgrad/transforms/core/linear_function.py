"""L4. Pullbacks and pushforwards as containers: their residuals are the children.

    y, f_vjp = jit(lambda x: vjp(f, x))(x)      f_vjp leaves the trace as its residuals

One that is flattened is traced once, as `program(residuals, cotangents) -> cotangents`.  What is
made of new residuals runs that program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import Transformed, pickles_as_call
from fgrad.errors import ArgumentError
from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.ops.families import FLOATS
from fgrad.trace import Value, run, trace
from fgrad.tracing.device_tracing import lower
from fgrad.typing import PyTree


class Form(NamedTuple):
    """What a linear function takes: the structure and types of its arguments."""

    what: str  # vjp or linearize
    name: str
    args_tree: tree.TreeDef
    avals: tuple[Aval, ...]
    check: Callable[[Sequence[object]], Sequence[Value | None]]  # its leaves; None: of integers


class Closed(NamedTuple):
    """A linear function without its residuals, which are the first inputs of its program."""

    form: Form
    program: Program
    out_tree: tree.TreeDef

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Closed) and self.program is other.program

    def __hash__(self) -> int:
        return id(self.program)


class LinearFunction(Transformed):
    """The derivative of a function at a point, or its transpose."""

    __slots__ = ("closed", "form_of", "residuals")

    form_of: Callable[[], Form]
    closed: Closed | None
    residuals: Sequence[PyTree]


def linear_function(
    fun: Callable[..., PyTree], label: str, form_of: Callable[[], Form]
) -> LinearFunction:
    """A function of cotangents or tangents that can leave a trace; its form is asked for then."""
    if LinearFunction not in _KNOWN:
        _KNOWN.add(LinearFunction)
        tree.compiled.register_node(LinearFunction, _flatten, _unflatten, _entry, tree.NAMESPACE)
    made = LinearFunction(fun, fun, label)
    made.form_of, made.closed, made.residuals = form_of, None, ()
    return made


_KNOWN: set[type] = set()


def _entry(*parts: PyTree) -> PyTree:
    """The step of a path to a residual; `tree.register_node` would load a package for it."""
    return tree.optree.FlattenedEntry(*parts)


def _flatten(function: LinearFunction) -> tuple[Sequence[PyTree], Closed]:
    if function.closed is None:
        function.closed, function.residuals = _closed(function)
    return function.residuals, function.closed


def _closed(function: LinearFunction) -> tuple[Closed, list[PyTree]]:
    """The function as a program, and its residuals."""
    form = function.form_of()
    out_trees: list[tree.TreeDef] = []
    inexact = [a.dtype.kind in FLOATS for a in form.avals]

    def flat(*given: Value) -> list[Value]:
        floats = iter(given)
        pairs = zip(form.avals, inexact, strict=True)
        leaves = [next(floats) if f else np.zeros(a.shape, a.dtype)[()] for a, f in pairs]
        found, out_tree = tree.flatten(function.fun(*tree.unflatten(form.args_tree, leaves)))
        out_trees.append(out_tree)
        return found

    traced = trace(flat, list(compress(form.avals, inexact)), form.name, form.what)
    program, arrays = traced.program, traced.program.consts
    count = len(traced.captured)
    inputs = (*program.inputs[:count], *[var for var, _ in arrays], *program.inputs[count:])
    program = program.replace(inputs=inputs, consts=())
    residuals = [*map(lower, traced.captured), *[x for _, x in arrays]]
    return Closed(form, program, out_trees[-1]), residuals


@pickles_as_call
def _unflatten(closed: Closed, residuals: Iterable[PyTree]) -> LinearFunction:
    form, kept = closed.form, list(residuals)

    def fun(*args: PyTree) -> PyTree:
        leaves, treedef = tree.flatten(args)
        if treedef != form.args_tree:
            raise ArgumentError(
                f"{form.what}: the argument has structure {treedef}, not {form.args_tree}."
            )
        given = [x for x in form.check(leaves) if x is not None]
        outs = run(closed.program, [*kept, *given])
        return tree.unflatten(closed.out_tree, map(lower, outs))

    made = linear_function(fun, f"{form.what}({form.name})", lambda: form)
    made.closed, made.residuals = closed, kept
    return made
