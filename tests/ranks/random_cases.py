"""At each rank: random programs over named axes equal the same on whole arrays, in NumPy.

python random_cases.py AXES FIRST COUNT     AXES: a (2 ranks) or ab (4)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import random_spmd
from random_spmd import SIZES, Case, Draw, Lanes, Whole
from test_named_axes import MODES, full, results

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P


def drawn(seed: int, names: tuple[str, ...]) -> Case:
    """A case over just these axes."""
    rng, draw = np.random.default_rng((11, seed)), Draw(seed, names)
    subsets = [frozenset(n for n in names if rng.random() < 0.5) for _ in range(2)]
    axes = [frozenset(names), frozenset(), *subsets]
    width = random_spmd.WIDTH
    inputs = [rng.normal(size=(*[SIZES[n] if n in a else 1 for n in names], width)) for a in axes]
    return Case(draw.program(len(axes), 2 + draw.below(3), 2), names, axes, inputs)


def at_ranks(c: Case, mesh: dist.Mesh, fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function of this rank's blocks; each result keeps its named axes, of length 1."""

    def body(*blocks: Any) -> Any:
        out = fun(*[np.reshape(x, x.shape[len(c.names) :]) for x in blocks])
        return fgrad.tree.map(_with_axes, out)

    def _with_axes(y: Any) -> Any:
        return np.reshape(lax.pvary(y, c.names), (*[1] * len(c.names), *np.shape(y)))

    cut = tuple([P(*[n if n in a else None for n in c.names]) for a in c.axes])
    return dist.shard_map(body, mesh=mesh, in_specs=cut, out_specs=P(*c.names))


def mismatch(seed: int, mode: str, mesh: dist.Mesh, put: Callable[[Any], Any] = np.array) -> str:
    """How this rank's result differs; empty if it does not.

    Arguments:
        put: what is done with the blocks: they may be put on a device.
    """
    assert mesh.index is not None
    c = drawn(seed, tuple(mesh.shape))
    at = dict(zip(c.names, mesh.index, strict=True))

    def mine(x: Any, axes: Any = frozenset(c.names)) -> Any:
        return put(
            x[tuple([slice(at[n], at[n] + 1) if n in axes else slice(None) for n in c.names])]
        )

    f = at_ranks(c, mesh, results(c, Lanes(c.names), mode))
    got = (fgrad.jit(f) if seed % 2 else f)(
        *[mine(x, a) for x, a in zip(c.inputs, c.axes, strict=True)]
    )
    got = fgrad.tree.map(np.asarray, got)
    want = fgrad.tree.map(lambda x: full(x, c), results(c, Whole(c.names), mode)(*c.inputs))
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        w = np.broadcast_to(np.asarray(mine(w)), np.shape(g))
        if not np.allclose(g, w, rtol=1e-9, atol=1e-10):
            return f"seed {seed} {mode}: {np.max(np.abs(g - w))}\n" + "\n".join(c.program.text)
    return ""


def main(axes: str, first: int, count: int, put: Callable[[Any], Any] = np.array) -> None:
    SIZES["b"] = 2
    mesh = dist.init("mpi", axes={name: 2 for name in axes})
    modes = [mode for mode in MODES if mode != "grad outside"]
    for seed in range(first, first + count):
        found = mismatch(seed, modes[seed % len(modes)], mesh, put)
        if found:
            raise AssertionError(f"{mesh}: {found}")
    print(f"{mesh}: {count} programs agree", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
