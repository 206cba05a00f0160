"""L5. What was made of each loop and branch, for `explain_capture` and for cards."""

from __future__ import annotations

import threading

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import Loc, here, resolve


class Note(NamedTuple):
    """One loop or branch: `what` is "rolled", "unrolled", "branch" or "plain", a function."""

    what: str
    loc: Loc
    why: str


class _Notes(threading.local):
    """The list that is being filled, if there is one."""

    kept: list[Note] | None = None


NOTES = _Notes()


def note(what: str, why: str = "", loc: Loc | None = None) -> None:
    """Note what becomes of the statement in the user's line, or of what stands somewhere else."""
    if NOTES.kept is not None:
        NOTES.kept.append(Note(what, loc or resolve(here()), why))


def reason_of(error: Exception) -> str:
    """The reason in one line: that of a card, or an error's first line."""
    rows = getattr(error, "rows", ())
    reason = next((text for label, text in rows if label == "why"), "")
    return reason or str(error).split("\n")[0]
