"""A cache that others have filled: another version of fgrad, NumPy, SciPy or Python, another
machine, or other settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fgrad import make_program
from fgrad.compile.cpu import program_cache
from fgrad.compile.llvm import runtime
from fgrad.config import config

Patch = pytest.MonkeyPatch

OTHERS: dict[str, Callable[[Patch], None]] = {
    "NumPy": lambda patch: patch.setattr(np, "__version__", "1.0"),
    "SciPy": lambda patch: patch.setattr(program_cache, "version_in", lambda *_: "1.0"),
    "Python": lambda patch: patch.setattr(sys, "version", "3.0"),
    "our files": lambda patch: patch.setattr(program_cache, "contents", lambda *_: "others"),
    "the machine": lambda patch: patch.setattr(runtime, "identity", lambda: "others"),
    "threads": lambda patch: patch.setattr(config, "num_threads", config.num_threads + 1),
    "sharing": lambda patch: patch.setattr(config, "shared_kernels", not config.shared_kernels),
}


@pytest.mark.parametrize("other", OTHERS)
def test_entries_have_other_names(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_program(lambda x: np.sin(x) * 2)(np.ones(3))

    def key() -> str | None:
        program_cache.compiler_digest.cache_clear()
        return program_cache.program_key(program)

    monkeypatch.setattr(config, "check", 1)
    before = key()
    assert before is not None and key() == before
    with monkeypatch.context() as patch:
        OTHERS[other](patch)
        assert key() not in (None, before)
    assert key() == before


PROGRAM = """
import sys
import numpy as np
import fgrad
found = fgrad.jit(lambda x: np.sum(np.sin(x) * x))(np.arange(4.0))
print(found == np.sum(np.sin(np.arange(4.0)) * np.arange(4.0)), end=" ")
print("fgrad.compile.pipeline" in sys.modules, "llvmlite" in sys.modules)
"""
# What is changed -> whether passes and LLVM run again.
CHANGED = {
    "ir/aval.py": "True False",
    "ops/elementwise.py": "True False",
    "compile/passes/fold.py": "True False",
    "compile/cpu/emit/kernel.py": "True True",
    "compile/entry/text.py": "True True",
    "optim/base.py": "False False",
}


def test_files_that_changed(tmp_path: Path) -> None:
    """Each is of another version than what filled the cache."""
    root = Path(program_cache.__file__).parents[2]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root, tmp_path / "fgrad", ignore=ignored)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "FGRAD_CACHE": "1"}
    environment |= {"FGRAD_CACHE_DIR": str(tmp_path / "cache"), "FGRAD_CHECK": "1"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "pyc")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def child() -> str:
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert child() == "True True True"
    assert child() == "True False False"
    for name, expected in CHANGED.items():
        with open(tmp_path / "fgrad" / name, "a") as file:
            file.write("\nOTHER_VERSION = 1\n")
        assert child() == f"True {expected}", name
        assert child() == "True False False", name
