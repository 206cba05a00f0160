"""The numbers that the programs calculate with."""

from __future__ import annotations

import numpy as np


def numbers(*shape: int, start: int = 0) -> np.ndarray:
    """The same numbers everywhere: a sequence without short periods, between -2 and 2."""
    count = int(np.prod(shape))
    return (np.arange(start + 1, start + count + 1) * 0.6180339887498949 % 1.0 * 4 - 2).reshape(
        shape
    )


X, Y = numbers(6), numbers(6, start=50)
P = np.abs(X) + 0.3  # positive
M, N, S = numbers(4, 5), numbers(5, 3), numbers(4, 4)
SPD = S @ S.T + 4 * np.eye(4)
CUBE = numbers(3, 4, 5)
K = np.array([3, 0, 2, 0])
B = np.array([True, False, True, True, False, False])
Z = X + 1j * Y
KEY = 7
