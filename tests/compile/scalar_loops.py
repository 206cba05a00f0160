"""Compiled loops that apply one row of the scalar table to arrays, for the tests of that table."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from fgrad.compile.kernel.scalar import SCALAR_OPS
from fgrad.compile.llvm.text import FunctionText, element_type, lane_type
from fgrad.compile.llvm.vector.scalar_llvm import scalar_table

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

HOST_FEATURES = llvm.get_host_cpu_features().flatten()
BOOL = np.dtype(np.bool_)


def loop_text(
    name: str,
    dtypes: Sequence[np.dtype],
    result: np.dtype,
    lanes: int,
    dtype: np.dtype,
    features: str = "",
) -> str:
    """A module with one loop over whole vectors that applies a row; bools are bytes in memory."""
    text = FunctionText()
    text.line("br label %loop")
    text.label("loop")
    index = text.fresh()
    start = len(text.lines)
    values = [
        _load(text, f"%a{position}", index, kind, lanes) for position, kind in enumerate(dtypes)
    ]
    out = scalar_table(features)[name](text, lanes, values, dtype, result)
    memory = np.dtype(np.int8) if result == BOOL else result
    if result == BOOL:
        out = text.emit(f"zext {lane_type(BOOL, lanes)} {out} to {lane_type(memory, lanes)}")
    pointer = text.emit(f"getelementptr {element_type(memory)}, ptr %out, i64 {index}")
    text.line(f"store {lane_type(memory, lanes)} {out}, ptr {pointer}, align {result.itemsize}")
    following = text.emit(f"add i64 {index}, {lanes}")
    done = text.emit(f"icmp sge i64 {following}, %n")
    text.line(f"br i1 {done}, label %end, label %loop")
    text.lines.insert(start, f"  {index} = phi i64 [0, %entry], [{following}, %{text.block}]")
    text.label("end")
    text.line("ret void")
    pointers = ", ".join(f"ptr %a{k}" for k in range(len(dtypes)))
    return "\n".join([
        *sorted(text.declarations),
        f"define void @f({pointers}, ptr %out, i64 %n) #0 {{",
        "entry:",
        *text.lines,
        "}",
        'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }',
    ])  # fmt: skip


def _load(text: FunctionText, base: str, index: str, kind: np.dtype, lanes: int) -> str:
    memory = np.dtype(np.int8) if kind == BOOL else kind
    pointer = text.emit(f"getelementptr {element_type(memory)}, ptr {base}, i64 {index}")
    value = text.emit(f"load {lane_type(memory, lanes)}, ptr {pointer}, align {kind.itemsize}")
    if kind != BOOL:
        return value
    return text.emit(f"trunc {lane_type(memory, lanes)} {value} to {lane_type(BOOL, lanes)}")


def host_machine(features: str | None) -> llvm.TargetMachine:
    """Code generation as in the library, for the host or for a set of its features.

    An engine owns its machine, so that each has one of its own.
    """
    target = llvm.Target.from_triple(llvm.get_process_triple())
    cpu = llvm.get_host_cpu_name() if features is None else "x86-64"
    return target.create_target_machine(
        cpu=cpu,
        features=features or HOST_FEATURES,
        opt=1,
        jit=True,
        reloc="default",
        codemodel="jitdefault",
    )


class Loop:
    """A compiled loop; call it with arrays whose length is a multiple of the lanes."""

    def __init__(self, text: str, result: np.dtype, count: int, features: str | None) -> None:
        module = llvm.parse_assembly(text)
        module.verify()
        self.engine = llvm.create_mcjit_compiler(module, host_machine(features))
        self.engine.finalize_object()
        address = self.engine.get_function_address("f")
        pointers = [ctypes.c_void_p] * (count + 1)
        self.call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(address)
        self.result = result

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        out = np.empty(arrays[0].size, self.result)
        self.call(*(array.ctypes.data for array in arrays), out.ctypes.data, out.size)
        return out


@cache
def compiled(
    name: str,
    dtype: np.dtype,
    lanes: int,
    result: np.dtype | None = None,
    features: str | None = None,
) -> Loop:
    """The loop of a row on operands of one dtype."""
    row = SCALAR_OPS[name]
    if result is None:
        result = BOOL if row.result == "bool" else dtype
    dtypes = [BOOL, dtype, dtype] if name == "select" else [dtype] * row.arity
    text = loop_text(name, dtypes, result, lanes, dtype, features or HOST_FEATURES)
    return Loop(text, result, len(dtypes), features)
