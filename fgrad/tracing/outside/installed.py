"""L2. Functions of installed packages that traces have run: what a function reads from outside is
looked for in these alone.

A function that names `plt.plot` can reach all of Matplotlib, though a trace may run none of it.
What a trace has not run cannot have told it anything: the branch that was not taken is decided by
values that are watched.  So such functions are left out; the trace notes which of them run after
all, and if some do, the look is repeated.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import TypeAlias

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
Place: TypeAlias = "tuple[str, str]"  # of code: capture may run a rewritten form of it
_RAN: set[Place] = set()


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return any([folder in file for folder in _INSTALLED])


def can_note() -> bool:
    """Whether `Noting` can tell what runs: nobody else profiles this thread."""
    profile = sys.getprofile()
    return profile is None or isinstance(getattr(profile, "__self__", None), Noting)


def has_run(code: CodeType) -> bool:
    """Whether a function of an installed package has run while somebody took notes."""
    return _place(code) in _RAN


def _place(code: CodeType) -> Place:
    return code.co_filename, code.co_name


class Noting:
    """Takes notes of the functions of installed packages that run within a block.

    Arguments:
        wanted: whether there are functions that would be noted.
    """

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted and can_note()
        self.seen: set[CodeType] = set()
        self.count = len(_RAN)
        self.more = False  # whether functions ran that had not before

    def __enter__(self) -> Noting:
        if self.wanted:
            self.before = sys.getprofile()
            sys.setprofile(self._note)
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.wanted:
            sys.setprofile(self.before)
            _RAN.update([_place(code) for code in self.seen if is_installed(code.co_filename)])
        self.more = len(_RAN) > self.count

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            self.seen.add(frame.f_code)
