"""A driver without a device: memory of the host, kernels run by the emulator or counted.

    use(StubDriver())                     `jit(f, device="cuda")` gives real numbers without a GPU
    use(StubDriver(execute=False))        launches are counted, natively: what the host costs

`Driver` runs on it as on a real one: arguments are packed, kept in order and read back from where
the driver would read them.  Memory that nobody wrote, or that was given back, is full of NaN; so
are the bytes around each block, and they must stay as they are.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from emulator.events import Event, Launch
from emulator.native import StubLibrary
from fgrad.errors import CheckError
from fgrad.lower_cuda.device.driver import Driver, Function
from fgrad.lower_cuda.device.skeleton import padded


class StubDriver(Driver):
    """A device that is not there.

    Arguments:
        execute: whether kernels run; else they are counted.
        memory_bytes: of the device; more is out of memory.
        compile: whether kernels are compiled for the device too, which checks that they can be.
        checks: whether each access of a kernel that runs is checked to be inside of an array, and
            memory that is nobody's is full of NaN.
        version: of the driver, as CUDA counts them.
    """

    def __init__(
        self,
        execute: bool = True,
        memory_bytes: int = 1 << 33,
        compile: bool = False,
        checks: bool = True,
        version: int = 13000,
    ) -> None:
        self.library = StubLibrary(execute, memory_bytes, checks, version)
        self.execute = execute
        self.plain_memory = not (execute and checks)
        self.compile = compile
        super().__init__(self.library)

    # What happened.

    @property
    def log(self) -> list[Event]:
        """Launches, fills, copies and graphs, in order; without launches if they are counted."""
        return self.library.log

    @property
    def launches(self) -> int:
        """How many kernels ran, those of graphs included."""
        if self.execute:
            return sum([isinstance(event, Launch) for event in self.log])
        return self.library.counted()

    def fail(self, function: str, result: int, after: int = 0) -> None:
        """Let a C function return an error, once, after it was called `after` times more."""
        self.library.failures[function] = [after, result]

    # The driver's own, watched.

    def _build(self, body: str, arity: int, threads: int) -> Function:
        if self.compile:
            super()._build(body, arity, threads)
        return Function(self.library.kernel(body, arity, threads), padded(arity), threads)

    def check(self, result: int, what: str, rows: Any = ()) -> None:
        """Raise what a kernel raised, or else the card that the result is worth."""
        raised, self.library.raised = self.library.raised, None
        if raised is not None:
            raise raised
        super().check(result, what, rows)

    def allocate(self, nbytes: int) -> int:
        """Memory full of NaN."""
        pointer = super().allocate(nbytes)
        if pointer and not self.plain_memory:
            self.library.lend(pointer, nbytes)
        return pointer

    def release(self, pointer: int, nbytes: int) -> None:
        """Give memory back, which is filled with NaN."""
        if sys.is_finalizing():
            return
        if pointer and not self.plain_memory:
            self.library.take_back(pointer)
        super().release(pointer, nbytes)

    def check_memory(self) -> None:
        """Raise if a kernel wrote outside of the memory that was allocated."""
        wrong = self.library.overruns()
        if wrong:
            raise CheckError(
                f"memory was written outside of blocks at {', '.join(map(hex, wrong))}."
            )

    def view(self, pointer: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """What stands at an address, now."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape)) * kind.itemsize
        return self.library.bytes_at(pointer, count).view(kind).reshape(shape)
