"""What custom rules and checkpoints keep alive: nothing after they are done."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fgrad

KEPT: list[weakref.ref] = []


@pytest.fixture
def no_gc() -> Iterator[None]:
    KEPT.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def watched(x: Any) -> Any:
    """A new array, whose life is watched."""
    y = np.sin(x)
    if isinstance(getattr(y, "value", None), np.ndarray):
        KEPT.append(weakref.ref(y.value))
    return y


@fgrad.custom_jvp
def by_jvp(x: Any) -> Any:
    """By a rule for tangents."""
    return watched(x)


by_jvp.defjvps(lambda t, out, x: watched(x) * t)


@fgrad.custom_vjp
def by_vjp(x: Any) -> Any:
    """By a rule for cotangents."""
    return watched(x)


by_vjp.defvjp(lambda x: (watched(x), watched(x)), lambda y, ct: (watched(y) * ct,))
by_checkpoint = fgrad.checkpoint(lambda x: watched(x) * watched(2.0 * x))
FUNCTIONS = {"jvp": by_jvp, "vjp": by_vjp, "checkpoint": by_checkpoint}


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_no_cycle(name: str) -> None:
    f = FUNCTIONS[name]
    for way in (
        lambda x: fgrad.grad(lambda x: np.sum(f(x)))(x),
        lambda x: fgrad.jvp(f, (x,), (x,)),
        lambda x: fgrad.grad(lambda x: np.sum(fgrad.grad(lambda y: np.sum(f(y)))(x)))(x),
    ):
        way(np.ones(1000))
    assert KEPT
    assert all(ref() is None for ref in KEPT)


@pytest.mark.usefixtures("no_gc")
def test_checkpoints_keep_no_residuals() -> None:
    _, pullback = fgrad.vjp(by_checkpoint, np.ones(1000))
    assert KEPT and all(ref() is None for ref in KEPT)
    pullback(np.ones(1000))


def test_threads_do_not_share_rules() -> None:
    x = np.linspace(0.1, 1.0, 50)
    failures: list[str] = []

    def work() -> None:
        for _ in range(20):
            found = fgrad.grad(lambda x: np.sum(by_jvp(by_vjp(x)) + by_checkpoint(x)))(x)
            if not np.allclose(found, alone):
                failures.append("a gradient differs")

    alone = fgrad.grad(lambda x: np.sum(by_jvp(by_vjp(x)) + by_checkpoint(x)))(x)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
