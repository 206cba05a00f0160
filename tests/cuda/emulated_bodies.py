"""Bodies of a few lines, and of sums of a block, run by the emulator with checked accesses."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from emulator.run import Emulated

from fgrad.compile.llvm.text import FunctionText
from fgrad.errors import CheckError
from fgrad.lower_cuda.emit.team_text import block_fold, block_scan
from fgrad.lower_cuda.emit.text import BodyText

F32 = np.dtype(np.float32)
ORDERS = [None, 1, 2]
BLOCK_WAIT = "call void @llvm.nvvm.barrier0()"
WARP_WAIT = "call void @llvm.nvvm.bar.warp.sync(i32 -1)"


def run(
    text: str,
    arrays: Sequence[np.ndarray],
    grid: int = 1,
    block: tuple[int, int] = (32, 1),
    seed: int | None = None,
    bounds: bool = True,
) -> None:
    """Run a body on arrays, in the order of the threads or in one of chance."""
    ranges = [(x.ctypes.data, x.nbytes) for x in arrays]
    order = None if seed is None else random.Random(seed)
    pointers = [start for start, _ in ranges]
    Emulated(text, len(arrays)).run(grid, block, pointers, order, bounds=ranges if bounds else None)


def body(arity: int, lines: str, globals_: str = "") -> str:
    """A body of given lines, whose arrays are %a0, %a1, ... of i32."""
    casts = "".join(
        f"  %a{k} = bitcast i8 addrspace(1)* %p{k} to i32 addrspace(1)*\n" for k in range(arity)
    )
    pointers = "".join(f", i8 addrspace(1)* %p{k}" for k in range(arity))
    return (
        f"{globals_}\ndefine void @fgrad_body(i32 %block, i32 %x, i32 %y{pointers}) {{\n"
        f"entry:\n{casts}{lines}\n  ret void\n}}\n"
    )


def put(value: str, index: str = "%x", name: str = "put") -> str:
    """Lines that store an i32 into the first array."""
    return (
        f"  %{name} = getelementptr i32, i32 addrspace(1)* %a0, i32 {index}\n"
        f"  store i32 {value}, i32 addrspace(1)* %{name}\n"
    )


def words(count: int = 32) -> np.ndarray:
    return np.zeros(count, np.int32)


def refuses(text: str, arrays: Sequence[np.ndarray], block: int, match: str) -> None:
    """Whatever the order, the body is refused."""
    for seed in ORDERS:
        with pytest.raises(CheckError, match=match):
            run(text, arrays, 1, (block, 1), seed)


def scan_body(threads: int, times: int = 1) -> str:
    """The sums of what is before and of all of the block, `times` times one after the other."""
    text = BodyText()
    index = text.number(threads)
    value = text.load(text.pointer(0, "float"), index)

    def add(text: FunctionText, a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        return (text.emit(f"fadd float {a[0]}, {b[0]}"),)

    for _ in range(times):
        (before,), (total,) = block_scan(text, "sums", add, (value,), [F32], threads, ("0.0",))
        value = text.op("fadd", "float", before, total)
    text.store(value, text.pointer(1, "float"), index)
    return text.finish(2)


def fold_body(threads: int) -> str:
    """The sum and the largest of a block's elements, in shared memory of one name."""
    text = BodyText()
    index = text.number(threads)
    value = text.load(text.pointer(0, "float"), index)

    def add(text: FunctionText, a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        return (text.emit(f"fadd float {a[0]}, {b[0]}"),)

    def largest(text: FunctionText, a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        above = text.emit(f"fcmp ogt float {a[0]}, {b[0]}")
        return (text.emit(f"select i1 {above}, float {a[0]}, float {b[0]}"),)

    (total,) = block_fold(text, "s", add, (value,), [F32], threads)
    (most,) = block_fold(text, "s", largest, (value,), [F32], threads)
    text.store(text.op("fdiv", "float", total, most), text.pointer(1, "float"), index)
    return text.finish(2)


def numbers(blocks: int, threads: int) -> np.ndarray:
    rng = np.random.default_rng(zlib.adler32(b"numbers"))
    rows = np.tile(np.arange(1, threads + 1, dtype=np.float32), (blocks, 1))
    return rng.permuted(rows, axis=1)
