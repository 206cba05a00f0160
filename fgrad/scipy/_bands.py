"""L7. Matrices by their diagonals, as in `scipy.linalg`: of u upper ones row u - k is the k-th."""

from __future__ import annotations

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.trace import Value

plain = lazy_module("scipy.linalg")


def solved_bands(
    sides: tuple[int, int], ab: np.ndarray, b: np.ndarray, check_finite: bool
) -> np.ndarray:
    """SciPy's solution; of three diagonals by its routine at once."""
    if sides != (1, 1) or ab.dtype != np.float64 or b.dtype != np.float64 or ab.shape[-1] < 2:
        return plain.solve_banded(sides, ab, b, check_finite=check_finite)
    if check_finite and not (np.isfinite(ab).all() and np.isfinite(b).all()):
        raise ValueError("array must not contain infs or NaNs")
    *_, x, info = plain.lapack.dgtsv(ab[2, :-1], ab[1], ab[0, 1:], b)
    if info > 0:
        raise np.linalg.LinAlgError("singular matrix")
    return np.ascontiguousarray(x)


def banded_product(bands: Value, upper: int, offsets: range, x: Value) -> Value:
    """The product of a matrix given by its diagonals, which lie `offsets` above the main one."""
    n = bands.shape[-1]
    rest = [(0, 0)] * (len(x.shape) - 1)
    total = x * 0
    for k in offsets:
        row = np.reshape(bands[upper - k], (n, *[1] * len(rest))) * x
        kept = row[k:] if k >= 0 else row[:k]
        total = total + np.pad(kept, [(max(-k, 0), max(k, 0)), *rest])
    return total


def turned_bands(bands: np.ndarray, upper: int, offsets: range) -> np.ndarray:
    """The diagonals of the transpose."""
    found, n = np.zeros_like(bands), bands.shape[-1]
    lower = len(offsets) - 1 - upper
    for k in offsets:  # of the transpose, the diagonal k is -k of the matrix
        source = bands[upper - k]
        first, last = max(-k, 0), n - max(k, 0)
        found[lower + k, first:last] = source[max(k, 0) : n - max(-k, 0)]
    return found
