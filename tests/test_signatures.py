"""Type checkers see the user's function behind a transform: its parameters, and its result."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import fgrad

def f(x: np.ndarray, scale: float = 1.0) -> float: ...

"""
SAME = "(x: ndarray[tuple[Any, ...], dtype[Any]], scale: float = 1) -> float"
DERIVED = SAME.replace("-> float", "-> Any")
TYPES = {
    "fgrad.jit(f)": SAME,
    "fgrad.jit(static_argnums=1)(f)": SAME,
    "fgrad.vmap(f)": SAME,
    "fgrad.checkpoint(f)": SAME,
    "fgrad.checkpoint(prevent_cse=False)(f)": SAME,
    "fgrad.grad(f)": DERIVED,
    "fgrad.per_sample_grad(f)": DERIVED,
    "fgrad.jacrev(f)": DERIVED,
    "fgrad.hessian(f)": DERIVED,
    "fgrad.value_and_grad(f)": SAME.replace("-> float", "-> tuple[float, Any]"),
    "fgrad.jvp(f, [np.ones(3)], [np.ones(3)])": "tuple[float, float]",
    "fgrad.vjp(f, np.ones(3))": "tuple[float, (Any) -> tuple[Any, ...]]",
    "fgrad.stop_gradient('a')": "str",
    "fgrad.lax.cond(True, f, f, np.ones(3))": "float",
    "fgrad.errors.NanError('').headline": "str",
    "fgrad.custom_jvp(f)(np.ones(3))": "float",
    "fgrad.custom_vjp(nondiff_argnums=1)(f)(np.ones(3))": "float",
    "fgrad.custom_vmap(f)(np.ones(3))": "float",
    "fgrad.jit(fgrad.vmap(f))": SAME,
}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_transforms_keep_signatures(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "".join([f"reveal_type({x})\n" for x in TYPES]))
    config = {
        "include": ["program.py"],
        "pythonVersion": "3.11",
        "extraPaths": [str(Path(__file__).parents[1])],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [note["message"] for note in json.loads(done.stdout)["generalDiagnostics"]]
    assert found == [f'Type of "{x}" is "{kind}"' for x, kind in TYPES.items()]
