"""Objects and code of other systems and processors, compiled here and looked at, never run."""

from __future__ import annotations

import re
import struct
from itertools import product

import numpy as np
import pytest
from test_kernel_runtime import softmax

from fgrad.compile.cpu.gemm.micro import emit_tile, tiling
from fgrad.compile.cpu.kernels import llvm_text
from fgrad.compile.host.threads import _ALONE, _define
from fgrad.compile.llvm import interrupts
from fgrad.compile.llvm.generator import assembly, compile_text
from fgrad.compile.llvm.text import ATTRIBUTES, Target
from fgrad.compile.schedule.order import schedule

APPLE_ARM = Target("arm64-apple-macosx", "apple-m1", "")
APPLE_X86 = Target("x86_64-apple-macosx", "x86-64-v2", "")
WINDOWS = Target("x86_64-pc-windows-msvc", "x86-64-v3", "+avx2,+fma")
WINDOWS_ARM = Target("aarch64-pc-windows-msvc", "generic", "")
LINUX = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma")
LINUX_ARM = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
# The first bytes of an object: a magic number and the processor's.
HEADS = {
    APPLE_ARM: struct.pack("<II", 0xFEEDFACF, 0x0100000C),
    APPLE_X86: struct.pack("<II", 0xFEEDFACF, 0x01000007),
    WINDOWS: struct.pack("<H", 0x8664),
    WINDOWS_ARM: struct.pack("<H", 0xAA64),
    LINUX: b"\x7fELF\x02\x01",
    LINUX_ARM: b"\x7fELF\x02\x01",
}
FORMATS = pytest.mark.parametrize("target", HEADS, ids=lambda t: t.triple)


@FORMATS
def test_kernels_are_objects_of_the_systems_format(target: Target) -> None:
    code = compile_text(llvm_text(schedule(softmax(8, 256)), target), target)
    assert code.startswith(HEADS[target])
    name = b"\0_softmax\0" if "apple" in target.triple else b"softmax"
    assert name in code


SIXTH = """define i64 @f(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %x) #0 {
  ret i64 %x
}"""
VARIADIC = """declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
define ptr @f(ptr %a, ptr %b) #0 {
  %r = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %a, ptr %b, ptr null)
  ret ptr %r
}"""
KEPT = """declare void @g()
define double @f(double %x) #0 {
  call void @g()
  %y = fadd double %x, %x
  ret double %y
}"""
# What a system's convention makes of each: the sixth argument, arguments beyond the declared ones,
# and a number that is kept over a call.
CONVENTIONS = {
    (SIXTH, LINUX): r"movq\s+%r9, %rax",
    (SIXTH, APPLE_X86): r"movq\s+%r9, %rax",
    (SIXTH, WINDOWS): r"movq\s+48\(%rsp\), %rax",
    (SIXTH, LINUX_ARM): r"mov\s+x0, x5",
    (SIXTH, APPLE_ARM): r"mov\s+x0, x5",
    (SIXTH, WINDOWS_ARM): r"mov\s+x0, x5",
    (VARIADIC, APPLE_ARM): r"st[pr]\s+x\w+, x\w+, \[sp",
    (VARIADIC, LINUX_ARM): r"mov\s+x2, xzr",
    (VARIADIC, WINDOWS): r"xorl\s+%r8d, %r8d",
    (KEPT, LINUX): r"\(%rsp\)",
    (KEPT, WINDOWS): r"xmm6",
    (KEPT, LINUX_ARM): r"d8",
    (KEPT, APPLE_ARM): r"d8",
}


@pytest.mark.parametrize(("text", "target"), CONVENTIONS, ids=lambda x: getattr(x, "triple", ""))
def test_functions_follow_the_systems_convention(text: str, target: Target) -> None:
    assert re.search(CONVENTIONS[text, target], assembly(f"{text}\n{ATTRIBUTES}\n", target))


@pytest.mark.parametrize("posix", [True, False], ids=["posix", "windows"])
@FORMATS
def test_functions_that_look_for_signals_compile(target: Target, posix: bool) -> None:
    for name, (text, needs) in interrupts.functions(posix).items():
        module = "\n".join([*sorted(needs), text.format(symbol=name), ATTRIBUTES, ""])
        assert name in assembly(module, target)


@FORMATS
def test_where_there_is_no_pool_a_kernel_is_called(target: Target) -> None:
    text, _ = _define("share", _ALONE)
    assert "pthread" not in assembly(f"{text}\n{ATTRIBUTES}\n", target)


NEON = ("generic", "cortex-a53", "cortex-a72", "neoverse-n1", "neoverse-v1", "apple-m1")


@pytest.mark.parametrize(("cpu", "kind"), [*product(NEON, ("f4", "f8"))])
def test_tiles_of_products_keep_their_sums_in_registers(cpu: str, kind: str) -> None:
    """Of 28 sums, LLVM moved 49 registers in each step of a product for some processors."""
    target = LINUX_ARM._replace(cpu=cpu)
    tiles = tiling(np.dtype(kind), target.triple, target.features)
    for rows in tiles.rows:
        text, needs = emit_tile("tile", tiles, rows, 2)
        module = "\n".join([*sorted(needs), text.replace("internal ", ""), ATTRIBUTES, ""])
        loops = re.findall(r"(\.LBB\d+_\d+):(.*?)b\.\w+\s+\1\n", assembly(module, target), re.S)
        turn = max([body for _, body in loops], key=len)
        lines = [line for line in turn.split("\n") if line.startswith("\t") and line[1:2] != "."]
        sums = sum("fmla" in line for line in lines)
        assert sums == 2 * rows
        assert "sp" not in turn and len(lines) <= 2 * sums + 4
