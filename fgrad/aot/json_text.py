"""L7. JSON -> lists, dictionaries, numbers.

The package `json` takes 1.2 ms to import, a quarter of the time in which a trusted file is loaded:
its scanner, which is compiled, is taken from the module that holds it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fgrad.typing import PyTree

try:
    from _json import make_scanner  # type: ignore[import-not-found]
except ImportError:  # an interpreter without it
    from json.scanner import make_scanner  # type: ignore[attr-defined,no-redef]


class _Context:
    """What the scanner is told."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  (of the scanner that is written in Python)

    @staticmethod
    def parse_constant(name: str) -> object:
        """NaN and infinities stand in no head."""
        raise ValueError(name)


def parsed(text: str) -> PyTree:
    """The value that a text spells, with spaces behind it.

    Raises:
        ValueError: it is no JSON.
    """
    scan: Any = make_scanner
    try:
        value, end = scan(_Context)(text, 0)
    except (StopIteration, SystemError):  # the latter for the error that `json` would define
        raise ValueError("no JSON") from None
    if text[end:].strip(" "):
        raise ValueError("more than one value")
    return value
