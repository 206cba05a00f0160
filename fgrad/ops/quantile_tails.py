"""L3. Inverses of incomplete beta functions at tiny probabilities, of plain numbers.

    I_x(a, b) = p,  x -> 0:    x^a / (a B(a, b)) = p (1 + O(b x))

SciPy's give NaN there, or the least normal float, where the root is smaller: each is kept where it
solves its equation, else its place is taken by the first term above, which is exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.typing import Array

special = lazy_module("scipy.special")

SMALL = 1e-17  # what (1 + |b|) x may be where one term is enough
SOLVED = 1e-9  # the relative error of F at a result that is kept


def _first_term(a: Array, b: Array, p: Array) -> tuple[Array, Array]:
    """log x of one term, and where it is enough."""
    log_x = (np.log(p) + np.log(a) + special.betaln(a, b)) / a
    return log_x, (p > 0) & (p < 1) & (np.exp(log_x) * (1 + np.abs(b)) < SMALL)


def _repaired(
    found: Array, near: Array, at: Callable[[Array], Array], p: Array, better: Array
) -> Array:
    """`found`, with `better` where a root is near 0 and F at what is found is not p."""
    lost = near & ~(np.abs(at(found) - p) <= SOLVED * p)
    return np.where(lost, better, found)


def _doubles(*xs: Array) -> list[Array]:
    return [np.asarray(x, np.float64) for x in np.broadcast_arrays(*xs)]


def betaincinv(a: Array, b: Array, p: Array) -> Array:
    """x of I_x(a, b) = p."""
    a, b, p = _doubles(a, b, p)
    found = special.betaincinv(a, b, p)
    with np.errstate(all="ignore"):
        log_x, near = _first_term(a, b, p)
        if not near.any():
            return found
        return _repaired(found, near, lambda x: special.betainc(a, b, x), p, np.exp(log_x))


def betainccinv(a: Array, b: Array, q: Array) -> Array:
    """x of 1 - I_x(a, b) = q, which is 1 - y where I_y(b, a) = q."""
    a, b, q = _doubles(a, b, q)
    found = special.betainccinv(a, b, q)
    lost = np.isnan(found) & (q > 0) & (q < 1)
    return np.where(lost, 1 - betaincinv(b, a, q), found) if lost.any() else found


def fdtri(m: Array, n: Array, p: Array) -> Array:
    """x of I_w(m / 2, n / 2) = p with w = m x / (n + m x)."""
    m, n, p = _doubles(m, n, p)
    found = special.fdtri(m, n, p)
    with np.errstate(all="ignore"):
        log_w, near = _first_term(m / 2, n / 2, p)
        if not near.any():
            return found
        better = np.exp(log_w + np.log(n) - np.log(m))
        return _repaired(found, near, lambda x: special.fdtr(m, n, x), p, better)


def stdtrit(df: Array, p: Array) -> Array:
    """t of Student's distribution: I_w(df / 2, 1/2) / 2 is the tail, w = df / (df + t^2)."""
    df, p = _doubles(df, p)
    found = special.stdtrit(df, p)
    with np.errstate(all="ignore"):
        tail = np.minimum(p, 1 - p)
        log_w, near = _first_term(df / 2, np.full_like(df, 0.5), 2 * tail)
        if not near.any():
            return found
        size = np.exp((np.log(df) - log_w) / 2)
        far = -np.abs(found)
        return _repaired(
            found, near, lambda _: special.stdtr(df, far), tail, np.sign(p - 0.5) * size
        )
