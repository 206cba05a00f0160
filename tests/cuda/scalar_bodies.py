"""Rows of the scalar table as bodies for the device, compiled or run by the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from emulator.run import Emulated

from fgrad.compile.kernel.scalar import SCALAR_OPS
from fgrad.compile.llvm.text import element_type
from fgrad.lower_cuda.emit.scalar_cuda import SCALAR_CUDA
from fgrad.lower_cuda.emit.text import BodyText

BOOL = np.dtype(np.bool_)
THREADS = 128


class Case(NamedTuple):
    """A row on operands of one dtype."""

    name: str
    dtype: np.dtype
    operands: tuple[np.ndarray, ...]
    result: np.dtype


def case(
    name: str, dtype: np.dtype, operands: Sequence[np.ndarray], result: np.dtype | None = None
) -> Case:
    """A case whose result has the dtype that the table says."""
    if result is None:
        result = BOOL if SCALAR_OPS[name].result == "bool" else dtype
    return Case(name, dtype, tuple(operands), result)


def memory(dtype: np.dtype) -> str:
    """The type in memory."""
    return "i8" if dtype == BOOL else element_type(dtype)


def body(cases: Sequence[Case], arrays: Sequence[np.ndarray]) -> str:
    """One body that applies all rows to each element; the results follow the arrays."""
    text = BodyText()
    index = text.number(THREADS)
    with text.when(text.compare("slt", "i64", index, arrays[0].size)):
        values = {}
        for k, array in enumerate(arrays):
            value = text.load(text.pointer(k, memory(array.dtype)), index)
            values[id(array)] = (
                text.emit(f"trunc i8 {value} to i1") if array.dtype == BOOL else value
            )
        for k, row in enumerate(cases):
            operands = [values[id(array)] for array in row.operands]
            result = SCALAR_CUDA[row.name](text, operands, row.dtype, row.result)
            if row.result == BOOL:
                result = text.emit(f"zext i1 {result} to i8")
            text.store(result, text.pointer(len(arrays) + k, memory(row.result)), index)
    return text.finish(len(arrays) + len(cases))


def inputs_of(cases: Sequence[Case]) -> list[np.ndarray]:
    """The different arrays that the cases read."""
    return list({id(x): x for row in cases for x in row.operands}.values())


def run(cases: Sequence[Case]) -> list[np.ndarray]:
    """The results of all cases, whose arrays have one size."""
    arrays = inputs_of(cases)
    size = arrays[0].size
    results = [np.empty(size, row.result) for row in cases]
    buffers = [*arrays, *results]
    emulated = Emulated(body(cases, arrays), len(buffers))
    pointers = [x.ctypes.data for x in buffers]
    bounds = [(x.ctypes.data, x.nbytes) for x in buffers]
    emulated.run(-(-size // THREADS), (THREADS, 1), pointers, bounds=bounds)
    return results


def apply(
    name: str, dtype: np.dtype, *operands: np.ndarray, result: np.dtype | None = None
) -> np.ndarray:
    """The result of one row."""
    return run([case(name, dtype, operands, result)])[0]
