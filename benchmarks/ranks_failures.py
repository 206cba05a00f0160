"""What goes wrong among ranks, how it looks, and after how many seconds it ends: the table of
docs/distributed.md.

    python benchmarks/ranks_failures.py                         with the MPI of this environment
    python benchmarks/ranks_failures.py --other PATH/mpiexec    and started by that of another MPI
    python benchmarks/ranks_failures.py --full                  all that the ranks print

Each case is a function of tests/ranks/failures.py, run by two ranks; it must end by itself.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.append(str(TESTS))

launch: Any = importlib.import_module("ranks.launch")

LIMIT = 2.0  # the timeout of those that only time finds
PROGRAM = str(TESTS / "ranks" / "failures.py")
START = "from fgrad import distributed as dist; mesh = dist.init('mpi'); print(mesh)"

CASES = {
    "raises": "a rank raises",
    "raises_in_program": "a rank raises in its program",
    "exits": "the script of a rank ends",
    "sleeps": "a rank sleeps while another waits in compiled code",
    "waits_eager": "... at the prompt",
    "dies": "a rank calls `os._exit`",
    "is_killed": "a rank is killed",
    "reordered": "collectives in another order",
    "other_code": "another version of the function",
    "trip_counts_in_program": "other trip counts in a program",
    "trip_counts": "a loop of calls with other trip counts",
    "branch": "a branch of Python that not all take",
    "retraces": "a rank alone compiles anew",
    "profiles": "a rank alone profiles",
    "sizes": "blocks of other sizes",
    "dtypes": "blocks of other dtypes",
    "does_not_divide": "an array that does not divide into blocks",
    "varying_condition": "a collective under a varying condition",
    "others": "a result that varies, said to be the same",
    "shadowed": "an axis within one of its name",
    "no_axis": "an axis that is not there",
    "other_values": "`P()` that differs, `FGRAD_CHECK=2`",
    "other_values_compiled": "... in compiled code",
    "other_order_of_calls": "known functions in another order, `FGRAD_CHECK=2`",
}
CHECKED = ("other_values", "other_values_compiled", "other_order_of_calls")


class Row(NamedTuple):
    """A case: how it ended, in words, and the processes' output."""

    what: str
    ended: Any
    seconds: float


def rank_case(name: str) -> Callable[[], Any]:
    """A function that runs a case."""
    env = {"FGRAD_CHECK": "2" if name in CHECKED else "1"}
    return lambda: launch.run_ranks(2, PROGRAM, name, str(LIMIT), limit=60.0, **env)


def started(*command: str, **env: str) -> Any:
    """What a command prints that starts ranks."""
    return launch.launched([*command], {"PYTHONPATH": str(TESTS.parent), **env}, 60.0)


def interrupted() -> Any:
    """Ctrl-C in mpiexec, two seconds after all has begun."""
    env = {"PYTHONPATH": str(TESTS.parent), "FGRAD_CHECK": "1"}
    command = [launch.MPIEXEC, "-n", "2", sys.executable, PROGRAM, "computes", "60"]
    return launch.launched(command, env, 60.0, interrupt=2.0)


def without_mpi4py() -> Any:
    """A process without mpi4py."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mpi4py.py").write_text("raise ImportError('No module named mpi4py')")
        path = f"{folder}{os.pathsep}{TESTS.parent}"
        return launch.launched([sys.executable, "-c", START], {"PYTHONPATH": path}, 60.0)


def cases(other: str | None) -> dict[str, Callable[[], Any]]:
    """What is run, by what it is called."""
    found = {words: rank_case(name) for name, words in CASES.items()}
    found["Ctrl-C in `mpiexec`, after 2 s"] = interrupted
    found["no mpi4py"] = without_mpi4py
    found["1 rank, without `mpiexec`"] = lambda: started(sys.executable, "-c", START)
    if other is not None:
        found["`mpiexec` of another MPI"] = lambda: started(
            other, "-n", "2", sys.executable, "-c", START
        )
    return found


def told(text: str) -> str:
    """What ranks print, without the frames of Python and what the MPI library adds."""
    lines = [re.sub(r"^(fgrad\.errors\.)?", "", line.strip()) for line in text.splitlines()]
    kept = [
        line
        for line in lines
        if re.match(r"(\w*(Error|Interrupt|Exception)\b|rank \d+ +\S|Mesh\()", line)
        and not re.match(r"rank \d+ of \d+:$", line)
    ]
    short = [line if len(line) < 150 else line[:147] + "..." for line in dict.fromkeys(kept)]
    return "; ".join(short[:3]).replace("|", "\\|").replace(str(TESTS.parent), "")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", help="the mpiexec of another MPI library")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args(arguments)
    print(f"| what happens | what is printed | status | s |\n|{'---|' * 4}")
    for what, run in cases(options.other).items():
        every = [run() for _ in range(options.repeat)]
        seconds = statistics.median([ended.seconds for ended in every])
        status = "ended by the limit of 60 s" if every[0].status is None else every[0].status
        print(f"| {what} | {told(every[0].text)} | {status} | {seconds:.1f} |", flush=True)
        if options.full:
            print(every[0].text)


if __name__ == "__main__":
    main()
