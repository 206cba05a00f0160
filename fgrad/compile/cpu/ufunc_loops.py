"""L5. Native steps on complex arrays that NumPy's own loops run, such as `np.log(z)` and `np.fft`.

A ufunc holds a table of C functions, one for each combination of dtypes:

    void loop(char **args, npy_intp const *sizes, npy_intp const *steps, void *data)

A step calls one of them on its part of the range, so its numbers, branch cuts and special values
are NumPy's.  The layout of the table is part of NumPy's binary interface (`ufuncobject.h`); what it
says of a ufunc is compared with its public attributes, and where they differ Python evaluates.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.spare_memory import DECLARATIONS, guard_imports, guard_text, transform_bytes
from fgrad.compile.kernel.machine import CALL_CYCLES, FOURIER_CYCLES
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.typing import PyTree

fourier = lazy_module("numpy.fft._pocketfft_umath")


class _Table(ctypes.Structure):
    """The head of `PyUFuncObject`."""

    _fields_ = (
        ("object", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


def find_ufunc(name: str) -> object:
    """A ufunc by its name: of NumPy, or after `fft.` of its Fourier transforms (from NumPy 2)."""
    if name.startswith("fft."):
        try:
            return getattr(fourier, name[4:], None)
        except ImportError:
            return None
    return getattr(np, name)


class Loop(NamedTuple):
    """A C loop of a ufunc: its address and its last argument."""

    function: int
    data: int


@lru_cache
def find_loop(ufunc: object, types: str) -> Loop | None:
    """The loop for dtype characters such as "DD->D", or None."""
    if not isinstance(ufunc, np.ufunc):
        return None
    table = _Table.from_address(id(ufunc))
    counts = (table.nin, table.nout, table.nargs, table.ntypes)
    if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) or types not in ufunc.types:
        return None
    place = ufunc.types.index(types)
    function = table.functions[place]
    if not function:
        return None
    data = table.data[place] if table.data else None
    return Loop(function, data or 0)


class Operand(NamedTuple):
    """One argument of a loop, in bytes.

    step: from element to element, for generalised ufuncs from vector to vector;
    core: from element to element of a vector;
    block: from block to block;
    constant: the bytes of an argument that is no array, in hexadecimal digits.
    """

    step: int
    core: tuple[int, ...] = ()
    block: int = 0
    constant: str = ""


def types_of(dtypes: Sequence[np.dtype], result: np.dtype) -> str:
    """The name of a loop, as in `np.ufunc.types`."""
    return f"{''.join([d.char for d in dtypes])}->{result.char}"


_ONCE = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %args = alloca ptr, i64 {count}
  %steps = alloca i64, i64 {strides}
  %sizes = alloca i64, i64 {dimensions}
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %call, label %end
call:
{guard}  %number = sub i64 %hi, %lo
  store i64 %number, ptr %sizes
{places}
  %data = load ptr, ptr @fgrad_{name}_data
  call void @fgrad_{name}(ptr %args, ptr %sizes, ptr %steps, ptr %data)
  br label %end
end:
  ret void
}}"""

_BLOCKS = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %args = alloca ptr, i64 {count}
  %steps = alloca i64, i64 {strides}
  %sizes = alloca i64, i64 {dimensions}
  store i64 {inner}, ptr %sizes
  %data = load ptr, ptr @fgrad_{name}_data
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %call, label %end
call:
{guard}  br label %block
block:
  %i = phi i64 [ %lo, %{before} ], [ %following, %block ]
{places}
  call void @fgrad_{name}(ptr %args, ptr %sizes, ptr %steps, ptr %data)
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %hi
  br i1 %again, label %block, label %end
