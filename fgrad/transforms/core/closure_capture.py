"""L4. What custom functions close over: found when a call is recorded, replaced when a rule runs.

In a trace without values a rule runs later, in another trace.  The tracers that a function and its
rules close over become operands of the equation:

    g(y), which closes over x   becomes   z = custom_vjp x, y     and in its rules x is the operand

A tracer is a handle: while a rule runs, the user's own handle is pointed to the operand.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.base.fork_locks import Locked
from fgrad.base.pickling import Transformed
from fgrad.errors import InPlaceError
from fgrad.ir.program import Program
from fgrad.trace import Builder, Tracer
from fgrad.tracing.thread_state import THREAD

_NO_TRACERS = (type, types.ModuleType, np.ndarray, np.generic, str, bytes, Builder, Program)
_MOST = 1000  # objects that are looked at


class Closed(NamedTuple):
    """A tracer that a custom function closes over, and the operand that it became."""

    handle: Tracer
    position: int


_POINTED = Locked()  # handles are the program's, which threads share


class standing:
    """Context of a rule: `values`, the first operands, stand for what the function closes over."""

    __slots__ = ("before", "closed", "running", "values")

    def __init__(self, closed: Sequence[Closed], values: Sequence[Any]) -> None:
        self.closed, self.values = closed, values

    def __enter__(self) -> None:
        state = THREAD.state
        self.running, state.rule = state.rule, True
        if self.closed:
            _POINTED.lock.acquire()
            self.before = [_state(handle) for handle, _ in self.closed]
            for handle, position in self.closed:
                _point(handle, _state(self.values[position]))

    def __exit__(self, error: type | None, *_exc: object) -> None:
        THREAD.state.rule = self.running
        if self.closed:
            written = [x for x, k in self.closed if x.index != self.values[k].index]
            for (handle, _), state in zip(self.closed, self.before, strict=True):
                _point(handle, state)
            _POINTED.lock.release()
            if written and error is None:
                raise _written(written[0])


def _written(x: Tracer) -> InPlaceError:
    return InPlaceError(
        "A custom rule assigned into an array that its function closes over.",
        (
            ("value", f"{x.aval} of {x.builder.what}({x.builder.name})"),
            ("why", "the rule runs later, or not at all."),
            ("write", "x = x.copy()    in the rule, before the assignment"),
        ),
    )


def _state(x: Tracer) -> tuple[Any, ...]:
    return x.builder, x.index, x.value, x._aval, x._view


def _point(x: Tracer, state: tuple[Any, ...]) -> None:
    x.builder, x.index, x.value, x._aval, x._view = state


def tracers_of(roots: Iterable[Any]) -> list[Tracer]:
    """The tracers in closures, defaults, containers and attributes that functions reach."""
    seen: dict[int, Any] = {}
    found: list[Tracer] = []
    work = list(roots)
    while work and len(seen) < _MOST:
        x = work.pop()
        if id(x) in seen or isinstance(x, _NO_TRACERS):
            continue
        seen[id(x)] = x
        if type(x) is Tracer:
            found.append(x)
        else:
            work += _inside(x)
    return found


def _inside(x: Any) -> list[Any]:
    """What an object holds."""
    if isinstance(x, types.FunctionType):
        defaults = [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        return [*map(_contents, x.__closure__ or ()), *defaults]
    if isinstance(x, Transformed):
        return [x.fun]
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, (list, tuple, set, frozenset)):
        return list(x)
    return list(getattr(x, "__dict__", {}).values())


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that is not assigned yet
        return None
