"""A process that lacks what another system lacks, and computes: `python systems.py windows`.

    darwin     no files in memory that may be executed, no `sched_getaffinity`, no /proc
    windows    also no forks, no user numbers, no descriptors of folders, no library of the process

What such a system has instead is not here: object formats, conventions, memory (see
docs/design/platforms.md).
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

# What the program needs of others is loaded before the system changes.
_LOADED = """attr cloudpickle concurrent.futures joblib llvmlite.binding marshal numpy opt_einsum
    optree scipy.fft scipy.linalg scipy.special scipy.special.cython_special
    scipy.linalg.cython_blas scipy.linalg.cython_lapack tempfile"""
for _name in _LOADED.split():
    importlib.import_module(_name)

LIBRARY = ctypes.CDLL
PROCESS = ctypes.CDLL(None)
UCRT = {"malloc", "free", "memcpy", "memmove", "memset", "memcmp", "fma", "fmaf", "fmod"}


class Ucrt:
    """Windows' C library, with functions of this one."""

    def __getattr__(self, name: str) -> Any:
        if name == "_timespec64_get":
            return PROCESS.timespec_get
        if name in UCRT:
            return getattr(PROCESS, name)
        raise AttributeError(name)


def library(name: str | None, *args: Any, **kwargs: Any) -> Any:
    if name is None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")
    if name == "ucrtbase":
        return Ucrt()
    os.name = "posix"  # how `ctypes` itself loads one
    try:
        return LIBRARY(name, *args, **kwargs)
    finally:
        os.name = "nt"


def opened(path: Any, *args: Any, **kwargs: Any) -> Any:
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(path)
    return OPEN(path, *args, **kwargs)


OPEN = builtins.open
MISSING = {
    "darwin": ["memfd_create", "sched_getaffinity", "sched_setaffinity", "MFD_CLOEXEC"],
    "windows": ["register_at_fork", "fork", "forkpty", "geteuid", "getuid", "O_CLOEXEC",
                "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "posix_spawn", "kill", "uname"],
}  # fmt: skip


def become(system: str) -> None:
    """Take away what the system lacks."""
    names = MISSING["darwin"] + (MISSING["windows"] if system == "windows" else [])
    for name in names:
        delattr(os, name)
    builtins.open = opened
    sys.platform = "darwin" if system == "darwin" else "win32"
    if system == "windows":
        os.name = "nt"
        os.supports_dir_fd.clear()
        ctypes.CDLL = library  # type: ignore[misc]
        for name in ("clock_gettime", "CLOCK_MONOTONIC", "CLOCK_REALTIME"):
            delattr(time, name)
        for name in ("SIGALRM", "SIGUSR1", "pthread_kill", "setitimer"):
            delattr(signal, name)


def compute() -> None:
    """Gradients, kernels that threads share, products, sorts, special functions, loops, a cache."""
    fgrad: Any = importlib.import_module("fgrad")
    special: Any = importlib.import_module("fgrad.scipy.special")
    rng = np.random.default_rng(0)
    x, w = rng.random(300_000), rng.random((64, 64))

    def f(x: Any) -> Any:
        y = np.sort(np.exp(x) + np.cumsum(x) / x.size)
        return np.sum(y * np.sin(y)) + np.sum(np.fft.fft(x[:210]).real)

    def g(w: Any) -> Any:
        a = w @ w.T + np.eye(64)
        return np.linalg.slogdet(a)[1] + np.sum(np.linalg.solve(a, w)) + np.sum(special.erf(w))

    for fun, arg in ((f, x), (g, w)):
        slope = fgrad.grad(fun)(arg)
        step = fgrad.jit(fgrad.value_and_grad(fun))
        for _ in range(20):
            value, compiled = step(arg)
            np.testing.assert_allclose(value, fun(arg), rtol=1e-9)
            np.testing.assert_allclose(compiled, slope, rtol=1e-9, atol=1e-12)
    half = rng.random(999).astype(np.float16)
    np.testing.assert_array_equal(fgrad.jit(lambda h: h + h)(half), half + half)

    def newton(a: Any) -> Any:
        y = a
        while abs(y * y - a) > 1e-12:
            y = (y + a / y) / 2
        return y

    assert abs(fgrad.jit(fgrad.grad(newton))(2.0) - 0.5 / 2**0.5) < 1e-12
    results: list[Any] = []
    twice = fgrad.jit(lambda x: np.sum(x * 2))
    threads = [threading.Thread(target=lambda: results.append(twice(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(results, 2 * np.sum(x))


if __name__ == "__main__":
    become(sys.argv[1])
    compute()
    print("good", len(os.listdir(os.environ["FGRAD_CACHE_DIR"])) > 2)
