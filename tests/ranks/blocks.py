"""Blocks, files and keys at each rank: python blocks.py WHAT FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P


class State(NamedTuple):
    """Parameters and moments, as an optimizer has them."""

    step: Any
    weights: dict[str, Any]
    none: Any


SPECS = State(P(), {"rows": P("data"), "columns": P(None, "data"), "same": P(), "empty": P()}, P())


def whole() -> State:
    rng = np.random.default_rng(3)
    weights = {
        "rows": rng.normal(size=(12, 5)),
        "columns": rng.normal(size=(3, 6)).astype(np.float32),
        "same": rng.integers(0, 9, 4),
        "empty": np.zeros((0, 3)),
    }
    return State(np.int64(7), weights, np.bool_(True))


def same(got: Any, want: Any) -> None:
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), (a, b)


def blocks(mesh: dist.Mesh, _folder: Path) -> None:
    mine = dist.my_block(whole(), SPECS, mesh=mesh)
    assert mine.weights["rows"].shape == (12 // mesh.size, 5)
    same(dist.gather(mine, SPECS, mesh=mesh), whole())
    assert mesh.index is not None
    told = dist.broadcast({"from": mesh.index, "x": np.arange(3)}, mesh=mesh, source=mesh.size - 1)
    assert told["from"] == (mesh.size - 1,)


def save(mesh: dist.Mesh, folder: Path) -> None:
    for _ in range(2):  # the second takes the place of the first
        dist.save(folder / "model", dist.my_block(whole(), SPECS, mesh=mesh), SPECS, mesh=mesh)


def load(mesh: dist.Mesh, folder: Path) -> None:
    like = fgrad.tree.map(lambda _: None, whole())
    mine = dist.load(folder / "model", like, SPECS, mesh=mesh)
    same(mine, dist.my_block(whole(), SPECS, mesh=mesh))
    same(dist.gather(mine, SPECS, mesh=mesh), whole())


def keys(mesh: dist.Mesh, _folder: Path) -> None:
    """The numbers of a rank are those of its place on one process."""
    key = fgrad.random.key(0)

    def draw(x: Any) -> Any:
        own = fgrad.random.fold_in(key, lax.axis_index("data"))
        return x + fgrad.random.normal(own, (2,))

    def drawn(mesh: dist.Mesh) -> Any:
        return dist.shard_map(draw, mesh=mesh, in_specs=P("data"), out_specs=P("data"))

    x = np.zeros((2 * mesh.size,))
    want = drawn(dist.simulate(data=mesh.size))(x)
    for f in (drawn(mesh), fgrad.jit(drawn(mesh))):
        same(dist.gather(f(dist.my_block(x, P("data"), mesh=mesh)), P("data"), mesh=mesh), want)


def main(what: str, folder: str) -> None:
    mesh = dist.init("mpi", axes=("data",))
    {"blocks": blocks, "save": save, "load": load, "keys": keys}[what](mesh, Path(folder))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
