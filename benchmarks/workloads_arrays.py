"""Workloads on arrays: elementwise chains, reductions, products, sorts.  See `harness.Workload`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import Cost, Workload
from libraries import Library

import fgrad

Call = Callable[[], Any]


def normal(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    """Random numbers, the same for every library."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def jitted(lib: Library, fun: Callable[..., Any], *args: Any) -> Call:
    """A call of the compiled function on arrays that the library holds."""
    compiled = lib.api.jit(fun)
    held = lib.put(args)
    return lambda: compiled(*held)


# --- calls ----------------------------------------------------------------------------------------


def call_arrays(count: int) -> Callable[[Library], Call]:
    """The overhead of a call: the first of `count` arrays of 8 floats, plus one."""

    def make(lib: Library) -> Call:
        return jitted(lib, lambda *xs: xs[0] + 1.0, *(normal(8) for _ in range(count)))

    return make


SIX = ("w1", "b1", "w2", "b2", "w3", "b3")


def call_tree(make: Callable[[], Any]) -> Callable[[Library], Call]:
    """The same for containers of such arrays: the first plus the last one."""

    def call(lib: Library) -> Call:
        def f(params: Any) -> Any:
            leaves = fgrad.tree.leaves(params)
            return leaves[0] + leaves[-1]

        return jitted(lib, f, make())

    return call


def layers(names: Sequence[str]) -> dict[str, np.ndarray]:
    """A dictionary of small arrays."""
    return {name: normal(8) for name in names}


# --- elementwise ----------------------------------------------------------------------------------


def multiply_add(lib: Library) -> Call:
    """Three arrays in, one out: memory bandwidth."""
    arrays = [normal(10_000_000, dtype=np.float32, seed=k) for k in range(3)]
    return jitted(lib, lambda a, b, c: a * b + c, *arrays)


