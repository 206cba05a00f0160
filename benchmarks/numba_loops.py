"""The array workloads as a Numba user writes them: loops by hand, over two threads where they help.

Loaded only where Numba is installed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange

REORDERED = {"reassoc", "nsz", "contract", "arcp"}  # sums may be vectorised


@njit(parallel=True, cache=True)
def multiply_add(a: Any, b: Any, c: Any) -> Any:
    out = np.empty_like(a)
    for i in prange(a.size):
        out[i] = a[i] * b[i] + c[i]
    return out


@njit(parallel=True, cache=True)
def gelu(x: Any) -> Any:
    out = np.empty_like(x)
    half, one = x.dtype.type(0.5), x.dtype.type(1.0)
    scale, cube = x.dtype.type(0.7978845608), x.dtype.type(0.044715)
    for i in prange(x.size):
        v = x[i]
        out[i] = half * v * (one + math.tanh(scale * (v + cube * v * v * v)))
    return out


@njit(inline="always")
def cdf(x: float) -> float:
    return 0.5 * (1.0 + math.erf(x * 0.7071067811865476))


@njit(parallel=True, cache=True)
def prices(spot: Any, strike: Any, time: Any, rate: Any, vol: Any) -> Any:
    out = np.empty_like(spot)
    for i in prange(spot.size):
        spread = vol[i] * math.sqrt(time[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate[i] + 0.5 * vol[i] ** 2) * time[i]) / spread
        discounted = strike[i] * math.exp(-rate[i] * time[i])
        out[i] = spot[i] * cdf(d1) - discounted * cdf(d1 - spread)
    return out


@njit(parallel=True, cache=True)
def greeks(spot: Any, strike: Any, time: Any, rate: Any, vol: Any) -> Any:
    n = spot.size
    ds, dk, dt, dr, dv = (np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n))
    for i in prange(n):
        root = math.sqrt(time[i])
        spread = vol[i] * root
        d1 = (math.log(spot[i] / strike[i]) + (rate[i] + 0.5 * vol[i] ** 2) * time[i]) / spread
        discount = math.exp(-rate[i] * time[i])
        second = cdf(d1 - spread)
        density = math.exp(-0.5 * d1 * d1) * 0.3989422804014327
        ds[i] = cdf(d1)
        dk[i] = -discount * second
        dt[i] = spot[i] * density * vol[i] / (2.0 * root) + rate[i] * strike[i] * discount * second
        dr[i] = strike[i] * time[i] * discount * second
        dv[i] = spot[i] * density * root
    return ds, dk, dt, dr, dv


@njit(parallel=True, cache=True, fastmath=REORDERED)
def softmax(x: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


@njit(parallel=True, cache=True, fastmath=REORDERED)
def logsumexp(x: Any) -> Any:
    out = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - top)
        out[i] = math.log(total) + top
    return out


@njit(parallel=True, cache=True, fastmath=REORDERED)
def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    out = np.empty_like(x)
    kind = x.dtype.type
    n = kind(x.shape[1])
    for i in prange(x.shape[0]):
        mean = kind(0)
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean /= n
        variance = kind(0)
        for j in range(x.shape[1]):
            variance += (x[i, j] - mean) ** 2
        scale = kind(1) / kind(math.sqrt(variance / n + kind(1e-5)))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]
    return out


@njit(parallel=True, cache=True, fastmath=REORDERED)
def total(x: Any) -> Any:
    pieces = 64
    sums = np.zeros(pieces)
    size = (x.size + pieces - 1) // pieces
    for k in prange(pieces):
        part = 0.0
        for i in range(k * size, min((k + 1) * size, x.size)):
            part += x[i]
        sums[k] = part
    return x.dtype.type(sums.sum())


@njit(cache=True)
def running_total(x: Any) -> Any:
    out = np.empty_like(x)
    part = 0.0
    for i in range(x.size):
        part += x[i]
        out[i] = part
    return out


@njit(cache=True)
def segment_sum(x: Any, segments: Any) -> Any:
    out = np.zeros(1000)
    for i in range(x.size):
        out[segments[i]] += x[i]
    return out


@njit(parallel=True, cache=True, fastmath=REORDERED)
def bodies(x: Any, mass: Any) -> Any:
    n = x.shape[0]
    out = np.empty_like(x)
    for i in prange(n):
        a = b = c = 0.0
        for j in range(n):
            u, v, w = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
            r2 = u * u + v * v + w * w + 1e-3
            scale = mass[j] / (r2 * math.sqrt(r2))
            a += u * scale
            b += v * scale
            c += w * scale
        out[i, 0], out[i, 1], out[i, 2] = a, b, c
    return out


@njit(parallel=True, cache=True)
def mandelbrot(re: Any, im: Any) -> Any:
    out = np.empty_like(re)
    for i in prange(re.shape[0]):
        for j in range(re.shape[1]):
            x = y = 0.0
            n = 0
            while n < 100 and x * x + y * y < 4.0:
                x, y = x * x - y * y + re[i, j], 2.0 * x * y + im[i, j]
                n += 1
            out[i, j] = n
    return out


@njit(cache=True)
def slope(x: float, y: float, z: float) -> Any:
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


@njit(cache=True)
def lorenz_step(x: float, y: float, z: float) -> Any:
    h = 0.01
    a, b, c = slope(x, y, z)
    d, e, f = slope(x + 0.5 * h * a, y + 0.5 * h * b, z + 0.5 * h * c)
    g, i, j = slope(x + 0.5 * h * d, y + 0.5 * h * e, z + 0.5 * h * f)
    k, m, n = slope(x + h * g, y + h * i, z + h * j)
    x += h / 6.0 * (a + 2.0 * d + 2.0 * g + k)
    y += h / 6.0 * (b + 2.0 * e + 2.0 * i + m)
    z += h / 6.0 * (c + 2.0 * f + 2.0 * j + n)
    return x, y, z


@njit(cache=True)
def lorenz(start: Any) -> Any:
    x, y, z = start[0], start[1], start[2]
    for _ in range(10_000):
        x, y, z = lorenz_step(x, y, z)
    return np.array([x, y, z])


@njit(cache=True)
def pulled(x: float, y: float, z: float, a: float, b: float, c: float) -> Any:
    """The cotangents of a state from those of its slope."""
    return -10.0 * a + (28.0 - z) * b + y * c, 10.0 * a - b + x * c, -x * b - 8.0 / 3.0 * c


@njit(cache=True)
def lorenz_gradient(start: Any) -> Any:
    """Of the last state's length through 1,000 steps, from the states, which are kept."""
    h, count = 0.01, 1000
    states = np.empty((count, 3))
    x, y, z = start[0], start[1], start[2]
    for t in range(count):
        states[t, 0], states[t, 1], states[t, 2] = x, y, z
        x, y, z = lorenz_step(x, y, z)
    p, q, r = 2.0 * x, 2.0 * y, 2.0 * z
    for t in range(count - 1, -1, -1):
        x, y, z = states[t, 0], states[t, 1], states[t, 2]
        a, b, c = slope(x, y, z)
        x2, y2, z2 = x + 0.5 * h * a, y + 0.5 * h * b, z + 0.5 * h * c
        a, b, c = slope(x2, y2, z2)
        x3, y3, z3 = x + 0.5 * h * a, y + 0.5 * h * b, z + 0.5 * h * c
        a, b, c = slope(x3, y3, z3)
        u, v, w = h / 6.0 * p, h / 6.0 * q, h / 6.0 * r
        a4, b4, c4 = pulled(x + h * a, y + h * b, z + h * c, u, v, w)
        a3, b3, c3 = pulled(x3, y3, z3, 2.0 * u + h * a4, 2.0 * v + h * b4, 2.0 * w + h * c4)
        a2, b2, c2 = pulled(
            x2, y2, z2, 2.0 * u + 0.5 * h * a3, 2.0 * v + 0.5 * h * b3, 2.0 * w + 0.5 * h * c3
        )
        a1, b1, c1 = pulled(x, y, z, u + 0.5 * h * a2, v + 0.5 * h * b2, w + 0.5 * h * c2)
        p, q, r = p + a1 + a2 + a3 + a4, q + b1 + b2 + b3 + b4, r + c1 + c2 + c3 + c4
    return np.array([p, q, r])


