"""Calls of jitted functions on the device that run no Python code."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from emulator.driver import StubDriver
from real_device import stub_device

import fgrad
from fgrad.config import config
from fgrad.errors import ArgumentError, DeviceError
from fgrad.lower_cuda.device.array import DeviceArray, on_device
from fgrad.lower_cuda.executable import CudaExecutable
from fgrad.lower_cuda.native_call import is_possible

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 50)).astype(np.float32)

pytestmark = pytest.mark.skipif(not is_possible(), reason="arrays are laid out in another way")


@pytest.fixture(autouse=True)
def stub() -> Iterator[StubDriver]:
    """A stub with plain memory, which native code may use."""
    with stub_device(StubDriver(checks=False)) as made:
        yield made


def step(x: Any, y: Any) -> Any:
    """Five kernels and more."""
    for k in range(5):
        x = x - np.max(x, axis=k % 2, keepdims=True) * y
    return x, x.sum()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list with an entry for each call that Python makes."""
    made: list[int] = []
    original = CudaExecutable.__call__

    def counted(self: CudaExecutable, args: Any) -> Any:
        made.append(1)
        return original(self, args)

    monkeypatch.setattr(CudaExecutable, "__call__", counted)
    return made


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(wanted), strict=True):
        assert type(a) is DeviceArray and a.shape == np.shape(b) and a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-5)


def test_results(slow: list[int]) -> None:
    f = fgrad.jit(step)
    y = on_device(X * 0.5)
    for _ in range(12):
        x = RNG.normal(size=X.shape).astype(np.float32)
        same(f(on_device(x), y), step(x, X * 0.5))
    assert 2 <= len(slow) <= 8  # the first ones, and some for new graphs


def test_results_are_arguments(slow: list[int]) -> None:
    f = fgrad.jit(lambda x, y: step(x, y)[0])
    x, y, z = X, X * 0.5, on_device(X)
    for _ in range(12):
        x, z = step(x, y)[0], f(z, on_device(y))
    np.testing.assert_allclose(z.numpy(), x, rtol=1e-3, atol=1e-3)
    assert len(slow) <= 8


@pytest.mark.parametrize(
    "result",
    [
        lambda x: x,
        lambda x: {"a": x + 1, "b": [x.sum(), (x,)]},
        lambda x: (np.zeros((0, 3)), 2.5, x * 2),
        lambda x: (),
    ],
)
def test_containers_of_results(result: Any) -> None:
    f = fgrad.jit(result)
    x = on_device(X)
    for _ in range(5):
        found, wanted = f(x), result(X)
        assert fgrad.tree.structure(found) == fgrad.tree.structure(wanted)
        same(found, fgrad.tree.map(np.asarray, wanted))


def test_other_arguments_go_another_way(slow: list[int]) -> None:
    f = fgrad.jit(lambda x, y: x * y + 1)
    x = on_device(X)
    for _ in range(4):
        f(x, x)
    before = len(slow)
    same(f(x, x), X * X + 1)
    assert len(slow) == before
    same(f(x, on_device(X[0])), X * X[0] + 1)  # another shape
    same(f(x, on_device(X.astype(np.float64))), X * X.astype(np.float64) + 1)
    same(f(x, X), X * X + 1)  # an array of the host
    same(f(x, 2.0), X * 2 + 1)
    same(f(x, y=x), X * X + 1)
    assert isinstance(f(X, X), np.ndarray)
    with pytest.raises(TypeError):
        f(x)
    assert len(slow) >= before + 5
    for _ in range(3):
        same(f(x, x), X * X + 1)


def test_settings_of_another_kind(slow: list[int]) -> None:
    f = fgrad.jit(lambda x: x * 2)
    x = on_device(X)
    for _ in range(4):
        f(x)
    before = len(slow)
    with config.override(check=3):
        same(f(x), X * 2)
    assert len(slow) == before + 1
    f(x)
    assert len(slow) <= before + 2


