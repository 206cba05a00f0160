"""L2. Numbers that Python reads out of a differentiated trace.

`float(x)` works where the value is known, and what is made of the number is a constant.  Some uses
would lose a derivative silently, and reach the tracer through `__float__` alone:

    y[0] = x            into a plain NumPy array
    math.sin(x)         and other continuous functions of C libraries; np.float32(x)

They are told from an honest `float(x)` by the instruction that the calling frame executes, and
raise.
"""

from __future__ import annotations

import itertools
import opcode
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.errors import FgradError, LostDerivativeError
from fgrad.lazy import lazy_module
from fgrad.source import Loc, here, resolve, user_frame

if TYPE_CHECKING:
    from fgrad.trace import Tracer

ast = lazy_module("ast")
linecache = lazy_module("linecache")

_STORE = opcode.opmap["STORE_SUBSCR"]
_LOSSY_MODULES = ("math", "cmath", "random", "statistics", "numpy.random")
_LOSSY_FUNCTIONS = (np.fromiter,)
_DISCRETE = frozenset({"isnan", "isinf", "isfinite", "isclose", "floor", "ceil", "trunc"})


def check_read(x: Tracer) -> None:
    """Raise if the number about to be read stands where a derivative would be lost."""
    frame: FrameType | None = sys._getframe(2)
    if frame is None:
        return
    code, at = frame.f_code, frame.f_lasti
    if at < 0:
        return
    if code.co_code[at] == _STORE:
        raise _lost_in_array(x)
    callee = _callee(frame, code, at)
    name = getattr(callee, "__name__", "")
    if callee is not None and _is_lossy(callee) and name not in _DISCRETE:
        raise _lost_in_function(x, name)


def _is_lossy(callee: Any) -> bool:
    if any(callee is function for function in _LOSSY_FUNCTIONS):
        return True
    if isinstance(callee, type):
        return issubclass(callee, np.generic)
    return module_of(callee).startswith(_LOSSY_MODULES)


def module_of(callee: Any) -> str:
    """The module of a function, or of the class that a method belongs to."""
    owner = getattr(callee, "__self__", None)
    return getattr(callee, "__module__", None) or getattr(type(owner), "__module__", None) or ""


def called_by_user() -> Any:
    """The function that the user's code is calling, if the source shows it; else None."""
    frame = user_frame()
    return None if frame is None else _callee(frame, frame.f_code, frame.f_lasti)


def _callee(frame: FrameType, code: CodeType, at: int) -> Any:
    """The function that the frame is calling, if the source shows it; else None."""
    positions = getattr(code, "co_positions", None)
    if positions is None:
        return None
    start, end, first, last = next(itertools.islice(positions(), at // 2, None), (None,) * 4)
    if start is None or end != start or first is None:
        return None
    text = linecache.getline(code.co_filename, start).encode()[first:last].decode(errors="ignore")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    return _lookup(frame, node.func) if isinstance(node, ast.Call) else None


def _lookup(frame: FrameType, node: Any) -> Any:
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        return getattr(_lookup(frame, node.value), node.attr, None)
    return None


def _rows(x: Tracer, used: Loc) -> tuple[tuple[str, str], ...]:
    return (
        ("value", f"{x.aval} in {x.builder.what}({x.builder.name})"),
        ("used", f"{used}:  {used.text()}"),
    )


def _lost_in_array(x: Tracer) -> FgradError:
    return LostDerivativeError(
        "A traced value was stored into a plain NumPy array.",
        (
            *_rows(x, resolve(here())),
            (
                "why",
                "the array would hold a plain number, and the trace would lose where it is from.",
            ),
            ("write", "y = fgrad.numpy.zeros(n)     an array that y[i] = v may write into"),
            ("write", "np.stack([a, b])             build the array from its parts"),
            ("write", "fgrad.at(y)[i].set(v)        a new array with one element replaced"),
        ),
    )


def _lost_in_function(x: Tracer, name: str) -> FgradError:
    return LostDerivativeError(
        f"{name}() takes plain numbers, but got a traced value.",
        (
            *_rows(x, resolve(here())),
            ("why", "its result would be a constant, and the trace would lose where it is from."),
            ("write", f"{_traced_form(name)}   follows derivatives"),
            ("write", f"{name}(float(x))   a constant is meant"),
        ),
    )


def _traced_form(name: str) -> str:
    return (
        f"x.astype(np.{name})"
        if hasattr(np, name) and isinstance(getattr(np, name), type)
        else f"np.{name}(x)"
    )