@njit(cache=True)
def kalman(observations: Any, a: Any, q: Any, h: Any) -> Any:
    n, r, total = 4, 0.1, 0.0
    m, p, means = np.zeros(n), np.eye(n), np.empty(observations.size)
    m2, p2, ap, ph, gain = np.empty(n), np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(n)
    for t in range(observations.size):
        for i in range(n):
            m2[i] = 0.0
            for k in range(n):
                m2[i] += a[i, k] * m[k]
            for j in range(n):
                ap[i, j] = 0.0
                for k in range(n):
                    ap[i, j] += a[i, k] * p[k, j]
        for i in range(n):
            for j in range(n):
                p2[i, j] = q[i, j]
                for k in range(n):
                    p2[i, j] += ap[i, k] * a[j, k]
        s, miss = r, observations[t]
        for i in range(n):
            ph[i] = 0.0
            for k in range(n):
                ph[i] += p2[i, k] * h[k]
            s += h[i] * ph[i]
            miss -= h[i] * m2[i]
        total -= 0.5 * (miss * miss / s + math.log(2.0 * math.pi * s))
        for i in range(n):
            gain[i] = ph[i] / s
            m[i] = m2[i] + gain[i] * miss
        for j in range(n):
            column = 0.0
            for k in range(n):
                column += h[k] * p2[k, j]
            for i in range(n):
                p[i, j] = p2[i, j] - gain[i] * column
        means[t] = m2[0]
    return total, means


@njit(cache=True)
def array_writes_gradient(x: Any) -> Any:
    """Of the mean of `y[i] = sin(y[i - 1]) + x[i]`, which begins as x."""
    n = x.size
    y = x.copy()
    for i in range(1, n):
        y[i] = math.sin(y[i - 1]) + x[i]
    out = np.full(n, 1.0 / n)
    for i in range(n - 1, 0, -1):
        out[i - 1] += out[i] * math.cos(y[i - 1])
    return out


@njit
def one_array(a: Any) -> Any:
    return a + 1.0


@njit
def three_arrays(a: Any, b: Any, c: Any) -> Any:
    return a + 1.0


@njit
def ten_arrays(
    a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any
) -> Any:
    return a + 1.0
