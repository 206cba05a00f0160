"""Traces that were not used for long are forgotten, also while calls are at them."""

from __future__ import annotations

import gc
import threading
import warnings

import numpy as np
import pytest

import fgrad
from fgrad.compile.jit import jitted, recent
from fgrad.errors import RetraceWarning


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep about 20 traces of one operation in the process."""
    monkeypatch.setattr(recent, "RECENT", recent.Recent())
    monkeypatch.setattr(jitted, "RECENT", recent.RECENT)
    monkeypatch.setattr(recent, "MOST_EQUATIONS", 20 * (recent.EACH + 2))


def test_traces_are_forgotten_and_made_again() -> None:
    traces = []
    f = fgrad.jit(lambda x: traces.append(x.shape) or x * 2 + 1, max_traces=1000)
    for k in range(1, 101):
        for _ in range(3):  # from Python, learnt, native
            assert f(np.ones(k))[-1] == 3
        assert f(np.ones(1))[0] == 3
    assert traces.count((1,)) <= 2 and len(f.native.signatures) <= 22 and len(f.entries) <= 44
    assert f(np.ones(50)).tolist() == [3.0] * 50 and traces.count((50,)) == 2


def test_what_functions_keep_goes_with_their_traces() -> None:
    f = fgrad.jit(lambda x: x * 2 + 1, max_traces=1000)

    for k in range(1, 101):
        f(np.ones(k))
    assert len(recent.RECENT.held) <= 21 and not f.older and len(f.native.attempts) <= 21
    del f
    gc.collect()
    assert not recent.RECENT.held


def test_a_callback_has_its_own_caller_forgotten() -> None:
    """The signature that is running is taken out of the chain, and freed afterwards."""
    f = fgrad.jit(lambda x: x + fgrad.pure_callback(disturb, x, x) * 2, max_traces=1000)
    g = fgrad.jit(lambda x: x * 2 + 1, max_traces=1000)
    count = [0]

    def disturb(x: np.ndarray) -> np.ndarray:
        if len(x) == 5:
            for _ in range(30):
                count[0] += 1
                g(np.ones(count[0]))
        return x

    for _ in range(6):
        np.testing.assert_array_equal(f(np.arange(5.0)), 3 * np.arange(5.0))


def test_threads_that_call_while_traces_are_forgotten() -> None:
    """Long calls without the GIL, containers and short calls, of sizes that come and go."""
    f = fgrad.jit(lambda p: np.sin(p["x"]) * p["y"], max_traces=10**6)
    g = fgrad.jit(lambda x: x * 3, max_traces=10**6)
    wrong: list[int] = []

    def long(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            n = 200_000 + int(rng.integers(4))
            x = np.full(n, 0.5)
            for _ in range(3):
                wrong.extend([n] * int(not np.isclose(f({"x": x, "y": x})[-1], np.sin(0.5) * 0.5)))

    def short(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            n = int(rng.integers(1, 60))
            wrong.extend([n] * int(g(np.full(n, 2.0))[-1] != 6.0))

    works = [(long, 0), (long, 1), (short, 2), (short, 3)]
    threads = [threading.Thread(target=work, args=(seed,)) for work, seed in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_a_world_that_changed_keeps_is_forgotten_too() -> None:
    scale = {"by": "a"}
    f = fgrad.jit(lambda x: x * len(scale["by"]), max_traces=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for k in range(1, 80):
            scale["by"] = "ab"[: 1 + k % 2]
            assert f(np.ones(k % 7 + 1))[0] == 1 + k % 2
            f(np.ones(40 + k))
    assert len(f.entries) <= 44 and sum(map(len, f.older.values())) <= 22


def test_many_traces_are_told_once() -> None:
    f = fgrad.jit(lambda x: x + 1)
    with pytest.warns(RetraceWarning, match=r"traced 64 times.*f64\[63\] -> f64\[64\]") as told:
        for k in range(1, 70):
            f(np.ones(k))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = fgrad.jit(lambda x: x + 1, max_traces=70)
        for k in range(1, 70):
            g(np.ones(k))