def gelu(dtype: Any) -> Callable[[Library], Call]:
    """The tanh form of gelu."""

    def make(lib: Library) -> Call:
        def f(x: Any) -> Any:
            return 0.5 * x * (1.0 + lib.np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

        return jitted(lib, f, normal(1_000_000, dtype=dtype))

    return make


def black_scholes(lib: Library) -> Callable[..., Any]:
    """The price of European calls."""

    def cdf(x: Any) -> Any:
        return 0.5 * (1.0 + lib.erf(x * 0.7071067811865476))

    def price(spot: Any, strike: Any, time: Any, rate: Any, vol: Any) -> Any:
        spread = vol * lib.np.sqrt(time)
        d1 = (lib.np.log(spot / strike) + (rate + 0.5 * vol * vol) * time) / spread
        return spot * cdf(d1) - strike * lib.np.exp(-rate * time) * cdf(d1 - spread)

    return price


def options(count: int) -> list[np.ndarray]:
    """Spot, strike, time, rate and volatility."""
    rng = np.random.default_rng(0)
    ranges = ((80, 120), (80, 120), (0.2, 2.0), (0.01, 0.05), (0.1, 0.4))
    return [rng.uniform(low, high, count) for low, high in ranges]


def prices(lib: Library) -> Call:
    """A million prices."""
    return jitted(lib, black_scholes(lib), *options(1_000_000))


def greeks(lib: Library) -> Call:
    """All five first derivatives of a million prices."""
    price = black_scholes(lib)

    def total(*args: Any) -> Any:
        return lib.np.sum(price(*args))

    return jitted(lib, lib.api.grad(total, argnums=(0, 1, 2, 3, 4)), *options(1_000_000))


# --- rows and reductions --------------------------------------------------------------------------


def softmax(lib: Library) -> Call:
    """Rows of 1024."""

    def f(x: Any) -> Any:
        e = lib.np.exp(x - lib.np.max(x, axis=-1, keepdims=True))
        return e / lib.np.sum(e, axis=-1, keepdims=True)

    return jitted(lib, f, normal(4096, 1024, dtype=np.float32))


def logsumexp(lib: Library) -> Call:
    """Rows of 1024."""

    def f(x: Any) -> Any:
        top = lib.np.max(x, axis=-1, keepdims=True)
        return lib.np.log(lib.np.sum(lib.np.exp(x - top), axis=-1)) + top[:, 0]

    return jitted(lib, f, normal(4096, 1024, dtype=np.float32))


def layer_norm(lib: Library, x: Any, gain: Any, bias: Any) -> Any:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    centred = x - lib.np.mean(x, axis=-1, keepdims=True)
    variance = lib.np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / lib.np.sqrt(variance + 1e-5) * gain + bias


def norm_forward(lib: Library) -> Call:
    """4096 rows of 768."""
    args = [normal(4096, 768, dtype=np.float32), *(normal(768, dtype=np.float32) for _ in "gb")]
    return jitted(lib, lambda x, g, b: layer_norm(lib, x, g, b), *args)


def norm_gradient(lib: Library) -> Call:
    """With respect to rows, gain and bias."""
    x, ct = (normal(4096, 768, dtype=np.float32, seed=k) for k in range(2))
    gain, bias = (normal(768, dtype=np.float32, seed=k) for k in (2, 3))

    def f(x: Any, gain: Any, bias: Any, ct: Any) -> Any:
        return lib.np.sum(layer_norm(lib, x, gain, bias) * ct)

    return jitted(lib, lib.api.grad(f, argnums=(0, 1, 2)), x, gain, bias, ct)


def total(lib: Library) -> Call:
    """Ten million numbers."""
    return jitted(lib, lambda x: lib.np.sum(x), normal(10_000_000, dtype=np.float32))


def running_total(lib: Library) -> Call:
    """A million numbers."""
    return jitted(lib, lambda x: lib.np.cumsum(x), normal(1_000_000, dtype=np.float32))


def sort(lib: Library) -> Call:
    """A million numbers."""
    return jitted(lib, lambda x: lib.np.sort(x), normal(1_000_000, dtype=np.float32))


def argsort(lib: Library) -> Call:
    """A million numbers."""
    return jitted(lib, lambda x: lib.np.argsort(x), normal(1_000_000, dtype=np.float32))


def segment_sum(lib: Library) -> Call:
    """A million numbers into a thousand sums."""
    x = normal(1_000_000)
    segments = np.random.default_rng(1).integers(0, 1000, 1_000_000)

    def f(x: Any, segments: Any) -> Any:
        return lib.add_at(lib.np.zeros_like(x, shape=1000), segments, x)

    return jitted(lib, f, x, segments)


def table() -> tuple[np.ndarray, np.ndarray]:
    """Rows of 256 for 50,000 words, and a batch of 8192 words."""
    return normal(50_000, 256, dtype=np.float32), np.random.default_rng(1).integers(0, 50_000, 8192)


def embedding(lib: Library) -> Call:
    """Rows of a table."""
    return jitted(lib, lambda rows, words: rows[words], *table())


def embedding_gradient(lib: Library) -> Call:
    """The sums of a batch's rows that are one word's, in a table of 5,000."""
    rows, words = table()

    def f(rows: Any, words: Any, ct: Any) -> Any:
        return lib.np.sum(rows[words] * ct)

    return jitted(lib, lib.api.grad(f), rows[:5000], words % 5000, rows[-8192:])


def highest(lib: Library) -> Call:
    """The ten largest of each of 1,000 rows of 1,000."""

    def f(x: Any) -> Any:
        return -lib.np.sort(-x, axis=1)[:, :10] if lib.name == "reference" else top(x, 10)[0]

    top = getattr(getattr(lib.api, "lax", None), "top_k", None)
    return jitted(lib, f, normal(1000, 1000, dtype=np.float32))


def search(lib: Library) -> Call:
    """A million numbers in a table of ten thousand."""
    edges = np.sort(normal(10_000, dtype=np.float32))
    x = normal(1_000_000, dtype=np.float32, seed=1)
    return jitted(lib, lambda e, x: lib.np.searchsorted(e, x), edges, x)


# --- products -------------------------------------------------------------------------------------


def product(n: int, dtype: Any) -> Callable[[Library], Call]:
    """Two square matrices."""

    def make(lib: Library) -> Call:
        args = [normal(n, n, dtype=dtype, seed=k) for k in range(2)]
        return jitted(lib, lambda a, b: a @ b, *args)

    return make


def products(lib: Library) -> Call:
    """256 small products."""
    args = [normal(256, 64, 64, dtype=np.float32, seed=k) for k in range(2)]
    return jitted(lib, lambda a, b: a @ b, *args)


def bodies(lib: Library) -> Call:
    """The forces between 1,024 bodies, all pairs."""
    x, mass = normal(1024, 3), np.abs(normal(1024, seed=1))

    def f(x: Any, mass: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        r2 = lib.np.sum(d * d, axis=-1) + 1e-3
        return lib.np.sum(d * (mass * r2**-1.5)[:, :, None], axis=1)

    return jitted(lib, f, x, mass)


# What workloads must do at least.  A sort is one by three digits of 11 bits, after a count.
ROWS = 4096 * 1024 * 4  # bytes of 4096 rows of 1024
DIGITS = "scattering numbers by a digit takes several cycles each, more than to move or look up one"
WORDS = 8192 * 256 * 4  # bytes of a batch's rows

CALLS = (
    Workload("call, 1 array of 8 floats", 0.03, call_arrays(1)),
    Workload("call, 3 arrays of 8 floats", 0.03, call_arrays(3)),
    Workload("call, 10 arrays of 8 floats", 0.03, call_arrays(10)),
    Workload("call, dict of 6 arrays", 0.03, call_tree(lambda: layers(SIX))),
    Workload("call, list of 3 dicts of 2", 0.03, call_tree(lambda: [layers("wb")] * 3)),
    Workload("call, tuple of 3 dicts of 6", 0.05, call_tree(lambda: (layers(SIX),) * 3)),
    Workload("call, a tree of 20 arrays", 0.1, call_tree(lambda: [layers("wb")] * 10)),
)

ARRAYS = (
    Workload("a*b+c, 10M f32", 0.5, multiply_add, torch=True, cost=Cost(12e7, 4e7, single=True)),
    Workload(
        "gelu, 1M f32",
        0.5,
        gelu(np.float32),
        torch=True,
        cost=Cost(4e6, 4e6, functions=1e6, single=True),
    ),
    Workload("gelu, 1M f64", 0.5, gelu(np.float64), torch=True, cost=Cost(8e6, 8e6, functions=1e6)),
    Workload(
        "Black-Scholes price, 1M f64",
        0.15,
        prices,
        torch=True,
        cost=Cost(4e7, 8e6, functions=4e6, divisions=3e6),
    ),
    Workload(
        "Black-Scholes, five Greeks, 1M f64",
        0.1,
        greeks,
        torch=True,
        cost=Cost(4e7, 4e7, functions=5e6, divisions=3e6),
    ),
    Workload(
        "softmax 4096x1024 f32",
        0.4,
        softmax,
        torch=True,
        cost=Cost(ROWS, ROWS, functions=ROWS / 4, single=True),
    ),
    Workload(
        "logsumexp 4096x1024 f32",
        0.5,
        logsumexp,
        torch=True,
        cost=Cost(ROWS, functions=ROWS / 4, single=True),
    ),
    Workload(
        "layernorm 4096x768 f32", 0.4, norm_forward, torch=True, cost=Cost(ROWS * 0.75, ROWS * 0.75)
    ),
    Workload(
        "layernorm gradient 4096x768 f32",
        0.12,
        norm_gradient,
        torch=True,
        cost=Cost(ROWS * 1.5, ROWS * 0.75),
    ),
    Workload("sum, 10M f32", 0.6, total, torch=True, cost=Cost(4e7)),
    Workload("cumsum, 1M f32", 0.06, running_total, cost=Cost(4e6, 4e6)),
    Workload("sort, 1M f32", 0.02, sort, cost=Cost(16e6, 12e6, lookups=3e6, reason=DIGITS)),
    Workload(
        "argsort, 1M f32",
        0.08,
        argsort,
        exact=False,
        cost=Cost(40e6, 36e6, lookups=3e6, reason=DIGITS),
    ),
    Workload("segment sum, 1M f64", 0.4, segment_sum, cost=Cost(16e6, lookups=1e6)),
    Workload("embedding rows, 8192 of 50000x256 f32", None, embedding, cost=Cost(WORDS, WORDS)),
    Workload(
        "embedding gradient, 8192 to 5000x256 f32",
        None,
        embedding_gradient,
        cost=Cost(WORDS, 5000 * 1024),
    ),
    Workload("searchsorted, 1M in 10k f32", None, search, cost=Cost(4e6, 8e6, lookups=14e6)),
    Workload(
        "top 10 of rows, 1000x1000 f32",
        None,
        highest,
        cost=Cost(
            4e6, reason="each row is read twice, and nobody foresees which numbers are inserted"
        ),
    ),
    Workload(
        "matmul 1024, f32",
        0.95,
        product(1024, np.float32),
        torch=True,
        cost=Cost(2 * 4 * 1024**2, 4 * 1024**2, flops=2 * 1024**3, single=True),
    ),
    Workload(
        "matmul 1024, f64",
        0.95,
        product(1024, np.float64),
        torch=True,
        cost=Cost(2 * 8 * 1024**2, 8 * 1024**2, flops=2 * 1024**3),
    ),
    Workload(
        "matmul 64, f32",
        0.1,
        product(64, np.float32),
        torch=True,
        cost=Cost(flops=2 * 64**3, single=True),
    ),
    Workload(
        "256 matmuls 64, f32",
        0.5,
        products,
        torch=True,
        cost=Cost(8 * 1024**2, 4 * 1024**2, flops=512 * 64**3, single=True),
    ),
    Workload(
        "N-body forces, 1024 bodies f64",
        0.1,
        bodies,
        cost=Cost(flops=20 * 1024**2, divisions=2 * 1024**2),
    ),
)