def test_memory_and_references(stub: StubDriver) -> None:
    f = fgrad.jit(step)
    x, y = on_device(X), on_device(X)
    for _ in range(5):
        out = f(x, y)
    del out
    gc.collect()
    statistics = stub.memory.statistics
    shape, counts = f(x, y)[0].shape, []
    for _ in range(50):
        f(x, y)
        counts.append(sys.getrefcount(shape))
    assert len(set(counts)) == 1
    after = stub.memory.statistics
    assert after.in_use == statistics.in_use and after.held == statistics.held
    assert after.reused > statistics.reused + 50
    assert after.reserved == statistics.reserved
    kept = [f(x, y) for _ in range(20)]
    assert len({out[0].pointer for out in kept}) == 20
    for out in kept:
        same(out, step(X, X))


def test_arrays_that_were_given_away(slow: list[int]) -> None:
    f = fgrad.jit(lambda x: x * 2)
    g = fgrad.jit(lambda x: x + 1, donate_argnums=0)
    big = np.ones((200, 200), np.float32)
    for _ in range(4):
        x = on_device(big)
        f(x)
        same(g(x), big + 1)
        with pytest.raises(ArgumentError, match="given away"):
            f(x)


def test_other_threads() -> None:
    f = fgrad.jit(step)
    x, y = on_device(X), on_device(X)
    for _ in range(4):
        f(x, y)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).normal(size=X.shape).astype(np.float32)
        for _ in range(6):
            found = f(on_device(a), y)[0].numpy()
            if not np.allclose(found, step(a, X)[0], rtol=1e-4, atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_failures(stub: StubDriver) -> None:
    f = fgrad.jit(lambda x: np.tanh(x) * 2)
    x = on_device(X)
    for _ in range(4):
        f(x)
    held = stub.memory.statistics.in_use
    stub.fail("cuLaunchKernel", 719)
    with pytest.raises(DeviceError, match=r"np\.tanh"):
        f(x)
    gc.collect()
    assert stub.memory.statistics.in_use == held
    same(f(x), np.tanh(X) * 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_is_refused() -> None:
    f = fgrad.jit(lambda x: x * 2)
    x = on_device(X)
    for _ in range(4):
        f(x)
    child = os.fork()
    if not child:
        try:
            f(x)
        except DeviceError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# Trees.


def of_tree(tree: Any) -> Any:
    return {"sum": tree["w"] + tree["b"][0][0], "rest": [tree["b"][1] * 2, tree["c"]]}


def tree_of(x: Any) -> Any:
    return {"c": x + 3, "w": x, "b": [(x + 1,), x + 2]}


def test_trees(slow: list[int]) -> None:
    """Their leaves are taken by a function made for the structure."""
    f = fgrad.jit(of_tree)
    for k in range(12):
        given = tree_of(RNG.normal(size=X.shape).astype(np.float32))
        if k % 2:
            given = dict(sorted(given.items()))
        same(f(fgrad.device_put(given)), of_tree(given))
    assert len(slow) <= 6
    last = f.device_calls.last
    assert last is not None and last.take is not None


@pytest.mark.parametrize(
    "change",
    [
        {"b": [[X], X]},
        {"b": [(X, X), X]},
        {"b": [(X,), X, X]},
        {"d": X},
        {"c": X[0]},
        {"c": [X]},
        {"c": np.float64(2)},
        {"w": np.float32(2)},
    ],
    ids=str,
)
def test_trees_of_other_structure(change: Any) -> None:
    f = fgrad.jit(of_tree)
    given = tree_of(X)
    for other in ({}, {}, {}, change, {}):
        both = given | other
        put = fgrad.tree.map(lambda x: on_device(x) if np.ndim(x) else x, both)
        same(f(put), of_tree(both))


def test_trees_without_a_function_of_their_own() -> None:
    f = fgrad.jit(lambda t: t[(1, 2)] * 2)
    for _ in range(6):
        same(f(fgrad.device_put({(1, 2): X})), X * 2)
    assert f.device_calls.last is not None and f.device_calls.last.take is None
