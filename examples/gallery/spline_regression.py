"""Spline regression: how smooth should a curve be? Cross validation decides, by its gradient.

    python examples/gallery/spline_regression.py

A curve of cubic B-splines is fitted with a penalty on second differences of the coefficients. The
penalty's weight is that which predicts best what was left out of the fit.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.interpolate import BSpline

import fgrad
from fgrad.scipy.linalg import cho_factor, cho_solve
from fgrad.scipy.optimize import minimize_scalar

KNOTS, FOLDS = 30, 5


def curve(x: np.ndarray) -> np.ndarray:
    """What is measured."""
    return np.sin(6 * x) + 0.5 * np.exp(-50 * (x - 0.6) ** 2)


def main() -> None:
    """Measure, choose the weight, and compare with the curve."""
    begin = time.perf_counter()
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 1, 200))
    y = curve(x) + 0.2 * rng.normal(size=x.shape)
    inner = np.linspace(0, 1, KNOTS)
    knots = np.concatenate([[0] * 3, inner, [1] * 3])
    basis = BSpline.design_matrix(x, knots, 3).toarray()
    roughness = np.diff(np.eye(basis.shape[1]), 2, axis=0)
    penalty = roughness.T @ roughness
    fold = rng.permutation(np.arange(len(x)) % FOLDS)

    def coefficients(weight: Any, kept: np.ndarray) -> Any:
        a = basis[kept]
        return cho_solve(cho_factor(a.T @ a + weight * penalty), a.T @ y[kept])

    def left_out(log_weight: Any) -> Any:
        weight = np.exp(log_weight)
        total = 0.0
        for k in range(FOLDS):
            out = fold == k
            total += np.sum((basis[out] @ coefficients(weight, ~out) - y[out]) ** 2)
        return total / len(x)

    found = minimize_scalar(fgrad.jit(left_out), bounds=(-12.0, 8.0), method="bounded")
    slope = fgrad.grad(left_out)
    step = 1e-4
    difference = (left_out(-1 + step) - left_out(-1 - step)) / (2 * step)
    wrong = abs(slope(-1.0) - difference) / abs(difference)
    fit = basis @ coefficients(np.exp(found.x), np.ones(len(x), bool))
    error = np.sqrt(np.mean((fit - curve(x)) ** 2))
    print(f"weight {np.exp(found.x):.4f}, slope there {slope(found.x):.1e}")
    print(f"gradient error {wrong:.1e}, error of the curve {error:.4f} (noise 0.2)")
    assert wrong < 1e-6 and error < 0.07 and abs(slope(found.x)) < 1e-5
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
