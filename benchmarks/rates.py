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

BLOCK = 1 << 15  # elements of a triad's block
F32, F64 = 4, 8


class Rates(NamedTuple):
    """Bytes and operations in a second."""

    triad: float
    gemm_f32: float
    gemm_f64: float


class Cost(NamedTuple):
    """Compulsory bytes of memory, or operations of matrix products in a precision."""

    bytes: float = 0.0
    flops: float = 0.0
    single: bool = True


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


def _mlp_step() -> float:
    first, second, last = 784 * 256, 256 * 128, 128 * 10
    return 2.0 * 128 * (2 * first + 3 * second + 3 * last)


def _block_step() -> float:
    tokens, d, length, batch = 1024, 256, 128, 8
    return 3.0 * (2 * tokens * 12 * d * d + 4 * batch * length * length * d)


COSTS = {
    "a*b+c, 10M f32": Cost(4e7 * F32),
    "gelu, 1M f32": Cost(2e6 * F32),
    "gelu, 1M f64": Cost(2e6 * F64),
    "Black-Scholes price, 1M f64": Cost(6e6 * F64),
    "Black-Scholes, five Greeks, 1M f64": Cost(10e6 * F64),
    "softmax 4096x1024 f32": Cost(2.0 * 4096 * 1024 * F32),
    "logsumexp 4096x1024 f32": Cost(4096.0 * 1025 * F32),
    "layernorm 4096x768 f32": Cost(2.0 * 4096 * 768 * F32),
    "layernorm gradient 4096x768 f32": Cost(3.0 * 4096 * 768 * F32),
    "sum, 10M f32": Cost(1e7 * F32),
    "cumsum, 1M f32": Cost(2e6 * F32),
    "segment sum, 1M f64": Cost(2e6 * F64),
    "embedding rows, 8192 of 50000x256 f32": Cost(2.0 * 8192 * 256 * F32),
    "matmul 1024, f32": Cost(flops=2.0 * 1024**3),
    "matmul 1024, f64": Cost(flops=2.0 * 1024**3, single=False),
    "256 matmuls 64, f32": Cost(flops=2.0 * 256 * 64**3),
    "MLP 784-256-128-10, batch 128, SGD step": Cost(flops=_mlp_step()),
    "transformer block train step, 8x128x256": Cost(flops=_block_step()),
}


def share(name: str, seconds: float, rates: Rates) -> float | None:
    """The share of the limit that a time reaches: of the bandwidth, or of the rate of products."""
    cost = COSTS.get(name)
    if cost is None:
        return None
    rate = rates.gemm_f32 if cost.single else rates.gemm_f64
    return max(cost.bytes / rates.triad, cost.flops / rate) / seconds
