"""L0. Where in the user's code we are: the innermost frame outside fgrad, NumPy and SciPy.

Recording happens on every equation, so a location is first a raw `(code, instruction)` pair, which
costs a frame walk and nothing else; `resolve` turns it into file, line and function when printed.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias

import numpy

from fgrad.lazy import lazy_module

linecache = lazy_module("linecache")

RawLoc: TypeAlias = "tuple[CodeType, int]"

_NUMPY = os.path.dirname(os.path.abspath(numpy.__file__))
_SITE = os.path.dirname(_NUMPY)
_OWN = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    _NUMPY + os.sep,
    os.path.join(_SITE, "scipy", ""),
    os.path.join(_SITE, "optree", ""),
    "<frozen ",
)
_is_internal: dict[str, bool] = {}


class Loc(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    func: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} ({self.func})"

    def text(self) -> str:
        """The source line itself, stripped; empty when it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


def here() -> RawLoc:
    """The raw location of the innermost frame that belongs to the user."""
    frame: FrameType | None = sys._getframe(1)
    outer = frame
    while frame is not None:
        # Keyed by file, not by code object: hashing a code object reads all of its instructions.
        code = frame.f_code
        internal = _is_internal.get(code.co_filename)
        if internal is None:
            name = code.co_filename
            internal = _is_internal[name] = name.startswith(_OWN)
        if not internal:
            return code, frame.f_lasti
        outer = frame
        frame = frame.f_back
    assert outer is not None
    return outer.f_code, outer.f_lasti


def user_frame() -> FrameType | None:
    """The innermost frame that belongs to the user."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame


def library_frames() -> list[FrameType]:
    """The frames of NumPy and SciPy between the user's code and fgrad, from within."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        if not frame.f_code.co_filename.startswith(_OWN[0]):
            found.append(frame)
        frame = frame.f_back
    return found


_resolved: dict[tuple[int, int], tuple[CodeType, Loc]] = {}


def resolve(raw: RawLoc | Loc) -> Loc:
    """File, line and function of a raw location."""
    if isinstance(raw, Loc):
        return raw
    code, lasti = raw
    found = _resolved.get((id(code), lasti))
    if found is None:
        line = code.co_firstlineno
        for start, end, number in code.co_lines():
            if start <= lasti < end and number is not None:
                line = number
                break
        # The code object is kept, so that its id is not given to another one.
        found = _resolved[id(code), lasti] = code, Loc(code.co_filename, line, code.co_name)
    return found[1]
