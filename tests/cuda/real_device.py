"""The device of tests that compare results: emulated, or with FGRAD_CUDA_DEVICE=1 the machine's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fgrad.lower_cuda import driver
from fgrad.lower_cuda.emulator.driver import StubDriver
from fgrad.lower_cuda.emulator.libraries import StubLibraries
from fgrad.lower_cuda.library import functions as library_functions

IS_REAL = os.environ.get("FGRAD_CUDA_DEVICE") == "1"


@contextmanager
def real_device_or(stub: StubDriver) -> Iterator[None]:
    """The machine's driver, or a stub, in which nothing is written outside of its blocks."""
    if IS_REAL:
        yield
        return
    before = driver.use(stub)
    library_functions.use(StubLibraries())
    try:
        yield
        stub.check_memory()
    finally:
        library_functions.use(None)
        driver.use(before)
