"""A boundary value problem: how does Bratu's equation's solution change with its parameter?

    python examples/gallery/boundary_value_problem.py

u'' + c exp(u) = 0, u(0) = u(1) = 0, by Numerov's differences of fourth order. The solution is a
root of the equations at the nodes; its derivative by c is that of the root, whatever found it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.integrate

import fgrad
from fgrad.scipy.optimize import brentq, root

NODES = 101
H = 1 / (NODES - 1)
X = np.linspace(0, 1, NODES)


def equations(u: Any, c: Any) -> Any:
    """Zero at the solution's inner nodes."""
    u = np.concatenate([[0.0], u, [0.0]])
    f = -c * np.exp(u)
    return (u[2:] - 2 * u[1:-1] + u[:-2]) / H**2 - (f[2:] + 10 * f[1:-1] + f[:-2]) / 12


def solution(c: Any) -> Any:
    """At the inner nodes, on the lower branch."""
    return root(equations, np.zeros(NODES - 2), args=(c,)).x


def exact_middle(c: Any) -> Any:
    """u(1/2) = 2 log cosh(t), where t / cosh(t) = sqrt(2 c) / 4."""
    t = brentq(lambda t: np.sqrt(2 * c) / 4 - t / np.cosh(t), 0.0, 1.19)
    return 2 * np.log(np.cosh(t))


def main() -> None:
    """Compare with the known solution, with SciPy's collocation, and with differences."""
    begin = time.perf_counter()
    c = 2.0
    u = solution(c)
    middle = u[NODES // 2 - 1]

    def field(_x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.stack([y[1], -c * np.exp(y[0])])

    def ends(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.array([a[0], b[0]])

    other = scipy.integrate.solve_bvp(field, ends, X, np.zeros((2, NODES)), tol=1e-8).sol(X)[0]
    slope = fgrad.grad(lambda c: solution(c)[NODES // 2 - 1])(c)
    forward = fgrad.jvp(lambda c: solution(c)[NODES // 2 - 1], (c,), (1.0,))[1]
    exact_slope = fgrad.grad(exact_middle)(c)
    step = 1e-5
    ends_of = [solution(c + s)[NODES // 2 - 1] for s in (step, -step)]
    difference = (ends_of[0] - ends_of[1]) / (2 * step)
    second = fgrad.grad(fgrad.grad(lambda c: solution(c)[NODES // 2 - 1]))(c)
    print(f"u(1/2) = {middle:.8f}, exact {exact_middle(c):.8f}")
    print(f"slope {slope:.8f}, exact {exact_slope:.8f}, second {second:.5f}")
    print(f"gradient error {abs(slope - difference) / slope:.1e}")
    assert abs(middle - exact_middle(c)) < 1e-7 and np.max(abs(u - other[1:-1])) < 1e-6
    assert abs(slope - exact_slope) < 1e-6 and abs(slope - forward) < 1e-10
    assert abs(slope - difference) < 1e-6 * slope
    assert abs(second - fgrad.grad(fgrad.grad(exact_middle))(c)) < 1e-5
    print(f"{time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
