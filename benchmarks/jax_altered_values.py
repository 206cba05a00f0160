"""Write tests/golden/jax_altered.json: what JAX gives for the calls of tests/altered_cases.py.

Run it with a Python that has jax: `python benchmarks/jax_altered_values.py`; it takes some minutes.
A call that JAX refuses is 0.  Names whose calls are all refused are left out.
"""

from __future__ import annotations

import importlib
import inspect
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
from altered_cases import GROUPS, calls, candidates, summary  # noqa: E402
from keyword_cases import given  # noqa: E402

# Functions of functions, of devices, and of names of axes.
NOT_CALLED = {"custom_root", "custom_linear_solve", "while_loop", "cond", "switch", "empty", "psum",
              "pmin", "pmax", "pmean", "pcast", "precv", "with_sharding_constraint"}  # fmt: skip


def _array(x: Any) -> Any:
    if isinstance(x, list) and x and isinstance(x[0], np.ndarray):
        return [jnp.asarray(y) for y in x]
    return jnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x


def run(function: Any, args: tuple[Any, ...]) -> Any:
    """What a call gives; 0 if JAX refuses it."""
    try:
        found = function(*[_array(given(x, jnp.add)) for x in args])
        return summary(found, jax.tree.leaves)
    except Exception:
        return 0


def rows_of(name: str, function: Any) -> list[Any]:
    """All calls with the first arguments that JAX takes."""
    for at, args in enumerate(candidates(name)):
        if run(function, args):
            return [[at, place, how, run(function, new)] for place, how, new in calls(args)]
    return []


def main() -> None:
    """Call all functions of the modules."""
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for group in GROUPS:
        module = importlib.import_module(group)
        for last in sorted(dir(module)):
            function = getattr(module, last)
            if last[0] == "_" or last in NOT_CALLED or inspect.isclass(function):
                continue
            if callable(function) and (rows := rows_of(f"{group}.{last}", function)):
                found[f"{group}.{last}"] = rows
    text = json.dumps(found, separators=(",", ":"), sort_keys=True)
    path = ROOT / "tests" / "golden" / "jax_altered.json"
    path.write_text(text.replace(']],"jax', ']],\n"jax') + "\n")
    print(len(found), "functions,", sum(map(len, found.values())), "calls")


if __name__ == "__main__":
    main()
