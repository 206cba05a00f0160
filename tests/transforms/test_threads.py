"""Tracing and calling from several threads at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fgrad
from fgrad.errors import LeakedTracerError


def loss(x: np.ndarray) -> np.ndarray:
    """A function with a nested transform."""
    return np.sum(fgrad.vmap(lambda y: np.sin(y) * y**2)(x))


def expected(x: np.ndarray) -> np.ndarray:
    """The gradient of `loss`, by hand."""
    return np.cos(x) * x**2 + 2 * x * np.sin(x)


def test_eight_threads_trace_at_once() -> None:
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=5 + seed)
        start.wait()
        for _ in range(20):
            np.testing.assert_allclose(fgrad.grad(loss)(x), expected(x), rtol=1e-12)
            np.testing.assert_allclose(fgrad.jit(fgrad.grad(loss))(x), expected(x), rtol=1e-9)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_eight_threads_share_one_jitted_function() -> None:
    compiled = fgrad.jit(fgrad.grad(loss))

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=4 + seed % 3)
        for _ in range(50):
            np.testing.assert_allclose(compiled(x), expected(x), rtol=1e-9)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))


def test_one_pullback_from_eight_threads() -> None:
    x = np.linspace(0.0, 1.0, 7)
    _, pullback = fgrad.vjp(np.sin, x)
    with ThreadPoolExecutor(8) as pool:
        for scale, (ct,) in enumerate(
            pool.map(lambda s: pullback(np.full(7, float(s))), range(64))
        ):
            np.testing.assert_allclose(ct, scale * np.cos(x))


def test_a_tracer_of_another_thread_is_refused() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: fgrad.grad(lambda y: y * x)(1.0)).result()

    with pytest.raises(LeakedTracerError):
        fgrad.grad(f)(2.0)
