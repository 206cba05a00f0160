"""Three sweeps on several processes: seeds, hyperparameters, and a bootstrap.

    python examples/sweeps.py --processes 4

Each is one line, `fgrad.parallel.map(task, inputs, executor=pool)`; another executor (loky, dask's
`client.get_executor()`, mpi4py's `MPIPoolExecutor`) runs the same on a cluster.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import parallel

STEPS = 200
POINTS = 120
TRUE_DECAY = 0.7


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy observations of a decay."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 4.0, POINTS)
    return t, np.exp(-TRUE_DECAY * t) + 0.05 * rng.normal(size=POINTS)


# --- a small network and its training ------------------------------------------------------------


def network(p: dict[str, np.ndarray], t: np.ndarray) -> np.ndarray:
    """One hidden layer of tanh."""
    hidden = np.tanh(t[:, None] * p["a"] + p["b"])
    return hidden @ p["c"]


def loss(p: dict[str, np.ndarray], t: np.ndarray, y: np.ndarray) -> Any:
    """The mean squared error."""
    return np.mean((network(p, t) - y) ** 2)


@fgrad.jit
def train(p: dict[str, np.ndarray], t: np.ndarray, y: np.ndarray, rate: float) -> Any:
    """Gradient descent, as one compiled loop."""

    def step(p: dict[str, np.ndarray], _: None) -> tuple[dict[str, np.ndarray], None]:
        g = fgrad.grad(loss)(p, t, y)
        return fgrad.tree.map(lambda w, d: w - rate * d, p, g), None

    return fgrad.lax.scan(step, p, length=STEPS)[0]


class Setting(NamedTuple):
    """One point of the grid."""

    width: int
    rate: float
    seed: int = 0


def fitted(setting: Setting) -> float:
    """The error on fresh data after training."""
    rng = np.random.default_rng(setting.seed)
    n = setting.width
    p = {"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.normal(size=n) / np.sqrt(n)}
    p = train(p, *data(1), setting.rate)
    return float(loss(p, *data(2)))


# --- the three sweeps ----------------------------------------------------------------------------


def seed_sweep(pool: Executor | None, count: int = 8) -> list[float]:
    """How much the result depends on the initial weights."""
    settings = [Setting(8, 0.1, seed) for seed in range(count)]
    return parallel.map(fitted, settings, executor=pool)


def grid(pool: Executor | None) -> dict[Setting, float]:
    """The error for each width and learning rate."""
    settings = [Setting(w, r) for w, r in itertools.product((4, 8, 16), (0.03, 0.1, 0.2))]
    return dict(zip(settings, parallel.map(fitted, settings, executor=pool), strict=True))


@fgrad.jit
def decay(t: np.ndarray, y: np.ndarray) -> Any:
    """The decay by Newton's method on the squared error."""
    error = lambda k: np.mean((np.exp(-k * t) - y) ** 2)  # noqa: E731
    slope = fgrad.grad(error)
    return fgrad.lax.fori_loop(0, 8, lambda _, k: k - slope(k) / fgrad.grad(slope)(k), 0.5)


def resampled(seed: int) -> float:
    """The decay of observations that are drawn with replacement."""
    t, y = data(1)
    drawn = np.random.default_rng(seed).integers(0, POINTS, POINTS)
    return float(decay(t[drawn], y[drawn]))


def bootstrap(pool: Executor | None, count: int = 200) -> tuple[float, float]:
    """A 95 % interval of the decay."""
    found = parallel.map(resampled, range(count), executor=pool, progress=True)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        errors = seed_sweep(pool)
        print(f"seeds      error {np.mean(errors):.5f} +- {np.std(errors):.5f}")
        table = grid(pool)
        best = min(table, key=table.__getitem__)
        print(f"grid       best of {len(table)}: width {best.width}, rate {best.rate}")
        low, high = bootstrap(pool)
        print(f"bootstrap  decay in [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
