"""Write docs/jax_names.md: what each public name of JAX and optax is called here, or why it is not.

Run it with a Python that has jax and optax; it prints the counts.  A name is the same where the
module that stands for JAX's has it and it takes traced arrays; `OTHER` says what else to write,
`REFUSED` why there is nothing.
"""

from __future__ import annotations

import importlib
import textwrap
import types
import warnings
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jax_names_tables import MODULES, OTHER, REFUSED

from fgrad.base.lazy_import import load
from fgrad.numpy.unsupported import ADVICE

HEAD = """\
# The names of JAX and optax

Written by `docs/jax_names.py` for jax {jax} and optax {optax}. A module of theirs has a module of
fgrad that stands for it; *same* names are found there, with the same meaning and
[NumPy's dtypes](coming_from.md#what-is-different). What this table does not list is *same*.

| module | here | names | same | other name | refused | missing |
|---|---|---|---|---|---|---|
"""


def public(module: Any) -> list[str]:
    """The public names of a module that are not modules themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [n for n in dir(module) if not n.startswith("_")]
        return [n for n in names if not isinstance(getattr(module, n, None), types.ModuleType)]


def found(here: str, name: str) -> bool:
    """Whether a module of fgrad has a name; what it hands on from SciPy is plain."""
    try:
        module = load(here)
    except ImportError:
        return False
    value = getattr(module, name, None)
    if value is None or (here == "fgrad.numpy" and name in ADVICE):
        return False
    plain = here.startswith("fgrad.scipy") and isinstance(value, types.FunctionType)
    return not (plain and value.__module__.startswith("scipy."))


def reason(name: str) -> str | None:
    """Why there is no such name, by the first pattern that fits."""
    group, _, last = name.rpartition(".")
    if group == "jax.numpy" and last in ADVICE:
        return f"{ADVICE[last][0]}: write `{ADVICE[last][1]}`"
    return next((why for pattern, why in REFUSED.items() if fnmatchcase(name, pattern)), None)


def classified(module: str, here: str) -> dict[str, list[str]]:
    """The names of a module of JAX by what is here."""
    kinds: dict[str, list[str]] = {"same": [], "other": [], "refused": [], "missing": []}
    for name in public(importlib.import_module(module)):
        full = f"{module}.{name}"
        if full in OTHER:
            kinds["other"].append(name)
        elif found(here, name):
            kinds["same"].append(name)
        else:
            kinds["refused" if reason(full) else "missing"].append(name)
    return kinds


def code(text: str) -> str:
    """In code font, safe in a table."""
    return f"`{text}`".replace("|", "\\|")


def by_value(module: str, names: Iterable[str]) -> str:
    """Rows of a table: the names, and what is written for them."""
    return "".join([f"| {code(n)} | {code(OTHER[f'{module}.{n}'])} |\n" for n in names])


def by_reason(module: str, names: Iterable[str]) -> str:
    """A paragraph for each reason, with its names."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(reason(f"{module}.{name}") or "", []).append(code(name))
    texts = [f"* {why}: {', '.join(found)}" for why, found in groups.items()]
    return "\n".join([textwrap.fill(t, 100, break_long_words=False) for t in texts]) + "\n"


def section(module: str, kinds: dict[str, list[str]]) -> str:
    """The part of the document about one module."""
    text = f"\n## {module}\n"
    if kinds["other"]:
        text += "\n| there | here |\n|---|---|\n" + by_value(module, kinds["other"])
    if kinds["refused"]:
        text += "\nNot here:\n\n" + by_reason(module, kinds["refused"])
    if kinds["missing"]:
        missing = "Missing: " + ", ".join(map(code, kinds["missing"]))
        text += "\n" + textwrap.fill(missing, 100, break_long_words=False) + "\n"
    return text


def main() -> None:
    """Write the file beside this script, and print the counts."""
    versions = {n: importlib.import_module(n).__version__ for n in ("jax", "optax")}
    text, sections, total = HEAD.format(**versions), "", [0] * 5
    for module, here in MODULES.items():
        kinds = classified(module, here)
        counts = [sum(map(len, kinds.values())), *map(len, kinds.values())]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        print(f"{module:<32}", *[f"{n:>6}" for n in counts], " ".join(kinds["missing"])[:2000])
        shown = [code(module), code(here), *map(str, counts)]
        text += "| " + " | ".join(shown) + " |\n"
        if counts[0] > counts[1]:
            sections += section(module, kinds)
    print(f"{'all':<32}", *[f"{n:>6}" for n in total])
    text += "| all | | " + " | ".join(map(str, total)) + " |\n"
    Path(__file__).with_suffix(".md").write_text(text + sections, encoding="utf-8")


if __name__ == "__main__":
    main()
