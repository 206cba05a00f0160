"""L5. Functions -> their rewritten forms, once for each code object.

A rewritten function shares globals, cells and defaults with the user's, so it sees all that changes
there.  Functions of libraries stay, and so do those without source, generators and coroutines.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from fgrad.base.source import USERS, Loc, owner_of
from fgrad.capture.asked import asking
from fgrad.capture.calls import CHANGING, TABLE, class_of, filling, refuse_random
from fgrad.capture.elements import changes
from fgrad.capture.expressions import CAPTURE
from fgrad.capture.light import light_code
from fgrad.capture.notes import note
from fgrad.capture.rewrite import converted_code
from fgrad.capture.source import Unconvertible
from fgrad.errors import Row
from fgrad.trace import Tracer, innermost
from fgrad.tracing.capturing import rolls
from fgrad.tracing.thread_state import THREAD
from fgrad.tracing.trace_errors import not_captured as not_captured_rows
from fgrad.typing import PyTree

OPERATORS = SimpleNamespace()  # what rewritten code calls; filled by `operators.py`
MOST_CODES = 4096


class Known:
    """What became of a code object: the rewritten one, and why its control flow stays as it is."""

    __slots__ = ("code", "form", "made", "why", "write")

    def __init__(self, code: CodeType, made: CodeType | None, why: str, write: str = "") -> None:
        self.code, self.made, self.why, self.write = code, made, why, write
        self.form: FunctionType | None = None  # of the last function that had no cells or defaults


_KNOWN: dict[tuple[int, bool], Known] = {}  # by the identity of the code, which `Known` keeps


def known_of(fun: FunctionType, light: bool = False) -> Known:
    """What became of a function's code, where calls alone are rewritten or all."""
    code = fun.__code__
    found = _KNOWN.get((id(code), light))
    if found is None:
        found = _made(fun, light)
        if len(_KNOWN) >= MOST_CODES:
            _KNOWN.clear()
        _KNOWN[id(code), light] = found
    return found


def _made(fun: FunctionType, light: bool) -> Known:
    """Where control flow stays as it is, what the function calls is captured none the less."""
    code = fun.__code__
    try:
        return Known(code, light_code(fun) if light else converted_code(fun), "")
    except Unconvertible as reason:
        why, write = str(reason), reason.write
    try:
        return Known(code, None if light else light_code(fun, "called"), why, write)
    except Unconvertible:
        return Known(code, None, why, write)


def converted(fun: FunctionType, light: bool = False) -> FunctionType:
    """The rewritten form of a function; itself where it stays as it is."""
    code = fun.__code__
    if CAPTURE in code.co_freevars or owner_of(code.co_filename) != USERS:
        return fun
    known = known_of(fun, light)
    made = known.made
    if known.why and not light:
        note("plain", known.why, Loc(code.co_filename, code.co_firstlineno, code.co_name))
    if made is None:
        return fun
    if not light:
        THREAD.state.rewritten = True
    shared = not (code.co_freevars or fun.__defaults__ or fun.__kwdefaults__)
    if shared and known.form is not None and known.form.__globals__ is fun.__globals__:
        return known.form
    cells = dict(zip(code.co_freevars, fun.__closure__ or (), strict=True))
    cells[CAPTURE] = _CELL
    closure = tuple([cells[name] for name in made.co_freevars])
    new = FunctionType(made, fun.__globals__, fun.__name__, fun.__defaults__, closure)
    new.__kwdefaults__ = fun.__kwdefaults__
    new.__qualname__, new.__module__, new.__doc__ = fun.__qualname__, fun.__module__, fun.__doc__
    if shared:
        known.form = new
    return new


_OF_LIBRARIES = frozenset({np.ufunc, type(np.sum), types.BuiltinFunctionType})
_IN_TABLE = frozenset([id(f.__code__) for f in TABLE if type(f) is FunctionType])
_CELL = types.CellType(OPERATORS)


