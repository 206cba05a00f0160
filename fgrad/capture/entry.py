"""L5. What transforms ask for: the rewritten form of a function, if it can make a difference.

Most functions have no loop, no branch and no call that matters.  Their code says so, without their
source, and they stay as they are.  The rewriting itself is loaded when it is first needed.
"""

from __future__ import annotations

import builtins
import functools
import opcode
import sys
import types
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from fgrad.base.closures import contents
from fgrad.base.lazy_import import lazy_module
from fgrad.base.source import USERS, owner_of
from fgrad.capture.listed import LISTED
from fgrad.tracing import capturing
from fgrad.tracing.capturing import left_alone, rolls

convert = lazy_module("fgrad.capture.operators")

_TESTS = ("JUMP", "FOR_ITER", "UNARY_NOT", "IS_OP", "TO_BOOL")
_JUMPS = frozenset(
    [code for name, code in opcode.opmap.items() if any([part in name for part in _TESTS])]
)
_STORES = frozenset([opcode.opmap.get(name, -1) for name in ("STORE_SUBSCR", "STORE_SLICE")])
_LISTS = frozenset([opcode.opmap[name] for name in ("BUILD_LIST", "BUILD_TUPLE", "LIST_APPEND")])
_READS = frozenset([opcode.opmap.get(name, -1) for name in ("BINARY_SUBSCR", "BINARY_SLICE")])
# From Python 3.14 on `x[i]` is a binary operation: the instruction and its number.
_SYMBOLS = [symbol for _, symbol in getattr(opcode, "_nb_ops", ())]
_SUBSCRIPT = (opcode.opmap.get("BINARY_OP", -1), _SYMBOLS.index("[]") if "[]" in _SYMBOLS else -1)
_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_NAME_SHIFT = int(sys.version_info >= (3, 11))  # the lowest bit says what it is read for
_FAMILIAR = frozenset({"numpy", "scipy", "fgrad", "operator"})
_MADE = frozenset({
    "array", "arange", "asarray", "copy", "empty", "empty_like", "eye", "float16", "float32",
    "float64", "full", "full_like", "identity", "int16", "int32", "int64", "int8", "linspace",
    "ndarray", "ones", "ones_like", "zeros", "zeros_like", "bool_", "complex64", "complex128",
    "uint8", "uint16", "uint32", "uint64", "nditer", "ndenumerate",
})  # fmt: skip
_PLACES = ("ndarray", "", "linalg", "fft")  # of NumPy, whose attributes are left alone
_MOST_ITEMS = 64  # of a container that is looked through
_DEEPEST = 3  # containers in each other that are
_plain: dict[tuple[int, bool], tuple[CodeType, bool, bool]] = {}


