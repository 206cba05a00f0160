"""L3. The confluent hypergeometric limit function of plain numbers, for large parameters too.

    0F1(; v; z) = Gamma(v) s^(1 - v) J_{v-1}(2 s),   z = -s^2         (DLMF 10.16.9)
                = sum over k of z^k / ((v)_k k!)                      (DLMF 16.2.1)

SciPy's is the first product, whose factors overflow and underflow for large v: 0F1(; 200; -50) is
NaN there.  The sum has no cancellation for |z| <= |v|; beyond, the factors are multiplied by their
logarithms, and where J itself underflows it is Debye's expansion (DLMF 10.19.3).
"""

from __future__ import annotations

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.typing import Array

special = lazy_module("scipy.special")

LARGE = 40.0  # parameters for which no factor of SciPy's product is out of range
TERMS = 24  # each is less than 1 / k of the one before
TINY = 1e-290  # of J, which has lost digits below
# u_k(p) of Debye's expansion by powers of p^2, without their factor p^k (DLMF 10.41.10).
DEBYE = (
    (1 / 8, -5 / 24),
    (9 / 128, -77 / 192, 385 / 1152),
    (75 / 1024, -4563 / 5120, 17017 / 9216, -85085 / 82944),
    (3675 / 32768, -96833 / 40960, 144001 / 16384, -7436429 / 663552, 37182145 / 7962624),
)


def hyp0f1(v: Array, z: Array) -> Array:
    """SciPy's function, and the forms above where its product is lost."""
    v, z = [np.asarray(x, np.float64) for x in np.broadcast_arrays(v, z)]
    with np.errstate(all="ignore"):
        found = special.hyp0f1(v, z)
        lost = (z < 0) & (np.abs(v) >= LARGE) & np.isfinite(v) & np.isfinite(z)
        lost &= (v > 0) | ((v != np.floor(v)) & (np.abs(z) <= np.abs(v)))
        if not lost.any():
            return found
        safe_v, safe_z = np.where(lost, v, LARGE), np.where(lost, z, -1.0)
        near = np.abs(safe_z) <= np.abs(safe_v)
        better = np.where(near, _by_sum(safe_v, safe_z), _by_product(np.abs(safe_v), safe_z))
        return np.where(lost, better, found)


def _by_sum(v: Array, z: Array) -> Array:
    total = term = np.ones_like(z)
    for k in range(TERMS):
        term = term * z / ((v + k) * (k + 1))
        total = total + term
    return total


def _by_product(v: Array, z: Array) -> Array:
    """exp(log Gamma(v) + (1 - v) log s) J, whose logarithms are joined by Stirling's series."""
    order, s = v - 1, np.sqrt(-z)
    stirling = (1 / 12 - (1 / 360 - 1 / 1260 / order**2) / order**2) / order
    factor = order * (np.log(order / s) - 1) + 0.5 * np.log(2 * np.pi * order) + stirling
    bessel = special.jv(order, 2 * s)
    return np.where(
        (np.abs(bessel) > TINY) | (2 * s > order),
        np.exp(factor) * bessel,
        _by_debye(order, np.minimum(2 * s / order, 1.0), stirling),
    )


def _by_debye(order: Array, x: Array, stirling: Array) -> Array:
    """Gamma(v) s^(1 - v) J of an order that is much larger than 2 s = x order."""
    t = np.sqrt((1 - x) * (1 + x))
    p = 1 / t
    series = np.ones_like(t)
    for k, row in enumerate(DEBYE, 1):
        series = series + np.polynomial.polynomial.polyval(p * p, row) * (p / order) ** k
    away = -x * x / (1 + t)  # t - 1
    return np.exp(order * (away - np.log1p(away / 2)) + stirling) * series / np.sqrt(t)
