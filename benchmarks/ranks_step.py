"""A training step on two ranks of one thread, beside one process and what it is made of.

    OPENBLAS_NUM_THREADS=1 FGRAD_NUM_THREADS=1 mpiexec -n 2 python benchmarks/ranks_step.py

In turns, the least of many: the step on one rank with the whole batch and with half of it, while
the other one sleeps; the step of each rank with its half, at one time; the sum of the gradients
alone; and the step of both ranks together.  Their differences say where the time goes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P

SAME, CUT = P(), P("data")
TURNS = 60
ASLEEP = 0.02  # seconds, while the other rank works: one that waits for it would keep its core busy
CASES = {"784-256-256-10, batch 512": (256, 512), "784-1024-1024-10, batch 512": (1024, 512)}


def network(hidden: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases."""
    rng, sizes = np.random.default_rng(0), (784, hidden, hidden, 10)
    return [
        ((rng.normal(size=(a, b)) * a**-0.5).astype("f4"), np.zeros(b, "f4"))
        for a, b in itertools.pairwise(sizes)
    ]


def loss(p: Any, x: Any, y: Any) -> Any:
    """The mean cross entropy of a batch."""
    for w, b in p[:-1]:
        x = np.maximum(x @ w + b, 0)
    z = x @ p[-1][0] + p[-1][1]
    return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))), axis=1))


def updated(f: Callable[..., Any]) -> Callable[..., Any]:
    """A step of gradient descent."""

    def step(p: Any, x: Any, y: Any) -> Any:
        value, g = fgrad.value_and_grad(f)(p, x, y)
        return value, fgrad.tree.map(lambda w, d: w - np.float32(0.05) * d, p, g)

    return step


def main() -> None:
    mesh = dist.init("mpi", axes=("data",))
    alone = fgrad.jit(updated(loss))
    together = fgrad.jit(
        dist.shard_map(
            updated(lambda p, x, y: lax.pmean(loss(p, x, y), "data")),
            mesh=mesh, in_specs=(SAME, CUT, CUT), out_specs=SAME,
        )
    )  # fmt: skip
    total = fgrad.jit(
        dist.shard_map(lambda g: lax.psum(g, "data"), mesh=mesh, in_specs=CUT, out_specs=SAME)
    )
    for name, (hidden, batch) in CASES.items():
        p, rng = network(hidden), np.random.default_rng(1)
        x = rng.normal(size=(batch, 784)).astype("f4")
        y = np.eye(10, dtype="f4")[rng.integers(0, 10, batch)]
        half = dist.my_block((x, y), CUT, mesh=mesh)
        calls: dict[str, Callable[[], Any]] = {
            "one": lambda p=p, x=x, y=y: alone(p, x, y) if mesh.is_first else time.sleep(ASLEEP),
            "lone": lambda p=p, half=half: alone(p, *half) if mesh.is_first else time.sleep(ASLEEP),
            "half": lambda p=p, half=half: alone(p, *half),
            "sum": lambda p=p: total(p),
            "both": lambda p=p, half=half: together(p, *half),
        }
        report(name, measured(calls, mesh), mesh)


def measured(calls: dict[str, Callable[[], Any]], mesh: dist.Mesh) -> dict[str, float]:
    """The least seconds of each call, in turns; that of the slower rank."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(TURNS + 3):
        for name, call in calls.items():
            dist.broadcast(None, mesh=mesh)
            start = time.perf_counter()
            call()
            if turn > 2:
                found[name].append(time.perf_counter() - start)
    each = {name: np.array([min(times)]) for name, times in found.items()}
    every = dist.gather(each, CUT, mesh=mesh)
    first = ("one", "lone")
    return {name: float(t[0] if name in first else max(t)) for name, t in every.items()}


def report(name: str, t: dict[str, float], mesh: dist.Mesh) -> None:
    """Print the times, and how the step compares."""
    if not mesh.is_first:
        return
    parts = t["half"] + t["sum"]
    print(
        f"{name}: one process {1e3 * t['one']:.2f} ms, {mesh.size} ranks {1e3 * t['both']:.2f}: "
        f"{t['one'] / t['both']:.2f} times as fast, {t['both'] / parts:.2f} of half + sum\n"
        f"    half of one {500 * t['one']:.2f} ms, half the batch {1e3 * t['lone']:.2f}, beside "
        f"the other rank {1e3 * t['half']:.2f}, sum {1e3 * t['sum']:.2f}, "
        f"rest {1e3 * (t['both'] - parts):.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
