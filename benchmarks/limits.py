"""Times of all compiled workloads against the limits of the machine, on one core.

    python benchmarks/limits.py [--only gelu] [--write]

A limit is the longest of what a call must do at least (`harness.Cost`): bytes at the bandwidth of
the cache or the memory that holds them, operations at the rate of the best product of matrices,
functions at that of a vector loop of exp by hand, quotients, numbers from given places, a chain of
operations that wait for each other, one call of a C function that makes an array.  The loops by
hand are those of rates.cpp, which g++ compiles.  Everybody has one thread; times are the least
processor time of many calls, so that other programs may run beside.  `--write` writes
results/limits.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from by_hand import cpp
from harness import (
    Cost,
    Workload,
    fgrad_library,
    geometric_mean,
    least_times,
    machine,
    pretty,
    restart_on_one_thread,
)
from workloads import COMPILED

HERE = Path(__file__).parent
# KB: the first cache of a core, the second while it holds all and beyond, a third, memory.
SIZES = tuple([n << 10 for n in (48, 1024, 1280, 2048, 4096, 32_768, 65_536, 163_840)])
TABLE = 1 << 12  # numbers among which places are looked up
REASONS = "Of the rows above 4, as judged by their code, and by profiles where they say so."
UP_TO = 4.0  # times the limit, for which a row needs no reason


class Limits(NamedTuple):
    """What one core does in a second; bandwidths by the bytes among which it reads and writes."""

    triad: dict[int, float]
    read: dict[int, float]
    flops: dict[bool, float]  # for single precision or double
    functions: dict[bool, float]
    divisions: dict[bool, float]
    lookups: float
    chain: float
    calls: float


def best_rate(work: float, call: Callable[[], Any], seconds: float = 0.4) -> float:
    """Work by the least processor time of several calls."""
    call()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return work / least


class Loops:
    """The loops of rates.cpp, on arrays."""

    def __init__(self) -> None:
        flags = ["-ffast-math", "-mprefer-vector-width=512"]
        library = cpp(HERE / "rates.cpp", flags)
        if library is None:
            sys.exit("limits.py needs g++.")
        self.library = library
        library.chain.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_double]
        library.chain.restype = library.read.restype = ctypes.c_double

    def rate(self, name: str, unit: float, *arrays: np.ndarray) -> float:
        """How often `unit` is done in a second, `unit` for each element of the last array."""
        n, function = arrays[-1].size, getattr(self.library, name)
        times = max(1, 400_000 // n)
        counts = [ctypes.c_long(n), ctypes.c_long(times)]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        return best_rate(unit * n * times, lambda: function(*counts, *pointers))

    def measured(self) -> Limits:
        """All rates of one core of this machine, now."""

        def arrays(count: int, n: int, dtype: Any = np.float64) -> list[np.ndarray]:
            return [np.linspace(1.0, 2.0, n, dtype=dtype) for _ in range(count)]

        def product(n: int, dtype: Any) -> float:
            a, b, out = (np.ones((n, n), dtype) for _ in range(3))
            return best_rate(2.0 * n**3, lambda: np.matmul(a, b, out=out))

        def functions(name: str) -> dict[bool, float]:
            double = self.rate(f"{name}_f64", 1.0, *arrays(2, 1024))
            return {False: double, True: self.rate(f"{name}_f32", 1.0, *arrays(2, 1024, "f4"))}

        places = np.random.default_rng(0).integers(0, TABLE, 2048)
        x = np.ones(8, np.float32)
        return Limits(
            {n: self.rate("triad", 24.0, *arrays(3, n // 24)) for n in SIZES},
            {n: self.rate("read", 8.0, *arrays(1, n // 512 * 64)) for n in SIZES},
            {
                single: max([product(n, dtype) for n in (256, 512, 1024)])
                for single, dtype in ((False, np.float64), (True, np.float32))
            },
            functions("exp"),
            functions("divide"),
            self.rate("look_up", 1.0, *arrays(1, TABLE), places, np.empty(2048)),
            best_rate(4e5, lambda: self.library.chain(1000, 400, 0.3)),
            best_rate(1e4, lambda: [x.copy() for _ in range(10_000)]),
        )


def limit(cost: Cost, rates: Limits) -> tuple[float, str]:
    """The least seconds of a call, and what they go to."""
    moved = cost.reads + cost.writes
    held = min(cost.within or moved, moved)
    bandwidths = rates.triad if cost.writes > moved / 8 else rates.read
    size = min([n for n in SIZES if n >= held], default=SIZES[-1])
    terms = {
        "bytes": moved / bandwidths[size],
        "products": cost.flops / rates.flops[cost.single],
        "functions": cost.functions / rates.functions[cost.single],
        "quotients": cost.divisions / rates.divisions[cost.single],
        "look-ups": cost.lookups / rates.lookups,
        "chain": cost.chain / rates.chain,
        "a call": 1 / rates.calls,
    }
    longest = max(terms, key=lambda name: terms[name])
    return terms[longest], longest


class Row(NamedTuple):
    """A workload, its time, its limit, what bounds it, and the reason of what is far from it."""

    group: str
    name: str
    seconds: float
    limit: float
    bound: str
    reason: str

    @property
    def ratio(self) -> float:
        """The time by the limit."""
        return self.seconds / self.limit


def row(group: str, workload: Workload, rates: Limits) -> Row:
    """One workload, measured."""
    seconds = least_times({"fgrad": workload.make(fgrad_library())}, turns=20)["fgrad"]
    return Row(group, workload.name, seconds, *limit(workload.cost, rates), workload.cost.reason)


def _rates_text(rates: Limits) -> str:
    bandwidths = [
        f"{n / (1 << 10) if n < 1 << 20 else n / (1 << 20):g} {'KB' if n < 1 << 20 else 'MB'}: "
        f"{rates.triad[n] / 1e9:.0f} and {rates.read[n] / 1e9:.0f}"
        for n in SIZES
    ]
    pairs = {
        "products of matrices": rates.flops,
        "exponentials": rates.functions,
        "quotients": rates.divisions,
    }
    texts = [f"{name} {r[True] / 1e9:.3g} and {r[False] / 1e9:.3g}" for name, r in pairs.items()]
    return (
        f"GB/s of a triad and of a sum, by bytes in use: {'; '.join(bandwidths)}.  "
        f"1e9/s in float32 and float64: {', '.join(texts)}.  Look-ups {rates.lookups / 1e9:.2f} "
        f"1e9/s; an operation of a chain {1e9 / rates.chain:.2f} ns; a call {1e9 / rates.calls:.0f}"
        " ns (`x.copy()` of 8 numbers)."
    )


def page(rows: list[Row], rates: Limits) -> str:
    """The table in Markdown."""
    facts = ", ".join([f"{name} {value}" for name, value in machine().items()])
    head = (__doc__ or "").strip().split("\n\n")[2].replace("\n", " ")
    lines = ["# Compiled workloads against the limits of one core", "", f"Measured on: {facts}."]
    lines += ["", f"Made by `benchmarks/limits.py --write`. {head}", "", _rates_text(rates)]
    lines += ["", *summary(rows)]
    for group in COMPILED:
        part = [r for r in rows if r.group == group]
        if part:
            mean = geometric_mean([r.ratio for r in part])
            lines += ["", f"## {group.capitalize()}: {mean:.2f}", ""]
            lines += [
                "| workload | fgrad | limit | of | time / limit |",
                "|---|---:|---:|---|---:|",
            ]
            lines += [_cells(r) for r in part]
    reasons = [
        f"* {r.name} ({r.ratio:.1f}): {r.reason}" for r in rows if r.ratio > UP_TO and r.reason
    ]
    return "\n".join([*lines, "", "## Reasons", "", REASONS, "", *reasons, ""])


def _cells(r: Row) -> str:
    seconds, least = pretty(r.seconds).strip(), pretty(r.limit).strip()
    return f"| {r.name} | {seconds} | {least} | {r.bound} | {r.ratio:.2f} |"


def summary(rows: list[Row]) -> list[str]:
    """The mean, and the rows that have no excuse."""
    far = [r.name for r in rows if r.ratio > UP_TO and not r.reason]
    lines = [f"* geometric mean of time / limit, {len(rows)} rows: "]
    lines[0] += f"{geometric_mean([r.ratio for r in rows]):.2f}"
    lines += [f"* above {UP_TO:g}: {len([r for r in rows if r.ratio > UP_TO])}"]
    return lines + ([f"* of these without a reason: {', '.join(far)}"] if far else [])


def main() -> None:
    """Measure, print, write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="workloads whose name contains this")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    if os.environ.get("FGRAD_NUM_THREADS") != "1":
        restart_on_one_thread()
    rates = Loops().measured()
    print(_rates_text(rates))
    rows: list[Row] = []
    for group, workloads in COMPILED.items():
        for workload in workloads:
            if given.only in workload.name:
                rows.append(row(group, workload, rates))
                print(_cells(rows[-1]), flush=True)
    print("\n".join(summary(rows)))
    if given.write:
        (HERE / "results" / "limits.md").write_text(page(rows, rates), encoding="utf-8")


if __name__ == "__main__":
    main()
