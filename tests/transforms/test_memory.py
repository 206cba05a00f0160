"""What derivatives keep alive: nothing after they are done, and no reference cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import fgrad


@pytest.fixture
def no_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def big() -> np.ndarray:
    """An array, to be watched."""
    return np.ones(1000)


@pytest.mark.usefixtures("no_gc")
def test_grad_leaves_no_cycle() -> None:
    kept: list[weakref.ref] = []

    def loss(x: np.ndarray) -> np.ndarray:
        y = np.sin(x)
        kept.append(weakref.ref(y.value))
        return np.sum(y * x)

    fgrad.grad(loss)(big())
    assert kept[0]() is None


@pytest.mark.usefixtures("no_gc")
def test_residuals_live_as_long_as_the_pullback() -> None:
    kept: list[weakref.ref] = []

    def f(x: np.ndarray) -> np.ndarray:
        y = np.exp(x)
        kept.append(weakref.ref(y.value))
        return y * y

    _, pullback = fgrad.vjp(f, big())
    assert kept[0]() is not None
    del pullback
    assert kept[0]() is None


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("transform", ("vmap", "jvp", "jit"))
def test_other_transforms_leave_no_cycle(transform: str) -> None:
    kept: list[weakref.ref] = []

    def f(x: np.ndarray) -> np.ndarray:
        y = x * 2.0
        kept.append(weakref.ref(y))
        return y + 1.0

    x = big()
    if transform == "vmap":
        fgrad.vmap(f)(x)
    elif transform == "jvp":
        fgrad.jvp(f, (x,), (x,))
    else:
        fgrad.jit(f)(x)
    assert kept[0]() is None
