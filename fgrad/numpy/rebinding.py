"""L4. `v += x` where `v` is a plain array and `x` is traced.

Python binds `v` to what the operator gives.  If nothing else refers to the array, nobody can tell
an array of the trace from one that was written in place:

    v = v0.copy()
    v += dt * x       v is an array of the trace from here on

Whether that is so is told by CPython's count of references.  How many there are where a variable
alone refers to an array is counted for this Python, in a call like that of an operator.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType
from typing import TypeGuard

import numpy as np

from fgrad.base.source import user_frame
from fgrad.typing import PyTree

_VIEW = np.zeros((1, 1)).reshape(1)
_OF_BASE = sys.getrefcount(_VIEW.base)  # where a view alone refers to it
_FIRST_IN_PLACE = 13  # of the arguments of BINARY_OP


def is_owner(x: object) -> TypeGuard[np.ndarray]:
    """Whether a value is a plain array of numbers, to whose memory nothing but it refers."""
    if type(x) is not np.ndarray or x.dtype.kind not in "biufc" or not x.flags.writeable:
        return False
    if x.base is None:
        return x.flags.owndata
    is_alone = sys.getrefcount(x.base) <= _OF_BASE
    return is_alone and type(x.base) is np.ndarray and x.base.flags.owndata


def operator_rebinds(out: tuple[PyTree, ...]) -> bool:
    """Whether a ufunc's `out` is an array of one variable alone, which an operator binds anew.

    Arguments:
        out: as `__array_ufunc__` got it, handed on as there.
    """
    (x,) = out
    if not is_owner(x) or sys.getrefcount(x) > _in_ufunc():
        return False
    frame = user_frame()
    return frame is not None and _binds_variable(frame.f_code, frame.f_lasti)


def _binds_variable(code: CodeType, at: int) -> bool:
    """Whether the instruction at a place is an operator in place whose result a variable of the
    function gets."""
    text = code.co_code
    name = dis.opname[text[at]]
    if not (
        name.startswith("INPLACE_") or (name == "BINARY_OP" and text[at + 1] >= _FIRST_IN_PLACE)
    ):
        return False
    at += 2
    while dis.opname[text[at]] == "CACHE":
        at += 2
    name = dis.opname[text[at]]
    if name == "STORE_DEREF":
        return text[at + 1] < _first_free(code)
    return name.startswith("STORE_FAST")


def _first_free(code: CodeType) -> int:
    """The number of the first cell that is an enclosing function's."""
    if sys.version_info < (3, 11):
        return len(code.co_cellvars)
    return len({*code.co_varnames, *code.co_cellvars})


class _Counted:
    """An operand that tells how many references there are to what it is added to."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: PyTree, **kwargs: PyTree
    ) -> int:
        return _count(kwargs.pop("out"), ufunc, method, inputs, kwargs)


def _count(out: tuple[PyTree, ...], *_: PyTree) -> int:
    return _handed_on(out)


def _handed_on(out: tuple[PyTree, ...]) -> int:
    (x,) = out
    return sys.getrefcount(x)


@functools.cache
def _in_ufunc() -> int:
    v: PyTree = np.zeros(1)
    v += _Counted()
    return v  # type: ignore[no-any-return]


def _references(x: object, *_: object) -> int:
    """How many references there are to the first argument."""
    return sys.getrefcount(x)


@functools.cache
def sole_references() -> int:
    """How many references a function counts to its first argument, an array to which one variable
    of its caller alone refers."""
    x: PyTree = np.zeros(1)
    y: PyTree = np.zeros(1)

    def inner() -> int:
        nonlocal y
        return _references(y, "Add", inner)

    return min(_references(x, "Add", inner), inner())
