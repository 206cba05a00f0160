"""Calls of code that sizes share against code for one size, and how often all sizes compile.

    python benchmarks/shared_code.py [--turns 15] [--cases chain,mlp] [--compilations]

For each function and size: processor time of a call with shared code, which other sizes had made
before, by that of a call with its own code; they take turns, and the least of the turns counts.
With `--compilations`: the calls for which LLVM worked among those with 52 random sizes.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from libraries import fgrad_library
from sizes import CASES, attention, chain, network_loss, pairwise, pooled_loss, recurrence

import fgrad
from fgrad.compile.llvm.runtime import spent
from fgrad.config import config

F32 = np.float32
TURN = 2e-3  # seconds
SIZES = (6, 11, 20, 37, 60, 96, 128, 200, 300, 1000, 1024, 4001)


class Function(NamedTuple):
    """A function, its arguments of a size, and the largest size."""

    fun: Callable[..., Any]
    data: Callable[[int, np.random.Generator], tuple[Any, ...]]
    most: int = 4096


def _softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def _normalised(x: Any) -> Any:
    return np.sum(((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)) ** 3)


def _sequence(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    w, v = (0.3 * rng.normal(size=(32, 64))).astype(F32), rng.normal(size=64).astype(F32)
    return w, v, rng.normal(size=(n, 32)).astype(F32), F32(1)


def _vector(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.normal(size=n),)


def _matrix(width: int, n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.normal(size=(n, width)),)


LIBRARY = fgrad_library()
WITH_GRADIENT = fgrad.value_and_grad
FUNCTIONS = {
    "chain": Function(partial(chain, np), CASES["chain"].data),
    "mean": Function(lambda x: (np.mean(x), np.sum(x * x)), _vector),
    "softmax": Function(_softmax, _vector),
    "running total": Function(np.cumsum, _vector),
    "convolution": Function(lambda x: np.convolve(x, np.ones(5) / 5, "same"), _vector),
    "columns": Function(lambda x: np.sum(np.tanh(x), 0), partial(_matrix, 33)),
    "transpose": Function(lambda x: x.T * 2 + 1.0, partial(_matrix, 50)),
    "normalisation": Function(fgrad.grad(_normalised), partial(_matrix, 64)),
    "layer": Function(WITH_GRADIENT(partial(pooled_loss, np), (0, 1)), _sequence),
    "scan": Function(WITH_GRADIENT(partial(recurrence, LIBRARY)), CASES["scan"].data),
    "mlp": Function(WITH_GRADIENT(partial(network_loss, np)), CASES["mlp"].data),
    "attention": Function(
        WITH_GRADIENT(partial(attention, np), (0, 1, 2)), CASES["attention"].data, 400
    ),
    "pairwise": Function(partial(pairwise, np), CASES["pairwise"].data, 1000),
}


def compilations(case: Function) -> int:
    """The calls for which LLVM worked, over random sizes in random order."""
    rng = np.random.default_rng(0)
    sizes = np.unique(np.exp(rng.uniform(np.log(2), np.log(case.most), 60)).astype(int))
    function, count = fgrad.jit(case.fun, max_traces=10**9), 0
    for n in np.random.default_rng(5).permutation(sizes):
        args = case.data(int(n), rng)
        before = spent()["generate"]
        function(*args)
        count += spent()["generate"] > before
    return count


def ratio(case: Function, n: int, turns: int) -> float:
    """The time of a call with shared code by that with its own."""
    rng = np.random.default_rng(n)
    args, calls = case.data(n, rng), []
    for is_shared in (True, False):
        with config.override(shared_kernels=is_shared):
            function = fgrad.jit(case.fun, max_traces=10**9)
            for other in (n + 1, n + 2) if is_shared else ():
                function(*case.data(other, rng))
            for _ in range(12):
                function(*args)
        calls.append(function)
    start = time.perf_counter()
    calls[0](*args)
    count = max(1, int(TURN / (time.perf_counter() - start)))
    least = [float("inf")] * 2
    for _ in range(turns):
        for k, function in enumerate(calls):
            start = time.process_time_ns()
            for _ in range(count):
                function(*args)
            least[k] = min(least[k], (time.process_time_ns() - start) / count)
    return least[0] / least[1]


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=15)
    options.add_argument("--cases", default=",".join(FUNCTIONS))
    options.add_argument("--compilations", action="store_true")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    found: dict[bool, list[float]] = {False: [], True: []}
    with config.override(cache=False, num_threads=1):
        for name in chosen.cases.split(","):
            case = FUNCTIONS[name]
            if chosen.compilations:
                print(f"| {name} | {compilations(case)} |", flush=True)
                continue
            sizes = [n for n in SIZES if n <= case.most]
            row = [ratio(case, n, chosen.turns) for n in sizes]
            for n, x in zip(sizes, row, strict=True):
                found[n >= 128].append(x)
            print(f"| {name} | " + " | ".join([f"{x:.2f}" for x in row]) + " |", flush=True)
    for is_long, ratios in found.items():
        if ratios:
            worst, median = max(ratios), statistics.median(ratios)
            where = "n >= 128" if is_long else "n < 128"
            print(
                f"{where}: median {median:.2f}, 90 % below "
                f"{sorted(ratios)[int(0.9 * len(ratios))]:.2f}, worst {worst:.2f}"
            )


if __name__ == "__main__":
    main()
