"""Write docs/scipy_support.md: which names of SciPy take traced arrays.  Run by `make docs`.

A name of `__all__` is supported where `fgrad.scipy` has a form of it for traced arrays, which is
looked up and not told; `WITHOUT` lists those that have no meaning for derivatives; the others are
refused with a card.  It prints the counts.
"""

from __future__ import annotations

import importlib
import textwrap
import types
import warnings
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import scipy
from scipy_names_tables import WITHOUT

from fgrad.base.lazy_import import load

HEAD = """\
# SciPy functions on traced arrays

Written by `make docs` for SciPy {version}. What is supported takes traced arrays as
`fgrad.scipy.module.name`, with SciPy's signature; on plain arrays it is SciPy's own. What is
refused raises a card, see [errors.md](errors.md#unsupportednumpyerror). Names without a meaning for
derivatives (warnings, tests of hypotheses, designs of filters, settings) are SciPy's own, for plain
arrays; the share is of the others.

| module | names | without a meaning | supported | refused | share |
|---|---|---|---|---|---|
"""
KINDS = ("supported", "refused", "without")


def has_traced_form(module: str, name: str) -> bool:
    """Whether `fgrad.scipy` has its own form of a name, and not SciPy's handed on."""
    try:
        value = getattr(load(f"fgrad.scipy.{module}"), name)
    except (ImportError, AttributeError):
        return False
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    home = getattr(value, "__module__", None) or type(value).__module__
    return home.startswith("fgrad.")


def reason(module: str, name: str) -> str | None:
    """Why a name has no meaning for derivatives, if so."""
    for why, patterns in WITHOUT[module].items():
        if any([fnmatchcase(name, pattern) for pattern in patterns.split()]):
            return why
    return None


def names(module: str) -> list[str]:
    """The public names of a module of SciPy that are not modules themselves."""
    there = importlib.import_module(f"scipy.{module}")
    return [n for n in sorted(there.__all__) if not isinstance(getattr(there, n), types.ModuleType)]


def classified(module: str) -> dict[str, list[str]]:
    """The names of a module by what is here."""
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names(module):
            found = "supported" if has_traced_form(module, name) else "refused"
            kinds[found if found == "supported" or not reason(module, name) else "without"] += [
                name
            ]
    return kinds


def paragraph(head: str, found: Iterable[str]) -> str:
    """Names in code font after what they have in common, wrapped."""
    text = f"{head}: " + ", ".join([f"`{n}`" for n in found]) + "."
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def section(module: str, kinds: dict[str, list[str]]) -> str:
    """The part of the page about one module."""
    parts = [paragraph(kind.capitalize(), kinds[kind]) for kind in KINDS[:2] if kinds[kind]]
    groups: dict[str, list[str]] = {}
    for name in kinds["without"]:
        groups.setdefault(reason(module, name) or "", []).append(name)
    rows = [paragraph(f"* {why}", found) for why, found in groups.items()]
    parts += ["Without a meaning for derivatives:", "\n".join(rows)] if rows else []
    return f"\n## scipy.{module}\n\n" + "\n\n".join(parts) + "\n"


def row(head: str, counts: Iterable[int]) -> str:
    """A row of the table; counts are those of KINDS."""
    supported, refused, without = counts
    share = supported / max(supported + refused, 1)
    cells = (head, supported + refused + without, without, supported, refused, f"{share:.0%}")
    print(f"{head:<20}", *[f"{c:>6}" for c in cells[1:]])
    return "| " + " | ".join([str(c) for c in cells]) + " |\n"


def main() -> None:
    """Write the page beside this script, and print the counts."""
    text = HEAD.format(version=".".join(scipy.__version__.split(".")[:2]))
    sections, total = "", [0, 0, 0]
    for module in WITHOUT:
        kinds = classified(module)
        counts = [len(kinds[kind]) for kind in KINDS]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        text += row(f"scipy.{module}", counts)
        sections += section(module, kinds)
    text += row("all", total)
    Path(__file__).with_name("scipy_support.md").write_text(text + sections, encoding="utf-8")


if __name__ == "__main__":
    main()
