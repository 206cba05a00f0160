"""Optimal control: swing a pendulum up and hold it, with the least effort.

    python examples/gallery/optimal_control.py

The torque is constant over intervals; the end state is a constraint. Gradients of effort and end
go through the integrator, a loop of Runge and Kutta's steps.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.integrate import solve_ivp
from fgrad.scipy.optimize import minimize

PIECES, SUBSTEPS, END = 30, 2, 4.0
STEP = END / PIECES / SUBSTEPS


def slope(state: Any, torque: Any) -> Any:
    """Angle from hanging down, and its rate; gravity, a little friction and the torque."""
    return np.stack([state[1], torque - np.sin(state[0]) - 0.1 * state[1]])


@fgrad.jit
def path(torques: Any) -> Any:
    """The states after each interval."""
    state, states = np.zeros(2), []
    for torque in torques:
        for _ in range(SUBSTEPS):
            a = slope(state, torque)
            b = slope(state + STEP / 2 * a, torque)
            c = slope(state + STEP / 2 * b, torque)
            d = slope(state + STEP * c, torque)
            state = state + STEP / 6 * (a + 2 * b + 2 * c + d)
        states.append(state)
    return np.stack(states)


def effort(torques: Any) -> Any:
    """The integral of the squared torque."""
    return np.sum(torques**2) * END / PIECES


def end(torques: Any) -> Any:
    """Zero where the pendulum stands upright, at rest."""
    return path(torques)[-1] - np.array([np.pi, 0.0])


def main() -> None:
    """Find the torques, and check them by another integrator."""
    begin = time.perf_counter()
    start = 0.5 * np.sin(np.arange(PIECES))
    jacobian, step = fgrad.jacrev(end)(start), 1e-6
    e = np.cos(np.arange(PIECES))
    difference = (end(start + step * e) - end(start - step * e)) / (2 * step)
    wrong = np.max(abs(jacobian @ e - difference)) / np.max(abs(difference))

    found = minimize(
        effort, start, method="SLSQP", constraints={"type": "eq", "fun": end},
        options={"maxiter": 200, "ftol": 1e-10},
    )  # fmt: skip
    best = found.x

    # At a minimum the gradient is a sum of the constraints' gradients.
    rows = fgrad.jacrev(end)(best)
    gradient = fgrad.grad(effort)(best)
    weights = np.linalg.lstsq(rows.T, gradient, rcond=None)[0]
    left = np.linalg.norm(gradient - rows.T @ weights) / np.linalg.norm(gradient)

    def motion(t: float, state: Any) -> Any:
        return slope(state, best[min(int(t / END * PIECES), PIECES - 1)])

    again = solve_ivp(motion, (0, END), [0.0, 0.0], max_step=END / PIECES / 4, rtol=1e-8).y[:, -1]
    limited = minimize(
        effort, best, method="SLSQP", constraints={"type": "eq", "fun": end},
        bounds=[(-1.2, 1.2)] * PIECES, options={"maxiter": 300, "ftol": 1e-10},
    )  # fmt: skip
    print(f"effort {found.fun:.4f}, end {again.round(4)}; effort {limited.fun:.4f} with limits")
    print(f"gradient error {wrong:.1e}, optimality {left:.1e}")
    assert found.success and wrong < 1e-6 and left < 1e-3
    assert np.max(abs(again - [np.pi, 0.0])) < 5e-3
    assert limited.fun >= found.fun - 1e-6 and np.max(abs(limited.x)) <= 1.2 + 1e-9
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
