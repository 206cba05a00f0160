"""L3. The derivative of Hurwitz's zeta function in its exponent, in NumPy."""

from __future__ import annotations

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.typing import Array

special = lazy_module("scipy.special")

SHIFT = 16  # terms that are summed one by one
EVEN = 12  # terms of Euler's and Maclaurin's formula


def zeta_slope(s: Array, q: Array) -> np.ndarray:
    """d/ds sum_k (k + q)^-s, continued to s < 1 for q = 1.

    By Euler's and Maclaurin's formula (DLMF 25.11.5) with dual numbers; for s < -1/2 by Riemann's
    equation zeta(s) = 2 (2 pi)^(s - 1) sin(pi s / 2) gamma(1 - s) zeta(1 - s) (DLMF 25.4.1).
    """
    s, q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    with np.errstate(all="ignore"):
        low = s < -0.5
        above = np.where(low, 1 - s, s)
        slope = _euler_maclaurin(above, q)
        reflected = _reflected(s, np.where(low, slope, 0))
        known = np.isfinite(s) & (q > 0) & ((s > 1) | (q == 1))
        out = np.where(known, np.where(low, reflected, slope), np.nan)
    return np.where((s == np.inf) & (q > 1), 0.0, out)


def _euler_maclaurin(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The derivative of sum_{k<N} (k+q)^-s + w^(1-s) / (s-1) + w^-s / 2
    + sum_j B_2j / (2j)! s (s+1) ... (s+2j-2) w^(1-s-2j), for w = q + N."""
    total = np.zeros(s.shape)
    for k in range(SHIFT):
        total = total - np.log(k + q) * (k + q) ** -s
    w = q + SHIFT
    log_w, power = np.log(w), w**-s
    total = total - w * power * (log_w / (s - 1) + 1 / (s - 1) ** 2) - log_w * power / 2
    numbers = special.bernoulli(2 * EVEN)
    rising, slope = s, np.ones(s.shape)  # s (s + 1) ... and its derivative
    factorial = 2.0
    for j in range(1, EVEN + 1):
        factor = numbers[2 * j] / factorial * w ** (1 - 2 * j) * power
        total = total + factor * (slope - log_w * rising)
        for i in (2 * j - 1, 2 * j):
            rising, slope = rising * (s + i), slope * (s + i) + rising
        factorial *= (2 * j + 1) * (2 * j + 2)
    return total


def _reflected(s: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The derivative of 2 (2 pi)^(s-1) sin(pi s / 2) gamma(1-s) zeta(1-s); slope is zeta'(1-s)."""
    front = 2 * (2 * np.pi) ** (s - 1) * special.gamma(1 - s)
    value = special.zeta(np.where(s < -0.5, 1 - s, 2.0))
    sine, cosine = np.sin(np.pi * s / 2), np.cos(np.pi * s / 2)
    logarithm = np.log(2 * np.pi) - special.digamma(1 - s)
    return front * ((sine * logarithm + np.pi / 2 * cosine) * value - sine * slope)
