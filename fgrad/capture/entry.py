"""L5. What transforms ask for: the rewritten form of a function, if it can make a difference.

Most functions have no loop, no branch and no call that matters.  Their code says so, without their
source, and they stay as they are.  The rewriting itself is loaded when it is first needed.
"""

from __future__ import annotations

import builtins
import functools
import opcode
import types
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from fgrad.base.lazy_import import lazy_module
from fgrad.base.source import USERS, owner_of
from fgrad.tracing import capturing
from fgrad.tracing.capturing import rolls

convert = lazy_module("fgrad.capture.operators")

_JUMPS = frozenset(
    [code for name, code in opcode.opmap.items() if "JUMP" in name or "FOR_ITER" in name]
)
_FAMILIAR = frozenset({"numpy", "scipy", "fgrad", "operator"})
_MADE = frozenset({
    "array", "arange", "asarray", "copy", "empty", "empty_like", "eye", "float16", "float32",
    "float64", "full", "full_like", "identity", "int16", "int32", "int64", "int8", "linspace",
    "ndarray", "ones", "ones_like", "zeros", "zeros_like", "bool_", "complex64", "complex128",
    "uint8", "uint16", "uint32", "uint64",
})  # fmt: skip

_plain: dict[int, tuple[CodeType, bool]] = {}


def is_plain(fun: FunctionType) -> bool:
    """Whether rewriting a function would change nothing: it has no jumps, makes no functions, and
    reads nothing but familiar functions."""
    code = fun.__code__
    found = _plain.get(id(code))
    if found is None:
        if len(_plain) > 4096:
            _plain.clear()
        found = _plain[id(code)] = code, _is_plain(code, fun)
    return found[1]


def _is_plain(code: CodeType, fun: FunctionType) -> bool:
    if not _JUMPS.isdisjoint(code.co_code[::2]):
        return False
    if any([isinstance(c, CodeType) for c in code.co_consts]):
        return False
    for name in code.co_names:
        if name in _MADE:
            return False
        value = fun.__globals__.get(name, fun)
        if value is fun:
            if hasattr(builtins, name):
                return False
        elif callable(value) or isinstance(value, types.ModuleType):
            owner = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            if str(owner).partition(".")[0] not in _FAMILIAR:
                return False
        elif not isinstance(value, (int, float, complex, str)) and hasattr(value, "__dict__"):
            return False  # an object, whose methods may be the user's
    return not code.co_freevars


def captured(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a user's function in the trace that is open."""
    while type(fun) is functools.partial:
        return functools.partial(captured(fun.func), *fun.args, **fun.keywords)  # type: ignore[attr-defined]
    inner = fun.__func__ if type(fun) is types.MethodType else fun
    if type(inner) is not FunctionType:
        return convert.captured(fun) if rolls() and not isinstance(fun, type) else fun
    if owner_of(inner.__code__.co_filename) != USERS or is_plain(inner) or not rolls():
        return fun
    return convert.captured(fun)


capturing.captured.provide(captured)
