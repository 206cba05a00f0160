"""Ctrl-C ends compiled loops, and the process goes on: `endless_loops` for each kind of loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fgrad import jit, lax, vmap
from fgrad.compile.cpu.emit import kernel as emit_llvm
from fgrad.compile.cpu.emit import numbers
from fgrad.compile.kernel.text import parse_kernel
from fgrad.compile.schedule.order import schedule
from fgrad.config import config

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


def test_registers_stay_where_every_turn_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, masks, addresses and counts of a batch of loops are in registers at a look."""

    def escape(c: Any) -> Any:
        def going(state: Any) -> Any:
            return np.logical_and(state[0] ** 2 + state[1] ** 2 < 4.0, state[2] < 100)

        def turn(state: Any) -> Any:
            x, y, n = state
            return x * x - y * y + c, 2.0 * x * y + 0.3 * c, n + np.where(x > y, 1, 2)

        return lax.while_loop(going, turn, (c * 0.0, c * 0.0, 0))

    points = np.linspace(-1.5, 1.5, 1001)
    with config.override(cache=False):
        right = jit(vmap(escape))(points)
        monkeypatch.setattr(emit_llvm, "SIGNAL_CYCLES", 0)
        found = jit(vmap(escape))(points[:993])  # another size: code is written anew
    for a, b in zip(found, right, strict=True):
        np.testing.assert_array_equal(a, b[:993])


def test_a_loop_looks_whatever_its_length() -> None:
    """Else sizes would not share code, and a loop of unknown cost would not look."""
    texts = []
    for extent in (5, 50, 10**7):
        kernel = parse_kernel(f"""kernel k(b0: in f64[{extent}], b1: out f64[1])
  acc s = carry f64 0.0
  serial i in {extent}:
    %0 = load b0[i]
    %1 = read s
    %2 = muladd f64 %1 %0 %0
    update s %2
  %3 = read s
  store b1[0] %3
""")
        kernel = schedule(kernel)
        assert list(numbers.form(kernel).turns) == ["i"]
        texts.append(numbers.structure(kernel).text)
    assert len(set(texts)) == 1
