"""A portfolio with constraints: least variance for a return, no short sales, a cap on a sector.

    python examples/gallery/portfolio.py

The shares are a minimum under constraints; how they, and the risk, change with the wanted return is
a derivative through the minimum, by the conditions of Karush, Kuhn and Tucker.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.optimize import LinearConstraint, minimize

ASSETS = 12
SECTOR = np.arange(ASSETS) < 4


def market(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Expected returns and their covariance, of three factors and noise."""
    loadings = rng.normal(size=(ASSETS, 3)) * [0.15, 0.08, 0.05]
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.01, 0.04, ASSETS))
    return 0.03 + 0.5 * np.diag(covariance) + 0.01 * rng.normal(size=ASSETS), covariance


def main() -> None:
    """Shares for a return, and the slope of the frontier."""
    begin = time.perf_counter()
    returns, covariance = market(np.random.default_rng(7))
    wanted = 0.5 * (returns.mean() + returns.max())

    def shares(target: Any, mean: Any) -> Any:
        limits = [
            LinearConstraint(np.ones((1, ASSETS)), 1.0, 1.0),
            LinearConstraint(mean[None, :], target, np.inf),
            LinearConstraint(SECTOR[None, :].astype(float), -np.inf, 0.4),
        ]
        return minimize(
            lambda w: 0.5 * w @ covariance @ w, np.full(ASSETS, 1 / ASSETS), method="SLSQP",
            bounds=[(0.0, 1.0)] * ASSETS, constraints=limits, options={"ftol": 1e-14},
        ).x  # fmt: skip

    def risk(target: Any, mean: Any) -> Any:
        w = shares(target, mean)
        return np.sqrt(w @ covariance @ w)

    w = shares(wanted, returns)
    slope, by_mean = fgrad.grad(risk, argnums=(0, 1))(wanted, returns)
    step = 1e-5
    difference = (risk(wanted + step, returns) - risk(wanted - step, returns)) / (2 * step)
    e = np.cos(np.arange(ASSETS))
    ends = [risk(wanted, returns + s * e) for s in (step, -step)]
    along = (ends[0] - ends[1]) / (2 * step)
    wrong = abs(slope - difference) / abs(difference), abs(by_mean @ e - along) / abs(along)
    print(f"return {wanted:.4f}, risk {risk(wanted, returns):.4f}, shares {w.round(3)}")
    print(f"slope of the frontier {slope:.4f}, gradient errors {wrong[0]:.1e} {wrong[1]:.1e}")
    # The conditions of the minimum: one multiplier for each limit that holds.
    held = w > 1e-7
    rows = np.stack([np.ones(ASSETS), returns, SECTOR * 1.0])[:, held]
    left = (covariance @ w)[held]
    left = left - rows.T @ np.linalg.lstsq(rows.T, left, rcond=None)[0]
    assert abs(w.sum() - 1) < 1e-9 and w.min() > -1e-9 and np.max(abs(left)) < 1e-5
    assert max(wrong) < 1e-3
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
