"""Processor time to the first results, in fresh processes: fgrad without and with its cache, JAX.

    python benchmarks/start_up.py [--turns 5] [--jax PYTHON]

Milliseconds of processor time beyond the import of NumPy, up to the end of the third call of a
function, the least of some turns; for JAX and for fgrad with an empty cache, and for fgrad when
another process has filled it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CASES = ("tiny", "mlp", "transformer")
CHILD = """
import sys, time
import numpy
start = time.process_time()
sys.argv = ["first_result.py", {library!r}, {case!r}]
sys.path.insert(0, {here!r})
import first_result
from harness import fgrad_library, jax_library
library = jax_library() if {library!r} == "jax" else fgrad_library()
run = first_result.CASES[{case!r}](library)
for _ in range(3):
    run()
print(time.process_time() - start)
"""


def milliseconds(python: str, library: str, case: str, cache: str) -> float:
    """What one process takes."""
    program = CHILD.format(library=library, case=case, here=str(HERE))
    environment = {**os.environ, "FGRAD_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), str(HERE)])
    command = [python, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1]) * 1e3


def main() -> None:
    """Print a row for each function."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--jax", default="", help="a Python that has JAX")
    chosen = options.parse_args()
    print(f"{'':12} {'cold':>8} {'warm':>8} {'JAX':>8}  warm / JAX")
    for case in CASES:
        cold, warm, jax = [], [], []
        for _ in range(chosen.turns):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(milliseconds(sys.executable, "fgrad", case, cache))
                milliseconds(sys.executable, "fgrad", case, cache)
                warm.append(milliseconds(sys.executable, "fgrad", case, cache))
                if chosen.jax:
                    jax.append(milliseconds(chosen.jax, "jax", case, cache))
        row = f"{case:12} {min(cold):8.0f} {min(warm):8.0f}"
        print(row + (f" {min(jax):8.0f}  {min(warm) / min(jax):.2f}" if jax else ""), flush=True)


if __name__ == "__main__":
    main()
