"""`parallel.map` gives what a loop gives, on threads, processes and loky's workers."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import parallel_work
import pytest
from joblib.externals.loky import get_reusable_executor

import fgrad
from fgrad import parallel
from fgrad.errors import ArgumentError

EXECUTORS = ("none", "threads", "fork", "spawn", "loky")
ELSEWHERE = ("fork", "spawn", "loky")


@pytest.fixture(scope="module", params=EXECUTORS)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    kind = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks with threads
        if kind == "none":
            yield None
        elif kind == "threads":
            with ThreadPoolExecutor(2) as pool:
                yield pool
        elif kind == "loky":
            pool = get_reusable_executor(2)
            yield pool
            pool.shutdown(wait=True)
        else:
            with ProcessPoolExecutor(2, mp_context=get_context(kind)) as pool:
                yield pool


@pytest.mark.parametrize("chunks", [None, 1, 3, 100])
def test_results_are_in_order(executor: Executor | None, chunks: int | None) -> None:
    xs = np.linspace(-1.0, 2.0, 10)
    found = parallel.map(parallel_work.slope, xs, executor=executor, chunks=chunks)
    assert found == [parallel_work.slope(x) for x in xs]
    assert parallel.map(parallel_work.cube, iter(()), executor=executor, chunks=chunks) == []


def test_functions_without_a_name_travel(executor: Executor | None) -> None:
    scale = np.array([1.0, 2.0])
    f = fgrad.jit(fgrad.grad(lambda w: np.sum(scale * w**2)))
    found = parallel.map(f, [scale, 3 * scale], executor=executor)
    np.testing.assert_array_equal(found, [2 * scale**2, 6 * scale**2])


def test_the_first_error_stops(executor: Executor | None) -> None:
    with pytest.raises(ValueError, match="five is refused") as caught:
        parallel.map(parallel_work.fails, range(5, 7), executor=executor, chunks=1)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "parallel.map: fails at input 0 of 2" in told


def test_errors_are_kept(executor: Executor | None) -> None:
    found = parallel.map(parallel_work.fails, range(9), executor=executor, errors="keep")
    five, seven = found[5], found[7]
    assert [x for x in found if isinstance(x, int)] == [0, 1, 2, 3, 4, 6, 8]
    assert isinstance(five, ValueError) and isinstance(seven, Exception) and "1 and" in str(seven)


def test_what_has_not_begun_is_cancelled() -> None:
    begun: list[int] = []

    def work(k: int) -> int:
        begun.append(k)
        time.sleep(0.01)
        if k == 1:
            raise ValueError
        return k

    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError):
        parallel.map(work, range(1000), executor=pool, chunks=1000)
    assert len(begun) < 10


def test_a_worker_compiles_once_and_has_its_share_of_the_cores() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = parallel.map(lambda x: parallel_work.traces(x), range(12), executor=pool, chunks=12)
    assert {traced for _, traced, _ in found} == {1}
    assert os.getpid() not in {process for process, _, _ in found}
    assert {threads for _, _, threads in found} == {max(1, (os.cpu_count() or 1) // 2)}


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    parallel.map(abs, [1, 2, 3], progress=lambda done, count: seen.append((done, count)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    parallel.map(abs, [1, 2, 3], progress=True)
    assert capsys.readouterr().err.startswith("fgrad parallel.map: 3/3 in ")


@pytest.mark.parametrize(
    "given", [{"fun": 3}, {"chunks": 0}, {"errors": "ignore"}], ids=lambda g: next(iter(g))
)
def test_what_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        parallel.map(**{"fun": abs, "xs": [1], **given})
