"""What the machine can do, and what workloads must move and compute at least.

The rates are NumPy's own: a triad in blocks that stay in the cache between its two steps, shared
out over threads, and matrix products.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from harness import Cost

BLOCK = 1 << 15  # elements of a triad's block


class Rates(NamedTuple):
    """Bytes and operations in a second."""

    triad: float
    gemm_f32: float
    gemm_f64: float


def best_rate(work: float, call: Callable[[], object], seconds: float = 0.6) -> float:
    """Work by the time of the fastest of several calls."""
    call()
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - start)
    return work / fastest


def triad_rate(threads: int, size: int = 1 << 24) -> float:
    """Bytes a second of a = b + s * c."""
    a, b, c = (np.ones(size, np.float32) for _ in range(3))
    step = -(-size // threads)

    def piece(first: int) -> None:
        scratch = np.empty(BLOCK, np.float32)
        for i in range(first, min(first + step, size), BLOCK):
            k = slice(i, i + BLOCK)
            product = scratch[: len(c[k])]
            np.multiply(c[k], np.float32(3), out=product)
            np.add(b[k], product, out=a[k])

    with ThreadPoolExecutor(threads) as pool:
        return best_rate(3.0 * a.nbytes, lambda: list(pool.map(piece, range(0, size, step))))


def gemm_rate(dtype: type, n: int = 1536) -> float:
    """Operations a second of a product of large matrices."""
    a, b, out = (np.ones((n, n), dtype) for _ in range(3))
    return best_rate(2.0 * n**3, lambda: np.matmul(a, b, out=out))


def measured() -> Rates:
    """The rates of this machine, now."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return Rates(triad_rate(threads), gemm_rate(np.float32), gemm_rate(np.float64))


def share(cost: Cost, seconds: float, rates: Rates) -> float | None:
    """The share of the limit that a time reaches: of the bandwidth, or of the rate of products.

    What no product of matrices is bound by, and fits into caches, is left to `limits.py`.
    """
    rate = rates.gemm_f32 if cost.single else rates.gemm_f64
    least = max((cost.reads + cost.writes) / rates.triad, cost.flops / rate)
    return least / seconds if least > 1e-5 and not cost.chain and not cost.within else None
