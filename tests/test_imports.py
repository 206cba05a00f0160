"""Modules may be imported in any order, and interrupted at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "import_faults.py"


def run(*arguments: str) -> tuple[int, str]:
    """The number of interrupts, and the names that there are in the end."""
    command = [sys.executable, "-W", "ignore", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ)
    assert not result.returncode, result.stderr[-2000:]
    first, _, names = result.stdout.partition("\n")
    return int(first.split()[0]), names


@cache
def expected() -> str:
    """The names after `import fgrad` and no interrupt."""
    return run("-c", f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import fgrad; "
               "import import_faults as f; print(0); [__import__(m) for m in f.modules()]; "
               "print(f.names())")[1]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_imports_changes_no_name(seed: int) -> None:
    assert run(str(PROGRAM), "order", str(seed))[1] == expected()


@pytest.mark.parametrize("mode", ["ends", "lines"])
def test_an_interrupted_import_can_be_repeated(mode: str) -> None:
    count, names = run(str(PROGRAM), mode, "0")
    assert count > 200
    assert names == expected()


@pytest.mark.parametrize("seed", range(2))
def test_interrupts_wait_for_what_is_loaded_lazily(seed: int) -> None:
    count, names = run(str(PROGRAM), "alarm", str(seed))
    assert count > 5
    assert names == expected()
