"""Train one network on several processes, each with its part of every batch.

    pip install -e ".[mpi]"
    mpiexec -n 2 python examples/data_parallel.py              two ranks of one machine
    python examples/data_parallel.py --simulate 2              the same in one process

Each rank computes on its block of the batch; the gradient of the mean over all of it is complete,
and equal at all ranks, so that all of them take the same step.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import distributed as dist
from fgrad import lax, optim
from fgrad.distributed import P

INPUTS, HIDDEN, OUTPUTS = 64, 128, 8
SAME, CUT = P(), P("data")


def init(seed: int) -> list[dict[str, np.ndarray]]:
    """Weights and biases of a fully connected network."""
    rng, sizes = np.random.default_rng(seed), (INPUTS, HIDDEN, HIDDEN, OUTPUTS)
    return [
        {"w": (rng.normal(size=(a, b)) / np.sqrt(a)).astype("f4"), "b": np.zeros(b, "f4")}
        for a, b in itertools.pairwise(sizes)
    ]


def network(p: list[dict[str, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """The scores of the classes."""
    for layer in p[:-1]:
        x = np.maximum(x @ layer["w"] + layer["b"], 0)
    return x @ p[-1]["w"] + p[-1]["b"]


def loss(p: list[dict[str, np.ndarray]], x: np.ndarray, y: np.ndarray) -> Any:
    """The mean over the batches of all ranks of the cross entropy."""
    z = network(p, x)
    own = np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(y * z, axis=1))
    return lax.pmean(own, "data")


class Problem(NamedTuple):
    """Points, and the classes that a random network gives them."""

    x: np.ndarray
    y: np.ndarray


def problem(count: int) -> Problem:
    """The same data at all ranks; with real data each rank reads its own part."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(count, INPUTS)).astype("f4")
    classes = np.argmax(x @ rng.normal(size=(INPUTS, OUTPUTS)), axis=1)
    return Problem(x, np.eye(OUTPUTS, dtype="f4")[classes])


def train(mesh: dist.Mesh, steps: int, batch: int) -> tuple[float, float, Any]:
    """The first and the last loss, and the trained parameters."""
    rule = optim.adam(3e-3)

    @fgrad.jit
    @dist.shard_map(mesh=mesh, in_specs=(SAME, SAME, CUT, CUT), out_specs=SAME)
    def step(p: Any, state: Any, x: np.ndarray, y: np.ndarray) -> Any:
        value, g = fgrad.value_and_grad(loss)(p, x, y)
        updates, state = rule.update(g, state, p)
        return value, optim.apply_updates(p, updates), state

    p = dist.broadcast(init(0), mesh=mesh)
    state, data, values = rule.init(p), problem(8 * batch), list[float]()
    for k in range(steps):
        part = slice(k % 8 * batch, (k % 8 + 1) * batch)
        x, y = dist.my_block((data.x[part], data.y[part]), CUT, mesh=mesh)
        value, p, state = step(p, state, x, y)
        values.append(float(value))
    return values[0], values[-1], p


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", type=int, default=0, help="places in this process")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--save", default="", help="a directory for the parameters")
    options = parser.parse_args(arguments)
    mesh = dist.simulate(data=options.simulate) if options.simulate else dist.init("mpi")
    start = time.perf_counter()
    first, last, p = train(mesh, options.steps, options.batch)
    if options.save:
        dist.save(options.save, p, mesh=mesh)
    if mesh.is_first:
        spent = time.perf_counter() - start
        print(f"{mesh.size} places: loss {first:.6f} -> {last:.6f} in {spent:.2f} s")


if __name__ == "__main__":
    main()
