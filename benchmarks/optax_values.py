"""Write tests/golden/optax.json: the parameters after steps of tests/optax_cases.py by optax.

Run it with a Python that has jax and optax: `python benchmarks/optax_values.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import jax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from optax_cases import CASES, SCHEDULES, STEPS, gradient, params  # noqa: E402


def trained(name: str, dtype: str) -> list[float]:
    """The parameters after some steps; parts of complex ones one after the other."""
    optimizer = CASES[name][0](optax)
    tree = jax.tree.map(jax.numpy.asarray, params(dtype))
    state = optimizer.init(tree)
    for step in range(STEPS):
        gradients = jax.tree.map(lambda p, step=step: gradient(p, step), tree)
        updates, state = optimizer.update(gradients, state, tree)
        tree = optax.apply_updates(tree, updates)
    return numbers(jax.tree.leaves(tree))


def numbers(leaves: list[Any]) -> list[float]:
    """All elements of some arrays."""
    flat = np.concatenate([np.ravel(x) for x in leaves])
    return [float(x) for x in (flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat)]


def main() -> None:
    """Run all cases."""
    jax.config.update("jax_enable_x64", True)
    found: dict[str, Any] = {"optax": optax.__version__}
    for name, (_, has_complex) in CASES.items():
        for dtype in ("float64", "float32", *(["complex128"] if has_complex else [])):
            found[f"{name} {dtype}"] = trained(name, dtype)
    for name, make in SCHEDULES.items():
        found[name] = [float(make(optax)(step)) for step in range(12)]
    path = ROOT / "tests" / "golden" / "optax.json"
    path.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
