"""Bundle adjustment: cameras and points in space from where the points are seen in pictures.

    python examples/gallery/bundle_adjustment.py

The Jacobian is sparse: each residual depends on one camera and one point. `fgrad.sparse.jacobian`
finds that by itself; steps of Levenberg and Marquardt are sparse least squares.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import fgrad

CAMERAS, POINTS = 6, 60
NOISE = 1e-3


def rotated(w: Any, x: Any) -> Any:
    """Points turned by rotation vectors (Rodrigues)."""
    angle = np.sqrt(np.sum(w * w, axis=-1, keepdims=True) + 1e-24)
    k = w / angle
    along = np.sum(k * x, axis=-1, keepdims=True) * (1 - np.cos(angle)) * k
    return np.cos(angle) * x + np.sin(angle) * np.cross(k, x) + along


def projected(cameras: Any, points: Any) -> Any:
    """Where each camera (rotation, shift, focal length) sees its point."""
    x = rotated(cameras[:, :3], points) + cameras[:, 3:6]
    return cameras[:, 6:7] * x[:, :2] / x[:, 2:3]


def scene(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cameras around a cloud of points."""
    cameras = np.zeros((CAMERAS, 7))
    cameras[:, :3] = 0.2 * rng.normal(size=(CAMERAS, 3))
    cameras[:, 3:6] = 0.3 * rng.normal(size=(CAMERAS, 3)) + [0, 0, 6]
    cameras[:, 6] = 1.0
    return cameras, rng.uniform(-1, 1, (POINTS, 3))


def main() -> None:
    """See the scene with noise, and find it again from a wrong start."""
    begin = time.perf_counter()
    rng = np.random.default_rng(4)
    cameras, points = scene(rng)
    who, what = np.divmod(np.arange(CAMERAS * POINTS), POINTS)
    seen = projected(cameras[who], points[what])
    seen = seen + NOISE * rng.normal(size=seen.shape)
    split = 6 * (CAMERAS - 1)  # the first camera and all focal lengths are known
    fixed = cameras[:1]

    def unpacked(p: Any) -> tuple[Any, Any]:
        free = p[:split].reshape(-1, 6)
        free = np.concatenate([free, np.ones((CAMERAS - 1, 1))], axis=1)
        return np.concatenate([fixed, free]), p[split:].reshape(-1, 3)

    def residuals(p: Any) -> Any:
        c, x = unpacked(p)
        return (projected(c[who], x[what]) - seen).ravel()

    truth = np.concatenate([cameras[1:, :6].ravel(), points.ravel()])
    p, damping = truth + 0.05 * rng.normal(size=truth.shape), 1e-3
    jacobian = fgrad.sparse.jacobian(residuals)
    compiled = fgrad.jit(residuals)
    direction = rng.normal(size=p.shape)
    step = 1e-6
    difference = (compiled(p + step * direction) - compiled(p - step * direction)) / (2 * step)
    wrong = np.max(abs(jacobian(p) @ direction - difference)) / np.max(abs(difference))

    r = compiled(p)
    for _ in range(30):
        j = jacobian(p)
        normal, slope = sp.csc_array(j.T @ j), j.T @ r
        trial = p - spsolve(normal + damping * sp.diags_array(normal.diagonal()), slope)
        after = compiled(trial)
        better = after @ after < r @ r
        damping *= 0.3 if better else 10
        done = better and r @ r - after @ after < 1e-12 * (r @ r)
        p, r = (trial, after) if better else (p, r)
        if done:
            break
    j = jacobian(p)
    degrees = len(r) - len(p) + 1  # the scene's scale is free
    chi = r @ r / NOISE**2 / degrees
    scale = np.sum(p[split:] * truth[split:]) / np.sum(p[split:] ** 2)
    error = np.sqrt(np.mean((scale * p[split:] - truth[split:]) ** 2))
    print(f"{j.shape[0]} residuals, {j.shape[1]} unknowns, {jacobian.plan(p).count} derivatives")
    print(f"Jacobian error {wrong:.1e}, chi^2 per degree {chi:.3f}, points off by {error:.4f}")
    assert wrong < 1e-6 and abs(chi - 1) < 0.2 and error < 0.05
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
