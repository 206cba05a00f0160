"""Threads that share kernels, compile, trace and drop functions at once: every result is right.

On processors whose writes may be seen in another order (AArch64) this looks for a missing barrier
in the pool of threads and the caches; on Pythons without the GIL, for a table without a lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.tasks.routines import RowWalk
from fgrad.config import config

SIZE = 200_000  # elements of a kernel that threads share


def run_at_once(works: list[Callable[[], None]]) -> None:
    """Run each in a thread of its own; raises what the first of them raised."""
    errors: list[BaseException] = []
    together = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        together.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.parametrize("count", [2, 8])
def test_kernels_that_threads_share_from_many_callers(count: int) -> None:
    """Who finds the pool busy computes alone; pieces are neither lost nor done twice."""
    with config.override(num_threads=count):
        scale = fgrad.jit(lambda x, k: np.sqrt(x * x + k) - k)
        total = fgrad.jit(lambda x, k: np.sum(x * k))

        def work(seed: int) -> None:
            rng = np.random.default_rng(seed)
            for _ in range(25):
                x, k = rng.random(SIZE), float(rng.integers(1, 9))
                np.testing.assert_array_equal(scale(x, k), np.sqrt(x * x + k) - k)
                np.testing.assert_allclose(total(x, k), np.sum(x * k), rtol=1e-12)

        run_at_once([lambda seed=seed: work(seed) for seed in range(4)])


def test_one_value_passes_through_many_kernels() -> None:
    """Each kernel reads what threads wrote in the one before: all of it must be there."""
    with config.override(num_threads=4):

        def steps(x: Any) -> Any:
            for k in range(8):
                x = np.flip(np.cumsum(x.reshape(400, -1), axis=1) % 97 + k, axis=1).reshape(-1)
            return x

        x = np.arange(SIZE) % 13
        compiled, expected = fgrad.jit(steps), steps(x)
        for _ in range(20):
            np.testing.assert_array_equal(compiled(x), expected)


def test_threads_that_trace_compile_and_drop_functions() -> None:
    """Tables of traces, signatures, code and shared kernels are read and written at once."""

    def loss(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ w) ** 2)

    shared = fgrad.jit(fgrad.value_and_grad(loss))

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for n in range(2, 14):
            w, x = rng.random(n), rng.random((5 + n % 3, n))
            value, slope = shared(w, x)
            own = fgrad.jit(fgrad.vmap(lambda v: np.sum(v * seed), in_axes=0))
            np.testing.assert_allclose(own(x), np.sum(x * seed, axis=1))
            np.testing.assert_allclose(value, loss(w, x))
            np.testing.assert_allclose(slope, fgrad.grad(loss)(w, x))
            tangent = fgrad.jvp(loss, (w, x), (np.ones(n), np.zeros_like(x)))[1]
            np.testing.assert_allclose(tangent, slope.sum())

    run_at_once([lambda seed=seed: work(seed) for seed in range(6)])


def test_many_threads_have_pieces_of_their_own() -> None:
    """No range is cut into a fixed number of pieces: with 64 threads all have some."""
    walk = RowWalk("add", np.dtype("f8"), 1 << 12, 1 << 16, False)
    few = walk.pieces
    with config.override(num_threads=64):
        assert walk.pieces == 256 > few


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads are not placed here")
def test_threads_are_kept_off_the_processor_of_the_caller() -> None:
    """They may use all others that the caller may; all of them, if there is no other."""
    with config.override(num_threads=2):
        scale, x = fgrad.jit(lambda x: np.sqrt(x * x + 1)), np.ones(SIZE)
        scale(x)
        (worker,) = [t.native_id for t in threading.enumerate() if t.name == "fgrad-1"]
        assert worker is not None
        allowed = os.sched_getaffinity(0)
        wanted = max(len(allowed) - 1, 1)
        while len(os.sched_getaffinity(worker)) != wanted:  # until it has begun
            scale(x)
        assert os.sched_getaffinity(worker) <= allowed
