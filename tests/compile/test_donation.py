"""Donated arguments: their memory holds results, and nothing else is ever written."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE, counted, learnt

import fgrad
from fgrad.compile.jit.call import executable_of
from fgrad.config import config

N = 1 << 16


def large(k: int = 0) -> np.ndarray:
    """An array that is worth donating."""
    return np.arange(k, k + N, dtype=np.float64)


def test_result_is_written_into_a_donated_argument() -> None:
    step = fgrad.jit(lambda w, g: w - 0.5 * g, donate_argnums=0)
    w, g = large(), large(1)
    expected = w - 0.5 * g
    out = step(w, g)
    assert out is w
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(g, large(1))


def test_trees_of_parameters_stay_in_place() -> None:
    @fgrad.jit
    def loss(params: Any, x: Any) -> Any:
        return np.sum(np.tanh(x * params["w"]) ** 2) + np.sum(params["b"] ** 2)

    def update(params: Any, x: Any) -> Any:
        grads = fgrad.grad(loss)(params, x)
        return fgrad.tree.map(lambda p, g: p - 0.01 * g, params, grads)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 256))
    params = {"w": rng.normal(size=(256, 256)), "b": rng.normal(size=256)}
    expected = fgrad.jit(update)(params, x)
    new = fgrad.jit(update, donate_argnums=0)(params, x)
    assert new["w"] is params["w"] and new["b"] is params["b"]
    np.testing.assert_array_equal(new["w"], expected["w"])
    np.testing.assert_array_equal(new["b"], expected["b"])


@pytest.mark.parametrize("share", ["same", "view", "base", "readonly"])
def test_memory_that_others_use_is_not_written(share: str) -> None:
    step = fgrad.jit(lambda w, g: (w - 0.5 * g, w[0] + g[1]), donate_argnums=0)
    base = large()
    w = {"same": base, "view": base, "base": base[:], "readonly": base}[share]
    g = {"same": base, "view": base[::-1], "base": large(3), "readonly": large(3)}[share]
    w.flags.writeable = share != "readonly"
    expected = w - 0.5 * g, w[0] + g[1]
    out = step(w, g)
    assert out[0] is not w
    np.testing.assert_array_equal(out[0], expected[0])
    np.testing.assert_array_equal(base, large())
    assert out[1] == expected[1]


def test_an_argument_that_is_read_later_is_not_overwritten() -> None:
    functions = [
        lambda w: (np.sin(w), np.cumsum(w)[::-1] * w),
        lambda w: (w * 2, w),
        lambda w: (w, w),
        lambda w: (np.sort(w)[::-1] + w, w + np.sum(w)),
        lambda w: (w[::-1] * 1.0, w * 3),
        lambda w: (np.roll(w, 1), w.reshape(256, -1).T.ravel() + 1),
    ]
    for function in functions:
        expected = function(large())
        out = fgrad.jit(function, donate_argnums=0)(large())
        for a, b in zip(out, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_without_donation_nothing_is_written() -> None:
    w = large()
    fgrad.jit(lambda w: w * 2)(w)
    np.testing.assert_array_equal(w, large())


def test_reported_memory_is_what_is_allocated() -> None:
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(64, 64)) for _ in range(6)]

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = np.tanh(x @ w)
        return np.sum(x * x)

    x = rng.normal(size=(512, 64))
    step = fgrad.grad(loss)
    memory = fgrad.inspect(step)(params, x).memory
    program = fgrad.make_program(step)(params, x)
    arrays = [*params, x]
    executable = executable_of(program)
    executable(arrays)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    outs = executable(arrays)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert len(outs) == 6
    assert memory.results == sum([w.nbytes for w in params])
    # The arena of the thread's last call was used again.
    assert memory.results <= peak <= memory.results + memory.temporaries + 20_000
    assert memory.temporaries < 10 * x.nbytes
    assert memory.peak == sum(memory)


def test_elementwise_chains_need_no_temporaries() -> None:
    memory = fgrad.inspect(lambda x: np.exp(np.sin(x) * 2) / (1 + x * x))(large()).memory
    assert memory.temporaries == 0


def test_a_product_that_is_only_shifted_needs_no_temporaries() -> None:
    x = large().reshape(256, 256) / N

    def f(x: Any) -> Any:
        return np.tanh(np.exp(x @ x) @ x + 1)

    memory = fgrad.inspect(f)(x).memory
    assert memory.temporaries == x.nbytes  # of the first product; the second is in the result
    np.testing.assert_allclose(fgrad.jit(f)(x), f(x), rtol=1e-10)


def test_donated_memory_is_not_counted_twice() -> None:
    step = fgrad.jit(lambda w, g: w - 0.5 * g, donate_argnums=0)
    memory = fgrad.inspect(step)(large(), large()).memory
    assert memory.results == 0 and memory.arguments == 2 * N * 8


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 800)).astype(np.float32)

    def f(x: Any) -> Any:
        y = np.tanh(x @ x.T)
        return np.sum(y), np.sum(y, axis=0), np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True)

    jitted = fgrad.jit(f)
    results = []
    for n in (1, 2, 3, 2):
        with config.override(num_threads=n):
            results.append(jitted(x))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert fgrad.explain_retrace(jitted).startswith("f was traced 3 times")


# --- calls that are made natively -----------------------------------------------------------------


def adam(params: Any, moments: Any, x: Any) -> Any:
    moments = fgrad.tree.map(lambda m, p: 0.9 * m + p * x, moments, params)
    return fgrad.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments


@NEEDS_NATIVE
def test_native_calls_donate() -> None:
    def state() -> tuple[Any, Any]:
        params = {"w": large(), "b": np.arange(3.0), "more": [large(5).reshape(256, -1).copy()]}
        return params, fgrad.tree.map(np.ones_like, params)

    step, plain = fgrad.jit(adam, donate_argnums=(0, 1)), fgrad.jit(adam)
    params, moments = state()
    expected = state()
    held = fgrad.tree.leaves((params, moments))
    for k in range(6):
        (params, moments), calls = counted(step, params, moments, 0.5)
        expected = plain(*expected, 0.5)
        found = fgrad.tree.leaves((params, moments))
        for a, b in zip(found, fgrad.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
        assert all(a is b for a, b in zip(found, held, strict=True))
        assert calls == int(k < 2)
    before = [sys.getrefcount(x) for x in held]
    for _ in range(50):
        params, moments = step(params, moments, 0.5)
    assert [sys.getrefcount(x) for x in held] == before


@NEEDS_NATIVE
def test_native_calls_do_not_write_shared_memory() -> None:
    step = learnt(fgrad.jit(lambda w, g: w - 0.5 * g, donate_argnums=0), large(), large(1))
    base = np.arange(-N, 3 * N, dtype=np.float64)
    read_only = large()
    read_only.flags.writeable = False
    square = large().reshape(256, -1)
    pairs = {
        "same": (base[:N], base[:N]),
        "one array": (*[large()] * 2,),
        "view": (base[N : 2 * N], large()),
        "overlap": (base[:N], base[5 : N + 5]),
        "read-only": (read_only, large(3)),
        "strided": (np.repeat(large(), 2)[::2], large(3)),
        "reshaped": (square.reshape(-1), large(3)),
        "frombuffer": (np.frombuffer(bytes(8 * N)), large(3)),
    }
    for name, (w, g) in pairs.items():
        copies, memory = (w.copy(), g.copy()), base.copy()
        out, calls = counted(step, w, g)
        assert calls == 0, name
        assert out is not w and not np.shares_memory(out, w) and not np.shares_memory(out, g), name
        np.testing.assert_array_equal(out, copies[0] - 0.5 * copies[1])
        np.testing.assert_array_equal(w, copies[0])
        np.testing.assert_array_equal(g, copies[1])
        np.testing.assert_array_equal(base, memory)
    w, g = large(), base[:N]  # only the donated one must be alone
    assert step(w, g) is w


def test_a_view_of_the_donated_argument_is_another_one() -> None:
    """An array is written only if no other argument reads its memory."""
    step = fgrad.jit(lambda w, part: (w * 2.0, np.sum(part)), donate_argnums=0)
    for _ in range(4):
        w = large()
        out, total = step(w, w[5:500])
        assert out is not w and total == large()[5:500].sum()
        np.testing.assert_array_equal(w, large())
        w, part = large(), large()[5:500].copy()
        out, total = step(w, part)
        assert out is w and total == part.sum()


def ragged_product(z: Any, a: Any, b: Any) -> Any:
    z += np.tanh(a) @ b
    return z


def ragged_sum(z: Any, a: Any, b: Any) -> Any:
    return z * 2 + a @ b


def turned(z: Any, a: Any, b: Any) -> Any:
    z[...] = z + (b.T @ a.T).T * 2
    return z


def symmetric(z: Any, _a: Any, _b: Any) -> Any:
    z[: min(z.shape), : min(z.shape)] += z[: min(z.shape), : min(z.shape)].T
    return z


@pytest.mark.parametrize("fun", [ragged_product, ragged_sum, turned, symmetric])
@pytest.mark.parametrize(
    "shape", [(17, 9, 33), (25, 10, 20), (131, 10, 10), (61, 5, 70), (1000, 4, 97)], ids=str
)
def test_last_tiles_overlap_what_is_written(
    fun: Any, shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    """Tiles that overlap write some elements twice: never from what they have written."""
    m, k, n = shape
    z, a, b = rng.normal(size=(m, n)), rng.normal(size=(m, k)), rng.normal(size=(k, n))
    expected = fun(z.copy(), a, b)
    for donated in ((), (0,)):
        step = fgrad.jit(fun, donate_argnums=donated)
        for _ in range(3):
            np.testing.assert_allclose(step(z.copy(), a, b), expected, rtol=1e-10, atol=1e-10)
