"""L4. What custom functions and their rules close over: captured inputs of a closed trace.

In a trace without values a rule runs later, in another trace, where the tracers that it closes over
mean nothing.  They are operands of its equation, found by tracing, and stand for the tracers again
while the rule runs:

    g(y), which closes over x   becomes   z = custom_call x, y    and in its rules x is the operand

A trace is *closed* while it captures the tracers themselves: `np.sin(x)` of an outer x is recorded
inside, where elsewhere it is recorded outside, and its result captured.  That of a function catches
all tracers from outside; that of a rule has those that the equation has operands for.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fgrad import tree
from fgrad.base.closures import contents
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import Transformed
from fgrad.trace import Builder, Tracer
from fgrad.tracing.closed import Captured, own
from fgrad.tracing.thread_state import THREAD
from fgrad.typing import PyTree

_PLAIN = (str, bytes, int, float, complex, type, types.ModuleType, types.NoneType, np.dtype)


class closing:
    """Context in which a trace is closed; its first inputs stand for what was closed over.

    Arguments:
        builder: the innermost open builder.
        handles: what a custom function and its rules closed over when they were called.
        inputs: the inputs of the builder that stand for these; there may be more.
        rule: whether a rule runs for an equation, and these are all that is captured.
    """

    __slots__ = ("before", "builder", "rule", "seeds", "shut")

    def __init__(
        self,
        builder: Builder,
        handles: Sequence[Tracer] = (),
        inputs: Sequence[Tracer] = (),
        rule: bool = False,
    ) -> None:
        self.builder, self.rule = builder, rule
        self.seeds: dict[int, Captured] = {
            id(handle): (handle, x.value, x, None)
            for handle, x in zip(handles, inputs, strict=False)
        }

    def __enter__(self) -> None:
        state, builder = THREAD.state, self.builder
        self.before = state.closed, state.rule
        state.closed, state.rule = builder, self.rule
        builder.catches = not self.rule
        builder.captures.update(self.seeds)
        self.shut = [outer for outer, _ in builder.before if outer.plain]
        for outer in self.shut:
            outer.plain = False  # the fast path would record there

    def __exit__(self, *_exc: object) -> None:
        state = THREAD.state
        state.closed, state.rule = self.before
        self.builder.catches = False
        for outer in self.shut:
            outer.plain = outer.live
        for key in self.seeds:
            self.builder.captures.pop(key, None)


def settled(x: object) -> PyTree:
    """A result of a user's function, where it may be what it closes over, as it is inside."""
    closed = THREAD.state.closed
    if closed is None:
        return x
    return tree.map(partial(_inside, closed), x)


def _inside(closed: Builder, leaf: PyTree) -> PyTree:
    return own(closed, leaf) if type(leaf) is Tracer else leaf


def may_close(x: object) -> bool:
    """Whether a function or setting can have traced values in it; globals do not count."""
    if isinstance(x, types.FunctionType):
        return bool(x.__closure__ or x.__defaults__ or x.__kwdefaults__)
    if isinstance(x, types.MethodType):
        return may_close(x.__self__) or may_close(x.__func__)
    if isinstance(x, functools.partial):
        return True
    return not isinstance(x, (*_PLAIN, types.BuiltinFunctionType, np.ufunc))


class Variable(NamedTuple):
    """A variable that a function closes over, and what it was when the function was called."""

    name: str
    cell: types.CellType
    content: object

    @property
    def rebound(self) -> bool:
        """Whether it is bound to something else now."""
        now = contents(self.cell)
        if type(now) in (bool, int, float, complex, str) and type(now) is type(self.content):
            return bool(now != self.content)
        return now is not self.content


def variables_of(functions: Sequence[object]) -> list[Variable]:
    """What functions close over, but for the variables that they bind themselves."""
    found: list[Variable] = []
    for fun in functions:
        while isinstance(fun, Transformed):
            fun = fun.fun
        if isinstance(fun, types.FunctionType) and fun.__closure__:
            own = _bound_by(fun.__code__)
            pairs = zip(fun.__code__.co_freevars, fun.__closure__, strict=True)
            found += [Variable(n, cell, contents(cell)) for n, cell in pairs if n not in own]
    return [variable for variable in found if variable.content is not None]


@functools.lru_cache(maxsize=1024)
def _bound_by(code: types.CodeType) -> frozenset[str]:
    """The variables of enclosing functions that a function binds: `nonlocal`."""
    found = [i.argval for i in dis.get_instructions(code) if i.opname == "STORE_DEREF"]
    return frozenset(found)


def held(fun: Callable[..., PyTree]) -> list[Tracer]:
    """The tracers in the variables that a function closes over, and in containers there."""
    while isinstance(fun, Transformed):
        fun = fun.fun
    cells = getattr(fun, "__closure__", None) or ()
    return [x for cell in cells for x in tree.leaves(contents(cell)) if type(x) is Tracer]
