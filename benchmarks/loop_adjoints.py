"""Gradients of plain loops beside adjoints written by hand in C.

    python benchmarks/loop_adjoints.py
    CC=clang-15 python benchmarks/loop_adjoints.py

fgrad runs the functions below, unmodified; `loop_adjoints.c` holds what one writes by hand,
compiled with -O3 -march=native.  Microseconds of the processor for the value, and for value and
gradient; the least of turns in which both alternate; seconds of a first call, for which
FGRAD_CACHE=0 switches the disk cache off.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fgrad

TURNS = 15
SECONDS = 0.02  # of one turn


def recurrence(x: Any, w: Any) -> Any:
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = math.sin(y[i - 1]) + x[i]
    return np.sum(w * y)


def lorenz(x: Any, w: Any) -> Any:
    def field(s: Any) -> Any:
        x, y, z = s
        return np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    s, h = x, 0.01
    for _ in range(1000):
        k1 = field(s)
        k2 = field(s + 0.5 * h * k1)
        k3 = field(s + 0.5 * h * k2)
        k4 = field(s + h * k3)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.sum(w * s)


def heat(x: Any, w: Any) -> Any:
    u = x.copy()
    for _ in range(200):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(w * u)


def soft_dtw(x: Any, y: Any) -> Any:
    n, m = len(x), len(y)
    d = np.full((n + 1, m + 1), 1e10)
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = -d[i - 1, j], -d[i, j - 1], -d[i - 1, j - 1]
            top = max(a, b, c)
            total = math.exp(a - top) + math.exp(b - top) + math.exp(c - top)
            d[i, j] = (x[i - 1] - y[j - 1]) ** 2 - (top + math.log(total))
    return d[n, m]


def cholesky(a: Any, w: Any) -> Any:
    n = a.shape[0]
    l = np.zeros((n, n))  # noqa: E741
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = math.sqrt(s) if i == j else s / l[j, j]
    return np.sum(w * l)


class Row(NamedTuple):
    """A loss of two arguments, the number that C takes, and which arguments are differentiated."""

    fun: Callable[[Any, Any], Any]
    n: int
    args: tuple[np.ndarray, np.ndarray]
    wanted: tuple[int, ...]


def rows() -> list[Row]:
    """The five programs."""
    rng = np.random.default_rng(0)
    a = rng.random((60, 60))
    definite = a @ a.T + 60 * np.eye(60)
    lower = np.tril(rng.random((60, 60)))
    return [
        Row(recurrence, 10_000, (rng.random(10_000), rng.random(10_000)), (0,)),
        Row(lorenz, 1000, (np.array([1.0, 2.0, 20.0]), rng.random(3)), (0,)),
        Row(heat, 500, (rng.random(500), rng.random(500)), (0,)),
        Row(soft_dtw, 100, (rng.random(100), rng.random(100)), (0, 1)),
        Row(cholesky, 60, (definite, lower), (0,)),
    ]


def library() -> ctypes.CDLL:
    """The functions by hand."""
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "adjoints.so"
        flags = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, *flags, "-o", str(out), str(source), "-lm"], check=True)
        return ctypes.CDLL(str(out))


def by_hand(functions: ctypes.CDLL, row: Row) -> tuple[Callable[[], Any], np.ndarray]:
    """A call of the gradient in C, and where it is written."""
    call = getattr(functions, row.fun.__name__)
    call.restype = ctypes.c_double
    out = np.zeros(sum([row.args[k].size for k in row.wanted]))
    work = np.zeros(8 * max(row.n * 4, (row.n + 1) ** 2 if row.n <= 100 else 0))
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*row.args, out, work)]
    number = ctypes.c_long(row.n)
    keep = (row.args, work)
    return lambda: (call(number, *pointers), keep), out


def seconds(calls: list[Callable[[], Any]]) -> list[float]:
    """Of each call, on the processor: the least of turns that alternate."""
    best = [math.inf] * len(calls)
    for call in calls:
        for _ in range(12):
            call()
    for _ in range(TURNS):
        for k, call in enumerate(calls):
            count, start = 0, time.process_time()
            while time.process_time() - start < SECONDS / TURNS:
                call()
                count += 1
            best[k] = min(best[k], (time.process_time() - start) / count)
    return best


def main() -> None:
    """Print the table."""
    functions = library()
    print("| program | value, us | gradient, us | adjoint in C, us | ratio | compile gradient, s |")
    print("|---|---|---|---|---|---|")
    fgrad.jit(fgrad.grad(lambda x: np.sum(x * x)))(np.ones(3))
    ratios = []
    for row in rows():
        x, y = row.args
        value = fgrad.jit(row.fun)
        gradient = fgrad.jit(fgrad.value_and_grad(row.fun, row.wanted))
        start = time.process_time()
        found = gradient(x, y)[1]
        compiled = time.process_time() - start
        hand, expected = by_hand(functions, row)
        hand()
        np.testing.assert_allclose(np.concatenate([g.ravel() for g in found]), expected, rtol=1e-6)
        times = seconds([lambda: value(x, y), lambda: gradient(x, y), hand])  # noqa: B023
        ratios.append(times[1] / times[2])
        v, g, c = [1e6 * t for t in times]
        name = row.fun.__name__
        print(f"| {name} | {v:.4g} | {g:.4g} | {c:.4g} | {ratios[-1]:.2f} | {compiled:.2f} |")
    print(f"\nGeometric mean of the ratios: {math.exp(np.mean(np.log(ratios))):.2f}.")


if __name__ == "__main__":
    main()
