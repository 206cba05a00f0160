"""A sample of the interrupts of `interrupts`, which is a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")
def test_interrupted_first_uses() -> None:
    program = Path(__file__).with_name("interrupts.py")
    command = [sys.executable, str(program), "--count", "60", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout
