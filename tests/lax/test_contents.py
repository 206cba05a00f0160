"""Equal bodies are traced once; whatever a body depends on makes it another one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fgrad import lax
from fgrad.lax import bodies
from fgrad.lax.contents import contents

FACTOR = 2.0
SETTINGS = {"factor": 2.0}
TABLE = np.ones(3)


def by_global(x: Any) -> Any:
    return FACTOR * x


def by_helper(x: Any) -> Any:
    return by_global(x) + 0.0


def by_settings(x: Any) -> Any:
    return SETTINGS["factor"] * x


def by_table(x: Any) -> Any:
    return TABLE[0] * 2.0 * x


def loop(f: Callable[[Any], Any]) -> Any:
    return lax.fori_loop(0, 3, lambda i, x: f(x), 1.0)


def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    real = bodies.trace

    def counted(*args: Any, **options: Any) -> Any:
        found.append(args[2])
        return real(*args, **options)

    monkeypatch.setattr(bodies, "trace", counted)
    return found


@pytest.mark.parametrize("f", [by_global, by_helper, by_settings, by_table])
def test_globals_are_seen(f: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert loop(f) == 8.0
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    monkeypatch.setitem(SETTINGS, "factor", 3.0)
    monkeypatch.setitem(globals(), "TABLE", np.full(3, 1.5))
    assert loop(f) == 27.0


def test_arrays_are_seen_when_they_are_written() -> None:
    table = np.full(4, 2.0)
    assert loop(lambda x: x * table[1]) == 8.0
    table[1] = 3.0
    assert loop(lambda x: x * table[1]) == 27.0


def test_closures_and_defaults() -> None:
    def make(k: Any) -> Callable[[Any], Any]:
        return lambda x, k=k: x * k

    def close(k: Any) -> Callable[[Any], Any]:
        return lambda x: x * k

    for build in (make, close):
        assert [float(loop(build(k))) for k in (2, 3.0, -0.0, 0.0, True)] == [8, 27, 0, 0, 1]
        assert contents(build(2)) == contents(build(2))
        assert len({contents(build(k)) for k in (1, 1.0, True, np.float32(1), 0.0, -0.0)}) == 6


def test_equal_bodies_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = traces(monkeypatch)

    def run(k: float, x: Any) -> Any:
        return lax.scan(lambda c, x: (c * k + x, c), x[0], x)

    for k in (0.25, 0.25, 0.75, 0.25):
        run(k, np.arange(5.0))
    assert len(found) == 2
    run(0.25, np.arange(5.0, dtype=np.float32))
    run(0.25, np.arange(6.0))
    assert len(found) == 3


def test_what_cannot_be_seen_is_not_compared() -> None:
    class Holder:
        k = 2.0

        def step(self, x: Any) -> Any:
            return self.k * x

    holder = Holder()
    assert contents(holder.step) is None and contents(lambda x: holder.k * x) is None
    assert contents(lambda x, a=np.zeros(1 << 20): a[0] * x) is None  # noqa: B008
    assert loop(holder.step) == 8.0
    holder.k = 3.0
    assert loop(holder.step) == 27.0


def test_functions_of_functions() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    assert contents(functools.partial(power, n=2)) == contents(functools.partial(power, n=2))
    assert contents(functools.partial(power, n=2)) != contents(functools.partial(power, n=3))

    @functools.lru_cache
    def cached(n: int) -> int:
        return n

    assert contents(lambda x: cached(2) * x) is None
