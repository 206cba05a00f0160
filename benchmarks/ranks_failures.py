"""What goes wrong among ranks, how it looks, and after how many seconds it ends: the table of
docs/distributed.md.

    python benchmarks/ranks_failures.py [PYTHON ...] [--full]

PYTHON: those of environments with an MPI each, else this one.  Each case is a function of
tests/ranks/failures.py, run by two ranks; it must end by itself, within a minute.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
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
    "versions": "another version of fgrad",
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


class Environment(NamedTuple):
    """A Python with an MPI: its executable, its mpiexec, the library's name."""

    python: str
    mpiexec: str
    name: str

    def run(self, *words: str, mpiexec: str = "", **env: str) -> Any:
        """How two ranks end."""
        command = [mpiexec or self.mpiexec, "-n", "2", self.python, *words]
        return launch.launched(command, {"PYTHONPATH": str(TESTS.parent), **env}, 60.0)


def environment(python: str) -> Environment:
    """The environment of a Python."""
    code = "from mpi4py import MPI; print(MPI.Get_library_version().replace(',', ' '))"
    text = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    name = "Open MPI" if "Open MPI" in text else "MPICH" if "MPICH" in text else text.split()[0]
    return Environment(python, str(Path(python).parent / "mpiexec"), name)


def interrupted(e: Environment) -> Any:
    """Ctrl-C in mpiexec, two seconds after all has begun."""
    env = {"PYTHONPATH": str(TESTS.parent), "FGRAD_CHECK": "1"}
    command = [e.mpiexec, "-n", "2", e.python, PROGRAM, "computes", "60"]
    return launch.launched(command, env, 60.0, interrupt=2.0)


def without_mpi4py(e: Environment) -> Any:
    """A process without mpi4py."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mpi4py.py").write_text("raise ImportError('No module named mpi4py')")
        path = f"{folder}{os.pathsep}{TESTS.parent}"
        return launch.launched([e.python, "-c", START], {"PYTHONPATH": path}, 60.0)


def alone(e: Environment) -> Any:
    """A process without mpiexec."""
    return launch.launched([e.python, "-c", START], {"PYTHONPATH": str(TESTS.parent)}, 60.0)


def cases(every: Sequence[Environment]) -> dict[str, Callable[[Environment], Any]]:
    """What is run in an environment, by what it is called."""

    def rank_case(name: str) -> Callable[[Environment], Any]:
        check = "2" if name in CHECKED else "1"
        return lambda e: e.run(PROGRAM, name, str(LIMIT), FGRAD_CHECK=check)

    found = {words: rank_case(name) for name, words in CASES.items()}
    found["Ctrl-C in `mpiexec`, after 2 s"] = interrupted
    found["no mpi4py"] = without_mpi4py
    found["1 rank, without `mpiexec`"] = alone
    if len(every) > 1:
        other = {e: every[k - 1].mpiexec for k, e in enumerate(every)}
        found["`mpiexec` of another MPI"] = lambda e: e.run("-c", START, mpiexec=other[e])
    return found


def told(text: str) -> str:
    """What ranks print, without the frames of Python and what the MPI library adds."""
    lines = [re.sub(r"^(fgrad\.errors\.)?", "", line.strip()) for line in text.splitlines()]
    kept = [
        line
        for line in lines
        if re.match(
            r"(\w*(Error|Interrupt|Exception)\b|rank \d+ +\S|Mesh\(|.*unsupported PMI)", line
        )
        and not re.match(r"rank \d+ of \d+:$", line)
    ]
    short = [re.sub(r"  +", " ", line) for line in dict.fromkeys(kept)]
    told = "\n".join(short[:3]) or "(what `mpiexec` says)"
    return told.replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    parser.add_argument("--full", action="store_true", help="all that ranks print")
    options = parser.parse_args(arguments)
    every = [environment(python) for python in options.pythons]
    names = [f"{e.name}: s (status)" for e in every]
    print(f"| what happens | what is printed | {' | '.join(names)} |")
    print(f"|{'---|' * (2 + len(every))}")
    for what, run in cases(every).items():
        ended = [run(e) for e in every]
        texts = list(dict.fromkeys([told(x.text) for x in ended]))
        if len({re.sub(r"[\d.]+ s\b", "", text) for text in texts}) == 1:
            texts = texts[:1]
        cells = [f"{x.seconds:.1f} ({x.status})" for x in ended]
        print(f"| {what} | {'<br>or '.join(texts)} | {' | '.join(cells)} |", flush=True)
        if options.full:
            print("\n".join([x.text for x in ended]))


if __name__ == "__main__":
    main()
