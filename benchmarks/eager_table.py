"""Gradients at the prompt beside HIPS autograd's: operation by operation, memory, and cliffs.

python benchmarks/eager_table.py [operations] [memory] [cliffs] [--only sort] [--write page.md]

The calls of the libraries alternate (A B A B ...) in one process.  A time is the tenth percentile
of all calls of a library: what a busy machine takes away is in the slower ones.  A ratio is fgrad's
time to autograd's.
"""

from __future__ import annotations

import argparse
import importlib
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from eager_programs import CLIFFS, PROGRAMS
from harness import geometric_mean, machine
from libraries import has

import fgrad

SIZES = (100, 1_000_000)


class Operation(NamedTuple):
    """A function of NumPy's module and an array, and numbers that it takes."""

    name: str
    apply: Callable[[Any, Any], Any]
    kind: str = "plain"


def _plain(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=n)


def _matrix(n: int, rng: np.random.Generator) -> np.ndarray:
    side = round(n**0.5)
    return rng.normal(size=(side, side))


def _definite(n: int, rng: np.random.Generator) -> np.ndarray:
    a = _matrix(n, rng)
    return a @ a.T / len(a) + np.eye(len(a))


ARGUMENTS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "plain": _plain,
    "positive": lambda n, rng: rng.uniform(0.5, 1.5, n),
    "unit": lambda n, rng: rng.uniform(-0.9, 0.9, n),
    "factors": lambda n, rng: rng.uniform(-1, 1, n) * 1e-3 / n + 1.0,
    "matrix": _matrix,
    "definite": _definite,
}

