"""The loop kernels of the tests with times: forward, gradient, and Numba on the same functions.

    python benchmarks/kernels.py [--only physics] [--write results/kernels.md]

Arguments are the small ones of `tests/unmodified/loops`: a call takes microseconds, of which the
call itself is a part.  A gradient is that of the sum of all floats in the results, for all
arguments of floats.  Kernels that write their arguments go on from what they wrote.  Times are the
least of the processor, in microseconds; compile times are those of first calls, in seconds.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import first_time, geometric_mean, least_times, machine
from libraries import has

import fgrad

TESTS = Path(__file__).resolve().parent.parent / "tests"
HEAD = ("forward", "gradient", "numba", "gradient/forward", "forward/numba", "compile", "numba's")


def total(x: Any) -> Any:
    """The sum of all floats in a result."""
    if isinstance(x, (tuple, list)):
        return sum([total(y) for y in x])
    is_real = np.asarray(x).dtype.kind == "f" if not hasattr(x, "dtype") else x.dtype.kind == "f"
    return np.sum(x) if is_real else 0.0


def is_float(x: Any) -> bool:
    """Whether an argument is differentiated."""
    return isinstance(x, float) or (isinstance(x, np.ndarray) and x.dtype.kind == "f")


def row(fun: Callable[..., Any], given: tuple[Any, ...]) -> list[float]:
    """The figures of one kernel; NaN for what cannot be had."""
    compiled = fgrad.jit(fun)
    args = copy.deepcopy(given)
    calls: dict[str, Callable[[], Any]] = {"forward": lambda: compiled(*args)}
    compile_times = {"forward": first_time(calls["forward"])}
    places = tuple([k for k, x in enumerate(given) if is_float(x)])
    if places and isinstance(total(fun(*copy.deepcopy(given))), np.floating | float):
        gradient = fgrad.jit(fgrad.grad(lambda *xs: total(fun(*xs)), places))
        calls["gradient"] = lambda: gradient(*args)
        try:
            calls["gradient"]()
        except fgrad.errors.FgradError:
            del calls["gradient"]
    if has("numba"):
        theirs, own = importlib.import_module("numba").njit(fun), copy.deepcopy(given)
        try:
            compile_times["numba"] = first_time(lambda: theirs(*own))
            calls["numba"] = lambda: theirs(*own)
        except Exception:  # it compiles fewer forms of Python
            compile_times["numba"] = math.nan
    times = {name: 1e6 * t for name, t in least_times(calls, turns=9).items()}
    forward, gradient, numba = [times.get(k, math.nan) for k in ("forward", "gradient", "numba")]
    ratios = [gradient / forward, forward / numba]
    return [
        *(forward, gradient, numba), *ratios,
        *[compile_times.get(k, math.nan) for k in ("forward", "numba")],
    ]  # fmt: skip


def rows(only: str) -> Iterator[tuple[str, list[float]]]:
    """All kernels, with the first of their cases."""
    for folder in ("", "unmodified"):
        sys.path.insert(0, str(TESTS / folder))
    for probe in importlib.import_module("probes").functions_of("loops"):
        if only in str(probe):
            fun: Any = probe.load()
            yield str(probe), row(fun, fun.cases[0].args)


def summary(found: list[list[float]]) -> str:
    """Geometric means and the largest ratios."""
    lines = []
    for column, name in ((3, "gradient/forward"), (4, "forward/numba")):
        known = [figures[column] for figures in found if math.isfinite(figures[column])]
        mean, most = geometric_mean(known), max(known, default=math.nan)
        lines.append(f"* {name}: geometric mean {mean:.2f}, at most {most:.2f} ({len(known)} rows)")
    both = [f[5] / f[6] for f in found if math.isfinite(f[6]) and f[6]]
    lines.append(f"* compile/numba's: geometric mean {geometric_mean(both):.3f} ({len(both)} rows)")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="a part of the names of kernels")
    options.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    given = options.parse_args()
    warnings.simplefilter("ignore", fgrad.errors.LostWriteWarning)  # gradients have copies to write
    lines = [f"| kernel | {' | '.join(HEAD)} |", "|---" * (len(HEAD) + 1) + "|"]
    print("\n".join(lines), flush=True)
    found = []
    for name, figures in rows(given.only):
        found.append(figures)
        lines.append(f"| {name} | {' | '.join(f'{x:.3g}' for x in figures)} |")
        print(lines[-1], flush=True)
    print(f"\n{summary(found)}")
    if given.write:
        about = ", ".join([f"{key} {value}" for key, value in machine().items()])
        text = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
        table = "\n".join(lines)
        page = f"# Loop kernels with times\n\nMade by `benchmarks/kernels.py`: {about}.\n\n{text}\n"
        given.write.write_text(f"{page}\n{summary(found)}\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
