"""What all benchmarks share: libraries behind one interface, fair timing, tables.

A workload is written once, for a `Library`: `lib.np` is NumPy itself for fgrad and `jax.numpy` for
JAX.  The libraries that are compared take turns in one process (A B A B ...) and the median of the
turns is reported, so that a busy machine disturbs all of them alike; ratios are what counts.
JAX runs with synchronous dispatch, in 64-bit mode, on arrays that it already holds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad.errors import FgradError
from fgrad.ops import elementwise


class Library(NamedTuple):
    """One of the competitors, as workloads see it."""

    name: str
    np: ModuleType | Any  # numpy or jax.numpy
    api: ModuleType | Any  # jit, grad, vmap, ...
    erf: Callable[..., Any]
    conv: Callable[[Any, Any], Any]  # x: (N, C, H, W), w: (O, C, h, w), no padding
    put: Callable[[Any], Any]  # a tree of NumPy arrays as the library likes to have it
    ready: Callable[[Any], Any]  # wait for a result


class Workload(NamedTuple):
    """A function for a library that returns a callable without arguments, and what is expected."""

    name: str
    goal: float | None  # the time of fgrad / the time of JAX that is aimed at
    make: Callable[[Library], Callable[[], Any]]
    exact: bool = True  # whether both libraries should return the same numbers


class Result(NamedTuple):
    """Medians in seconds by library, or why there are none."""

    name: str
    seconds: dict[str, float]
    goal: float | None
    note: str = ""


def has(module: str) -> bool:
    """Whether a peer is installed."""
    return importlib.util.find_spec(module) is not None


def fgrad_library() -> Library:
    """fgrad on plain NumPy."""
    return Library("fgrad", np, fgrad, elementwise.erf, fgrad.nn.conv, lambda x: x, lambda x: x)


def jax_library() -> Library | None:
    """JAX with synchronous dispatch and 64-bit types, or None if it is not installed."""
    if not has("jax"):
        return None
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)

    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv(x, w, (1, 1), "VALID")

    return Library(
        "jax", jax.numpy, jax, jax.scipy.special.erf, conv, jax.device_put, jax.block_until_ready
    )


def numpy_library() -> Library:
    """NumPy as it is, for workloads that only compile."""
    api = SimpleNamespace(jit=lambda f: f)
    return Library("numpy", np, api, elementwise.erf, None, lambda x: x, lambda x: x)  # type: ignore[arg-type]


# --- timing ---------------------------------------------------------------------------------------


def take_turns(
    calls: dict[str, Callable[[], Any]], turns: int = 7, turn_seconds: float = 0.03
) -> dict[str, float]:
    """The median time of one call of each function, in seconds; they run in turns.

    Each turn repeats the call until about `turn_seconds` have passed; the repetitions are found
    beforehand and stay the same.
    """
    repeats = {name: _repetitions(call, turn_seconds) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            count = repeats[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(found) for name, found in times.items()}


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


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two results agree as far as their precision lets one expect."""
    xs, ys = (fgrad.tree.leaves(tree) for tree in (a, b))
    if len(xs) != len(ys):
        return False
    for x, y in zip(map(np.asarray, xs), map(np.asarray, ys), strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        single = x.dtype == np.float32
        scale = float(np.max(np.abs(y), initial=0.0)) if y.dtype.kind == "f" else 1.0
        if not np.allclose(x, y, *((1e-3, scale * 1e-4) if single else (1e-7, scale * 1e-10))):
            return False
    return True


def run(workloads: Sequence[Workload], peer: Library | None, chosen: str = "") -> list[Result]:
    """Measure every workload whose name contains `chosen`, printing a row as each one ends."""
    us, results = fgrad_library(), []
    for name, goal, make, exact in workloads:
        if chosen not in name:
            continue
        try:
            calls = {"fgrad": make(us)}
            outputs = {"fgrad": calls["fgrad"]()}
        except (FgradError, NotImplementedError) as error:
            results.append(Result(name, {}, goal, f"refused: {str(error).splitlines()[0]}"))
            show_row(results[-1])
            continue
        if peer is not None:
            calls[peer.name] = _waiting(make(peer), peer.ready)
            outputs[peer.name] = calls[peer.name]()
        agree = peer is None or not exact or same_numbers(outputs["fgrad"], outputs[peer.name])
        results.append(Result(name, take_turns(calls), goal, "" if agree else "NUMBERS DIFFER"))
        show_row(results[-1])
    return results


def _waiting(call: Callable[[], Any], ready: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: ready(call())


# --- reports --------------------------------------------------------------------------------------


def pretty(seconds: float) -> str:
    """A duration with three digits and a unit."""
    for unit, scale in (("s ", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def show_header(title: str, columns: Sequence[str]) -> None:
    """The head of a table."""
    print(f"\n{title}")
    print(f"  {'':<46}" + "".join(f"{c:>12}" for c in columns))


def show_row(result: Result, against: str = "") -> None:
    """One line: medians, the ratio of fgrad to a peer, the goal."""
    seconds = result.seconds
    cells = "".join(f"{pretty(s):>12}" for s in seconds.values())
    peer = against or next((n for n in seconds if n != "fgrad"), "")
    if "fgrad" in seconds and peer in seconds:
        ratio = seconds["fgrad"] / seconds[peer]
        cells += f"{ratio:>12.3f}"
        if result.goal is not None:
            cells += f"{result.goal:>12.3g} {'met' if ratio <= result.goal else '   '}"
    print(f"  {result.name:<46}{cells}  {result.note}".rstrip(), flush=True)


def parser(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parsed = argparse.ArgumentParser(description=description)
    parsed.add_argument("--only", default="", help="only workloads whose name contains this")
    parsed.add_argument("--json", type=Path, help="also write the results into this file")
    return parsed


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    versions = {
        name: importlib.import_module(name).__version__
        for name in ("numpy", "scipy", "jax", "torch")
        if name in sys.modules or name in ("numpy", "scipy")
    }
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": fgrad.config.num_threads,
        **versions,
    }


def write_json(path: Path | None, results: Sequence[Result]) -> None:
    """Store machine and medians, if a file was asked for."""
    if path is None:
        return
    rows = [result._asdict() for result in results]
    path.write_text(json.dumps({"machine": machine(), "results": rows}, indent=1) + "\n")
    print(f"\nwritten: {path}")
