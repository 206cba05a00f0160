"""Loops that stood in the way of hand-written speed: ns a step, forward and gradient.

    python benchmarks/loop_gaps.py                    all rows, with Numba and JAX if installed
    python benchmarks/loop_gaps.py --only lu,powers   some of them
    python benchmarks/loop_gaps.py --no-jax           without JAX, whose compiling takes longest
    python benchmarks/loop_gaps.py --check            values and gradients alone, at small sizes

fgrad and Numba run the same functions of `loop_programs.py`, unmodified; JAX runs `lax` forms where
there are some, and no more than MOST_JAX steps, as JAX keeps whole arrays for each.  A gradient is
that of a weighted sum of the results; its derivative along a random direction is compared with
central differences.  Each row has a process of its own.  Times are those of the processor on one
thread, the least of several turns, in ns for each innermost step; compile times are those of a
first call with an empty cache, in seconds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from children import child_lines
from harness import first_time
from loop_programs import JAX_FORMS, ROWS, Row

import fgrad

STEP = 1e-6  # of central differences
WARM = 15  # calls before the first turn: native code for calls is written meanwhile
TURNS = 9
SECONDS = 0.02  # of one turn
MOST_JAX = 10_000  # steps of a gradient


def best(call: Callable[[], object]) -> float:
    """Seconds of a call: the least of some turns, after some calls."""
    once = min([first_time(call) for _ in range(WARM)])
    count = max(1, min(10_000, int(SECONDS / max(once, 1e-7))))
    found = math.inf
    for _ in range(TURNS):
        start = time.process_time()
        for _ in range(count):
            call()
        found = min(found, (time.process_time() - start) / count)
    return found


def weighted(row: Row, weights: np.ndarray) -> Callable[[Any], Any]:
    """The loss whose gradient is taken."""
    return lambda x: np.sum(weights * row.fun(x))


def check(row: Row, x: np.ndarray, gradient: np.ndarray, weights: np.ndarray) -> str:
    """What is wrong with values and gradient; empty if nothing is."""
    rng = np.random.default_rng(1)
    right = np.asarray(row.fun(x))
    if not np.allclose(fgrad.jit(row.fun)(x), right, rtol=1e-8, atol=1e-10):
        return "value"
    way = rng.standard_normal(x.shape)
    up, down = [np.sum(weights * row.fun(x + s * STEP * way)) for s in (1, -1)]
    slope, found = (up - down) / (2 * STEP), np.sum(gradient * way)
    scale = max(abs(slope), float(np.sum(np.abs(gradient))) * 1e-3, 1e-6)
    return "" if abs(slope - found) <= 1e-4 * scale else f"gradient {found:.6g} {slope:.6g}"


def measure(row: Row, size: int, times: bool, jax: bool) -> dict[str, Any]:
    """One row of the table."""
    x, steps = row.argument(size), row.steps(size)
    weights = np.random.default_rng(2).standard_normal(np.shape(row.fun(x)))
    forward, gradient = fgrad.jit(row.fun), fgrad.jit(fgrad.grad(weighted(row, weights)))
    found: dict[str, Any] = {"compile": first_time(lambda: forward(x))}
    found["compile gradient"] = first_time(lambda: gradient(x))
    found["wrong"] = check(row, x, gradient(x), weights)
    if not times:
        return found
    found["forward"] = best(lambda: forward(x)) / steps * 1e9
    found["gradient"] = best(lambda: gradient(x)) / steps * 1e9
    if importlib.util.find_spec("numba") is not None:
        found.update(numba_times(row, x, steps))
    few = row.fun.__name__ in JAX_FORMS and steps <= MOST_JAX
    if jax and few and importlib.util.find_spec("jax") is not None:
        found.update(jax_times(row, x, weights, steps))
    return found


def numba_times(row: Row, x: np.ndarray, steps: float) -> dict[str, float]:
    """Numba's forward."""
    numba = importlib.import_module("numba")
    compiled = numba.njit(row.fun)
    try:
        seconds = first_time(lambda: compiled(x))
    except Exception:
        return {}
    return {"numba compile": seconds, "numba": best(lambda: compiled(x)) / steps * 1e9}


def jax_times(row: Row, x: np.ndarray, weights: np.ndarray, steps: float) -> dict[str, float]:
    """JAX's forward and gradient of a `lax` form."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    form = JAX_FORMS[row.fun.__name__](jax)
    forward = jax.jit(form)
    gradient = jax.jit(jax.grad(lambda x: jax.numpy.sum(weights * form(x))))
    found = {}
    for name, call in (("jax", forward), ("jax gradient", gradient)):
        ready = lambda call=call: call(x).block_until_ready()  # noqa: E731
        ready()
        found[name] = best(ready) / steps * 1e9
    return found


COLUMNS = (
    "forward", "gradient", "numba", "gradient/forward", "forward/numba", "jax", "jax gradient",
    "compile", "compile gradient",
)  # fmt: skip


def with_ratios(found: dict[str, Any]) -> dict[str, Any]:
    """A row with the ratios that have targets."""
    pairs = (("gradient", "forward"), ("forward", "numba"))
    return found | {f"{a}/{b}": found[a] / found[b] for a, b in pairs if a in found and b in found}


def mean_of(rows: list[dict[str, Any]], column: str) -> str:
    """The geometric mean of a column, and its largest number."""
    numbers = [row[column] for row in rows if column in row]
    if not numbers:
        return ""
    mean = math.exp(sum([math.log(x) for x in numbers]) / len(numbers))
    return f"{column}: geometric mean {mean:.2f}, at most {max(numbers):.2f}."


def line(name: str, found: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [f"{found[c]:.3g}" if c in found else "-" for c in COLUMNS]
    return f"| {name} | {' | '.join(cells)} | {found.get('wrong') or 'right'} |"


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--child", nargs=2, default=None)
    options = parser.parse_args()
    if options.child:
        name, size = options.child
        print(json.dumps(measure(ROWS[name], int(size), not options.check, not options.no_jax)))
        return
    wanted = [w for w in options.only.split(",") if w]
    rows: list[dict[str, Any]] = []
    print(f"| loop | {' | '.join(COLUMNS)} | |\n|---|{'---|' * (len(COLUMNS) + 1)}")
    for name, row in ROWS.items():
        if wanted and not any([w in name for w in wanted]):
            continue
        for size in row.sizes:
            given = {"--check": options.check, "--no-jax": options.no_jax}
            flags = [flag for flag, is_set in given.items() if is_set]
            lines = child_lines("loop_gaps.py", "--child", name, str(size), *flags)
            found = with_ratios(json.loads(lines[-1]) if lines else {"wrong": "failed"})
            rows.append(found)
            print(line(f"{name}, {size}", found), flush=True)
    print("\n" + "\n".join([mean_of(rows, c) for c in COLUMNS if "/" in c]))


if __name__ == "__main__":
    main()
    sys.exit(0)
