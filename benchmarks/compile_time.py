"""Time to the first result against the size of the program: is it linear?

    python benchmarks/compile_time.py [--write results/compile_time.md]

Each point is a fresh process without a cache, in which a small function was compiled before; times
are those of the processor (user and system).  `scalars` are straight lines of operations on numbers
whose operands are any two before, `vectors` a chain on 1,000 numbers, `gradient` the gradient of
the scalars; `nests` are n loops in each other around one sum, and their gradients.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from children import child_lines
from harness import machine
from libraries import has

import fgrad

EQUATIONS = (10, 100, 1000, 10_000)
DEPTHS = (1, 2, 3, 4, 5)


def scalars(count: int) -> Callable[[Any], Any]:
    """Operations on numbers, each of two that are there."""
    places = np.random.default_rng(0).integers(0, 1 << 30, (count, 2))

    def f(x: Any) -> Any:
        found = [x[k] for k in range(4)]
        for a, b in places:
            found.append(1.0 - 0.5 * found[-1 - a % 16 % len(found)] * found[b % len(found)])
        return found[-1]

    return f


def vectors(count: int) -> Callable[[Any], Any]:
    """A chain on vectors."""

    def f(x: Any) -> Any:
        for k in range(count // 2):
            x = np.tanh(x) * (1.0 + 1e-6 * k)
        return x

    return f


def nest(depth: int) -> Callable[[Any], Any]:
    """Loops in each other, by `fori_loop`."""

    def loop(level: int, x: Any, total: Any) -> Any:
        if not level:
            return total + np.sin(x * total)
        step = lambda i, t: loop(level - 1, x + i, t)  # noqa: E731
        return fgrad.lax.fori_loop(0, 3 + level, step, total)

    return lambda x: loop(depth, x[0], x[1])


def _gradient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return fgrad.grad(lambda x: np.sum(f(x)))


CASES: dict[str, tuple[tuple[int, ...], Callable[[int], Callable[[Any], Any]], int]] = {
    "scalars": (EQUATIONS, lambda n: scalars(n // 3), 4),
    "gradient": (EQUATIONS, lambda n: _gradient(scalars(n // 9)), 4),
    "vectors": (EQUATIONS, vectors, 1000),
    "nests": (DEPTHS, nest, 4),
    "gradients of nests": (DEPTHS, lambda n: _gradient(nest(n)), 4),
}


def first_result(name: str, size: int) -> float:
    """Milliseconds of the processor to the first result of a program."""
    fgrad.jit(lambda x: np.sin(x) + 1.0)(np.ones(3))
    _, make, length = CASES[name]
    fun = fgrad.jit(make(size), capture=False)
    x = np.linspace(0.1, 0.9, length)
    start = time.process_time()
    fun(x)
    return 1e3 * (time.process_time() - start)


def slope(sizes: tuple[int, ...], times: list[float]) -> float:
    """The power with which the time grows from the last size but one to the last."""
    return math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])


def page(found: dict[str, list[float]]) -> str:
    """The times as a table in Markdown."""
    about = ", ".join([f"{key} {value}" for key, value in machine().items()])
    lines = [
        "# Time to the first result", "", f"Made by `benchmarks/compile_time.py`: {about}.", "",
        "Processor milliseconds; the power is that of the last step from size to size.", "",
        "![](compile_time.png)", "",
    ]  # fmt: skip
    for sizes, unit in ((EQUATIONS, "equations"), (DEPTHS, "loops in each other")):
        lines += [f"| {unit} | {' | '.join(f'{n:,}' for n in sizes)} | power |"]
        lines += ["|---" * (len(sizes) + 2) + "|"]
        for name, times in found.items():
            if CASES[name][0] is sizes:
                cells = " | ".join(f"{t:.1f}" for t in times)
                lines.append(f"| {name} | {cells} | {slope(sizes, times):.2f} |")
        lines.append("")
    return "\n".join(lines)


def draw(path: Path, found: dict[str, list[float]]) -> None:
    """Both tables as curves, with a line of slope 1."""
    importlib.import_module("matplotlib").use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, times in found.items():
        axes = left if CASES[name][0] is EQUATIONS else right
        axes.plot(CASES[name][0], times, "o-", label=name)
    left.plot(EQUATIONS, [n / 10 for n in EQUATIONS], "k:", label="0.1 ms an equation")
    left.set(xscale="log", yscale="log", xlabel="equations", ylabel="processor ms")
    right.set(xlabel="loops in each other", ylim=(0, None), xticks=DEPTHS)
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.grid(color="#dddddd", lw=0.6)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure all, each point in a process of its own."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", type=Path, help="a file for the tables; the picture beside it")
    options.add_argument("--child", nargs=2)
    given = options.parse_args()
    if given.child:
        print(first_result(given.child[0], int(given.child[1])))
        return
    found: dict[str, list[float]] = {}
    for name, (sizes, _, _) in CASES.items():
        points = [child_lines("compile_time.py", "--child", name, str(n)) for n in sizes]
        found[name] = [float(lines[-1]) if lines else math.nan for lines in points]
        print(name, [round(t, 1) for t in found[name]], flush=True)
    if given.write:
        given.write.write_text(page(found), encoding="utf-8")
        if has("matplotlib"):
            draw(given.write.with_suffix(".png"), found)


if __name__ == "__main__":
    main()
