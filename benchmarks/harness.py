"""What all benchmarks share: workloads, a check of their numbers, fair timing, tables.

A workload is written once, for a `Library`: `lib.np` is NumPy itself for fgrad and `jax.numpy` for
JAX.  Before anything is timed, results are compared with NumPy's in double precision.  The
libraries then take turns in one process (A B A B ...) and the median of the turns is reported, so
that a busy machine disturbs all of them alike; ratios are what counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from libraries import Library, fgrad_library, has, jax_library, numpy_library, reference_library

import fgrad
from fgrad.errors import FgradError

__all__ = ["Library", "fgrad_library", "has", "jax_library", "numpy_library"]


ONE_THREAD = {
    "FGRAD_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Cost(NamedTuple):
    """What a workload must do at least, however it is compiled: its limit is the longest of these.

    Arguments:
        reads, writes: compulsory bytes.
        within: the bytes among which they are, if fewer: what is read again and again.
        flops: additions and multiplications, at the rate of the best product of matrices.
        functions: exponentials, or functions that cost as much (`tanh`, `log`, `sin`, `erf`).
        divisions: quotients and roots.
        lookups: elements that are read from, or written to, places given by numbers.
        chain: operations one after the other, each of which waits for the last; a quotient is 4 of
            them, an exponential or a sine 12.
        single: whether numbers are float32.
        reason: why the time is more than 4 times the limit, if it is.
    """

    reads: float = 0.0
    writes: float = 0.0
    within: float = 0.0
    flops: float = 0.0
    functions: float = 0.0
    divisions: float = 0.0
    lookups: float = 0.0
    chain: float = 0.0
    single: bool = False
    reason: str = ""


class Workload(NamedTuple):
    """A function for a library that returns a callable without arguments, and what is expected."""

    name: str
    goal: float | None  # the time of fgrad / the time of JAX that is aimed at
    make: Callable[[Library], Callable[[], Any]]
    exact: bool = True  # whether all libraries should return the same numbers
    torch: bool = False  # whether it runs with PyTorch too
    cost: Cost = Cost()  # one call


class Result(NamedTuple):
    """Medians in seconds (or bytes) by library, or why there are none."""

    name: str
    seconds: dict[str, float]
    goal: float | None
    note: str = ""
    group: str = ""
    unit: str = "s"


# --- timing ---------------------------------------------------------------------------------------


def wait_for_rest() -> None:
    """Until no thread of this process runs: OpenBLAS' spin for about 0.1 s after a product, and
    would take a core from the next library."""
    for _ in range(100):
        before = time.process_time()
        time.sleep(0.004)
        if time.process_time() - before < 0.001:
            return


def take_turns(
    calls: Mapping[str, Callable[[], Any]], turns: int = 7, turn_seconds: float = 0.03
) -> dict[str, float]:
    """The median time of one call of each function, in seconds; they run in turns.

    Each turn repeats the call until about `turn_seconds` have passed; the repetitions are found
    beforehand and stay the same.  Before it, the threads of the library before come to rest, and a
    call is not timed.
    """
    repeats = {name: _repetitions(call, turn_seconds) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            count = repeats[name]
            wait_for_rest()
            call()
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(found) for name, found in times.items()}


def least_times(
    calls: Mapping[str, Callable[[], Any]], turns: int = 20, turn_seconds: float = 0.005
) -> dict[str, float]:
    """The least processor time of one call of each function, in seconds; they run in turns.

    It is what the process spends, in all of its threads: other programs hardly change it.
    """
    for call in calls.values():
        for _ in range(3):  # the first ones compile and learn signatures
            call()
    counts = {name: _repetitions(call, turn_seconds) for name, call in calls.items()}
    least = dict.fromkeys(calls, math.inf)
    for _ in range(turns):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(counts[name]):
                call()
            spent = (time.process_time() - start) / counts[name]
            least[name] = min(least[name], spent)
    return least


def restart_on_one_thread() -> None:
    """Begin the program again, with every library told to use one thread."""
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})


def first_time(call: Callable[[], object]) -> float:
    """Seconds of the processor of a first call, which compiles."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _repetitions(call: Callable[[], Any], seconds: float) -> int:
    call()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - start
        if spent > seconds / 4 or count >= 1_000_000:
            return max(1, round(count * seconds / max(spent, 1e-9)))
        count *= 4


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


# --- numbers --------------------------------------------------------------------------------------


def same_numbers(a: Any, b: Any) -> bool:
    """Whether a result agrees with another one, of its precision or a higher one."""
    xs, ys = (fgrad.tree.leaves(tree) for tree in (a, b))
    if len(xs) != len(ys):
        return False
    return all(_close(np.asarray(x), np.asarray(y)) for x, y in zip(xs, ys, strict=True))


