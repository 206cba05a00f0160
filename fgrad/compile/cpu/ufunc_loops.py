"""L5. Native steps on complex arrays that NumPy's own loops run: `np.log(z)` without Python.

A ufunc holds a table of C functions, one for each combination of dtypes:

    void loop(char **args, npy_intp const *count, npy_intp const *steps, void *data)

A step calls one of them on its part of the range, so its numbers, branch cuts and special values
are NumPy's.  The layout of the table is part of NumPy's binary interface (`ufuncobject.h`); what it
says of a ufunc is compared with its public attributes, and where they differ Python evaluates.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fgrad.compile.cpu.runtime import Source, build

CYCLES = 150.0  # of one element, for sharing among threads: between square roots and powers


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


class Loop(NamedTuple):
    """A C loop of a ufunc: its address and its last argument."""

    function: int
    data: int


@lru_cache
def find_loop(ufunc: np.ufunc, types: str) -> Loop | None:
    """The loop for dtype characters such as "DD->D", or None."""
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
    """One argument of a loop: bytes from element to element, or the bytes of a constant."""

    step: int
    constant: bytes = b""


def types_of(dtypes: Sequence[np.dtype], result: np.dtype) -> str:
    """The name of a loop, as in `np.ufunc.types`."""
    return f"{''.join([d.char for d in dtypes])}->{result.char}"


_TEXT = """{constants}
define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %args = alloca ptr, i64 {count}
  %steps = alloca i64, i64 {count}
  %length = alloca i64
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %call, label %end
call:
  %number = sub i64 %hi, %lo
  store i64 %number, ptr %length
{places}
  %data = load ptr, ptr @fgrad_{name}_data
  call void @fgrad_{name}(ptr %args, ptr %length, ptr %steps, ptr %data)
  br label %end
end:
  ret void
}}"""


def ufunc_loop(name: str, types: str, operands: tuple[Operand, ...], size: int) -> int:
    """The address of a step that applies a ufunc to arrays.

    Arguments:
        name: of the ufunc.
        types: of the loop, which exists.
        operands: of the ufunc, the result last; buffers are those that are no constants.
        size: the number of elements, which is the extent of the range.
    """
    loop = find_loop(getattr(np, name), types)
    assert loop is not None
    label = f"{name}_{types.replace('->', '_')}"

    def emit(symbol: str) -> tuple[str, set[str]]:
        constants, places, buffers = [], [], 0
        for k, operand in enumerate(operands):
            if operand.constant:
                data = "".join([f"\\{byte:02X}" for byte in operand.constant])
                constants.append(
                    f"@{symbol}_c{k} = private constant [{len(operand.constant)} x i8] "
                    f'c"{data}", align 16'
                )
                places.append(_place(k, operand.step, f"@{symbol}_c{k}"))
            else:
                places.append(_buffer(k, buffers) + _place(k, operand.step, f"%b{k}"))
                buffers += 1
        text = _TEXT.format(
            symbol=symbol,
            count=len(operands),
            constants="\n".join(constants),
            places="".join(places),
            name=label,
        )
        declarations = {
            f"declare void @fgrad_{label}(ptr, ptr, ptr, ptr)",
            f"@fgrad_{label}_data = external global ptr",
        }
        return text, declarations

    content = f"ufunc {name} {types} {operands}"
    imports = {f"fgrad_{label}": loop.function, f"fgrad_{label}_data": _cell(loop.data)}
    return build([Source(content, emit)], imports, glue=True)[0]


_CELLS: dict[int, Any] = {}


def _cell(value: int) -> int:
    """The address of a place in memory that holds an address."""
    cell = _CELLS.setdefault(value, ctypes.c_void_p(value))
    return ctypes.addressof(cell)


def _buffer(k: int, place: int) -> str:
    return (
        f"  %at{k} = getelementptr ptr, ptr %bufs, i64 {place}\n"
        f"  %b{k} = load ptr, ptr %at{k}, align 8\n"
    )


def _place(k: int, step: int, base: str) -> str:
    """Store the address and the step of operand k, from element `lo` on."""
    return (
        f"  %offset{k} = mul i64 %lo, {step}\n"
        f"  %first{k} = getelementptr i8, ptr {base}, i64 %offset{k}\n"
        f"  %args{k} = getelementptr ptr, ptr %args, i64 {k}\n"
        f"  store ptr %first{k}, ptr %args{k}\n"
        f"  %steps{k} = getelementptr i64, ptr %steps, i64 {k}\n"
        f"  store i64 {step}, ptr %steps{k}\n"
    )
