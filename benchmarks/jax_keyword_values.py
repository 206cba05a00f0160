"""Write tests/golden/jax_keyword_values.json: what keywords of JAX's functions do there.

The functions are those of `jax.lax`, `jax.nn` and `jax.ops`, which NumPy has not.

Run it with a Python that has jax: `python benchmarks/jax_keyword_values.py`.  A keyword
with which JAX fails for all arguments is left out.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from keyword_cases import CANDIDATES, SPECIAL, VALUES, given, measured, value_of  # noqa: E402

GROUPS = ("jax.lax", "jax.lax.linalg", "jax.nn", "jax.ops")


def run(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a call gives; None if JAX does not take it."""
    try:
        found = function(*[_array(given(x, jnp.add)) for x in args], **options)
        return measured(found, jax.tree.leaves)
    except Exception:
        return None


def _array(x: Any) -> Any:
    return jnp.asarray(x) if type(x) is np.ndarray else x


def main() -> None:
    """Call all functions of tests/golden/jax_keywords.json."""
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    known = json.loads((ROOT / "tests" / "golden" / "jax_keywords.json").read_text())
    rows: dict[str, Any] = {}
    tried = 0
    without: list[str] = []
    for name, (_, listed) in known.items():
        module, _, last = name.rpartition(".")
        if module not in GROUPS or not listed:
            continue
        function = getattr(importlib.import_module(module), last)
        special = SPECIAL.get(name)
        keywords = [k for k in listed if k in VALUES]
        if not keywords:
            continue
        taken = (args for args in special or CANDIDATES if run(function, args, {}))
        usable = list(itertools.islice(taken, 2))
        cases = []
        for keyword in keywords:
            for place, value in enumerate(VALUES[keyword]):
                for args in usable:
                    tried += 1
                    found = run(function, args, {keyword: value_of(value, args)})
                    if found is not None:
                        of = special or list(CANDIDATES)
                        at = next(k for k, a in enumerate(of) if a is args)
                        cases.append([at, keyword, place, found])
                        break
        if cases:
            rows[name] = cases
        if not usable:
            without.append(name)
    path = ROOT / "tests" / "golden" / "jax_keyword_values.json"
    path.write_text(json.dumps(rows, separators=(",", ":")).replace(']],"', ']],\n"') + "\n")
    print(len(rows), "functions,", sum(map(len, rows.values())), "cases of", tried)
    print("without arguments:", *without)


if __name__ == "__main__":
    main()
