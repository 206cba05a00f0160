"""What a new size costs: sizes that a library has not seen, one after another, each library in a
process of its own.

    python benchmarks/sizes.py                        all cases, the libraries that are installed
    python benchmarks/sizes.py --cases chain,mlp      some of them
    python benchmarks/sizes.py --libraries fgrad,jax

The table has the median CPU milliseconds of a first call with a size, of the 4th to the 20th size;
`auto` is fgrad with lengths as symbols, `again` its second call with a size, `disk` is fgrad in a
second process, at sizes that no process has seen, with the cache of compiled code of the first.
The row `ragged` is a training loop in seconds: 300 sequences of 1 to 200 steps, a gradient and an
update for each.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import sizes_peers
from children import child_value
from libraries import Library, fgrad_library, has, jax_library

F32 = np.float32
STEPS = 300  # sequences of the ragged loop
OWN = ("fgrad", "auto", "again", "disk")
LIBRARIES = (*OWN, "jax", "torch", "numba")


# --- what is computed


def chain(xp: Any, x: Any) -> Any:
    """Elementwise operations on a vector."""
    y = xp.sin(x) * 2.0 + x
    return xp.tanh(xp.exp(-y * y) + x) * y + xp.sqrt(xp.abs(x) + 1.0)


def network_loss(xp: Any, layers: Any, x: Any, labels: Any) -> Any:
    """Cross entropy of the network 784-256-128-10 for a batch."""
    for w, b in layers[:-1]:
        x = xp.maximum(x @ w + b, 0)
    w, b = layers[-1]
    logits = x @ w + b
    most = xp.max(logits, axis=1, keepdims=True)
    total = xp.log(xp.sum(xp.exp(logits - most), axis=1)) + most[:, 0]
    chosen = xp.where(xp.arange(10)[None, :] == labels[:, None], logits, 0)
    return xp.mean(total - xp.sum(chosen, axis=1))


def recurrence(lib: Library, w: Any, xs: Any) -> Any:
    """A loop over a sequence."""

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = lib.np.tanh(w @ h + x)
        return h, lib.np.sum(h)

    _, sums = lib.api.lax.scan(step, lib.np.zeros(4), xs)
    return lib.np.sum(sums)


def attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    """A loss of one attention layer."""
    s = q @ xp.swapaxes(k, -1, -2) / F32(np.sqrt(32))
    p = xp.exp(s - xp.max(s, axis=-1, keepdims=True))
    return xp.sum((p / xp.sum(p, axis=-1, keepdims=True) @ v) ** 2)


def pairwise(xp: Any, a: Any, b: Any) -> Any:
    """Sums of Gaussians of distances."""
    d = a[:, None, :] - b[None, :, :]
    return xp.sum(xp.exp(-0.5 * xp.sum(d * d, axis=-1)), axis=1)


def pooled_loss(xp: Any, w: Any, v: Any, x: Any, target: Any) -> Any:
    """A regression on the mean of a sequence's features."""
    return (xp.mean(xp.tanh(x @ w), axis=0) @ v - target) ** 2


def compiled(lib: Library, case: str, **settings: str) -> Callable[..., Any]:
    """What fgrad and JAX compile."""
    with_gradient, jit = lib.api.value_and_grad, partial(lib.api.jit, **settings)
    functions: dict[str, Callable[..., Any]] = {
        "chain": partial(chain, lib.np),
        "mlp": with_gradient(partial(network_loss, lib.np)),
        "scan": with_gradient(partial(recurrence, lib)),
        "attention": with_gradient(partial(attention, lib.np), argnums=(0, 1, 2)),
        "pairwise": partial(pairwise, lib.np),
        "ragged": with_gradient(partial(pooled_loss, lib.np), argnums=(0, 1)),
    }
    return jit(functions[case])


# --- arguments


class Case(NamedTuple):
    """Sizes, and the arguments of one of them."""

    sizes: list[int]
    data: Callable[[int, np.random.Generator], tuple[Any, ...]]


def _network(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    shapes = [(784, 256), (256, 128), (128, 10)]
    layers = [(rng.normal(size=s).astype(F32) * F32(0.05), np.zeros(s[1], F32)) for s in shapes]
    return layers, rng.normal(size=(n, 784)).astype(F32), rng.integers(0, 10, n)


def _heads(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return tuple([rng.normal(size=(4, n, 32)).astype(F32) for _ in range(3)])


CASES = {
    "chain": Case([1000 + 137 * k for k in range(20)], lambda n, rng: (rng.normal(size=n),)),
    "mlp": Case([32 + 7 * k for k in range(20)], _network),
    "scan": Case(
        [50 + 13 * k for k in range(20)],
        lambda n, rng: (rng.normal(size=(4, 4)), rng.normal(size=(n, 4))),
    ),
    "attention": Case([33 + 9 * k for k in range(20)], _heads),
    "pairwise": Case(
        [40 + 11 * k for k in range(20)],
        lambda n, rng: (rng.normal(size=(n, 8)), rng.normal(size=(n, 8))),
    ),
}


# --- one library and case, in this process


def callable_of(library: str, case: str) -> Callable[..., Any] | None:
    """The function of a case, which waits for its result; None where nobody writes it so."""
    if library in ("torch", "numba"):
        return sizes_peers.function(library, case)
    lib = fgrad_library() if library in OWN else jax_library()
    assert lib is not None
    settings = {"dynamic": "auto"} if library in ("auto", "again") else {}
    function = compiled(lib, case, **settings)
    return lambda *args: lib.ready(function(*lib.put(args)))


def new_sizes(library: str, case: str) -> float:
    """The median milliseconds of a new size."""
    function, rng = callable_of(library, case), np.random.default_rng(0)
    if function is None:
        return float("nan")
    sizes, data = CASES[case]
    shift = 3 if library == "disk" else 0
    arguments = [data(n + shift, rng) for n in sizes]
    times = []
    for args in arguments:
        if library == "again":
            function(*args)
        start = time.process_time()
        function(*args)
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times[0 if library == "disk" else 3 :])


def ragged(library: str) -> float:
    """The seconds of a training loop over sequences of different lengths."""
    function, rng = callable_of(library, "ragged"), np.random.default_rng(0)
    if function is None:
        return float("nan")
    w, v = (0.3 * rng.normal(size=(32, 64))).astype(F32), rng.normal(size=64).astype(F32)
    sequences = [rng.normal(size=(n, 32)).astype(F32) for n in rng.integers(1, 201, STEPS)]
    start = time.perf_counter()
    for x in sequences:
        _, (dw, dv) = function(w, v, x, F32(1))
        w, v = w - F32(0.01) * np.asarray(dw), v - F32(0.01) * np.asarray(dv)
    return time.perf_counter() - start


# --- all of them


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", default=",".join([*CASES, "ragged"]))
    options.add_argument("--libraries", default=",".join(LIBRARIES))
    options.add_argument("--run", nargs=2)
    chosen = options.parse_args()
    if chosen.run:
        library, case = chosen.run
        print(ragged(library) if case == "ragged" else new_sizes(library, case))
        return
    libraries = [x for x in chosen.libraries.split(",") if x in OWN or has(x)]
    print("|" + "|".join([f" {name:9}" for name in ["case", *libraries]]) + "|")
    for case in chosen.cases.split(","):
        with tempfile.TemporaryDirectory() as cache:
            figures = [
                child_value("sizes.py", "--run", library, case, cache=cache)
                for library in libraries
            ]
        print("|" + "|".join([f" {case:9}", *[f" {x:9.3g}" for x in figures]]) + "|", flush=True)


if __name__ == "__main__":
    main()
