"""Programs of ranks under mpiexec, which never hang a test: a limit ends all of their processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
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
    count: int, *words: str, limit: float = 120.0, python: str = sys.executable, **env: str
) -> Ended:
    """Run `python words...` as ranks of one program."""
    assert MPIEXEC is not None
    paths = [str(ROOT), str(HERE), *[str(HERE.parent / name) for name in ("", "transforms")]]
    given = {**os.environ, **_SETTINGS, "PYTHONPATH": os.pathsep.join(paths), **env}
    given.setdefault("FGRAD_CHECK", "2")
    start = time.monotonic()
    process = subprocess.Popen(
        [MPIEXEC, "-n", str(count), python, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=given,
        start_new_session=True,
    )  # fmt: skip
    try:
        text, _ = process.communicate(timeout=limit)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # which mpiexec hands on
        try:
            text, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
        status = None
    return Ended(status, text, time.monotonic() - start)


def must_pass(count: int, *words: str, limit: float = 120.0, **env: str) -> str:
    """What ranks wrote that must end well."""
    ended = run_ranks(count, *words, limit=limit, **env)
    assert ended.status == 0, f"status {ended.status} after {ended.seconds:.1f} s:\n{ended.text}"
    return ended.text