end:
  ret void
}}"""


class UfuncLoop(NamedTuple):
    """A ufunc applied to arrays.

    Arguments:
        name: of the ufunc, as `find_ufunc` takes it.
        types: of the loop, which exists.
        operands: the fields of an `Operand` for each argument, results last; buffers are those
            that are no constants.
        size: the extent of the range: elements, vectors, or blocks of vectors.
        dims: the core dimensions of a generalised ufunc.
        inner: the vectors of a block; 0 if the range counts them.
    """

    name: str
    types: str
    operands: tuple[tuple[Any, ...], ...]
    size: int
    dims: tuple[int, ...] = ()
    inner: int = 0

    @property
    def buffers(self) -> int:
        """How many arguments are arrays."""
        return len([fields for fields in self.operands if not Operand(*fields).constant])

    @property
    def bytes_needed(self) -> int:
        """What it allocates in all threads, if it may fail for want of it, see `spare_memory`."""
        if not self.name.startswith("fft."):
            return 0
        item = 16 if self.types[-1] in "dD" else 8
        return transform_bytes(max(self.dims), item, self.size)

    @property
    def cycles(self) -> float:
        """A rough guess of the whole."""
        if not self.dims:
            return CALL_CYCLES * self.size
        n = max(self.dims)
        return self.size * (self.inner or 1) * n * math.log2(n + 1) * FOURIER_CYCLES


def ufunc_loop(task: UfuncLoop) -> int:
    """The address of a step that applies a ufunc to arrays."""
    name, types, operands, _, dims, inner = task
    loop = find_loop(find_ufunc(name), types)
    assert loop is not None
    arguments = [Operand(*fields) for fields in operands]
    needed = task.bytes_needed
    label = f"{name}_{types.replace('->', '_')}".replace(".", "_")

    def emit(symbol: str) -> tuple[str, set[str]]:
        constants, places = [], []
        buffers = 0
        for k, operand in enumerate(arguments):
            base = f"%b{k}"
            if operand.constant:
                base = f"@{symbol}_c{k}"
                constants.append(_constant(base, bytes.fromhex(operand.constant)))
            else:
                places.append(_buffer(k, buffers))
                buffers += 1
            places.append(_place(k, operand, base, bool(inner)))
        strides = [step for operand in arguments for step in operand.core]
        places += [_store("steps", len(operands) + k, step) for k, step in enumerate(strides)]
        places += [_store("sizes", 1 + k, n) for k, n in enumerate(dims)]
        text = (_BLOCKS if inner else _ONCE).format(
            symbol=symbol,
            count=len(operands),
            strides=len(operands) + len(strides),
            dimensions=1 + len(dims),
            inner=inner,
            places="".join(places),
            name=label,
            guard=guard_text(needed) if needed else "",
            before="enough" if needed else "call",
        )
        declarations = {
            f"declare void @fgrad_{label}(ptr, ptr, ptr, ptr)",
            f"@fgrad_{label}_data = external global ptr",
        }
        declarations |= DECLARATIONS if needed else set()
        return "\n".join([*constants, text]), declarations

    content = f"ufunc {name} {types} {operands} {dims} {inner} {needed}"
    imports = guard_imports(task.buffers) if needed else {}
    imports |= {f"fgrad_{label}": loop.function, f"fgrad_{label}_data": _cell(loop.data)}
    return build_counted([Source(content, emit)], imports, glue=True)[0]


_CELLS: dict[int, PyTree] = {}


def _cell(value: int) -> int:
    """The address of a place in memory that holds an address."""
    cell = _CELLS.setdefault(value, ctypes.c_void_p(value))
    return ctypes.addressof(cell)


def _constant(name: str, value: bytes) -> str:
    data = "".join([f"\\{byte:02X}" for byte in value])
    return f'{name} = private constant [{len(value)} x i8] c"{data}", align 16'


def _buffer(k: int, place: int) -> str:
    return (
        f"  %at{k} = getelementptr ptr, ptr %bufs, i64 {place}\n"
        f"  %b{k} = load ptr, ptr %at{k}, align 8\n"
    )


def _place(k: int, operand: Operand, base: str, blocks: bool) -> str:
    """Store the address and the step of operand k, from element `lo` or block `i` on."""
    start = f"%i, {operand.block}" if blocks else f"%lo, {operand.step}"
    return (
        f"  %offset{k} = mul i64 {start}\n"
        f"  %first{k} = getelementptr i8, ptr {base}, i64 %offset{k}\n"
        f"  %args{k} = getelementptr ptr, ptr %args, i64 {k}\n"
        f"  store ptr %first{k}, ptr %args{k}\n"
    ) + _store("steps", k, operand.step)


def _store(array: str, place: int, value: int) -> str:
    return (
        f"  %{array}{place} = getelementptr i64, ptr %{array}, i64 {place}\n"
        f"  store i64 {value}, ptr %{array}{place}\n"
    )
