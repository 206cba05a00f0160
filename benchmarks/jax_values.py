"""Write tests/golden/jax_lax.json: values and gradients of tests/jax_cases.py, as JAX has them.

Run it with a Python that has jax: `python benchmarks/jax_values.py`.
"""

from __future__ import annotations

import functools
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax_cases import CASES, weights  # noqa: E402


def total(lax: Any, function: Callable[..., Any], by: np.ndarray, *xs: Any) -> Any:
    """The finite elements of a result times numbers, summed."""
    out = function(lax, *xs)
    return jax.numpy.sum(jax.numpy.where(jax.numpy.isfinite(out), out, 0.0) * by)


def main() -> None:
    """Run all cases."""
    jax.config.update("jax_enable_x64", True)
    names = {**vars(jax.ops), **vars(jax.lax)}
    lax = types.SimpleNamespace(**names)
    found: dict[str, object] = {"jax": jax.__version__}
    for name, (function, operands) in CASES.items():
        value = np.asarray(function(lax, *operands))

        loss = functools.partial(total, lax, function, weights(value.shape))
        try:
            slopes = jax.grad(loss, tuple(range(len(operands))))(*map(jax.numpy.asarray, operands))
        except NotImplementedError:  # of products of repeated indices
            slopes = ()
        found[name] = {
            "shape": value.shape,
            "value": value.ravel().tolist(),
            "gradient": [np.asarray(g).ravel().tolist() for g in slopes],
        }
    path = ROOT / "tests" / "golden" / "jax_lax.json"
    path.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
