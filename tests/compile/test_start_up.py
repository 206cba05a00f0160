"""A process whose functions are in the cache loads neither LLVM nor the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
before = set(sys.modules)
import fgrad

def loss(w, x):
    return np.mean(np.tanh(x @ w) ** 2)

def closing_over(c):
    return lambda w, x: np.sum(w * c)

def network(w, x):
    y = np.zeros((60, 64)) + np.sum(x)
    for layer in [np.ones((64, 64)) * np.sum(w)] * 3:
        y = np.maximum(y @ layer, 0)
    return np.mean(y)

labels = np.array([0, 2, 1])

f = fgrad.jit({function})
for _ in range(4):
    f(np.ones((3, 4)), np.ones((5, 3)))
parts = ("pipeline", "cpu.link", "cpu.emit", "fuse", "schedule", "lower", "loops")
heavy = ["llvmlite", "scipy", "hashlib", "optree", "fgrad.capture.calls"]
heavy += ["fgrad.ops.linalg", "fgrad.numpy.more", "fgrad.compile.cpu.gemm.function"]
heavy += ["fgrad.transforms.vmap", "fgrad.compile.jit.eager_device"]
heavy += ["fgrad.compile." + part for part in parts]
heavy += ["pathlib", "fgrad.compile.entry.table", "fgrad.compile.cpu.native"]
heavy += ["fgrad.transforms.control", "fgrad.ops.special_functions"]
found = [name for name in heavy if name in sys.modules and name not in before]
maps = open("/proc/self/maps").read()
print(found + ["SciPy's BLAS"] * ("scipy.libs" in maps or "/scipy/" in maps))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LLVM loads the code elsewhere")
@pytest.mark.parametrize(
    ("function", "needed"),
    [
        ("lambda w, x: np.sum(np.sin(w)) + 1", []),
        ("fgrad.value_and_grad(loss)", []),
        ("closing_over(np.ones(4))", []),
        ("lambda w, x: np.sum(fgrad.numpy.where(w > 0, w, 1.0))", ["fgrad.capture.calls"]),
        ("fgrad.value_and_grad(network)", ["fgrad.capture.calls"]),
        ("lambda w, x: np.sum(w[labels, (x[0] - 1).astype(int)])", ["fgrad.capture.calls"]),
    ],
)
def test_what_a_second_process_loads(function: str, needed: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path), "FGRAD_CACHE": "1"}
    environment["FGRAD_CHECK"] = "1"  # programs whose passes are checked are not kept

    def child() -> str:
        command = [sys.executable, "-c", PROGRAM.format(function=function)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    assert "fgrad.compile.pipeline" in child()
    assert child() == str(needed)
