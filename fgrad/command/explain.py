"""L8. `python -m fgrad explain NanError`: the section of docs/errors.md on an error.

An error is named as its class, in any case, or as the last line of its card does:
`docs/errors.md#nanerror`.  Without a name, all errors with their first sentences.
"""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

import fgrad
from fgrad import errors
from fgrad.command.texts import CommandError, similar, table

_PACKAGE = Path(fgrad.__file__).parent
# An installed package holds a copy of the document beside this file; a checkout its original.
PLACES = (_PACKAGE / "command" / "errors.md", _PACKAGE.parent / "docs" / "errors.md")
_FENCE = re.compile(r"^```.*\n", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("code", nargs="?", help="the name of an error, as NanError; none: all")


def run(options: argparse.Namespace) -> int:
    """Print one section, or the list."""
    if options.code is None:
        print(table([(name, _first_line(kind)) for name, kind in sorted(classes().items())]))
        return 0
    print(explained(options.code))
    return 0


def classes() -> dict[str, type]:
    """The errors and warnings of fgrad by their names."""
    own = [v for v in vars(errors).values() if isinstance(v, type)]
    return {
        kind.__name__: kind
        for kind in own
        if kind.__module__ == errors.__name__ and issubclass(kind, Exception)
    }


def explained(code: str) -> str:
    """What the documents say of an error.

    Raises:
        CommandError: if there is no such error.

    Example:
        >>> explained("docs/errors.md#nanerror").splitlines()[0]
        'NanError, a FloatingPointError'
    """
    name = code.rpartition("#")[2].rpartition(".")[2].lower()
    kinds = {known.lower(): kind for known, kind in classes().items()}
    kind = kinds.get(name)
    if kind is None:
        hint = similar(name, classes()) or "; `python -m fgrad explain` lists all"
        raise CommandError(f"there is no error {code!r}{hint}")
    usual = [base.__name__ for base in kind.__bases__ if base is not errors.FgradError]
    title = kind.__name__ + (f", a {' and a '.join(usual)}" if usual else "")
    text = inspect.getdoc(kind) or ""
    return "\n\n".join([part for part in (title, text, section(kind.__name__)) if part])


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def section(name: str) -> str:
    """The text of a section of the document, without the marks of code; empty if there is none."""
    for place in PLACES:
        if place.exists():
            _, _, rest = place.read_text(encoding="utf-8").partition(f"\n## {name}\n")
            return _FENCE.sub("", rest.partition("\n## ")[0]).strip()
    return ""
