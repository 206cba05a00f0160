"""At each rank: training of a transformer block, and the heat equation with its adjoint, equal the
same on one process.

python models.py DATA MODEL
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from test_distributed import block

import fgrad
from fgrad import distributed as dist
from fgrad import lax
from fgrad.distributed import P

WIDTH, HEADS, STEPS = 8, 4, 3
COLUMNS, ROWS, SAME = P(None, "model"), P("model"), P()
CUT = {"q": COLUMNS, "k": COLUMNS, "v": COLUMNS, "o": ROWS, "up": COLUMNS, "down": ROWS}


def close(got: Any, want: Any) -> None:
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def transformer(mesh: dist.Mesh) -> None:
    """Data and tensor parallel, against one process without axes."""
    rng = np.random.default_rng(0)
    p = {w: 0.4 * rng.normal(size=(WIDTH, WIDTH)) for w in ("q", "k", "v", "o")}
    p |= {"up": 0.4 * rng.normal(size=(WIDTH, 12)), "down": 0.4 * rng.normal(size=(12, WIDTH))}
    x, y = rng.normal(size=(2, 4, 3, WIDTH))
    model = mesh.shape["model"]

    def plain_step(p: Any, x: Any, y: Any) -> Any:
        value, g = fgrad.value_and_grad(lambda p: np.mean((block(p, x, HEADS) - y) ** 2))(p)
        return value, fgrad.tree.map(lambda w, d: w - 0.1 * d, p, g)

    @dist.shard_map(mesh=mesh, in_specs=(CUT, P("data"), P("data")), out_specs=(SAME, CUT))
    def step(p: Any, x: Any, y: Any) -> Any:
        def loss(p: Any) -> Any:
            z = block(p, x, HEADS // model, lambda part: lax.psum(part, "model"))
            return lax.pmean(np.mean((z - y) ** 2), "data")

        value, g = fgrad.value_and_grad(loss)(p)
        return value, fgrad.tree.map(lambda w, d: w - 0.1 * d, p, g)

    mine = dist.my_block(p, CUT, mesh=mesh)
    given = dist.my_block((x, y), P("data"), mesh=mesh)
    compiled, whole = fgrad.jit(step), p
    for take in (step, *[compiled] * STEPS):
        value, mine = take(mine, *given)
        want, whole = plain_step(whole, x, y)
        close((value, dist.gather(mine, CUT, mesh=mesh)), (want, whole))


def heat(mesh: dist.Mesh) -> None:
    """Blocks of a rod that exchange their ends, and the gradient by the start and the wall."""
    n, steps = mesh.shape["data"] * mesh.shape["model"], 9
    u, target = np.random.default_rng(1).normal(size=(2, 24))

    def plain(u: Any, k: Any) -> Any:
        for _ in range(steps):
            e = np.concatenate([u[:1] * k, u, u[-1:] * k])
            u = u + 0.2 * (e[:-2] - 2 * u + e[2:])
        return np.sum((u - target) ** 2)

    axis = "data" if mesh.shape["model"] == 1 else "model"
    assert mesh.shape[axis] == n, "a rod is cut along one axis"
    right, left = [(r, r + 1) for r in range(n - 1)], [(r + 1, r) for r in range(n - 1)]

    @dist.shard_map(mesh=mesh, in_specs=(P(axis), SAME, P(axis)), out_specs=(P(axis), SAME))
    def adjoint(u: Any, k: Any, target: Any) -> Any:
        def loss(u: Any, k: Any) -> Any:
            at = lax.axis_index(axis)

            def step(u: Any, _: Any) -> Any:
                low = np.where(at == 0, u[:1] * k, lax.ppermute(u[-1:], axis, right))
                high = np.where(at == n - 1, u[-1:] * k, lax.ppermute(u[:1], axis, left))
                e = np.concatenate([low, u, high])
                return u + 0.2 * (e[:-2] - 2 * u + e[2:]), None

            return lax.psum(np.sum((lax.scan(step, u, length=steps)[0] - target) ** 2), axis)

        return fgrad.grad(loss, (0, 1))(u, k)

    mine = dist.my_block((u, target), P(axis), mesh=mesh)
    want = fgrad.grad(plain, (0, 1))(u, 0.7)
    for f in (adjoint, fgrad.jit(adjoint)):
        close(dist.gather(f(mine[0], 0.7, mine[1]), (P(axis), SAME), mesh=mesh), want)


def main(data: int, model: int) -> None:
    mesh = dist.init("mpi", axes={"data": data, "model": model})
    transformer(mesh)
    if 1 in (data, model):
        heat(mesh)
    print("as on one process", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
