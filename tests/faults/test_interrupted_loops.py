"""Ctrl-C ends compiled loops, and the process goes on: `endless_loops` for each kind of loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ("kernel", "nested", "outer", "counted", "lanes", "shared lanes", "host", "routines",
         "callbacks", "gradient")  # fmt: skip
HANGING = 120  # seconds after which a loop has not been interrupted


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the program needs POSIX signals")
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("name", NAMES)
def test_interrupted_loop(name: str, threads: str) -> None:
    program = Path(__file__).with_name("endless_loops.py")
    done = subprocess.run(
        [sys.executable, str(program), name],
        capture_output=True,
        text=True,
        timeout=HANGING,
        env={**os.environ, "FGRAD_NUM_THREADS": threads},
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
