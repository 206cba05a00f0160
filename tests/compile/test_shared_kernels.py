"""Kernels of one structure share machine code: same bits as with code of their own, whatever sizes
came before."""

from __future__ import annotations

import ctypes
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from kernel_oracle import run_native
from op_cases import OP_CASES, OpCase
from random_kernels import KINDS, Maker
from sized_programs import arguments, random_function

import fgrad
from fgrad import jit, lax
from fgrad.base.sizes import NotShared
from fgrad.compile.cpu import shared
from fgrad.compile.cpu.emit.kernel import outer_range
from fgrad.compile.cpu.emit.numbers import Pattern, Register, pattern, structure
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import canonical, parse_kernel
from fgrad.compile.llvm import runtime
from fgrad.compile.schedule.order import schedule
from fgrad.config import config


def leaves(out: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in fgrad.tree.leaves(out)]


def assert_same_bits(fun: Callable[..., Any], calls: list[tuple[Any, ...]]) -> None:
    """Code that calls share gives the bits of code for each of them alone."""
    ours = jit(fun)
    got = [leaves(ours(*args)) for args in calls]
    with config.override(shared_kernels=False):
        alone = jit(fun)
        wanted = [leaves(alone(*args)) for args in calls]
    for args, a, b in zip(calls, got, wanted, strict=True):
        shapes = [np.shape(x) for x in leaves(args)]
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            assert x.tobytes() == y.tobytes(), f"other bits at {shapes}"


def compiled(run: Callable[[], Any]) -> bool:
    """Whether LLVM has worked meanwhile."""
    before = runtime.spent()["generate"]
    run()
    return runtime.spent()["generate"] > before


# --- all operations


def grown(x: Any, sizes: dict[int, int]) -> Any:
    """An argument with other sizes of its axes, its elements repeated."""
    if np.ndim(x) == 0:
        return x
    return np.resize(x, tuple([sizes[n] if n > 1 else n for n in x.shape])).astype(x.dtype)


@pytest.mark.parametrize("case", OP_CASES, ids=[case.name for case in OP_CASES])
def test_operations(case: OpCase) -> None:
    if case.known:
        pytest.skip("needs values")
    rng = np.random.default_rng(zlib.adler32(case.name.encode()))
    args = case.args(rng)
    lengths = sorted({n for x in args for n in np.shape(x) if n > 1})
    calls = []
    for size in rng.permutation([6, 21, 37]):
        sizes = {n: int(size) + 3 * k for k, n in enumerate(lengths)}
        bigger = tuple([grown(x, sizes) for x in args])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                jit(case.fun)(*bigger)
        except Exception:  # the case is for its own sizes alone
            continue
        calls.append(bigger)
    if not calls:
        pytest.skip("for its own sizes alone")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same_bits(case.fun, calls)


# --- random functions


@pytest.mark.parametrize("seed", range(40))
def test_random_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fun = random_function(seed)
    dtype = "fd"[seed % 2]
    sizes = [rng.integers(2, most, 2).tolist() for most in (9, 20, 40, 70, 150)]
    calls = [arguments(m, n, dtype, rng) for m, n in rng.permutation(sizes).tolist()]
    assert_same_bits(fun, calls)
    assert_same_bits(fgrad.grad(lambda *args: fun(*args)[1], argnums=(0, 1)), calls[:3])


