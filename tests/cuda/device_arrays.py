"""What tests of arrays on a device share: some numbers, and what results must be."""

from __future__ import annotations

from typing import Any

import numpy as np

import fgrad
from fgrad import DeviceArray

X = np.linspace(-1.0, 2.0, 12).reshape(3, 4)
Y = np.cos(np.arange(12.0)).reshape(3, 4)
V = np.array([0.5, -1.5, 2.0, 0.25])
K = np.arange(12).reshape(3, 4) % 5
W = np.sin(np.arange(8.0)).reshape(4, 2)


def check(out: Any, expected: Any, tolerance: float = 1e-12) -> None:
    """All leaves are on the device, with NumPy's shapes, dtypes and numbers."""
    outs, treedef = fgrad.tree.flatten(out)
    wanted, expected_def = fgrad.tree.flatten(expected)
    assert treedef == expected_def
    for x, y in zip(outs, wanted, strict=True):
        assert type(x) is DeviceArray, type(x)
        y = np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x.numpy(), y, rtol=tolerance, atol=tolerance)
