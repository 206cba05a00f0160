"""The script that runs NPBench, on two programs in NPBench's form."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import npbench

PROGRAM = {
    "name": "Scaled",
    "relative_path": "scaled",
    "module_name": "scaled",
    "func_name": "kernel",
    "parameters": {"S": {"N": 6}},
    "init": {"func_name": "initialize", "input_args": ["N"], "output_args": ["x", "y"]},
    "input_args": ["N", "x", "y"],
}
INITIALIZE = (
    "import numpy as np\n\n\ndef initialize(N):\n    return np.arange(N) * 0.3, np.ones(N)\n"
)
KERNEL = "import numpy as np\n\n\ndef kernel(N, x, y):\n    y[:] = {}\n    return y.sum()\n"


def make(root: Path, name: str, formula: str) -> None:
    """A program in the folders and files that NPBench has for it."""
    folder = root / "npbench" / "benchmarks" / name
    folder.mkdir(parents=True)
    info = PROGRAM | {"relative_path": name, "module_name": name}
    (root / "bench_info").mkdir(exist_ok=True)
    (root / "bench_info" / f"{name}.json").write_text(json.dumps({"benchmark": info}))
    (root / "npbench" / "__init__.py").touch()
    (folder / f"{name}.py").write_text(INITIALIZE)
    (folder / f"{name}_numpy.py").write_text(KERNEL.format(formula))


def test_programs_are_run_and_compared(tmp_path: Path) -> None:
    make(tmp_path, "right", "np.sin(x) * y")
    make(tmp_path, "refused", "np.sin(x) * (1 if eval('bool(x[1] > 0)') else 2)")
    options = argparse.Namespace(
        npbench=tmp_path, turns=1, seconds=1, limit=100, dynamic=False, no_times=True,
        gradient_times=False,
    )  # fmt: skip
    rows = [npbench.run(options, name) for name in ("right", "refused")]
    assert rows[0] == {"name": "right", "small": "equal", "gradient": "right"}
    assert rows[1]["small"].startswith("card TracedBoolError")
    assert npbench.summary(rows).startswith("1 of 2 run with NumPy's values\n1 of 2 gradients")
    assert npbench.line_of(rows[0]).startswith("| right | equal |")


def test_what_is_wrong_is_seen() -> None:
    assert "differs by" in npbench.difference([npbench.np.ones(2)], [npbench.np.ones(2) * 1.1])
    assert "right" in npbench.difference([npbench.np.ones(2)], [npbench.np.ones(3)])
