"""Write the loss of a small model and its gradient for C: build/fit.o, fit.h and a shared library.

    python examples/export/export_fit.py build
    cc examples/export/fit.c build/fit.o -Ibuild -lm -o build/fit && build/fit
    c++ examples/export/fit.cpp build/fit.o -Ibuild -o build/fit_cpp && build/fit_cpp
    rustc examples/export/fit.rs -C link-arg=build/fit.o -o build/fit_rs
    build/fit_rs $(grep -o "WORKSPACE .*" build/fit.h | cut -c11-)
    python examples/export/fit_ctypes.py build

Each of them fits the model to the same data by gradient descent and prints the last loss.
"""

from __future__ import annotations

import os
import sys

import numpy as np

import fgrad
from fgrad.typing import Array


def loss(w: Array, x: Array, y: Array) -> Array:
    """The mean square of what the model misses."""
    return np.mean((np.tanh(x @ w) - y) ** 2)


def main(folder: str) -> None:
    """Export the loss with its gradient for 64 examples of three numbers."""
    os.makedirs(folder, exist_ok=True)
    step = fgrad.value_and_grad(loss)
    made = fgrad.export_c(
        step, np.zeros(3), np.zeros((64, 3)), np.zeros(64), path=os.path.join(folder, "fit")
    )
    print(made.header, made.workspace)


if __name__ == "__main__":
    main(sys.argv[1])
