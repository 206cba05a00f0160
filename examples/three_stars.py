"""Weigh three stars by watching them move: plain Python loops, fitted by their gradient.

    python examples/three_stars.py          prints the masses, draws examples/out/three_stars.png

The simulation is what one writes first: a loop over time, loops over pairs of stars, arrays that
are written in place.  `jit(value_and_grad(...))` compiles it, unchanged, with its gradient, and
SciPy's BFGS finds masses, places and velocities from noisy sightings.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

import fgrad

DT, EVERY, NOISE = 0.01, 25, 0.04  # the step, the steps from sighting to sighting, their error
SEEN, AHEAD = 1600, 500  # steps with sightings, and steps that are foretold
COLORS = ("#c8452f", "#2f6db5", "#d99a2b")
INK = "#22303c"


# --- the simulation: plain NumPy and Python -------------------------------------------------------


def simulate(mass: Any, x: Any, v: Any, steps: int) -> Any:
    """The path of each star."""
    x, v = x.copy(), v.copy()
    path = np.zeros((steps, len(mass), 2))
    for t in range(steps):
        for i in range(len(mass)):
            for j in range(len(mass)):
                if i != j:
                    d = x[j] - x[i]
                    v[i] += DT * mass[j] * d / (d @ d) ** 1.5
        x += DT * v
        path[t] = x
    return path


def unpacked(p: Any) -> tuple[Any, Any, Any]:
    """Masses, places and velocities from one vector of parameters."""
    return np.exp(p[:3]), p[3:9].reshape(3, 2), p[9:].reshape(3, 2)


def misfit(p: Any, sightings: Any, steps: int) -> Any:
    """The squared distance from what was seen."""
    path = simulate(*unpacked(p), steps)
    return np.sum((path[EVERY - 1 :: EVERY] - sightings) ** 2)


# --- the fit --------------------------------------------------------------------------------------

loss = fgrad.jit(fgrad.value_and_grad(misfit), static_argnums=2)


def fit(p: Any, sightings: Any) -> Any:
    """The parameters that explain the sightings, by arcs that grow longer."""
    for steps in (SEEN // 8, SEEN // 4, SEEN // 2, SEEN):
        found = minimize(loss, p, (sightings[: steps // EVERY], steps), jac=True, method="BFGS")
        p = found.x
        masses = "  ".join([f"{m:.3f}" for m in np.exp(p[:3])])
        print(f"  {steps:5} steps, {found.nfev:3} gradients: masses {masses}")
    return p


def draw(file: Path, truth: Any, sightings: Any, guess: Any, found: Any) -> None:
    """The sightings with the paths of the first guess, and with those of the fit."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = ("The first guess: equal masses", "Fitted by its gradient, and foretold (dotted)")
    for side, path, title in zip(axes, (guess, found), titles, strict=True):
        for k, color in enumerate(COLORS):
            side.plot(*path[:SEEN, k].T, color=color, lw=1.4)
            side.plot(*sightings[:, k].T, "o", color=color, ms=3.6, mfc="white", mew=0.8)
        side.set_title(title, loc="left", fontsize=11, color=INK)
        side.set_aspect("equal")
        side.axis("off")
    for k, color in enumerate(COLORS):
        axes[1].plot(*found[SEEN - 1 :, k].T, ":", color=color, lw=1.8)
        axes[1].plot(*truth[-1, k], "o", color=color, ms=9, mec=INK, mew=0.8)
    low, high = truth.min((0, 1)) - 0.4, truth.max((0, 1)) + 0.4
    axes[0].set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def main() -> int:
    """Simulate, fit, draw; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    out = parser.parse_args().out
    rng = np.random.default_rng(1)
    mass = np.array([3.0, 1.0, 0.3])
    x = np.array([[0.0, 0.0], [2.2, 0.0], [-4.4, 0.0]])
    v = np.array([[0.0, -0.26], [0.1, 1.2], [0.0, -0.78]])
    truth = simulate(mass, x, v, SEEN + AHEAD)
    sightings = truth[EVERY - 1 : SEEN : EVERY]
    sightings = sightings + NOISE * rng.standard_normal(sightings.shape)

    start = np.concatenate([np.zeros(3), (x + 0.1).ravel(), 0.6 * v.ravel()])
    print(f"Three stars of masses {mass}, seen {len(sightings)} times")
    found = fit(start, sightings)
    begun = time.perf_counter()
    for _ in range(20):
        loss(found, sightings, SEEN)
    print(f"  a gradient through {SEEN} steps: {50 * (time.perf_counter() - begun):.2f} ms")
    paths = [simulate(*unpacked(p), SEEN + AHEAD) for p in (start, found)]
    draw(out / "three_stars.png", truth, sightings, *paths)
    print(f"figure: {out / 'three_stars.png'}")
    if np.max(np.abs(np.exp(found[:3]) - mass)) > 0.05:
        print("FAILED: the masses are off by more than 0.05")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
