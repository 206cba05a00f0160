"""Where memory ends a call raises `MemoryError`, and the next one, with memory, is right.

The address space of a process is limited to what it has and 20 MB.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

_CODE = """
import gc, os, resource, sys
import numpy as np
import numpy.testing
import fgrad
from fgrad import lax

n = 1 << 21
FUNCTIONS = {
    "a result": fgrad.jit(lambda x: np.sin(x) * 2 + 1),
    "many results": fgrad.jit(lambda x: [x + k for k in range(8)]),
    "temporaries": fgrad.jit(lambda x: np.sum(np.sort(np.sin(x)) * np.cumsum(x))),
    "a gradient": fgrad.jit(fgrad.grad(lambda x: np.sum(np.sin(np.cumsum(np.exp(x)))))),
    "a gradient at the prompt": fgrad.grad(lambda x: np.sum(np.sin(np.cumsum(np.exp(x))))),
    "a loop": fgrad.jit(lambda x: lax.scan(lambda c, _: (np.sin(c), c), x[: n // 8], None, 30)[1]),
    "a product": fgrad.jit(lambda x: np.outer(x[:2500], x[:2500]) @ np.outer(x[:2500], x[:2500])),
    "a library": fgrad.jit(lambda x: np.linalg.qr(x[: 1200 * 1200].reshape(1200, 1200))),
    "a transform": fgrad.jit(lambda x: np.abs(np.fft.fft(x))),
    "transforms": fgrad.jit(lambda x: np.fft.ifft(np.fft.fft(x.reshape(8, -1)) * 2).real),
    "transforms of a prime": fgrad.jit(lambda x: np.fft.rfft(x[:4 * 99991].reshape(4, -1)).real),
    "an argument that is written": fgrad.jit(lambda x: x.__iadd__(np.cumsum(np.sin(x)))),
}
LIMITS = {name: (20, 30, 40, 55, 70, 85, 100, 120) for name in FUNCTIONS if "transform" in name}
x = np.linspace(0.1, 1.0, n)
name, learnt = sys.argv[1], sys.argv[2] == "learnt"
f = FUNCTIONS[name]
if learnt:
    f(x.copy()), f(x.copy())
fgrad.jit(np.linalg.qr)(np.eye(3))  # loads what is loaded once
expected = [np.array(y) for y in fgrad.tree.leaves(f(x.copy()))] if learnt else None
given = x.copy()
gc.collect()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
failures = 0
for more in (12, 12, 12, *LIMITS.get(name, ())):
    resource.setrlimit(resource.RLIMIT_AS, (used + (more << 20), resource.RLIM_INFINITY))
    try:
        some = f(given)
        if expected is not None:
            np.testing.assert_array_equal(some, expected[0])
        del some
    except MemoryError:
        failures += 1
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
again = [np.array(y) for y in fgrad.tree.leaves(f(x.copy()))]
if expected is not None:
    for a, b in zip(again, expected, strict=True):
        np.testing.assert_array_equal(a, b)
print("failures:", failures)
"""
CASES = [
    "a result", "many results", "temporaries", "a gradient", "a gradient at the prompt", "a loop",
    "a product", "a library", "a transform", "transforms", "transforms of a prime",
    "an argument that is written",
]  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are read from /proc")
@pytest.mark.parametrize("when", ["first", "learnt"])
@pytest.mark.parametrize("case", CASES)
def test_memory_ends(case: str, when: str) -> None:
    command = [sys.executable, "-c", _CODE, case, when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("failures:")
