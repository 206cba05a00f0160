"""Finite elements in two dimensions: which materials conduct heat as it was measured?

    python examples/gallery/finite_elements.py --cells 40

-div(k grad u) = 1 on the unit square, u = 0 at its boundary, on triangles with linear elements. The
conductivity k has one value in a disc and one outside. Where the entries of the stiffness matrix
lie is constant, their values depend on k: `fgrad.sparse.csr` takes them traced, `spsolve` solves by
SciPy's SuperLU, and its derivative is one more solution with the same factors.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad.scipy.optimize import minimize
from fgrad.scipy.sparse.linalg import spsolve

TRUE = np.array([1.0, 5.0])  # outside and inside of the disc
NOISE = 1e-4


class Mesh(NamedTuple):
    """Triangles, their stiffness, and where it belongs in the matrix of the free corners."""

    material: np.ndarray  # of each triangle, 0 or 1
    stiffness: np.ndarray  # of each pair of free corners of a triangle, where k = 1
    triangle: np.ndarray  # of each pair
    place: np.ndarray  # of each pair among the entries of the matrix
    indices: np.ndarray
    indptr: np.ndarray
    load: np.ndarray


def mesh(cells: int) -> Mesh:
    """A grid of squares, each of two triangles."""
    line = np.linspace(0.0, 1.0, cells + 1)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    number = np.arange(len(points)).reshape(cells + 1, cells + 1)
    a, b, c, d = (
        m.ravel() for m in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])
    )
    corners = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    x = points[corners]
    material = (np.hypot(*(x.mean(axis=1) - [0.6, 0.55]).T) < 0.25).astype(int)

    # The gradients of the three linear functions that are 1 at one corner, 0 at the others.
    edges = np.roll(x, -1, axis=1) - np.roll(x, 1, axis=1)
    area = 0.5 * abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0])
    local = np.einsum("tid,tjd->tij", edges, edges) / (4 * area[:, None, None])
    load = np.bincount(corners.ravel(), np.repeat(area / 3, 3), len(points))

    free = np.full(len(points), -1)
    inside = number[1:-1, 1:-1].ravel()
    free[inside] = np.arange(len(inside))
    rows = np.repeat(free[corners], 3, axis=1).ravel()
    columns = np.tile(free[corners], 3).ravel()
    kept = (rows >= 0) & (columns >= 0)
    n = len(inside)
    entries, place = np.unique(rows[kept] * n + columns[kept], return_inverse=True)
    return Mesh(
        material,
        local.ravel()[kept],
        np.repeat(np.arange(len(corners)), 9)[kept],
        place.ravel(),
        entries % n,
        np.searchsorted(entries // n, np.arange(n + 1)),
        load[inside],
    )


def temperature(m: Mesh, k: Any) -> Any:
    """The solution at the free corners, for the conductivities of the two materials."""
    pairs = k[m.material][m.triangle] * m.stiffness
    data = fgrad.lax.segment_sum(pairs, m.place, len(m.indices))
    n = len(m.load)
    return spsolve(fgrad.sparse.csr(data, m.indices, m.indptr, (n, n)), m.load)


def main() -> None:
    """Measure with noise, and find the materials again."""
    parser = argparse.ArgumentParser(description="Which materials conduct heat so?")
    parser.add_argument("--cells", type=int, default=40, help="squares along an edge")
    m = mesh(parser.parse_args().cells)
    exact = temperature(m, TRUE)
    measured = exact + NOISE * np.random.default_rng(0).normal(size=exact.shape)
    print(
        f"{len(m.load)} unknowns, {len(m.indices)} entries, largest temperature {exact.max():.5f}"
    )

    @fgrad.jit
    def loss(log_k: np.ndarray) -> Any:
        return np.mean((temperature(m, np.exp(log_k)) - measured) ** 2) / NOISE**2

    start, step = np.zeros(2), 1e-5
    gradient = fgrad.grad(loss)(start)
    ends = [[loss(start + s * e) for s in (step, -step)] for e in np.eye(2)]
    difference = np.array([(high - low) / (2 * step) for high, low in ends])
    print(f"gradient: error {np.max(abs(gradient - difference)) / np.max(abs(gradient)):.1e}")

    k = np.exp(minimize(loss, start, method="BFGS").x)
    print(f"conductivities {k[0]:.3f} outside, {k[1]:.3f} inside")


if __name__ == "__main__":
    main()
