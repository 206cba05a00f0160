"""Image registration: by which rotation, scale and shift does one picture become another?

    python examples/gallery/image_registration.py

The picture is sampled at moved places by a spline (`map_coordinates`), smoothed by Gaussians from
coarse to fine, and the squared difference is minimised over four numbers.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.ndimage import gaussian_filter, map_coordinates
from fgrad.scipy.optimize import minimize

SIZE = 64
TRUE = np.array([0.15, 0.08, 2.5, -1.7])  # angle, logarithm of the scale, shift


def picture(rng: np.random.Generator) -> np.ndarray:
    """Blobs of several widths."""
    y, x = np.mgrid[:SIZE, :SIZE]
    image = np.zeros((SIZE, SIZE))
    for _ in range(25):
        cy, cx = rng.uniform(12, SIZE - 12, 2)
        width = rng.uniform(2, 6)
        image += rng.uniform(0.3, 1) * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * width**2))
    return image


def moved(image: np.ndarray, p: Any) -> Any:
    """The picture, turned about its middle, scaled and shifted."""
    y, x = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    scale = np.exp(p[1])
    c, s = scale * np.cos(p[0]), scale * np.sin(p[0])
    places = np.stack([c * y - s * x + p[2], s * y + c * x + p[3]]) + (SIZE - 1) / 2
    return map_coordinates(image, places, order=3, mode="nearest")


def main() -> None:
    """Move a picture, add noise, and find how it was moved."""
    begin = time.perf_counter()
    rng = np.random.default_rng(0)
    fixed = picture(rng)
    seen = moved(fixed, TRUE) + 0.01 * rng.normal(size=fixed.shape)

    def loss(p: Any, sigma: float) -> Any:
        smooth = gaussian_filter(fixed, sigma)
        return np.mean((moved(smooth, p) - gaussian_filter(seen, sigma)) ** 2)

    p = np.zeros(4)
    for sigma in (4.0, 2.0, 1.0):
        p = minimize(lambda p, sigma=sigma: loss(p, sigma), p, method="BFGS").x
        print(f"width {sigma}: angle {p[0]:.4f} scale {np.exp(p[1]):.4f} shift {p[2:].round(3)}")

    start, step = 0.5 * TRUE, 1e-5
    gradient = fgrad.grad(loss)(start, 1.0)
    ends = [[loss(start + s * e, 1.0) for s in (step, -step)] for e in np.eye(4)]
    difference = np.array([(high - low) / (2 * step) for high, low in ends])
    wrong = np.max(abs(gradient - difference)) / np.max(abs(gradient))
    print(f"gradient error {wrong:.1e}, parameter error {np.max(abs(p - TRUE)):.1e}")
    assert wrong < 1e-5 and np.max(abs(p - TRUE)) < 0.02
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