OPERATIONS = (
    Operation("x + 1", lambda xp, x: x + 1.0),
    Operation("x * 2", lambda xp, x: x * 2.0),
    Operation("x * x", lambda xp, x: x * x),
    Operation("x - x * 3", lambda xp, x: x - x * 3.0),
    Operation("-x", lambda xp, x: -x),
    Operation("1 / x", lambda xp, x: 1.0 / x, "positive"),
    Operation("x / (x + 3)", lambda xp, x: x / (x + 3.0), "positive"),
    Operation("x ** 2", lambda xp, x: x**2),
    Operation("x ** 3.5", lambda xp, x: x**3.5, "positive"),
    Operation("x ** x", lambda xp, x: x**x, "positive"),
    Operation("abs", lambda xp, x: xp.abs(x)),
    Operation("exp", lambda xp, x: xp.exp(x)),
    Operation("expm1", lambda xp, x: xp.expm1(x)),
    Operation("log", lambda xp, x: xp.log(x), "positive"),
    Operation("log1p", lambda xp, x: xp.log1p(x), "positive"),
    Operation("sqrt", lambda xp, x: xp.sqrt(x), "positive"),
    Operation("square", lambda xp, x: xp.square(x)),
    Operation("reciprocal", lambda xp, x: xp.reciprocal(x), "positive"),
    Operation("sin", lambda xp, x: xp.sin(x)),
    Operation("cos", lambda xp, x: xp.cos(x)),
    Operation("tan", lambda xp, x: xp.tan(x), "unit"),
    Operation("arcsin", lambda xp, x: xp.arcsin(x), "unit"),
    Operation("arctan", lambda xp, x: xp.arctan(x)),
    Operation("arctan2", lambda xp, x: xp.arctan2(x, x + 2.0), "positive"),
    Operation("sinh", lambda xp, x: xp.sinh(x)),
    Operation("tanh", lambda xp, x: xp.tanh(x)),
    Operation("logaddexp", lambda xp, x: xp.logaddexp(x, x * 2.0)),
    Operation("logaddexp of a constant", lambda xp, x: xp.logaddexp(x, 0.5)),
    Operation("maximum of a constant", lambda xp, x: xp.maximum(x, 0.0)),
    Operation("minimum of two", lambda xp, x: xp.minimum(x, x * x)),
    Operation("clip", lambda xp, x: xp.clip(x, -0.5, 0.5)),
    Operation("where", lambda xp, x: xp.where(x > 0, x, 0.1 * x)),
    Operation("sum", lambda xp, x: x),
    Operation("mean", lambda xp, x: xp.mean(x)),
    Operation("var", lambda xp, x: xp.var(x)),
    Operation("std", lambda xp, x: xp.std(x)),
    Operation("prod", lambda xp, x: xp.prod(x), "factors"),
    Operation("max", lambda xp, x: xp.max(x)),
    Operation("min", lambda xp, x: xp.min(x)),
    Operation("cumsum", lambda xp, x: xp.cumsum(x)),
    Operation("sort", lambda xp, x: xp.sort(x)),
    Operation("norm", lambda xp, x: xp.linalg.norm(x)),
    Operation("x[3]", lambda xp, x: x[3]),
    Operation("x[2:-2]", lambda xp, x: x[2:-2]),
    Operation("x[::-1]", lambda xp, x: x[::-1]),
    Operation("x[indices]", lambda xp, x: x[np.arange(0, x.shape[0], 2)]),
    Operation("reshape", lambda xp, x: xp.reshape(x, (10, -1))),
    Operation("concatenate", lambda xp, x: xp.concatenate([x, x])),
    Operation("stack", lambda xp, x: xp.stack([x, x])),
    Operation("roll", lambda xp, x: xp.roll(x, 1)),
    Operation("repeat", lambda xp, x: xp.repeat(x, 2)),
    Operation("tile", lambda xp, x: xp.tile(x, 2)),
    Operation("outer with a short one", lambda xp, x: xp.outer(x, np.ones(4))),
    Operation("dot of vectors", lambda xp, x: xp.dot(x, x)),
    Operation("fft", lambda xp, x: xp.abs(xp.fft.fft(x))),
    Operation("transpose", lambda xp, x: x.T, "matrix"),
    Operation("sum of rows", lambda xp, x: xp.sum(x, axis=1) ** 2, "matrix"),
    Operation("row plus matrix", lambda xp, x: x + x[0], "matrix"),
    Operation("max of rows", lambda xp, x: xp.max(x, axis=1), "matrix"),
    Operation("matrix @ vector", lambda xp, x: x @ np.ones(x.shape[0]), "matrix"),
    Operation("matrix @ matrix", lambda xp, x: x @ x, "matrix"),
    Operation("trace", lambda xp, x: xp.trace(x), "matrix"),
    Operation("einsum ij,ij->", lambda xp, x: xp.einsum("ij,ij->", x, x), "matrix"),
    Operation("einsum ij,kj->ik", lambda xp, x: xp.einsum("ij,kj->ik", x, x), "matrix"),
    Operation("tensordot", lambda xp, x: xp.tensordot(x, x, 1), "matrix"),
    Operation("inv", lambda xp, x: xp.linalg.inv(x), "definite"),
    Operation("solve", lambda xp, x: xp.linalg.solve(x, np.ones(x.shape[0])), "definite"),
    Operation("slogdet", lambda xp, x: xp.linalg.slogdet(x)[1], "definite"),
    Operation("cholesky", lambda xp, x: xp.linalg.cholesky(x), "definite"),
)


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


def peak(call: Callable[[], Any]) -> int:
    """The bytes of NumPy's and Python's memory at the peak of a second call."""
    call()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


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


def cliff_rows(chosen: str = "", seconds: float = 2.0) -> list[Row]:
    """The time of each cliff for all libraries that have it, in milliseconds."""
    rows = []
    for cliff in CLIFFS:
        if chosen in cliff.name:
            times = alternate(cliff.calls(), seconds)
            rows.append(Row(cliff.name, {name: t * 1e3 for name, t in times.items()}))
            show(rows[-1], "ms")
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
    options.add_argument("parts", nargs="*", default=["operations", "memory", "cliffs"])
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
    if "cliffs" in given.parts:
        sections.append(f"## Cliffs\n\n{table(cliff_rows(given.only), 'ms')}")
    if given.write:
        about = ", ".join([f"{key} {value}" for key, value in machine().items()])
        head = f"# Gradients at the prompt\n\nMade by `benchmarks/eager_table.py`: {about}."
        given.write.write_text("\n\n".join([head, *sections]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
