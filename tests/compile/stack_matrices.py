"""Matrices of stacks, real and complex."""

from __future__ import annotations

import numpy as np

DTYPES = (np.float64, np.complex128)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def normal(rng, shape, dtype):
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)
