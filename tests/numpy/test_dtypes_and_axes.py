"""Reductions with each dtype that may be asked for, and with axes in any order: NumPy's results.

Axes are negative, out of order, repeated, out of range, or none; what NumPy refuses is refused.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

RNG = np.random.default_rng(5)
SHAPE = (2, 3, 4)
ARRAYS = {
    "float64": RNG.normal(size=SHAPE),
    "int32": RNG.permutation(24).reshape(SHAPE).astype(np.int32) - 9,
    "bool": RNG.random(SHAPE) > 0.5,
    "complex128": RNG.normal(size=SHAPE) + 1j * RNG.normal(size=SHAPE),
    "float16": RNG.normal(size=SHAPE).astype(np.float16),
}
DTYPES = (None, int, float, np.float32, np.float16, complex, np.int8, np.uint8, bool, np.uint64)
AXES: tuple[Any, ...] = (
    None, 0, -1, (0, 1), (1, 0), (-1, 0), (0, -2), (2, 1, 0), (-1, -3, 1), (), (0, 0), (1, -2), 3,
)  # fmt: skip
WITH_DTYPE = (
    "sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd",
    "cumsum", "cumprod", "nancumsum", "nancumprod",
)  # fmt: skip
WITHOUT = (
    "max", "min", "ptp", "argmax", "argmin", "any", "all", "count_nonzero", "median", "average",
    "flip", "sort", "nanmax", "nanmin", "linalg.norm",
)  # fmt: skip


def _outcome(fun: Callable[[Any], Any], x: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(fun(x))
        except (TypeError, ValueError, IndexError):
            return None


def _agree(fun: Callable[[Any], Any], x: np.ndarray) -> bool:
    found, expected = _outcome(fgrad.jit(fun), x), _outcome(fun, x)
    if found is None or expected is None:
        return found is expected
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return False
    half = "e" in (found.dtype.char, x.dtype.char)
    tolerance = 2e-2 if half else 1e-4 if found.dtype.char in "fF" else 1e-9
    return np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", WITH_DTYPE)
def test_dtypes(name: str) -> None:
    function = getattr(np, name)
    wrong = [
        (kind, dtype)
        for kind, x in ARRAYS.items()
        for dtype in DTYPES
        if not _agree(functools.partial(function, axis=-1, dtype=dtype), x)
    ]
    assert not wrong


@pytest.mark.parametrize("name", WITH_DTYPE + WITHOUT)
def test_axes(name: str) -> None:
    function = np.linalg.norm if name == "linalg.norm" else getattr(np, name)
    arrays = {kind: ARRAYS[kind] for kind in ("float64", "int32")}
    wrong = [
        (kind, axis)
        for kind, x in arrays.items()
        for axis in AXES
        if not _agree(functools.partial(function, axis=axis), x)
    ]
    assert not wrong
