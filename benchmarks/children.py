"""Fresh processes: what a program of benchmarks/ prints in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def child_lines(
    script: str, *arguments: str, cache: str = "", python: str = sys.executable
) -> list[str]:
    """The lines that a script prints in a fresh process; none if it fails.

    Arguments:
        script: a file of this folder.
        arguments: its arguments.
        cache: the folder of the disk caches of fgrad and JAX; empty for none.
        python: the interpreter.
    """
    environment = {
        **os.environ,
        "FGRAD_CACHE": "1" if cache else "0",
        "FGRAD_CACHE_DIR": cache,
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_ENABLE_COMPILATION_CACHE": "true" if cache else "false",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)]),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as for users
    command = [python, str(HERE / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return []
    return done.stdout.splitlines()


def child_value(
    script: str, *arguments: str, cache: str = "", python: str = sys.executable
) -> float:
    """The number that ends what a script prints; NaN if it fails."""
    lines = child_lines(script, *arguments, cache=cache, python=python)
    return float(lines[-1].split()[-1]) if lines else float("nan")
