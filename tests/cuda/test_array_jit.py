"""Arrays on a device that is not there: `jit`, memory, and other libraries."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_arrays import K, V, W, X, Y, check
from emulator.driver import StubDriver
from real_device import stub_device

import fgrad
from fgrad import device_put
from fgrad.errors import ArgumentError, InPlaceError, NanError, UnsupportedTypeError
from fgrad.lower_cuda.device.array import from_cuda_array_interface, from_dlpack

jit: Any = fgrad.jit


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[StubDriver]:
    with stub_device() as made:
        yield made


# jit.


def test_jit_of_arrays_on_the_device(stub: StubDriver) -> None:
    f = jit(lambda x, y: np.sum(np.tanh(x) * y, axis=1))
    x, y = device_put(X), device_put(Y)
    expected = np.sum(np.tanh(X) * Y, axis=1)
    for _ in range(3):
        check(f(x, y), expected)
    assert isinstance(f(X, Y), np.ndarray), "arrays on the host stay there"
    check(f(x, Y), expected)
    check(f(X, y), expected)
    assert len({id(entry) for entry in f.entries.values()}) == 1
    before = stub.launches
    f(x, y)
    assert stub.launches - before == 1


def test_jit_of_trees_and_numbers() -> None:
    f = jit(lambda t, s, *, k=1.0: {"a": t["x"] * s + k, "b": (t["x"][0], s)})
    check(f({"x": device_put(X)}, 2.0), {"a": X * 2 + 1, "b": (X[0], 2.0)})
    check(f({"x": device_put(X)}, 3, k=V), {"a": X * 3 + V, "b": (X[0], 3)})
    check(f({"x": X}, device_put(2.0)), {"a": X * 2 + 1, "b": (X[0], 2.0)})


def test_jit_of_trees_on_the_device() -> None:
    f = jit(lambda p, g: {k: p[k] - 0.5 * g[k][0] for k in p})
    for scale in (1.0, 2.0, 3.0):
        p, g = {"a": scale * X, "b": V}, {"a": (Y,), "b": (V,)}
        check(f(device_put(p), device_put(g)), {"a": p["a"] - 0.5 * Y, "b": 0.5 * V})
    p, g = {"a": X, "b": V}, {"a": (Y,), "b": (V,)}
    check(f(device_put(p), g), {"a": X - 0.5 * Y, "b": 0.5 * V})
    wide = {"a": np.stack([X, X]), "b": V}
    check(f(device_put(wide), device_put(g)), {"a": wide["a"] - 0.5 * Y, "b": 0.5 * V})
    assert len({id(entry) for entry in f.entries.values()}) == 2


def test_jit_for_a_device() -> None:
    f = jit(lambda x: x + 1, device="cuda")
    check((f(X), f(2.0), f(device_put(X)), f(np.float32(1))), (X + 1, 3.0, X + 1, np.float32(2)))
    g = jit(lambda x: x + 1, device="cpu")
    assert type(g(device_put(X))) is np.ndarray and type(g(X)) is np.ndarray
    np.testing.assert_array_equal(g(device_put(X)), X + 1)


def test_jit_closes_over_arrays_on_the_device() -> None:
    w = device_put(W)
    f = jit(lambda x: np.tanh(x @ w) + w.sum() + w[0, 0])
    expected = np.tanh(X @ W) + W.sum() + W[0, 0]
    check((f(X), f(device_put(X)), f(X)), (expected,) * 3)
    assert len({id(entry) for entry in f.entries.values()}) == 1
    g = fgrad.vmap(fgrad.grad(lambda x: np.sum(f(x[None]))))
    check(g(X), fgrad.vmap(fgrad.grad(lambda x: np.sum(np.tanh(x @ W))))(X))
    check(jit(lambda: w)(), W)
    check(jit(lambda x: (x * 1, w))(X), (X, W))


def test_jit_with_static_arguments() -> None:
    f = jit(lambda x, n: x * n, static_argnums=1)
    check((f(device_put(X), 2), f(device_put(X), 3)), (X * 2, X * 3))


def test_jit_within_jit_and_within_grad() -> None:
    inner = jit(lambda x: np.sin(x) * 2)
    check(jit(lambda x: inner(x) + inner(2 * x))(device_put(X)), 2 * (np.sin(X) + np.sin(2 * X)))
    check(fgrad.grad(lambda x: np.sum(inner(x)))(device_put(X)), 2 * np.cos(X))


def test_jit_without_compilation() -> None:
    with fgrad.config.override(disable_jit=True):
        check(jit(lambda x: np.sin(x) + 1)(device_put(X)), np.sin(X) + 1)


def test_donated_memory_becomes_a_result() -> None:
    big = np.linspace(0, 1, 1 << 14)
    step = jit(lambda p, g: p - 0.1 * g, donate_argnums=0)
    p, g = device_put(big), device_put(big)
    pointer = p.pointer
    q = step(p, g)
    assert q.pointer == pointer
    check(q, big - 0.1 * big)
    for use_it in (lambda: step(p, g), lambda: p + 1, lambda: p.numpy(), lambda: p[0]):
        with pytest.raises(ArgumentError, match="whose memory was given away"):
            use_it()
    assert repr(p) == "DeviceArray(f64[16384], given away)"


def test_shared_memory_is_not_donated() -> None:
    big = np.linspace(0, 1, 1 << 14)
    step = jit(lambda p: p + 1, donate_argnums=0)
    p = device_put(big)
    half = p[: 1 << 13]
    check((step(p), half, p), (big + 1, big[: 1 << 13], big))


def test_nan_is_found() -> None:
    f = jit(lambda x: np.log(x) + 1)
    for run in (f, np.log, fgrad.grad(lambda x: np.sum(np.log(x)))):
        with np.errstate(all="ignore"), fgrad.debug.nans(), pytest.raises(NanError, match="log"):
            run(device_put(X))


def test_threads() -> None:
    f = jit(lambda x: np.cumsum(np.sin(x) * 2, axis=1))
    x, failed = device_put(X), []

    def work() -> None:
        try:
            for _ in range(5):
                check(
                    (f(x), x * 3, fgrad.grad(lambda x: np.sum(x**2))(x)),
                    (np.cumsum(np.sin(X) * 2, axis=1), X * 3, 2 * X),
                )
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# Memory.


def test_memory_goes_back_with_the_arrays(stub: StubDriver) -> None:
    f = jit(lambda x: np.sin(x) * np.arange(64.0))
    x = device_put(np.ones((64, 64)))
    f(x)
    gc.collect()
    before = stub.memory.statistics
    for _ in range(10):
        y = f(x) + 1
        assert y[3:5].shape == (2, 64)
    del y
    gc.collect()
    after = stub.memory.statistics
    assert after.in_use == before.in_use
    assert after.reserved - before.reserved <= 4, "blocks are used again"


def test_views_keep_the_memory(stub: StubDriver) -> None:
    x = device_put(np.arange(64.0).reshape(8, 8))
    row, flat = x[3], x.reshape(64)
    assert row.pointer == x.pointer + 3 * 64 and flat.pointer == x.pointer
    used = stub.memory.statistics.in_use
    del x
    gc.collect()
    assert stub.memory.statistics.in_use == used
    check((row, flat), (np.arange(24.0, 32.0), np.arange(64.0)))
    del row, flat
    gc.collect()
    assert stub.memory.statistics.in_use == used - 512


def test_rows_that_are_not_aligned_are_copied() -> None:
    x = device_put(np.arange(9.0).reshape(3, 3))
    assert all([x[k].pointer % 16 == 0 for k in range(3)])
    check(
        (x[1], x[1] * 2, x[1:], x[1:] + 1),
        (
            np.arange(3.0, 6),
            np.arange(3.0, 6) * 2,
            np.arange(3.0, 9).reshape(2, 3),
            np.arange(4.0, 10).reshape(2, 3),
        ),
    )


# Other libraries.


class Foreign:
    """An array of another library on the same device."""

    def __init__(self, x: Any, **changes: Any) -> None:
        self.x, self.changes = x, changes
        self.stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.x.__cuda_array_interface__, **self.changes}


class Capsules(Foreign):
    """The same by DLPack alone."""

    __cuda_array_interface__ = None  # type: ignore[assignment]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.changes.get("device", (2, 0))

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.stream = stream
        return self.x.__dlpack__(stream=stream)


@pytest.mark.parametrize("x", [X, X.astype(np.float32), K, X > 0, np.array(3.0), np.zeros((0, 2))])
def test_cuda_array_interface(x: np.ndarray) -> None:
    mine = device_put(x)
    given = mine.__cuda_array_interface__
    assert given["version"] == 3 and given["typestr"] == x.dtype.str and given["strides"] is None
    theirs = from_cuda_array_interface(Foreign(mine))
    check(theirs, x)
    assert theirs.pointer == mine.pointer
    check(device_put(Foreign(mine)) * 1, x * 1)


@pytest.mark.parametrize("x", [X, X.astype(np.float16), K, X > 0, X * 1j, np.array(3.0)])
def test_dlpack(stub: StubDriver, x: np.ndarray) -> None:
    mine = device_put(x)
    other = Capsules(mine)
    theirs = from_dlpack(other)
    check(theirs, x)
    assert theirs.pointer == mine.pointer and other.stream == stub.stream
    check(device_put(mine), x)
    assert mine.__dlpack_device__() == (2, 0)


def test_dlpack_of_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = X.astype(ml_dtypes.bfloat16)
    theirs = from_dlpack(Capsules(device_put(x)))
    assert theirs.dtype == x.dtype
    np.testing.assert_array_equal(theirs.numpy(), x)


def test_exported_memory_lives_as_long_as_it_is_used(stub: StubDriver) -> None:
    x = device_put(np.ones(1000))
    used = stub.memory.statistics.in_use
    capsule = x.__dlpack__()
    theirs = from_dlpack(Capsules(x))
    del x
    gc.collect()
    assert stub.memory.statistics.in_use == used
    check(theirs, np.ones(1000))
    del capsule, theirs
    gc.collect()
    assert stub.memory.statistics.in_use == used - 8192


def test_foreign_memory_that_cannot_be_used() -> None:
    x = device_put(X)
    with pytest.raises(UnsupportedTypeError, match="not contiguous"):
        device_put(Foreign(x, strides=(8, 24)))
    with pytest.raises(UnsupportedTypeError, match="mask"):
        device_put(Foreign(x, mask=x))
    with pytest.raises(UnsupportedTypeError, match="dtype >f8"):
        device_put(Foreign(x, typestr=">f8"))
    with pytest.raises(UnsupportedTypeError, match="device"):
        from_dlpack(Capsules(x, device=(2, 1)))


def test_foreign_memory_that_is_not_aligned_is_copied() -> None:
    x = device_put(np.arange(8.0))
    data = (x.pointer + 8, False)
    theirs = device_put(Foreign(x, data=data, shape=(6,)))
    assert theirs.pointer % 16 == 0
    check(theirs, np.arange(1.0, 7))


def test_no_leaves_are_on_no_device() -> None:
    """Once arrays are on a device, a call without any array still runs on the host."""
    f = fgrad.jit(lambda *args: 2.0)
    assert isinstance(fgrad.device_put(np.ones(2)), fgrad.DeviceArray)
    assert [f(()) for _ in range(3)] == [2.0] * 3


def test_arguments_on_the_device_are_not_written() -> None:
    def step(x: Any, n: Any) -> Any:
        n += 1
        y = x.copy()
        y[0] = n[0]
        return y

    f, counts = jit(step), np.zeros(2)
    for k in range(3):  # arrays on the host are
        expected = X.copy()
        expected[0] = k + 1
        check(f(device_put(X), counts), expected)
        np.testing.assert_array_equal(counts, [k + 1.0, k + 1.0])
    for _ in range(3):
        with pytest.raises(InPlaceError, match="Arrays on the GPU are immutable"):
            f(X, device_put(counts))
