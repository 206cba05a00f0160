"""Peak memory of the gradient of an MLP of 30 layers of 256, batch 4096; run by benchmarks/cpu.py.

    python benchmarks/memory.py fgrad|jax plain|checkpointed

Prints bytes: by how much the resident memory of the process, at its peak during the second call,
exceeds what it was before the first one.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
from libraries import Library, fgrad_library, jax_library

LAYERS, WIDTH, BATCH = 30, 256, 4096
STAGE = 6  # layers between two checkpoints


def resident(field: str) -> int:
    """Bytes of memory of this process: `VmRSS` now, `VmHWM` at its peak."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    """Let the peak begin anew."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def gradient(lib: Library, how: str) -> Any:
    """Of the mean square of the network's output."""

    def several(x: Any, layers: Any) -> Any:
        for w in layers:
            x = lib.np.tanh(x @ w)
        return x

    stage = lib.api.checkpoint(several) if how == "checkpointed" else several

    def loss(params: Any, x: Any) -> Any:
        for k in range(0, LAYERS, STAGE):
            x = stage(x, params[k : k + STAGE])
        return lib.np.mean(x * x)

    return lib.api.jit(lib.api.grad(loss))


def main() -> None:
    """Print one number."""
    library, how = sys.argv[1:]
    lib = jax_library() if library == "jax" else fgrad_library()
    if lib is None:
        raise SystemExit("jax is not installed")
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 16 for _ in range(LAYERS)]
    args = lib.put((params, rng.normal(size=(BATCH, WIDTH)).astype(np.float32)))
    step = gradient(lib, how)
    gc.collect()
    before = resident("VmRSS")
    lib.ready(step(*args))
    gc.collect()
    forget_peak()
    lib.ready(step(*args))
    print(resident("VmHWM") - before)


if __name__ == "__main__":
    main()
