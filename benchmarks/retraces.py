"""Memory and maps of a process that compiles without end: retraces of one function, or functions.

    python benchmarks/retraces.py sizes --count 100000     one function, another length each time
    python benchmarks/retraces.py steps --count 100000     value_and_grad of a layer, another batch
    python benchmarks/retraces.py kernels --count 40000    functions that all are kept, one code
    python benchmarks/retraces.py dropped --count 40000    functions that are dropped, one code
    python benchmarks/retraces.py formulas --count 40000   formulas that are kept, a code for each
    python benchmarks/retraces.py past --count 40000       formulas that are dropped

Prints the resident memory, the maps of the process, the bytes of machine code and the time of one
trace, ten times.  A process may have 65,530 maps.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fgrad
from fgrad.compile.llvm.code_memory import MEMORY

WORK: dict[str, Callable[[], Callable[[int], object]]] = {}


def _work(make: Callable[[], Callable[[int], object]]) -> Callable[[], Callable[[int], object]]:
    WORK[make.__name__] = make
    return make


@_work
def sizes() -> Callable[[int], object]:
    """One function of vectors."""
    f = fgrad.jit(lambda x: np.sin(x) * 2 + x, max_traces=10**9)
    return lambda k: f(np.ones(k + 1))


@_work
def steps() -> Callable[[int], object]:
    """A layer and its gradient."""
    w, x = np.ones((4, 3)), np.ones((2000, 4))

    def loss(w: Any, x: Any) -> Any:
        return np.mean(np.tanh(x @ w))

    f = fgrad.jit(fgrad.value_and_grad(loss), max_traces=10**9)
    return lambda k: f(w[:, : k % 3 + 1], x[: k % 2000 + 1] if k < 6000 else np.ones((k, 4)))


@_work
def kernels() -> Callable[[int], object]:
    """Functions that all are kept."""
    kept = []

    def one(k: int) -> object:
        kept.append(fgrad.jit(lambda x: np.sin(x * k) + x))
        return kept[-1](np.ones(5))

    return one


@_work
def dropped() -> Callable[[int], object]:
    """Functions that are dropped."""
    return lambda k: fgrad.jit(lambda x: np.sin(x * k) + x)(np.ones(5))


OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda y, x: y + x,
    lambda y, x: y * x,
    lambda y, x: np.sqrt(y),
    lambda y, x: np.maximum(y, 0.5 * x),
)


def _formula(k: int) -> Callable[[Any], Any]:
    """The operations that the digits of a number stand for: no two have a kernel in common."""
    steps, rest = [], k + 4
    while rest > 1:
        rest, digit = divmod(rest, 4)
        steps.append(OPERATIONS[digit])

    def formula(x: Any) -> Any:
        return functools.reduce(lambda y, step: step(y, x), steps, x)

    return formula


@_work
def formulas() -> Callable[[int], object]:
    """Formulas that all are kept."""
    kept = []

    def one(k: int) -> object:
        kept.append(fgrad.jit(_formula(k)))
        return kept[-1](np.ones(5))

    return one


@_work
def past() -> Callable[[int], object]:
    """Formulas that are dropped."""
    return lambda k: fgrad.jit(_formula(k))(np.ones(5))


def _state() -> str:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    maps = Path("/proc/self/maps").read_text().count("\n")
    code = MEMORY.bytes_in_use()
    return f"{pages * 4096 / 1e6:8.0f} MB  {maps:6} maps  {code / 1e6:7.1f} MB of code"


def main() -> None:
    """Run one kind of work."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", choices=sorted(WORK))
    options.add_argument("--count", type=int, default=2000)
    chosen = options.parse_args()
    one, start = WORK[chosen.work](), time.process_time()
    for k in range(chosen.count):
        one(k)
        if (k + 1) % max(chosen.count // 10, 1) == 0:
            each = (time.process_time() - start) / (k + 1) * 1e3
            print(f"{k + 1:8}  {_state()}  {each:6.2f} ms each", flush=True)


if __name__ == "__main__":
    main()