def _close(x: np.ndarray, y: np.ndarray) -> bool:
    if x.shape != y.shape:
        return False
    single = np.float32 in (x.dtype, y.dtype) or np.complex64 in (x.dtype, y.dtype)
    scale = float(np.max(np.abs(y), initial=0.0)) if y.dtype.kind in "fc" else 1.0
    return np.allclose(x, y, *((1e-3, scale * 1e-4) if single else (1e-7, scale * 1e-10)))


def reference(workload: Workload) -> Any:
    """The result in double precision, by NumPy alone."""
    with fgrad.config.override(disable_jit=True):
        return workload.make(reference_library())()


def wrong_ones(outputs: Mapping[str, Any], expected: Any) -> list[str]:
    """The libraries whose results differ from what is expected."""
    return [name for name, output in outputs.items() if not same_numbers(output, expected)]


# --- running --------------------------------------------------------------------------------------


def run(
    workloads: Sequence[Workload],
    peer: Library | None,
    chosen: str = "",
    others: Sequence[Library] = (),
    by_hand: Callable[[str], Mapping[str, Callable[[], Any]]] = lambda name: {},
    turns: int = 7,
) -> list[Result]:
    """Measure every workload whose name contains `chosen`, printing a row as each one ends.

    Arguments:
        workloads: what is measured.
        peer: the library that ratios refer to.
        chosen: a part of names.
        others: more libraries, for the workloads that run with them.
        by_hand: the same written by hand, by name of the peer.
        turns: how often the libraries take turns.
    """
    results = []
    for workload in workloads:
        if chosen not in workload.name:
            continue
        libraries = [peer] if peer is not None else []
        libraries += [lib for lib in others if workload.torch]
        results.append(_measure(workload, libraries, by_hand(workload.name), turns))
        show_row(results[-1])
    return results


def _measure(
    workload: Workload,
    libraries: Sequence[Library],
    hand: Mapping[str, Callable[[], Any]],
    turns: int,
) -> Result:
    name, goal, make, exact = workload[:4]
    try:
        calls = {"fgrad": make(fgrad_library())}
        calls["fgrad"]()
    except (FgradError, NotImplementedError) as error:
        return Result(name, {}, goal, f"refused: {str(error).splitlines()[0]}")
    calls |= {lib.name: _waiting(make(lib), lib.ready) for lib in libraries}
    calls |= hand
    wrong = []
    if exact:
        wrong = wrong_ones({k: call() for k, call in calls.items()}, reference(workload))
    note = f"NUMBERS DIFFER: {', '.join(wrong)}" if wrong else ""
    return Result(name, take_turns(calls, turns), goal, note)


def _waiting(call: Callable[[], Any], ready: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: ready(call())


# --- reports --------------------------------------------------------------------------------------


def ratio(result: Result, against: str = "jax") -> float | None:
    """fgrad's time as a share of a peer's."""
    ours, theirs = result.seconds.get("fgrad"), result.seconds.get(against)
    return ours / theirs if ours is not None and theirs else None


def geometric_mean(values: Iterable[float]) -> float:
    """The mean of ratios."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def pretty(value: float, unit: str = "s") -> str:
    """A duration, or a size, with three digits and a unit."""
    if unit == "B":
        return f"{value / 1e6:.3g} MB"
    for name, scale in (("s ", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


def show_header(title: str, columns: Sequence[str]) -> None:
    """The head of a table."""
    print(f"\n{title}")
    print(f"  {'':<46}" + "".join(f"{c:>12}" for c in columns))


def show_row(result: Result, against: str = "") -> None:
    """One line: fgrad, the peer that ratios refer to, the ratio, the goal; then other peers."""
    seconds = result.seconds
    peer = against or next((n for n in seconds if n != "fgrad"), "")
    first = [n for n in ("fgrad", peer) if n in seconds]
    cells = "".join(f"{pretty(seconds[n], result.unit):>12}" for n in first)
    found = ratio(result, peer)
    if found is not None:
        cells += f"{found:>12.3f}"
        if result.goal is not None:
            cells += f"{result.goal:>12.3g} {'met' if found <= result.goal else '   '}"
    rest = [f"{n} {pretty(s, result.unit).strip()}" for n, s in seconds.items() if n not in first]
    print(f"  {result.name:<46}{cells}  {'  '.join(rest)}  {result.note}".rstrip(), flush=True)


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parsed = argparse.ArgumentParser(description=description)
    parsed.add_argument("--only", default="", help="only workloads whose name contains this")
    parsed.add_argument("--json", type=Path, help="also write the results into this file")
    return parsed


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    peers = ("numpy", "scipy", "jax", "torch", "numba", "autograd")
    versions = {
        name: importlib.import_module(name).__version__
        for name in peers
        if name in sys.modules and hasattr(sys.modules[name], "__version__")
    }
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": fgrad.config.num_threads,
        "fgrad": fgrad.__version__,
        **versions,
    }


def write_json(path: Path | None, results: Sequence[Result], **more: Any) -> None:
    """Store machine and medians, if a file was asked for."""
    if path is None:
        return
    rows = [result._asdict() for result in results]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **more, "results": rows}
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"\nwritten: {path}")
