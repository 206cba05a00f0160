"""Ten loops over sizes from 4 to 2,000: does any threshold change the time by more than 2?

    python benchmarks/loop_sizes.py                                     print all points
    python benchmarks/loop_sizes.py --only rows,rnn --sizes 256,511,512,513
    python benchmarks/loop_sizes.py --python numba/bin/python --write results/loop_sizes.md

A row has `n` elements; other sizes of an array are 16 or 32, so that few leave the near caches.
Values and gradients are compared with NumPy and central differences at the sizes below
64.  Times are nanoseconds of the processor for an innermost step, on one thread, the least of some
turns that fgrad's function, its gradient and Numba's function (the same source, compiled by hand)
take one after the other.  A jump is a time for a step that is more than twice that of a neighbour.
Each loop has a process of its own, which `--python` runs.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from children import child_lines
from harness import machine
from libraries import has

import fgrad

SIZES = (
    4, 5, 6, 8, 11, 16, 17, 23, 32, 33, 46, 64, 65, 90, 127, 128, 129, 181, 256, 257, 362, 511, 512,
    513, 724, 1024, 1448, 2000,
)  # fmt: skip
COLUMNS = ("forward", "gradient", "numba")
SECONDS = 0.01  # of one turn
TURNS = 5
ROWS = 32  # rows beside the n elements of each
STEP = 1e-6  # of central differences
CHECKED = 64  # elements of a row up to which gradients are checked
JUMP = 2.0


# --- the loops, as one writes them for Numba


def rows(A: Any) -> Any:
    """A recurrence of rows."""
    B = np.zeros_like(A)
    B[0] = A[0]
    for i in range(1, A.shape[0]):
        B[i] = A[i] - 0.5 * B[i - 1] * A[i]
    return B


def columns(A: Any) -> Any:
    """A recurrence of columns of n rows."""
    B = np.zeros_like(A)
    B[:, 0] = A[:, 0]
    for i in range(1, A.shape[1]):
        B[:, i] = A[:, i] - 0.5 * B[:, i - 1] * A[:, i]
    return B


def three(A: Any) -> Any:
    """Sums of three rows."""
    B = np.zeros_like(A)
    for i in range(1, A.shape[0] - 1):
        B[i] = A[i - 1] + A[i] * A[i] + A[i + 1]
    return B


def matmul(A: Any) -> Any:
    """A product with a small matrix, its first rows, by three loops."""
    n, m = A.shape
    C = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            s = 0.0
            for k in range(m):
                s += A[i, k] * A[k % 4, j]
            C[i, j] = s
    return C


def seidel(A: Any) -> Any:
    """A recurrence over both axes, element by element."""
    B = np.zeros_like(A)
    for i in range(1, A.shape[0]):
        for j in range(1, A.shape[1]):
            B[i, j] = 0.5 * B[i - 1, j] + 0.4 * B[i, j - 1] + A[i, j] * A[i, j]
    return B


def trisolv(L: Any) -> Any:
    """A triangular system with products of slices."""
    n = L.shape[0]
    x = np.zeros(n)
    for i in range(n):
        x[i] = (1.0 - L[i, :i] @ x[:i]) / L[i, i]
    return x


def prefix(A: Any) -> Any:
    """Partial sums of each row."""
    B = np.zeros_like(A)
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j]
            B[i, j] = s * s
    return B


def table(A: Any) -> Any:
    """A table of distances, as those of edits."""
    m, n = A.shape
    D = np.zeros((m + 1, n + 1))
    for j in range(n):
        D[0, j + 1] = D[0, j] + 1.0
    for i in range(m):
        D[i + 1, 0] = D[i, 0] + 1.0
        for j in range(n):
            best = min(D[i, j + 1], D[i + 1, j]) + 1.0
            D[i + 1, j + 1] = min(best, D[i, j] + A[i, j])
    return D


def rnn(W: Any) -> Any:
    """A state of n numbers: a product with a matrix and a function in each step."""
    h = np.zeros(W.shape[0])
    for _ in range(32):
        h = np.tanh(W @ h + W[0])
    return h


def window(A: Any) -> Any:
    """The mean and variance of the last n numbers, which a buffer keeps."""
    n = A.shape[0]
    buffer = np.zeros(n)
    out = np.zeros(64)
    for t in range(64):
        buffer[t % n] = A[t % n] * (1.0 + 0.01 * t)
        mean = np.sum(buffer) / n
        out[t] = np.sum((buffer - mean) ** 2) / n
    return out


class Loop(NamedTuple):
    """A loop, its argument and its innermost steps for a size."""

    fun: Callable[[Any], Any]
    argument: Callable[[int], np.ndarray]
    steps: Callable[[int], int]


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


def _square(n: int) -> np.ndarray:
    return _random(n, n) / n + np.eye(n)


LOOPS = {
    "rows": Loop(rows, lambda n: _random(ROWS, n), lambda n: ROWS * n),
    "columns": Loop(columns, lambda n: _random(n, ROWS), lambda n: ROWS * n),
    "three": Loop(three, lambda n: _random(ROWS, n), lambda n: ROWS * n),
    "matmul": Loop(matmul, lambda n: _random(n, 16), lambda n: 256 * n),
    "seidel": Loop(seidel, lambda n: _random(ROWS, n), lambda n: ROWS * n),
    "trisolv": Loop(trisolv, _square, lambda n: n * n // 2),
    "prefix": Loop(prefix, lambda n: _random(ROWS, n), lambda n: ROWS * n),
    "table": Loop(table, lambda n: _random(ROWS, n), lambda n: ROWS * n),
    "rnn": Loop(rnn, _square, lambda n: 32 * n * n),
    "window": Loop(window, lambda n: _random(n), lambda n: 64 * n),
}


# --- measuring


def loss(loop: Loop, weights: np.ndarray) -> Callable[[Any], Any]:
    """The number whose gradient is taken."""
    return lambda x: np.sum(weights * loop.fun(x))


def wrong(loop: Loop, x: np.ndarray, weights: np.ndarray, gradient: Any) -> str:
    """What differs from NumPy, and from differences; empty if nothing does."""
    if not np.allclose(fgrad.jit(loop.fun)(x), loop.fun(x), rtol=1e-8, atol=1e-10):
        return "value"
    way = np.random.default_rng(1).standard_normal(x.shape)
    up, down = [np.sum(weights * loop.fun(x + s * STEP * way)) for s in (1, -1)]
    slope, found = (up - down) / (2 * STEP), np.sum(gradient(x) * way)
    scale = max(abs(slope), float(np.sum(np.abs(gradient(x)))) * 1e-3, 1e-6)
    return "" if abs(slope - found) <= 1e-4 * scale else f"gradient {found:.6g} {slope:.6g}"


def seconds(call: Callable[[], object], count: int) -> float:
    """Seconds of the processor for a call."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def measure(loop: Loop, n: int) -> dict[str, Any]:
    """Nanoseconds for a step of each way, and the seconds of compiling."""
    x = loop.argument(n)
    weights = np.random.default_rng(2).standard_normal(np.shape(loop.fun(x)))
    calls: dict[str, Callable[[Any], Any]] = {
        "forward": fgrad.jit(loop.fun), "gradient": fgrad.jit(fgrad.grad(loss(loop, weights)))
    }  # fmt: skip
    if has("numba"):
        calls["numba"] = importlib.import_module("numba").njit(loop.fun)
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, call in calls.items():
        found[f"compile {name}"] = seconds(lambda call=call: call(x), 1)
        once = min([seconds(lambda call=call: call(x), 1) for _ in range(5)])
        counts[name] = max(1, min(10_000, int(SECONDS / max(once, 1e-7))))
    best = dict.fromkeys(calls, math.inf)
    for _ in range(TURNS):
        for name, call in calls.items():
            best[name] = min(best[name], seconds(lambda call=call: call(x), counts[name]))
    found.update({name: t / loop.steps(n) * 1e9 for name, t in best.items()})
    if n < CHECKED:
        found["wrong"] = wrong(loop, x, weights, calls["gradient"])
    return found


