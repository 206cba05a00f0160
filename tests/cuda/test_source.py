"""The Python source of kernels runs in Numba's simulator and gives NumPy's numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emulator.driver import StubDriver
from gpu_kernels import Case, gelu, kernels_of, layernorm, softmax
from real_device import stub_device

from fgrad.lower_cuda.emit.source import items_of, source_of

MAIN = """
import sys
arrays = dict(np.load(sys.argv[1]))
for name, items, buffers in {functions!r}:
    globals()[name][-(-items // 32), 32](*[arrays[b] for b in buffers])
np.savez(sys.argv[1], **arrays)
"""


def single(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


CASES = (
    Case("gelu", gelu, (single(40),)),
    Case("softmax", softmax, (single(3, 10),)),
    Case("layernorm", layernorm, (single(4, 8),)),
    Case("select", lambda x, y: np.where(x > y, x, -y) // 2, (single(33), single(33))),
    Case("integers", lambda x: (x * 3 + 1) % 7, (np.arange(20),)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_source_in_the_simulator(case: Case, tmp_path: Path) -> None:
    with stub_device(StubDriver(execute=False)):
        (kernel,) = kernels_of(case)
    given = [b for b in kernel.buffers if b.role != "scratch"]
    inputs = iter(case.args)
    arrays = {
        b.name: next(inputs).ravel() if b.role == "in" else np.zeros(b.size, b.dtype) for b in given
    }
    file = tmp_path / "arrays.npz"
    np.savez(file, **arrays)
    script = tmp_path / "kernel.py"
    script.write_text(source_of(kernel) + MAIN.format(functions=items_of(kernel)))
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, "-W", "ignore", script, file], env=environment, check=True)
    found = np.load(file)[next(b.name for b in given if b.role == "out")]
    np.testing.assert_allclose(found, np.ravel(case.fun(*case.args)), rtol=1e-5, atol=1e-6)
