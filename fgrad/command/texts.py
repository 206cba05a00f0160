"""L8. What commands print: aligned rows, sizes, and errors with the status of the process."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fgrad.errors import Row

USAGE = 2  # the exit status for what was asked wrongly; 1: what was asked for failed


class CommandError(Exception):
    """What the user asked for cannot be done: a line for the terminal, and the exit status."""

    def __init__(self, text: str, status: int = USAGE) -> None:
        super().__init__(text)
        self.status = status


def table(rows: Iterable[Row]) -> str:
    """Labels and texts in two columns.

    Example:
        >>> print(table([("Python", "3.12"), ("NumPy", "2.1")]))
        Python  3.12
        NumPy   2.1
    """
    rows = list(rows)
    width = max([len(label) for label, _ in rows], default=0)
    return "\n".join([f"{label:{width}}  {text}".rstrip() for label, text in rows])


def size_text(nbytes: int) -> str:
    """A size for readers.

    Example:
        >>> size_text(999), size_text(2_345_678)
        ('999 B', '2.3 MB')
    """
    size, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"


def similar(name: str, names: Iterable[str]) -> str:
    """A hint at names that are spelt like one that does not exist; empty if there are none.

    Example:
        >>> similar("sinn", ["sin", "log"])
        '; similar: sin'
    """
    known = {n.lower(): n for n in names}
    found = [known[n] for n in difflib.get_close_matches(name.lower(), known)]
    return f"; similar: {', '.join(found)}" if found else ""
