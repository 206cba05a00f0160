"""Native calls keep count of references, under errors, recursion and threads too."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import tracemalloc
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE, X, learnt, outcome

from fgrad import jit, tree
from fgrad.compile.entry.native import NativeCallable, NativeCalls, native_class
from fgrad.compile.entry.table import Parameters, Results, Work
from fgrad.compile.host.program import Call, Callback, HostProgram
from fgrad.config import config
from fgrad.ir.aval import aval_of

pytestmark = NEEDS_NATIVE

Pair = namedtuple("Pair", "left right")


class Named(NamedTuple):
    w: Any
    b: Any


def grown_references(call: Callable[[], Any], objects: list[Any]) -> list[int]:
    """By how much 500 calls change the reference counts of objects."""
    for _ in range(40):
        call()
    before = [sys.getrefcount(x) for x in objects]
    for _ in range(500):
        call()
    return [sys.getrefcount(x) - b for x, b in zip(objects, before, strict=True)]


@pytest.mark.parametrize("recycle", [False, True])
def test_references(recycle: bool) -> None:
    key, big = "".join(["k", "ey"]), np.ones((600, 600), np.float32)
    argument = {key: X, "pair": Pair(X, [3, 2.0, True, None])}

    def fun(d: Any, m: Any) -> Any:
        x = d["key"]
        return {"s": x.sum(), "n": Named(x, m + x[0]), "l": [x > 0, (x > 0).any(), 1.0]}

    with config.override(recycle=recycle):
        f = learnt(fun, argument, big)
        objects = [X, key, argument, argument["pair"], big, X.dtype, np.float32, Pair, Named]
        objects += [f, np.ndarray, np.dtype("?"), type(None), tuple]
        for value in (big, big.T, big[::-1]):
            assert max(np.abs(grown_references(lambda v=value: f(argument, v), objects))) <= 1


def test_references_of_failing_calls() -> None:
    f = learnt(lambda x, y: x + y, X, X)
    key = "odd"

    def wrong() -> None:
        with pytest.raises(TypeError):
            f(X, y=X, **{key: X})

    assert max(grown_references(wrong, [X, f, key])) <= 1


@pytest.mark.parametrize("recycle", [False, True])
def test_no_leak(recycle: bool) -> None:
    with config.override(recycle=recycle):
        f = learnt(lambda d: {"y": d["x"] * 2, "s": (d["x"].sum(), None)}, {"x": X})
        d = {"x": X}
        strided = {"x": np.repeat(X, 2)[::2]}
        for _ in range(100):
            f(d), f(strided)
        gc.collect()
        tracemalloc.start()
        for _ in range(20_000):
            f(d), f(strided)
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert grown < 20_000


def test_callee_is_freed() -> None:
    fun = jit(lambda x: x + 1)
    learnt(fun, X)
    signatures = [weakref.ref(s) for s in fun.native.signatures.values()]
    seen = weakref.ref(fun)
    del fun
    gc.collect()
    assert seen() is None
    assert all(s() is None for s in signatures)


def test_recycled_results() -> None:
    with config.override(recycle=True):
        f = jit(lambda x: x + 1)
        kept = [f(X * k) for k in range(40)]
        for k, y in enumerate(kept):
            np.testing.assert_array_equal(y, X * k + 1)
        y = f(X)
        view, alias = y[2:4], f(X)
        for _ in range(5):
            f(X * 9)
        np.testing.assert_array_equal(view, (X + 1)[2:4])
        np.testing.assert_array_equal(alias, X + 1)
        x = X
        for _ in range(100):
            x = f(x)
        np.testing.assert_allclose(x, X + 100, rtol=1e-5)
        addresses = {f(X).ctypes.data for _ in range(10)}
        assert len(addresses) <= 2


def test_changed_results_are_not_recycled() -> None:
    with config.override(recycle=True):
        f = jit(lambda x: x + 1)
        for _ in range(40):
            f(X)
        changes: list[Callable[[Any], Any]] = [
            lambda y: y.setflags(write=False),
            lambda y: y.resize(4, refcheck=False),
            lambda y: y.resize((2, 8), refcheck=False),
        ]
        if np.lib.NumpyVersion(np.__version__) < "2.5.0":
            changes.append(lambda y: setattr(y, "shape", (2, 4)))
            changes.append(lambda y: setattr(y, "shape", (8, 1)))
        for change in changes * 3:
            y = f(X)
            change(y)
            del y
            z = f(X)
            assert z.shape == X.shape and z.flags.writeable
            np.testing.assert_array_equal(z, X + 1)
        y = f(X)
        seen = weakref.ref(y)
        address = id(y)
        del y
        assert id(f(X)) != address or seen() is None
        y = f(X)
        memory = memoryview(y)
        del y
        f(X * 5), f(X * 6)
        np.testing.assert_array_equal(np.frombuffer(memory, "f4"), X + 1)


# --- reentrancy, threads and errors ---------------------------------------------------------------


@native_class
class Native(NativeCallable):
    """A callee whose program is a Python function of addresses."""

    __slots__ = ("__dict__", "native")

    def __init__(self, step: Callable[..., None], arena: int = 0, release: bool = True) -> None:
        self.native = NativeCalls()
        self.slow = 0
        callback = Callback(step, 3)
        host = HostProgram([Call(callback.address, 0, 1, (0, 1, 2))], 3, [callback])
        work = Work(
            run=host.interpreter,
            table=host.address,
            extent=0,
            slots=3,
            inputs=[0],
            outputs=[1],
            arena=(2, arena),
            constants=[],
            fills=[],
            lends=[],
            release=release,
            after=callback.reraise,
            keep=host,
        )
        args = (X,)
        parameters = Parameters(args, {}, tree.structure((args, {})), {}, [aval_of(X)])
        results = Results([aval_of(X)], tree.structure(0), False, [0])
        assert self.native.learn(self, parameters, results, work)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        self.slow += 1
        return self.slow


def as_floats(address: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_char * 32).from_address(address), np.float32)


@pytest.mark.parametrize("arena", [64, 1 << 20])
@pytest.mark.parametrize("release", [False, True])
def test_reentrant(arena: int, release: bool) -> None:
    depth = 0

    def step(source: int, target: int, temporary: int) -> None:
        nonlocal depth
        x = as_floats(source)
        as_floats(temporary)[:] = x
        if depth < 4:
            depth += 1
            inner = f(x + 1)
            np.testing.assert_array_equal(as_floats(temporary), x)
            as_floats(target)[:] = inner * 2
        else:
            as_floats(target)[:] = as_floats(temporary)

    f = Native(step, arena, release)
    for _ in range(3):
        depth = 0
        np.testing.assert_array_equal(f(X), (X + 4) * 16)
    assert f.slow == 0


def test_error_in_the_work() -> None:
    def step(_source: int, _target: int, _temporary: int) -> None:
        raise ZeroDivisionError("inside")

    f = Native(step)

    def call() -> None:
        with pytest.raises(ZeroDivisionError, match="inside"):
            f(X)

    assert max(grown_references(call, [X, f, X.dtype])) <= 1


def test_argument_vanishes_during_the_work() -> None:
    """What another thread drops while the GIL is released stays alive until the work is done."""
    box: list[Any] = []

    def step(source: int, target: int, _temporary: int) -> None:
        box.clear()
        gc.collect()
        as_floats(target)[:] = as_floats(source)

    f = Native(step)
    for k in range(20):
        box.append(np.full(8, k, np.float32))
        y = f(box[0])
        np.testing.assert_array_equal(y, np.full(8, k, np.float32))


def test_threads() -> None:
    big = np.ones((300, 300), np.float32)

    def fun(d: Any) -> Any:
        y = d["a"] @ d["b"]
        return {"y": (y @ y).sum(), "z": d["a"] * 2}

    f, errors = jit(fun), []
    expected = np.float32(300.0**5)

    def work(k: int) -> None:
        n = 300 if k % 2 else 200
        for _ in range(30):
            d = {"a": big[:n, :n].copy() if n == 300 else big[:n, :n], "b": big[:n, :n]}
            out = f(d)
            if not np.isclose(out["y"], expected * (n / 300) ** 5) or out["z"].shape != (n, n):
                errors.append((k, out["y"]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_mutation_by_another_thread() -> None:
    f = learnt(lambda d: d["a"].sum() + d["b"].sum(), {"a": X, "b": X})
    d = {"a": X, "b": X}
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            d["a"] = np.array(X)
            d["c"] = X
            del d["c"]

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(2000):
            with_error = outcome(f, (d,), {})
            assert with_error is RuntimeError or np.isclose(with_error, X.sum() * 2)
    finally:
        stop.set()
        thread.join()


# --- large results --------------------------------------------------------------------------------


def test_large_results_are_ordinary_arrays() -> None:
    x = np.ones(200_000)
    f = learnt(lambda x: (x + 1, x * 2), x)
    for _ in range(5):
        y, z = f(x)
        plain = np.empty(3)
        ours, usual = sys.getrefcount(y), sys.getrefcount(plain)
        assert y.flags.owndata and y.base is None and ours == usual
        assert y.ctypes.data % 64 == 0
        np.testing.assert_array_equal(y, 2.0)
        np.testing.assert_array_equal(z, 2.0)
        y[:] = 7.0
        y.resize(10, refcheck=False)
        np.testing.assert_array_equal(y, [7.0] * 10)
        y.resize(300_000, refcheck=False)
        np.testing.assert_array_equal(y[:10], 7.0)
        np.testing.assert_array_equal(y[10:], 0.0)
        np.testing.assert_array_equal(z, 2.0)


def test_memory_of_large_results_is_used_again() -> None:
    x = np.ones(200_000)
    f = learnt(lambda x: x + 1, x)
    y = f(x)
    seen = {y.ctypes.data}
    for _ in range(20):
        y = f(x)
        seen.add(y.ctypes.data)
    assert len(seen) <= 3


def test_many_sizes_of_large_results() -> None:
    """More blocks than the pool keeps, given back in any order and by other threads."""
    f = jit(lambda x: x + 1)
    sizes = [40_000 + 5_000 * k for k in range(12)]

    def work(seed: int) -> None:
        rng, kept = np.random.default_rng(seed), []
        for step in range(150):
            n = sizes[rng.integers(len(sizes))]
            kept.append(f(np.full(n, float(step))))
            if len(kept) > 20:
                rng.shuffle(kept)
                y = kept.pop()
                wrong.append(y[0] != y[-1] or y.min() != y.max())

    wrong: list[bool] = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong and not any(wrong)


def test_pool_is_no_part_of_other_arrays() -> None:
    f = learnt(lambda x: x + 1, np.ones(200_000))
    f(np.ones(200_000))
    handler = np._core.multiarray.get_handler_name
    assert handler(f(np.ones(200_000))) == "fgrad"
    assert handler(np.empty(200_000)) != "fgrad"
    assert handler(f(np.ones(200_000)) + 1) != "fgrad"


# --- when memory runs out -------------------------------------------------------------------------


@tree.dataclass
class Fields:
    w: Any
    b: Any


@pytest.mark.parametrize("recycle", [False, True])
def test_every_allocation_may_fail(recycle: bool) -> None:
    """The k-th allocation of a call fails, for all k: a MemoryError, and no reference is lost.

    Results are small: Python's own `ContextVar.set`, by which large ones get the pool's memory,
    crashes when it gets no memory itself.
    """
    failing = pytest.importorskip("_testcapi")
    big = np.ones((30, 30))

    def fun(d: Any, s: Any, n: Any, p: Any, f: Any, b: Any) -> Any:
        x = d["x"]
        parts = [x.sum(), (x > 0).any(), None]
        return {"y": x * s, "z": parts, "p": Pair(p.left + n, 1.0), "b": b + 1, "f": Fields(x, f.w)}

    with config.override(recycle=recycle):
        args = ({"x": X}, 2.0, 3, Pair(X, X), Fields(X, X), big.T)
        f, failures = learnt(fun, *args), 0
        for _ in range(40):
            f(*args)
        objects = [X, big, f, args, args[0], args[3], args[4]]
        before = [sys.getrefcount(x) for x in objects]
        for k in range(60):
            failing.set_nomemory(k, k + 1 + k % 3)
            try:
                f(*args)
            except MemoryError:
                failing.remove_mem_hooks()
                failures += 1
            finally:
                failing.remove_mem_hooks()
            out = f(*args)
            np.testing.assert_array_equal(out["y"], X * 2)
            np.testing.assert_array_equal(out["b"], 2.0)
        del out
        grown = [sys.getrefcount(x) - n for x, n in zip(objects, before, strict=True)]
    assert failures > 5
    assert max(np.abs(grown)) <= 1