Points = dict[int, dict[str, Any]]


def jumps(points: Points, column: str) -> list[str]:
    """The neighbours whose times for a step differ by more than twice."""
    sizes = [n for n in points if column in points[n]]
    found = []
    for a, b in itertools.pairwise(sizes):
        before, after = points[a][column], points[b][column]
        # A call has a cost of its own, so that small sizes may cost a step as much less.
        falls = before > JUMP * after and before * a > after * b
        if after > JUMP * before or falls:
            found.append(f"{a} to {b}: {before:.3g} to {after:.3g}")
    return found


def page(found: dict[str, Points], note: str) -> str:
    """All points as tables in Markdown, with the jumps."""
    about = ", ".join([f"{key} {value}" for key, value in machine().items()])
    lines = [
        "# Loops over sizes from 4 to 2,000", "",
        f"Made by `benchmarks/loop_sizes.py`: {about}.", "",
        "Nanoseconds of the processor for an innermost step, on one thread.", note, "",
        "![](loop_sizes.png)", "", "## Jumps of more than twice between neighbours", "",
        "| loop | way | sizes and times |", "|---|---|---|",
    ]  # fmt: skip
    for name, points in found.items():
        for column in COLUMNS:
            said = jumps(points, column)
            if said:
                lines.append(f"| {name} | {column} | {'; '.join(said)} |")
    sizes = list(next(iter(found.values())))
    for column in COLUMNS:
        lines += ["", f"## {column.capitalize()}", "", f"| n | {' | '.join(found)} |"]
        lines += ["|---" * (len(found) + 1) + "|"]
        for n in sizes:
            cells = [p.get(n, {}).get(column) for p in found.values()]
            texts = ["-" if c is None else f"{c:.3g}" for c in cells]
            lines.append(f"| {n} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def draw(path: Path, found: dict[str, Points]) -> None:
    """A picture for each loop."""
    importlib.import_module("matplotlib").use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    figure, axes = plt.subplots(2, 5, figsize=(15, 6), layout="constrained", sharex=True)
    for ax, (name, points) in zip(axes.flat, found.items(), strict=False):
        for column, style in zip(COLUMNS, ("C0o-", "C3o-", "k:"), strict=True):
            sizes = [n for n in points if column in points[n]]
            ax.plot(sizes, [points[n][column] for n in sizes], style, ms=3, lw=1, label=column)
        ax.axvline(512, color="#bbbbbb", lw=0.6)
        ax.set(xscale="log", yscale="log", title=name)
        ax.grid(color="#eeeeee", lw=0.6)
    axes[0, 0].legend(frameon=False)
    axes[0, 0].set_ylabel("ns a step")
    axes[1, 0].set_ylabel("ns a step")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def points_of(name: str, sizes: str, python: str) -> Points:
    """The points of a loop, measured in a process of its own."""
    os.environ["FGRAD_NUM_THREADS"] = "1"
    lines = child_lines("loop_sizes.py", "--only", name, "--sizes", sizes, "--child", python=python)
    return {int(n): point for n, point in map(json.loads, lines)}


def main() -> None:
    """Measure all, print a line for each point."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default=",".join(LOOPS))
    options.add_argument("--sizes", default=",".join(map(str, SIZES)))
    options.add_argument("--python", default=sys.executable, help="with Numba, if it is another")
    options.add_argument("--write", type=Path, help="a file for the tables; the picture beside it")
    options.add_argument("--child", action="store_true")
    given = options.parse_args()
    if given.child:
        for n in map(int, given.sizes.split(",")):
            print(json.dumps((n, measure(LOOPS[given.only], n))), flush=True)
        return
    found = {}
    for name in given.only.split(","):
        found[name] = points_of(name, given.sizes, given.python)
        for n, point in found[name].items():
            cells = [f"{c} {point[c]:.3g}" for c in point if c != "wrong"]
            print(name, n, *cells, point.get("wrong", ""), flush=True)
        for column in COLUMNS:
            for said in jumps(found[name], column):
                print("  jump:", name, column, said, flush=True)
    if given.write:
        bad = [f"{k}, {n}" for k, p in found.items() for n, q in p.items() if q.get("wrong")]
        note = f"Wrong: {'; '.join(bad)}." if bad else "All values and gradients were right."
        given.write.write_text(page(found, note), encoding="utf-8")
        if has("matplotlib"):
            draw(given.write.with_suffix(".png"), found)


if __name__ == "__main__":
    main()
