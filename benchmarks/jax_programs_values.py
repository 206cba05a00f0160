"""Write tests/golden/jax_programs.json: what the programs of tests/jax_programs give in JAX.

Run it with a Python that has jax: `python benchmarks/jax_programs_values.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import jax  # noqa: E402
import jax.flatten_util  # noqa: E402
import jax.scipy.linalg  # noqa: E402
import jax.scipy.ndimage  # noqa: E402
import jax.scipy.optimize  # noqa: E402
import jax.scipy.signal  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental.ode import odeint  # noqa: E402
from jax_programs.names import SAME, programs  # noqa: E402


def leaf(x: Any) -> dict[str, Any]:
    """An array as numbers; a complex one as its two parts."""
    array = np.asarray(x)
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return {
        "shape": array.shape,
        "dtype": str(array.dtype),
        "parts": [[float(f"{v:.13g}") for v in part.ravel().tolist()] for part in parts],
    }


def of_jax() -> SimpleNamespace:
    """JAX's names."""
    names = {name: getattr(jax, name) for name in SAME}
    return SimpleNamespace(
        **names,
        np=jax.numpy,
        at=lambda x: jax.numpy.asarray(x).at,
        ShapeDtype=jax.ShapeDtypeStruct,
        ravel=jax.flatten_util.ravel_pytree,
        keystr=jax.tree_util.keystr,
        Partial=jax.tree_util.Partial,
        register_node=jax.tree_util.register_pytree_node,
        register_dataclass=jax.tree_util.register_dataclass,
        segment_sum=jax.ops.segment_sum,
        segment_max=jax.ops.segment_max,
        odeint=odeint,
        stop_gradient=jax.lax.stop_gradient,
    )


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
