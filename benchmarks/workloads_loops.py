"""Workloads that are loops: differential equations, filters, samplers, recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Cost, Workload
from libraries import Library
from workloads_arrays import Call, jitted, normal
from workloads_models import F32


def lorenz_step(lib: Library) -> Callable[[Any], Any]:
    """One step of Runge and Kutta's method of order 4."""

    def slope(s: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return lib.np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])

    def step(s: Any) -> Any:
        h = 0.01
        k1 = slope(s)
        k2 = slope(s + 0.5 * h * k1)
        k3 = slope(s + 0.5 * h * k2)
        k4 = slope(s + h * k3)
        return s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    return step


def lorenz(lib: Library) -> Call:
    """Ten thousand steps."""
    step = lorenz_step(lib)

    def run(s: Any) -> Any:
        return lib.api.lax.fori_loop(0, 10_000, lambda _, s: step(s), s)

    return jitted(lib, run, np.ones(3))


def lorenz_gradient(lib: Library) -> Call:
    """Of the last state's length, through a thousand steps."""
    step = lorenz_step(lib)

    def final(s: Any) -> Any:
        s, _ = lib.api.lax.scan(lambda s, _: (step(s), None), s, None, length=1000)
        return lib.np.sum(s * s)

    return jitted(lib, lib.api.grad(final), np.ones(3))


def kalman_arguments() -> list[np.ndarray]:
    """Observations, and what moves, blurs and shows the state."""
    a = np.eye(4) + 0.1 * np.eye(4, k=1)
    return [np.sin(np.arange(1000) / 20.0), a, 0.01 * np.eye(4), np.array([1.0, 0.0, 0.5, 0.0])]


def kalman(lib: Library) -> Call:
    """Log-likelihood of 1,000 scalar observations of a state of 4 numbers."""
    xp, r = lib.np, 0.1

    def run(observations: Any, a: Any, q: Any, h: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            m, p, total = carry
            m, p = a @ m, a @ p @ a.T + q
            s = h @ p @ h + r
            gain, miss = p @ h / s, y - h @ m
            total = total - 0.5 * (miss * miss / s + xp.log(2.0 * np.pi * s))
            return (m + gain * miss, p - xp.outer(gain, h @ p), total), m[0]

        start = (xp.zeros(4), xp.eye(4), xp.sum(h) * 0.0)
        (_, _, total), means = lib.api.lax.scan(step, start, observations)
        return total, means

    return jitted(lib, run, *kalman_arguments())


def leapfrog(lib: Library) -> Call:
    """A thousand steps of Hamiltonian dynamics on a logistic posterior."""
    x, y = normal(100, 10), np.sign(normal(100, seed=1))

    def run(q: Any, p: Any, x: Any, y: Any) -> Any:
        def potential(q: Any) -> Any:
            return lib.np.sum(lib.np.log1p(lib.np.exp(-y * (x @ q)))) + 0.5 * lib.np.sum(q * q)

        slope = lib.api.grad(potential)

        def step(_: Any, state: Any) -> Any:
            q, p = state
            p = p - 0.005 * slope(q)
            q = q + 0.01 * p
            return q, p - 0.005 * slope(q)

        return lib.api.lax.fori_loop(0, 1000, step, (q, p))

    return jitted(lib, run, np.zeros(10), normal(10, seed=2), x, y)


def lstm(lib: Library) -> Call:
    """The gradient of 100 steps with 64 cells, batch 16."""
    xp = lib.np

    def loss(w: Any, u: Any, inputs: Any) -> Any:
        def squash(z: Any) -> Any:
            return 1.0 / (1.0 + xp.exp(-z))

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            z = (x @ w + h @ u).reshape(16, 4, 64)
            c = squash(z[:, 0]) * c + squash(z[:, 1]) * xp.tanh(z[:, 2])
            h = squash(z[:, 3]) * xp.tanh(c)
            return (h, c), None

        zeros = xp.zeros_like(inputs, shape=(16, 64))
        (h, _), _ = lib.api.lax.scan(step, (zeros, zeros), inputs)
        return xp.mean(h * h)

    w, u = (normal(n, 256, dtype=F32, seed=n) * F32(0.1) for n in (32, 64))
    return jitted(lib, lib.api.grad(loss, argnums=(0, 1)), w, u, normal(100, 16, 32, dtype=F32))


def lotka_volterra(lib: Library) -> Call:
    """The gradient of 1,000 steps with a state of two numbers, in the parameters and the start."""
    xp = lib.np

    def loss(p: Any, s: Any) -> Any:
        def slope(s: Any) -> Any:
            eaten = s[0] * s[1]
            return xp.stack([p[0] * s[0] - p[1] * eaten, p[2] * eaten - p[3] * s[1]])

        def step(s: Any, _: Any) -> Any:
            h = 0.01
            k1 = slope(s)
            k2 = slope(s + 0.5 * h * k1)
            k3 = slope(s + 0.5 * h * k2)
            k4 = slope(s + h * k3)
            return s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), s

        _, path = lib.api.lax.scan(step, s, None, length=1000)
        return xp.mean(path * path)

    return jitted(lib, lib.api.grad(loss, argnums=(0, 1)), RATES, np.array([10.0, 5.0]))


