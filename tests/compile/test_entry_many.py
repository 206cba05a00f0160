"""Many signatures of one callee: each call finds its own, whatever was called before."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE, assert_same, counted

from fgrad import jit
from fgrad.compile.jit import jitted, recent

pytestmark = [NEEDS_NATIVE, pytest.mark.filterwarnings("ignore::fgrad.errors.RetraceWarning")]


def nested(tree: Any, scale: Any, n: int = 1) -> Any:
    return {"sum": np.sum(tree[0]["x"]) * scale + n, "all": [tree[0]["x"] + tree[1]]}


def arguments(k: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of different sizes, ranks and types, some of them alike in what is hashed."""
    x = np.arange(1.0 + k % 7)
    if k % 5 == 1:
        x = x.astype(np.float32)
    if k % 3 == 2:
        x = x[None]
    scale: Any = (2.0, 3, True, np.float32(2), np.ones(x.shape[-1]))[k % 5]
    return (({"x": x, "y": 1.0}, x[::-1] if k % 2 else x), scale), {"n": k % 4}


def test_each_call_finds_its_signature() -> None:
    ours = jit(nested, static_argnames="n", max_traces=10**9)
    calls = [arguments(k) for k in range(150)]
    for args, kwargs in calls * 2:
        ours(*args, **kwargs)
    assert len(ours.native.signatures) > 64
    rng = np.random.default_rng(0)
    for k in rng.integers(0, len(calls), 600):
        args, kwargs = calls[k]
        for _ in range(1 + k % 3):
            found, in_python = counted(ours, *args, **kwargs)
            assert in_python == 0
            assert_same(found, nested(*args, **kwargs))


def test_signatures_that_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between calls of others: a chain and its buckets lose signatures at any place."""
    monkeypatch.setattr(recent, "RECENT", recent.Recent())
    monkeypatch.setattr(jitted, "RECENT", recent.RECENT)
    monkeypatch.setattr(recent, "MOST_EQUATIONS", 10 * (recent.EACH + 2))
    ours = jit(lambda x: x * 2.0, max_traces=10**9)
    rng = np.random.default_rng(1)
    for n in rng.integers(1, 16, 3000):
        assert ours(np.full(n, 3.0)).tolist() == [6.0] * n
    assert len(ours.native.signatures) <= 12


def test_threads_with_signatures_of_their_own() -> None:
    ours = jit(lambda x: np.cumsum(x), max_traces=10**9)
    wrong: list[int] = []

    def work(first: int) -> None:
        for n in range(first, first + 40):
            for m in (n, first + 1, n):
                if ours(np.ones(m + 1))[-1] != m + 1:
                    wrong.append(m)

    threads = [threading.Thread(target=work, args=(20 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
