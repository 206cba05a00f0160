"""The device of a test: one that is not there, or with FGRAD_CUDA_DEVICE=1 the machine's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from emulator.driver import StubDriver
from emulator.libraries import StubLibraries

from fgrad.lower_cuda.device import driver
from fgrad.lower_cuda.library import functions as library_functions

IS_REAL = os.environ.get("FGRAD_CUDA_DEVICE") == "1"


@contextmanager
def stub_device(
    device: StubDriver | None = None, libraries: StubLibraries | None = None
) -> Iterator[StubDriver]:
    """A stub in the place of the machine's driver, and of its libraries where stubs of them are
    given: nothing was written outside of its blocks, and no function of a library was called
    wrongly."""
    made = StubDriver() if device is None else device
    before = driver.use(made)
    if libraries is not None:
        library_functions.use(libraries)
    try:
        yield made
        made.check_memory()
        assert libraries is None or not libraries.errors
    finally:
        if libraries is not None:
            library_functions.use(None)
        driver.use(before)


@contextmanager
def real_device_or(stub: StubDriver) -> Iterator[None]:
    """The machine's driver, or a stub with stubs of its libraries."""
    if IS_REAL:
        yield
        return
    with stub_device(stub, StubLibraries()):
        yield
