"""L3. `select` of long arrays in NumPy, without branches.

    x where cond, else 0   =   bits(x) and -cond

`np.where` branches for each element: 4 to 8 ns where conditions are irregular, 0.4 where they are
not.  This takes 0.7 for both.
"""

from __future__ import annotations

import numpy as np

from fgrad.trace import Value

LONG = 32_768  # elements from which on branches are no longer foreseen
BLOCK = 16_384  # elements at a time, so that they stay in the first caches
_BITS = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def select(cond: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where cond, else y."""
    if (
        type(cond) is np.ndarray
        and cond.size >= LONG
        and x.dtype.kind == "f"
        and cond.flags.c_contiguous
    ):
        if _is_zero(y) and _fits(cond, x):
            return _kept(cond, x, True)
        if _is_zero(x) and _fits(cond, y):
            return _kept(cond, y, False)
    return np.where(cond, x, y)[()]


def _is_zero(x: Value) -> bool:
    return x.ndim == 0 and x == 0 and not np.signbit(x)


def _fits(cond: np.ndarray, x: np.ndarray) -> bool:
    return x.dtype.itemsize in _BITS and (x.ndim == 0 or x.flags.c_contiguous or not any(x.strides))


def _kept(cond: np.ndarray, x: np.ndarray, holds: bool) -> np.ndarray:
    """x where `cond` is `holds`, else 0."""
    out = np.empty(cond.shape, x.dtype)
    kind = _BITS[x.dtype.itemsize]
    bits, chosen = out.reshape(-1).view(kind), cond.reshape(-1).view(np.int8)
    one = x.ndim == 0 or not any(x.strides)
    given = x[(0,) * x.ndim].view(kind) if one else x.reshape(-1).view(kind)
    for start in range(0, chosen.size, BLOCK):
        part = slice(start, start + BLOCK)
        mask = bits[part]
        np.copyto(mask, chosen[part])
        if holds:
            np.negative(mask, out=mask)  # all bits of -1 are set
        else:
            np.subtract(mask, 1, out=mask)
        np.bitwise_and(mask, given if one else given[part], out=mask)
    return out
