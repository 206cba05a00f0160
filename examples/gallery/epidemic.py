"""An epidemic with events: when is the peak, and how do the rates move it?

    python examples/gallery/epidemic.py

Susceptible, infected, recovered; contacts are halved when one in twenty is infected. The switch and
the peak are events of the integrator, whose times have derivatives by the rates.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fgrad
from fgrad.scipy.integrate import solve_ivp

ALARM, END = 0.05, 120.0
TRUE = np.array([0.5, 0.12])  # rates of contact and of recovery
TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def motion(_t: Any, y: Any, beta: Any, gamma: Any) -> Any:
    """Of the susceptible and the infected."""
    new = beta * y[0] * y[1]
    return np.stack([-new, new - gamma * y[1]])


def alarm(_t: Any, y: Any, _beta: Any, _gamma: Any) -> Any:
    """Zero when contacts are halved."""
    return y[1] - ALARM


def peak(_t: Any, y: Any, beta: Any, gamma: Any) -> Any:
    """Zero when as many recover as fall ill."""
    return beta * y[0] - gamma


alarm.terminal = True  # type: ignore[attr-defined]
peak.terminal = True  # type: ignore[attr-defined]


def course(p: Any) -> tuple[Any, Any, Any]:
    """The times of the alarm and the peak, and how many are infected then."""
    y0 = np.array([0.999, 0.001])
    first = solve_ivp(motion, (0.0, END), y0, args=(p[0], p[1]), events=alarm, **TIGHT)
    t, y = first.t_events[0][0], first.y_events[0][0]
    rest = solve_ivp(motion, (t, END), y, args=(0.5 * p[0], p[1]), events=peak, **TIGHT)
    return t, rest.t_events[0][0], rest.y_events[0][0][1]


def observed(p: Any) -> Any:
    """What a report has: both times and the greatest number."""
    t, top, count = course(p)
    return np.stack([t, top, 100 * count])


def main() -> None:
    """Find the rates from a report."""
    begin = time.perf_counter()
    report = observed(TRUE)
    print(f"alarm on day {report[0]:.2f}, peak on day {report[1]:.2f}, {report[2]:.2f} % infected")
    jacobian, step = fgrad.jacfwd(observed)(TRUE), 1e-5
    columns = [observed(TRUE + step * e) - observed(TRUE - step * e) for e in np.eye(2)]
    difference = np.stack(columns, axis=1) / (2 * step)
    wrong = np.max(abs(jacobian - difference)) / np.max(abs(jacobian))
    back = fgrad.grad(lambda p: observed(p)[1])(TRUE)
    assert np.max(abs(back - jacobian[1])) < 1e-4 * np.max(abs(back))

    p = np.array([0.6, 0.15])
    for _ in range(5):  # Gauss and Newton
        p = p - np.linalg.lstsq(fgrad.jacfwd(observed)(p), observed(p) - report, rcond=None)[0]
    print(f"rates {p.round(6)}, gradient error {wrong:.1e}")
    assert wrong < 1e-4 and np.max(abs(p - TRUE)) < 1e-6
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