RATES = np.array([1.1, 0.4, 0.1, 0.4])


def solutions(lib: Library) -> Call:
    """The gradient of 1,000 systems of 4 equations, each of the last one's solution."""
    xp = lib.np

    def loss(a: Any, b: Any, items: Any) -> Any:
        def step(x: Any, item: Any) -> Any:
            x = xp.linalg.solve(a + 0.1 * xp.outer(x, x), b + item)
            return x, x

        _, path = lib.api.lax.scan(step, b, items)
        return xp.mean(path * path)

    matrix = 4.0 * np.eye(4) + normal(4, 4)
    return jitted(
        lib, lib.api.grad(loss, argnums=(0, 1)), matrix, normal(4, seed=1), normal(1000, 4, seed=2)
    )


def array_writes(count: int) -> Callable[[Library], Call]:
    """The gradient of a loop that writes one element of an array in each step."""

    def workload(lib: Library) -> Call:
        def loss(x: Any) -> Any:
            def step(i: Any, y: Any) -> Any:
                return y.at[i].set(lib.np.sin(y[i - 1]) + x[i])

            return lib.np.mean(lib.api.lax.fori_loop(1, count, step, x))

        return jitted(lib, lib.api.grad(loss), normal(count))

    return workload


def mandelbrot(lib: Library) -> Call:
    """512 x 512 points, 100 steps each, by vmap of a loop over one point."""

    def escape(re: Any, im: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, y, n = state
            inside = x * x + y * y < 4.0
            x, y = (
                lib.np.where(inside, x * x - y * y + re, x),
                lib.np.where(inside, 2.0 * x * y + im, y),
            )
            return x, y, n + lib.np.where(inside, 1.0, 0.0)

        return lib.api.lax.fori_loop(0, 100, step, (re * 0.0, im * 0.0, re * 0.0))[2]

    points = np.meshgrid(np.linspace(-2.0, 0.6, 512), np.linspace(-1.2, 1.2, 512))
    over_rows = lib.api.vmap(lib.api.vmap(escape))
    return jitted(lib, over_rows, *points)


def mandelbrot_while(lib: Library) -> Call:
    """The same by vmap of a loop that ends when its point has escaped."""

    def escape(re: Any, im: Any) -> Any:
        def going(state: Any) -> Any:
            x, y, n = state
            return lib.np.logical_and(x * x + y * y < 4.0, n < 100.0)

        def step(state: Any) -> Any:
            x, y, n = state
            return x * x - y * y + re, 2.0 * x * y + im, n + 1.0

        return lib.api.lax.while_loop(going, step, (re * 0.0, im * 0.0, re * 0.0))[2]

    points = np.meshgrid(np.linspace(-2.0, 0.6, 512), np.linspace(-1.2, 1.2, 512))
    return jitted(lib, lib.api.vmap(lib.api.vmap(escape)), *points)


LOOPS = (
    Workload(
        "Lorenz RK4, 10,000 steps", 0.9, lorenz, exact=False, cost=Cost(chain=12 * 10_000)
    ),  # it is chaotic
    Workload(
        "gradient through 1,000 RK4 steps",
        0.04,
        lorenz_gradient,
        exact=False,
        cost=Cost(chain=24 * 1000),
    ),
    Workload("Kalman filter, 4 states, 1,000 steps", 0.07, kalman, cost=Cost(chain=18 * 1000)),
    Workload(
        "leapfrog on logistic regression, 1,000 steps",
        0.4,
        leapfrog,
        cost=Cost(
            flops=8e6,
            functions=2e5,
            divisions=2e5,
            chain=60 * 1000,
            reason="the same at 100 x 10, twice in a step",
        ),
    ),
    Workload(
        "LSTM gradient, 100 steps x 64",
        0.4,
        lstm,
        cost=Cost(flops=100 * 16 * 256 * (64 + 2 * 96) * 2, functions=512e3, single=True),
    ),
    Workload(
        "Lotka-Volterra, gradient of 1,000 RK4 steps",
        0.5,
        lotka_volterra,
        cost=Cost(chain=24 * 1000),
    ),
    Workload(
        "gradient of 1,000 systems of 4 equations", 0.5, solutions, cost=Cost(chain=55 * 1000)
    ),
    Workload(
        "array written in a loop of 1,000, gradient",
        0.5,
        array_writes(1_000),
        cost=Cost(chain=14 * 1000),
    ),
    Workload(
        "array written in a loop of 10,000, gradient",
        0.5,
        array_writes(10_000),
        cost=Cost(chain=14 * 10_000),
    ),
    Workload(
        "Mandelbrot 512x512x100, vmap of a loop",
        0.25,
        mandelbrot,
        exact=False,
        cost=Cost(2 * 512**2 * 8, 512**2 * 8, flops=16 * 100 * 512**2),
    ),
    Workload(
        "Mandelbrot 512x512x100, vmap of a while loop",
        0.25,
        mandelbrot_while,
        exact=False,
        cost=Cost(2 * 512**2 * 8, 512**2 * 8, flops=16 * 7.66e6),
    ),
)
