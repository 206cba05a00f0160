"""How data-parallel training scales: a model of a step on up to 1,024 nodes, and its parameters.

    python benchmarks/ranks_model.py                           the table, and docs/ranks.png
    mpiexec -n 2 python benchmarks/ranks_model.py --measure    the parameters between two ranks

LogGP (Alexandrov et al., 1995): a message of n bytes takes a + n b, with a = L + 2 o, b = G.  An
allreduce of n bytes over p nodes takes the least of (Thakur et al., 2005)

    log2(p) (a + n b + n c)                                    recursive doubling
    2 log2(p) a + (p - 1)/p n (2 b + c)                        halving, then doubling (Rabenseifner)
    2 (p - 1) a + (p - 1)/p n (2 b + c)                        a ring

where c is the time to add a byte.  A step ends when the slowest rank does: of p normal times the
largest is about sqrt(2 ln p) deviations late.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P, engine

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "ranks.png"
NODES = [2**k for k in range(11)]
ADD = 0.05e-9  # seconds for a byte: memory at 20 GB/s
STEP, GRADIENTS = 40e-3, 7.45e6  # seconds and bytes of one node's step


class Network(NamedTuple):
    """Seconds for a message, and for each of its bytes."""

    name: str
    message: float
    byte: float


NETWORKS = (
    Network("200 Gb/s InfiniBand", 2e-6, 8 / 200e9),
    Network("100 Gb/s Ethernet", 10e-6, 8 / 100e9),
    Network("10 Gb/s Ethernet", 30e-6, 8 / 10e9),
)


def allreduce(size: float, nodes: int, net: Network) -> float:
    """Seconds of one sum of `size` bytes."""
    if nodes == 1:
        return 0.0
    rounds, part = math.ceil(math.log2(nodes)), (nodes - 1) / nodes
    moved = part * size * (2 * net.byte + ADD)
    return min(
        rounds * (net.message + size * (net.byte + ADD)),
        2 * rounds * net.message + moved,
        2 * (nodes - 1) * net.message + moved,
    )


def efficiency(nodes: int, net: Network, deviation: float = 0.0, leaves: int = 1) -> float:
    """The speed of each node beside one alone.

    Arguments:
        deviation: of the times of ranks, as a part of the step.
        leaves: in how many sums the gradients are sent.
    """
    late = STEP * deviation * math.sqrt(2 * math.log(nodes))
    return STEP / (STEP + late + leaves * allreduce(GRADIENTS / leaves, nodes, net))


def table() -> None:
    """Print the efficiencies."""
    print(f"{'nodes':>6}" + "".join([f"{net.name:>22}{'150 sums':>10}" for net in NETWORKS]))
    for nodes in NODES:
        cells = [
            f"{efficiency(nodes, net):>22.1%}{efficiency(nodes, net, 0.0, 150):>10.1%}"
            for net in NETWORKS
        ]
        print(f"{nodes:>6}" + "".join(cells))


def draw(file: Path) -> None:
    """The figure of the documents."""
    _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for net in NETWORKS:
        (line,) = ax.semilogx(
            NODES, [100 * efficiency(n, net) for n in NODES], base=2, label=net.name
        )
        noisy = [100 * efficiency(n, net, 0.01) for n in NODES]
        ax.semilogx(NODES, noisy, "--", base=2, color=line.get_color(), lw=1)
    ax.set_xlabel("nodes; dashed: the times of ranks vary by 1 %")
    ax.set_ylabel("efficiency (%)")
    ax.set_title("Model: steps of 40 ms, gradients of 7.45 MB", fontsize=10)
    ax.set_xticks(NODES, [str(n) for n in NODES])
    ax.set_ylim(60, 101)
    ax.legend(frameon=False)
    ax.grid(alpha=0.3)
    plt.savefig(file, dpi=110)


def measure() -> None:
    """Fit message and byte of a compiled sum between ranks."""
    mesh = dist.init("mpi", axes=("data",))
    sizes, seconds = [2**k for k in range(0, 21, 2)], list[float]()
    for size in sizes:
        f = fgrad.jit(
            dist.shard_map(
                lambda x: lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P()
            )
        )
        seconds.append(_best(f, np.ones(size)))
    if mesh.is_first:
        message = seconds[0]
        byte = (seconds[-1] - seconds[-2]) / (8 * (sizes[-1] - sizes[-2]))
        for size, t in zip(sizes, seconds, strict=True):
            print(f"{8 * size:>9} bytes {1e6 * t:9.2f} us")
        print(f"message {1e6 * message:.2f} us, byte {1e9 * byte:.3f} ns")
    _one_number(mesh)


def _one_number(mesh: dist.Mesh) -> None:
    """A sum of 8 bytes in a compiled loop, and by mpi4py, in turns."""
    turns, x, out = 200, np.ones(1), np.ones(1)

    def halved(_: Any, c: Any) -> Any:
        return lax.pvary(0.5 * lax.psum(c, "data"), "data")

    @fgrad.jit
    @dist.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P())
    def loop(x: Any) -> Any:
        return lax.psum(lax.fori_loop(0, turns, halved, x), "data")

    world = engine.mpi().COMM_WORLD

    def by_mpi4py() -> None:
        for _ in range(turns):
            world.Allreduce(x, out)

    found: list[list[float]] = [[], []]
    loop(x)
    for _ in range(300):
        for call, seconds in zip((lambda: loop(x), by_mpi4py), found, strict=True):
            dist.broadcast(None, mesh=mesh)
            start = time.perf_counter()
            call()
            seconds.append((time.perf_counter() - start) / turns)
    if mesh.is_first:
        compiled, called = [1e6 * min(seconds) for seconds in found]
        print(f"8 bytes: {compiled:.2f} us in a compiled loop, {called:.2f} us by mpi4py")


def _best(f: Any, x: np.ndarray) -> float:
    found, count = list[float](), max(3, 3000 // len(x))
    f(x)
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(count):
            f(x)
        found.append((time.perf_counter() - start) / count)
    return min(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--out", type=Path, default=FIGURE)
    options = parser.parse_args(arguments)
    if options.measure:
        measure()
    else:
        table()
        draw(options.out)


if __name__ == "__main__":
    main()
