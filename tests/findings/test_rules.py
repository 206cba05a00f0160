"""Rules, registration and libraries: each test is one thing that was wrong once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def in_new_process(code: str) -> str:
    """What a program prints that is the first to use fgrad in its process."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "code",
    [
        "f = lambda x: np.linalg.norm([x, x + 2])",
        "f = lambda x: np.fft.fft([x, 0 * x])[0].real",
        "import fgrad.numpy.linalg as la; f = lambda x: la.norm([x, x + 2])",
        "import fgrad.numpy.fft as fft; f = lambda x: fft.fft([x, 0 * x])[0].real",
    ],
    ids=["2.4 linalg", "2.4 fft", "6f linalg first", "6f fft first"],
)
def test_linalg_and_fft_take_traced_numbers_from_the_beginning(code: str) -> None:
    program = f"import fgrad, fgrad.numpy as np; {code}; print(fgrad.grad(f)(0.0))"
    assert in_new_process(program) == "1.0"
    if "import " in code:
        first, rest = code.split("; ")
        program = f"{first}; {rest}; import fgrad.numpy as np; print(np.linalg.norm([3, 4]))"
        assert in_new_process(program) == "5.0"


def test_2_5_a_lazy_import_is_not_interrupted() -> None:
    """A Ctrl-C in the midst of a load comes when the load is done; all works afterwards."""
    program = """
import builtins, signal, fgrad, numpy as np
plain, left = builtins.__import__, [1]
def interrupting(name, *args, **kwargs):
    if left and "scipy" in name:
        left.pop()
        signal.raise_signal(signal.SIGINT)
    return plain(name, *args, **kwargs)
builtins.__import__ = interrupting
import scipy.special
f = lambda x: fgrad.scipy.special.erf(x)
try:
    fgrad.grad(f)(0.0)
except KeyboardInterrupt:
    print("interrupted")
print(fgrad.grad(f)(0.0).round(4))
"""
    program = program.replace("import scipy.special\n", "")
    assert in_new_process(program).split() == ["interrupted", "1.1284"]
