"""Write tests/golden/jax_programs.json: what the programs of tests/jax_programs give in JAX.

Run it with a Python that has jax: `python benchmarks/jax_programs_values.py`.
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
from jax_programs.names import of_jax, programs  # noqa: E402


def leaf(x: Any) -> dict[str, Any]:
    """An array as numbers; a complex one as its two parts."""
    array = np.asarray(x)
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return {
        "shape": array.shape,
        "dtype": str(array.dtype),
        "parts": [[float(f"{v:.13g}") for v in part.ravel().tolist()] for part in parts],
    }


def main() -> None:
    """Run all programs."""
    jax.config.update("jax_enable_x64", True)
    names = of_jax()
    found: dict[str, Any] = {"jax": jax.__version__, "programs": {}}
    for name, program in programs().items():
        try:
            found["programs"][name] = [leaf(x) for x in jax.tree.leaves(program(names))]
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    path = ROOT / "tests" / "golden" / "jax_programs.json"
    path.write_text(json.dumps(found, separators=(",", ":")).replace('],"', '],\n"') + "\n")
    print(len(found["programs"]), "programs")


if __name__ == "__main__":
    main()