@pytest.mark.parametrize("seed", range(6))
def test_other_histories_and_threads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sizes in another order, in a process that has seen nothing, on several threads."""
    rng = np.random.default_rng(seed)
    calls = [
        arguments(m, n, "d", rng) for m, n in [(50, 41), (77, 77), (300, 129), (1000, 300), (3, 9)]
    ]
    fun = random_function(100 + seed)
    found = []
    for threads in (1, 3, 2):
        monkeypatch.setattr(shared, "_FAMILIES", [shared._Families()])
        with config.override(num_threads=threads, cache=False):
            ours = jit(fun)
            order = rng.permutation(len(calls)).tolist()
            results = {k: [x.tobytes() for x in leaves(ours(*calls[k]))] for k in order}
        found.append([results[k] for k in range(len(calls))])
    assert found[0] == found[1] == found[2]


# --- sizes that matter


def chain(x: Any) -> Any:
    y = np.sin(x) * 2 + x
    return np.tanh(np.exp(-y * y) + x) * y + np.sqrt(np.abs(x) + 1)


def total(x: Any) -> Any:
    return np.sum(x * x), np.mean(x), np.max(x)


def windows(x: Any) -> Any:
    return np.sum(np.diff(x) ** 2) + np.sum(np.convolve(x, np.ones(3) / 3, "valid"))


def recurrence(x: Any) -> Any:
    return lax.scan(lambda h, v: (np.tanh(0.5 * h + v), h), x[0], x)


EDGES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129]
EDGES += [4095, 4096, 4097, 8192, 8193, 12345, 16383, 16384, 100_000]


@pytest.mark.parametrize("fun", [chain, total, windows, recurrence])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_sizes_at_the_edges_of_classes(fun: Any, dtype: str, rng: np.random.Generator) -> None:
    sizes = [n for n in EDGES if n > (0 if fun is chain else 4)]
    calls = [(rng.normal(size=n).astype(dtype),) for n in rng.permutation(sizes)]
    assert_same_bits(fun, calls)


def test_an_integer_and_a_float_that_are_equal_are_two_words() -> None:
    seen = [(77, 77.0), (78, 78.0)]
    found = pattern(seen, ["constant", "constant"], None, seen[1])
    assert found is not None and found.words == (0, 1)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 9, 10, 17, 33, 129])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_the_last_lanes_of_a_row(width: int, dtype: str, rng: np.random.Generator) -> None:
    """Products and sums are fused in all lanes: also where LLVM sees that one lane is left."""

    def sums(x: Any) -> Any:
        return np.var(x, axis=0), np.sum(x * x + 0.1 * x, axis=0), (x[0] * x[1] + x[2])[::-1]

    shapes = [(50, width + 32), (77, width + 64), *[(300, width)] * 12, (20, width)]
    assert_same_bits(sums, [(rng.normal(size=s).astype(dtype),) for s in shapes])


def test_ranks_and_dtypes_that_change(rng: np.random.Generator) -> None:
    shapes = [(30,), (31, 32), (33,), (2, 3, 35), (37, 38), (), (1, 40), (41, 1)]
    calls = [(rng.normal(size=s).astype(t),) for s in shapes for t in "fd"]
    assert_same_bits(lambda x: np.exp(x) / np.sum(np.exp(x)), calls)


# --- what is shared


def variance(x: Any) -> Any:
    return np.var(x)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


@pytest.mark.parametrize("fun", [chain, variance, softmax, fgrad.grad(variance)])
def test_a_third_size_is_data(fun: Any, rng: np.random.Generator) -> None:
    ours = jit(fun)
    with config.override(cache=False):
        for n in (1101, 1203):
            ours(rng.normal(size=n))
        assert not compiled(lambda: ours(rng.normal(size=1407)))


def test_products_of_other_sizes_are_data(rng: np.random.Generator) -> None:
    ours = jit(lambda a, b, v: (a @ b, a @ v))
    sizes = [(20, 30, 40), (21, 33, 45), (50, 70, 60)]
    with config.override(cache=False):
        for m, k, n in sizes[:2]:
            ours(rng.normal(size=(m, k)), rng.normal(size=(k, n)), rng.normal(size=k))
        m, k, n = sizes[2]
        args = rng.normal(size=(m, k)), rng.normal(size=(k, n)), rng.normal(size=k)
        assert not compiled(lambda: ours(*args))


def layer_loss(w: Any, x: Any) -> Any:
    return np.mean(np.tanh(x @ w), axis=0) @ np.ones(64)


def network_loss(layers: Any, x: Any) -> Any:
    for w in layers:
        x = np.maximum(x @ w, 0)
    return np.mean(x * x)


def attention_loss(x: Any) -> Any:
    p = np.exp(x @ x.swapaxes(1, 2) / 6.0)
    return np.sum((p / np.sum(p, axis=-1, keepdims=True) @ x) ** 2)


def normalised(x: Any) -> Any:
    return np.sum(((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)) ** 3)


FEW = {
    "chain": (chain, lambda n: (n,), 5),
    "mean": (total, lambda n: (n,), 6),
    "softmax": (softmax, lambda n: (n,), 8),
    "running total": (np.cumsum, lambda n: (n,), 2),
    "sums of columns": (lambda x: np.sum(np.tanh(x), 0), lambda n: (n, 33), 6),
    "windows": (windows, lambda n: (n + 3,), 9),
    "normalisation": (fgrad.grad(normalised), lambda n: (n, 64), 8),
    "layer": (fgrad.value_and_grad(partial(layer_loss, np.ones((32, 64)))), lambda n: (n, 32), 8),
    "recurrence": (fgrad.grad(lambda x: np.sum(recurrence(x)[1])), lambda n: (n,), 8),
    "network": (
        fgrad.value_and_grad(partial(network_loss, [np.ones((40, 96)), np.ones((96, 10))])),
        lambda n: (n, 40),
        12,
    ),
    "attention": (fgrad.grad(attention_loss), lambda n: (4, 2 + n % 250, 32), 13),
    "transpose": (lambda x: x.T * 2 + 1, lambda n: (n, 50), 10),
}


@pytest.mark.parametrize("name", FEW)
@pytest.mark.filterwarnings("ignore::fgrad.errors.RetraceWarning")
def test_few_compilations_over_all_sizes(name: str) -> None:
    rng = np.random.default_rng(0)
    fun, shape, most = FEW[name]
    sizes = np.unique(np.exp(rng.uniform(np.log(2), np.log(4096), 48)).astype(int))
    ours = jit(fun)
    with config.override(cache=False):
        calls = [rng.normal(size=shape(int(n))) for n in rng.permutation(sizes)]
        count = sum([compiled(lambda x=x: ours(x)) for x in calls])
    assert count <= most


@pytest.mark.filterwarnings("ignore::fgrad.errors.RetraceWarning")
def test_many_sizes_stay_native() -> None:
    ours = jit(lambda x: x * 2)
    for n in range(100):
        for _ in range(3):
            ours(np.ones(n + 1))
    assert len(ours.native.signatures) == 100


# --- kernels with every number in a register


REFUSED = 0.2  # the largest part of random kernels that may need code of their own


def shared_run(kernel: Kernel, arrays: list[np.ndarray]) -> bool:
    """Run a scheduled kernel whose numbers are all data; False if such code cannot be written."""
    renamed = canonical(kernel)
    text, numbers, _ = structure(renamed)
    words = Pattern(tuple(range(len(numbers))), numbers)
    table = np.array(words.table(numbers), np.int64)
    source = shared._shared_source(text, renamed, words)
    try:
        source.emit("probe")
    except NotShared:
        return False
    function = runtime.KernelFunction(runtime.build([source])[0])
    pointers = (ctypes.c_void_p * (len(arrays) + 1))(*[x.ctypes.data for x in [*arrays, table]])
    function(pointers, 0, outer_range(kernel).extent)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels_read_all_their_numbers(kind: str) -> None:
    refused, count = 0, 40
    for seed in range(1000, 1000 + count):
        maker = Maker(seed)
        kernel = schedule(KINDS[kind](maker))
        own, ours = ([x.copy() for x in maker.arrays] for _ in range(2))
        run_native(kernel, own)
        if not shared_run(kernel, ours):
            refused += 1
            continue
        for a, b in zip(own, ours, strict=True):
            assert a.tobytes() == b.tobytes(), f"seed {seed}"
    assert refused <= REFUSED * count


def test_a_register_has_no_arithmetic() -> None:
    number = Register("%number0", 7)
    for use in (lambda: number + 1, lambda: 2 * number, lambda: number < 8, lambda: range(number)):
        with pytest.raises(NotShared):
            use()


def test_what_cannot_be_shared_has_its_own_code() -> None:
    text = """kernel k(b0: out f64[{size}])
  reduce a0 in 4:
    %0 = index f64 {step}*a0
    store b0[{step}*a0] %0
"""
    results = []
    for step in (7, 9, 11):
        kernel = schedule(parse_kernel(text.format(size=3 * step + 1, step=step)))
        ((source, table),) = shared.shared_sources([kernel])
        out = np.zeros(3 * step + 1)
        pointers = (ctypes.c_void_p * 1)(out.ctypes.data)
        runtime.KernelFunction(runtime.build([source])[0])(pointers, 0, 1)
        results.append((table, out[::step].tolist()))
    assert results == [((), [0.0, 1.0 * n, 2.0 * n, 3.0 * n]) for n in (7, 9, 11)]
