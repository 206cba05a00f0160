"""What capture costs: the conversion of a function, and gradients at the prompt.

    python benchmarks/capture_cost.py [--npbench PATH] [--turns 31]

Conversion is the time of the processor from a function to its rewritten form, once in a process
that has converted another function before; the functions are the loop kernels of
`tests/unmodified/loops` and, with their folder, NPBench's.  The median of three processes is shown.
Gradients at the prompt are timed with and without capture, in turns: programs that run either way.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from children import child_lines

import fgrad
from fgrad.capture.convert import known_of

KERNELS = Path(__file__).parents[1] / "tests" / "unmodified"
MOST = 10.0  # milliseconds for a function


def first(x: Any) -> Any:
    """What is converted before the others."""
    total = 0.0
    for k in range(len(x)):
        total += x[k] if x[k] > 0.0 else 0.0
    return total


def functions(npbench: str) -> Iterator[FunctionType]:
    """The functions that are converted."""
    sys.path.insert(0, str(KERNELS))
    for path in sorted((KERNELS / "loops").glob("*.py")):
        yield from _of_module(importlib.import_module(f"loops.{path.stem}"))
    if npbench:
        sys.path.insert(0, npbench)
        for path in sorted(Path(npbench).glob("npbench/benchmarks/**/*_numpy.py")):
            name = ".".join(path.relative_to(npbench).with_suffix("").parts)
            yield from _of_module(importlib.import_module(name))


def _of_module(module: Any) -> Iterator[FunctionType]:
    for value in vars(module).values():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            yield value


def conversions(npbench: str) -> None:
    """A line for each function: its name and milliseconds of the processor."""
    known_of(first)  # type: ignore[arg-type]
    for fun in list(functions(npbench)):
        start = time.process_time()
        known_of(fun)
        spent = (time.process_time() - start) * 1e3
        print(f"{fun.__module__.rpartition('.')[2]}.{fun.__qualname__} {spent:.3f}")


def show_conversions(npbench: str) -> None:
    """The median function, the longest, and how many take more than they should."""
    found: dict[str, list[float]] = {}
    for _ in range(3):
        for line in child_lines("capture_cost.py", "--conversions", "--npbench", npbench):
            name, spent = line.split()
            found.setdefault(name, []).append(float(spent))
    times = sorted([(statistics.median(spent), name) for name, spent in found.items()])
    above = sum([spent > MOST for spent, _ in times])
    print(f"conversion of {len(times)} functions, ms: median {times[len(times) // 2][0]:.2f}")
    print(f"above {MOST:g} ms: {above}; the longest:")
    for spent, name in times[:-6:-1]:
        print(f"  {spent:6.2f}  {name}")


# --- gradients at the prompt ----------------------------------------------------------------------


def rosenbrock(x: Any) -> Any:
    """Elements read in a loop."""
    return sum([100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2 for i in range(len(x) - 1)])


def sines(x: Any) -> Any:
    """A chain of operations on a number."""
    for _ in range(25):
        x = np.sin(x) * 1.1
    return x


def logistic(w: Any) -> Any:
    """A loss of a linear model, with an array that is made in it."""
    rows = np.cos(np.arange(400.0)).reshape(20, 20)
    return np.mean(np.logaddexp(0.0, rows @ w)) + np.sum(np.zeros(20) * w)


def branches(x: Any) -> Any:
    """Branches and helpers in a loop."""
    total = 0.0
    for k in range(12):
        total = total + (leaky(x[k]) if x[k] > 0.1 * k else x[k] * 0.1)
    return total


def leaky(x: Any) -> Any:
    """A helper."""
    return np.maximum(x, 0.0) + 0.01 * x


PROGRAMS: list[tuple[Callable[..., Any], Any]] = [
    (rosenbrock, np.linspace(0.5, 1.5, 10)),
    (sines, np.float64(0.7)),
    (logistic, np.linspace(-1.0, 1.0, 20)),
    (branches, np.linspace(-1.0, 1.0, 12)),
]


def show_prompt(turns: int) -> None:
    """Times of gradients with capture, as shares of those without."""

    def without(gradient: Callable[..., Any], x: Any) -> Any:
        with fgrad.config.override(capture=False):
            return gradient(x)

    def with_it(gradient: Callable[..., Any], x: Any) -> Any:
        with fgrad.config.override(capture=True):
            return gradient(x)

    print("gradients at the prompt, with capture / without:")
    for program, x in PROGRAMS:
        gradient = fgrad.grad(program)
        assert np.array_equal(with_it(gradient, x), without(gradient, x))
        times = [(spent(with_it, gradient, x), spent(without, gradient, x)) for _ in range(turns)]
        with_ms, without_ms = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"  {with_ms / without_ms:.3f}  {program.__name__} ({with_ms * 1e3:.0f} us)")


def spent(call: Callable[..., Any], gradient: Callable[..., Any], x: Any) -> float:
    """Milliseconds of the processor for a call, of 50."""
    start = time.process_time()
    for _ in range(50):
        call(gradient, x)
    return (time.process_time() - start) * 1e3 / 50


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--npbench", default="", help="the folder of NPBench")
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--conversions", action="store_true", help="in this process, line by line")
    options = parser.parse_args()
    if options.conversions:
        conversions(options.npbench)
        return
    show_conversions(options.npbench)
    show_prompt(options.turns)


if __name__ == "__main__":
    main()
