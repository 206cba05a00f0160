"""L6. What the planners of library steps share: lists of calls and of scratch areas."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.lower_cuda.emit.calls import (
    Address,
    Argument,
    Call,
    Calls,
    Check,
    CopyCall,
    FillCall,
    FunctionCall,
    KernelCall,
    Number,
)
from fgrad.lower_cuda.emit.machine import THREADS
from fgrad.lower_cuda.emit.text import BodyText
from fgrad.lower_cuda.library.functions import Cells, Functions, functions


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex number, and of a real number itself."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


class Planner:
    """The calls of a step with so many buffers."""

    def __init__(self, buffers: int) -> None:
        self.buffers = buffers
        self.cells = Cells()
        self._calls: list[Call] = []
        self._sizes: list[int] = []

    @property
    def functions(self) -> Functions:
        """The functions of libraries."""
        return functions()

    def finish(self) -> Calls:
        """All calls."""
        return Calls(tuple(self._calls), tuple(self._sizes))

    def scratch(self, nbytes: int) -> Address:
        """A scratch area."""
        self._sizes.append(max(nbytes, 1))
        return Address(self.buffers + len(self._sizes) - 1)

    def kernel(self, body: str, grid: int, block: tuple[int, int], *places: Address) -> None:
        """Launch a kernel."""
        self._calls.append(KernelCall(body, grid, block, places))

    def each(self, count: int, write: Callable[[BodyText, str], None], *places: Address) -> None:
        """A kernel with a thread for each number up to `count`, for which `write` writes what is
        done; its text names the number, an i64."""
        body = BodyText()
        e = body.number(THREADS)
        with body.when(body.compare("slt", "i64", e, count)):
            write(body, e)
        self.kernel(body.finish(len(places)), -(-count // THREADS), (THREADS, 1), *places)

    def call(self, name: str, *arguments: Argument | int, count: int = 1) -> None:
        """Call a function of a library; plain numbers are ints of C."""
        given = tuple([Number("i32", x) if isinstance(x, int) else x for x in arguments])
        address, setter = self.functions.address(name), self.functions.setter(name)
        self._calls.append(FunctionCall(name, address, given, count, (self.cells,), setter))

    def asked(self, name: str, *arguments: int, kind: Any = ctypes.c_int32) -> int:
        """What a function writes to its last argument: the size of work memory."""
        cell = self.cells.address(kind, 0)
        self.functions.call(name, *arguments, cell)
        return kind.from_address(cell).value

    def copy(self, target: Address, source: Address, nbytes: int) -> None:
        """Copy bytes."""
        self._calls.append(CopyCall(target, source, nbytes))

    def fill(self, target: Address, value: int, nbytes: int) -> None:
        """Set bytes."""
        self._calls.append(FillCall(target, value, nbytes))

    def check(self, message: str, flags: Address, count: int) -> None:
        """Fail where a flag is not 0."""
        self._calls.append(Check(message, flags, count))
