"""Gradients at the prompt beside HIPS autograd's: operation by operation, and memory.

python benchmarks/eager_table.py [operations] [memory] [--only sort] [--write page.md]

The calls of the libraries alternate (A B A B ...) in one process.  A time is the tenth percentile
of all calls of a library: what a busy machine takes away is in the slower ones.  A ratio is fgrad's
time to autograd's.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from eager_operations import ARGUMENTS, OPERATIONS, Operation
from harness import geometric_mean, machine, peak
from libraries import has
from memory_programs import PROGRAMS

import fgrad

SIZES = (100, 1_000_000)


class Row(NamedTuple):
    """Figures of fgrad and of others; the unit is the table's."""

    name: str
    figures: dict[str, float]

    def ratio(self) -> float:
        """fgrad's figure to autograd's."""
        return self.figures["fgrad"] / self.figures["autograd"]


def libraries() -> dict[str, tuple[Any, Callable[..., Any]]]:
    """The array module and the gradient of fgrad and, if it is installed, of autograd."""
    found: dict[str, tuple[Any, Callable[..., Any]]] = {"fgrad": (np, fgrad.grad)}
    if has("autograd"):
        autograd = importlib.import_module("autograd")
        found["autograd"] = importlib.import_module("autograd.numpy"), autograd.grad
    return found


def gradient(operation: Operation, xp: Any, grad: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the sum of an operation's results."""
    return grad(lambda x: xp.sum(operation.apply(xp, x)))


def alternate(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The tenth percentile of the times of each call, which take turns; at least 5 of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.quantile(found, 0.1)) for name, found in times.items()}


def operation_rows(size: int, chosen: str = "", seconds: float = 0.5) -> list[Row]:
    """The time of each operation's gradient, in microseconds."""
    rows = []
    for operation in OPERATIONS:
        if chosen not in operation.name:
            continue
        x = ARGUMENTS[operation.kind](size, np.random.default_rng(0))
        calls = {
            name: _call(gradient(operation, xp, grad), x)
            for name, (xp, grad) in libraries().items()
        }
        times = alternate(calls, seconds)
        rows.append(Row(operation.name, {name: t * 1e6 for name, t in times.items()}))
        show(rows[-1], "us")
    return rows


def _call(f: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    return lambda: f(x)


def memory_rows(chosen: str = "") -> list[Row]:
    """The peak memory of the gradient of each program, in MB."""
    rows = []
    for program in PROGRAMS:
        if chosen not in program.name:
            continue
        x = program.argument(np.random.default_rng(0))
        figures = {
            name: peak(_call(grad(lambda x, xp=xp, f=program.loss: f(xp, x)), x)) / 1e6
            for name, (xp, grad) in libraries().items()
        }
        rows.append(Row(program.name, figures))
        show(rows[-1], "MB")
    return rows


def show(row: Row, unit: str) -> None:
    """Print one row as it is measured."""
    figures = "  ".join([f"{name} {value:10.3f} {unit}" for name, value in row.figures.items()])
    ratio = f"  ratio {row.ratio():.2f}" if "autograd" in row.figures else ""
    print(f"{row.name:44} {figures}{ratio}", flush=True)


def table(rows: Sequence[Row], unit: str) -> str:
    """Rows as a table in Markdown, with ratios to each of the others."""
    others = list(dict.fromkeys([name for row in rows for name in row.figures if name != "fgrad"]))
    lines = [
        "| " + " | ".join(["", f"fgrad, {unit}", *[f"{o}, {unit} | ratio" for o in others]]) + " |",
        "|---" * (2 + 2 * len(others)) + "|",
    ]
    for row in rows:
        own = row.figures["fgrad"]
        cells = [
            f"{row.figures[o]:.4g} | {own / row.figures[o]:.2f}" if o in row.figures else " | "
            for o in others
        ]
        lines.append("| " + " | ".join([row.name, f"{own:.4g}", *cells]) + " |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """The geometric mean of the ratios, and the worst one."""
    ratios = {row.name: row.ratio() for row in rows if "autograd" in row.figures}
    if not ratios:
        return "autograd is not installed."
    worst = max(ratios, key=lambda name: ratios[name])
    mean = geometric_mean(list(ratios.values()))
    return f"{len(ratios)} rows, geometric mean {mean:.2f}, worst {ratios[worst]:.2f} ({worst})."


def main() -> None:
    """Measure what is asked for, all of it by default, and write a page of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parts", nargs="*", default=["operations", "memory"])
    options.add_argument("--only", default="", help="a part of the names of rows")
    options.add_argument("--write", type=Path, help="a file for the tables, in Markdown")
    given = options.parse_args()
    sections = []
    if "operations" in given.parts:
        for size in SIZES:
            rows = operation_rows(size, given.only)
            print(f"n = {size}: {summary(rows)}\n")
            sections.append(f"## Operations, n = {size}\n\n{summary(rows)}\n\n{table(rows, 'us')}")
    if "memory" in given.parts:
        rows = memory_rows(given.only)
        print(f"memory: {summary(rows)}\n")
        sections.append(f"## Peak memory\n\n{summary(rows)}\n\n{table(rows, 'MB')}")
    if given.write:
        about = ", ".join([f"{key} {value}" for key, value in machine().items()])
        head = f"# Gradients at the prompt\n\nMade by `benchmarks/eager_table.py`: {about}."
        given.write.write_text("\n\n".join([head, *sections]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
