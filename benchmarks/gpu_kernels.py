"""A fixed set of kernels for the GPU: what they need, and how long they take to compile.

Budgets stand beside each kernel; `tests/cuda/test_corpus.py` holds the compiler to them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import fgrad
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.steps import KernelStep
from fgrad.ir.program import Program
from fgrad.lower_cuda.device.toolchain import body_ptx, compile_body
from fgrad.lower_cuda.emit.calls import KernelCall
from fgrad.lower_cuda.schedule import launches

WIDE = re.compile(r"\b(ld|st)\.global\.v[24]\.")
DOUBLE = re.compile(r"\.f64\b")


class Case(NamedTuple):
    """A program of kernels: `registers` is the budget of each; `wide` says that they read and write
    128 bits at a time."""

    name: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    registers: int = 40
    wide: bool = True


class Row(NamedTuple):
    """One kernel of a case."""

    name: str
    grid: int
    block: tuple[int, int]
    registers: int
    spills: int
    shared: int
    code: int
    wide: int  # accesses of more than one element
    doubles: int  # instructions in double precision
    milliseconds: float  # of processor time, to compile it


def single(*shape: int) -> np.ndarray:
    """Random float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def softmax(x: Any) -> Any:
    """Of rows."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layernorm(x: Any) -> Any:
    """Of rows."""
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + 1e-5)


def gelu(x: Any) -> Any:
    """Its tanh form."""
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def chain(count: int) -> Callable[[Any, Any], Any]:
    """`count` operations in one kernel."""

    def f(x: Any, y: Any) -> Any:
        for k in fgrad.unroll(range(count // 2)):
            x = (x * y if k % 3 else np.tanh(x)) + np.float32(0.5 + k)
        return x

    return f


def rows_of(x: Any, index: Any) -> Any:
    """An embedding."""
    return fgrad.numpy.take(x, index, axis=0)


CASES = (
    Case("a*b+c", lambda a, b, c: a * b + c, (single(1 << 20),) * 3),
    Case("gelu", gelu, (single(1 << 20),)),
    Case("gelu gradient", fgrad.grad(lambda x: gelu(x).sum()), (single(1 << 20),), wide=False),
    Case("bias and relu", lambda x, b: np.maximum(x + b, 0.0), (single(4096, 256), single(256))),
    Case("chain of 10", chain(10), (single(1 << 20),) * 2),
    Case("chain of 100", chain(100), (single(1 << 20),) * 2, wide=False),
    Case("softmax 4096x1024", softmax, (single(4096, 1024),), 80),
    Case("softmax 512x10000", softmax, (single(512, 10000),), 48),
    Case("layernorm 4096x768", layernorm, (single(4096, 768),), 48),
    Case(
        "layernorm gradient 4096x768",
        fgrad.grad(lambda x: (layernorm(x) ** 3).sum()),
        (single(4096, 768),),
        72,
    ),
    Case("sum of 10M", lambda x: x.sum(), (single(10_000_000),)),
    Case("column sums 10000x512", lambda x: x.sum(0), (single(10000, 512),), 168),
    Case("row maxima 4096x1024", lambda x: x.max(1), (single(4096, 1024),), 48),
    Case("transpose 2048x2048", lambda x: x.T * 2, (single(2048, 2048),), wide=False),
    Case(
        "heads 8x128x4x64",
        lambda x: np.transpose(x, (0, 2, 1, 3)) * 2,
        (single(8, 128, 4, 64),),
    ),
    Case("embedding 8192 of 50000x256", rows_of, (single(50000, 256), np.zeros(8192, int))),
    Case("int64 arithmetic", lambda x: x * 3 + (x >> 2), (np.arange(1 << 20),)),
    Case("float16 storage", lambda x: x * x + 1, (single(1 << 20).astype(np.float16),)),
)


def kernels_of(case: Case) -> list[Kernel]:
    """The kernels of a case, scheduled for the device."""
    made: Any = fgrad.make_program(case.fun)(*case.args)
    program: Program = made if isinstance(made, Program) else made.program
    stages = compile_program(program, None, "cuda").stages
    steps = next(stage.result for stage in stages if stage.name == "schedule")
    return list(dict.fromkeys([s.kernel for s in steps if isinstance(s, KernelStep)]))


def rows_of_case(case: Case) -> list[Row]:
    """What each launch of a case is compiled to."""
    rows = []
    for kernel in kernels_of(case):
        calls = [c for c in launches(kernel).calls if isinstance(c, KernelCall)]
        for call in calls:
            rows.append(_row(case.name, call))
    return rows


def _row(name: str, call: KernelCall) -> Row:
    threads = call.block[0] * call.block[1]
    start = time.process_time()
    with fgrad.config.override(cache=False):
        compile_body.cache_clear()
        need = compile_body(call.body, call.arity, threads).resources
    milliseconds = 1e3 * (time.process_time() - start)
    ptx = body_ptx(call.body, call.arity, threads)
    return Row(
        name,
        call.grid,
        call.block,
        need.registers,
        need.spill_bytes,
        need.shared_bytes,
        need.code_bytes,
        len(WIDE.findall(ptx)),
        len(DOUBLE.findall(ptx)),
        milliseconds,
    )


def table(cases: Sequence[Case] = CASES) -> list[dict[str, Any]]:
    """Print and return the rows of all cases."""
    head = ("grid", "block", "regs", "spills", "shared", "code", "wide", "f64", "ms")
    print("\n" + f"{'kernels':<32}" + "".join(f"{h:>9}" for h in head))
    rows_of_case(cases[0])  # the first compile of a process also loads the tools
    found = []
    for case in cases:
        for row in rows_of_case(case):
            block = "x".join(map(str, row.block))
            cells = (row.grid, block, *row[3:9], f"{row.milliseconds:.0f}")
            print(f"{row.name:<32}" + "".join(f"{c!s:>9}" for c in cells), flush=True)
            found.append(row._asdict())
    return found
