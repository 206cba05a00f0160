"""The benchmark suite: fgrad on the CPU against the peers that are installed, in one process.

    python benchmarks/cpu.py                     all groups, some minutes
    python benchmarks/cpu.py --full              more turns, more fresh processes
    python benchmarks/cpu.py --only gelu         workloads whose name contains this
    python benchmarks/cpu.py --groups calls,arrays
    python benchmarks/cpu.py --threads 1         everybody on one core
    python benchmarks/cpu.py --loaded            beside two busy processes

Results are checked against NumPy's in double precision before they are timed.  Tables are printed,
and written as JSON, Markdown and a picture into benchmarks/results/.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import eager
import report
from children import child_value
from harness import Result, restart_on_one_thread, run, show_header, show_row, write_json
from libraries import Library, jax_library, numpy_library, torch_library
from peers import by_hand
from rates import Rates, measured
from workloads import COMPILED
from workloads_linalg import VALUES

HERE = Path(__file__).parent
# What is measured in processes of their own: name, case, goal without and with a filled disk cache.
STARTS = (
    ("tiny function", "tiny", 0.25, None),
    ("MLP value_and_grad", "mlp", 0.1, 0.2),
    ("12-layer transformer value_and_grad", "transformer", 0.1, 0.2),
    ("chain of 1,000 operations", "chain", 0.1, 0.2),
)
MEMORY = (("plain", 0.8), ("checkpointed", 0.5))


# --- processes of their own -----------------------------------------------------------------------


def start(name: str, case: str, goal: float | None, names: list[str], cached: bool, turns: int):
    """Medians over fresh processes, the libraries in turns."""
    times: dict[str, list[float]] = {library: [] for library in names}
    with tempfile.TemporaryDirectory() as folder:
        for library in names if cached else ():
            child_value("first_result.py", library, case, cache=folder)
        for _ in range(turns):
            for library in names:
                found = child_value(
                    "first_result.py", library, case, cache=folder if cached else ""
                )
                times[library].append(found)
    return Result(name, {k: statistics.median(v) for k, v in times.items()}, goal)


def starts(names: list[str], chosen: str, turns: int) -> list[Result]:
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
            results.append(start(name, case, goal, names, cached, turns))
            show_row(results[-1])
    return results


def memory(names: list[str], chosen: str) -> list[Result]:
    """Peak memory of a deep network's gradient."""
    results = []
    for how, goal in MEMORY:
        name = f"gradient of a 30-layer MLP, {how}"
        if chosen in name:
            sizes = {library: child_value("memory.py", library, how) for library in names}
            results.append(Result(name, sizes, goal, unit="B"))
            show_row(results[-1])
    return results


# --- the suite ------------------------------------------------------------------------------------


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Other work on the machine for the time of a block."""
    crew = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in crew:
            process.kill()
            process.wait()


def arguments() -> argparse.Namespace:
    """The command line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", default="", help="workloads whose name contains this")
    options.add_argument("--groups", default="", help=f"some of {', '.join(report.GROUPS)}")
    options.add_argument("--full", action="store_true", help="more turns and processes")
    options.add_argument("--threads", type=int, choices=(1,), help="everybody on one core")
    options.add_argument("--loaded", action="store_true", help="beside two busy processes")
    options.add_argument("--out", type=Path, default=HERE / "results", help="folder of results")
    return options.parse_args()


def sections(
    chosen: argparse.Namespace, jax: Library | None
) -> dict[str, Callable[[], list[Result]]]:
    """What measures each group."""
    turns = 15 if chosen.full else 7
    torch = torch_library()
    others = [torch] if torch is not None else []
    names = ["fgrad", "jax"] if jax is not None else ["fgrad"]

    def compiled(group: str) -> Callable[[], list[Result]]:
        return lambda: run(COMPILED[group], jax, chosen.only, others, by_hand, turns)

    return {
        "calls": compiled("calls"),
        "eager": lambda: eager.measure(chosen.only, turns),
        "arrays": compiled("arrays"),
        "models": compiled("models"),
        "loops": compiled("loops"),
        "linear algebra": compiled("linear algebra"),
        "linear algebra, to NumPy": lambda: run(VALUES, numpy_library(), chosen.only, turns=turns),
        "starts": lambda: starts(names, chosen.only, 5 if chosen.full else 1),
        "memory": lambda: memory(names, chosen.only),
    }


def main() -> None:
    """Measure, print, write."""
    chosen = arguments()
    if chosen.threads == 1 and os.environ.get("FGRAD_NUM_THREADS") != "1":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        restart_on_one_thread()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin take others' cores
    wanted = chosen.groups.split(",") if chosen.groups else list(report.GROUPS)
    rates = measured()
    results: list[Result] = []
    with busy_processes(2 if chosen.loaded else 0):
        for group, measure in sections(chosen, jax_library()).items():
            if group in wanted:
                title, peer = report.GROUPS[group], report.PEERS.get(group, "jax")
                show_header(title, ["fgrad", peer, "ratio", "goal"])
                results += [r._replace(group=group) for r in measure()]
                rates = Rates(*map(max, zip(rates, measured(), strict=True)))
    name = "full" if chosen.full else "quick"
    name += "-one-thread" if chosen.threads else ""
    name += "-loaded" if chosen.loaded else ""
    path = chosen.out / f"{name}.json"
    write_json(path, results, rates=rates._asdict())
    report.write(path)


if __name__ == "__main__":
    main()
