"""The same workloads by hand: NumPy as it is, and loops for Numba.

`by_hand(name)` gives for a workload of `workloads_arrays` or `workloads_loops` the calls that do
the same, by name of the peer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from libraries import has
from workloads_arrays import Call, normal, options, table
from workloads_loops import kalman_arguments

F32 = np.float32


def _ten_million() -> list[np.ndarray]:
    return [normal(10_000_000, dtype=F32, seed=k) for k in range(3)]


def _segments() -> list[np.ndarray]:
    return [normal(1_000_000), np.random.default_rng(1).integers(0, 1000, 1_000_000)]


def _searched() -> list[np.ndarray]:
    return [np.sort(normal(10_000, dtype=F32)), normal(1_000_000, dtype=F32, seed=1)]


def _norm_arguments() -> list[np.ndarray]:
    return [normal(4096, 768, dtype=F32), *(normal(768, dtype=F32) for _ in "gb")]


def _points() -> list[np.ndarray]:
    return np.meshgrid(np.linspace(-2.0, 0.6, 512), np.linspace(-1.2, 1.2, 512))


def _pair(*shape: int, dtype: Any = F32) -> list[np.ndarray]:
    return [normal(*shape, dtype=dtype, seed=k) for k in range(2)]


# Name of the workload -> its arguments, NumPy's function (or None), the name of Numba's (or "").
ROWS: dict[str, tuple[Callable[[], list[Any]], Callable[..., Any] | None, str]] = {
    "call, 1 array of 8 floats": (lambda: [normal(8)], lambda a: a + 1.0, "one_array"),
    "call, 3 arrays of 8 floats": (lambda: [normal(8)] * 3, None, "three_arrays"),
    "call, 10 arrays of 8 floats": (lambda: [normal(8)] * 10, None, "ten_arrays"),
    "a*b+c, 10M f32": (_ten_million, lambda a, b, c: a * b + c, "multiply_add"),
    "gelu, 1M f32": (lambda: [normal(1_000_000, dtype=F32)], None, "gelu"),
    "gelu, 1M f64": (lambda: [normal(1_000_000)], None, "gelu"),
    "Black-Scholes price, 1M f64": (lambda: options(1_000_000), None, "prices"),
    "Black-Scholes, five Greeks, 1M f64": (lambda: options(1_000_000), None, "greeks"),
    "softmax 4096x1024 f32": (lambda: [normal(4096, 1024, dtype=F32)], None, "softmax"),
    "logsumexp 4096x1024 f32": (lambda: [normal(4096, 1024, dtype=F32)], None, "logsumexp"),
    "layernorm 4096x768 f32": (_norm_arguments, None, "layer_norm"),
    "sum, 10M f32": (lambda: [normal(10_000_000, dtype=F32)], np.sum, "total"),
    "cumsum, 1M f32": (lambda: [normal(1_000_000, dtype=F32)], np.cumsum, "running_total"),
    "sort, 1M f32": (lambda: [normal(1_000_000, dtype=F32)], np.sort, ""),
    "argsort, 1M f32": (lambda: [normal(1_000_000, dtype=F32)], np.argsort, ""),
    "segment sum, 1M f64": (_segments, lambda x, s: np.bincount(s, x, 1000), "segment_sum"),
    "embedding rows, 8192 of 50000x256 f32": (lambda: list(table()), lambda r, w: r[w], ""),
    "searchsorted, 1M in 10k f32": (_searched, np.searchsorted, ""),
    "matmul 1024, f32": (lambda: _pair(1024, 1024), np.matmul, ""),
    "matmul 1024, f64": (lambda: _pair(1024, 1024, dtype=np.float64), np.matmul, ""),
    "matmul 64, f32": (lambda: _pair(64, 64), np.matmul, ""),
    "256 matmuls 64, f32": (lambda: _pair(256, 64, 64), np.matmul, ""),
    "N-body forces, 1024 bodies f64": (
        lambda: [normal(1024, 3), np.abs(normal(1024, seed=1))],
        None,
        "bodies",
    ),
    "Lorenz RK4, 10,000 steps": (lambda: [np.ones(3)], None, "lorenz"),
    "gradient through 1,000 RK4 steps": (lambda: [np.ones(3)], None, "lorenz_gradient"),
    "Kalman filter, 4 states, 1,000 steps": (kalman_arguments, None, "kalman"),
    "array written in a loop of 1,000, gradient": (
        lambda: [normal(1_000)], None, "array_writes_gradient",
    ),
    "array written in a loop of 10,000, gradient": (
        lambda: [normal(10_000)], None, "array_writes_gradient",
    ),
    "Mandelbrot 512x512x100, vmap of a loop": (_points, None, "mandelbrot"),
    "Mandelbrot 512x512x100, vmap of a while loop": (_points, None, "mandelbrot"),
}  # fmt: skip


def by_hand(name: str) -> dict[str, Call]:
    """The calls for a workload, by peer; those that are not installed are left out."""
    if name not in ROWS:
        return {}
    make, numpy_function, loop = ROWS[name]
    args = make()
    calls: dict[str, Call] = {}
    if numpy_function is not None:
        calls["numpy"] = lambda: numpy_function(*args)
    if loop and has("numba"):
        compiled = getattr(importlib.import_module("numba_loops"), loop)
        calls["numba"] = lambda: compiled(*args)
    return calls
