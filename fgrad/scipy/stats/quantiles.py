"""L7. Quantiles of plain numbers, exact far out: bisection over floating point numbers.

    ppf(q) = z   where   log F(z) = log q        isf(q) = z   where   log(1 - F(z)) = log q

SciPy's searches end at absolute tolerances, and some of its formulas have 1 - q in them: a quantile
of 1e-20 may be anything. The bits of floats, read as integers, are in the order of the floats, so
that 64 halvings find the float next to the root, wherever it lies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.trace import Value

Plain = np.ndarray
Logarithm = Callable[..., Value]  # of a tail, of points and parameters
ULPS = 64  # within which SciPy's result is kept
EXACT = 1e-12  # the error of a logarithm of a tail, relative
SOLVED = 1e-3  # the same of a root that replaces one where the tail is less than any float


def _as_integers(x: Plain) -> Plain:
    """The place of each float64 among all of them."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _as_floats(places: Plain) -> Plain:
    return (places ^ ((places >> 63) & np.int64(2**63 - 1))).view(np.float64)


def _root(away: Callable[[Plain], Plain], low: Plain, high: Plain) -> Plain:
    """The first float at which a rising function is not negative, between two floats."""
    first, last = _as_integers(low), _as_integers(high)
    for _ in range(64):
        middle = (first >> 1) + (last >> 1) + (first & last & 1)
        less = away(_as_floats(middle)) < 0
        first, last = np.where(less, middle, first), np.where(less, last, middle)
    return _as_floats(last)


def refined(
    tails: tuple[Logarithm, Logarithm],
    q: Plain,
    found: Plain,
    ends: tuple[Plain, Plain],
    shapes: tuple[Plain, ...],
) -> Plain:
    """Quantiles of q, those `found` unless they are not exact.

    Arguments:
        tails: `(z, *shapes)` to the logarithm of the probability that is to be q, and to that of
            the other tail. The first rises with z for a quantile, and falls for its opposite.
        ends: of the support.
    """
    first, other = tails
    small = q <= 0.5
    with np.errstate(all="ignore"):
        wanted = np.where(small, np.log(q), np.log1p(-q))

        def distance(z: Plain, k: Plain) -> Plain:
            """Of the smaller tail from what is wanted, for the elements k."""
            given = [s[k] for s in shapes]
            value = np.where(small[k], first(z, *given), other(z, *given)) - wanted[k]
            return np.asarray(value)

        inner = np.flatnonzero((q > 0) & (q < 1))
        z = found[inner]
        left, at = distance(z, inner), distance(np.nextafter(z, np.inf), inner)
        exact = np.abs(left) <= ULPS * np.abs(at - left) + EXACT * np.abs(wanted[inner])
        bad = inner[~(exact & np.isfinite(z))]
        if not bad.size:
            return found
        low, high = [end[bad] for end in ends]
        rises = np.sign(distance(high, bad) - distance(low, bad))
        better = _root(lambda z: rises * distance(z, bad), low, high)
        left, before = np.abs(distance(better, bad)), np.abs(distance(found[bad], bad))
        closer = (left <= before) & (np.isfinite(before) | (left <= SOLVED * np.abs(wanted[bad])))
        result = found.copy()
        result[bad] = np.where(closer | ~np.isfinite(found[bad]), better, found[bad])
    return result