def light(fun: Any) -> Callable[..., Any]:
    """What is called in place of `fun` where calls alone are rewritten."""
    kind = type(fun)
    if kind is FunctionType:
        code = fun.__code__
        if code is _SINGLE:
            return functools.partial(_dispatched, fun, light)
        known = _KNOWN.get((id(code), True))
        if known is not None and known.made is None and id(code) not in _IN_TABLE:
            return fun
        found = TABLE.get(fun)
        return converted(fun, True) if found is None or innermost() is None else found
    if kind is types.MethodType:
        return _method(fun, True)
    try:
        found = TABLE.get(fun)
    except TypeError:  # it cannot be hashed
        return fun
    if found is not None:
        return fun if innermost() is None else found
    if kind in _OF_LIBRARIES:
        return fun
    if kind is functools.partial:
        return functools.partial(light(fun.func), *fun.args, **fun.keywords)
    return fun if isinstance(fun, type) else _object(fun, True)


def filled(fun: object) -> Callable[..., object]:
    """What is called in place of `fun`, whose result is written into."""
    found = None if innermost() is None else filling(fun)
    if found is not None:
        return found
    return called(fun) if rolls() else light(fun)


def called(fun: Any) -> Callable[..., Any]:
    """What is called in place of `fun` in rewritten code."""
    if innermost() is None:
        return fun
    kind, form = type(fun), asking(fun)
    if form is not None:
        return form
    if kind is FunctionType:
        if fun.__code__ is _SINGLE:
            return functools.partial(_dispatched, fun, called)
        return TABLE.get(fun) or converted(fun)
    if kind is types.MethodType:
        return _method(fun)
    if kind is types.BuiltinMethodType and not isinstance(fun.__self__, types.ModuleType):
        _check_change(fun)
    try:
        found = TABLE.get(fun)
    except TypeError:  # it cannot be hashed
        return fun
    if found is not None:
        return found
    if kind is functools.partial:
        return functools.partial(called(fun.func), *fun.args, **fun.keywords)
    return fun if isinstance(fun, type) else _object(fun)


_SINGLE = functools.singledispatch(lambda x: x).__code__  # type: ignore[attr-defined]


def _dispatched(
    fun: PyTree, form: Callable[[PyTree], Callable[..., PyTree]], /, *args: PyTree, **kwargs: PyTree
) -> PyTree:
    """A call of a function of `functools.singledispatch`: a traced array is an `np.ndarray`, a
    traced number one of NumPy or Python."""
    if args and isinstance(args[0], Tracer):
        fun = form(fun.dispatch(class_of(args[0])))
    return fun(*args, **kwargs)


def _object(fun: Any, light: bool = False) -> Callable[..., Any]:
    """An object of the user's that is called."""
    found = [vars(owner)["__call__"] for owner in type(fun).__mro__ if "__call__" in vars(owner)]
    if found and type(found[0]) is FunctionType:
        call = converted(found[0], light)
        return fun if call is found[0] else types.MethodType(call, fun)
    return fun


def _method(method: Any, light: bool = False) -> Callable[..., Any]:
    fun = method.__func__
    if type(fun) is not FunctionType:
        return method
    new = converted(fun, light)
    return method if new is fun else types.MethodType(new, method.__self__)


def _check_change(method: Any) -> None:
    """Refuse what changes an object from outside of a body."""
    if isinstance(method.__self__, type):
        return
    if method.__name__ in CHANGING and not isinstance(method.__self__, Tracer):
        changes(method.__self__)
    refuse_random(method)


def not_captured(frames: list[FrameType]) -> list[Row]:
    """Rows of a card that say why the innermost function of some frames which has loops, branches
    or calls to rewrite was left as it is; none if it was rewritten."""
    for frame in reversed(frames):
        code = frame.f_code
        if owner_of(code.co_filename) != USERS:
            continue
        known = _KNOWN.get((id(code), False)) or _KNOWN.get((id(code), True))
        if known is None or not known.why:
            return []
        rows = [("capture", f"{code.co_name} ran as plain Python: {known.why}")]
        return [*rows, ("write", known.write)] if known.write else rows
    return []


not_captured_rows.provide(not_captured)


def captured(fun: Callable[..., object]) -> Callable[..., object]:
    """A function that a transform calls, rewritten as far as it is the user's."""
    kind = type(fun)
    if kind is FunctionType:
        return converted(fun)  # type: ignore[arg-type]
    if kind is types.MethodType:
        return _method(fun)
    if kind is functools.partial:
        return functools.partial(captured(fun.func), *fun.args, **fun.keywords)  # type: ignore[attr-defined]
    return fun if isinstance(fun, type) else _object(fun)
