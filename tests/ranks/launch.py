"""Programs of ranks under mpiexec, which never hang a test: a limit ends all of their processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BESIDE = Path(sys.executable).parent / "mpiexec"  # of the wheel
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
MISSING = find_spec("mpi4py") is None or MPIEXEC is None

# Open MPI asks for these where it is the administrator's process, or has fewer cores than ranks.
_SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


class Ended(NamedTuple):
    """How ranks ended: mpiexec's status, or None if the limit ended them; what they wrote."""

    status: int | None
    text: str
    seconds: float


def run_ranks(
    count: int, *words: str, limit: float = 300.0, python: str = sys.executable, **env: str
) -> Ended:
    """Run `python words...` as ranks of one program.

    The limit is for what hangs, not for what is slow.
    """
    assert MPIEXEC is not None
    assert starts(), "mpiexec does not start two processes here"
    paths = [str(ROOT), str(HERE), *[str(HERE.parent / name) for name in ("", "transforms")]]
    given = {"PYTHONPATH": os.pathsep.join(paths), **env}
    given.setdefault("FGRAD_CHECK", "2")
    return launched([MPIEXEC, "-n", str(count), python, *words], given, limit)


def launched(
    command: list[str], env: dict[str, str], limit: float, interrupt: float | None = None
) -> Ended:
    """Run a command, and end it and all of its processes after the limit.

    Arguments:
        interrupt: seconds after which it gets what Ctrl-C sends.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:  # no pipe, which what outlives mpiexec may hold
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, **_SETTINGS, **env}, start_new_session=True,
        )  # fmt: skip
        if interrupt is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(interrupt)
            process.send_signal(signal.SIGINT)
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
            _end(process)
        seconds = time.monotonic() - start
        out.seek(0)
        return Ended(status, out.read(), seconds)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started, whatever sessions they are in."""
    every = [process.pid, *_below(process.pid)]
    process.send_signal(signal.SIGTERM)  # which mpiexec hands on
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(3)
    for pid in [*every, *_below(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _below(pid: int) -> list[int]:
    """The processes that one has started, and those that they have; none without /proc."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]


@lru_cache
def starts() -> bool:
    """Whether two processes of this MPI find each other: asked once, so that an MPI that is broken
    fails all tests at once."""
    assert MPIEXEC is not None
    hello = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1))"
    ended = launched([MPIEXEC, "-n", "2", sys.executable, "-c", hello], {}, 60.0)
    return ended.status == 0 and ended.text.count("2") == 2


def must_pass(count: int, *words: str, limit: float = 300.0, **env: str) -> str:
    """What ranks wrote that must end well."""
    ended = run_ranks(count, *words, limit=limit, **env)
    assert ended.status == 0, f"status {ended.status} after {ended.seconds:.1f} s:\n{ended.text}"
    return ended.text
