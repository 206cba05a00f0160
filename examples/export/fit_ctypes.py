"""Gradient descent with a loss and a gradient that fgrad has compiled: see export_fit.py.

It needs NumPy and the shared library, and no fgrad.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import sys

import numpy as np


def main(folder: str) -> float:
    """Fit the model; gives the last loss."""
    (path,) = [p for p in glob.glob(os.path.join(folder, "fit.*")) if p.endswith(ENDINGS)]
    library = ctypes.CDLL(os.path.abspath(path))
    with open(os.path.join(folder, "fit.h")) as header:
        (size,) = re.findall(r"FIT_WORKSPACE (\d+)", header.read())
    x = np.sin(1.0 + 3 * np.arange(64)[:, None] + np.arange(3))
    y = np.tanh(x @ np.array([0.5, -0.25, 1.0]))
    w, value, gradient = np.zeros(3), np.zeros(1), np.zeros(3)
    workspace = np.zeros(int(size), np.uint8)
    given = [ctypes.c_void_p(a.ctypes.data) for a in (w, x, y, value, gradient, workspace)]
    for _ in range(2000):
        assert library.fit(*given) == 0
        w -= 0.5 * gradient
    return float(value[0])


ENDINGS = ("so", "dylib", "dll")

if __name__ == "__main__":
    print(f"loss {main(sys.argv[1]):.3e}")
