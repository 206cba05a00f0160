"""Gravitational lensing: the mass of a lens, and its shape, from a bent picture of a galaxy.

    python examples/gallery/gravitational_lensing.py

A ray at x comes from x - alpha(x), where alpha is the gradient of the lens's potential, by
`fgrad.grad`; the loss differentiates through that gradient again.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.optimize import least_squares

PIXELS, NOISE = 40, 0.02
TRUE = np.array([1.0, 0.15, 0.1, 0.12, -0.08, 0.25])


def potential(x: Any, p: Any) -> Any:
    """An ellipse of radius p[0] with shear p[1], p[2], smoothed at its core."""
    shear = 0.5 * p[1] * (x[0] ** 2 - x[1] ** 2) + p[2] * x[0] * x[1]
    return p[0] * np.sqrt(x[0] ** 2 + x[1] ** 2 + 0.01) + shear


def picture(p: Any, places: np.ndarray) -> Any:
    """A round galaxy at p[3:5] of width p[5], as it is seen."""
    bent = fgrad.vmap(fgrad.grad(potential), in_axes=(0, None))(places, p)
    source = places - bent - p[3:5]
    return np.exp(-0.5 * np.sum(source**2, axis=1) / p[5] ** 2)


def main() -> None:
    """See the galaxy with noise, and weigh the lens."""
    begin = time.perf_counter()
    rng = np.random.default_rng(6)
    line = np.linspace(-2, 2, PIXELS)
    places = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    seen = picture(TRUE, places) + NOISE * rng.normal(size=len(places))

    def residuals(p: Any) -> Any:
        return (picture(p, places) - seen) / NOISE

    start, step = TRUE + np.array([0.1, -0.1, -0.1, 0.05, 0.05, 0.1]), 1e-6
    jacobian = fgrad.jacfwd(residuals)(start)
    columns = [residuals(start + step * e) - residuals(start - step * e) for e in np.eye(6)]
    difference = np.stack(columns, axis=1) / (2 * step)
    wrong = np.max(abs(jacobian - difference)) / np.max(abs(jacobian))
    found = least_squares(residuals, start)
    sigma = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))
    off = (found.x - TRUE) / sigma

    def magnification(x: Any) -> Any:
        return 1 / np.linalg.det(np.eye(2) - fgrad.hessian(potential)(x, found.x))

    print(f"radius {found.x[0]:.4f} +- {sigma[0]:.4f}, shear {found.x[1:3].round(3)}")
    print(f"magnification at (1.4, 0.3): {magnification(np.array([1.4, 0.3])):.3f}")
    print(f"gradient error {wrong:.1e}, errors in standard deviations {off.round(1)}")
    assert wrong < 1e-6 and np.all(abs(off) < 4)
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
