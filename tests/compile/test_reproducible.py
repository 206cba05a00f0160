"""Which results are the same bits: over calls, threads, sizes and places (docs/numbers.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sources import ROOT

import fgrad
from fgrad import config, lax, nn


def numbers(*shape: int) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(1, count + 1) * 0.6180339887498949 % 1.0 * 4 - 2).reshape(shape)


X = numbers(300_001)
K = (np.abs(X) * 50).astype(int)
M, W = numbers(300, 400), numbers(400, 200)
S = M[:, :300] @ M[:, :300].T + 300 * np.eye(300)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: np.sin(x) * np.exp(-x * x) + np.tanh(x), (X,)),
    "sum": (np.sum, (X,)),
    "sum of float32": (np.sum, (X.astype(np.float32),)),
    "sums of rows": (lambda m: m.sum(1), (M,)),
    "sums of columns": (lambda m: m.sum(0), (M,)),
    "variance": (np.var, (X,)),
    "cumulative": (np.cumsum, (X,)),
    "softmax": (lambda m: nn.softmax(m), (M,)),
    "dot": (np.dot, (X, X)),
    "product": (lambda m, w: m @ w, (M, W)),
    "product with a vector": (lambda m, w: m @ w[:, 0], (M, W)),
    "gradient": (fgrad.grad(lambda w, m: np.sum(np.tanh(m @ w) ** 2)), (W, M)),
    "segments": (lambda x: lax.segment_sum(x, K, 100), (X,)),
    "gradient of a look-up": (fgrad.grad(lambda t: np.sum(np.sin(t[K]) * X)), (numbers(101),)),
    "solve": (np.linalg.solve, (S, S[0])),
    "eigenvectors": (np.linalg.eigh, (S[:100, :100],)),
    "fft": (np.fft.fft, (X[:100_003],)),
    "loop": (
        lambda x: lax.scan(lambda c, v: (0.9 * c + np.sin(v), c), 0.0, x)[1], (X[:9_999],)),
    "images": (
        lambda x, k: lax.conv(x, k, (1, 1), "SAME"), (numbers(4, 8, 40, 40), numbers(8, 8, 3, 3))),
}  # fmt: skip


def bits(out: Any) -> list[bytes]:
    return [np.asarray(y).tobytes() for y in fgrad.tree.leaves(out)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_change_no_bit(name: str) -> None:
    f, args = PROGRAMS[name]
    found = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            g = fgrad.jit(lambda *args: f(*args))
            found += [bits(g(*args)) for _ in range(3)]
    assert all([one == found[0] for one in found])


# Functions of one element each: neither its neighbours nor its place matter.
OF_ELEMENTS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in (
        "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "arctan", "sinh", "tanh", "sqrt",
        "cbrt", "exp2", "log2", "arcsinh", "reciprocal", "square")},
    "power": lambda x: np.abs(x) ** 1.7,
    "erf": fgrad.scipy.special.erf,
    "gamma": fgrad.scipy.special.gamma,
    "several": lambda x: np.sin(x) * np.exp(-x * x) + np.tanh(x) / (1 + x * x),
    "gradient": fgrad.grad(lambda x: np.sum(np.sin(x * x) * np.exp(x))),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OF_ELEMENTS)
def test_an_element_is_the_same_at_any_place(name: str, dtype: type) -> None:
    f, x = fgrad.jit(OF_ELEMENTS[name]), numbers(1_003).astype(dtype)
    whole = f(x)
    views: dict[str, tuple[Any, Any]] = {
        "shorter": (f(x[:5]), whole[:5]),
        "elsewhere": (f(x[7:]), whole[7:]),
        "reversed": (f(x[::-1].copy())[::-1], whole),
        "strided": (f(x[::3]), whole[::3]),
        "a matrix": (f(x[:1_000].reshape(50, 20)).ravel(), whole[:1_000]),
        "alone": (np.array([f(v) for v in x[:4]]), whole[:4]),
    }
    for view, (found, expected) in views.items():
        same = np.signbit(found) == np.signbit(expected)
        assert np.all(np.isnan(found) | same), view
        np.testing.assert_array_equal(found, expected, err_msg=view)


def test_random_numbers_are_the_same_everywhere() -> None:
    key = fgrad.random.key(7)
    draws = fgrad.random.bits(key, (4,), np.uint32)
    assert (
        fgrad.jit(lambda k: fgrad.random.bits(k, (4,), np.uint32))(key).tolist() == draws.tolist()
    )


# --- other processes ------------------------------------------------------------------------------

SCRIPT = """
import hashlib, sys
import numpy as np
import fgrad
from fgrad import lax, random

x = np.arange(1, 20001) * 0.6180339887498949 % 1.0 * 4 - 2
m = x[:10000].reshape(100, 100)
made = {
    "sum": fgrad.jit(lambda x: np.sum(np.sin(x) * np.exp(-x * x)))(x),
    "gradient": fgrad.jit(fgrad.grad(lambda m: np.sum(np.tanh(m @ m) ** 2)))(m),
    "loop": fgrad.jit(lambda x: lax.scan(lambda c, v: (0.9 * c + v, c), 0.0, x)[1])(x),
    "prompt": fgrad.grad(lambda d: np.sum(d["b"] * np.sin(d["a"])))({"b": x, "a": x}),
    "draws": random.normal(random.key(3), (100,)),
    "choice": random.permutation(random.key(4), 50),
}
bits = b"".join([np.asarray(y).tobytes() for y in fgrad.tree.leaves(made)])
print(hashlib.sha256(bits).hexdigest())
"""


@pytest.mark.slow
def test_bits_are_the_same_in_every_process(tmp_path: Path) -> None:
    """With an empty cache and a filled one, another hash seed, other threads."""
    found = set()
    for cache, seed, threads in (("a", "0", "1"), ("a", "1", "2"), ("b", "2", "2")):
        env = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path / cache), "PYTHONHASHSEED": seed,
               "FGRAD_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1


DRAWN: dict[str, tuple[Callable[..., Any], list[float]]] = {  # by seed 0
    "bits": (lambda k: fgrad.random.bits(k, (3,)), [4070199207, 4202968722, 1427181096]),
    "uniform": (lambda k: fgrad.random.uniform(k, (2,)), [0.9476671020112297, 0.9785799121012424]),
    "uniform of float32": (
        lambda k: fgrad.random.uniform(k, (2,), np.float32),
        [0.9476670622825623, 0.9785798788070679],
    ),
    "integers": (lambda k: fgrad.random.randint(k, (4,), 0, 1000), [947, 978, 332, 468]),
    "coins": (lambda k: fgrad.random.bernoulli(k, 0.5, (6,)), [0, 0, 1, 1, 0, 1]),
    "permutation": (lambda k: fgrad.random.permutation(k, 6), [5, 2, 3, 4, 0, 1]),
    "split": (
        lambda k: fgrad.random.bits(fgrad.random.split(k)[1], (2,), np.uint64),
        [2539937682972238247, 10920361450294431026],
    ),
    "folded": (
        lambda k: fgrad.random.bits(fgrad.random.fold_in(k, 5), (2,)),
        [2098257721, 107728982],
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_are_those_that_were_written_down(name: str) -> None:
    draw, expected = DRAWN[name]
    for f in (draw, fgrad.jit(draw)):
        assert np.asarray(f(fgrad.random.key(0))).tolist() == expected  # on every machine
