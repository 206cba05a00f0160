"""What one call of a compiled function costs: fgrad against JAX and Numba, in ns.

    python benchmarks/call.py [--only NAME] [--json FILE]

The functions add small arrays, so that nearly all of the time is the call itself.  Libraries take
turns in short bursts; medians of the bursts are shown.  JAX gets arrays that it already holds and
dispatches synchronously.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from harness import Library, Result, has, jax_library, parser, show_header, show_row, write_json

import fgrad
from fgrad.config import config

BURST = 2000
TURNS = 60
X = np.ones(8, np.float32)


class Case(NamedTuple):
    """A function of the arguments' leaves, and the arguments."""

    name: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    goal: float
    numba: bool = False  # whether Numba takes such arguments


def total(*args: Any) -> Any:
    """The sum of all leaves."""
    return sum(fgrad.tree.leaves(args)) + 1.0


def layers(names: Sequence[str]) -> dict[str, Any]:
    """A dict of small arrays."""
    return {name: X for name in names}


SIX = ("w1", "b1", "w2", "b2", "w3", "b3")
CASES = (
    Case("1 array", lambda a: a + 1, (X,), 0.03, True),
    Case("3 arrays", lambda a, b, c: a + b + c, (X,) * 3, 0.03, True),
    Case("10 arrays", lambda *a: sum(a), (X,) * 10, 0.03),
    Case("dict of 6", total, (layers(SIX),), 0.03),
    Case("list of 3 dicts of 2", total, ([layers("wb")] * 3,), 0.03),
    Case("pytree of 20 arrays", total, (tuple(layers(SIX) for _ in range(3)), X, X), 0.1),
    Case("array and Python float", lambda a, s: a * s, (X, 2.5), 0.03, True),
    Case("rank-0 result", lambda a: a.sum(), (X,), 0.03, True),
    Case("dict of 6 results", lambda a: {k: a + 1 for k in SIX}, (X,), 0.06),
    Case("tuple of 3 results", lambda a: (a + 1, a * 2, a.sum()), (X,), 0.06, True),
    Case("strided array", lambda a: a + 1, (np.ones((8, 2), np.float32)[:, 0],), 0.06, True),
)


def bursts(calls: dict[str, tuple[Any, tuple[Any, ...]]]) -> dict[str, float]:
    """Seconds of one call of each function, from turns of short bursts."""
    timers = {}
    for name, (fun, args) in calls.items():
        scope = {"f": fun, **{f"a{k}": a for k, a in enumerate(args)}}
        for _ in range(3):
            fun(*args)
        call = f"f({', '.join(f'a{k}' for k in range(len(args)))})"
        timers[name] = timeit.Timer(call, globals=scope)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, timer in timers.items():
            times[name].append(timer.timeit(BURST) / BURST)
    return {name: statistics.median(found) for name, found in times.items()}


def compare(case: Case, jax: Library | None) -> Result:
    """One row: fgrad, fgrad with recycled results, JAX, Numba."""
    calls = {"fgrad": (fgrad.jit(case.fun), case.args)}
    if jax is not None:
        held = jax.api.tree.map(lambda x: x if isinstance(x, float) else jax.put(x), case.args)
        calls["jax"] = (jax.api.jit(case.fun), held)
    if case.numba and has("numba"):
        calls["numba"] = (importlib.import_module("numba").njit(case.fun), case.args)
    seconds = bursts(calls)
    with config.override(recycle=True):
        seconds["recycled"] = bursts({"recycled": (fgrad.jit(case.fun), case.args)})["recycled"]
    return Result(case.name, seconds, case.goal)


def variants() -> list[Result]:
    """fgrad alone: what adds to the time of a call."""

    def increment(a: Any) -> Any:
        return a + 1

    def scale(a: Any, s: Any) -> Any:
        return a * s

    one, eight = fgrad.jit(increment), fgrad.jit(increment)
    sizes = [np.ones(n, np.float32) for n in range(1, 9)]
    for x in sizes * 3:
        eight(x)
    rows: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "an empty Python function": (lambda a: None, (X,)),
        "np.add": (np.add, (X, X)),
        "1 array": (one, (X,)),
        "1 array, one keyword": (functools.partial(fgrad.jit(scale), s=2.0), (X,)),
        "8 calls of 8 signatures in turn": (lambda: [eight(x) for x in sizes], ()),
        "16,000 elements, GIL held": (fgrad.jit(increment), (np.ones(16_000, np.float32),)),
        "64,000 elements, GIL released": (fgrad.jit(increment), (np.ones(64_000, np.float32),)),
    }
    found = [Result(name, bursts({"fgrad": row}), None) for name, row in rows.items()]
    with config.override(native_calls=False):
        python = bursts({"fgrad": (fgrad.jit(increment), (X,))})
    return [*found, Result("1 array, through Python", python, None)]


def set_up() -> list[Result]:
    """What making calls native costs: for each signature, and once in a process."""
    times = []
    for k in range(20):
        f = fgrad.jit(functools.partial(lambda n, a: a + n, k))
        f(X)
        start = time.perf_counter()
        f(X)
        times.append(time.perf_counter() - start)
    found = [Result("second call, which learns the signature", {"fgrad": min(times)}, None)]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("the same, first in a process, no cache", "the same, with the cache"):
            environment = {**os.environ, "FGRAD_CACHE_DIR": folder}
            command = [sys.executable, "-c", _CHILD]
            child = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
            found.append(Result(name, {"fgrad": float(child.stdout)}, None))
    return found


_CHILD = """
import time
import numpy as np, fgrad
f, x = fgrad.jit(lambda a: a + 1), np.ones(8, np.float32)
f(x)
start = time.perf_counter()
f(x)
print(time.perf_counter() - start)
"""


def main(argv: Sequence[str]) -> None:
    """Print the tables."""
    options = parser(__doc__ or "").parse_args(argv)
    jax = jax_library()
    results = []
    show_header("one call", ["fgrad", "jax", "numba", "recycled", "ratio", "goal"])
    for case in CASES:
        if options.only in case.name:
            results.append(compare(case, jax))
            show_row(_in_columns(results[-1]), "jax")
    if not options.only:
        show_header("fgrad alone", ["fgrad"])
        for result in [*variants(), *set_up()]:
            results.append(result)
            show_row(result)
    write_json(options.json, results)


def _in_columns(result: Result) -> Result:
    """The same with an entry for each library, so that columns stand one below the other."""
    columns = {name: result.seconds.get(name, math.nan) for name in ("fgrad", "jax", "numba")}
    return result._replace(seconds={**columns, "recycled": result.seconds["recycled"]})


if __name__ == "__main__":
    main(sys.argv[1:])
