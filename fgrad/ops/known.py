"""L3. Tests of known values by which rules skip cases that do not occur.

    t y / (x^2 + y^2)      as it stands, where no square overflows or vanishes
    t out / x              the derivative of a product, where no factor is 0

A test reads an array once and writes nothing; the cases that it rules out are selections, each of
which reads and writes several.  Of traced values nothing is known.
"""

from __future__ import annotations

import numpy as np

from fgrad.trace import Value

_LEAST = {np.dtype(np.float32): 1e-30, np.dtype(np.float64): 1e-290}  # squares of that are exact


def known(*xs: Value | None) -> bool:
    """Whether all are arrays or numbers of NumPy: not traced, not on a device."""
    return all([type(x) is np.ndarray or isinstance(x, np.generic) for x in xs])


def is_positive(x: Value) -> bool:
    """Whether all are known to be finite numbers above 0."""
    return known(x) and x.dtype.kind == "f" and _between(x, 0.0)


def _between(x: Value, low: float) -> bool:
    """Whether all lie between a number and infinity; True for empty arrays."""
    if not x.size:
        return True
    return bool(np.minimum.reduce(x, None) > low and np.maximum.reduce(x, None) < np.inf)


def has_no_nan(x: Value) -> bool:
    """Whether floats are known, and no NaN: half a pass over them."""
    if not known(x) or x.dtype.kind not in "fc":
        return False
    square = np.vdot(x, x)
    return bool(square == square)


def over_squares(x: Value, y: Value) -> Value | None:
    """x / (x^2 + y^2) of known numbers, or None where a square may overflow or vanish."""
    if not known(x, y) or x.dtype not in _LEAST:
        return None
    squares = np.multiply(x, x) + np.multiply(y, y)
    if not _between(squares, _LEAST[x.dtype]):
        return None
    return np.divide(x, squares, out=squares if squares.ndim else None)


def other_products(x: Value) -> Value:
    """The product of all others along the last axis, also where some are 0."""
    others = np.empty_like(x)
    others[..., :1] = 1
    np.multiply.accumulate(x[..., :-1], -1, out=others[..., 1:])
    after = np.multiply.accumulate(x[..., :0:-1], -1)
    others[..., :-1] *= after[..., ::-1]
    return others
