"""Lengths of vectors and sizes of complex numbers over the whole range of exponents, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_length_is_right_for_all_exponents(dtype: Any, rng: np.random.Generator) -> None:
    info = np.finfo(dtype)
    powers = np.arange(info.minexp - info.nmant, info.maxexp)
    x = (np.ldexp(1.0, powers) * rng.uniform(1.0, 1.99, powers.size)).astype(dtype)
    x = np.concatenate([x, [0.0, -0.0, np.inf, np.nan, info.tiny, info.max]]).astype(dtype)
    a, b = [v.ravel() for v in np.meshgrid(x[:: max(1, x.size // 300)], x)]
    with np.errstate(all="ignore"):
        found, right = fgrad.jit(np.hypot)(a, -b), np.hypot(a.astype(np.longdouble), b)
        right = right.astype(dtype)
        near = np.abs(found.astype(np.longdouble) - right) <= 2 * np.spacing(right)
    near |= np.isinf(right) & (found == info.max)  # the last one that is finite
    same = near | (found == right) | (np.isnan(found) & np.isnan(right))
    assert same.all(), [(p, q, f, r) for p, q, f, r in zip(a, b, found, right, strict=True)][
        int(np.argmin(same))
    ]


def test_the_size_of_a_complex_number(rng: np.random.Generator) -> None:
    z = np.ldexp(rng.normal(size=500), rng.integers(-1070, 1020, 500)) + 1j * rng.normal(size=500)
    np.testing.assert_allclose(fgrad.jit(np.abs)(z), np.abs(z), rtol=5e-16)
