"""Complex arrays as pairs of real ones: how they are taken apart and put together, quotients."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad

SPECIAL = (0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, -1e-300)


def same_bits(x, y):
    return np.array_equal(
        np.ascontiguousarray(x).view(np.uint8), np.ascontiguousarray(y).view(np.uint8)
    )


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 1000])
def test_parts_are_copies(size, dtype, rng):
    z = (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(dtype)
    for f in (
        np.real,
        np.imag,
        np.conj,
        lambda z: -z,
        lambda z: z.real + 2j,
        lambda z: 3 + z.imag * 1j,
    ):
        found, right = fgrad.jit(f)(z), f(z)
        assert found.dtype == right.dtype
        assert same_bits(found, right)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_quotients_by_real_numbers_are_those_by_complex_ones(dtype):
    """With an imaginary part that is 0: the same bits, but for those of NaN."""
    real = dtype(0).real.dtype
    with np.errstate(all="ignore"):
        numbers = np.array(SPECIAL).astype(real)
        z = np.array([complex(a, b) for a in numbers for b in numbers], dtype)
        z, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(z[:, None], numbers))
        found = fgrad.jit(lambda z, c: z / c)(z, c).view(real)
        right = fgrad.jit(lambda z, w: z / w)(z, c.astype(dtype)).view(real)
    lost = np.isnan(right)
    np.testing.assert_array_equal(np.isnan(found), lost)
    assert same_bits(np.where(lost, 0, found), np.where(lost, 0, right))
