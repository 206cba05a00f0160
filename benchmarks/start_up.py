"""Processor time to the first results, in fresh processes: fgrad without and with its cache, JAX.

    python benchmarks/start_up.py [--turns 5] [--jax PYTHON] [--cases tiny,mlp]

Milliseconds of processor time beyond the import of NumPy, up to the end of the third call of a
function, the least of some turns: for fgrad with an empty cache, for fgrad when another process has
filled it, and for JAX with an empty cache and with a full one.

A process is measured from when the threads of NumPy's BLAS sleep: a new one looks for work for
some 25 ms, which would count where a core is free for it, and not where the machine is busy.
Bytecode is written by the first process, as for users; without it all figures are five times as
large, so there are none then.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from importlib.util import cache_from_source

import numpy as np
from children import HERE, child_value

CASES = ("tiny", "mlp", "transformer")


def turn(case: str, library: str, python: str) -> tuple[float, float]:
    """The milliseconds of one turn of a library, with an empty cache and with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        words = ("first_result.py", library, case, "third")
        found = [1e3 * child_value(*words, cache=cache, python=python) for _ in range(3)]
    return found[0], found[2]


def speed() -> float:
    """Milliseconds of processor time of a fixed loop: figures of unequal speeds do not compare."""
    least = float("inf")
    for _ in range(20):
        start = time.process_time()
        sum([k for k in range(50_000)])
        least = min(least, time.process_time() - start)
    return 1e3 * least


def conditions() -> str:
    """What the figures depend on."""
    python = ".".join(map(str, sys.version_info[:3]))
    versions = f"Python {python}, NumPy {np.__version__}, {os.cpu_count()} cores"
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{versions}{load}; a list of 50,000 numbers takes {speed():.2f} ms"


def check_bytecode(python: str) -> None:
    """Stop where processes compile all modules anew."""
    child_value("first_result.py", "fgrad", "tiny", "third", python=python)
    kept = cache_from_source(str(HERE.parent / "fgrad" / "__init__.py"))
    if not os.path.exists(kept):
        raise SystemExit(f"Nobody can write bytecode: {kept}")


def main() -> None:
    """Print a row for each function."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--cases", default=",".join(CASES))
    options.add_argument("--jax", default="", help="a Python that has JAX")
    chosen = options.parse_args()
    pythons = {"fgrad": sys.executable, **({"jax": chosen.jax} if chosen.jax else {})}
    check_bytecode(sys.executable)
    print(conditions())
    print("| ms | cold | warm | JAX cold | JAX warm | warm / JAX cold |")
    for case in chosen.cases.split(","):
        turns = [
            [x for library, python in pythons.items() for x in turn(case, library, python)]
            for _ in range(chosen.turns)
        ]
        least = [min(times) for times in zip(*turns, strict=True)]
        ratio = f" {least[1] / least[2]:.2f} |" if chosen.jax else ""
        print(f"| {case} | {' | '.join([f'{x:.0f}' for x in least])} |{ratio}", flush=True)
    print(conditions())


if __name__ == "__main__":
    main()
