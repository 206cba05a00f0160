"""Write tests/golden/jax_keywords.json: the keywords of JAX's and optax's functions.

Run it with a Python that has jax and optax: `python benchmarks/jax_keywords.py`.  Arguments without
a default value are left out: they are given by their place.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT)]

from jax_names import found, public  # noqa: E402
from jax_names_tables import MODULES, OTHER  # noqa: E402

PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def keywords(function: Any) -> tuple[list[str], list[str]] | None:
    """What can be given by place, and the keywords with a default value."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [p.name for p in parameters if p.default is not p.empty and p.name[0] != "_"]
    return [p.name for p in parameters if p.kind in PLACED], named


def main() -> None:
    """Look at all functions that have the same name here."""
    rows: dict[str, Any] = {}
    for module, here in MODULES.items():
        if module.startswith("jax.scipy"):
            continue  # those are SciPy's functions, with SciPy's arguments
        there = importlib.import_module(module)
        for name in public(there):
            value = getattr(there, name)
            if f"{module}.{name}" in OTHER or not found(here, name) or inspect.isclass(value):
                continue
            if callable(value) and (both := keywords(value)) is not None:
                rows[f"{module}.{name}"] = both
    path = ROOT / "tests" / "golden" / "jax_keywords.json"
    path.write_text(json.dumps(rows, separators=(",", ":")).replace("]],", "]],\n") + "\n")
    print(len(rows), "functions,", sum([len(named) for _, named in rows.values()]), "keywords")


if __name__ == "__main__":
    main()
