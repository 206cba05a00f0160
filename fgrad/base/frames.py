"""L0. Tracebacks without fgrad's own frames: the user's lines, then the error.

FGRAD_TRACEBACK=full shows all frames.  They are shown too where fgrad itself seems to be at fault,
that is where one of its frames raised what no card is made of, such as a KeyError.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import TracebackType

from fgrad.base.source import is_own_file
from fgrad.config import config
from fgrad.errors import CheckError, FgradError
from fgrad.typing import P, R

_DEFECTS = (AssertionError, AttributeError, LookupError, NameError, SystemError)
FOR_USERS = "ACTS_FOR_USERS"  # set in modules whose functions stand for operators of the user's
_STORED = "setting an array element with a sequence"


def hides_own_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of public functions: remove fgrad's frames from the tracebacks of their errors."""

    @functools.wraps(function)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            if sys.version_info >= (3, 11):
                raise
            raise error  # Python 3.10 would raise it with the traceback of before

    return shown


def shorten(error: BaseException) -> None:
    """Remove fgrad's frames from the tracebacks of an error and of its causes."""
    if config.traceback == "full":
        return
    for each in chain_of(error):
        entries = list(entries_of(each.__traceback__))
        if not entries or is_defect(each):
            return
        _explain(each)
        each.__traceback__ = _linked([t for t in entries if not _is_own(t)])


def _explain(error: BaseException) -> None:
    """NumPy's error for `y[0] = x` says that there is a sequence: add what there is."""
    card = error.__cause__
    if type(error) is not ValueError or not isinstance(card, FgradError):
        return
    if not str(error).startswith(_STORED) or len(error.args) > 1 or hasattr(error, "__notes__"):
        return
    advice = next((text for label, text in card.rows if label == "write"), "")
    add_note(error, f"{card.headline}\n  write   {advice}")


def note_read_only(error: BaseException | None, why: str) -> None:
    """Explain NumPy's error for a write into a read-only array: say who made it read-only."""
    if type(error) is not ValueError or hasattr(error, "__notes__"):
        return
    if str(error).endswith("read-only"):
        add_note(error, f"{why}\n  write   b = b.copy()    before it is written, or read")


def chain_of(error: BaseException | None) -> list[BaseException]:
    """An error and its chain of causes."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def add_note(error: BaseException, note: str) -> None:
    """Add lines to an error's message."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.args = (f"{error}\n{note}",)


def entries_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The frames of a traceback, the outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_own(entry: TracebackType) -> bool:
    return is_own_file(entry.tb_frame.f_code.co_filename)


def is_defect(error: BaseException) -> bool:
    """Whether an error is a defect of fgrad, not one raised on purpose, or by what it does for the
    user's code: `x[i]` in captured code is an operator of fgrad's."""
    if isinstance(error, FgradError):
        return isinstance(error, CheckError)
    frames = [entry.tb_frame for entry in entries_of(error.__traceback__)]
    raises = hasattr(error, "used")  # of a check, see ops/checked.py
    if not isinstance(error, _DEFECTS) or not frames or raises:
        return False
    return is_own_file(frames[-1].f_code.co_filename) and not frames[-1].f_globals.get(FOR_USERS)


def _linked(entries: list[TracebackType]) -> TracebackType | None:
    traceback: TracebackType | None = None
    for entry in reversed(entries):
        place = entry.tb_frame, entry.tb_lasti, entry.tb_lineno
        traceback = TracebackType(traceback, *place)
    return traceback
