"""Programs run on a device that is not there, and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.compile.jit.inspect import make_program
from fgrad.compile.pipeline import compile_program
from fgrad.lower_cuda.device.array import on_device
from fgrad.lower_cuda.executable import CudaExecutable


def compiled(fun: Callable[..., Any], *args: Any, **options: Any) -> CudaExecutable:
    """A function as a program of the device that is in use."""
    return compile_program(make_program(fun)(*args), device="cuda", **options).executable


def called(executable: CudaExecutable, *args: Any) -> list[np.ndarray]:
    """The results for some arguments."""
    leaves = [on_device(np.asarray(x)) for x in tree.leaves(args)]
    return [x.numpy() for x in executable(leaves)]


def check(
    fun: Callable[..., Any], *args: Any, calls: int = 4, rtol: float = 2e-5, atol: float = 1e-6
) -> CudaExecutable:
    """Compile a function and compare several calls with NumPy: plain ones, and those of graphs."""
    executable = compiled(fun, *args)
    wanted = [np.asarray(x) for x in tree.leaves(fun(*args))]
    for _ in range(calls):
        found = called(executable, *args)
        assert len(found) == len(wanted)
        for x, y in zip(found, wanted, strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)
    return executable
