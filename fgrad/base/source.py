"""L0. Stack -> the user's source line: the innermost frame outside libraries.

A frame of fgrad, NumPy or SciPy never counts.  One of another installed package or of the standard
library, as where pandas calls back, counts only if there is no other.

Recording happens on every equation, so a location is first a raw `(code, instruction)` pair, which
costs a frame walk and nothing else; `resolve` turns it into file, line and function when printed.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from types import CodeType, FrameType
from typing import TypeAlias

import numpy

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple

linecache = lazy_module("linecache")

RawLoc: TypeAlias = "tuple[CodeType, int]"

_NUMPY = os.path.dirname(os.path.abspath(numpy.__file__))
_SITE = os.path.dirname(_NUMPY)
_OWN = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    _NUMPY + os.sep,
    os.path.join(_SITE, "scipy", ""),
    os.path.join(_SITE, "optree", ""),
    "<frozen ",
)
_LIBRARIES = (os.path.join(_SITE, ""), os.path.join(os.path.dirname(os.__file__), ""))

USERS, LIBRARY, OWN = 0, 1, 2  # whose code a file holds
_owners: dict[str, int] = {}
_own_files: set[str] = set()  # those whose owner was asked for, and is fgrad


class Loc(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    func: str

    def __str__(self) -> str:
        return f"{_cell_of(self.file) or os.path.basename(self.file)}:{self.line} ({self.func})"

    def text(self) -> str:
        """The source line itself, stripped; empty when it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


def _cell_of(file: str) -> str:
    """The name of a notebook's cell, as IPython shows it; empty for other files."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return " ".join(named) if named else ""


def owner_of(file: str) -> int:
    """The owner of a file: the user, a library, or fgrad."""
    found = _owners.get(file)
    if found is None:
        own, library = file.startswith(_OWN), file.startswith(_LIBRARIES)
        found = _owners[file] = OWN if own else LIBRARY if library else USERS
        if own:
            _own_files.add(file)
    return found


def is_own_file(file: str) -> bool:
    """Whether a file is one of fgrad's."""
    return file.startswith(_OWN[0])


def caller() -> FrameType | None:
    """The frame of the function that called the function which asks."""
    return sys._getframe(2)


def user_frame() -> FrameType | None:
    """The innermost frame of the user's, or else of a library; None if there is neither."""
    frame: FrameType | None = sys._getframe(1)
    library: FrameType | None = None
    while frame is not None:
        owner = owner_of(frame.f_code.co_filename)
        if owner == USERS:
            return frame
        if owner == LIBRARY and library is None:
            library = frame
        frame = frame.f_back
    return library


def here() -> RawLoc:
    """The raw location of the innermost user frame; to be called from fgrad's code."""
    # Keyed by file, not by code object: hashing a code object reads all of its instructions.
    own = _own_files
    frame: FrameType = sys._getframe(2)
    try:
        while frame.f_code.co_filename in own:
            frame = frame.f_back  # type: ignore[assignment]
        code = frame.f_code
        if _owners[code.co_filename] == USERS:
            return code, frame.f_lasti
    except (AttributeError, KeyError):
        pass  # there is no frame more, or nobody has asked for the owner of the file
    found = user_frame() or sys._getframe(1)
    return found.f_code, found.f_lasti


class _Heard(threading.local):
    """The warnings of a trace that may be dropped, in place of showing them."""

    texts: list[str] | None = None


HEARD = _Heard()


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the user's line, at any call depth inside fgrad."""
    if HEARD.texts is not None:
        HEARD.texts.append(text)
        return
    frame = user_frame() or sys._getframe(1)
    place = frame.f_code.co_filename, frame.f_lineno
    names = frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<unknown>"  # without one Python drops the warning
    warnings.warn_explicit(text, category, *place, module, registry)


def library_frames() -> list[FrameType]:
    """The frames of libraries between the user's code and fgrad, from within."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and owner_of(frame.f_code.co_filename) != USERS:
        if not is_own_file(frame.f_code.co_filename):
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
