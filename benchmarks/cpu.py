"""Compiled code on the CPU: fgrad against jax.jit, in turns, in one process.

    python benchmarks/cpu.py [--only gelu] [--skip-start] [--json results.json]

`ratio` is the time of fgrad over the time of JAX, `goal` the ratio that is aimed at.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import (
    Library,
    Result,
    Workload,
    jax_library,
    numpy_library,
    parser,
    run,
    show_header,
    show_row,
    write_json,
)
from workloads_arrays import ARRAYS, CALLS
from workloads_linalg import LINALG, VALUES
from workloads_loops import LOOPS
from workloads_models import MODELS

CHILD = Path(__file__).with_name("first_result.py")

# What is measured in processes of their own: name, case, goal without and with a filled disk cache.
STARTS = (
    ("tiny function", "tiny", 0.25, None),
    ("MLP value_and_grad", "mlp", 0.1, 0.2),
    ("12-layer transformer value_and_grad", "transformer", 0.1, 0.2),
    ("chain of 1,000 operations", "chain", 0.1, 0.2),
)


def child_seconds(library: str, case: str, cache: str) -> float:
    """What one fresh process prints; `cache` is the folder of the disk cache, or empty for none."""
    environment = {
        **os.environ,
        "FGRAD_CACHE": "1" if cache else "0",
        "FGRAD_CACHE_DIR": cache,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_ENABLE_COMPILATION_CACHE": "true" if cache else "false",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, str(CHILD), library, case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def start(name: str, case: str, goal: float | None, libraries: list[str], cached: bool) -> Result:
    """Medians over fresh processes, the libraries in turns."""
    times: dict[str, list[float]] = {library: [] for library in libraries}
    with tempfile.TemporaryDirectory() as folder:
        if cached:
            for library in libraries:
                child_seconds(library, case, folder)
        for _ in range(3):
            for library in libraries:
                times[library].append(child_seconds(library, case, folder if cached else ""))
    return Result(name, {k: statistics.median(v) for k, v in times.items()}, goal)


def starts(libraries: list[str], chosen: str) -> list[Result]:
    """Import and first results."""
    rows = [("import", "import", 0.3, False)]
    rows += [(f"first result: {name}", case, cold, False) for name, case, cold, _ in STARTS]
    rows += [
        (f"with a disk cache: {name}", case, warm, True)
        for name, case, _, warm in STARTS
        if warm is not None
    ]
    results = []
    for name, case, goal, cached in rows:
        if chosen in name:
            results.append(start(name, case, goal, libraries, cached))
            show_row(results[-1])
    return results


def section(
    title: str, workloads: tuple[Workload, ...], peer: Library | None, chosen: str
) -> list[Result]:
    """A table of workloads, unless none is chosen."""
    if not any(chosen in w.name for w in workloads):
        return []
    columns = ["fgrad", peer.name, "ratio", "goal"] if peer else ["fgrad"]
    show_header(title, columns)
    return run(workloads, peer, chosen)


def main() -> None:
    """Print all tables."""
    options = parser("Compiled code against jax.jit, in turns")
    options.add_argument("--skip-start", action="store_true", help="no import and first results")
    chosen = options.parse_args()
    peer = jax_library()
    results = section("calls", CALLS, peer, chosen.only)
    results += section("arrays", ARRAYS, peer, chosen.only)
    results += section("models", MODELS, peer, chosen.only)
    results += section("loops", LOOPS, peer, chosen.only)
    results += section("linear algebra", LINALG, peer, chosen.only)
    section("linear algebra against NumPy", VALUES, numpy_library(), chosen.only)
    if not chosen.skip_start:
        names = ["fgrad", peer.name] if peer else ["fgrad"]
        show_header("fresh processes", [*names, "ratio", "goal"] if peer else names)
        results += starts(names, chosen.only)
    write_json(chosen.json, results)
    ratios = [(r, r.seconds["fgrad"] / r.seconds[peer.name]) for r in results if r.seconds and peer]
    met = sum(r.goal is not None and ratio <= r.goal for r, ratio in ratios)
    print(f"\nfaster than JAX: {sum(q < 1 for _, q in ratios)} of {len(ratios)}; goals met: {met}")


if __name__ == "__main__":
    main()
