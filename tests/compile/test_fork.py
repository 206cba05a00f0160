"""A forked process calls and compiles functions, whatever other threads were doing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLING = """
import multiprocessing, os, threading, warnings
import numpy as np
import fgrad
from fgrad.compile.llvm import runtime

warnings.simplefilter("ignore")  # Python 3.12 warns of forks with threads
runtime.RECENT_CODE = 4  # so that code is freed meanwhile
f = fgrad.jit(lambda x, w: np.sum(np.tanh(x @ w), axis=0))
x, w = np.ones((300, 400)), np.ones((400, 300)) / 400
known = fgrad.jit(lambda x: np.sin(x) * 3.0)
expected, stop = f(x, w), threading.Event()

def disturb(k):
    n = 0
    while not stop.is_set():
        n += 1
        f(x, w)
        fgrad.jit(lambda x: np.tanh(x * (n + k / 7)) + np.cumsum(x))(np.ones(50))
        known(np.ones(n % 50 + 1))

def child(results=None):
    right = np.array_equal(f(x, w), expected)
    fresh = fgrad.jit(lambda x: np.cos(x) * np.sqrt(x) + 1.5)
    right &= np.allclose(fresh(x), np.cos(1.0) + 1.5)
    right &= np.allclose(known(np.ones(77)), np.sin(1.0) * 3.0)
    if results is not None:
        results.put(right)
    return right

"""
FORKS = """
crew = [threading.Thread(target=disturb, args=(k,)) for k in range(2)]
for thread in crew:
    thread.start()
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if child() else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in crew:
    thread.join()
"""
PROCESSES = """
f(x, w)
context = multiprocessing.get_context("fork")
results = context.Queue()
crew = [context.Process(target=child, args=(results,)) for _ in range(3)]
for process in crew:
    process.start()
assert all([results.get(timeout=200) for _ in crew])
for process in crew:
    process.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("how", [FORKS, PROCESSES], ids=["fork", "multiprocessing"])
def test_children(how: str) -> None:
    environment = {**os.environ, "FGRAD_NUM_THREADS": "3", "FGRAD_CACHE": "0"}
    environment["FGRAD_SHARED_KERNELS"] = "0"  # code for each number
    subprocess.run([sys.executable, "-c", CALLING + how], env=environment, check=True, timeout=300)


LOADING = """
import os, sys, threading, time
from fgrad.base.lazy_import import lazy_module

sys.path.insert(0, sys.argv[1])
slow = lazy_module("slow_module")
thread = threading.Thread(target=lambda: slow.value)
thread.start()
while "slow_module" not in sys.modules:
    time.sleep(0.001)
pid = os.fork()
if pid == 0:
    os._exit(0 if slow.value == 3 else 1)
assert os.waitpid(pid, 0)[1] == 0
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_waits_for_modules_that_other_threads_load(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.5)\nvalue = 3\n")
    subprocess.run([sys.executable, "-c", LOADING, str(tmp_path)], check=True, timeout=60)
