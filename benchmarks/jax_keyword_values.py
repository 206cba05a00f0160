"""Write tests/golden/jax_keyword_values.json: what keywords of JAX's functions do there.

The functions are those of `jax.lax`, `jax.nn` and `jax.ops`, which NumPy has not.

Run it with a Python that has jax and optax: `python benchmarks/jax_keyword_values.py`.  A keyword
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
import optax  # noqa: E402
from keyword_cases import (  # noqa: E402
    CANDIDATES,
    SPECIAL,
    VALUES,
    given,
    is_random,
    measured,
    params,
    unfolded,
    value_of,
)

GROUPS = ("jax.lax", "jax.lax.linalg", "jax.nn", "jax.ops")


def steps(optimizer: Any) -> Any:
    """The parameters after some steps."""
    p = jax.tree.map(jnp.asarray, params())
    state = optimizer.init(p)
    for k in range(3):
        g = jax.tree.map(lambda x, k=k: x * (0.5 + k) - 0.3, p)
        updates, state = optimizer.update(g, state, p)
        p = optax.apply_updates(p, updates)
    return p


def run(name: str, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a call gives; None if JAX does not take it."""
    key = jax.random.key(0)
    try:
        found = function(*[_array(given(x, key, jnp.add)) for x in args], **options)
        found = unfolded(name, found, key, jax.tree.map, steps)
        return measured(found, jax.tree.leaves, is_random(name))
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
        taken = (args for args in special or CANDIDATES if run(name, function, args, {}))
        usable = list(itertools.islice(taken, 2))
        cases = []
        for keyword in keywords:
            for place, value in enumerate(VALUES[keyword]):
                for args in usable:
                    tried += 1
                    found = run(name, function, args, {keyword: value_of(keyword, value, args)})
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
