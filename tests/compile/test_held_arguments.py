"""Native calls that hold their arguments: long work without the GIL, copies of strided arrays."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fgrad

ARRAYS = {
    "long": np.arange(200_000, dtype=np.float32),
    "strided": np.arange(200, dtype=np.float64)[::2],
    "reversed": np.arange(300, dtype=np.float64)[::-1],
    "transposed": np.arange(12, dtype=np.float64).reshape(3, 4).T,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_references_are_given_back(name: str) -> None:
    x = ARRAYS[name]
    square = fgrad.jit(lambda x: x * x)
    before = sys.getrefcount(x)
    for _ in range(40):
        np.testing.assert_array_equal(square(x), x * x)
    assert sys.getrefcount(x) == before


def test_results_are_not_used_again_while_they_are_alive() -> None:
    x = ARRAYS["long"]
    double = fgrad.jit(lambda x, k: x * k)
    kept = [double(x, np.float32(k)) for k in range(40)]
    for k, result in enumerate(kept):
        np.testing.assert_array_equal(result, x * np.float32(k))