def is_plain(fun: FunctionType, light: bool) -> bool:
    """Whether rewriting a function would change nothing: it has no jumps (which are left alone if
    its calls alone are rewritten, as elements of plain arrays are), and reads nothing but familiar
    functions."""
    code = fun.__code__
    found = _plain.get((id(code), light))
    if found is None:
        if len(_plain) > 4096:
            _plain.clear()
            left_alone.clear()
        indexes = not light and _reads_elements(code)
        found = _plain[id(code), light] = code, _is_plain(code, fun, light, indexes), indexes
        if light and found[1]:
            left_alone[id(code)] = code
    given = [*(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values()]
    held = all([_holds_familiar(cell, found[2]) for cell in fun.__closure__ or ()])
    return found[1] and held and all([_is_left_alone(value, found[2]) for value in given])


def _reads_elements(code: CodeType) -> bool:
    """Whether there is an `x[i]` or `x[i:j]` in it."""
    steps = code.co_code
    if not _READS.isdisjoint(steps[::2]):
        return True
    return _SUBSCRIPT[1] >= 0 and _SUBSCRIPT in zip(steps[::2], steps[1::2], strict=True)


def _is_plain(code: CodeType, fun: FunctionType, light: bool, indexes: bool) -> bool:
    """`indexes` says that elements are read: of a plain array, perhaps at a traced place."""
    if any([isinstance(c, CodeType) for c in code.co_consts]):
        return False
    steps = code.co_code[::2]
    if not (_STORES if light else _JUMPS).isdisjoint(steps):
        return False
    if not (_LISTS.isdisjoint(steps) or LISTED.isdisjoint(code.co_names)):
        return False
    read = global_names(code)
    scope = fun.__globals__
    if not light and any([_sets_errors(name, scope.get(name)) for name in code.co_names]):
        return False
    return all([_is_familiar(name, scope, name in read, indexes) for name in code.co_names])


def _sets_errors(name: str, value: object) -> bool:
    """Whether errors of floating point numbers may be asked for, which compiled code has not."""
    return name in ("errstate", "seterr") or value is np.errstate or value is np.seterr


def _is_familiar(name: str, scope: dict[str, Any], is_read: bool, indexes: bool) -> bool:
    """Whether what a name may stand for is left alone; `is_read` says that it is more than an
    attribute, `sum` and not `np.sum`."""
    if name in _MADE:
        return False
    value = scope.get(name, scope)
    if name == "__class__":
        return False
    if value is not scope:
        return _is_left_alone(value, indexes)
    if is_read:
        return not hasattr(builtins, name)
    # What is no attribute of NumPy's may be a method of the user's.
    return any(name in _attributes(place) for place in _PLACES)


@functools.cache
def _attributes(place: str) -> frozenset[str]:
    return frozenset(dir(getattr(np, place) if place else np))


def _holds_familiar(cell: types.CellType, indexes: bool) -> bool:
    held = contents(cell, cell)
    return held is not cell and _is_left_alone(
        held, indexes
    )  # itself: the variable has no value yet


def _is_left_alone(value: object, indexes: bool, depth: int = 0) -> bool:
    """Whether rewriting changes no use of a value: a function of a library, a number, an array, or
    a container of these; one that may hold itself is looked at to a depth."""
    if isinstance(value, (int, float, complex, str)):
        return True
    if indexes and isinstance(value, (np.ndarray, tuple, list, dict)):
        return False
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, (tuple, list, dict)):
        items = value.values() if isinstance(value, dict) else value
        if depth == _DEEPEST or len(value) > _MOST_ITEMS:
            return False
        return all([_is_left_alone(item, indexes, depth + 1) for item in items])
    if not (callable(value) or isinstance(value, types.ModuleType)):
        return not hasattr(value, "__dict__")  # an object may have methods of the user's
    module = isinstance(value, types.ModuleType)
    owner = value.__name__ if module else getattr(value, "__module__", None)
    if str(owner or "").partition(".")[0] not in _FAMILIAR:
        return False  # an object of the user's is not asked for its name
    return getattr(value, "__name__", "") not in _MADE


def global_names(code: CodeType) -> set[str]:
    """The names that are read as globals, not as attributes."""
    found: set[str] = set()
    high = 0
    for op, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = high << 8 | low
        high = number if op == opcode.EXTENDED_ARG else 0
        if op == _LOAD_GLOBAL:
            found.add(code.co_names[number >> _NAME_SHIFT])
    return found


def captured(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a user's function in the trace that is open."""
    kind = type(fun)
    if kind is functools.partial:
        return functools.partial(captured(fun.func), *fun.args, **fun.keywords)  # type: ignore[attr-defined]
    light = not rolls()
    inner: Any = fun.__func__ if kind is types.MethodType else fun  # type: ignore[attr-defined]
    if type(inner) is not FunctionType:
        whole = isinstance(fun, type) or owner_of_class(kind) != USERS
        return fun if whole else _rewritten(fun, light)
    if owner_of(inner.__code__.co_filename) != USERS or is_plain(inner, light):
        return fun
    return _rewritten(fun, light)


def _rewritten(fun: Any, light: bool) -> Callable[..., Any]:
    return convert.light(fun) if light else convert.captured(fun)


def owner_of_class(kind: type) -> int:
    """Who wrote the function that runs where an object of a class is called."""
    code = getattr(getattr(kind, "__call__", None), "__code__", None)  # noqa: B004
    return -1 if code is None else owner_of(code.co_filename)


capturing.captured.provide(captured)
