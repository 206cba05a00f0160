"""At each rank: collectives of every kind of array equal the same on a simulated mesh, bit by bit
but for sums of floats, at the prompt and compiled.

python rules.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P

N = 2
DTYPES = list("?bBhHiIlLefdFD")

COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin": lambda x: lax.pmin(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "all_gather tiled": lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i"),
    "psum_scatter tiled": lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0),
    "all_to_all tiled": lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1)]),
    "pshuffle": lambda x: lax.pshuffle(x, "i", [1, 0]),
    "pbroadcast": lambda x: lax.pbroadcast(x, "i", 1),
    "axis_index": lambda x: x + lax.axis_index("i").astype(x.dtype),
    "tree": lambda x: lax.psum({"a": x, "b": [x[0], x[:, 0]]}, "i"),
    "twice": lambda x: lax.psum(lax.pvary(lax.psum(x, "i"), "i"), "i"),
    "a constant": lambda x: x * lax.psum(1, "i"),
}


def arrays() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(5)
    for char in DTYPES:
        x = rng.integers(0, 5, (N, N, 4)).astype(char)
        yield x + 1j * x[::-1] if char in "FD" else x
    yield rng.integers(0, 5, (N, N, 4)).astype(ml_dtypes.bfloat16)
    yield np.zeros((N, N, 0))
    yield np.where(rng.random((N, N, 4)) < 0.3, np.nan, 1.5)
    yield rng.normal(size=(N, N, 40_000))  # too large to be joined with others
    for char in "bBqfD":  # large enough for two ranks to exchange, in vectors and what is left
        x = rng.integers(-9, 9, (N, N, 8_209))
        yield (x + 1j * x[:, ::-1]).astype(char) if char in "FD" else x.astype(char)


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """The result, or the class of what it raises."""
    try:
        return f(*args)
    except Exception as error:
        return type(error)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, type) or isinstance(got, type):
        return got is want
    pairs = zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True)
    return all([_equal(np.asarray(a), np.asarray(b)) for a, b in pairs])


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return a.tobytes() == b.tobytes()
    return np.allclose(a, b, rtol=8 * np.finfo(a.dtype).eps, atol=0, equal_nan=True)


def main() -> None:
    mesh, whole = dist.init("mpi", axes=("i",)), dist.simulate(i=N)
    assert mesh.index is not None
    wrong: list[str] = []
    for x in arrays():
        for name, body in COLLECTIVES.items():

            def placed(x: Any, body: Callable[[Any], Any] = body) -> Any:
                out = body(np.reshape(x, x.shape[1:]))
                return fgrad.tree.map(lambda y: lax.pvary(y, "i")[None], out)

            made = [
                dist.shard_map(placed, mesh=m, in_specs=P("i"), out_specs=P("i"))
                for m in (mesh, whole)
            ]
            k = mesh.index[0]
            want = outcome(made[1], x)
            if not isinstance(want, type):
                want = fgrad.tree.map(lambda y, k=k: y[k : k + 1], want)
            for way, f in (("prompt", made[0]), ("jit", fgrad.jit(made[0]))):
                got = outcome(f, np.ascontiguousarray(x[k : k + 1]))
                if not same(got, want):
                    wrong.append(f"{name} of {x.dtype}{list(x.shape)} {way}: {got!r}, not {want!r}")
    assert not wrong, "\n".join(wrong)
    print("all collectives agree", flush=True)


if __name__ == "__main__":
    main()
