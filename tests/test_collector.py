"""The cycle collector is as it was after tracing and compiling, also when they fail."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.base.gc_policy import collector_paused, collector_relaxed, modules_loading


def _state() -> tuple[bool, tuple[int, int, int]]:
    return gc.isenabled(), gc.get_threshold()


def test_it_is_restored_after_a_call() -> None:
    before = _state()
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(_state())
        return np.sum(x * 2)

    fgrad.jit(f)(np.ones(3))
    assert _state() == before
    assert seen[0][0] == before[0] and seen[0][1][0] >= before[1][0]


def test_objects_that_the_user_has_put_aside_stay_there() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with modules_loading():
            pass
        assert gc.get_freeze_count() >= count - 10  # some are gone meanwhile
    finally:
        gc.unfreeze()


def test_garbage_from_before_an_import_is_found() -> None:
    class Cycle:
        pass

    one = Cycle()
    one.itself = one  # type: ignore[attr-defined]
    gone = weakref.ref(one)
    with modules_loading():
        del one
    assert gc.isenabled()
    gc.collect()
    assert gone() is None


def test_it_is_restored_after_an_error() -> None:
    before = _state()

    def f(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fgrad.jit(f)(np.ones(3))
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert _state() == before


def test_blocks_overlap_in_threads() -> None:
    before = _state()

    def many() -> None:
        for _ in range(200):
            with collector_relaxed(), collector_relaxed():
                pass

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _state() == before


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
