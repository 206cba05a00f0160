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
def slope(s: Any, out: Any) -> None:
    out[0] = 10.0 * (s[1] - s[0])
    out[1] = s[0] * (28.0 - s[2]) - s[1]
    out[2] = s[0] * s[1] - 8.0 / 3.0 * s[2]


@njit(cache=True)
def lorenz(start: Any) -> Any:
    s, h = start.copy(), 0.01
    k1, k2, k3, k4 = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for _ in range(10_000):
        slope(s, k1)
        slope(s + 0.5 * h * k1, k2)
        slope(s + 0.5 * h * k2, k3)
        slope(s + h * k3, k4)
        for i in range(3):
            s[i] += h / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i])
    return s


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
