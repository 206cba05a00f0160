"""Tomography: a picture from its sums along lines, with a penalty on its differences.

    python examples/gallery/tomography.py

The lines' lengths in each cell are a sparse matrix of SciPy's. The picture is the solution of the
normal equations by conjugate gradients; the weight of the penalty is chosen by its gradient.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import fgrad
from fgrad.scipy.optimize import minimize
from fgrad.scipy.sparse.linalg import LinearOperator, cg

SIZE, ANGLES = 32, 24
NOISE = 0.3


def phantom() -> np.ndarray:
    """Discs of several densities."""
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE - 0.5
    discs = ((0, 0, 0.45, 1.0), (0.1, 0.15, 0.12, 1.0), (-0.2, -0.1, 0.1, -0.6))
    return sum(v * (np.hypot(y - cy, x - cx) < r) for cy, cx, r, v in discs)


def lines() -> sp.csr_array:
    """Each ray takes samples along itself, shared among the four cells next to them."""
    s = np.linspace(-0.5, 0.5, SIZE) * SIZE
    rows, columns, weights = [], [], []
    for a, angle in enumerate(np.pi * np.arange(ANGLES) / ANGLES):
        offset, along = np.meshgrid(s, s, indexing="ij")
        y = offset * np.cos(angle) + along * np.sin(angle) + (SIZE - 1) / 2
        x = -offset * np.sin(angle) + along * np.cos(angle) + (SIZE - 1) / 2
        for dy in (0, 1):
            for dx in (0, 1):
                i, j = np.floor(y).astype(int) + dy, np.floor(x).astype(int) + dx
                w = (1 - abs(y - i)) * (1 - abs(x - j))
                ok = (i >= 0) & (i < SIZE) & (j >= 0) & (j < SIZE)
                ray = np.broadcast_to(a * SIZE + np.arange(SIZE)[:, None], ok.shape)
                rows.append(ray[ok])
                columns.append((i * SIZE + j)[ok])
                weights.append(w[ok])
    places = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((np.concatenate(weights), places), (ANGLES * SIZE, SIZE * SIZE))


def main() -> None:
    """Measure, choose the weight on every tenth ray, and reconstruct."""
    begin = time.perf_counter()
    rng = np.random.default_rng(3)
    truth, a = phantom().ravel(), lines()
    b = a @ truth + NOISE * rng.normal(size=a.shape[0])
    d = sp.diags_array([-np.ones(SIZE), np.ones(SIZE - 1)], offsets=[0, 1], shape=(SIZE, SIZE))
    differences = sp.csr_array(sp.vstack([sp.kron(d, sp.eye(SIZE)), sp.kron(sp.eye(SIZE), d)]))
    out = np.arange(len(b)) % 10 == 0
    kept, held = a[~out], a[out]

    def reconstructed(log_weight: Any) -> Any:
        def normal(x: Any) -> Any:
            smooth = differences.T @ (differences @ x)
            return kept.T @ (kept @ x) + np.exp(log_weight) * smooth

        op = LinearOperator((SIZE**2, SIZE**2), normal)
        return cg(op, kept.T @ b[~out], rtol=1e-13)[0]

    @fgrad.jit
    def loss(p: Any) -> Any:
        return np.mean((held @ reconstructed(p[0]) - b[out]) ** 2)

    start, step = np.zeros(1), 1e-3
    gradient = fgrad.grad(loss)(start)[0]
    difference = (loss(start + step) - loss(start - step)) / (2 * step)
    wrong = abs(gradient - difference) / abs(gradient)
    found = minimize(loss, start, method="L-BFGS-B", bounds=[(-6.0, 6.0)])
    errors = [np.std(reconstructed(p) - truth) / np.std(truth) for p in (-9.0, found.x[0])]
    print(f"weight {np.exp(found.x[0]):.3f}, gradient error {wrong:.1e}")
    print(f"error of the picture {errors[1]:.3f}, without a penalty {errors[0]:.3f}")
    assert wrong < 1e-5 and errors[1] < 0.5 * errors[0] and errors[1] < 0.35
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
