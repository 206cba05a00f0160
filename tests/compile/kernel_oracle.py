"""The meaning of kernels, one element at a time with NumPy scalars; and helpers to run compiled
ones."""

from __future__ import annotations

import ctypes
import math

import numpy as np

from fgrad.compile.cpu.emit.kernel import outer_range
from fgrad.compile.cpu.kernels import build_kernel
from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.ir import (
    Break,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Update,
)
from fgrad.compile.llvm.runtime import KernelFunction
from fgrad.compile.schedule.order import schedule

FUNCTIONS = {
    "neg": np.negative,
    "abs": np.absolute,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "tanh": np.tanh,
    "floor": np.floor,
    "not": np.invert,
    "isnan": np.isnan,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "muladd": lambda a, b, c: a * b + c,
}


class Left(Exception):
    """The end of a `while` loop."""


class Oracle:
    """Runs a kernel statement by statement on flat arrays."""

    def __init__(self, kernel: Kernel, arrays: list[np.ndarray]) -> None:
        given = iter(arrays)
        self.memory = {
            b.name: np.zeros(b.size, b.dtype) if b.role == "scratch" else next(given).reshape(-1)
            for b in kernel.buffers
        }
        self.values: dict = {}
        self.axes: dict[str, int] = {}
        self.accs: dict[str, list] = {}
        with np.errstate(all="ignore"):
            self.body(kernel.body)

    def at(self, index, indirect=()) -> int:
        place = index.const + sum(stride * self.axes[axis] for axis, stride in index.terms)
        return place + sum(stride * int(self.values[v]) for v, stride in indirect)

    def body(self, body) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s) -> None:
        values, kind = self.values, type(s)
        if kind is Loop:
            self.loop(s)
        elif kind is Break:
            if values[s.value]:
                raise Left
        elif kind is Const:
            values[s.id] = np.asarray(s.value).astype(s.dtype)[()]
        elif kind is Index:
            values[s.id] = np.asarray(self.at(s.index)).astype(s.dtype)[()]
        elif kind is Load:
            values[s.id] = self.load(s)
        elif kind is Op:
            values[s.id] = self.op(s)
        elif kind is Read:
            values[s.id] = self.accs[s.acc][1]
        elif kind is Init:
            start = values[s.start.id] if isinstance(s.start, Ref) else s.dtype.type(s.start)
            self.accs[s.acc] = [s.op, start]
        elif kind is Update:
            acc = self.accs[s.acc]
            value = values[s.value]
            acc[1] = value if acc[0] == "carry" else FUNCTIONS[acc[0]](acc[1], value)
        elif s.predicate is None or values[s.predicate]:
            memory, place = self.memory[s.buffer], self.at(s.index, s.scatter)
            assert 0 <= place < memory.size
            value = values[s.value]
            memory[place] = (
                value
                if s.mode == "set"
                else FUNCTIONS["add" if s.mode == "sum" else s.mode](memory[place], value)
            )

    def loop(self, s) -> None:
        if s.kind == "while":
            try:
                while True:
                    self.body(s.body)
            except Left:
                return
        for position in range(s.extent):
            self.axes[s.axis] = position
            self.body(s.body)

    def load(self, s):
        memory = self.memory[s.buffer]
        if s.predicate is not None and not self.values[s.predicate]:
            return memory.dtype.type(s.other)
        place = self.at(s.index, s.gather)
        assert 0 <= place < memory.size
        return memory[place]

    def op(self, s):
        args = [self.values[a] for a in s.args]
        if s.op == "select":
            return args[1] if args[0] else args[2]
        if s.op == "convert":
            return np.asarray(args[0]).astype(s.dtype)[()]
        return FUNCTIONS[s.op](*args).astype(s.dtype)


def run_native(kernel: Kernel, arrays: list[np.ndarray], pieces: int = 1) -> None:
    """Run a scheduled kernel on arrays, its outer range split into `pieces`."""
    function = KernelFunction(build_kernel(kernel))
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    extent, grain = outer_range(kernel)
    step = max(grain, -(-extent // pieces // grain) * grain)
    for lo in range(0, extent, step):
        function(pointers, lo, min(extent, lo + step))


def compare(kernel: Kernel, arrays: list[np.ndarray], rtol: float = 1e-5, pieces: int = 1) -> None:
    """Check, schedule, compile and run a kernel; every array must equal the oracle's."""
    check_kernel(kernel)
    scheduled = schedule(kernel)
    check_kernel(scheduled)
    expected = [a.copy() for a in arrays]
    actual = [a.copy() for a in arrays]
    Oracle(kernel, expected)
    run_native(scheduled, actual, pieces)
    for buffer, want, got in zip(kernel.buffers, expected, actual, strict=False):
        if want.dtype.kind == "f":
            scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
            atol = scale * rtol * (1e3 if want.dtype == np.float16 else 1)
            np.testing.assert_allclose(got, want, rtol, atol, err_msg=buffer.name)
        else:
            np.testing.assert_array_equal(got, want, err_msg=buffer.name)


def fill(rng: np.random.Generator, size: int, dtype: np.dtype) -> np.ndarray:
    """Random elements, small for integers and with a NaN now and then for floats."""
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, size).astype(dtype)
    return rng.standard_normal(size).astype(dtype)


def row_major(shape: tuple[int, ...]) -> list[int]:
    """Strides in elements of a contiguous array."""
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]
