"""Textbook recipes: Romberg integration, Runge-Kutta steps, a natural cubic spline."""

import numpy as np


def romberg(f, a, b, levels=5):
    """The integral of f by Richardson's extrapolation of the trapezoidal rule."""
    h = b - a
    previous = [0.5 * h * (f(a) + f(b))]
    for k in range(1, levels):
        h = h / 2
        points = a + h * np.arange(1, 2**k, 2)
        row = [0.5 * previous[0] + h * np.sum(f(points))]
        for j in range(k):
            row.append(row[j] + (row[j] - previous[j]) / (4 ** (j + 1) - 1))
        previous = row
    return previous[-1]


def lotka_volterra(state, rates):
    x, y = state
    a, b, c, d = rates
    return np.stack([a * x - b * x * y, d * x * y - c * y])


def runge_kutta(state, rates, dt, steps):
    track = [state]
    for _ in range(steps):
        k1 = lotka_volterra(state, rates)
        k2 = lotka_volterra(state + 0.5 * dt * k1, rates)
        k3 = lotka_volterra(state + 0.5 * dt * k2, rates)
        k4 = lotka_volterra(state + dt * k3, rates)
        state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        track.append(state)
    return np.stack(track)


def thomas(lower, diagonal, upper, rhs):
    """A tridiagonal system, by elimination in place."""
    n = len(rhs)
    d, r = diagonal.copy(), rhs.copy()
    for i in range(1, n):
        w = lower[i - 1] / d[i - 1]
        d[i] -= w * upper[i - 1]
        r[i] -= w * r[i - 1]
    x = np.zeros_like(r)
    x[-1] = r[-1] / d[-1]
    for i in range(n - 2, -1, -1):
        x[i] = (r[i] - upper[i] * x[i + 1]) / d[i]
    return x


def spline(x, y, at):
    """The natural cubic spline through points, evaluated."""
    h = np.diff(x)
    slope = np.diff(y) / h
    inner = thomas(h[1:-1] / 6, (h[:-1] + h[1:]) / 3, h[1:-1] / 6, np.diff(slope))
    m = np.pad(inner, 1)
    i = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    t, step = at - x[i], h[i]
    b = slope[i] - step * (2 * m[i] + m[i + 1]) / 6
    return y[i] + t * (b + t * (m[i] / 2 + t * (m[i + 1] - m[i]) / (6 * step)))


def run(rates, y):
    integral = romberg(lambda t: np.exp(-rates[0] * t) * np.sin(rates[1] * t + 1.0), 0.0, 2.0)
    track = runge_kutta(np.stack([y[0], y[1]]), rates, 0.05, 12)
    x = np.linspace(0.0, 3.0, len(y))
    return integral, track, spline(x, y, np.array([0.2, 1.1, 1.9, 2.95]))


def arguments(rng):
    return np.array([1.1, 0.4, 0.9, 0.3]), rng.uniform(0.8, 1.6, 7)
